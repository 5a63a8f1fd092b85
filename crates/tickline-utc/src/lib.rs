#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use core::num::NonZeroU16;

mod claim;
mod claim_maker;
mod history;
mod latch;
mod moment;
mod rate;
mod source;

pub use claim_maker::ClaimMaker;
pub use latch::{ClaimLatch, RawMoment};
pub use moment::Moment;
pub use source::{Answers, KernelClock, chronyd};

/// The marker of a machine whose hypervisor offers none ([`Moment::marker`]).
pub const NO_MARKER: u64 = u64::MAX;

/// The earliest and the latest time that UTC can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UtcBounds {
    /// UTC is not before this time, ns since 1970.
    pub earliest_ns: u64,
    /// UTC is not after this time, ns since 1970.
    pub latest_ns: u64,
    /// TAI minus UTC, s; `None` if the kernel does not know.
    pub tai_offset_s: Option<NonZeroU16>,
    /// The source of the claim.
    pub source: ClaimSource,
}

/// Who states UTC, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimSource {
    /// The daemon of clock-bound, through its segment in shared memory.
    ClockBound,
    /// chronyd, through its command port.
    Chronyd,
    /// The kernel's maximum error.
    Kernel,
}

/// Why there is no claim, so that UTC is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoClaim {
    /// No source has answered.
    NoSource,
    /// The source says that the clock is not synchronised.
    Unsynchronised,
    /// The last claim has ended, and there is no newer one.
    Expired,
    /// No source is believed since a disruption (the head of `history.rs`).
    Disrupted,
    /// A leap second is near.
    LeapSecond,
}
