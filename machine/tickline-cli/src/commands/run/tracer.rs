//! The helper: a child that traces the program's exec, starts the library, and detaches.
//!
//! ```text
//! this process                        the helper, a child without an exit signal
//!   fork
//!   allow the helper to trace  ---->    PTRACE_SEIZE
//!   execute the program        <----    "traced"
//!   (stopped at exec)                   map, call start, restore, detach, exit
//!   wait for the helper
//!   run
//! ```
//!
//! So the program is this process, with the same process number, parent and exit code. The
//! library's `resume` waits for the helper's exit before the program's first instruction. By then
//! the helper's files are closed, and the program has no child that it did not start.

#![allow(unsafe_code, reason = "fork, while this process has one thread")]

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{ForkResult, Pid, getpid, setsid};
use rustix::thread::{SecureComputingMode, secure_computing_mode};

use super::inject::{Outcome, Payload, inject};
use super::tracee::Tracee;

/// Reports the outcome of the helper's work, before the program's first instruction.
type Report<'a> = &'a dyn Fn(io::Result<Outcome>);

/// The process number of the helper, which waits for this process's exec.
#[derive(Debug)]
pub(super) struct Helper(Pid);

impl Helper {
    /// Kills the helper, which ends the tracing of this process.
    pub(super) fn kill(self) {
        kill(self.0, Signal::SIGKILL).ok();
        self.wait();
    }

    /// Waits for the helper's exit.
    fn wait(self) {
        // Without `__WALL`, waitpid(2) waits only for children whose exit signal is SIGCHLD.
        waitpid(self.0, Some(WaitPidFlag::__WALL)).ok();
    }
}

/// Forks a helper that serves the program which this process executes next. Returns once the helper
/// traces this process. The error says why there is no helper.
pub(super) fn fork_helper(payload: Payload<'_>, report: Report<'_>) -> io::Result<Helper> {
    let program = getpid();
    if !has_one_namespace() {
        let text = "process numbers in /proc, or those of its children, are of another namespace";
        return Err(io::Error::other(text));
    }
    if is_in_filtered_unit() {
        let text = "its unit has a filter of system calls (SystemCallFilter=, \
                    MemoryDenyWriteExecute= and others), which may kill a process that calls \
                    ptrace";
        return Err(io::Error::other(text));
    }
    let (mut own_end, mut helpers) = UnixStream::pair()?;
    let not_started = |error| io::Error::other(format!("its helper was not started: {error}"));
    let helper = match fork_without_exit_signal().map_err(not_started)? {
        ForkResult::Child => {
            drop(own_end);
            detach_from_terminal();
            if let Err(error) = trace(program, &mut helpers, payload, report) {
                report(Err(error));
            }
            // SAFETY: the call does not return. It runs neither destructors nor `atexit` handlers,
            // which belong to the parent.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => child,
    };
    drop(helpers);
    // Yama (Linux, Documentation/admin-guide/LSM/Yama) requires this. Without Yama the call fails.
    if let Some(helper) = rustix::process::Pid::from_raw(helper.as_raw()) {
        rustix::process::set_ptracer(rustix::process::PTracer::ProcessID(helper)).ok();
    }
    let helper = Helper(helper);
    let mut error = [0; 4];
    let answered = own_end
        .write_all(&[0])
        .and_then(|()| own_end.read_exact(&mut error));
    match (answered, i32::from_ne_bytes(error)) {
        (Ok(()), 0) => Ok(helper),
        (answered, error) => {
            helper.wait();
            answered.map_err(|_| io::Error::other("its helper was killed"))?;
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

/// Whether this process is in a systemd unit (systemd.exec(5), `$INVOCATION_ID`) with a system call
/// filter. `@system-service` lacks ptrace, and a process cannot find out for which calls a filter
/// kills it. Container engines have filters, too, but allow ptrace.
fn is_in_filtered_unit() -> bool {
    secure_computing_mode() == Ok(SecureComputingMode::Filter)
        && std::env::var_os("INVOCATION_ID").is_some()
}

/// Whether this process, its children and `/proc` are in one PID namespace (pid_namespaces(7)).
/// Otherwise the helper might trace one process and write to another. It might also be the first
/// process of a new namespace, which accepts no further process once the first one has ended.
fn has_one_namespace() -> bool {
    let link = |name: &str| fs::read_link(name).ok();
    let namespace = link("/proc/self/ns/pid");
    namespace.is_some()
        && namespace == link("/proc/self/ns/pid_for_children")
        && link("/proc/self")
            .is_some_and(|number| number.as_os_str() == getpid().to_string().as_str())
}

/// As fork(2), but without an exit signal: the child's end sends no SIGCHLD to this process.
fn fork_without_exit_signal() -> io::Result<ForkResult> {
    let none: libc::c_long = 0;
    // SAFETY: clone(2) without flags and signal is a fork: the child has its own copy of the
    // memory. This process has one thread, so no other thread holds a lock in the copy.
    let result = unsafe { libc::syscall(libc::SYS_clone, none, none, none, none, none) };
    match i32::try_from(Errno::result(result)?).map_err(io::Error::other)? {
        0 => Ok(ForkResult::Child),
        child => Ok(ForkResult::Parent {
            child: Pid::from_raw(child),
        }),
    }
}

/// Keeps the helper running when the terminal stops or interrupts the program. The program still
/// gets these signals.
fn detach_from_terminal() {
    setsid().ok();
    SigSet::all().thread_block().ok();
}

/// The work of the helper process.
fn trace(
    program: Pid,
    parent: &mut UnixStream,
    payload: Payload<'_>,
    report: Report<'_>,
) -> io::Result<()> {
    parent.read_exact(&mut [0])?;
    let seized = Tracee::seize(program);
    let error = seized.as_ref().map_or_else(|error| *error as i32, |_| 0);
    parent.write_all(&error.to_ne_bytes())?;
    // The parent reports this error.
    let Ok(tracee) = seized else { return Ok(()) };
    if !tracee.wait_for_exec()? {
        return Ok(());
    }
    // If the helper is killed from here on, the changed program must not run on.
    ptrace::setoptions(program, Options::PTRACE_O_EXITKILL)?;
    let start = inject(&tracee, payload);
    let is_unrestored = matches!(start, Ok(Outcome::Unrestored(_)));
    report(start);
    // An unrestored program stays traced, so the kernel kills it when this process exits.
    if !is_unrestored {
        tracee.release();
    }
    Ok(())
}
