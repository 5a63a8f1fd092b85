//! The helper that traces the program's first step, and lets go of it.
//!
//! ```text
//! this process                        its helper, no child of it
//!   fork twice                          (init's child, so that the program gets no SIGCHLD)
//!   allow the helper to trace  <----    "here I am"
//!   "go on"                    ---->    PTRACE_SEIZE
//!   execute the program        <----    "traced"
//!   (stopped at exec)                   map, call start, restore the registers, end
//!   runs
//! ```
//!
//! So the program is this process: it has its number, its parent, and its exit code. The helper has
//! closed its files before the program executes its first instruction; init, or the nearest
//! subreaper, learns of its end.

#![allow(unsafe_code, reason = "fork, before there is any other thread")]

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, setsid};

use super::image::Image;
use super::inject::inject;
use super::outcome::Start;
use super::tracee::Tracee;

/// Says what came of the helper's work, before the program's first instruction.
pub(super) trait Report {
    fn done(&self, start: io::Result<Start>);
}

/// How often this process looks, once a ms, whether a helper that was killed has ended. The helper
/// does nothing then but wait for its tracee, so it ends at once.
const LOOKS: u32 = 1_000;

/// The helper, which waits for this process's exec.
#[derive(Debug)]
pub(super) struct Helper(Pid);

impl Helper {
    /// Ends the helper. Returns whether nobody traces this process then.
    pub(super) fn dismiss(self) -> bool {
        for _ in 0..LOOKS {
            // What has the helper's number may be another process, if this one's children get a
            // namespace of their own for such numbers.
            if tracer() != Some(self.0) {
                break;
            }
            kill(self.0, Signal::SIGKILL).ok();
            thread::sleep(Duration::from_millis(1));
        }
        tracer() == Some(Pid::from_raw(0))
    }
}

/// The process that traces this one; 0 if none does.
fn tracer() -> Option<Pid> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().map(Pid::from_raw)
}

const READY: u8 = b'r';
const GO_ON: u8 = b'g';

/// Forks a helper that serves the program which this process executes next. Returns when that may
/// be executed; an error says why there is no helper.
pub(super) fn prepare(image: &Image, page: &Path, flags: i32, report: &dyn Report) -> io::Result<Helper> {
    let program = getpid();
    if program.as_raw() == 1 || is_subreaper() {
        return Err(io::Error::other("the helper would become a child of the program, which adopts orphans"));
    }
    if !has_one_namespace() {
        let text = "process numbers in /proc, or those of its children, are of another namespace";
        return Err(io::Error::other(text));
    }
    if is_in_filtered_unit() {
        let text = "SystemCallFilter= of its unit may kill whoever calls ptrace";
        return Err(io::Error::other(text));
    }
    let (mut own, mut helpers) = UnixStream::pair()?;
    match fork_silently()? {
        ForkResult::Child => {
            drop(own);
            // SAFETY: one thread.
            if let Ok(ForkResult::Child) = unsafe { fork() } {
                set_apart();
                if let Err(error) = attend(program, &mut helpers, image, page, flags, report) {
                    report.done(Err(error));
                }
            }
            std::process::exit(0);
        }
        ForkResult::Parent { child } => {
            drop(helpers);
            // Without the flag it would wait for children that tell their end.
            waitpid(child, Some(WaitPidFlag::__WALL))?;
        }
    }
    let ended = |_| io::Error::other("its helper was not started, or was killed");
    let mut pid = [0; 4];
    own.read_exact(&mut pid).map_err(ended)?;
    let pid = i32::from_ne_bytes(pid);
    // Without Yama (Linux, Documentation/admin-guide/LSM/Yama) there is nothing to allow.
    if let Some(helper) = rustix::process::Pid::from_raw(pid) {
        rustix::process::set_ptracer(rustix::process::PTracer::ProcessID(helper)).ok();
    }
    own.write_all(&[GO_ON]).map_err(ended)?;
    let mut answer = [0; 5];
    own.read_exact(&mut answer).map_err(ended)?;
    match answer {
        [READY, ..] => Ok(Helper(Pid::from_raw(pid))),
        [_, code @ ..] => Err(Errno::from_raw(i32::from_ne_bytes(code)).into()),
    }
}

/// Whether this is a unit of systemd (systemd.exec(5), `$INVOCATION_ID`) with a filter of system calls.
/// `@system-service` is without ptrace, and what a filter kills for cannot be asked. Container engines
/// have filters, too, but allow it.
fn is_in_filtered_unit() -> bool {
    // SAFETY: asks only.
    let mode = unsafe { libc::prctl(libc::PR_GET_SECCOMP) };
    mode == 2 && std::env::var_os("INVOCATION_ID").is_some()
}

/// Whether a number means the same process to this one, to its children, and in `/proc`
/// (pid_namespaces(7)). Otherwise the helper might trace one process and write to another. And the
/// first process of a new namespace would be the one that forks the helper; the kernel kills all
/// others of a namespace when its first one ends.
fn has_one_namespace() -> bool {
    let link = |name: &str| fs::read_link(name).ok();
    let own = link("/proc/self/ns/pid");
    own.is_some()
        && own == link("/proc/self/ns/pid_for_children")
        && link("/proc/self").is_some_and(|number| number.as_os_str() == getpid().to_string().as_str())
}

/// As fork(2), but this process gets no signal when the child ends. If it blocks SIGCHLD, that would
/// still be pending when the program begins.
fn fork_silently() -> io::Result<ForkResult> {
    let none: libc::c_long = 0;
    // SAFETY: clone(2) without any flag and without a signal is a fork, and this process has one
    // thread.
    let result = unsafe { libc::syscall(libc::SYS_clone, none, none, none, none, none) };
    match i32::try_from(Errno::result(result)?).map_err(io::Error::other)? {
        0 => Ok(ForkResult::Child),
        child => Ok(ForkResult::Parent { child: Pid::from_raw(child) }),
    }
}

/// Whether this process adopts the orphans among its descendants (prctl(2)).
fn is_subreaper() -> bool {
    let mut is_subreaper: libc::c_int = 0;
    // SAFETY: there is room for the answer.
    let result = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_subreaper) };
    result == 0 && is_subreaper != 0
}

/// The helper goes on when the terminal stops or interrupts the program: what comes to the program
/// meanwhile waits for it.
fn set_apart() {
    setsid().ok();
    SigSet::all().thread_block().ok();
}

/// The helper.
fn attend(
    program: Pid,
    parent: &mut UnixStream,
    image: &Image,
    page: &Path,
    flags: i32,
    report: &dyn Report,
) -> io::Result<()> {
    parent.write_all(&getpid().as_raw().to_ne_bytes())?;
    parent.read_exact(&mut [0])?;
    let seized = Tracee::seize(program);
    let mut answer = [READY, 0, 0, 0, 0];
    if let Err(error) = seized {
        answer[0] = 0;
        answer[1..].copy_from_slice(&(error as i32).to_ne_bytes());
    }
    parent.write_all(&answer)?;
    // The parent says what was refused.
    let Ok(tracee) = seized else { return Ok(()) };
    if !tracee.wait_for_exec()? {
        return Ok(());
    }
    // If this process is killed now, the program must not run on amid what was written into it.
    ptrace::setoptions(program, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL)?;
    let start = inject(&tracee, image, page, flags);
    let is_unrestored = matches!(start, Ok(Start::Unrestored(_)));
    report.done(start);
    if is_unrestored {
        // The kernel kills the program at this process's end, by that option.
        return Ok(());
    }
    // The kernel lets go of the program when this process has ended: after it has closed the files
    // that the program has, too. A program that was killed meanwhile is not there any more.
    ptrace::setoptions(program, Options::empty()).ok();
    Ok(())
}
