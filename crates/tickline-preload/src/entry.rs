//! Where this library begins to work, before the program does.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering;

use tickline_page::program::{
    ALWAYS, ALWAYS_FLAG, OFF, Outcome, PAGE, PAGE_VARIABLE, SERVE_VARIABLE, SWITCH_VARIABLE,
};

use crate::abi;
use crate::attach;
use crate::interpose;
use crate::state::{state, use_that_of};
use crate::vdso::{Trouble, Vdso};

/// Where `tickline run` finds what to call: by the name of the section.
#[used]
#[unsafe(link_section = ".tickline")]
static START: unsafe extern "C" fn(*const c_char, *mut c_void, c_int) -> c_int = start;

/// Called by `tickline run`, in a program that has executed no instruction yet. `path` is the
/// page's, `vdso` what `AT_SYSINFO_EHDR` says, or null. Returns an [`Outcome`].
///
/// # Safety
///
/// To be called once, while there is one thread.
unsafe extern "C" fn start(path: *const c_char, vdso: *mut c_void, flags: c_int) -> c_int {
    // SAFETY: a text with a zero at its end.
    let path = unsafe { CStr::from_ptr(path) };
    // SAFETY: by the caller's promise.
    (unsafe { begin(path, vdso, flags) }) as c_int
}

/// # Safety
///
/// As [`start`].
unsafe fn begin(path: &CStr, vdso: *mut c_void, flags: c_int) -> Outcome {
    // SAFETY: `vdso` is what the kernel says.
    let vdso = unsafe { Vdso::at(vdso) };
    match vdso.as_ref().map(Vdso::remember) {
        Some(Err(Trouble::Taken)) => {
            // ORDERING: Relaxed, stored by this thread, in `remember`.
            let theirs = state().clock_gettime.load(Ordering::Relaxed).cast_const().cast();
            let own = abi::clock_gettime as *const () as *const u8;
            // Something else than a copy of this library works, too: the vDSO's symbols lead to it.
            // SAFETY: null, or where the vDSO's symbol leads; and the function to which it would lead
            // here.
            let _: bool = unsafe { use_that_of(theirs, own) };
            return Outcome::AlreadyServed;
        }
        Some(Ok(()) | Err(Trouble::Unknown | Trouble::ReadOnly)) | None => {}
    }
    if flags & ALWAYS_FLAG == 0 && attach::is_fast() {
        return Outcome::Fast;
    }
    // SAFETY: by the caller's promise.
    let outcome = unsafe { attach::attach(path) };
    if outcome != Outcome::Served {
        return outcome;
    }
    match vdso.as_ref().map(Vdso::lead_here) {
        Some(Ok(())) => Outcome::Served,
        Some(Err(Trouble::ReadOnly)) => Outcome::VdsoReadOnly,
        Some(Err(Trouble::Unknown | Trouble::Taken)) | None => Outcome::NoVdso,
    }
}

/// What the dynamic linker runs before the program.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    interpose::find_own();
    if state().attached().is_some() {
        return;
    }
    let is = |value: &CStr, text: &str| value.to_bytes() == text.as_bytes();
    let vdso = ptr::with_exposed_provenance_mut(auxiliary(AT_SYSINFO_EHDR).unwrap_or(0));
    if variable(SWITCH_VARIABLE).is_some_and(|value| is(value, OFF)) {
        // What the program asks for goes to the vDSO, as without this library.
        // SAFETY: `vdso` is what the kernel says.
        if let Some(vdso) = unsafe { Vdso::at(vdso) } {
            vdso.remember().ok();
        }
        return;
    }
    // Who runs a set-user-id program does not choose its clock.
    let is_trusted = auxiliary(AT_SECURE) == Some(0);
    let variable = |name| variable(name).filter(|_| is_trusted);
    let (page, serve) = (variable(PAGE_VARIABLE), variable(SERVE_VARIABLE));
    let flags = if serve.is_some_and(|value| is(value, ALWAYS)) { ALWAYS_FLAG } else { 0 };
    // SAFETY: the linker calls this once. If a program with threads loads the library by `dlopen`,
    // nothing leads them here before the state is complete.
    let _: Outcome = unsafe { begin(page.unwrap_or(PAGE), vdso, flags) };
}

const AT_SECURE: usize = 23;
const AT_SYSINFO_EHDR: usize = 33;

unsafe extern "C" {
    /// The address of libc's `getauxval`; null where it has none: before glibc 2.16.
    fn tickline_getauxval() -> *mut c_void;
    static environ: *const *const c_char;
}

core::arch::global_asm!(
    ".weak getauxval",
    ".hidden tickline_getauxval",
    ".globl tickline_getauxval",
    "tickline_getauxval:",
    "mov rax, [rip + getauxval@GOTPCREL]",
    "ret",
);

/// What the kernel tells of this process (getauxval(3)); `None` where libc does not pass it on.
fn auxiliary(kind: usize) -> Option<usize> {
    // SAFETY: takes no argument.
    let getauxval = unsafe { tickline_getauxval() };
    if getauxval.is_null() {
        return None;
    }
    // SAFETY: libc's function of this name, whose type this is.
    let getauxval: unsafe extern "C" fn(usize) -> usize = unsafe { core::mem::transmute(getauxval) };
    // SAFETY: any number may be asked for.
    Some(unsafe { getauxval(kind) })
}

/// The value of a variable of the environment. It stays where the kernel has put it.
fn variable(name: &str) -> Option<&'static CStr> {
    // SAFETY: libc has set it before it runs this; nobody changes it meanwhile.
    let mut place = unsafe { environ };
    if place.is_null() {
        return None;
    }
    loop {
        // SAFETY: the list ends with a null pointer, which was not reached yet.
        let entry = unsafe { *place };
        if entry.is_null() {
            return None;
        }
        // SAFETY: a text with a zero at its end.
        let text = unsafe { CStr::from_ptr(entry) };
        let value = text.to_bytes().strip_prefix(name.as_bytes());
        if value.is_some_and(|value| value.starts_with(b"=")) {
            // SAFETY: within the text, which has the name and `=`.
            let value = unsafe { entry.add(name.len() + 1) };
            // SAFETY: the rest of the text.
            return Some(unsafe { CStr::from_ptr(value) });
        }
        // SAFETY: not the end yet.
        place = unsafe { place.add(1) };
    }
}
