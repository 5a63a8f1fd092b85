//! Linux: the attributes of a quiet thread, its signal mask and its priority.

use core::ptr;
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

/// Blocks all signals of the calling thread until it is dropped. A thread that is made meanwhile
/// inherits that, so it never runs a handler of the program.
#[derive(Debug)]
pub(crate) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    pub(crate) fn new() -> Self {
        // SAFETY: a signal set is plain data, and is filled below.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { core::mem::zeroed() };
        // SAFETY: `all` is valid for a write.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: both sets are valid; with these arguments the call cannot fail.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        Self(before)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set was written by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

/// Gives `thread` the lowest real-time priority (`SCHED_RR`), which threads that it starts do not
/// inherit (`SCHED_RESET_ON_FORK`, sched(7)): those that compare counters wait in loops.
pub(crate) fn make_realtime(thread: &JoinHandle<()>) -> io::Result<()> {
    // SAFETY: sched_param is plain data.
    let mut parameter: libc::sched_param = unsafe { core::mem::zeroed() };
    parameter.sched_priority = 1;
    // std's type is an integer everywhere, musl's is a pointer.
    let id = thread.as_pthread_t() as libc::pthread_t;
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: a thread that was neither joined nor detached has a valid id; the parameter is valid,
    // and a refusal is an error code.
    let refusal = unsafe { libc::pthread_setschedparam(id, policy, &raw const parameter) };
    if refusal == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(refusal)) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// What the kernel says, since musl has a function that always fails.
    fn policy() -> libc::c_long {
        // SAFETY: asks for the calling thread's policy alone.
        unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }
    }

    #[test]
    fn a_realtime_thread_makes_normal_ones() {
        let (go, wait) = mpsc::channel();
        let thread = thread::Builder::new()
            .spawn(move || {
                let () = wait.recv().expect("it is told when");
                let policies = (policy(), thread::spawn(policy).join().expect("it does not panic"));
                let [realtime, normal] = [libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, libc::SCHED_OTHER];
                assert_eq!(policies, (realtime.into(), normal.into()));
            })
            .expect("a thread");
        match make_realtime(&thread) {
            Ok(()) => {
                go.send(()).expect("it waits");
                thread.join().expect("its policies are as expected");
            }
            Err(error) => eprintln!("SKIPPED: no real-time priority for this process: {error}"),
        }
    }
}
