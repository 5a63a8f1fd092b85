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
//! - is told to end when its handle is dropped, and the drop waits for its end
//!   ([`BackgroundThread::end_without_waiting`] does not). In a forked child, which has no such
//!   thread, the drop does not wait either;
//! - has a handle that says whether it still runs: [`BackgroundThread::is_running`].
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
//! const STACK_BYTES: usize = 64 << 10; // this thread only counts
//! let thread = BackgroundThread::start(c"clock-sets", STACK_BYTES, move |sleep| {
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
use crate::sleeping_thread::{BeginFlag, SleepingThread};
use crate::sys::RobustFutex;
pub use crate::sys::{StoppableSleep, WakeCause};

/// A running thread; see the [module](self). Its drop tells the thread to end, and waits for the
/// end.
#[derive(Debug)]
#[must_use = "the thread ends when its handle is dropped"]
pub struct BackgroundThread {
    thread: SleepingThread,
    /// A word that the kernel marks if the thread is killed.
    futex: Arc<RobustFutex>,
}

impl BackgroundThread {
    /// Starts a thread that does `work`, which must return when its sleep returns
    /// [`WakeCause::Stopped`]. `name` is the thread's name: Linux keeps 15 bytes of it. A panic of
    /// `work` ends the thread only. On Linux `work` must lock no robust mutex of pthreads: the
    /// thread's robust list is tickline's, so nobody would learn of the mutex's dead owner.
    ///
    /// The stack has `stack_bytes`, besides the least that libc needs. A thread of std has 2 MiB;
    /// code that does little needs a tenth. The stack is address space, and takes memory only where
    /// it is used. But after `mlockall(MCL_FUTURE)` the kernel locks all of it in memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ThreadNotStarted`](crate::ErrorKind::ThreadNotStarted) if the system refuses to
    /// create the thread, or a filter kills it before it begins.
    pub fn start(
        name: &'static CStr,
        stack_bytes: usize,
        work: impl FnOnce(&StoppableSleep) + Send + 'static,
    ) -> Result<Self, Error> {
        let futex = Arc::new(RobustFutex::new());
        let futex_inside = Arc::clone(&futex);
        let sleep = StoppableSleep::notifying_clock_set();
        let inside = move |sleep: &StoppableSleep, begin_flag: &BeginFlag| {
            let _marked = futex_inside.hold();
            begin_flag.set();
            work(sleep);
        };
        let thread = SleepingThread::start(Some(name), stack_bytes, sleep, inside)?;
        Ok(Self { thread, futex })
    }

    /// Tells the thread to end, and does not wait for it. Work that does not ask its sleep goes on
    /// to its own end.
    pub fn end_without_waiting(mut self) {
        if self.thread.is_of_this_process() && !self.thread.was_killed(&self.futex) {
            self.thread.detach();
        }
        // The drop of `self` tells the thread to end. It finds no thread to wait for.
    }

    /// Whether this process has the thread: not in a forked child, and on Linux not if the thread
    /// was killed, by a seccomp filter for example. A start waits for its thread for a second at
    /// most: a thread that begins later runs from then on.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.is_of_this_process() && self.thread.has_begun() && !self.futex.owner_died()
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        self.thread.end_unless_killed(&self.futex);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::mpsc;

    use super::*;

    /// A drop would wait until the thread gives up, which does not end before it is let go.
    #[test]
    fn a_thread_is_told_to_end_and_not_waited_for() {
        let (let_go, is_let_go) = mpsc::channel();
        let (ended, has_ended) = mpsc::channel();
        let thread = BackgroundThread::start(c"unawaited", 256 << 10, move |sleep| {
            while sleep.wait(Duration::from_secs(60)) != WakeCause::Stopped {}
            let was_let_go = is_let_go.recv_timeout(Duration::from_secs(30)).is_ok();
            ended.send(was_let_go).ok();
        });
        thread.expect("a thread").end_without_waiting();
        let_go.send(()).ok();
        assert_eq!(has_ended.recv(), Ok(true));
    }

    /// Symptom: `end_without_waiting` waited until the thread had ended.
    #[test]
    fn a_thread_that_has_not_begun_is_told_to_end_and_not_waited_for() {
        let (let_go, is_let_go) = mpsc::channel::<()>();
        let (told_to_end, was_told_to_end) = mpsc::channel();
        // It begins after 30 s if it is waited for. Its start does not wait as long.
        let begin_late = move |sleep: &StoppableSleep, begin_flag: &BeginFlag| {
            let was_let_go = is_let_go.recv_timeout(Duration::from_secs(30)).is_ok();
            begin_flag.set();
            told_to_end.send(was_let_go && sleep.is_stopped()).ok();
        };
        let thread = SleepingThread::start(None, 256 << 10, StoppableSleep::plain(), begin_late);
        let thread = BackgroundThread {
            thread: thread.expect("a thread"),
            futex: Arc::new(RobustFutex::new()),
        };
        thread.end_without_waiting();
        let_go.send(()).ok();
        assert_eq!(was_told_to_end.recv(), Ok(true));
    }

    /// With musl a join would wait for ever.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_thread_that_is_killed_late_but_before_it_begins_is_not_joined() {
        let (kill, is_killed) = mpsc::channel::<()>();
        let die = move |_: &StoppableSleep, _: &BeginFlag| {
            is_killed.recv().ok();
            // SAFETY: ends this thread as if it were killed; it holds nothing.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        };
        let thread = SleepingThread::start(None, 256 << 10, StoppableSleep::plain(), die);
        let thread = BackgroundThread {
            thread: thread.expect("a thread"),
            futex: Arc::new(RobustFutex::new()),
        };
        let sleep = Arc::clone(&thread.thread.sleep);
        drop(kill);
        let killed = std::time::Instant::now();
        while !thread.thread.ended_before_it_began() {
            assert!(killed.elapsed().as_secs() < 60, "its end is not seen");
            std::thread::yield_now();
        }
        drop(thread);
        assert!(
            !sleep.is_stopped(),
            "there is no thread to wake and to join"
        );
    }
}
