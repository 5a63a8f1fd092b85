//! The global clock's thread, and the guards that keep it running.
//!
//! - **Starting and dropping are the only calls that wait for another thread.** They sleep until
//!   the lock of the global clock's thread is released, which wakes the sleeper with the highest
//!   priority. A start waits until the thread has begun, and a drop joins it. There is no priority
//!   inheritance: a third thread between the two priorities can keep the holder from its CPU.
//!   Starts and drops are not for signal handlers.
//! - **A start or a drop that is killed costs the clock nothing.** It may leave a registered thread
//!   that never begins: readers then drive the clock. Or it leaves a running thread without a
//!   handle: the next start or drop takes the lock over and unregisters that thread, which ends.
//!   Guards of that thread have no effect any more.

use core::time::Duration;

use tickline_core::try_lock::{LockGuard, TryLock};

use crate::engine::{Engine, GLOBAL, obey_environment};
use crate::error::{Error, ErrorKind};
use crate::settings::Settings;
use crate::sys::{self, Releases};
use crate::thread::ClockThread;

/// Starts a background thread for the global clock. Readers then no longer recalibrate. When the OS
/// clock is set, Unix time follows: on Linux with full probes at once, otherwise at the next
/// recalibration. The line stays published even if the program seldom reads the time. The call is
/// for programs, not for libraries: a library's readings use the thread that the program has
/// started.
///
/// If a comparison by the thread finds that the CPUs' counters differ, each CPU gets a line of its
/// own. The order of readings is then weaker, also of ordered ones
/// ([`LinePerCpu`](crate::LinePerCpu)). For the order on such machines, too, call
/// `Clock::builder().line_per_cpu(LinePerCpu::Off).start_global()` in its place, before any other
/// start: readings come from the OS clock there.
///
/// The thread wakes twice a second, and runs until the last guard is dropped: a plugin drops its
/// guards before it is unloaded ([Plugins](crate#plugins)). Further calls share the thread. This
/// call, and the drop of a guard, may wait for another thread. Neither is for signal handlers. If a
/// seccomp filter kills single threads in these calls, the filter must allow the calls: with
/// [`Probes::Minimal`](crate::Probes::Minimal) no thread learns of such a death, so later starts
/// fail, and later drops wait for ever.
///
/// A forked child does not have the thread. Readers drive its clock, without further calls, and its
/// parent's guards have no effect. For a thread of its own, the child calls `start` again.
///
/// # Errors
///
/// The clock works without the thread.
///
/// - [`ThreadNotStarted`](crate::ErrorKind::ThreadNotStarted): the system refuses to create the
///   thread, or a filter kills it before it begins.
/// - [`TimedOut`](crate::ErrorKind::TimedOut): another thread's start or drop has not ended for 5
///   s. A later call may succeed. None does with [`Probes::Minimal`](crate::Probes::Minimal) if that
///   thread was killed, or in a child that was forked meanwhile.
///
/// ```
/// # fn main() -> Result<(), tickline::Error> {
/// let _thread = tickline::start()?;
/// // ... the program ...
/// # Ok(())
/// # }
/// ```
pub fn start() -> Result<ClockGuard, Error> {
    ClockGuard::start(None)
}

/// Keeps the global clock's thread running. [`start`](crate::start) returns a guard. When the last
/// guard is dropped, the thread stops, and readers drive the clock again. Bind the guard to a name:
/// `let _ = start()` drops it at once. In a forked child the parent's guards have no effect.
///
/// The drop of the last guard joins the thread. Every drop may wait for another thread's start or
/// drop, and none is for signal handlers.
///
/// ```standalone_crate
/// # fn main() -> Result<(), tickline::Error> {
/// use tickline::{Clock, Driver};
///
/// let guard = tickline::start()?;
/// assert_eq!(Clock::global().status().driver, Some(Driver::Thread));
/// drop(guard);
/// assert_eq!(Clock::global().status().driver, Some(Driver::Reader));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the thread stops when the guard is dropped: bind it to a name such as `_thread`; `let _ =` drops it at once"]
pub struct ClockGuard {
    /// The id of the thread that this guard keeps running. Ids are never reused, so the guard of a
    /// killed or a parent's thread stops no later thread.
    thread: u64,
    /// The token of the process that made this guard.
    process: u64,
}

#[derive(Debug)]
struct GlobalThread {
    guards: usize,
    settings: Settings,
    /// The call that started the thread, for an error's text.
    started_by: &'static str,
    /// Dropping it stops the thread.
    thread: ClockThread<&'static Engine>,
}

/// The names of the calls that start the global clock's thread.
const START: &str = "tickline::start";
const START_GLOBAL: &str = "ClockBuilder::start_global";

/// The global clock's thread, if it runs. Not a std `Mutex`: a child that is forked while another
/// thread holds the mutex would wait for a thread that the child does not have.
///
/// The lock has the token of this memory ([`sys::lock_token`]), so two processes in one memory
/// (`clone` with `CLONE_VM`, without `CLONE_THREAD`) exclude each other, too. With minimal probes,
/// and on some systems other than Linux, all processes have the same token. A lock that was held at
/// a fork then stays held in the child, where a start gives up. And two processes in one memory
/// look like parent and child: a start in one forgets the other's thread, which then ends unjoined.
static GLOBAL_THREAD: TryLock<Option<GlobalThread>> = TryLock::new(None);

/// The releases of that lock.
static RELEASES: Releases = Releases::new();

/// The lock while it is held. The fields are dropped in this order: the release, then its
/// announcement.
struct LockedGlobalThread {
    slot: LockGuard<'static, Option<GlobalThread>>,
    _announcement: Announcement,
}

/// Announces the release of the lock when it is dropped.
struct Announcement;

impl Drop for Announcement {
    fn drop(&mut self) {
        RELEASES.announce();
    }
}

/// The time without a release after which a start gives up. By then the holder is stopped, or died
/// where no one can tell.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// Takes the lock if it is free, or if its holder is gone. The value may then be half written, and
/// a thread may be registered that has never begun. The takeover forgets it; if it runs, it ends.
fn try_global_thread() -> Option<LockedGlobalThread> {
    let reset = |slot: &mut Option<GlobalThread>| {
        // SAFETY: `slot` is valid for a write, which neither reads nor drops the old value.
        unsafe { core::ptr::write(slot, None) };
        GLOBAL.registration.unregister();
    };
    let slot = GLOBAL_THREAD.try_lock(sys::lock_token(), reset)?;
    Some(LockedGlobalThread {
        slot,
        _announcement: Announcement,
    })
}

/// Sleeps until the lock is free, and calls `work` with the global clock's thread; `None` there if
/// it does not run in this process. Returns `None` if nobody releases the lock for `patience`. Not
/// for signal handlers: a handler that has interrupted the holder would wait in vain.
///
/// The release wakes a sleeper, so a thread with real-time priority does not starve while others
/// start and drop on its CPU. Rejected: an attempt every few milliseconds, because it found the
/// lock taken each time for 20 s.
fn with_global_thread<R>(
    patience: Duration,
    work: impl FnOnce(&mut Option<GlobalThread>) -> R,
) -> Option<R> {
    let mut in_vain = Duration::ZERO;
    let mut held = loop {
        // Counted before the attempt: a release after it ends the wait.
        let releases = RELEASES.count();
        if let Some(held) = try_global_thread() {
            break held;
        }
        if in_vain >= patience {
            return None;
        }
        let waited = RELEASES.wait(releases);
        in_vain = waited.map_or(Duration::ZERO, |time| in_vain.saturating_add(time));
    };
    if let Some(running) = &*held.slot
        && running.thread.is_gone()
    {
        // In a forked child the thread does not exist, so the drop stops nothing.
        drop(held.slot.take());
    }
    Some(work(&mut held.slot))
}

impl ClockGuard {
    /// Starts or shares the thread. `None` accepts a running thread's settings, or takes the
    /// default.
    pub(crate) fn start(chosen: Option<Settings>) -> Result<Self, Error> {
        let settings = chosen.unwrap_or(Settings::DEFAULT);
        let this_call = match chosen {
            None => START,
            Some(_) => START_GLOBAL,
        };
        // First, because the token of a process may be a system call.
        GLOBAL.restrict_probes(settings.probes);
        obey_environment(GLOBAL.probes()); // a judgement may not wait for `set_var`
        let started = with_global_thread(START_PATIENCE, |slot| {
            let running = if let Some(running) = slot {
                if let Some(difference) =
                    chosen.and_then(|wanted| running.settings.difference(&wanted))
                {
                    let remedy = if running.started_by == START {
                        "call `ClockBuilder::start_global` before it"
                    } else {
                        "give both calls the same settings"
                    };
                    let text = format!(
                        "`{}` has started the global clock's thread, and its {difference}: \
                         {remedy}, or drop every guard before this call. To share the thread as \
                         it is, call `tickline::start`",
                        running.started_by
                    );
                    return Err(Error::new(ErrorKind::AlreadyRunning, text));
                }
                running.guards = running.guards.saturating_add(1);
                running
            } else {
                GLOBAL.apply(&settings);
                let thread = ClockThread::start(&GLOBAL, settings).map_err(|error| {
                    GLOBAL.apply(&Settings::DEFAULT);
                    error.with_remedy("readers drive the clock without it")
                })?;
                slot.insert(GlobalThread {
                    guards: 1,
                    settings,
                    started_by: this_call,
                    thread,
                })
            };
            Ok(Self {
                thread: running.thread.id,
                process: sys::process_token(),
            })
        });
        started.unwrap_or_else(|| {
            let text = format!(
                "gave up after {START_PATIENCE:?}: another thread is starting or ending the global \
                 clock's thread, so call again; or it was killed, or this process was forked \
                 meanwhile, and then no further call helps. Readers drive the clock while it has no thread"
            );
            Err(Error::new(ErrorKind::TimedOut, text))
        })
    }
}

impl Drop for ClockGuard {
    fn drop(&mut self) {
        // A child waits for no lock: it may have been held at the fork, and the guard does nothing
        // there. In this process the holder is a thread, which releases the lock.
        let patience = if self.process == sys::process_token() {
            Duration::MAX
        } else {
            Duration::ZERO
        };
        with_global_thread(patience, |slot| {
            let running = slot
                .as_mut()
                .filter(|running| running.thread.id == self.thread);
            let Some(running) = running else { return };
            running.guards = running.guards.saturating_sub(1);
            if running.guards == 0 {
                let last = slot.take();
                GLOBAL.apply(&Settings::DEFAULT);
                drop(last); // under the lock, so that the next start finds no thread
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: starts that gave up one after the other made each other wait longer than 5 s.
    #[test]
    fn a_start_that_gives_up_announces_no_release() {
        let held = GLOBAL_THREAD.try_lock(sys::lock_token(), |_| ());
        let before = RELEASES.count();
        assert_eq!(with_global_thread(Duration::ZERO, |_| ()), None);
        assert_eq!(RELEASES.count(), before);
        drop(held);
    }
}
