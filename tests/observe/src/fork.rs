//! Runs tests in forked children.

#[cfg(target_os = "linux")]
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(target_os = "linux")]
use std::ptr;

#[cfg(target_os = "linux")]
use crate::skip;

/// The exit code of a child on a machine that lacks what a test needs.
pub const CANNOT: i32 = 77;

/// The exit code of a child that panicked, as of any other Rust program.
const PANICKED: i32 = 101;

/// The time, s, after which SIGALRM kills a test that hangs. No test takes a tenth of it.
const TIMEOUT_S: u32 = 120;

/// Lets SIGALRM kill this process in 120 s.
pub fn watch_over() {
    // SAFETY: the call takes a number; the signal has no handler, and ends the process.
    unsafe { libc::alarm(TIMEOUT_S) };
}

/// Runs `body` in a forked child, which ends with the code that it returns. Returns the status of
/// waitpid(2). `body` may take no lock that another thread could hold at the fork.
///
/// # Panics
///
/// If there is no child, or it can't be waited for.
pub fn status_of_fork(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `body`, which takes no lock that another thread could hold.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        watch_over();
        // Without this, the test harness would catch the panic and end this thread, the only one,
        // so the process would end with 0.
        let code = catch_unwind(AssertUnwindSafe(body)).unwrap_or(PANICKED);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; `status` is valid for a write.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

/// Like [`status_of_fork`], but returns the child's exit code.
///
/// # Panics
///
/// As [`status_of_fork`], and if a signal kills the child.
pub fn code_of_fork(body: impl FnOnce() -> i32) -> i32 {
    let status = status_of_fork(body);
    assert!(
        libc::WIFEXITED(status),
        "signal {} killed the child",
        libc::WTERMSIG(status)
    );
    libc::WEXITSTATUS(status)
}

/// Like [`code_of_fork`], but in a time namespace whose monotonic clock is `ahead_ns` ahead.
/// Returns [`CANNOT`] if no namespace can be created.
///
/// # Panics
///
/// As [`code_of_fork`].
#[cfg(target_os = "linux")]
pub fn code_in_time_namespace(ahead_ns: i64, body: impl FnOnce() -> i32) -> i32 {
    let seconds = ahead_ns.div_euclid(1_000_000_000);
    let nanos = ahead_ns.rem_euclid(1_000_000_000);
    let table = format!("monotonic {seconds} {nanos}");
    code_of_fork(|| {
        let own = unshare(libc::CLONE_NEWTIME);
        if !own || fs::write("/proc/self/timens_offsets", table).is_err() {
            return CANNOT;
        }
        // Only children of this process are in the new namespace.
        code_of_fork(body)
    })
}

/// Calls `make` in one process, and asserts in a forked child that `is_right` of what it has made.
/// Parent and child have the same id: each is process 1 of its own pid namespace, as a container's
/// process and its child may be. Before Linux 4.14 a process can't know that it is such a child,
/// because there is no memory that a fork wipes. Nothing is asserted there.
///
/// # Panics
///
/// As [`code_of_fork`], and if `is_right` returns false.
#[cfg(target_os = "linux")]
pub fn assert_in_namesake<T>(make: impl FnOnce() -> T, is_right: impl FnOnce(T) -> bool) {
    // SAFETY: without bytes the call only says whether the kernel knows the advice.
    if unsafe { libc::madvise(ptr::null_mut(), 0, libc::MADV_WIPEONFORK) } != 0 {
        return skip("this kernel wipes no memory at a fork");
    }
    let code = code_in_pid_namespace(|| {
        let made = make();
        code_in_pid_namespace(|| i32::from(!is_right(made)))
    });
    if code == CANNOT {
        return skip("no pid namespaces can be made here");
    }
    assert_eq!(code, 0, "1 if the child is wrong");
}

/// Like [`code_of_fork`], but `body` runs as process 1 of a pid namespace. Returns [`CANNOT`] if no
/// namespace can be created.
#[cfg(target_os = "linux")]
fn code_in_pid_namespace(body: impl FnOnce() -> i32) -> i32 {
    code_of_fork(|| {
        if unshare(libc::CLONE_NEWPID) {
            code_of_fork(body)
        } else {
            CANNOT
        }
    })
}

/// Makes a namespace of this kind, for the children of this process, which has one thread.
#[cfg(target_os = "linux")]
fn unshare(kind: libc::c_int) -> bool {
    // SAFETY: the call takes a number.
    let own = unsafe { libc::unshare(kind) == 0 };
    // SAFETY: the call takes a number.
    own || unsafe { libc::unshare(libc::CLONE_NEWUSER | kind) == 0 }
}
