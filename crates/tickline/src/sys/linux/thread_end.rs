//! Linux: whether a thread of this process has ended, by its id.
//!
//! A thread that holds a lock may end in the middle of its work: a seccomp filter kills it alone,
//! or a signal handler makes the system call `exit`. The thread then runs no more code, so other
//! threads must ask the kernel. Each thread has a clock of its CPU time, whose id contains the
//! thread's, and `clock_gettime` of such a clock fails with EINVAL if this process has no such
//! thread (Linux `kernel/time/posix-cpu-timers.c`, `pid_for_clock`). Two properties make it the
//! right call:
//!
//! - Every filter must allow `clock_gettime`, so the question kills nobody.
//! - It finds only threads of the calling process. So the same call tells a thread whether an id is
//!   its own, and whether it is in the process that has the fork token, or only shares the memory
//!   (`CLONE_VM`).
//!
//! The first thread is an exception. Its id is the process's, and is known until the process ends.
//! With full probes its state in `/proc/self/stat` tells: `Z` once the thread has ended.
//!
//! What it can't do:
//!
//! - If the kernel has given the id of a thread that has ended to a new thread of this process, the
//!   lock stays held until the new one ends, too.
//! - Of two processes that share this memory (`CLONE_VM`), each finds only its own threads. If one
//!   of them ends in the middle of an iteration, the lock stays held in the other.
//! - Two processes that share this memory, and have the same id in two pid namespaces, can't be
//!   told apart. A program that makes them must not use one clock in both.
//!
//! # Rejected
//!
//! | option | price |
//! |---|---|
//! | a robust futex in every driver | a thread has one robust list, which is libc's; a signal handler may have interrupted libc in the middle of a change of that list |
//! | `tgkill` with signal 0 | one more system call that a filter may kill for; it finds a first thread that has ended, too |
//! | an age, after which the lock is taken over | a stopped thread may go on, and write to memory that is another's by then |

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence};

use tickline_core::reference::Reference;
use tickline_core::try_lock::LockToken;

use super::file::read;
use super::fork::{process_id_in, process_token};
use super::process::errno;
use crate::sys::reference::OsClock;

/// Whether the state of the first thread may be read from a file.
static MAY_READ_FILES: AtomicBool = AtomicBool::new(true);

/// The least time between two reads of that file, ns. A read takes about 10 us. The first thread
/// may be stopped in the middle of an iteration, and readings of the others must not take that
/// long.
const READ_EVERY_NS: i64 = 10_000_000;

/// The start of `/proc/self/stat`: the id, the name of at most 15 bytes in parentheses, the state
/// (proc_pid_stat(5)).
const STAT_BYTES: usize = 64;

/// `token`, for the calling thread. Unchanged if its id can't be found out.
pub(crate) fn naming_this_thread(token: LockToken) -> LockToken {
    match own_id() {
        // SAFETY: 1. The id is that of the calling thread, in the process that has the fork token.
        // So are the ids of all threads that take locks with this number, and `has_ended` finds
        // each of them while it lives: it asks only in that process. 2. A thread that the kernel
        // does not find any more, or that is a zombie, has made its last store before the kernel
        // took the locks under which it was asked. 3. The callers take and release locks on this
        // thread. 4. Ids are given out in turn.
        Some(thread) => unsafe { token.of_thread(thread, has_ended) },
        None => token,
    }
}

/// The id of the calling thread. libc knows it without a system call. But in a child of a bare
/// `clone`, libc has the id of a thread of the parent, so the kernel is asked whether the id
/// is this process's.
fn own_id() -> Option<u32> {
    let process = process_id_in(process_token())?;
    // SAFETY: the call has no precondition.
    let thread = id_of(unsafe { libc::pthread_self() })?;
    (is_here(process) == Some(true) && (thread == process || is_here(thread) == Some(true)))
        .then_some(thread)
}

/// The id that libc knows of this thread, which was neither joined nor detached. `None` if glibc
/// knows that the thread has ended.
fn id_of(thread: libc::pthread_t) -> Option<u32> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: a thread that libc keeps, and a place that is valid for a write.
    if unsafe { libc::pthread_getcpuclockid(thread, &raw mut clock) } != 0 {
        return None;
    }
    u32::try_from(!(clock >> 3)).ok()
}

/// Whether this thread of the process, which was neither joined nor detached, has ended. `false` in
/// a process that only shares the memory: it does not find the thread. Without a fork token this is
/// not asked: each process then has a process token of its own, which the thread's owner compares.
pub(super) fn thread_has_ended(thread: libc::pthread_t) -> bool {
    if process_id_in(process_token()).is_some_and(|process| is_here(process) != Some(true)) {
        return false;
    }
    let has_ended = id_of(thread).is_none_or(|id| is_here(id) == Some(false));
    // ORDERING: Acquire, pairs with the locks that the kernel took after the thread's last store.
    // Weaker would let the caller's next load miss that store. No test sees a weaker one: Miri has
    // no such thread.
    fence(Ordering::Acquire);
    has_ended
}

/// Whether the thread with this id has ended. It took a lock with this process's fork token.
fn has_ended(thread: u32) -> bool {
    let token = process_token();
    let Some(process) = process_id_in(token) else {
        return false;
    };
    if is_here(process) != Some(true) {
        return false; // this process only shares the memory
    }
    if thread == process {
        first_thread_has_ended(token)
    } else {
        is_here(thread) == Some(false)
    }
}

/// Whether this process has a thread with this id, the first one even after its end. `None` if the
/// kernel does not say.
fn is_here(thread: u32) -> Option<bool> {
    // `MAKE_THREAD_CPUCLOCK` and `CPUCLOCK_SCHED` (`include/linux/posix-timers_types.h`).
    let clock = (!libc::clockid_t::try_from(thread).ok()?) << 3 | 0b110;
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is valid for a write.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } == 0 {
        return Some(true);
    }
    (errno() == libc::EINVAL).then_some(false)
}

/// Whether the first thread of this process, which has this token, has ended.
fn first_thread_has_ended(token: u64) -> bool {
    /// The token of the process whose first thread has ended.
    static ENDED: AtomicU64 = AtomicU64::new(0);
    /// The time of the last read of the file, ns.
    static LAST_READ_NS: AtomicI64 = AtomicI64::new(i64::MIN);
    // ORDERING: Relaxed for all: each word stands for itself. What the thread has stored is visible
    // to every thread of the process: the kernel has ended it.
    let order = Ordering::Relaxed;
    if ENDED.load(order) == token {
        return true;
    }
    let now_ns = OsClock.monotonic_ns();
    let last_ns = LAST_READ_NS.load(order);
    let is_recent = (0..READ_EVERY_NS).contains(&now_ns.saturating_sub(last_ns));
    if is_recent || !MAY_READ_FILES.load(order) {
        return false;
    }
    LAST_READ_NS.store(now_ns, order);
    let has_ended = is_ended_in(read(c"/proc/self/stat", &mut [0; STAT_BYTES]));
    if has_ended {
        ENDED.store(token, order);
    }
    has_ended
}

/// Whether this text of `/proc/self/stat` has the state of a thread that has ended. A name
/// may contain parentheses.
fn is_ended_in(stat: &[u8]) -> bool {
    let name_end = stat.iter().rposition(|byte| *byte == b')');
    let state = name_end.and_then(|end| stat.get(end + 2));
    matches!(state, Some(b'Z' | b'X' | b'x'))
}

/// Keeps the state of the first thread from being read from a file. If that thread ends while it
/// holds a lock, the lock then stays held.
pub(crate) fn forbid_reading_files() {
    // ORDERING: Relaxed, a setting.
    MAY_READ_FILES.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::sys::Thread;
    use crate::testing::skip;

    #[test]
    fn a_thread_has_ended_once_it_was_joined_and_not_before() {
        let (send_id, id) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send_id.send(own_id()).unwrap();
            ends.recv().ok();
        });
        let Some(id) = id.recv().unwrap() else {
            return skip("no fork token, or no clocks of threads");
        };
        assert_ne!(Some(id), own_id());
        assert!(!has_ended(id));
        drop(end);
        thread.join().unwrap();
        // A join returns when the thread has cleared its id, shortly before the kernel forgets it.
        let begun = std::time::Instant::now();
        while !has_ended(id) {
            assert!(begun.elapsed().as_secs() < 20, "the end is not seen");
            std::thread::yield_now();
        }
    }

    /// It waits for the other threads.
    #[test]
    fn the_first_thread_of_a_running_process_has_not_ended() {
        let (Some(_), Some(first)) = (own_id(), process_id_in(process_token())) else {
            return skip("no fork token, or no clocks of threads");
        };
        assert!(!has_ended(first));
    }

    /// Symptom: a process in this memory (`CLONE_VM`) took each thread of the other for ended.
    #[test]
    fn a_process_in_the_same_memory_does_not_say_that_the_others_thread_has_ended() {
        extern "C" fn ask(thread: *mut libc::c_void) -> libc::c_int {
            // SAFETY: the first process waits for this one before it joins the thread.
            unsafe { &*thread.cast::<Thread>() }.has_ended().into()
        }
        if process_id_in(process_token()).is_none() {
            return skip("no fork token");
        }
        let (end, ends) = mpsc::channel::<()>();
        let thread = Thread::spawn(None, move || _ = ends.recv()).expect("a thread");
        let argument = (&raw const thread).cast_mut().cast();
        let mut stack = vec![0_u128; 4_096];
        let top = stack.as_mut_ptr_range().end.cast();
        let flags = libc::CLONE_VM | libc::SIGCHLD;
        // SAFETY: the stack is the new process's own. It runs a function that uses no thread-local
        // data except for errno, while this thread waits; its argument outlives it.
        let process = unsafe { libc::clone(ask, top, flags, argument) };
        let mut status = 0;
        // SAFETY: `status` is valid for a write.
        let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
        drop(end);
        thread.join();
        if process < 0 {
            return skip("no clone(CLONE_VM)");
        }
        assert_eq!((waited, status), (process, 0));
    }

    #[test]
    fn the_state_comes_after_the_name() {
        for (stat, ended) in [
            ("7 (main) S 1 7 7", false),
            ("7 (main) Z 1 7 7", true),
            ("7 (a) Z 1) R 1 7 7", false),
            ("7 (a) R) X 1 7 7", true),
            ("7 (main)", false),
            ("", false),
        ] {
            assert_eq!(is_ended_in(stat.as_bytes()), ended, "{stat}");
        }
    }
}
