//! Linux: sysfs, prctl and the environment.

use core::ffi::CStr;

use tickline_core::gate::Clocksource;

use crate::status::Environment;

/// `Documentation/ABI/testing/sysfs-devices-system-clocksource` of the kernel.
const CURRENT: &CStr = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What the kernel keeps time with. Opens and closes the file each time: a descriptor that is kept may be closed by a
/// daemon and come to mean something else.
pub(crate) fn clocksource() -> Clocksource {
    let mut buffer = [0_u8; 64];
    // SAFETY: the path is a C string; no memory is passed on.
    let file = unsafe { libc::open(CURRENT.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Clocksource::Unknown;
    }
    // SAFETY: the buffer is valid for writes of its length.
    let length = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
    // SAFETY: the descriptor was opened above and is closed once.
    unsafe { libc::close(file) };
    let name = usize::try_from(length).ok().and_then(|length| buffer.get(..length)).unwrap_or(&[]);
    Clocksource::from_name(name)
}

/// Whether the process may read the counter: `prctl(PR_GET_TSC)`, which x86 has. Where it cannot be asked, nobody can
/// have denied it in this way.
pub(crate) fn counter_readable() -> bool {
    let mut mode: libc::c_int = libc::PR_TSC_ENABLE;
    // SAFETY: PR_GET_TSC writes one int to the address given, or fails.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    result != 0 || mode != libc::PR_TSC_SIGSEGV
}

/// What the environment variable `TICKLINE` says. `getenv` neither allocates nor locks, unlike `std::env`.
pub(crate) fn environment() -> Environment {
    // SAFETY: the name is a C string. Whoever changes the environment while other threads run must already rule out such
    // calls (see `std::env::set_var`).
    let value = unsafe { libc::getenv(c"TICKLINE".as_ptr()) };
    if value.is_null() {
        return Environment::Unset;
    }
    // SAFETY: getenv returns a C string that stays valid while the environment is not changed.
    Environment::from_value(unsafe { CStr::from_ptr(value) }.to_bytes())
}
