//! Maps the library into a program that has just been executed, and calls its `start` there.
//!
//! The program stops twice, at breakpoints: when it has mapped memory for the library, and when the
//! library's `start` has returned. All signals are blocked meanwhile. A breakpoint still stops the
//! program, because the kernel forces SIGTRAP. If the program ignores SIGTRAP, a breakpoint resets
//! that, and the library's `finish` ignores the signal again.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::{Pid, getpid};
use tickline_page::program::StartResult;

use super::image::Image;
use super::tracee::{SignalMask, Tracee, ended};

const ALL_SIGNALS: SignalMask = SignalMask::MAX;

/// What is written over the program's first instructions for a while.
const CODE: [u8; 24] = [
    0xb8, 0x09, 0x00, 0x00, 0x00, // mov eax, 9 (mmap)
    0x0f, 0x05, // syscall
    0xcc, // int3
    0x0f, 0x05, // syscall (mprotect)
    0x85, 0xc0, // test eax, eax
    0x75, 0x04, // jnz to the last int3
    0x5f, 0x5e, // pop rdi; pop rsi
    0xff, 0xd3, // call rbx
    0xcc, // int3
    0, 0, 0, 0, 0, // to whole words
];
const MAPPED_AT: u64 = 8;
const CALLED_AT: u64 = 19;

/// Memory behind the image, bytes: a stack for what the library does, and the page's path. The
/// program's own stack may be small.
const STACK_BYTES: u64 = 64 * 1024;
const TEXT_BYTES: u64 = 8 * 1024;

/// An `int` as an argument of a system call, which looks at the lower half.
#[expect(clippy::cast_sign_loss, reason = "the bits are what counts")]
const fn bits(number: libc::c_int) -> u64 {
    number as u64
}

/// Arguments of those calls (mmap(2)).
const READ_WRITE: u64 = bits(libc::PROT_READ | libc::PROT_WRITE);
const READ_EXECUTE: u64 = bits(libc::PROT_READ | libc::PROT_EXEC);
const ANONYMOUS: u64 = bits(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);

/// The largest error number that the kernel returns (Linux, `linux/err.h`, `MAX_ERRNO`).
const MAX_ERRNO: i32 = 4095;

/// The code segment of programs of 64 bits (Linux, `asm/segment.h`, `__USER_CS`).
const USER_CODE_64: u64 = 0x33;

/// What a program is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Payload<'a> {
    pub(super) image: &'a Image,
    pub(super) page: &'a Path,
    /// Flags of `finish`.
    pub(super) finish: i32,
}

/// What came of the start in a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Start {
    Served,
    /// The program is not served, for this reason.
    Not(String),
    /// The program could not be given back its code, its registers or its blocked signals, for this
    /// reason. It must not go on.
    Unrestored(String),
}

impl Start {
    /// By the library's result.
    fn of(number: i32) -> Self {
        let why = match StartResult::from_number(number) {
            // It is of another version.
            None => return Self::Not(format!("libtickline_preload.so says {number}")),
            Some(StartResult::Served | StartResult::AlreadyServed) => return Self::Served,
            Some(StartResult::NoPage) => "the page cannot be opened by the program",
            Some(StartResult::NotTrusted) => {
                "the program's user does not trust the page's owner, or others may write to it"
            }
            Some(StartResult::OtherMachine) => {
                "the page is of another boot, counter or time namespace, or the program's /proc does not tell which it has"
            }
            Some(StartResult::CounterDenied) => "the program may not read the counter (PR_SET_TSC)",
            Some(StartResult::OldKernel) => "the kernel does not know MADV_WIPEONFORK (Linux 4.14)",
            Some(StartResult::NoVdso) => "the kernel maps no vDSO that is understood",
            Some(StartResult::VdsoReadOnly) => {
                "the kernel does not let the vDSO be changed (mprotect: MemoryDenyWriteExecute=, execmem, seals)"
            }
            Some(StartResult::NotAbsolute) => "the page's path does not begin with /",
        };
        Self::Not(why.to_owned())
    }
}

/// Serves a program that is stopped at its exec. Afterwards the program has its registers, its code
/// and its blocked signals back, or `finish` restores them. Otherwise the result is
/// [`Start::Unrestored`], and the program must not go on.
pub(super) fn inject(tracee: &Tracee, payload: Payload<'_>) -> io::Result<Start> {
    let mut program = Program::stopped(tracee)?;
    if program.registers.cs != USER_CODE_64 {
        return Ok(Start::Not("it is not a 64-bit program".to_owned()));
    }
    // What it begins with, as the kernel has it after an exec.
    program.registers.rax = 0;
    tracee.block(ALL_SIGNALS)?;
    match program.load(payload) {
        Ok((start, go_on)) => program.restore(go_on, Ok(start)),
        Err(error) => program.restore(program.registers, Err(error)),
    }
}

/// A program before its first instruction, at whose place [`CODE`] is.
struct Program<'a> {
    tracee: &'a Tracee,
    memory: File,
    /// What it has, to be given back.
    registers: libc::user_regs_struct,
    code: [u8; CODE.len()],
    blocked: SignalMask,
}

impl<'a> Program<'a> {
    fn stopped(tracee: &'a Tracee) -> io::Result<Self> {
        let memory = File::options().read(true).write(true).open(format!("/proc/{}/mem", tracee.pid))?;
        let mut registers = ptrace::getregs(tracee.pid)?;
        // Not the number of a system call, or the kernel might start that one again.
        registers.orig_rax = u64::MAX;
        let code = code(&memory, registers.rip)?;
        Ok(Self { tracee, memory, registers, code, blocked: tracee.blocked()? })
    }

    /// Returns the registers with which the program goes on, too.
    fn load(&self, payload: Payload<'_>) -> io::Result<(Start, libc::user_regs_struct)> {
        self.write_code(&CODE)
            .map_err(|error| io::Error::new(error.kind(), format!("its code cannot be written: {error}")))?;
        let stack = payload.image.bytes.len() as u64 + STACK_BYTES;
        let mapped = self.run(0, MAPPED_AT, |registers| {
            [registers.rdi, registers.rsi, registers.rdx] = [0, stack + TEXT_BYTES, READ_WRITE];
            [registers.r10, registers.r8, registers.r9] = [ANONYMOUS, u64::MAX, 0];
        })?;
        let base = result(mapped.rax)?;
        // What is popped, and the page's path behind it: where a call finds a multiple of 16.
        let pointer = base + stack;
        let mut words = [pointer + 16, vdso(self.tracee.pid)?].map(u64::to_le_bytes).concat();
        words.extend_from_slice(payload.page.as_os_str().as_bytes());
        words.push(0);
        self.memory.write_all_at(&words, pointer)?;
        let placed = payload
            .image
            .at(base)
            .ok_or_else(|| io::Error::other("the library has relocations outside of it"))?;
        self.memory.write_all_at(&placed.bytes, base)?;
        let code = &payload.image.code;
        let called = self.run(MAPPED_AT, CALLED_AT, |registers| {
            registers.rax = libc::SYS_mprotect.cast_unsigned();
            [registers.rdi, registers.rsi] = [base + code.start, code.end - code.start];
            registers.rdx = READ_EXECUTE;
            registers.rbx = placed.start;
            registers.rsp = pointer;
        })?;
        // An error of mprotect's, or what an `int` leaves in the lower half.
        let [number @ .., _, _, _, _] = result(called.rax)?.to_le_bytes();
        let mut go_on = self.registers;
        go_on.rip = placed.finish;
        go_on.rbx = self.registers.rip;
        go_on.rdi = bits(getpid().as_raw());
        go_on.rbp = bits(payload.finish);
        Ok((Start::of(i32::from_le_bytes(number)), go_on))
    }

    /// Runs [`CODE`] from one place to a breakpoint that ends at another, with the program's first
    /// registers but for those that `set` sets. Returns those that are there then.
    fn run(
        &self,
        from: u64,
        to: u64,
        set: impl FnOnce(&mut libc::user_regs_struct),
    ) -> io::Result<libc::user_regs_struct> {
        let mut registers = self.registers;
        registers.rip += from;
        set(&mut registers);
        ptrace::setregs(self.tracee.pid, registers)?;
        self.tracee.to_breakpoint()?;
        // The breakpoint has unblocked SIGTRAP.
        self.tracee.block(ALL_SIGNALS)?;
        let registers = ptrace::getregs(self.tracee.pid)?;
        if registers.rip == self.registers.rip + to {
            return Ok(registers);
        }
        Err(io::Error::other(format!("the library stopped at {:#x} in the program", registers.rip)))
    }

    /// Gives back what [`inject`] has taken. Returns `start` then, or if the program has ended.
    fn restore(&self, registers: libc::user_regs_struct, start: io::Result<Start>) -> io::Result<Start> {
        // What could not be written need not be restored, and could not.
        let code = code(&self.memory, self.registers.rip)
            .and_then(|found| if found == self.code { Ok(()) } else { self.write_code(&self.code) });
        // This tells a program that has ended, whose memory is just not written to.
        let set = ptrace::setregs(self.tracee.pid, registers).map_err(io::Error::from);
        match set.and(code).and(self.tracee.block(self.blocked)) {
            Ok(()) => start,
            // It was killed: whoever waits for it learns that.
            Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => start.and(Err(ended())),
            Err(error) => Ok(Start::Unrestored(format!("what it had cannot be restored: {error}"))),
        }
    }

    /// By ptrace(2), which writes to memory that is read-only. The kernel may refuse that by
    /// `/proc/PID/mem` (Linux 6.12, `proc_mem.force_override`).
    fn write_code(&self, code: &[u8; CODE.len()]) -> io::Result<()> {
        const WORD_BYTES: usize = size_of::<libc::c_long>();
        for (at, word) in (self.registers.rip..).step_by(WORD_BYTES).zip(code.chunks_exact(WORD_BYTES)) {
            let at = ptr::without_provenance_mut(usize::try_from(at).map_err(io::Error::other)?);
            let word = libc::c_long::from_le_bytes(word.try_into().map_err(io::Error::other)?);
            ptrace::write(self.tracee.pid, at, word)?;
        }
        Ok(())
    }
}

/// What is at the place of [`CODE`].
fn code(memory: &File, at: u64) -> io::Result<[u8; CODE.len()]> {
    let mut code = [0; CODE.len()];
    memory.read_exact_at(&mut code, at)?;
    Ok(code)
}

/// What a system call returns, or its error.
fn result(number: u64) -> io::Result<u64> {
    match i32::try_from(number.wrapping_neg()) {
        Ok(error) if (1..=MAX_ERRNO).contains(&error) => Err(io::Error::from_raw_os_error(error)),
        _ => Ok(number),
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sys::wait::waitpid;

    use super::*;

    #[test]
    fn a_program_is_restored_or_that_is_told() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("there is `sleep`");
        let pid = Pid::from_raw(child.id().try_into().expect("a number"));
        let tracee = match Tracee::seize(pid) {
            Ok(tracee) => tracee,
            Err(error) => {
                println!("SKIPPED: a child cannot be traced: {error}");
                child.kill().expect("it runs");
                child.wait().expect("it was killed");
                return;
            }
        };
        ptrace::interrupt(pid).expect("it is traced");
        waitpid(pid, None).expect("it stops");
        let whole = Program::stopped(&tracee).expect("it is traced");
        whole.write_code(&CODE).expect("it is traced");
        let mut elsewhere = Program::stopped(&tracee).expect("it is traced");
        elsewhere.registers.rip = 0;
        let start = elsewhere.restore(elsewhere.registers, Ok(Start::Served));
        assert!(matches!(start, Ok(Start::Unrestored(_))), "there is no memory: {start:?}");
        let start = whole.restore(whole.registers, Ok(Start::Served));
        assert_eq!(start.expect("it is restored"), Start::Served);
        assert_eq!(code(&whole.memory, whole.registers.rip).expect("there is code"), whole.code);
        let registers = ptrace::getregs(tracee.pid).expect("it is stopped");
        assert_eq!(registers, whole.registers);
        // One that was killed meanwhile is not unrestored.
        child.kill().expect("it is there");
        child.wait().expect("it was killed");
        for start in [Ok(Start::Served), Err(ended())] {
            let error = whole.restore(whole.registers, start).expect_err("it has ended");
            assert_eq!(error.to_string(), ended().to_string());
        }
    }
}
