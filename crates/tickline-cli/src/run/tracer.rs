//! Maps the library into a program that has just been executed, and calls its `start` there.
//!
//! ```text
//! this process                        its helper, no child of it
//!   fork twice                          (init's child, so that the program gets no SIGCHLD)
//!   allow the helper to trace  <----    "here I am"
//!   "go on"                    ---->    PTRACE_SEIZE
//!   execute the program        <----    "traced"
//!   (stopped at exec)                   map, call start, restore the registers, detach
//!   runs
//! ```
//!
//! So the program is this process: it has its number, its parent, and its exit code. The helper is
//! gone before the program executes its first instruction.

#![allow(unsafe_code, reason = "fork, before there is any other thread")]

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, setsid};

use super::image::{Image, Segment};
use super::outcome::Outcome;

/// What the helper says of its work: before the program's first instruction.
pub(super) trait Report {
    fn done(&self, outcome: io::Result<Outcome>);
}

const READY: u8 = b'r';
const GO_ON: u8 = b'g';

/// Forks a helper that serves the program which this process executes next. Returns when that may
/// be executed; an error says why there is no helper.
pub(super) fn prepare(image: &Image, page: &Path, flags: u32, report: &dyn Report) -> io::Result<()> {
    let program = getpid();
    if program.as_raw() == 1 || is_subreaper() {
        return Err(io::Error::other("the helper would become a child of the program, which adopts orphans"));
    }
    let (mut own, mut helpers) = UnixStream::pair()?;
    // SAFETY: this process has one thread.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(own);
            // SAFETY: one thread here, too.
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
            match waitpid(child, None) {
                // Who ignores SIGCHLD has no children to wait for.
                Ok(_) | Err(Errno::ECHILD) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let mut pid = [0; 4];
    own.read_exact(&mut pid)?;
    // Without Yama (Linux, Documentation/admin-guide/LSM/Yama) there is nothing to allow.
    if let Some(helper) = rustix::process::Pid::from_raw(i32::from_ne_bytes(pid)) {
        rustix::process::set_ptracer(rustix::process::PTracer::ProcessID(helper)).ok();
    }
    own.write_all(&[GO_ON])?;
    let mut answer = [0; 5];
    own.read_exact(&mut answer)?;
    match answer {
        [READY, ..] => Ok(()),
        [_, code @ ..] => Err(Errno::from_raw(i32::from_ne_bytes(code)).into()),
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
    flags: u32,
    report: &dyn Report,
) -> io::Result<()> {
    parent.write_all(&getpid().as_raw().to_ne_bytes())?;
    parent.read_exact(&mut [0])?;
    let seized = ptrace::seize(program, Options::PTRACE_O_TRACEEXEC | Options::PTRACE_O_TRACESYSGOOD);
    let mut answer = [READY, 0, 0, 0, 0];
    if let Err(error) = seized {
        answer[0] = 0;
        answer[1..].copy_from_slice(&(error as i32).to_ne_bytes());
    }
    parent.write_all(&answer)?;
    if seized.is_err() {
        // The parent says it.
        return Ok(());
    }
    let mut tracee = Tracee { pid: program, pending: Vec::new() };
    if !tracee.wait_for_exec()? {
        return Ok(());
    }
    // If this process is killed now, the program must not run on amid what was written into it.
    ptrace::setoptions(program, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL)?;
    let outcome = tracee.serve(image, page, flags);
    report.done(outcome);
    for signal in std::mem::take(&mut tracee.pending) {
        kill(program, signal).ok();
    }
    ptrace::detach(program, None)?;
    Ok(())
}

/// The code that is written over the program's first instructions for a while: a system call and a
/// call of a function, each with a stop behind it.
const SYSTEM_CALL: [u8; 3] = [0x0f, 0x05, 0xcc];
const CALL: [u8; 3] = [0xff, 0xd0, 0xcc];

/// Room on the program's stack that no program uses before its first instruction: the kernel maps
/// 128 KiB below (`setup_arg_pages`).
const TEXT_BELOW: u64 = 16 * 1024;
const STACK_BELOW: u64 = 32 * 1024;

/// The numbers of the program's system calls (Linux, `syscall_64.tbl`).
const CLOSE: u64 = 3;
const MMAP: u64 = 9;
const OPENAT: u64 = 257;

/// An `int` as an argument of a system call, which looks at the lower half.
#[expect(clippy::cast_sign_loss, reason = "the bits are what counts")]
const fn bits(number: libc::c_int) -> u64 {
    number as u64
}

/// Arguments of those calls (openat(2), mmap(2)).
const CURRENT_FOLDER: u64 = bits(libc::AT_FDCWD);
const READ_ONLY: u64 = bits(libc::O_CLOEXEC);
const READ: u64 = bits(libc::PROT_READ);
const WRITE: u64 = bits(libc::PROT_WRITE);
const EXECUTE: u64 = bits(libc::PROT_EXEC);
const RESERVED: u64 = bits(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
const FIXED: u64 = bits(libc::MAP_PRIVATE | libc::MAP_FIXED);

/// The largest error number that the kernel returns (Linux, `linux/err.h`, `MAX_ERRNO`).
const MAX_ERRNO: u64 = 4095;

struct Tracee {
    pid: Pid,
    /// Signals that came meanwhile.
    pending: Vec<Signal>,
}

impl Tracee {
    /// Lets the program run until it has been executed; `false` if it ended.
    fn wait_for_exec(&mut self) -> io::Result<bool> {
        loop {
            match waitpid(self.pid, Some(WaitPidFlag::__WALL))? {
                WaitStatus::PtraceEvent(_, _, event) if event == libc::PTRACE_EVENT_EXEC => return Ok(true),
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return Ok(false),
                WaitStatus::Stopped(_, signal) => ptrace::cont(self.pid, signal)?,
                _ => ptrace::cont(self.pid, None)?,
            }
        }
    }

    /// Runs on to the next stop that `is_it` accepts.
    fn wait(
        &mut self,
        is_it: impl Fn(&WaitStatus) -> bool,
        go: impl Fn(Pid) -> nix::Result<()>,
    ) -> io::Result<()> {
        go(self.pid)?;
        loop {
            let status = waitpid(self.pid, Some(WaitPidFlag::__WALL))?;
            if is_it(&status) {
                return Ok(());
            }
            match status {
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                    return Err(io::Error::other("the program ended while it was prepared"));
                }
                WaitStatus::Stopped(
                    _,
                    Signal::SIGSEGV | Signal::SIGILL | Signal::SIGBUS | Signal::SIGSYS,
                ) => {
                    return Err(io::Error::other("the library could not be started in the program"));
                }
                WaitStatus::Stopped(_, signal) => self.pending.push(signal),
                _ => {}
            }
            go(self.pid)?;
        }
    }

    fn serve(&mut self, image: &Image, page: &Path, flags: u32) -> io::Result<Outcome> {
        // The exec's own system call must end first: its result would overwrite a register.
        self.wait(|status| matches!(status, WaitStatus::PtraceSyscall(_)), |pid| ptrace::syscall(pid, None))?;
        let registers = ptrace::getregs(self.pid)?;
        if registers.cs != USER_CODE_64 {
            return Ok(Outcome::Not64Bits);
        }
        let vdso = vdso(self.pid)?;
        let memory = File::options().read(true).write(true).open(format!("/proc/{}/mem", self.pid))?;
        let mut code = [0; 3];
        memory.read_exact_at(&mut code, registers.rip)?;
        let mut program = Program { tracee: self, registers, memory };
        let outcome = program.load(image, page, vdso, flags);
        let restored = program.memory.write_all_at(&code, registers.rip);
        ptrace::setregs(self.pid, registers)?;
        restored?;
        outcome
    }
}

/// The code segment of programs of 64 bits (Linux, `asm/segment.h`, `__USER_CS`).
const USER_CODE_64: u64 = 0x33;

/// A program before its first instruction.
struct Program<'a> {
    tracee: &'a mut Tracee,
    registers: libc::user_regs_struct,
    memory: File,
}

impl Program<'_> {
    fn load(&mut self, image: &Image, page: &Path, vdso: u64, flags: u32) -> io::Result<Outcome> {
        let text = self.registers.rsp - TEXT_BELOW;
        self.write_text(text, &image.path)?;
        let file = self.system_call(OPENAT, [CURRENT_FOLDER, text, READ_ONLY, 0, 0, 0])?;
        let start = self.map_all(image, file);
        self.system_call(CLOSE, [file, 0, 0, 0, 0, 0])?;
        let start = start?;
        for (at, distance) in &image.relative {
            self.memory.write_all_at(&(start + distance).to_le_bytes(), start + at)?;
        }
        let mut function = [0; 8];
        self.memory.read_exact_at(&mut function, start + image.start)?;
        self.write_text(text, page)?;
        let result = self.execute(CALL, |registers| {
            registers.rax = u64::from_le_bytes(function);
            registers.rdi = text;
            registers.rsi = vdso;
            registers.rdx = u64::from(flags);
            registers.rsp = (registers.rsp - STACK_BELOW) & !15;
        })?;
        // The result is an `int`: the lower half.
        Ok(Outcome::from_number(result & u64::from(u32::MAX)))
    }

    fn map_all(&mut self, image: &Image, file: u64) -> io::Result<u64> {
        let start = self.system_call(MMAP, [0, image.bytes, 0, RESERVED, u64::MAX, 0])?;
        for Segment { pages, offset, zeros, is_writable, is_executable } in &image.segments {
            let mut protection = READ;
            protection |= if *is_writable { WRITE } else { 0 };
            protection |= if *is_executable { EXECUTE } else { 0 };
            let (at, bytes) = (start + pages.start, pages.end - pages.start);
            self.system_call(MMAP, [at, bytes, protection, FIXED, file, *offset])?;
            if *is_writable {
                let zeros = zeros.start..zeros.end.max(zeros.start);
                let count = usize::try_from(zeros.end - zeros.start).map_err(io::Error::other)?;
                self.memory.write_all_at(&vec![0; count], start + zeros.start)?;
            }
        }
        Ok(start)
    }

    fn write_text(&self, at: u64, path: &Path) -> io::Result<()> {
        let mut text = path.as_os_str().as_bytes().to_vec();
        text.push(0);
        self.memory.write_all_at(&text, at)
    }

    /// A system call of the program's. An error is the kernel's.
    fn system_call(&mut self, number: u64, arguments: [u64; 6]) -> io::Result<u64> {
        let result = self.execute(SYSTEM_CALL, |registers| {
            registers.rax = number;
            [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] =
                arguments;
        })?;
        let negated = result.wrapping_neg();
        match i32::try_from(negated) {
            Ok(error) if (1..=MAX_ERRNO).contains(&negated) => Err(io::Error::from_raw_os_error(error)),
            _ => Ok(result),
        }
    }

    /// Lets the program execute `code`, which ends with a stop, in place of its first instruction.
    /// Returns what is in `rax` then.
    fn execute(&mut self, code: [u8; 3], set: impl FnOnce(&mut libc::user_regs_struct)) -> io::Result<u64> {
        self.memory.write_all_at(&code, self.registers.rip)?;
        let mut registers = self.registers;
        // Not the number of a system call, or the kernel might start that one again.
        registers.orig_rax = u64::MAX;
        set(&mut registers);
        let pid = self.tracee.pid;
        ptrace::setregs(pid, registers)?;
        let stopped = |status: &WaitStatus| matches!(status, WaitStatus::Stopped(_, Signal::SIGTRAP));
        self.tracee.wait(stopped, |pid| ptrace::cont(pid, None))?;
        Ok(ptrace::getregs(pid)?.rax)
    }
}

/// Where the kernel has mapped the vDSO: 0 if nowhere.
fn vdso(pid: Pid) -> io::Result<u64> {
    const AT_SYSINFO_EHDR: u64 = 33;
    let auxiliary = fs::read(format!("/proc/{pid}/auxv"))?;
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).unwrap_or(0);
    let mut entries = auxiliary.chunks_exact(16).map(|entry| (word(&entry[..8]), word(&entry[8..])));
    Ok(entries.find(|(kind, _)| *kind == AT_SYSINFO_EHDR).map_or(0, |(_, value)| value))
}
