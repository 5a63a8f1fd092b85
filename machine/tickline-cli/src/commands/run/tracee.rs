//! A traced process, from one stop to the next (ptrace(2)).
//!
//! Signals work as they do without a tracer, before the exec and while the library is mapped into
//! the process. A blocked signal stays pending. Any other signal reaches the process. A stop signal
//! stops the process until SIGCONT comes.

#![allow(unsafe_code, reason = "requests of ptrace(2) that nix does not know")]

use std::io;
use std::ptr;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::unistd::Pid;

/// A set of the signals 1 to 64, as the kernel stores it: one bit for each signal.
pub(super) type SignalMask = u64;

/// The size of a [`SignalMask`], an argument of the ptrace(2) requests for signal masks.
const MASK_BYTES: usize = size_of::<SignalMask>();

/// Why a process has stopped for its tracer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The process has executed a program.
    Exec,
    /// This signal is about to be delivered.
    Signal(libc::c_int),
    /// A stop signal has stopped the process (group-stop).
    Group,
    /// Any other reason, such as the end of [`Group`](Self::Group).
    Other,
    /// The process has ended.
    Ended,
}

impl Stop {
    /// The stop that a status of waitpid(2) reports.
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

/// The error for a program that has ended.
pub(super) fn ended_error() -> io::Error {
    io::Error::other("the program ended while it was prepared")
}

/// A process that this process traces.
#[derive(Debug)]
pub(super) struct Tracee {
    pub(super) pid: Pid,
}

impl Tracee {
    pub(super) fn seize(pid: Pid) -> nix::Result<Self> {
        ptrace::seize(pid, Options::PTRACE_O_TRACEEXEC)?;
        Ok(Self { pid })
    }

    /// Waits until the running process executes a program; `false` if it ends before.
    pub(super) fn wait_for_exec(&self) -> io::Result<bool> {
        loop {
            match self.next_stop()? {
                Stop::Signal(signal) => self.resume(signal)?,
                stop => return Ok(stop == Stop::Exec),
            }
        }
    }

    /// Runs the process to its next breakpoint. All signals must be blocked.
    pub(super) fn run_to_breakpoint(&self) -> io::Result<()> {
        self.resume(0)?;
        match self.next_stop()? {
            Stop::Signal(libc::SIGTRAP) => Ok(()),
            Stop::Ended => Err(ended_error()),
            // The kernel forces a blocked signal only for an instruction that failed.
            stop => {
                let text = format!("the library could not be started in the program: {stop:?}");
                Err(io::Error::other(text))
            }
        }
    }

    /// Waits for the next stop that SIGSTOP or SIGCONT has not caused. These two signals act as
    /// they do without a tracer.
    fn next_stop(&self) -> io::Result<Stop> {
        loop {
            match self.wait()? {
                Stop::Signal(libc::SIGSTOP) => self.resume(libc::SIGSTOP)?,
                Stop::Group => self.listen()?,
                Stop::Other => self.resume(0)?,
                stop => return Ok(stop),
            }
        }
    }

    /// Detaches from the process, which goes on.
    pub(super) fn release(self) {
        // Both calls fail if the process was killed.
        ptrace::setoptions(self.pid, Options::empty()).ok();
        ptrace::detach(self.pid, None).ok();
    }

    /// The signals that the process blocks.
    pub(super) fn signal_mask(&self) -> io::Result<SignalMask> {
        // PTRACE_GETSIGMASK, whose type differs between musl and glibc.
        let (request, mut mask): (_, SignalMask) = (0x420a, 0);
        // SAFETY: the kernel writes `MASK_BYTES` to `mask`, which has this size.
        let result = unsafe { libc::ptrace(request, self.pid.as_raw(), MASK_BYTES, &raw mut mask) };
        Errno::result(result)?;
        Ok(mask)
    }

    pub(super) fn set_signal_mask(&self, mask: SignalMask) -> io::Result<()> {
        // PTRACE_SETSIGMASK.
        let request = 0x420b;
        // SAFETY: the kernel only reads `MASK_BYTES` from `mask`, which has this size.
        let result =
            unsafe { libc::ptrace(request, self.pid.as_raw(), MASK_BYTES, &raw const mask) };
        Errno::result(result)?;
        Ok(())
    }

    fn wait(&self) -> io::Result<Stop> {
        // nix's `waitpid` fails on real-time signals.
        let mut status = 0;
        // SAFETY: the kernel writes an `int` to `status`, which has this type.
        let result = unsafe { libc::waitpid(self.pid.as_raw(), &raw mut status, libc::__WALL) };
        Errno::result(result)?;
        Ok(Stop::from_status(status))
    }

    /// Resumes the process, and delivers this signal if it is not 0.
    fn resume(&self, signal: libc::c_int) -> io::Result<()> {
        let pid = self.pid.as_raw();
        let signal = libc::c_long::from(signal);
        // SAFETY: this request takes no pointer.
        resumed(unsafe {
            libc::ptrace(
                libc::PTRACE_CONT,
                pid,
                ptr::null_mut::<libc::c_void>(),
                signal,
            )
        })
    }

    /// Leaves the process stopped until SIGCONT comes.
    fn listen(&self) -> io::Result<()> {
        let pid = self.pid.as_raw();
        let nothing = ptr::null_mut::<libc::c_void>();
        // SAFETY: this request takes no pointer.
        resumed(unsafe { libc::ptrace(libc::PTRACE_LISTEN, pid, nothing, nothing) })
    }
}

/// The result of a ptrace(2) request, without the error for a process that was killed.
fn resumed(result: libc::c_long) -> io::Result<()> {
    match Errno::result(result) {
        // The process was killed. The next `wait` reports that.
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of waitpid(2) for a stop by this signal, with this event of ptrace(2).
    const fn stopped(event: libc::c_int, signal: libc::c_int) -> libc::c_int {
        (event << 16) | (signal << 8) | 0x7f
    }

    #[test]
    fn the_status_of_waitpid_says_why_a_process_has_stopped() {
        const EXITED_WITH_0: libc::c_int = 0;
        for (status, expected) in [
            (EXITED_WITH_0, Stop::Ended),
            (libc::SIGKILL, Stop::Ended),
            (stopped(libc::PTRACE_EVENT_EXEC, libc::SIGTRAP), Stop::Exec),
            (stopped(libc::PTRACE_EVENT_STOP, libc::SIGTRAP), Stop::Other),
            (stopped(libc::PTRACE_EVENT_STOP, libc::SIGSTOP), Stop::Group),
            (stopped(libc::PTRACE_EVENT_FORK, libc::SIGTRAP), Stop::Other),
            (stopped(0, libc::SIGUSR1), Stop::Signal(libc::SIGUSR1)),
        ] {
            assert_eq!(Stop::from_status(status), expected, "{status:#x}");
        }
    }

    #[test]
    fn a_request_to_a_process_that_was_killed_is_no_error() {
        let result_with = |errno: Errno| {
            errno.set();
            resumed(-1).map_err(|error| error.raw_os_error())
        };
        assert_eq!(result_with(Errno::ESRCH), Ok(()));
        assert_eq!(result_with(Errno::EIO), Err(Some(libc::EIO)));
    }
}
