//! The helper that traces the program's first step, and lets go of it.
//!
//! ```text
//! this process                        its helper, a child that tells no end by a signal
//!   fork
//!   allow the helper to trace  ---->    PTRACE_SEIZE
//!   execute the program        <----    "traced"
//!   (stopped at exec)                   map, call start, restore, let go, end
//!   wait for the helper
//!   run
//! ```
//!
//! So the program is this process, and has its number, its parent, and its exit code. The library's
//! `finish` waits for the helper before the program's first instruction. So the helper's files are
//! closed by then, and the program has no child that it does not know.

#![allow(unsafe_code, reason = "fork, before there is any other thread")]

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{ForkResult, Pid, getpid, setsid};
use rustix::thread::{SecureComputingMode, secure_computing_mode};

use super::inject::{Payload, Start, inject};
use super::tracee::Tracee;

/// Says what came of the helper's work, before the program's first instruction.
type Tell<'a> = &'a dyn Fn(io::Result<Start>);

/// The helper, which waits for this process's exec.
#[derive(Debug)]
pub(super) struct Helper(Pid);

impl Helper {
    /// Ends the helper. Nobody traces this process then.
    pub(super) fn dismiss(self) {
        kill(self.0, Signal::SIGKILL).ok();
        self.wait();
    }

    /// Waits for its end.
    fn wait(self) {
        // Without the flag this would wait for children that tell their end by SIGCHLD.
        waitpid(self.0, Some(WaitPidFlag::__WALL)).ok();
    }
}

/// Forks a helper that serves the program which this process executes next. Returns when that may
/// be executed; an error says why there is no helper.
pub(super) fn fork_helper(payload: Payload<'_>, report: Tell<'_>) -> io::Result<Helper> {
    let program = getpid();
    if !has_one_namespace() {
        let text = "process numbers in /proc, or those of its children, are of another namespace";
        return Err(io::Error::other(text));
    }
    if is_in_filtered_unit() {
        let text = "its unit has a filter of system calls (SystemCallFilter=, MemoryDenyWriteExecute= and others), which may kill for ptrace";
        return Err(io::Error::other(text));
    }
    let (mut own, mut helpers) = UnixStream::pair()?;
    let not_started = |error| io::Error::other(format!("its helper was not started: {error}"));
    let helper = match fork_silently().map_err(not_started)? {
        ForkResult::Child => {
            drop(own);
            set_apart();
            if let Err(error) = attend(program, &mut helpers, payload, report) {
                report(Err(error));
            }
            // SAFETY: the call does not return, and runs neither destructors nor handlers of
            // `atexit`, which belong to the parent.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => child,
    };
    drop(helpers);
    // Without Yama (Linux, Documentation/admin-guide/LSM/Yama) there is nothing to allow.
    if let Some(helper) = rustix::process::Pid::from_raw(helper.as_raw()) {
        rustix::process::set_ptracer(rustix::process::PTracer::ProcessID(helper)).ok();
    }
    let helper = Helper(helper);
    let mut error = [0; 4];
    let answered = own.write_all(&[0]).and_then(|()| own.read_exact(&mut error));
    match (answered, i32::from_ne_bytes(error)) {
        (Ok(()), 0) => Ok(helper),
        (answered, error) => {
            helper.wait();
            answered.map_err(|_| io::Error::other("its helper was killed"))?;
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

/// Whether this is a unit of systemd (systemd.exec(5), `$INVOCATION_ID`) with a filter of system
/// calls. `@system-service` lacks ptrace, and nobody can ask a filter for which calls it kills.
/// Container engines have filters, too, but allow ptrace.
fn is_in_filtered_unit() -> bool {
    secure_computing_mode() == Ok(SecureComputingMode::Filter) && std::env::var_os("INVOCATION_ID").is_some()
}

/// Whether a number means the same process to this one, to its children, and in `/proc`
/// (pid_namespaces(7)). Otherwise the helper might trace one process and write to another. It might
/// also be the first process of a new namespace, which takes no further process once the first one
/// has ended.
fn has_one_namespace() -> bool {
    let link = |name: &str| fs::read_link(name).ok();
    let own = link("/proc/self/ns/pid");
    own.is_some()
        && own == link("/proc/self/ns/pid_for_children")
        && link("/proc/self").is_some_and(|number| number.as_os_str() == getpid().to_string().as_str())
}

/// As fork(2), but this process gets no signal when the child ends, which the program would get.
fn fork_silently() -> io::Result<ForkResult> {
    let none: libc::c_long = 0;
    // SAFETY: clone(2) without any flag and without a signal is a fork: the child has its own copy
    // of the memory. This process has one thread, so no lock is held in it that nobody would free.
    let result = unsafe { libc::syscall(libc::SYS_clone, none, none, none, none, none) };
    match i32::try_from(Errno::result(result)?).map_err(io::Error::other)? {
        0 => Ok(ForkResult::Child),
        child => Ok(ForkResult::Parent { child: Pid::from_raw(child) }),
    }
}

/// Keeps the helper running when the terminal stops or interrupts the program. The program gets
/// such signals later.
fn set_apart() {
    setsid().ok();
    SigSet::all().thread_block().ok();
}

/// The helper.
fn attend(program: Pid, parent: &mut UnixStream, payload: Payload<'_>, report: Tell<'_>) -> io::Result<()> {
    parent.read_exact(&mut [0])?;
    let seized = Tracee::seize(program);
    let error = seized.as_ref().map_or_else(|error| *error as i32, |_| 0);
    parent.write_all(&error.to_ne_bytes())?;
    // The parent says what was refused.
    let Ok(tracee) = seized else { return Ok(()) };
    if !tracee.wait_for_exec()? {
        return Ok(());
    }
    // If this process is killed now, the program must not run on amid what was written into it.
    ptrace::setoptions(program, Options::PTRACE_O_EXITKILL)?;
    let start = inject(&tracee, payload);
    let is_unrestored = matches!(start, Ok(Start::Unrestored(_)));
    report(start);
    // Otherwise the kernel kills the program at this process's end, by that option.
    if !is_unrestored {
        tracee.release();
    }
    Ok(())
}
