//! A stamp of the present, to be converted later.

/// A moment by one clock: what [`Clock::ticks`](crate::Clock::ticks) returns, 8 bytes.
///
/// It holds ticks of the counter, or, with the top bit set, ns of the OS clock. Only the clock that
/// made it can tell what time it is ([`ticks_to_ns`](crate::Clock::ticks_to_ns)), and how far two
/// are from each other ([`ticks_between_ns`](crate::Clock::ticks_between_ns)). Stamps have no order
/// of their own.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tickline::{Clock, Stamp};
///
/// static LAST: AtomicU64 = AtomicU64::new(0);
///
/// LAST.store(Clock::global().ticks().to_bits(), Ordering::Relaxed);
/// let last = Stamp::from_bits(LAST.load(Ordering::Relaxed));
/// println!("{} ns", Clock::global().ticks_to_ns(last));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Stamp(u64);

impl Stamp {
    /// The stamp with these bits, which [`to_bits`](Self::to_bits) returned. Bits without the top
    /// one are ticks of the counter.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits, to store the stamp.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}
