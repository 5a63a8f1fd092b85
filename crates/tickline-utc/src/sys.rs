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

use tickline_core::reference::steering_from_timex_ppb;

pub(crate) use system::{ClockDevice, ManagementSocket};

/// The estimated error before any daemon has set it, us (`NTP_PHASE_LIMIT` in
/// `include/linux/timex.h`).
pub const UNSET_ERROR_US: i64 = 16_000_000;

// Bits of the status, and two states (`include/uapi/linux/timex.h`).
pub(crate) const STA_INS: i32 = 0x10;
const STA_DEL: i32 = 0x20;
pub(crate) const STA_UNSYNC: i32 = 0x40;
const TIME_WAIT: i32 = 4;
const TIME_ERROR: i32 = 5;

/// What the kernel says of its clock (adjtimex(2)), in 64 bits and one unit each.
#[derive(Debug, Clone, Copy)]
pub struct KernelClock {
    /// The correction of the clock's rate, ppb, without the correction by the tick.
    pub frequency_ppb: i64,
    /// The length of a hundredth of a second, us.
    pub tick_us: i64,
    /// The offset that is left to slew away, ns.
    pub offset_ns: i64,
    /// The time constant of that slew.
    pub time_constant: i64,
    /// The maximum error, us.
    pub maxerror_us: i64,
    /// The estimated error, us; [`UNSET_ERROR_US`] until a daemon sets it.
    pub esterror_us: i64,
    /// The bits of the status (`STA_PLL` and others).
    pub status: i32,
    /// The state that the call has returned (`TIME_OK` and others).
    pub state: i32,
    /// TAI minus UTC, s; 0 if the kernel does not know.
    pub tai_offset_s: i64,
}

impl KernelClock {
    /// What the kernel says at present; `None` if it may not be asked, or is not Linux.
    #[must_use]
    pub fn read() -> Option<Self> {
        system::kernel_clock()
    }

    /// The correction of the clock's rate, ppb, without a slew of the offset.
    pub(crate) fn steering_ppb(&self) -> i64 {
        steering_from_timex_ppb(self.frequency_ppb, self.tick_us)
    }

    /// Whether the kernel says that its clock is synchronised.
    #[must_use]
    pub fn is_synchronised(&self) -> bool {
        self.state != TIME_ERROR && self.status & STA_UNSYNC == 0
    }

    /// Whether the UTC day ends with a leap second.
    #[must_use]
    pub fn leap_second_today(&self) -> bool {
        self.state != TIME_WAIT && self.status & (STA_INS | STA_DEL) != 0
    }

    /// The estimated error, us; `None` if no daemon has set it. phc2sys and OpenNTPD set the
    /// maximum error only (`sysclk_set_sync` in linuxptp's `clockadj.c`).
    #[must_use]
    pub fn set_esterror_us(&self) -> Option<i64> {
        set_esterror_us(self.esterror_us)
    }
}

/// An estimated error, us; `None` if it is the one with which the kernel starts.
#[must_use]
pub fn set_esterror_us(esterror_us: i64) -> Option<i64> {
    if esterror_us == UNSET_ERROR_US {
        return None;
    }
    Some(esterror_us)
}
