//! The system calls that this crate makes itself. The clocks, the thread and its sleep are those of
//! `tickline`.
//!
//! Miri executes no system calls. Under Miri this is a system without a source.

#[cfg(all(target_os = "linux", not(miri)))]
#[path = "sys/linux.rs"]
mod system;
#[cfg(any(not(target_os = "linux"), miri))]
#[path = "sys/other.rs"]
mod system;

pub(crate) use system::{kernel_clock, map_beginning};

/// What the kernel says of its clock (adjtimex(2)), in 64 bits and one unit each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelClock {
    /// The correction of the clock's rate, ppb, without a slew of the offset.
    pub(crate) steering_ppb: i64,
    /// The offset that is left to slew away, ns.
    pub(crate) offset_ns: i64,
    /// The maximum error, us.
    pub(crate) maxerror_us: i64,
    /// The estimated error, us.
    pub(crate) esterror_us: i64,
    /// Whether the kernel says that its clock is synchronised.
    pub(crate) is_synchronised: bool,
    /// Whether the UTC day ends with a leap second.
    pub(crate) leap_second_today: bool,
    /// TAI minus UTC, s; 0 if the kernel does not know.
    pub(crate) tai_offset_s: i64,
}
