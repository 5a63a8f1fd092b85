//! macOS: `clock_gettime_nsec_np`, which libc serves without the kernel.
//!
//! The monotonic clock is `CLOCK_UPTIME_RAW`: the count of `mach_absolute_time`, in nanoseconds
//! (clock_gettime(3)). `std::time::Instant` uses the same clock, so readings are comparable with
//! other programs'. It stops while the machine sleeps, as Linux's `CLOCK_MONOTONIC` does, and is
//! never slewed. `CLOCK_MONOTONIC_RAW` would count sleep.

use tickline_core::reference::Reference;

use super::OsClock;
use crate::sys::vmclock::VMCLOCK;

unsafe extern "C" {
    /// A clock of this system, ns; 0 for an unknown one. Darwin's, since macOS 10.12.
    safe fn clock_gettime_nsec_np(clock: libc::clockid_t) -> u64;
}

impl Reference for OsClock {
    #[inline]
    fn monotonic_ns(&self) -> i64 {
        i64::try_from(clock_gettime_nsec_np(libc::CLOCK_UPTIME_RAW)).unwrap_or(i64::MAX)
    }

    #[inline]
    fn unix_ns(&self) -> i64 {
        i64::try_from(clock_gettime_nsec_np(libc::CLOCK_REALTIME)).unwrap_or(i64::MAX)
    }

    #[inline]
    fn disruption_marker(&self) -> Option<u64> {
        VMCLOCK.marker()
    }
}
