//! The library's two entry points. Both run before the program's first instruction.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{self, NonNull};

use tickline_page::program::{
    ALWAYS, Entries, OFF, PAGE, PAGE_VARIABLE, RUN_INTERFACE, ResumeFlag, SERVE_VARIABLE,
    SWITCH_VARIABLE, StartResult, kernels_clock_is_fast,
};

use crate::attach;
use crate::interpose::{self, optional_functions};
use crate::state::state;
use crate::vdso::Vdso;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The entry points, and the marks by which `tickline run` knows the library of its own version.
#[used]
#[unsafe(link_section = ".tickline")]
static ENTRIES: Entries<{ VERSION.len() }> = Entries {
    start,
    resume: tickline_resume_program,
    interface: RUN_INTERFACE,
    version: *VERSION.as_bytes().first_chunk().expect("its own length"),
};

/// The entry point [`Start`](tickline_page::program::Start).
///
/// # Safety
///
/// The conditions of [`Start`](tickline_page::program::Start).
unsafe extern "C" fn start(path: *const c_char, vdso: *mut c_void) -> c_int {
    // SAFETY: the caller promises that the path ends with a zero.
    let path = unsafe { CStr::from_ptr(path) };
    // SAFETY: the caller promises that this is the only call, and that there is one thread.
    (unsafe { start_serving(path, vdso) }) as c_int
}

/// Attaches to the page at `path`, and redirects the vDSO's symbols.
///
/// # Safety
///
/// The conditions of [`start`].
unsafe fn start_serving(path: &CStr, vdso: *mut c_void) -> StartResult {
    // SAFETY: `vdso` is null or the address that the kernel gives.
    let vdso = unsafe { Vdso::from_ptr(vdso) };
    // If the vDSO's symbols already lead to another copy or to other code, they stay as they are.
    if vdso.as_ref().map(Vdso::record_functions) == Some(Err(StartResult::AlreadyServed)) {
        return StartResult::AlreadyServed;
    }
    // SAFETY: the caller promises that this is the only call, and that there is one thread.
    let result = unsafe { attach::attach(path) };
    if result != StartResult::Served {
        return result;
    }
    match vdso.as_ref().map(Vdso::redirect_symbols) {
        Some(Ok(())) => StartResult::Served,
        Some(Err(error)) => error,
        None => StartResult::NoVdso,
    }
}

unsafe extern "C" {
    /// The entry point [`Resume`](tickline_page::program::Resume).
    fn tickline_resume_program();
}

core::arch::global_asm!(
    ".hidden tickline_resume_program",
    ".globl tickline_resume_program",
    "tickline_resume_program:",
    "mov [rsp - 8], rbx",
    // wait4(rdi, NULL, __WALL, NULL)
    "mov eax, 61",
    "xor esi, esi",
    "mov edx, 0x40000000",
    "xor r10d, r10d",
    "syscall",
    "mov r10d, 8",
    "test ebp, {take_child}",
    "jz 2f",
    // rt_sigtimedwait(&child, NULL, &no_time, sizeof(mask))
    "mov eax, 128",
    "lea rdi, [rip + 5f]",
    "xor esi, esi",
    "lea rdx, [rip + 4f + 8]",
    "syscall",
    "2: test ebp, {ignore_trap}",
    "jz 3f",
    // rt_sigaction(SIGTRAP, &ignored, NULL, sizeof(mask))
    "mov eax, 13",
    "mov edi, 5",
    "lea rsi, [rip + 4f]",
    "xor edx, edx",
    "syscall",
    "3: xor eax, eax",
    "xor ebx, ebx",
    "xor ecx, ecx",
    "xor edx, edx",
    "xor esi, esi",
    "xor edi, edi",
    "xor ebp, ebp",
    "xor r10d, r10d",
    "xor r11d, r11d",
    "jmp [rsp - 8]",
    // SIG_IGN, no flags and no mask; the second and third word are also the timeout of zero.
    ".balign 8",
    "4: .quad 1, 0, 0, 0",
    // SIGCHLD.
    "5: .quad 1 << 16",
    ignore_trap = const ResumeFlag::IgnoreTrap as i32,
    take_child = const ResumeFlag::TakeChild as i32,
);

/// The dynamic linker calls this before the program starts.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    interpose::find_next_functions();
    if state().attached().is_some() {
        return;
    }
    let is = |value: &CStr, text: &str| value.to_bytes() == text.as_bytes();
    let vdso = ptr::with_exposed_provenance_mut(auxiliary(AT_SYSINFO_EHDR).unwrap_or(0));
    let is_off = variable(SWITCH_VARIABLE).is_some_and(|value| is(value, OFF));
    // The user who runs a set-user-id program must not choose its clock.
    let may_choose = auxiliary(AT_SECURE) == Some(0);
    let choice = |name| if may_choose { variable(name) } else { None };
    let is_always = choice(SERVE_VARIABLE).is_some_and(|value| is(value, ALWAYS));
    // Also without a page, the program's calls must reach the library that this one hides.
    let stands_back = interpose::stand_back_if_hiding(vdso);
    if is_off || (!is_always && kernels_clock_is_fast()) || stands_back {
        // The program's calls go to the vDSO, as without this library.
        // SAFETY: `vdso` is null or the address that the kernel gives.
        if let Some(vdso) = unsafe { Vdso::from_ptr(vdso) } {
            vdso.record_functions().ok();
        }
        return;
    }
    let page = choice(PAGE_VARIABLE).unwrap_or(PAGE);
    // SAFETY: the dynamic linker calls this once. If a program with threads loads the library by
    // `dlopen`, no symbol leads the other threads here before the state is complete.
    let _: StartResult = unsafe { start_serving(page, vdso) };
}

const AT_SECURE: usize = 23;
const AT_SYSINFO_EHDR: usize = 33;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// An entry of the auxiliary vector (getauxval(3)); `None` where libc has no `getauxval`.
fn auxiliary(kind: usize) -> Option<usize> {
    // SAFETY: `getauxval` accepts any number.
    optional_functions()
        .getauxval
        .map(|getauxval| unsafe { getauxval(kind) })
}

/// The value of an environment variable, in the memory where the kernel or the program put it.
fn variable(name: &str) -> Option<&'static CStr> {
    // SAFETY: libc has set `environ`. At a program's start there is no other thread. A program with
    // threads that loads the library by `dlopen` must not change its environment meanwhile, as
    // getenv(3) demands too; machine/docs/operators.md says so. `/proc/self/environ` is no
    // substitute: a program that is not dumpable, or has no /proc, could not be switched off by its
    // variable.
    let list = NonNull::new(unsafe { environ }.cast_mut())?;
    let mut entries = (0..).map_while(|index| {
        // SAFETY: the list ends with a null pointer, and the iteration stops there.
        let entry = unsafe { list.add(index) };
        // SAFETY: `entry` is in the list, up to its null pointer.
        NonNull::new(unsafe { entry.read() }.cast_mut())
    });
    entries.find_map(|entry| {
        // SAFETY: each entry of the list is a text that ends with a zero.
        let entry = unsafe { CStr::from_ptr(entry.as_ptr()) };
        let value = entry.to_bytes_with_nul().strip_prefix(name.as_bytes())?;
        CStr::from_bytes_with_nul(value.strip_prefix(b"=")?).ok()
    })
}
