//! How a program makes the writer of a trace write at once.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use tickline::process_token;

use super::readout::reader::Reader;
use super::sys::stderr::try_say;
use super::waited::Waited;
use crate::layer::process_mutex::lock_with_retries;

/// The longest time that a program waits for the writer when it ends.
pub(super) const LAST_FLUSH: Duration = Duration::from_secs(2);

/// What has become of a request to write: the result of [`Flusher::flush`].
///
/// ```
/// use std::time::Duration;
/// use tickline_tracing::trace_file::{Flushed, TraceFile};
///
/// # fn main() -> std::io::Result<()> {
/// let (_trace, guard) = TraceFile::builder().build(std::io::sink())?;
/// match guard.flusher().flush(Duration::from_secs(60)) {
///     Flushed::Written => println!("all records so far are in the file"),
///     Flushed::Failed => println!("the trace has ended: finish() returns the error"),
///     Flushed::TimedOut => println!("the writer is still busy"),
///     _ => println!("the trace is not complete"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use = "unless it is `Written`, the trace is not complete"]
pub enum Flushed {
    /// The records are written, or the trace was finished before.
    Written,
    /// This process has no writer that could write them. Either a write has failed, or a seccomp
    /// filter has killed the writer's thread: the trace has then ended, and
    /// [*When a write fails*](crate::trace_file#when-a-write-fails) says how the error is shown. Or
    /// this process is a forked child, and the writer is the parent's.
    Failed,
    /// The writer has not written them in time. It may still write them.
    TimedOut,
}

/// Makes the writer write the records so far to the file. Clones share the writer.
#[derive(Debug, Clone)]
pub struct Flusher {
    pub(super) requests: Arc<FlushRequests>,
    /// The process in which the writer runs.
    pub(super) process: u64,
}

impl Flusher {
    /// Requests a write of all records so far, and waits for it, at most `timeout`. The result is
    /// [`Failed`](Flushed::Failed) at once in a forked child, after an error of a write, and if the
    /// writer's thread was killed.
    pub fn flush(&self, timeout: Duration) -> Flushed {
        let number = self.requests.request();
        self.requests.writer.wake();
        let flushed = self.wait(number, timeout);
        if flushed == Flushed::Failed && !self.is_in_child() {
            self.requests.end_after_writers_thread();
        }
        flushed
    }

    /// [`flush`](Self::flush) for a signal handler. The calling thread only changes an atomic,
    /// reads the clock, asks the kernel each 100 us whether the writer lives, and sleeps, while the
    /// writer's thread works. It may change `errno`. The call does not wake the
    /// writer, which may notice the request only after
    /// [`flush_every`](crate::trace_file::TraceFileBuilder::flush_every). If the interrupted thread
    /// holds a lock that the writer needs, such as the allocator's, the result is
    /// [`TimedOut`](Flushed::TimedOut).
    pub fn flush_in_signal_handler(&self, timeout: Duration) -> Flushed {
        self.wait(self.requests.request(), timeout)
    }

    /// The error by which the writer has ended; `None` if it was taken before, and in a forked
    /// child.
    pub(super) fn take_error(&self) -> Option<String> {
        if self.is_in_child() {
            return None;
        }
        self.requests.take_error()
    }

    /// Writes the error by which the writer has ended to standard error, unless it was taken
    /// before, and takes it then. Does nothing in a forked child.
    pub(super) fn say_error(&self) {
        if !self.is_in_child() {
            self.requests.say_error();
        }
    }

    /// Whether this is a child of the process in which the writer runs.
    pub(super) fn is_in_child(&self) -> bool {
        process_token() != self.process
    }

    fn wait(&self, number: u64, timeout: Duration) -> Flushed {
        self.wait_on(Waited::since_now(), number, timeout)
    }

    fn wait_on(&self, mut waited: Waited, number: u64, timeout: Duration) -> Flushed {
        if self.is_in_child() {
            return Flushed::Failed;
        }
        loop {
            // Before the answer: a writer that ends by itself answers before its thread ends.
            let has_thread_ended = self.requests.writer.has_ended();
            if let Some(flushed) = self.requests.answer(number) {
                return flushed;
            }
            if has_thread_ended {
                return Flushed::Failed;
            }
            if waited.time() >= timeout {
                return Flushed::TimedOut;
            }
            waited.sleep(Duration::from_micros(100));
        }
    }
}

/// Flushes the traces when the thread that made them ends. The main thread ends with the program.
struct AtEnd(Vec<Flusher>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        // On other systems the writer's thread may have ended by now, and the wait would time out.
        if cfg!(unix) {
            self.0
                .iter()
                .for_each(|flusher| _ = flusher.flush(LAST_FLUSH));
        }
    }
}

pub(super) fn flush_when_this_thread_ends(flusher: Flusher) {
    thread_local! {
        static AT_END: RefCell<AtEnd> = const { RefCell::new(AtEnd(Vec::new())) };
    }
    let add = |at_end: &RefCell<AtEnd>| {
        let flushers = &mut at_end.borrow_mut().0;
        flushers.retain(|flusher| !flusher.requests.has_ended());
        flushers.push(flusher);
    };
    _ = AT_END.try_with(add);
}

/// The program's requests to the writer, and its answers. Both are atomics, so that a signal
/// handler can make a request.
#[derive(Debug, Default)]
pub(super) struct FlushRequests {
    /// The file of the trace, if the trace's builder has created it.
    pub(super) path: Option<PathBuf>,
    /// The number of requests so far. Each is a request to write all earlier records.
    requested: AtomicU64,
    /// The last request that was carried out; [`ENDED`] once the writer has ended, [`FAILED`] if it
    /// ended by an error or a panic, and [`KILLED`] once another thread knows that it was killed.
    done: AtomicU64,
    /// The error by which the writer has ended, until the user has it: by a line on standard error,
    /// or by `finish`.
    error: Mutex<Option<String>>,
    /// The writer: the reader of the trace's recorder.
    writer: Arc<Reader>,
}

pub(super) const ENDED: u64 = u64::MAX;
pub(super) const FAILED: u64 = ENDED - 1;
const KILLED: u64 = ENDED - 2;

/// The error of a trace whose writer was killed.
pub(super) const WAS_KILLED: &str =
    "the thread that writes the trace was killed, for example by a seccomp filter";

/// How often a thread tries to take the lock of the error, 50 us apart: at least 2 s in all. A
/// thread holds the lock for one line on standard error.
const TRIES_FOR_ERROR: u32 = 40_000;

impl FlushRequests {
    /// Those of a trace with this writer, whose file has this path.
    pub(super) fn of(writer: Arc<Reader>, path: Option<&Path>) -> Self {
        Self {
            path: path.map(Path::to_owned),
            writer,
            ..Self::default()
        }
    }

    /// Makes a request, and returns its number.
    fn request(&self) -> u64 {
        // ORDERING: Release, pairs with the Acquire load in `requested`: the writer sees the
        // earlier records of the requesting thread.
        self.requested.fetch_add(1, Ordering::Release) + 1
    }

    /// What has become of the request with this number; `None` if the writer has not come to it.
    fn answer(&self, number: u64) -> Option<Flushed> {
        match self.done() {
            FAILED | KILLED => Some(Flushed::Failed),
            done => (done >= number).then_some(Flushed::Written),
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.done(), ENDED | FAILED | KILLED)
    }

    fn done(&self) -> u64 {
        // ORDERING: Acquire, pairs with the Release store in `set_done`: this thread sees that the
        // records are written.
        self.done.load(Ordering::Acquire)
    }

    /// For the writer: the number of the last request.
    pub(super) fn requested(&self) -> u64 {
        // ORDERING: Acquire, pairs with the Release change in `request`: the writer then takes all
        // records from before the request.
        self.requested.load(Ordering::Acquire)
    }

    /// For the writer: keeps the error by which it ends, before [`FAILED`].
    pub(super) fn set_error(&self, error: String) {
        if let Some(mut kept) = self.lock_error() {
            *kept = Some(error);
        }
    }

    /// For a thread that knows that the writer's thread has ended: ends the trace with the error
    /// [`WAS_KILLED`], unless the writer has ended by itself. Returns whether it was killed.
    pub(super) fn end_after_writers_thread(&self) -> bool {
        // The lock, so that the error is kept once.
        let mut kept = self.lock_error();
        if !self.has_ended() {
            if let Some(kept) = &mut kept {
                **kept = Some(WAS_KILLED.to_owned());
            }
            self.set_done(KILLED);
        }
        self.done() == KILLED
    }

    pub(super) fn take_error(&self) -> Option<String> {
        self.lock_error()?.take()
    }

    /// Writes the error by which the writer ends to standard error, unless it was taken before, and
    /// takes it then. An error that can't be written stays.
    pub(super) fn say_error(&self) {
        // Whoever finds the lock taken waits: it may be about to end the process.
        let Some(mut kept) = self.lock_error() else {
            return;
        };
        _ = kept.take_if(|error| {
            let said = try_say(format_args!(
                "the trace is incomplete and has ended: {}{error}; remove the cause, and begin \
                 another trace",
                self.path_prefix()
            ));
            said.is_ok()
        });
    }

    /// The path as the beginning of a message.
    pub(super) fn path_prefix(&self) -> String {
        let path = self.path.as_ref();
        path.map_or_else(String::new, |path| format!("{path:?}: "))
    }

    /// `None` if another thread keeps the lock: it was killed while it wrote its line, or standard
    /// error takes nothing.
    fn lock_error(&self) -> Option<MutexGuard<'_, Option<String>>> {
        lock_with_retries(TRIES_FOR_ERROR, || match self.error.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }

    /// Marks the requests up to this number as carried out. For the writer, and for a thread that
    /// knows of its end.
    pub(super) fn set_done(&self, number: u64) {
        // ORDERING: Release, pairs with the Acquire load in `done`.
        self.done.store(number, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;
    use crate::trace::capture::recorder::Recorder;
    use crate::trace::settings::{Settings, WhenFull};

    /// Symptom: as of `a_child_with_its_parents_process_id_is_a_child`.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_child_with_its_parents_process_id_waits_for_no_flush() {
        let make = || {
            let made = crate::trace_file::TraceFile::builder().build(std::io::sink());
            made.expect("a thread")
        };
        let flush =
            |guard: &crate::trace_file::TraceFileGuard| guard.flusher().flush(Duration::MAX);
        tickline_observe::fork::assert_in_namesake(make, |(_trace, guard)| {
            flush(&guard) == Flushed::Failed
        });
    }

    /// Whoever takes it says it.
    #[test]
    fn an_error_of_the_writer_is_taken_once() {
        let flusher = Flusher {
            requests: Arc::default(),
            process: process_token(),
        };
        flusher.requests.set_error("full".to_owned());
        assert_eq!(flusher.take_error().as_deref(), Some("full"));
        assert_eq!(flusher.take_error(), None);
    }

    #[test]
    fn a_child_takes_no_error_of_its_parents_writer() {
        let flusher = Flusher {
            requests: Arc::default(),
            process: process_token() ^ 1,
        };
        flusher.requests.set_error("full".to_owned());
        assert_eq!(flusher.take_error(), None);
    }

    /// Symptom: as of a writer that a seccomp filter kills while it writes its error to standard
    /// error: each later call waited for ever.
    #[test]
    fn nobody_waits_for_a_thread_that_was_killed_while_it_said_the_error() {
        let requests = Arc::new(FlushRequests::default());
        core::mem::forget(requests.lock_error());
        let (sender, is_killed) = std::sync::mpsc::channel();
        thread::spawn(move || sender.send(requests.end_after_writers_thread()));
        assert_eq!(is_killed.recv_timeout(Duration::from_secs(30)), Ok(true));
    }

    /// Symptom: the records counted as written.
    #[test]
    fn a_flush_after_an_error_fails_without_a_wait() {
        let flusher = Flusher {
            requests: Arc::default(),
            process: process_token(),
        };
        flusher.requests.set_done(FAILED);
        assert_eq!(flusher.flush(Duration::MAX), Flushed::Failed);
        let in_handler = flusher.flush_in_signal_handler(Duration::MAX);
        assert_eq!(in_handler, Flushed::Failed);
    }

    /// Symptom: under libfaketime, a program whose trace's writer was stuck never ended.
    #[test]
    fn a_flush_times_out_under_a_clock_that_stands_still() {
        let flusher = Flusher {
            requests: Arc::default(),
            process: process_token(),
        };
        let flushed = flusher.wait_on(Waited::by_standing_clock(), 1, Duration::from_millis(1));
        assert_eq!(flushed, Flushed::TimedOut);
    }

    /// Symptom: a program that made one trace after another kept the flushers of all of them.
    #[test]
    fn a_thread_flushes_the_traces_that_have_not_ended_when_it_ends() {
        let flusher = |done: u64| {
            let requests = Arc::new(FlushRequests::default());
            requests.set_done(done);
            Flusher {
                requests,
                process: process_token(),
            }
        };
        let (ended, goes_on) = (flusher(ENDED), flusher(0));
        let requests = Arc::clone(&goes_on.requests);
        let ended_requests = Arc::clone(&ended.requests);
        let at_end = thread::spawn(|| {
            flush_when_this_thread_ends(ended);
            flush_when_this_thread_ends(goes_on);
        });
        let start = Instant::now();
        while cfg!(unix) && requests.requested() == 0 {
            assert!(start.elapsed() < Duration::from_secs(30), "no flush");
            thread::yield_now();
        }
        requests.set_done(ENDED);
        at_end.join().unwrap();
        assert_eq!(ended_requests.requested(), 0);
        assert_eq!(Arc::strong_count(&ended_requests), 1);
    }

    /// The writer sees the records from before a request, and the requesting thread sees that they
    /// are written.
    #[test]
    fn ordering_a_request_comes_with_what_was_recorded() {
        for finish in [false, true].repeat(8) {
            let requests = FlushRequests::default();
            let recorder = Recorder::new(Settings::new(WhenFull::Drop));
            let (recorded, written) = (AtomicU64::new(0), AtomicU64::new(0));
            thread::scope(|scope| {
                scope.spawn(|| {
                    while requests.requested() == 0 && !recorder.has_ended() {
                        thread::yield_now();
                    }
                    // ORDERING: Relaxed for all three: the requests order them.
                    written.store(recorded.load(Ordering::Relaxed), Ordering::Relaxed);
                    requests.set_done(ENDED);
                });
                recorded.store(7, Ordering::Relaxed);
                if finish {
                    recorder.end();
                } else {
                    assert_eq!(requests.request(), 1);
                }
                while requests.answer(1).is_none() {
                    thread::yield_now();
                }
                // ORDERING: Relaxed: `answer` must order this load after the writer's store.
                assert_eq!(written.load(Ordering::Relaxed), 7);
            });
        }
    }
}
