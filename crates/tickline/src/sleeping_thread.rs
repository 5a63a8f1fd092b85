//! A thread and its sleep, which tells it to end: the part that a clock's thread and a
//! [`BackgroundThread`](crate::background::BackgroundThread) share.
//!
//! Four types stand for a thread. Each of the last two has a `SleepingThread`, which has a
//! `Thread`:
//!
//! | type | adds | file |
//! |---|---|---|
//! | `Thread` | a thread of libc on Linux, of std elsewhere: start, join, detach, whether it has ended | `sys/linux/thread.rs`, `sys/other.rs` |
//! | `SleepingThread` | a sleep that tells it to end; a start without signal handlers that waits until the thread has begun; no join of another process's thread | here |
//! | `BackgroundThread`, which is public | a futex of its own that tells whether the thread was killed; a sleep that tells that the clock was set | `background.rs` |
//! | `ClockThread` | a clock's work (`run`), and the clock's registration, which has the futex | `thread.rs` |

use core::ffi::CStr;
use core::time::Duration;
use std::sync::Arc;

use tickline_core::reference::Reference;

use crate::error::Error;
use crate::sys::reference::OsClock;
use crate::sys::{self, RobustFutex, SignalsBlocked, StoppableSleep, Thread, WakeCause};

/// The longest time that a start waits for its thread to begin. A thread begins within 0.1 ms,
/// unless other threads use the CPU, or a filter kills it.
const BEGIN_WITHIN: Duration = Duration::from_secs(1);

/// The pause between two checks whether it has begun, if nothing wakes the start.
const PAUSE: Duration = Duration::from_millis(1);

/// The name of a clock's thread.
pub(crate) const CLOCK_THREAD: &CStr = c"tickline";

/// A thread and its sleep. Its owner keeps the futex that tells whether the thread was killed.
#[derive(Debug)]
pub(crate) struct SleepingThread {
    pub(crate) sleep: Arc<StoppableSleep>,
    begin_flag: Arc<BeginFlag>,
    thread: Option<Thread>,
    /// The process that made the thread. Only this process may join it.
    process: u64,
}

/// Whether a thread has begun, for the thread that starts it. To set the flag is to stop the sleep
/// in it, whose futex wakes the start.
#[derive(Debug)]
pub(crate) struct BeginFlag(StoppableSleep);

impl BeginFlag {
    fn new() -> Self {
        Self(StoppableSleep::plain())
    }

    /// Says that the thread has begun. Its end is noticed from now on: it holds its futex.
    pub(crate) fn set(&self) {
        self.0.stop();
    }

    /// Whether the thread has begun.
    fn is_set(&self) -> bool {
        self.0.is_stopped()
    }

    /// Waits until the thread has begun, for `timeout` by this clock at most. A signal ends a wait
    /// of the futex, not this one. A wait of the futex in which the clock stands still, as
    /// libfaketime's may, counts by its length.
    fn wait(&self, timeout: Duration, now_ns: impl Fn() -> i64) {
        let (mut waited, mut before_ns) = (Duration::ZERO, now_ns());
        while waited < timeout && self.0.wait(PAUSE) != WakeCause::Stopped {
            let now_ns = now_ns();
            let elapsed_ns = now_ns.saturating_sub(before_ns).unsigned_abs();
            let elapsed = match elapsed_ns {
                0 => PAUSE,
                _ => Duration::from_nanos(elapsed_ns),
            };
            waited = waited.saturating_add(elapsed);
            before_ns = now_ns;
        }
    }
}

impl SleepingThread {
    /// Starts a thread that does `work`, and runs no signal handler of the program. The work first
    /// sets the flag, which says that it has begun; the start waits for that. A clock's thread with
    /// minimal probes gets no `name`, because that takes a system call.
    pub(crate) fn start(
        name: Option<&'static CStr>,
        stack_bytes: usize,
        sleep: StoppableSleep,
        work: impl FnOnce(&StoppableSleep, &BeginFlag) + Send + 'static,
    ) -> Result<Self, Error> {
        let sleep = Arc::new(sleep);
        let sleep_inside = Arc::clone(&sleep);
        let begin_flag = Arc::new(BeginFlag::new());
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
        started
            .begin_flag
            .wait(BEGIN_WITHIN, || OsClock.monotonic_ns());
        if started.ended_before_it_began() {
            started.abandon();
            return Err(Error::thread_has_ended(name.unwrap_or(CLOCK_THREAD)));
        }
        Ok(started)
    }

    /// Whether this process made the thread: not in a forked child.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process == sys::process_token()
    }

    /// Whether the thread has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.begin_flag.is_set()
    }

    /// Whether the thread has ended before it began. Once it has begun, its futex tells. `false` in
    /// a forked child, whose libc does not know the thread.
    pub(crate) fn ended_before_it_began(&self) -> bool {
        // In this order: a thread that does its work sets its flag before it ends.
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

    /// Lets the thread run to its own end: nobody joins it.
    pub(crate) fn detach(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.detach();
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

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Symptom: in a program with a timer's signal each 10 ms, a start sometimes returned a thread
    /// that did not run yet.
    #[test]
    fn a_start_waits_for_its_thread_in_spite_of_signals() {
        let begin_late = |_: &StoppableSleep, begin_flag: &BeginFlag| {
            std::thread::sleep(Duration::from_millis(50));
            begin_flag.set();
        };
        let start = || SleepingThread::start(None, 256 << 10, StoppableSleep::plain(), begin_late);
        let mut thread = sys::interrupted(start).expect("a thread");
        assert!(thread.has_begun());
        thread.end();
    }

    /// Symptom: under libfaketime, a start whose thread a filter killed never returned.
    #[test]
    fn a_wait_under_a_clock_that_stands_still_has_an_end() {
        let never_set = BeginFlag::new();
        never_set.wait(Duration::from_millis(3), || 7);
        assert!(!never_set.is_set());
    }

    /// The symptom of the test above, under a clock that moved once after the beginning of the wait.
    #[test]
    fn a_wait_under_a_clock_that_stands_still_later_has_an_end() {
        let never_set = BeginFlag::new();
        let readings = std::cell::Cell::new(0);
        let moves_once = || {
            readings.set(readings.get() + 1);
            readings.get().min(2)
        };
        never_set.wait(Duration::from_millis(3), moves_once);
        assert!(!never_set.is_set());
    }

    /// libc must not be asked about a thread that this process does not have.
    #[test]
    fn a_forked_child_does_not_ask_whether_its_parents_thread_has_begun() {
        let (let_go, is_let_go) = mpsc::channel::<()>();
        let begin_late = move |_: &StoppableSleep, begin_flag: &BeginFlag| {
            is_let_go.recv_timeout(Duration::from_secs(30)).ok(); // a start does not wait as long
            begin_flag.set();
        };
        let thread = SleepingThread::start(None, 256 << 10, StoppableSleep::plain(), begin_late);
        let mut thread = thread.expect("a thread");
        // SAFETY: the child reads memory, asks the kernel, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let says_ended = thread.ended_before_it_began();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(says_ended.into()) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above; `status` is valid for a write.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        let_go.send(()).ok();
        thread.end();
    }
}
