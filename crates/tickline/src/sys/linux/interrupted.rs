//! Linux, for tests: signals that end a thread's waits early.

use core::time::Duration;
use std::sync::mpsc::{self, RecvTimeoutError};

/// Does `wait` while a signal with a handler arrives at this thread each millisecond.
pub(crate) fn interrupted<R>(wait: impl FnOnce() -> R) -> R {
    extern "C" fn ignore(_: libc::c_int) {}
    // SAFETY: sigaction is plain data.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = ignore as *const () as usize;
    // SAFETY: the handler does nothing; nothing else here uses the signal.
    unsafe { libc::sigaction(libc::SIGURG, &raw const action, core::ptr::null_mut()) };
    // By its number: a `pthread_t` is a pointer on musl, which no other thread may have.
    let process = std::process::id();
    // SAFETY: the call has no precondition.
    let waiter = unsafe { libc::syscall(libc::SYS_gettid) };
    std::thread::scope(|scope| {
        let (end, ends) = mpsc::channel::<()>();
        scope.spawn(move || {
            while ends.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
                // SAFETY: the thread waits for this one at the end of the scope.
                unsafe { libc::syscall(libc::SYS_tgkill, process, waiter, libc::SIGURG) };
            }
        });
        let result = wait();
        drop(end);
        result
    })
}
