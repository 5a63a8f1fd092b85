//! Systems other than Linux, and Miri. They have no notification of a set clock and no signal
//! masks, and only Windows has affinity.

use core::ffi::CStr;
use core::mem::ManuallyDrop;
use core::num::NonZeroU32;
use core::ptr::NonNull;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tickline_core::clocksource::{Acceptance, Clocksource};
use tickline_core::try_lock::LockToken;

use super::{STACK_BYTES, WakeCause};
use crate::settings::Probes;

#[cfg(all(windows, not(miri)))]
mod windows;
#[cfg(all(windows, not(miri)))]
pub(crate) use windows::{comparable_cpus, pin_this_thread};

/// The process id, which a forked child may share with an ancestor that has ended. WebAssembly has
/// no processes, and `id` panics there.
pub(crate) fn process_token() -> u64 {
    process_number().get().into()
}

/// The [`process_token`], as a number for locks.
pub(crate) fn process_number() -> NonZeroU32 {
    if cfg!(target_family = "wasm") {
        NonZeroU32::MIN
    } else {
        NonZeroU32::new(std::process::id()).unwrap_or(NonZeroU32::MIN)
    }
}

/// Unchanged: these systems do not say whether a thread has ended. If a thread ends while it holds
/// a lock, the lock stays held.
pub(crate) fn naming_this_thread(token: LockToken) -> LockToken {
    token
}

/// Does nothing: no file is read.
pub(crate) fn forbid_reading_files() {}

/// Maps nothing: no such device is known on these systems.
pub(crate) fn map_beginning(_: &CStr, _: impl FnOnce(NonNull<u8>) -> bool) -> Option<bool> {
    None
}

/// The token for the locks in this memory. On macOS and Windows it is the [`process_token`],
/// because no process there shares another's memory: a child of macOS's `vfork` may only call
/// `exec` or `_exit`. The BSDs have such processes (`rfork` with `RFMEM` on FreeBSD, `clone` on
/// NetBSD), and std does not distinguish them from a forked child. So all processes have the same
/// number, and a forked child does not take over a lock that was held at the fork, and reads the OS
/// clock.
pub(crate) fn lock_token() -> LockToken {
    let number = if cfg!(any(target_vendor = "apple", windows)) {
        process_number()
    } else {
        NonZeroU32::MIN
    };
    // SAFETY: 1. All threads that share this memory have the same number, as above. 2. A holder
    // runs tickline, std and the program's allocator, and none of them forks. 3. POSIX forbids a
    // program to fork in a signal handler and to return from it in the child.
    unsafe { LockToken::new(number) }
}

/// Does nothing: these systems have no fork token.
pub(crate) fn disable_fork_token() {}

/// The sleep of a [`BackgroundThread`](crate::background::BackgroundThread). It ends early when the
/// thread shall end.
#[derive(Debug, Default)]
pub struct StoppableSleep {
    stopped: Mutex<bool>,
    condition: Condvar,
}

impl StoppableSleep {
    pub(crate) fn notifying_clock_set() -> Self {
        Self::default()
    }

    pub(crate) fn plain() -> Self {
        Self::default()
    }

    /// Sleeps for `time`, or until the thread shall end.
    pub fn wait(&self, time: Duration) -> WakeCause {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let (stopped, _) = self
            .condition
            .wait_timeout_while(stopped, time, |stopped| !*stopped)
            .unwrap_or_else(PoisonError::into_inner);
        if *stopped {
            WakeCause::Stopped
        } else {
            WakeCause::Timeout
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_all();
    }

    /// Does nothing: there is no descriptor.
    #[expect(clippy::unused_self, reason = "other systems have one")]
    pub(crate) fn close(&self) {}
}

/// A running thread. Its drop does nothing: a forked child must not detach a thread that it does
/// not have.
#[derive(Debug)]
pub(crate) struct Thread(ManuallyDrop<JoinHandle<()>>);

impl Thread {
    pub(crate) fn spawn(
        name: Option<&'static CStr>,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        Self::spawn_with_stack(name, STACK_BYTES, work)
    }

    pub(crate) fn spawn_with_stack(
        name: Option<&'static CStr>,
        stack_bytes: usize,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        // With a size, std does not ask the environment for one, under a lock.
        let mut builder = Builder::new().stack_size(stack_bytes);
        if let Some(name) = name {
            builder = builder.name(name.to_string_lossy().into_owned());
        }
        builder
            .spawn(work)
            .map(|thread| Self(ManuallyDrop::new(thread)))
    }

    pub(crate) fn join(self) {
        ManuallyDrop::into_inner(self.0).join().ok();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }

    pub(crate) fn detach(self) {
        drop(ManuallyDrop::into_inner(self.0));
    }
}

/// The wait for a lock's release: a sleep before the next attempt. std has nothing to sleep on that
/// works in a forked child. A child's copy of a std `Mutex` may be held by a thread of the parent.
#[derive(Debug)]
pub(crate) struct Releases;

impl Releases {
    /// The holder creates or joins a thread, which seldom takes a millisecond.
    const SLEEP: Duration = Duration::from_millis(4);

    pub(crate) const fn new() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "Linux counts them")]
    pub(crate) fn count(&self) -> u32 {
        0
    }

    /// Returns the time of the sleep: a release in it is not noticed.
    #[expect(clippy::unused_self, reason = "Linux counts them")]
    pub(crate) fn wait(&self, _: u32) -> Option<Duration> {
        StoppableSleep::plain().wait(Self::SLEEP);
        Some(Self::SLEEP)
    }

    #[expect(clippy::unused_self, reason = "Linux counts them")]
    pub(crate) fn announce(&self) {}
}

/// A stand-in: these systems do not report that a thread was killed.
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

/// Does nothing: there are no signals to block, and no call here changes the program's last error.
#[derive(Debug)]
pub(crate) struct NoOp;

pub(crate) use NoOp as PreserveErrno;
pub(crate) use NoOp as SignalsBlocked;

impl NoOp {
    pub(crate) fn new() -> Self {
        Self
    }
}

/// Makes a call of `drop` meaningful, as on Linux.
impl Drop for NoOp {
    fn drop(&mut self) {}
}

/// CPU masks are not available, so there is no value of this type.
#[derive(Debug)]
pub(crate) enum CpuMask {}

impl CpuMask {
    pub(crate) fn for_current_thread() -> Option<Self> {
        None
    }

    pub(crate) fn contains(&self, _cpu: u32) -> bool {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) struct AffinityGuard(CpuMask);

impl AffinityGuard {
    pub(crate) fn new(mask: CpuMask) -> Self {
        Self(mask)
    }

    pub(crate) fn former(&self) -> &CpuMask {
        &self.0
    }

    pub(crate) fn pin(&mut self, _cpu: u32) -> bool {
        match self.0 {}
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

/// Unknown.
pub(crate) fn acceptance_of_counter() -> Acceptance {
    Acceptance::Unknown
}

/// What `convert` makes of the value that the variable `name` has now, or of `None` if it is not
/// set. Returns `None` on Unix.
///
/// On Unix a reading does not read the variable, because it may be in a signal handler: std's lock
/// could block the handler, and `getenv` takes no lock. The reading does not need the variable
/// there, because readings use the counter only on Linux and Windows.
pub(crate) fn variable_at_start<T>(
    name: &str,
    _: Probes,
    convert: impl FnOnce(Option<&[u8]>) -> T,
) -> Option<T> {
    if cfg!(unix) {
        return None;
    }
    let value = std::env::var_os(name);
    Some(convert(
        value.as_deref().map(std::ffi::OsStr::as_encoded_bytes),
    ))
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

/// Pinning is not available: returns `false`.
#[cfg(any(not(windows), miri))]
pub(crate) fn pin_this_thread(_: u32) -> bool {
    false
}
