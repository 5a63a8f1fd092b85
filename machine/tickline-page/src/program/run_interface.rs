//! What `tickline run` and the library have agreed on: the environment's variables, the section of
//! the entry points, their arguments, registers and results. The hash of this file is a part of
//! [`RUN_INTERFACE`](super::RUN_INTERFACE), by which `run` refuses a library that has agreed on
//! something else. So whoever changes one of these changes this file. Its comments are part of the
//! agreement, because the registers of [`Resume`] are prose. Code that is none is in `program.rs`.

use core::ffi::{c_char, c_int, c_void};

/// The environment variable that names another page than [`PAGE`](super::PAGE).
pub const PAGE_VARIABLE: &str = "TICKLINE_PAGE";

/// The environment variable whose value [`ALWAYS`] makes the library serve a program even if the
/// kernel's clock is fast.
pub const SERVE_VARIABLE: &str = "TICKLINE_SERVE";

/// The value of [`SERVE_VARIABLE`].
pub const ALWAYS: &str = "always";

/// The library's section `.tickline`, by which `tickline run` finds the entry points. Zeros follow.
#[derive(Debug)]
#[repr(C)]
pub struct Entries<const VERSION_BYTES: usize> {
    /// The first entry point.
    pub start: Start,
    /// The second entry point.
    pub resume: Resume,
    /// [`RUN_INTERFACE`](super::RUN_INTERFACE) of the library.
    pub interface: u32,
    /// The version of the library.
    pub version: [u8; VERSION_BYTES],
}

/// `tickline run` calls this in a program that has executed no instruction yet. The first argument
/// is the page's path, and the second the value of `AT_SYSINFO_EHDR` or null. Returns a
/// [`StartResult`].
///
/// # Safety
///
/// The caller must call this once, while the process has one thread. The path must end with a zero.
pub type Start = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int;

/// The program continues here after `tickline run` has detached from it. The code jumps to the
/// program's start, whose address is in `rbx`. All other registers but the stack's are then zero,
/// as the kernel sets them (Linux, `asm/elf.h`, `ELF_PLAT_INIT`). `rdi` is the process id of the
/// helper: the code waits for the helper's end, because until then its files may be open, and
/// leaves no zombie. `rbp` has [`ResumeFlag`]s.
pub type Resume = unsafe extern "C" fn();

/// Flags of the library's `resume`; the caller passes their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum ResumeFlag {
    /// The program ignores SIGTRAP.
    IgnoreTrap = 1,
    /// The program blocks SIGCHLD, so the end of the helper leaves one pending: `resume` takes it.
    TakeChild = 2,
}

/// The result of the library's start in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum StartResult {
    /// The page serves the program.
    Served = 0,
    /// The vDSO's symbols already lead to a copy of the library.
    AlreadyServed = 1,
    /// There is no page at the path, or the system does not open it.
    NoPage = 2,
    /// The page's file is not trusted ([`PageFile::open`](crate::page_file::PageFile::open)).
    NotTrusted = 3,
    /// The page is of another boot, another counter, or a time namespace that is not known.
    OtherMachine = 4,
    /// The program may not read the counter (prctl(2), `PR_SET_TSC`).
    CounterDenied = 5,
    /// The kernel does not know `MADV_WIPEONFORK`.
    OldKernel = 6,
    /// The process has no vDSO, or one of an unknown layout. The page still serves libc's
    /// functions, if the library interposes them.
    NoVdso = 7,
    /// The kernel does not let the process change its vDSO. The page still serves libc's functions,
    /// if the library interposes them.
    VdsoReadOnly = 8,
    /// The page's path does not begin with `/`.
    NotAbsolute = 9,
}
