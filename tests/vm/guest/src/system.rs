//! The guest's system calls.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::mount::{MntFlags, MsFlags};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::signal::Signal;
use nix::sys::termios::{self, SetArg};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};
use nix::unistd::Pid;
use tickline_observe::clock_ns;

use crate::report;

/// Gives the guest its file systems and the port for reports.
///
/// # Errors
///
/// If the kernel refuses one of them.
pub(crate) fn prepare() -> io::Result<()> {
    for (kind, path) in [
        (c"proc", c"/proc"),
        (c"sysfs", c"/sys"),
        (c"devtmpfs", c"/dev"),
    ] {
        mount(kind, path)?;
    }
    report::open()
}

/// Mounts a file system of this kind.
pub(crate) fn mount(kind: &CStr, path: &CStr) -> io::Result<()> {
    Ok(nix::mount::mount(
        Some(kind),
        path,
        Some(kind),
        MsFlags::empty(),
        None::<&CStr>,
    )?)
}

/// Unmounts a file system, even if files in it are open.
pub(crate) fn unmount(path: &CStr) -> io::Result<()> {
    Ok(nix::mount::umount2(path, MntFlags::MNT_DETACH)?)
}

/// Makes a command start its program without the right to read the counter.
pub(crate) fn without_counter(command: &mut Command) -> &mut Command {
    let deny = || {
        // SAFETY: the call changes only this process's right.
        check(unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) })
    };
    // SAFETY: between fork and exec the child makes only a system call.
    unsafe { command.pre_exec(deny) }
}

/// Sets a serial port to raw mode, without echo and without a change of line ends.
pub(crate) fn make_raw(port: &File) -> io::Result<()> {
    let mut settings = termios::tcgetattr(port)?;
    termios::cfmakeraw(&mut settings);
    Ok(termios::tcsetattr(port, SetArg::TCSANOW, &settings)?)
}

/// Ends the guest. `main` has checked that this is the first process of a guest.
pub(crate) fn power_off() -> ! {
    reboot(RebootMode::RB_POWER_OFF).ok();
    loop {
        std::thread::park();
    }
}

/// Sends a signal to a child of this process.
pub(crate) fn send(child: &Child, signal: Signal) -> io::Result<()> {
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    Ok(nix::sys::signal::kill(pid, signal)?)
}

/// A child that is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Sets the niceness of the calling thread.
pub(crate) fn be_nice(nice: i32) {
    // SAFETY: the call changes only this thread's weight.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

/// `CLOCK_REALTIME` by libc, ns.
pub(crate) fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// Moves `CLOCK_REALTIME` by this many seconds, forwards or backwards.
pub(crate) fn step_clock(seconds: i64) -> io::Result<()> {
    set_clock(realtime_ns().cast_signed() + seconds * 1_000_000_000)
}

/// Sets `CLOCK_REALTIME`, ns since 1970.
pub(crate) fn set_clock(unix_ns: i64) -> io::Result<()> {
    let time = TimeSpec::new(unix_ns / 1_000_000_000, unix_ns % 1_000_000_000);
    Ok(clock_settime(ClockId::CLOCK_REALTIME, time)?)
}

/// Changes the state of the kernel's clocks by adjtimex(2), if `change` asks for it. Returns the
/// state.
pub(crate) fn adjust(change: impl FnOnce(&mut libc::timex)) -> io::Result<libc::timex> {
    // SAFETY: a `timex` of zeros is valid, and asks for no change.
    let mut request: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    change(&mut request);
    // SAFETY: the request is valid for reads and writes.
    check(unsafe { libc::adjtimex(&raw mut request) }).map(|()| request)
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
