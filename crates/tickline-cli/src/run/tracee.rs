//! A traced process, from one stop to the next (ptrace(2)).
//!
//! Before the exec, and while the library is mapped into the process, signals work as they do
//! without a tracer. Blocked signals wait in the kernel. The others reach the process. A stop
//! signal stops it until SIGCONT comes.

#![allow(unsafe_code, reason = "requests of ptrace(2) that nix does not know")]

use std::io;
use std::ptr;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::unistd::Pid;

/// Signals 1 to 64, as the kernel has them: a bit each.
pub(super) type SignalMask = u64;

/// The size of a [`SignalMask`], as those requests of ptrace(2) want it.
const MASK_BYTES: usize = size_of::<SignalMask>();

/// Where a process has stopped for its tracer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has executed a program.
    Exec,
    /// This signal is about to be delivered.
    Signal(libc::c_int),
    /// It is stopped as by SIGSTOP.
    Group,
    /// Any other, such as the end of [`Group`](Self::Group).
    Other,
    /// It exists no more.
    Ended,
}

impl Stop {
    /// What waitpid(2) says.
    const fn from_status(status: libc::c_int) -> Self {
        if !libc::WIFSTOPPED(status) {
            return Self::Ended;
        }
        match (status >> 16, libc::WSTOPSIG(status)) {
            (libc::PTRACE_EVENT_EXEC, _) => Self::Exec,
            (libc::PTRACE_EVENT_STOP, libc::SIGTRAP) => Self::Other,
            (libc::PTRACE_EVENT_STOP, _) => Self::Group,
            (0, signal) => Self::Signal(signal),
            _ => Self::Other,
        }
    }
}

/// The error for a program that is not there any more.
pub(super) fn ended() -> io::Error {
    io::Error::other("the program ended while it was prepared")
}

/// A process that this one traces.
#[derive(Debug)]
pub(super) struct Tracee {
    pub(super) pid: Pid,
}

impl Tracee {
    pub(super) fn seize(pid: Pid) -> nix::Result<Self> {
        ptrace::seize(pid, Options::PTRACE_O_TRACEEXEC)?;
        Ok(Self { pid })
    }

    /// Waits until the process, which runs, executes a program; `false` if it ends before.
    pub(super) fn wait_for_exec(&self) -> io::Result<bool> {
        loop {
            match self.next()? {
                Stop::Signal(signal) => self.go_on(signal)?,
                stop => return Ok(stop == Stop::Exec),
            }
        }
    }

    /// Goes on to a breakpoint. All signals must be blocked.
    pub(super) fn to_breakpoint(&self) -> io::Result<()> {
        self.go_on(0)?;
        match self.next()? {
            Stop::Signal(libc::SIGTRAP) => Ok(()),
            Stop::Ended => Err(ended()),
            // The kernel delivers no other blocked signal, but for an instruction that failed.
            stop => {
                let text = format!("the library could not be started in the program: {stop:?}");
                Err(io::Error::other(text))
            }
        }
    }

    /// Waits for a stop that is not for SIGSTOP and SIGCONT, which do what they do without a
    /// tracer.
    fn next(&self) -> io::Result<Stop> {
        loop {
            match self.wait()? {
                Stop::Signal(libc::SIGSTOP) => self.go_on(libc::SIGSTOP)?,
                Stop::Group => self.listen()?,
                Stop::Other => self.go_on(0)?,
                stop => return Ok(stop),
            }
        }
    }

    /// Lets go of the process, which goes on.
    pub(super) fn release(self) {
        // If it was killed meanwhile, it is not there any more.
        ptrace::setoptions(self.pid, Options::empty()).ok();
        ptrace::detach(self.pid, None).ok();
    }

    /// The signals that the process blocks.
    pub(super) fn blocked(&self) -> io::Result<SignalMask> {
        // PTRACE_GETSIGMASK: musl and glibc have it with different types.
        let (request, mut mask): (_, SignalMask) = (0x420a, 0);
        // SAFETY: there is room for the mask.
        let result = unsafe { libc::ptrace(request, self.pid.as_raw(), MASK_BYTES, &raw mut mask) };
        Errno::result(result)?;
        Ok(mask)
    }

    pub(super) fn block(&self, mask: SignalMask) -> io::Result<()> {
        // PTRACE_SETSIGMASK.
        let request = 0x420b;
        // SAFETY: the kernel reads the mask, no more.
        let result = unsafe { libc::ptrace(request, self.pid.as_raw(), MASK_BYTES, &raw const mask) };
        Errno::result(result)?;
        Ok(())
    }

    fn wait(&self) -> io::Result<Stop> {
        // nix's own fails on real-time signals.
        let mut status = 0;
        // SAFETY: there is room for the status.
        let result = unsafe { libc::waitpid(self.pid.as_raw(), &raw mut status, libc::__WALL) };
        Errno::result(result)?;
        Ok(Stop::from_status(status))
    }

    /// The process goes on to its next stop, with this signal, if it is not 0.
    fn go_on(&self, signal: libc::c_int) -> io::Result<()> {
        let (pid, signal) = (self.pid.as_raw(), libc::c_long::from(signal));
        // SAFETY: this request takes no pointer.
        resumed(unsafe { libc::ptrace(libc::PTRACE_CONT, pid, ptr::null_mut::<libc::c_void>(), signal) })
    }

    /// The process goes on when SIGCONT comes.
    fn listen(&self) -> io::Result<()> {
        let (pid, nothing) = (self.pid.as_raw(), ptr::null_mut::<libc::c_void>());
        // SAFETY: this request takes no pointer.
        resumed(unsafe { libc::ptrace(libc::PTRACE_LISTEN, pid, nothing, nothing) })
    }
}

fn resumed(result: libc::c_long) -> io::Result<()> {
    match Errno::result(result) {
        // It was killed: `wait` will say so.
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
