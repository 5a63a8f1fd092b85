//! Maps the library into a program that has just been executed, and calls its `start` there.
//!
//! All signals are blocked meanwhile, as a process blocks them that must not be disturbed. And no
//! breakpoint is used: its SIGTRAP would be unblocked, and no longer ignored, ever after.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::image::{Image, Segment};
use super::outcome::Start;
use super::tracee::{SignalMask, Tracee, ended};

const ALL_SIGNALS: SignalMask = SignalMask::MAX;

/// What is written over the program's first instructions for a while: a system call; and behind it, a
/// call of a function, and the system call `close(-1)`, at which the tracer finds the function's
/// result in `rsi`. A filter of system calls (seccomp(2)) allows `close`: `load` has closed the
/// library's file before.
const CODE: [u8; 16] = [
    0x0f, 0x05, // syscall
    0xff, 0xd0, // call rax
    0x89, 0xc6, // mov esi, eax
    0xb8, 0x03, 0x00, 0x00, 0x00, // mov eax, 3
    0x83, 0xcf, 0xff, // or edi, -1
    0x0f, 0x05, // syscall
];
const CALL_AT: u64 = 2;
const CODE_BYTES: u64 = CODE.len() as u64;

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
const MAX_ERRNO: i32 = 4095;

/// Results of a system call that was interrupted, and begins again (Linux, `linux/errno.h`,
/// `ERESTARTSYS` to `ERESTART_RESTARTBLOCK`; 515 is none).
const BEGINS_AGAIN: [i32; 4] = [512, 513, 514, 516];

/// The code segment of programs of 64 bits (Linux, `asm/segment.h`, `__USER_CS`).
const USER_CODE_64: u64 = 0x33;

/// Serves a program that is stopped at its exec. Whatever comes of it, the program's registers, its
/// code and its blocked signals are then what they were; or it is [`Start::Unrestored`], and must not
/// go on.
pub(super) fn inject(tracee: &Tracee, image: &Image, page: &Path, flags: i32) -> io::Result<Start> {
    let blocked = tracee.blocked()?;
    tracee.block(ALL_SIGNALS)?;
    let start = inject_undisturbed(tracee, image, page, flags);
    if_restored(tracee.block(blocked), start)
}

/// `start`, if the program has again what it had, or has ended.
fn if_restored(restored: io::Result<()>, start: io::Result<Start>) -> io::Result<Start> {
    match restored {
        Ok(()) => start,
        // It was killed: whoever waits for it learns that.
        Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => start.and(Err(ended())),
        Err(error) => Ok(Start::Unrestored(error.to_string())),
    }
}

fn inject_undisturbed(tracee: &Tracee, image: &Image, page: &Path, flags: i32) -> io::Result<Start> {
    // The exec's own system call must end first: its result would overwrite a register.
    tracee.to_system_call()?;
    let pid = tracee.pid;
    let registers = ptrace::getregs(pid)?;
    if registers.cs != USER_CODE_64 {
        return Ok(Start::Not64Bits);
    }
    let vdso = vdso(pid)?;
    let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
    let program = Program { tracee, registers, memory };
    let code = program.code()?;
    let start = program.load(image, page, vdso, flags);
    if_restored(program.restore(&code), start)
}

/// A program before its first instruction, at whose place [`CODE`] is.
struct Program<'a> {
    tracee: &'a Tracee,
    registers: libc::user_regs_struct,
    memory: File,
}

impl Program<'_> {
    fn load(&self, image: &Image, page: &Path, vdso: u64, flags: i32) -> io::Result<Start> {
        self.write_code(&CODE)
            .map_err(|error| io::Error::new(error.kind(), format!("its code cannot be written: {error}")))?;
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
        let result = self.call(|registers| {
            registers.rax = u64::from_le_bytes(function);
            registers.rdi = text;
            registers.rsi = vdso;
            registers.rdx = bits(flags);
            registers.rsp = (registers.rsp - STACK_BELOW) & !15;
        })?;
        Ok(Start::from_number(result))
    }

    /// Gives back what `load` has taken: `code` was where [`CODE`] is.
    fn restore(&self, code: &[u8; CODE.len()]) -> io::Result<()> {
        // What could not be written need not be restored, and could not.
        let code_restored =
            self.code().and_then(|found| if found == *code { Ok(()) } else { self.write_code(code) });
        // This tells a program that has ended, whose memory is just not written to.
        ptrace::setregs(self.tracee.pid, self.registers)?;
        code_restored
    }

    fn code(&self) -> io::Result<[u8; CODE.len()]> {
        let mut code = [0; CODE.len()];
        self.memory.read_exact_at(&mut code, self.registers.rip)?;
        Ok(code)
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

    fn map_all(&self, image: &Image, file: u64) -> io::Result<u64> {
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
    fn system_call(&self, number: u64, arguments: [u64; 6]) -> io::Result<u64> {
        self.set_registers(0, |registers| {
            registers.rax = number;
            [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] =
                arguments;
        })?;
        loop {
            self.tracee.to_system_call()?;
            self.tracee.to_system_call()?;
            let result = ptrace::getregs(self.tracee.pid)?.rax;
            match i32::try_from(result.wrapping_neg()) {
                Ok(error) if BEGINS_AGAIN.contains(&error) => {}
                Ok(error) if (1..=MAX_ERRNO).contains(&error) => {
                    return Err(io::Error::from_raw_os_error(error));
                }
                _ => return Ok(result),
            }
        }
    }

    /// A call of a function, which returns an `int`.
    fn call(&self, set: impl FnOnce(&mut libc::user_regs_struct)) -> io::Result<i32> {
        self.set_registers(CALL_AT, set)?;
        loop {
            self.tracee.to_system_call()?;
            let registers = ptrace::getregs(self.tracee.pid)?;
            // Not one of the function's own system calls.
            if registers.rip == self.registers.rip + CODE_BYTES {
                self.tracee.to_system_call()?;
                // The code has stored 32 bits there.
                let [bytes @ .., _, _, _, _] = registers.rsi.to_le_bytes();
                return Ok(i32::from_le_bytes(bytes));
            }
        }
    }

    /// Lets the program go on at `at` in [`CODE`], with its first registers but for those that `set`
    /// sets.
    fn set_registers(&self, at: u64, set: impl FnOnce(&mut libc::user_regs_struct)) -> io::Result<()> {
        let mut registers = self.registers;
        registers.rip += at;
        // Not the number of a system call, or the kernel might start that one again.
        registers.orig_rax = u64::MAX;
        set(&mut registers);
        Ok(ptrace::setregs(self.tracee.pid, registers)?)
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
    use std::process::{Child, Command};

    use nix::sys::wait::waitpid;

    use super::*;

    /// A process that this thread traces, and that is stopped; `None` if it may not, which is said.
    fn stopped() -> Option<(Child, Tracee)> {
        let mut child = Command::new("sleep").arg("60").spawn().expect("there is `sleep`");
        let pid = Pid::from_raw(child.id().try_into().expect("a number"));
        match Tracee::seize(pid) {
            Ok(tracee) => {
                ptrace::interrupt(pid).expect("it is traced");
                waitpid(pid, None).expect("it stops");
                Some((child, tracee))
            }
            Err(error) => {
                println!("SKIPPED: a child cannot be traced: {error}");
                child.kill().expect("it runs");
                child.wait().expect("it was killed");
                None
            }
        }
    }

    fn program(tracee: &Tracee) -> Program<'_> {
        let registers = ptrace::getregs(tracee.pid).expect("it is stopped");
        let memory = File::options().read(true).write(true).open(format!("/proc/{}/mem", tracee.pid));
        Program { tracee, registers, memory: memory.expect("it is traced") }
    }

    #[test]
    fn a_program_is_restored_or_that_is_told() {
        let Some((mut child, tracee)) = stopped() else { return };
        let whole = program(&tracee);
        let first = whole.code().expect("there is code");
        whole.write_code(&CODE).expect("it is traced");
        whole.set_registers(CALL_AT, |_| {}).expect("it is stopped");
        let mut elsewhere = program(&tracee);
        elsewhere.registers.rip = 0;
        let start = if_restored(elsewhere.restore(&first), Ok(Start::Not64Bits));
        assert!(matches!(start, Ok(Start::Unrestored(_))), "there is no memory: {start:?}");
        let start = if_restored(whole.restore(&first), Ok(Start::Not64Bits));
        assert_eq!(start.expect("it is restored"), Start::Not64Bits);
        assert_eq!(whole.code().expect("there is code"), first);
        let registers = ptrace::getregs(tracee.pid).expect("it is stopped");
        assert_eq!(registers, whole.registers);
        child.kill().expect("it is there");
        child.wait().expect("it was killed");
    }

    #[test]
    fn a_program_that_was_killed_is_not_unrestored() {
        let Some((mut child, tracee)) = stopped() else { return };
        let program = program(&tracee);
        let code = program.code().expect("there is code");
        child.kill().expect("it is there");
        child.wait().expect("it was killed");
        for start in [Ok(Start::Not64Bits), Err(ended())] {
            let error = if_restored(program.restore(&code), start).expect_err("it has ended");
            assert_eq!(error.to_string(), ended().to_string());
        }
    }
}
