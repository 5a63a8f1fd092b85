//! The thread that writes a trace.
//!
//! It is not a thread of std, which may wait for ever in a forked child, and which would run the
//! program's signal handlers.

use core::ffi::CStr;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tickline::background::BackgroundThread;

/// The stack of the thread, besides the least that libc needs: as much as a thread of std has,
/// because the thread writes by the program's own `Write`.
const STACK_BYTES: usize = 2 << 20;

/// A thread, and the result of its work.
#[derive(Debug)]
pub(crate) struct WriterThread<T> {
    thread: BackgroundThread,
    result: Arc<Mutex<Option<T>>>,
}

impl<T: Send + 'static> WriterThread<T> {
    /// Starts a thread that does `work`.
    pub(crate) fn start(
        name: &'static CStr,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let result = Arc::new(Mutex::new(None));
        let result_inside = Arc::clone(&result);
        let work = move |_: &_| {
            let result = work();
            *result_inside.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        };
        let thread = BackgroundThread::start(name, STACK_BYTES, work);
        let thread = thread.map_err(start_error)?;
        Ok(Self { thread, result })
    }

    /// Waits for the end of the work; `None` if it panicked, if the thread was killed, and in a
    /// forked child, which has no such thread.
    pub(crate) fn join(self) -> Option<T> {
        drop(self.thread);
        self.result
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Lets the thread do its work without this handle: the work does not ask its sleep.
    pub(crate) fn detach(self) {
        self.thread.end_without_waiting();
    }
}

/// The error of a start, of the kind of the system's error.
fn start_error(error: tickline::Error) -> io::Error {
    let os = error.system_error();
    io::Error::new(os.map_or(io::ErrorKind::Other, io::Error::kind), error)
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// Symptom: only "the thread ... could not be started", because callers take the text alone.
    #[test]
    fn the_error_of_a_thread_has_the_systems_error_in_its_text() {
        let without_memory = BackgroundThread::start(c"large", usize::MAX / 2, |_| ());
        let error = start_error(without_memory.unwrap_err());
        assert!(error.to_string().contains("(os error "), "{error}");
    }
}
