//! The thread that stores the recent time.

use core::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickline::background::{BackgroundThread, WakeCause};
use tickline::process_token;

use crate::clock::Clock;
use crate::recent::set_recent;

/// The stack of the thread, besides the least that libc needs: it only reads a clock.
const STACK_BYTES: usize = 256 << 10;

/// The token of the process whose upkeep runs, or 0. A forked child inherits its parent's, but not
/// the thread.
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// A thread that stores the recent time at an interval, for [`Clock::recent`] and
/// [`Instant::recent`](crate::Instant::recent). Each process can run one.
///
/// ```
/// use std::time::Duration;
/// use quanta::{Instant, Upkeep};
///
/// let upkeep = Upkeep::new(Duration::from_millis(1)).start()?;
/// assert!(Instant::recent() <= Instant::now()); // at most about 1 ms older
/// drop(upkeep); // the recent time stays as it is from now on
/// # Ok::<(), quanta::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the thread is made by `start`"]
pub struct Upkeep {
    interval: Duration,
    clock: Clock,
}

/// Keeps the thread of an [`Upkeep`] running. Dropping it wakes, stops and joins the thread; the
/// recent time then stays as it is.
///
/// In a forked child the parent's handle has no effect, and the child may start an upkeep of its
/// own.
#[derive(Debug)]
#[must_use = "the thread stops when the handle is dropped"]
pub struct Handle {
    // The fields are dropped in this order: another upkeep may start once the thread is joined.
    /// Its drop joins the thread. In a forked child it only closes the copies of descriptors.
    _thread: BackgroundThread,
    _running: Running,
}

/// The claim of a process on its one upkeep. A drop in that process lets another upkeep start.
#[derive(Debug)]
struct Running {
    process: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.process == process_token() {
            // ORDERING: Release, pairs with the Acquire in `start`. No test sees a weaker ordering,
            // because in tests the threads store in the order in which they run.
            RUNNING.store(0, Ordering::Release);
        }
    }
}

/// The reason why an [`Upkeep`] did not start. Its text has the OS's error.
#[derive(Debug)]
pub enum Error {
    /// This process already runs an upkeep.
    UpkeepRunning,
    /// The OS could not create the thread.
    FailedToSpawnUpkeepThread(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpkeepRunning => f.write_str("this process already runs an upkeep"),
            Self::FailedToSpawnUpkeepThread(error) => {
                write!(f, "no thread for the upkeep: {error}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// The system's error behind that of a thread which was not started, as quanta returns it.
fn system_error(error: tickline::Error) -> io::Error {
    match error.system_error().and_then(io::Error::raw_os_error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other(error),
    }
}

impl Upkeep {
    /// An upkeep that stores the time of tickline's clock. The recent time is older than the
    /// present by at most `interval` and the time that the OS takes to run the thread. An interval
    /// below 1 us counts as 1 us: with an interval of zero the thread would never sleep.
    pub const fn new(interval: Duration) -> Self {
        Self::new_with_clock(interval, Clock::new())
    }

    /// An upkeep that stores the time of `clock`, otherwise as [`new`](Self::new).
    pub const fn new_with_clock(interval: Duration, clock: Clock) -> Self {
        Self { interval, clock }
    }

    /// Stores the recent time, and starts the thread that updates it.
    ///
    /// # Errors
    ///
    /// [`Error::UpkeepRunning`] if this process already runs an upkeep, and
    /// [`Error::FailedToSpawnUpkeepThread`] if the OS can't create the thread.
    pub fn start(self) -> Result<Handle, Error> {
        let Self { interval, clock } = self;
        let process = process_token();
        // ORDERING: Acquire, pairs with the Release in the drop of `Running`: the stores of the
        // former upkeep come before this one's stores. No test sees a weaker ordering, because in
        // tests the threads store in the order in which they run.
        if RUNNING.swap(process, Ordering::Acquire) == process {
            return Err(Error::UpkeepRunning);
        }
        let running = Running { process };
        set_recent(clock.now());
        let interval = interval.max(Duration::from_micros(1));
        // A thread of std might wait for ever in a forked child.
        let thread = BackgroundThread::start(c"quanta-upkeep", STACK_BYTES, move |sleep| {
            loop {
                set_recent(clock.now());
                if sleep.wait(interval) == WakeCause::Stopped {
                    return;
                }
            }
        });
        match thread {
            Ok(thread) => Ok(Handle {
                _thread: thread,
                _running: running,
            }),
            Err(error) => Err(Error::FailedToSpawnUpkeepThread(system_error(error))),
        }
    }
}
