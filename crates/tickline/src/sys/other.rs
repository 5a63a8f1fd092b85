//! Systems without files of their own. They have no notice of a set clock, no signal masks, no
//! affinity.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tickline_core::gate::Clocksource;

use super::WakeCause;
use crate::options::{Environment, Probes};

#[cfg(all(windows, not(miri)))]
mod windows;
#[cfg(all(windows, not(miri)))]
pub(crate) use windows::{comparable_cpus, pin_this_thread};

/// The process id, which a forked child may share with an ancestor that has ended. WebAssembly has
/// no processes, and `id` panics there.
pub(crate) fn token() -> u64 {
    if cfg!(target_family = "wasm") { 1 } else { u64::from(std::process::id()).max(1) }
}

/// The same: nothing here distinguishes a forked child from a process that shares this memory.
pub(crate) fn lock_token() -> u64 {
    token()
}

/// No such device is known here.
#[cfg(feature = "utc")]
pub(crate) fn map_page(_: &core::ffi::CStr, _: impl FnOnce(core::ptr::NonNull<u8>) -> bool) {}

/// There is no such memory here.
pub(crate) fn disable_fork_token() {}

/// A sleep that another thread can end.
#[derive(Debug, Default)]
pub(crate) struct ClockSetNotifier {
    stopped: Mutex<bool>,
    condition: Condvar,
}

impl ClockSetNotifier {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn without_timer() -> Self {
        Self::default()
    }

    pub(crate) fn wait(&self, time: Duration) -> WakeCause {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let (stopped, _) = self
            .condition
            .wait_timeout_while(stopped, time, |stopped| !*stopped)
            .unwrap_or_else(PoisonError::into_inner);
        if *stopped { WakeCause::Stopped } else { WakeCause::Timeout }
    }

    pub(crate) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_all();
    }

    /// There is no descriptor.
    #[expect(clippy::unused_self, reason = "other systems have one")]
    pub(crate) fn close(&self) {}
}

/// Nobody sees whether a thread was killed.
#[derive(Debug)]
pub(crate) struct RobustFutex;

impl RobustFutex {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) fn owner_died(&self) -> bool {
        false
    }

    pub(crate) fn clear(&self) {}

    pub(crate) fn hold(&self) -> Option<()> {
        None
    }
}

/// There are no signals to block, and no call here changes an error that a program is about to
/// read.
#[derive(Debug)]
pub(crate) struct NoOp;

pub(crate) use NoOp as PreserveErrno;
pub(crate) use NoOp as SignalsBlocked;

impl NoOp {
    pub(crate) fn new() -> Self {
        Self
    }
}

/// So that `drop` is a use of it, as it is elsewhere.
impl Drop for NoOp {
    fn drop(&mut self) {}
}

/// Not available, so there is no value of this type.
#[derive(Debug)]
pub(crate) enum CpuMask {}

impl CpuMask {
    pub(crate) fn for_current_thread() -> Option<Self> {
        None
    }

    pub(crate) fn contains(&self, _cpu: usize) -> bool {
        match *self {}
    }

    pub(crate) fn restore(&self) {
        match *self {}
    }
}

/// Unknown.
pub(crate) fn cpu_ids() -> Option<usize> {
    None
}

/// Unknown.
pub(crate) fn clocksource() -> Clocksource {
    Clocksource::Unknown
}

/// There is no such file.
pub(crate) fn find_clocksource() {}

/// Unknown.
pub(crate) fn is_accepted() -> Option<bool> {
    None
}

/// What the variable says at the first reading, where there are no signal handlers.
///
/// On Unix a reading does not ask for the variable: the reading may be in a signal handler, which
/// std's lock could stop, and `getenv` has none. A reading does not need to know it there, because no
/// system but Linux and Windows lets the counter serve.
pub(crate) fn environment_at_start(_: Probes) -> Option<Environment> {
    if cfg!(unix) { None } else { Some(Environment::through_std()) }
}

/// The system has no way to deny the counter.
pub(crate) fn may_read_counter() -> bool {
    true
}

/// Unknown. macOS does not let a thread choose its CPU.
#[cfg(any(not(windows), miri))]
pub(crate) fn comparable_cpus() -> Vec<u32> {
    Vec::new()
}

/// Not available.
#[cfg(any(not(windows), miri))]
pub(crate) fn pin_this_thread(_: u32) -> bool {
    false
}
