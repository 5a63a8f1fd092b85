//! The environment of Unix systems, where a signal handler may ask.

use core::ffi::CStr;

use crate::options::Environment;

/// What the environment variable `TICKLINE` says. `getenv` does not allocate, unlike `std::env`,
/// nor lock in glibc and musl.
pub(crate) fn environment() -> Environment {
    // SAFETY: the name is a C string. Whoever changes the environment while other threads run must
    // already rule out such calls (see `std::env::set_var`).
    let value = unsafe { libc::getenv(c"TICKLINE".as_ptr()) };
    if value.is_null() {
        return Environment::Unset;
    }
    // SAFETY: getenv returns a C string that stays valid while the environment is not changed.
    Environment::from_value(unsafe { CStr::from_ptr(value) }.to_bytes())
}
