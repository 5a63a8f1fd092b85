//! The global clock's thread, and the guards that keep it running.

use core::time::Duration;
use std::thread::ThreadId;

use tickline_core::try_lock::TryLock;

use crate::engine::{Engine, GLOBAL};
use crate::error::{Error, ErrorKind};
use crate::options::{Driver, Settings};
use crate::sys::{self, ClockSetNotifier};
use crate::thread::ClockThread;
use crate::trust::facts::learn_environment;

/// Gives the global clock a background thread. Then no reader recalibrates. Unix time follows at
/// once when somebody sets the OS clock. The line stays ready however rarely the program reads the
/// time. The program calls this, not a library: a library's readings use the thread that the
/// program has started.
///
/// The thread wakes twice a second, and runs until the last guard is dropped. Further calls share
/// the thread. This call, and the drop of a guard, may wait for another thread. Do not make either
/// in a signal handler.
///
/// # Errors
///
/// [`ErrorKind::Thread`](crate::ErrorKind::Thread) if the thread cannot be made; the clock works
/// all the same.
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

/// Keeps the global clock's thread running. [`start`](crate::start) makes one. When the last one is
/// dropped, the thread stops, and readers drive the clock again. In a forked child the parent's
/// guards have no effect. The drop joins the thread, and is not for signal handlers.
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
    /// The thread that the guard keeps running. No later thread has the same id, whether a filter
    /// has killed this one or the process was forked.
    thread: Option<ThreadId>,
}

#[derive(Debug)]
struct GlobalThread {
    guards: usize,
    settings: Settings,
    /// Its drop stops the thread.
    thread: ClockThread<&'static Engine>,
}

/// std's `Mutex` does not serve: a child that was forked while another thread held it would wait for a
/// thread that it does not have.
///
/// With minimal probes the token of this lock is the process's id. Two processes that share one
/// memory (`clone` with `CLONE_VM`, without `CLONE_THREAD`) then look like parent and child. If both
/// start or stop the global clock at once, one process takes the lock over from the other. The
/// clock's thread may then keep running unjoined. Readings are not affected: their locks have another
/// token (`sys::lock_token`).
static GLOBAL_THREAD: TryLock<Option<GlobalThread>> = TryLock::new(None);

/// The pause between two tries to get the lock. Its holder makes or joins a thread.
const LOCK_RETRY: Duration = Duration::from_millis(1);

/// Does `work` with the global clock's thread, if that is in this process, under its lock, for which
/// this waits asleep. Forgets what a `fork` has left behind. Not for signal handlers: a handler that
/// has interrupted the holder would wait for it.
fn with_global_thread<R>(work: impl FnOnce(&mut Option<GlobalThread>) -> R) -> R {
    // Sleeps without reading the clock.
    let notifier = ClockSetNotifier::without_timer();
    let mut slot = loop {
        // Where another process has left the lock behind, the content may be half changed: it is
        // forgotten, not dropped.
        // SAFETY: valid for a write. Nothing reads or drops the half-written value.
        let reset = |slot: &mut Option<GlobalThread>| unsafe { core::ptr::write(slot, None) };
        // SAFETY: the token is the same for all threads of this process, and unlike that of any
        // ancestor; this is not for signal handlers.
        match unsafe { GLOBAL_THREAD.try_lock(sys::token(), reset) } {
            Some(slot) => break slot,
            None => notifier.wait(LOCK_RETRY),
        };
    };
    if GLOBAL.driver() != Driver::Thread {
        drop(slot.take()); // in a child there is nothing to stop
    }
    work(&mut slot)
}

impl ClockGuard {
    /// With these settings; `None` takes those of the thread that runs, or the default.
    pub(crate) fn start(chosen: Option<Settings>) -> Result<Self, Error> {
        let settings = chosen.unwrap_or(Settings::DEFAULT);
        GLOBAL.restrict_probes(settings.probes); // before the lock, which asks for the process's token
        // Reads the environment on this thread, through std if need be. A reading that could not has
        // taken `TICKLINE` for unset.
        if learn_environment(GLOBAL.probes()) {
            GLOBAL.request_judgement();
        }
        with_global_thread(|slot| {
            let running = if let Some(running) = slot {
                if let Some(difference) = chosen.and_then(|wanted| running.settings.difference(&wanted)) {
                    let text = format!("the global clock's thread already runs, and its {difference}");
                    return Err(Error::new(ErrorKind::AlreadyRunning, text));
                }
                running.guards = running.guards.saturating_add(1);
                running
            } else {
                GLOBAL.apply(&settings);
                let thread = ClockThread::start(&GLOBAL, settings)
                    .inspect_err(|_| GLOBAL.apply(&Settings::DEFAULT))?;
                slot.insert(GlobalThread { guards: 1, settings, thread })
            };
            Ok(Self { thread: running.thread.id() })
        })
    }
}

impl Drop for ClockGuard {
    fn drop(&mut self) {
        with_global_thread(|slot| {
            let running = slot.as_mut().filter(|running| running.thread.id() == self.thread);
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
