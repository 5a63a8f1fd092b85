//! A thread for code that stands on tickline and works beside it, as the crate `tickline-utc` does.
//!
//! A [`BackgroundThread`]
//!
//! - can be started in a forked child. There, a thread of std may wait for ever: when it begins and
//!   ends, it takes a lock that another thread may have held at the fork. On Linux this thread is
//!   libc's, which keeps its own locks usable in a child;
//! - runs no signal handler of the program;
//! - sleeps by [`StoppableSleep`], which tells it that the clock was set or that the machine has
//!   resumed;
//! - ends when its handle is dropped. In a forked child, which has no such thread, the drop does
//!   not wait for it;
//! - is known to run, or not to: [`BackgroundThread::is_running`].
//!
//! Starting and dropping are not for signal handlers. On Linux a start uses the system calls of a
//! start of the clock's thread with [`Probes::Full`](crate::Probes::Full). So don't start one for a
//! clock whose [`probes`](crate::Clock::probes) are minimal.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//! use std::time::Duration;
//! use tickline::background::{BackgroundThread, WakeCause};
//!
//! # fn main() -> Result<(), tickline::Error> {
//! let sets = Arc::new(AtomicU64::new(0));
//! let counted = Arc::clone(&sets);
//! let thread = BackgroundThread::start(c"clock-sets", move |sleep| {
//!     loop {
//!         match sleep.wait(Duration::from_secs(60)) {
//!             WakeCause::ClockSet => _ = counted.fetch_add(1, Relaxed),
//!             WakeCause::Timeout => {}
//!             WakeCause::Stopped => return,
//!         }
//!     }
//! })?;
//! assert!(thread.is_running());
//! drop(thread); // wakes the thread, and joins it
//! assert_eq!(Arc::strong_count(&sets), 1);
//! println!("the clock was set {} times", sets.load(Relaxed));
//! # Ok(())
//! # }
//! ```

use core::ffi::CStr;
use std::sync::Arc;

use crate::error::Error;
use crate::sys::{self, RobustFutex, SignalsBlocked, Thread};
pub use crate::sys::{StoppableSleep, WakeCause};

/// A running thread; see the [module](self). Its drop ends the thread, and waits for the end.
#[derive(Debug)]
#[must_use = "the thread ends when its handle is dropped"]
pub struct BackgroundThread {
    sleep: Arc<StoppableSleep>,
    /// A word that the kernel marks if the thread is killed.
    futex: Arc<RobustFutex>,
    thread: Option<Thread>,
    /// The process that made the thread. Only this process may join it.
    token: u64,
}

impl BackgroundThread {
    /// Starts a thread that does `work`, which must return when its sleep returns
    /// [`WakeCause::Stopped`]. `name` is the thread's name: Linux keeps 15 bytes of it. A panic of
    /// `work` ends the thread only.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ThreadNotStarted`](crate::ErrorKind::ThreadNotStarted) if the system refuses to
    /// create the thread.
    pub fn start(
        name: &'static CStr,
        work: impl FnOnce(&StoppableSleep) + Send + 'static,
    ) -> Result<Self, Error> {
        let sleep = Arc::new(StoppableSleep::notifying_clock_set());
        let futex = Arc::new(RobustFutex::new());
        let (sleep_inside, futex_inside) = (Arc::clone(&sleep), Arc::clone(&futex));
        let blocked = SignalsBlocked::new();
        let thread = Thread::spawn(Some(name), move || {
            let _marked = futex_inside.hold();
            work(&sleep_inside);
        })
        .map_err(Error::thread)?;
        drop(blocked);
        Ok(Self {
            sleep,
            futex,
            thread: Some(thread),
            token: sys::token(),
        })
    }

    /// Whether this process has the thread: not in a forked child, and on Linux not if the thread
    /// was killed, by a seccomp filter for example.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.token == sys::token() && !self.futex.owner_died()
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        if !self.is_running() {
            // There is no thread to wake or to join: a join would never return.
            self.sleep.close(); // in a child: closes its copy of the descriptor
            return;
        }
        self.sleep.stop();
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}
