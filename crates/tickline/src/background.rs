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

// Four types stand for a thread. Each of the last two has a `SleepingThread`, which has a `Thread`:
//
// | type | adds | file |
// |---|---|---|
// | `Thread` | a thread of libc on Linux, of std elsewhere: start, join, detach, whether it has ended | `sys/linux/thread.rs`, `sys/other.rs` |
// | `SleepingThread` | a sleep that tells it to end; a start without signal handlers that waits until the thread has begun; no join of another process's thread | here |
// | `BackgroundThread`, which is public | a futex of its own that tells whether the thread was killed; a sleep that tells that the clock was set | here |
// | `ClockThread` | a clock's work (`run`), and the clock's registration, which has the futex | `thread.rs` |

use core::ffi::CStr;
use core::time::Duration;
use std::io;
use std::sync::Arc;

use tickline_core::reference::Reference;

use crate::error::Error;
use crate::sys::reference::OsClock;
use crate::sys::{self, RobustFutex, SignalsBlocked, Thread};
pub use crate::sys::{StoppableSleep, WakeCause};

/// The longest time that a start waits for its thread to begin. A thread begins within 0.1 ms,
/// unless other threads use the CPU, or a filter kills it.
const BEGIN_WITHIN: Duration = Duration::from_secs(1);

/// A number that is the same for all threads of this process, and differs from every
/// ancestor's number; never 0. A program that keeps it notices that it was forked. With
/// [`Probes::Full`](crate::Probes::Full) on Linux 4.14 or later it costs a few loads, elsewhere a
/// call of `getpid`. (There a child could have the id of an ancestor that has ended.)
///
/// ```
/// use tickline::background::process_token;
///
/// let before = process_token();
/// let was_forked = || process_token() != before;
/// assert!(!was_forked());
/// ```
#[must_use]
pub fn process_token() -> u64 {
    sys::process_token()
}

/// The name of a clock's thread.
pub(crate) const CLOCK_THREAD: &CStr = c"tickline";

/// A thread and its sleep. Its owner keeps the futex that tells whether the thread was killed.
#[derive(Debug)]
pub(crate) struct SleepingThread {
    sleep: Arc<StoppableSleep>,
    begin_flag: Arc<BeginFlag>,
    thread: Option<Thread>,
    /// The process that made the thread. Only this process may join it.
    process: u64,
}

/// Whether a thread has begun, for the thread that starts it.
#[derive(Debug)]
pub(crate) struct BeginFlag(StoppableSleep);

impl BeginFlag {
    /// Says that the thread has begun. Its end is noticed from now on: it holds its futex.
    pub(crate) fn announce(&self) {
        self.0.stop();
    }
}

impl SleepingThread {
    /// Starts a thread that does `work`, and runs no signal handler of the program. The work first
    /// announces that it has begun; the start waits for that. A clock's thread with minimal probes
    /// gets no `name`, because that takes a system call.
    pub(crate) fn start(
        name: Option<&'static CStr>,
        stack_bytes: usize,
        sleep: StoppableSleep,
        work: impl FnOnce(&StoppableSleep, &BeginFlag) + Send + 'static,
    ) -> Result<Self, Error> {
        let sleep = Arc::new(sleep);
        let sleep_inside = Arc::clone(&sleep);
        let begin_flag = Arc::new(BeginFlag(StoppableSleep::plain()));
        let flag_inside = Arc::clone(&begin_flag);
        let blocked = SignalsBlocked::new();
        let thread = Thread::spawn_with_stack(name, stack_bytes, move || {
            work(&sleep_inside, &flag_inside);
        })
        .map_err(|error| Error::thread(name.unwrap_or(CLOCK_THREAD), error))?;
        drop(blocked);
        // From its beginning on, the thread keeps a library that contains this code loaded. Before,
        // the caller does.
        let mut started = Self {
            sleep,
            begin_flag,
            thread: Some(thread),
            process: sys::process_token(),
        };
        started.await_begin();
        if started.ended_before_it_began() {
            started.abandon();
            let error = io::Error::other("the system has ended it before it began");
            return Err(Error::thread(name.unwrap_or(CLOCK_THREAD), error));
        }
        Ok(started)
    }

    /// Whether this process made the thread: not in a forked child.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == sys::process_token()
    }

    /// Waits until the thread has begun, for [`BEGIN_WITHIN`] at most. A signal ends a wait of the
    /// futex, not this one.
    fn await_begin(&self) {
        let start_ns = OsClock.monotonic_ns();
        let mut left = BEGIN_WITHIN;
        while !left.is_zero() && self.begin_flag.0.wait(left) != WakeCause::Stopped {
            let spent_ns = OsClock
                .monotonic_ns()
                .saturating_sub(start_ns)
                .unsigned_abs();
            left = BEGIN_WITHIN.saturating_sub(Duration::from_nanos(spent_ns));
        }
    }

    fn has_begun(&self) -> bool {
        self.begin_flag.0.is_stopped()
    }

    /// Whether the thread has ended before it began. Once it has begun, its futex tells. `false` in
    /// a forked child, whose libc does not know the thread.
    fn ended_before_it_began(&self) -> bool {
        // In this order: a thread that does its work announces that it has begun before it ends.
        self.is_of_this_process()
            && self.thread.as_ref().is_some_and(Thread::has_ended)
            && !self.has_begun()
    }

    /// Ends the thread, and waits for its end, if this process has it.
    pub(crate) fn end(&mut self) {
        if !self.is_of_this_process() {
            return self.abandon();
        }
        self.sleep.stop();
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }

    /// Whether the thread was killed. It holds `futex` once it has begun.
    pub(crate) fn was_killed(&self, futex: &RobustFutex) -> bool {
        futex.owner_died() || self.ended_before_it_began()
    }

    /// Ends the thread, and waits for its end, unless it was killed. It holds `futex` once it has
    /// begun.
    pub(crate) fn end_unless_killed(&mut self, futex: &RobustFutex) {
        if self.was_killed(futex) {
            self.abandon();
        } else {
            self.end();
        }
    }

    /// Closes the sleep of a thread that does not exist any more, or not in this process: there is
    /// none to wake or to join, and a join would never return.
    fn abandon(&mut self) {
        self.sleep.close(); // in a child: closes its copy of the descriptor
    }
}

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
            begin_flag.announce();
            work(sleep);
        };
        let thread = SleepingThread::start(Some(name), stack_bytes, sleep, inside)?;
        Ok(Self { thread, futex })
    }

    /// Tells the thread to end, and does not wait for it. Work that does not ask its sleep goes on
    /// to its own end.
    pub fn end_without_waiting(mut self) {
        if self.thread.is_of_this_process()
            && !self.thread.was_killed(&self.futex)
            && let Some(thread) = self.thread.thread.take()
        {
            thread.detach();
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

    /// Symptom: in a program with a timer's signal each 10 ms, a start sometimes returned a thread
    /// that did not run yet.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_start_waits_for_its_thread_in_spite_of_signals() {
        let begin_late = |_: &StoppableSleep, begin_flag: &BeginFlag| {
            std::thread::sleep(Duration::from_millis(50));
            begin_flag.announce();
        };
        let start = || SleepingThread::start(None, 256 << 10, StoppableSleep::plain(), begin_late);
        let mut thread = sys::interrupted(start).expect("a thread");
        assert!(thread.has_begun());
        thread.end();
    }

    /// A thread that announces that it has begun when `is_let_go` has a message, or after 30 s. Its
    /// start does not wait as long. It sends whether it got the message, and was told to end.
    fn a_late_thread(
        is_let_go: mpsc::Receiver<()>,
        told_to_end: mpsc::Sender<bool>,
    ) -> BackgroundThread {
        let work = move |sleep: &StoppableSleep, begin_flag: &BeginFlag| {
            let was_let_go = is_let_go.recv_timeout(Duration::from_secs(30)).is_ok();
            begin_flag.announce();
            told_to_end.send(was_let_go && sleep.is_stopped()).ok();
        };
        let thread = SleepingThread::start(None, 256 << 10, StoppableSleep::plain(), work);
        BackgroundThread {
            thread: thread.expect("a thread"),
            futex: Arc::new(RobustFutex::new()),
        }
    }

    /// libc must not be asked about a thread that this process does not have.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_forked_child_does_not_ask_whether_its_parents_thread_has_begun() {
        let (let_go, is_let_go) = mpsc::channel();
        let (told_to_end, _) = mpsc::channel();
        let thread = a_late_thread(is_let_go, told_to_end);
        // SAFETY: the child reads memory, asks the kernel, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let says_ended = thread.thread.ended_before_it_began();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(says_ended.into()) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above; `status` is valid for a write.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        let_go.send(()).ok();
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

    /// Symptom: `end_without_waiting` waited until the thread had ended.
    #[test]
    fn a_thread_that_has_not_begun_is_told_to_end_and_not_waited_for() {
        let (let_go, is_let_go) = mpsc::channel();
        let (told_to_end, was_told_to_end) = mpsc::channel();
        a_late_thread(is_let_go, told_to_end).end_without_waiting();
        let_go.send(()).ok();
        assert_eq!(was_told_to_end.recv(), Ok(true));
    }
}
