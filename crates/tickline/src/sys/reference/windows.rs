//! Windows: `QueryPerformanceCounter`, as in `std::time::Instant`, and std's
//! `GetSystemTimePreciseAsFileTime`.
//!
//! The performance counter counts from the start of the machine, at a frequency that is fixed then.
//! Changes of the system's time do not affect it. On Windows XP and later neither of its two calls
//! fails. `GetSystemTimePreciseAsFileTime` exists from Windows 8 on, and returns Unix time in units
//! of 100 ns.

use core::sync::atomic::{AtomicU64, Ordering};

use tickline_core::reference::Reference;
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

use super::{OsClock, unix_ns_by_std};
use crate::sys::vmclock::VMCLOCK;

/// The frequency of the performance counter, Hz.
fn counts_per_second() -> u64 {
    static CACHED: AtomicU64 = AtomicU64::new(0);
    // ORDERING: Relaxed for both, a figure that publishes no other memory. All threads store the
    // same figure.
    let order = Ordering::Relaxed;
    let mut hz = CACHED.load(order);
    if hz == 0 {
        let mut asked = 0;
        // SAFETY: the number is valid for a write.
        unsafe { QueryPerformanceFrequency(&raw mut asked) };
        hz = u64::try_from(asked).unwrap_or(0);
        CACHED.store(hz, order);
    }
    hz
}

/// Converts counts to ns, rounded down. Errors do not add up, because each call converts the whole
/// count.
fn counts_to_ns(counts: i64) -> i64 {
    let parts = u128::from(counts.unsigned_abs()).saturating_mul(1_000_000_000);
    parts
        .checked_div(counts_per_second().into())
        .map_or(0, |ns| i64::try_from(ns).unwrap_or(i64::MAX))
}

impl Reference for OsClock {
    #[inline]
    fn monotonic_ns(&self) -> i64 {
        let mut counts = 0;
        // SAFETY: the number is valid for a write.
        unsafe { QueryPerformanceCounter(&raw mut counts) };
        counts_to_ns(counts)
    }

    #[inline]
    fn unix_ns(&self) -> i64 {
        unix_ns_by_std()
    }

    #[inline]
    fn disruption_marker(&self) -> Option<u64> {
        VMCLOCK.marker()
    }
}

impl OsClock {
    /// The performance counter's resolution, ns: 100 at 10 MHz. Some machines count at a 1,024th of
    /// the processor's frequency. Such a counter may be slower than 3.58 MHz, the rate that the
    /// gates assume if the clocksource is unknown.
    pub(crate) fn resolution_ns() -> i64 {
        // The time of one count, rounded up.
        counts_to_ns(1).saturating_add(1)
    }
}
