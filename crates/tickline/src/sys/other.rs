//! Systems without a file of their own: no notice of a set clock, no signal masks.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The process id: this cannot tell a forked child whose id was used before. WebAssembly has no processes, and asking panics.
pub(crate) fn token() -> u64 {
    if cfg!(target_family = "wasm") { 1 } else { u64::from(std::process::id()).max(1) }
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
    /// Somebody stopped [`ClockSetNotifier::stop`].
    Stopped,
}

/// A timer that can be cut short.
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

/// It ends when it is dropped, as elsewhere, though nothing has to be done for it.
impl Drop for SignalsBlocked {
    fn drop(&mut self) {}
}

/// Not available.
pub(crate) fn make_realtime(_: &JoinHandle<()>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing here changes what a program sees of an earlier call.
#[derive(Debug)]
pub(crate) struct PreserveErrno;

impl PreserveErrno {
    pub(crate) fn new() -> Self {
        Self
    }
}

/// Not available: there is no value of this type.
#[derive(Debug)]
pub(crate) enum CpuMask {}

impl CpuMask {
    pub(crate) fn of_this_thread() -> Option<Self> {
        None
    }

    pub(crate) fn only(_cpu: usize) -> Option<Self> {
        None
    }

    pub(crate) fn contains(&self, _cpu: usize) -> bool {
        match *self {}
    }

    pub(crate) fn apply(&self) -> bool {
        match *self {}
    }

    pub(crate) fn restore(&self) {
        match *self {}
    }
}

/// Not known.
pub(crate) fn cpu_ids() -> Option<usize> {
    None
}

/// Nobody can deny the counter here.
pub(crate) fn counter_readable() -> bool {
    true
}
