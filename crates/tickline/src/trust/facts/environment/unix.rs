//! Unix systems other than Linux.

use core::ffi::CStr;

use crate::options::{Environment, Probes};

const C_NAME: &CStr = c"TICKLINE";

/// std waits for `set_var`, `getenv` does not.
pub(super) const STD_FIRST: bool = true;

/// Whether the process runs with more rights than its user's (issetugid(2)).
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "openbsd", target_os = "netbsd"))]
pub(super) fn is_privileged() -> bool {
    // SAFETY: takes nothing.
    let privileged = unsafe { libc::issetugid() };
    privileged != 0
}

/// Unknown: whether the user is the one whose rights the process has.
#[cfg(not(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "openbsd",
    target_os = "netbsd"
)))]
pub(super) fn is_privileged() -> bool {
    // SAFETY: takes nothing, and cannot fail.
    let user = unsafe { libc::getuid() };
    // SAFETY: as above.
    let effective_user = unsafe { libc::geteuid() };
    user != effective_user
}

/// What the variable says at the first reading of a process that has not started anything. Here
/// only `getenv` is free of locks of std's and of allocations.
pub(super) fn at_start(_: Probes) -> Option<Environment> {
    // SAFETY: the name is a C string. A program that changes its environment while other threads
    // run starts its clock, or reads it, before that (the crate's "Trust").
    let value = unsafe { libc::getenv(C_NAME.as_ptr()) };
    if value.is_null() {
        return Some(Environment::Unset);
    }
    // SAFETY: getenv returns a C string that stays valid while the environment is not changed.
    Some(Environment::from_value(unsafe { CStr::from_ptr(value) }.to_bytes()))
}
