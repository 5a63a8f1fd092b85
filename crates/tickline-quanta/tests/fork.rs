//! An upkeep in a forked child, which has no thread of its parent.
#![cfg(unix)]

use std::time::Duration;

use quanta::{Error, Instant, Upkeep};
#[cfg(target_os = "linux")]
use tickline_observe::{fork, skip};

/// With quanta, a child can't start an upkeep, because its parent has one. In the child, the drop
/// of the parent's handle must neither wait for a thread that does not exist (the alarm would end
/// such a wait), nor end the child's own upkeep.
#[test]
fn a_forked_child_drops_its_parents_upkeep_and_starts_its_own() {
    let upkeep = Upkeep::new(Duration::from_secs(3600)).start().unwrap();
    // SAFETY: the child only allocates, makes a thread and ends; libc allows both after a fork.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no child");
    if child == 0 {
        // SAFETY: `alarm` has no precondition.
        unsafe { libc::alarm(20) };
        let inherited = Instant::recent();
        let own = Upkeep::new(Duration::from_millis(1)).start();
        drop(upkeep);
        let other = Upkeep::new(Duration::from_millis(1)).start();
        let runs_alone = own.is_ok() && matches!(other, Err(Error::UpkeepRunning));
        let is_good = runs_alone && Instant::recent() >= inherited;
        drop((own, other));
        // SAFETY: `_exit` has no precondition.
        unsafe { libc::_exit(i32::from(!is_good)) };
    }
    let mut status = -1;
    // SAFETY: `status` is valid for a write.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(
        (waited, status),
        (child, 0),
        "the child's end: a signal, or 256 times its exit code"
    );
    assert!(matches!(
        Upkeep::new(Duration::ZERO).start(),
        Err(Error::UpkeepRunning)
    ));
    drop(upkeep);
}

/// Symptom: process 1 of a container forked into a new pid namespace. The child, which is process 1
/// there, could start no upkeep.
#[test]
#[cfg(target_os = "linux")]
fn a_child_with_its_parents_process_id_starts_its_own() {
    let start = || Upkeep::new(Duration::from_secs(3600)).start();
    fork::assert_in_namesake(start, |parents| parents.is_ok() && start().is_ok());
}

/// Symptom: the text named the thread twice, and never why the OS had refused it.
#[test]
#[cfg(target_os = "linux")]
fn an_upkeep_that_the_os_refuses_has_the_error_of_the_os() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let code = fork::code_of_fork(|| {
        // SAFETY: lowers this child's own limit; the struct is valid.
        unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const none) };
        // The limit does not bind root. 65534 is the user `nobody`.
        // SAFETY: the call takes numbers; the kernel refuses it if this is not root.
        unsafe { libc::setresuid(65_534, 65_534, 65_534) };
        match Upkeep::new(Duration::from_secs(3600)).start() {
            Ok(_) => 2, // this user may have as many threads as it likes
            Err(Error::FailedToSpawnUpkeepThread(os)) => {
                i32::from(os.raw_os_error() != Some(libc::EAGAIN))
            }
            Err(_) => 1,
        }
    });
    if code == 2 {
        skip("this user may have as many threads as it likes");
        return;
    }
    assert_eq!(code, 0);
}
