//! The global clock's thread, and the guards that keep it running.

use core::{mem, ptr};
use std::thread;

use tickline_core::try_lock::{self, TryLock};

use crate::engine::{Engine, GLOBAL};
use crate::error::Error;
use crate::options::{Driver, Probes, Settings};
use crate::sys;
use crate::thread::Recalibrator;

/// Gives the global clock a background thread. Then no reader recalibrates, Unix time follows at
/// once when somebody sets the OS clock, and the line stays ready however rarely the program reads
/// it.
///
/// The thread wakes twice a second, and runs until the last guard is dropped. A further call shares
/// it.
///
/// # Errors
///
/// [`ErrorKind::Thread`](crate::ErrorKind::Thread) if the thread cannot be made; the clock works
/// all the same.
///
/// ```
/// # fn main() -> Result<(), tickline::Error> {
/// let _clock = tickline::start()?;
/// // ... the program ...
/// # Ok(())
/// # }
/// ```
pub fn start() -> Result<ClockGuard, Error> {
    ClockGuard::start_default()
}

/// Keeps the global clock's thread running. [`start`](crate::start) makes one. When the last one is
/// dropped, the thread stops, and readers drive the clock again. In a forked child the parent's
/// guards have no effect.
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
    /// The process that made the guard.
    token: u64,
}

#[derive(Debug)]
struct GlobalThread {
    guards: usize,
    settings: Settings,
    /// Held for its drop, which stops the thread.
    _thread: Recalibrator<&'static Engine>,
}

/// Not a mutex: if another thread held it at a fork, the child would wait for ever.
static GLOBAL_THREAD: TryLock<Option<GlobalThread>> = TryLock::new(None);

/// The global clock's thread, if it is in this process, under its lock. Forgets what a `fork` has
/// left behind.
fn global_thread() -> try_lock::LockGuard<'static, Option<GlobalThread>> {
    loop {
        // SAFETY: the token is the same for all threads of this process, and unlike that of any
        // ancestor; starting and dropping are not for signal handlers.
        if let Some(mut slot) = unsafe { GLOBAL_THREAD.try_lock(sys::token()) } {
            if slot.was_abandoned() {
                // SAFETY: valid for a write. Another process may have left a half-written value, so
                // nothing reads or drops it.
                unsafe { ptr::write(&raw mut *slot, None) };
            } else if GLOBAL.driver() != Driver::Thread {
                mem::forget(slot.take());
            }
            return slot;
        }
        thread::yield_now();
    }
}

impl ClockGuard {
    pub(crate) fn start_default() -> Result<Self, Error> {
        let mut slot = global_thread();
        match slot.as_mut() {
            Some(running) => Ok(Self::share(running)),
            None => Self::launch(&mut slot, Settings::DEFAULT),
        }
    }

    pub(crate) fn start(settings: Settings) -> Result<Self, Error> {
        if settings.probes == Probes::Minimal {
            GLOBAL.restrict_probes(); // before the lock, which asks for the process's token
        }
        let mut slot = global_thread();
        match slot.as_mut() {
            Some(running) if running.settings == settings => Ok(Self::share(running)),
            Some(_) => Err(Error::running()),
            None => Self::launch(&mut slot, settings),
        }
    }

    fn share(running: &mut GlobalThread) -> Self {
        running.guards = running.guards.saturating_add(1);
        Self { token: sys::token() }
    }

    fn launch(slot: &mut Option<GlobalThread>, settings: Settings) -> Result<Self, Error> {
        Self::apply(settings);
        let thread = Recalibrator::start(&GLOBAL, settings.schedule)
            .inspect_err(|_| Self::apply(Settings::DEFAULT))?;
        *slot = Some(GlobalThread { guards: 1, settings, _thread: thread });
        Ok(Self { token: sys::token() })
    }

    fn apply(settings: Settings) {
        GLOBAL.set_interval_ns(settings.interval_ns);
        GLOBAL.adopt(settings.policy);
    }
}

impl Drop for ClockGuard {
    fn drop(&mut self) {
        if self.token != sys::token() {
            return;
        }
        let mut slot = global_thread();
        let Some(running) = slot.as_mut() else { return };
        running.guards = running.guards.saturating_sub(1);
        if running.guards == 0 {
            let last = slot.take();
            Self::apply(Settings::DEFAULT);
            drop(last); // under the lock, so that the next start finds no thread
        }
    }
}
