//! The OS clocks that tickline follows: one file for each kind of system.

use core::ffi::CStr;

use tickline_core::reference::Reference;

use crate::settings::Probes;
use crate::sys::vmclock::{VMCLOCK, VmClockMapping};

#[cfg(all(target_os = "linux", not(miri)))]
#[path = "reference/linux.rs"]
mod system;
#[cfg(all(target_os = "macos", not(miri)))]
#[path = "reference/macos.rs"]
mod system;
#[cfg(all(windows, not(miri)))]
#[path = "reference/windows.rs"]
mod system;
#[cfg(any(miri, not(any(target_os = "linux", target_os = "macos", windows))))]
#[path = "reference/other.rs"]
mod system;

/// The time of something that has not happened, by the OS clock, ns.
pub(crate) const NEVER_NS: i64 = i64::MIN;

/// The clocks of the OS, as tickline reads them: `CLOCK_MONOTONIC`, Unix time, the kernel's
/// steering and the time suspended, by the trait `tickline_core::reference::Reference`.
///
/// On Linux, a process that may not read the counter (`PR_SET_TSC`) reads these clocks by system
/// call, because the vDSO would read the counter for it. Other processes read them through libc.
///
/// ```
/// use tickline::backend::{OsClock, Reference};
///
/// let start_ns = OsClock.monotonic_ns();
/// assert!(OsClock.monotonic_ns() >= start_ns);
/// if let (Some(raw_ns), Some(suspended_ns)) = (OsClock::raw_ns(), OsClock.suspended_ns()) {
///     println!("{raw_ns} ns since the start without NTP, and {suspended_ns} ns suspended");
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct OsClock;

impl OsClock {
    /// The device of the first VMClock on Linux.
    pub const VMCLOCK: &CStr = c"/dev/vmclock0";

    /// Maps the VMClock of `device`, by which a hypervisor tells a guest that it was moved to
    /// another host or restored from a snapshot. The process maps one VMClock, and keeps it.
    ///
    /// [`disruption_marker`](tickline_core::reference::Reference::disruption_marker) is `None`
    /// while none is mapped. `tickline doctor` says why the first VMClock is unreadable.
    ///
    /// Each clock with full probes does this by itself with [`VMCLOCK`](Self::VMCLOCK), if the
    /// process may read it. A regular file of 4 KiB may stand for the device in a test; if it is
    /// truncated later, the next iteration raises SIGBUS. After a change of the device's disruption
    /// marker, the clock's next iteration forgets its samples, and its state is
    /// [`Disrupted`](crate::ClockState::Disrupted) for an interval.
    ///
    /// ```
    /// use tickline::backend::{OsClock, Reference, VmClockMapping};
    ///
    /// match OsClock::map_vmclock(c"/dev/vmclock1") {
    ///     VmClockMapping::Mapped => println!("marker {:?}", OsClock.disruption_marker()),
    ///     other => println!("not mapped: {other:?}"),
    /// }
    /// ```
    pub fn map_vmclock(device: &CStr) -> VmClockMapping {
        let _errno = crate::sys::PreserveErrno::new();
        VMCLOCK.map(device)
    }
}

/// The default for systems other than Windows.
#[cfg(not(all(windows, not(miri))))]
impl OsClock {
    /// The resolution of the monotonic clock, ns, if the gates can't derive it from the
    /// clocksource. On macOS it is 41.7 ns, at 24 MHz, which is less than the gates assume for an
    /// unknown clocksource.
    pub(crate) fn resolution_ns() -> i64 {
        0
    }
}

/// The defaults for systems other than Linux.
#[cfg(any(not(target_os = "linux"), miri))]
impl OsClock {
    /// Does nothing: the clock has only one route here.
    pub(crate) fn choose_libc() {}

    /// `CLOCK_MONOTONIC_RAW` of Linux, ns, which nobody steers; `None` on other systems.
    #[must_use]
    pub fn raw_ns() -> Option<i64> {
        None
    }
}

/// Unix time by std, ns; saturates in the years 1677 and 2262.
#[cfg(not(all(any(target_os = "linux", target_os = "macos"), not(miri))))]
fn unix_ns_by_std() -> i64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => {
            i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, i64::wrapping_neg)
        }
    }
}

/// Whether this system has a clock at all. If not, a reading is 0, and the state is
/// [`Unavailable`](crate::ClockState::Unavailable).
pub(crate) const HAS_CLOCK: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

/// [`OsClock`] for the control loop. With minimal probes two facts are unknown. One is how the
/// kernel steers the clock (`adjtimex`). The other is how long the machine was suspended: it needs
/// a third clock, which a seccomp filter may not allow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbedOsClock(pub(crate) Probes);

impl Reference for ProbedOsClock {
    fn monotonic_ns(&self) -> i64 {
        OsClock.monotonic_ns()
    }

    fn unix_ns(&self) -> i64 {
        OsClock.unix_ns()
    }

    fn steering_ppb(&self) -> Option<i64> {
        if self.0 == Probes::Full {
            OsClock.steering_ppb()
        } else {
            None
        }
    }

    fn suspended_ns(&self) -> Option<i64> {
        if self.0 == Probes::Full {
            OsClock.suspended_ns()
        } else {
            None
        }
    }

    fn disruption_marker(&self) -> Option<u64> {
        if self.0 == Probes::Full {
            OsClock.disruption_marker()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_minimal_probes_nothing_is_known_of_suspends() {
        assert_eq!(ProbedOsClock(Probes::Minimal).suspended_ns(), None);
    }

    #[test]
    fn with_minimal_probes_nothing_is_known_of_the_kernels_steering() {
        assert_eq!(ProbedOsClock(Probes::Minimal).steering_ppb(), None);
    }
}
