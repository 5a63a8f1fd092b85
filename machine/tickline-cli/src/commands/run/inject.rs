//! Maps the library into a program that has just been executed, and calls its `start` there.
//!
//! The program stops at two breakpoints: after it has mapped memory for the library, and after the
//! library's `start` has returned. All signals are blocked until then. A breakpoint still stops the
//! program, because the kernel forces SIGTRAP. If the program ignored SIGTRAP, a forced SIGTRAP
//! resets the action to the default, and the library's `resume` ignores the signal again.

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

use super::FOREIGN;
use super::image::Image;
use super::tracee::{SignalMask, Tracee, ended_error};

const ALL_SIGNALS: SignalMask = SignalMask::MAX;

/// The machine code that replaces the program's first instructions until the library has started.
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
    0, 0, 0, 0, 0, // padding to whole words
];
/// Offsets in [`CODE`] behind the breakpoints after mmap and after the call.
const MMAP_RETURN_OFFSET: u64 = 8;
const CALL_RETURN_OFFSET: u64 = 19;

/// Memory behind the image, bytes: a stack for the library, because the program's own stack may be
/// small, and the page's path.
const STACK_BYTES: u64 = 64 * 1024;
const TEXT_BYTES: u64 = 8 * 1024;

/// An `int` as an argument of a system call. The kernel reads only the lower half.
#[expect(
    clippy::cast_sign_loss,
    reason = "the kernel reads the bits, not the sign"
)]
const fn bits(number: libc::c_int) -> u64 {
    number as u64
}

/// Arguments of mmap and mprotect (mmap(2)).
const READ_WRITE: u64 = bits(libc::PROT_READ | libc::PROT_WRITE);
const READ_EXECUTE: u64 = bits(libc::PROT_READ | libc::PROT_EXEC);
const ANONYMOUS: u64 = bits(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);

/// The largest error number that the kernel returns (Linux, `linux/err.h`, `MAX_ERRNO`).
const MAX_ERRNO: i32 = 4095;

/// The code segment of programs of 64 bits (Linux, `asm/segment.h`, `__USER_CS`).
const USER_CODE_64: u64 = 0x33;

/// The library and its parameters for one program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Payload<'a> {
    pub(super) image: &'a Image,
    pub(super) page: &'a Path,
    /// The flags for the library's `resume` (`ResumeFlag`).
    pub(super) resume_flags: i32,
}

/// The outcome of the library's start in a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Served,
    /// The program is not served, for this reason.
    NotServed(String),
    /// The program's code, registers or signal mask could not be restored, for this reason. The
    /// program must not go on.
    Unrestored(String),
}

impl Outcome {
    /// The outcome for the number that the library's `start` has returned.
    fn from_number(number: i32) -> Self {
        let why = match StartResult::from_number(number) {
            None => {
                return Self::NotServed(format!(
                    "libtickline_preload.so is of another version: it returned {number}; install \
                     tickline and the library of one release"
                ));
            }
            Some(StartResult::Served | StartResult::AlreadyServed) => return Self::Served,
            Some(StartResult::NoPage) => "the page can't be opened by the program",
            Some(StartResult::NotTrusted) => {
                "the program's user does not trust the page's owner, or others may write to it"
            }
            Some(StartResult::OtherMachine) => {
                "the page is of another boot, counter or time namespace, or the program's /proc \
                 does not tell which it has"
            }
            Some(StartResult::CounterDenied) => "the program may not read the counter (PR_SET_TSC)",
            Some(StartResult::OldKernel) => "the kernel does not know MADV_WIPEONFORK (Linux 4.14)",
            Some(StartResult::NoVdso) => "the kernel maps no vDSO that tickline understands",
            Some(StartResult::VdsoReadOnly) => {
                "the kernel does not let the vDSO be changed (mprotect: MemoryDenyWriteExecute=, execmem, seals)"
            }
            Some(StartResult::NotAbsolute) => "the page's path does not begin with /",
        };
        Self::NotServed(why.to_owned())
    }
}

/// Starts the library in a program that is stopped at its exec. Then restores the program's code,
/// registers and signal mask, or leaves the registers to `resume`. If this fails, the result is
/// [`Outcome::Unrestored`], and the program must not go on.
pub(super) fn inject(tracee: &Tracee, payload: Payload<'_>) -> io::Result<Outcome> {
    let mut program = StoppedProgram::attach(tracee)?;
    if program.registers.cs != USER_CODE_64 {
        return Ok(Outcome::NotServed(FOREIGN.to_owned()));
    }
    // After an exec, the kernel starts a program with 0 in this register.
    program.registers.rax = 0;
    tracee.set_signal_mask(ALL_SIGNALS)?;
    match program.start_library(payload) {
        Ok((start, resume_registers)) => program.restore(resume_registers, Ok(start)),
        Err(error) => program.restore(program.registers, Err(error)),
    }
}

/// A program that is stopped before its first instruction, where [`CODE`] is.
struct StoppedProgram<'a> {
    tracee: &'a Tracee,
    memory: File,
    /// The program's own registers, first instructions and signal mask, to be restored.
    registers: libc::user_regs_struct,
    code: [u8; CODE.len()],
    blocked: SignalMask,
}

impl<'a> StoppedProgram<'a> {
    fn attach(tracee: &'a Tracee) -> io::Result<Self> {
        let memory = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{}/mem", tracee.pid))?;
        let mut registers = ptrace::getregs(tracee.pid)?;
        // No system call has this number, so the kernel does not restart one.
        registers.orig_rax = u64::MAX;
        let code = read_code(&memory, registers.rip)?;
        Ok(Self {
            tracee,
            memory,
            registers,
            code,
            blocked: tracee.signal_mask()?,
        })
    }

    /// Returns the outcome, and the registers with which the program begins in `resume`.
    fn start_library(&self, payload: Payload<'_>) -> io::Result<(Outcome, libc::user_regs_struct)> {
        self.write_code(&CODE).map_err(|error| {
            io::Error::new(error.kind(), format!("its code can't be written: {error}"))
        })?;
        let stack = payload.image.bytes.len() as u64 + STACK_BYTES;
        let mapped = self.run(0, MMAP_RETURN_OFFSET, |registers| {
            [registers.rdi, registers.rsi, registers.rdx] = [0, stack + TEXT_BYTES, READ_WRITE];
            [registers.r10, registers.r8, registers.r9] = [ANONYMOUS, u64::MAX, 0];
        })?;
        let base = syscall_result(mapped.rax)?;
        // The two words that the code pops, then the page's path. A call needs 16-byte alignment.
        let pointer = base + stack;
        let mut words = [pointer + 16, vdso_address(self.tracee.pid)?]
            .map(u64::to_le_bytes)
            .concat();
        words.extend_from_slice(payload.page.as_os_str().as_bytes());
        words.push(0);
        self.memory.write_all_at(&words, pointer)?;
        let placed = payload.image.relocate(base).ok_or_else(|| {
            io::Error::other(
                "the library has relocations outside of its memory: build or install it again",
            )
        })?;
        self.memory.write_all_at(&placed.bytes, base)?;
        let code = &payload.image.code;
        let called = self.run(MMAP_RETURN_OFFSET, CALL_RETURN_OFFSET, |registers| {
            registers.rax = libc::SYS_mprotect.cast_unsigned();
            [registers.rdi, registers.rsi] = [base + code.start, code.end - code.start];
            registers.rdx = READ_EXECUTE;
            registers.rbx = placed.start;
            registers.rsp = pointer;
        })?;
        // The error of mprotect, or the `int` that `start` has returned, in the lower half.
        let [number @ .., _, _, _, _] = syscall_result(called.rax)?.to_le_bytes();
        let mut resume_registers = self.registers;
        resume_registers.rip = placed.resume;
        resume_registers.rbx = self.registers.rip;
        resume_registers.rdi = bits(getpid().as_raw());
        resume_registers.rbp = bits(payload.resume_flags);
        Ok((
            Outcome::from_number(i32::from_le_bytes(number)),
            resume_registers,
        ))
    }

    /// Runs [`CODE`] from offset `start` to the breakpoint before `end`, with the program's
    /// registers as `set` changes them. Returns the registers at the breakpoint.
    fn run(
        &self,
        start: u64,
        end: u64,
        set: impl FnOnce(&mut libc::user_regs_struct),
    ) -> io::Result<libc::user_regs_struct> {
        let mut registers = self.registers;
        registers.rip += start;
        set(&mut registers);
        ptrace::setregs(self.tracee.pid, registers)?;
        self.tracee.run_to_breakpoint()?;
        // The forced SIGTRAP has removed SIGTRAP from the mask.
        self.tracee.set_signal_mask(ALL_SIGNALS)?;
        let registers = ptrace::getregs(self.tracee.pid)?;
        if registers.rip == self.registers.rip + end {
            return Ok(registers);
        }
        Err(io::Error::other(format!(
            "the library stopped at {:#x} in the program",
            registers.rip
        )))
    }

    /// Restores the program's code and signal mask, and sets its registers. Returns `start` if this
    /// succeeds or the program has ended.
    fn restore(
        &self,
        registers: libc::user_regs_struct,
        start: io::Result<Outcome>,
    ) -> io::Result<Outcome> {
        // Code that could not be written need not be restored.
        let code = read_code(&self.memory, self.registers.rip).and_then(|found| {
            if found == self.code {
                Ok(())
            } else {
                self.write_code(&self.code)
            }
        });
        // If the program has ended, only this call reports that, by ESRCH.
        let set = ptrace::setregs(self.tracee.pid, registers).map_err(io::Error::from);
        match set.and(code).and(self.tracee.set_signal_mask(self.blocked)) {
            Ok(()) => start,
            // The program was killed. Its parent gets its exit status.
            Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => {
                start.and(Err(ended_error()))
            }
            Err(error) => Ok(Outcome::Unrestored(format!(
                "its code and registers can't be restored: {error}"
            ))),
        }
    }

    /// Writes code by ptrace(2), which may write to read-only memory. The kernel may refuse such
    /// writes by `/proc/PID/mem` (Linux 6.12, `proc_mem.force_override`).
    fn write_code(&self, code: &[u8; CODE.len()]) -> io::Result<()> {
        const WORD_BYTES: usize = size_of::<libc::c_long>();
        for (at, word) in (self.registers.rip..)
            .step_by(WORD_BYTES)
            .zip(code.chunks_exact(WORD_BYTES))
        {
            let at = ptr::without_provenance_mut(usize::try_from(at).map_err(io::Error::other)?);
            let word = libc::c_long::from_le_bytes(word.try_into().map_err(io::Error::other)?);
            ptrace::write(self.tracee.pid, at, word)?;
        }
        Ok(())
    }
}

/// Reads as many bytes as [`CODE`] has, at the address `at`.
fn read_code(memory: &File, at: u64) -> io::Result<[u8; CODE.len()]> {
    let mut code = [0; CODE.len()];
    memory.read_exact_at(&mut code, at)?;
    Ok(code)
}

/// The value or the error that a system call has returned in `rax`.
fn syscall_result(number: u64) -> io::Result<u64> {
    match i32::try_from(number.wrapping_neg()) {
        Ok(error) if (1..=MAX_ERRNO).contains(&error) => Err(io::Error::from_raw_os_error(error)),
        _ => Ok(number),
    }
}

/// The address of the vDSO; 0 if the kernel has not mapped it.
fn vdso_address(pid: Pid) -> io::Result<u64> {
    const AT_SYSINFO_EHDR: u64 = 33;
    let auxiliary = fs::read(format!("/proc/{pid}/auxv"))?;
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).unwrap_or(0);
    let mut entries = auxiliary
        .chunks_exact(16)
        .map(|entry| (word(&entry[..8]), word(&entry[8..])));
    Ok(entries
        .find(|(kind, _)| *kind == AT_SYSINFO_EHDR)
        .map_or(0, |(_, value)| value))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sys::wait::waitpid;
    use tickline_observe::skip;

    use super::*;

    #[test]
    fn a_traced_program_is_restored_or_reported_as_unrestored() {
        let mut child = Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("there is `sleep`");
        let pid = Pid::from_raw(child.id().try_into().expect("a number"));
        let tracee = match Tracee::seize(pid) {
            Ok(tracee) => tracee,
            Err(error) => {
                skip(format_args!("a child cannot be traced: {error}"));
                child.kill().expect("it runs");
                child.wait().expect("it was killed");
                return;
            }
        };
        ptrace::interrupt(pid).expect("it is traced");
        waitpid(pid, None).expect("it stops");
        let whole = StoppedProgram::attach(&tracee).expect("it is traced");
        whole.write_code(&CODE).expect("it is traced");
        let mut elsewhere = StoppedProgram::attach(&tracee).expect("it is traced");
        elsewhere.registers.rip = 0;
        let start = elsewhere.restore(elsewhere.registers, Ok(Outcome::Served));
        assert!(
            matches!(start, Ok(Outcome::Unrestored(_))),
            "there is no memory: {start:?}"
        );
        let start = whole.restore(whole.registers, Ok(Outcome::Served));
        assert_eq!(start.expect("it is restored"), Outcome::Served);
        assert_eq!(
            read_code(&whole.memory, whole.registers.rip).expect("there is code"),
            whole.code
        );
        let registers = ptrace::getregs(tracee.pid).expect("it is stopped");
        assert_eq!(registers, whole.registers);
        // A program that was killed does not count as unrestored.
        child.kill().expect("it is there");
        child.wait().expect("it was killed");
        for start in [Ok(Outcome::Served), Err(ended_error())] {
            let error = whole
                .restore(whole.registers, start)
                .expect_err("it has ended");
            assert_eq!(error.to_string(), ended_error().to_string());
        }
    }

    /// Linux returns errors as -1 to -4095.
    #[test]
    fn a_system_call_returns_a_value_or_an_error() {
        let result = |number: i64| {
            syscall_result(number.cast_unsigned()).map_err(|error| error.raw_os_error())
        };
        assert_eq!(result(0), Ok(0));
        assert_eq!(result(7), Ok(7));
        assert_eq!(result(-1), Err(Some(1)));
        assert_eq!(result(-4_095), Err(Some(4_095)));
        assert_eq!(result(-4_096), Ok((-4_096_i64).cast_unsigned()));
    }

    #[test]
    fn the_vdso_of_a_process_is_where_its_auxiliary_vector_says() {
        // SAFETY: getauxval only reads a table of this process.
        let own = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
        assert_eq!(vdso_address(Pid::this()).unwrap(), own);
    }
}
