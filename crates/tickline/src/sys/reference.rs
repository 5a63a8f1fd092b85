//! The OS clocks that tickline follows: one file for each kind of system.

use tickline_core::sample::Reference;

use crate::options::Probes;

#[cfg(all(target_os = "linux", not(miri)))]
#[path = "reference/linux.rs"]
pub(crate) mod system;
#[cfg(all(target_os = "macos", not(miri)))]
#[path = "reference/macos.rs"]
mod system;
#[cfg(all(windows, not(miri)))]
#[path = "reference/windows.rs"]
mod system;
#[cfg(any(miri, not(any(target_os = "linux", target_os = "macos", windows))))]
#[path = "reference/other.rs"]
mod system;

#[cfg(all(windows, not(miri)))]
pub(crate) use system::resolution_ns;
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use system::{trust_libc, utc_error_ns};

/// The monotonic clock and Unix time, as the file of this system reads them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OsClock;

/// The resolution of the monotonic clock, ns, where the gates do not know it from the clocksource.
/// On macOS it is 41.7 ns, at 24 MHz: less than the gates assume where that is unknown.
#[cfg(not(all(windows, not(miri))))]
pub(crate) fn resolution_ns() -> i64 {
    0
}

/// Unix time by std, ns; saturates in the years 1677 and 2262.
#[cfg(not(all(any(target_os = "linux", target_os = "macos"), not(miri))))]
fn unix_ns_by_std() -> i64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, i64::wrapping_neg),
    }
}

/// There is no other clock here.
#[cfg(any(not(target_os = "linux"), miri))]
pub(crate) fn trust_libc() {}

/// Unknown.
#[cfg(any(not(target_os = "linux"), miri))]
pub(crate) fn utc_error_ns() -> Option<u64> {
    None
}

/// Whether this system has a clock at all. If not, a reading is 0, and the state is
/// [`Unavailable`](crate::State::Unavailable).
pub(crate) const HAS_CLOCK: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

/// [`OsClock`] as the control loop sees it. With minimal probes two things are unknown. One is how
/// the kernel steers the clock (`adjtimex`). The other is how long the machine was suspended: a
/// third clock tells it, and a seccomp filter may not allow that clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Followed(pub(crate) Probes);

impl Reference for Followed {
    fn monotonic_ns(&self) -> i64 {
        OsClock.monotonic_ns()
    }

    fn realtime_ns(&self) -> i64 {
        OsClock.realtime_ns()
    }

    fn steering_ppb(&self) -> Option<i64> {
        if self.0 == Probes::Full { OsClock.steering_ppb() } else { None }
    }

    fn suspended_ns(&self) -> Option<i64> {
        if self.0 == Probes::Full { OsClock.suspended_ns() } else { None }
    }
}
