//! Systems without a file of their own: no notice of a set clock, no signal masks.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The process id: this cannot tell a forked child whose id was used before.
pub(crate) fn token() -> u64 {
    u64::from(std::process::id()).max(1)
}

/// There is no page to do without.
pub(crate) fn forgo_page() {}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The time is up.
    Timeout,
    /// The clock was set: never noticed here.
    #[expect(dead_code, reason = "this system sends no notice")]
    ClockSet,
    /// Somebody stopped [`Notice::stop`].
    Stopped,
}

/// A timer that can be cut short.
#[derive(Debug, Default)]
pub(crate) struct Notice {
    stopped: Mutex<bool>,
    condition: Condvar,
}

impl Notice {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn without_timer() -> Self {
        Self::default()
    }

    pub(crate) fn wait(&self, time: Duration) -> Woken {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let (stopped, _) = self
            .condition
            .wait_timeout_while(stopped, time, |stopped| !*stopped)
            .unwrap_or_else(PoisonError::into_inner);
        if *stopped { Woken::Stopped } else { Woken::Timeout }
    }

    pub(crate) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_all();
    }
}

/// Nothing to block.
#[derive(Debug)]
pub(crate) struct SignalsBlocked;

impl SignalsBlocked {
    pub(crate) fn new() -> Self {
        Self
    }
}

/// Not available.
pub(crate) fn prefer_realtime() {}

/// Nobody can say.
pub(crate) fn comparable_cpus() -> Vec<u32> {
    Vec::new()
}

/// Not available.
pub(crate) fn pin_this_thread(_: u32) -> bool {
    false
}

/// Nothing here changes what a program sees of an earlier call.
#[derive(Debug)]
pub(crate) struct PreserveErrno;

impl PreserveErrno {
    pub(crate) fn new() -> Self {
        Self
    }
}
