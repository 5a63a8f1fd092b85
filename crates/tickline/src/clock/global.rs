//! The global clock's thread, and the guards that keep it running.

use tickline_core::try_lock::{LockToken, TryLock};

use crate::engine::{Engine, GLOBAL, learn_environment};
use crate::error::{Error, ErrorKind};
use crate::options::{Driver, Settings};
use crate::sys::{self, Releases};
use crate::thread::ClockThread;

/// Starts a background thread for the global clock. Readers then no longer recalibrate. When the OS
/// clock is set, Unix time follows at once. The line stays published even if the program seldom
/// reads the time. The call is for programs, not for libraries: a library's readings use the thread
/// that the program has started.
///
/// If a comparison by the thread finds that the CPUs' counters differ, each CPU gets a line of its
/// own. Between two CPUs a reading, even an ordered one, may then step back by the sum of the two
/// bounds ([`LinePerCpu`](crate::LinePerCpu)). For the order on such machines, too, start the
/// thread with [`LinePerCpu::Off`](crate::LinePerCpu::Off): readings come from the OS clock there.
///
/// The thread wakes twice a second, and runs until the last guard is dropped. Further calls share
/// the thread. This call, and the drop of a guard, may wait for another thread; neither is for
/// signal handlers, nor for a seccomp filter that kills single threads for the calls of a start or
/// of a thread's end: a thread that is killed there blocks later starts and drops.
///
/// # Errors
///
/// [`ErrorKind::ThreadNotStarted`](crate::ErrorKind::ThreadNotStarted) if the system refuses to
/// create the thread. The clock works without it.
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
/// guard is dropped, the thread stops, and readers drive the clock again. In a forked child the
/// parent's guards have no effect. The drop joins the thread, and is not for signal handlers.
///
/// ```standalone_crate
/// # fn main() -> Result<(), tickline::Error> {
/// use tickline::{Clock, Driver};
///
/// let guard = tickline::start()?;
/// assert_eq!(Clock::global().status().driver, Driver::Thread);
/// drop(guard);
/// assert_eq!(Clock::global().status().driver, Driver::Reader);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the thread stops when the guard is dropped"]
pub struct ClockGuard {
    /// The id of the thread that this guard keeps running. Ids are never reused, so the guard of a
    /// killed or a parent's thread stops no later thread.
    thread: u64,
}

#[derive(Debug)]
struct GlobalThread {
    guards: usize,
    settings: Settings,
    /// Dropping it stops the thread.
    thread: ClockThread<&'static Engine>,
}

/// The global clock's thread, if it runs. Not a std `Mutex`: a child that is forked while another
/// thread holds the mutex would wait for a thread that the child does not have.
///
/// With minimal probes, and on systems other than Linux, the token of this lock is the process id.
/// Two processes in one memory (`clone` with `CLONE_VM`, without `CLONE_THREAD`; `rfork` with
/// `RFMEM`) then look like parent and child. A start in one forgets the other's thread, which keeps
/// running unjoined. Starts or stops in both at once are a data race, which such programs must
/// avoid. Readings are not affected: their locks have another token (`sys::lock_token`).
static GLOBAL_THREAD: TryLock<Option<GlobalThread>> = TryLock::new(None);

/// The releases of that lock.
static RELEASES: Releases = Releases::new();

/// Announces the release of the lock when it is dropped.
struct Announcement;

impl Drop for Announcement {
    fn drop(&mut self) {
        RELEASES.announce();
    }
}

/// Sleeps until the lock is free, and calls `work` with the global clock's thread; `None` if it
/// does not run in this process. Not for signal handlers: a handler that has interrupted the holder
/// would wait forever.
///
/// The release wakes a sleeper, so a thread with real-time priority does not starve while others
/// start and drop on its CPU. An attempt every few milliseconds found the lock taken for 20 s.
fn with_global_thread<R>(work: impl FnOnce(&mut Option<GlobalThread>) -> R) -> R {
    // Dropped after the guard.
    let _announcement = Announcement;
    let mut slot = loop {
        // Counted before the attempt: a release after it ends the wait.
        let releases = RELEASES.count();
        // If the lock was held at a fork, the value may be half written: overwrite it without a
        // drop.
        // SAFETY: `slot` is valid for a write, which neither reads nor drops the old value.
        let reset = |slot: &mut Option<GlobalThread>| unsafe { core::ptr::write(slot, None) };
        // SAFETY: the number is the same for all threads of this process, and differs from every
        // ancestor's. No signal handler calls this function.
        let token = unsafe { LockToken::new(sys::process_number()) };
        match GLOBAL_THREAD.try_lock(token, reset) {
            Some(slot) => break slot,
            None => RELEASES.wait(releases),
        }
    };
    if GLOBAL.driver() != Driver::Thread {
        drop(slot.take()); // in a forked child the thread does not exist, so the drop stops nothing
    }
    work(&mut slot)
}

impl ClockGuard {
    /// Starts or shares the thread. `None` accepts a running thread's settings, or takes the
    /// default.
    pub(crate) fn start(chosen: Option<Settings>) -> Result<Self, Error> {
        let settings = chosen.unwrap_or(Settings::DEFAULT);
        GLOBAL.restrict_probes(settings.probes); // first: the lock's token may map memory
        learn_environment(GLOBAL.probes());
        with_global_thread(|slot| {
            let running = if let Some(running) = slot {
                if let Some(difference) =
                    chosen.and_then(|wanted| running.settings.difference(&wanted))
                {
                    let text =
                        format!("the global clock's thread already runs, and its {difference}");
                    return Err(Error::new(ErrorKind::AlreadyRunning, text));
                }
                running.guards = running.guards.saturating_add(1);
                running
            } else {
                GLOBAL.apply(&settings);
                let thread = ClockThread::start(&GLOBAL, settings)
                    .inspect_err(|_| GLOBAL.apply(&Settings::DEFAULT))?;
                slot.insert(GlobalThread {
                    guards: 1,
                    settings,
                    thread,
                })
            };
            Ok(Self {
                thread: running.thread.id,
            })
        })
    }
}

impl Drop for ClockGuard {
    fn drop(&mut self) {
        with_global_thread(|slot| {
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
