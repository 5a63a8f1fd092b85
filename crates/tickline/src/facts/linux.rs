//! Linux: sysfs and prctl.

use core::ffi::CStr;

use tickline_core::gate::Clocksource;

/// `Documentation/ABI/testing/sysfs-devices-system-clocksource` of the kernel.
const CURRENT: &CStr = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &CStr = c"/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// `Documentation/ABI/testing/sysfs-devices-system-cpu`: CPUs that the scheduler leaves alone.
const ISOLATED: &CStr = c"/sys/devices/system/cpu/isolated";

/// The longest of these files that is of use, bytes: a list of isolated CPUs can be long.
const FILE_BYTES: usize = 1_024;

/// An open file, closed when it is dropped. It is opened each time: a descriptor that is kept may be closed by a daemon and come
/// to mean something else.
struct File(libc::c_int);

impl File {
    fn open(path: &CStr, flags: libc::c_int) -> Option<Self> {
        // SAFETY: the path is a C string; no memory is passed on.
        let file = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
        (file >= 0).then_some(Self(file))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor was opened for this, and is closed once.
        unsafe { libc::close(self.0) };
    }
}

/// The beginning of a small file; empty if it cannot be read.
fn read<T>(path: &CStr, parse: impl FnOnce(&[u8]) -> T) -> T {
    let mut buffer = [0_u8; FILE_BYTES];
    let Some(file) = File::open(path, libc::O_RDONLY) else { return parse(&[]) };
    // SAFETY: the buffer is valid for writes of its length.
    let length = unsafe { libc::read(file.0, buffer.as_mut_ptr().cast(), buffer.len()) };
    drop(file);
    parse(usize::try_from(length).ok().and_then(|length| buffer.get(..length)).unwrap_or(&[]))
}

/// Walks the way to what [`clocksource`] reads.
pub(crate) fn find_clocksource() {
    drop(File::open(CURRENT, libc::O_PATH));
}

/// What the kernel keeps time with.
pub(crate) fn clocksource() -> Clocksource {
    read(CURRENT, Clocksource::from_name)
}

/// Whether the kernel would keep time with `clocksource`; `None` if it does not say.
pub(crate) fn is_available(clocksource: Clocksource) -> Option<bool> {
    read(AVAILABLE, |list| clocksource.is_listed(list))
}

/// Whether the scheduler leaves `cpu` alone (`isolcpus`), so that whoever uses it wants no visitors.
pub(crate) fn is_isolated(cpu: usize) -> bool {
    read(ISOLATED, |list| tickline_core::cpu_list::names(list, cpu))
}

/// Whether the process may read the counter: `prctl(PR_GET_TSC)`, which x86 has, and arm64 since Linux 6.12. Where it cannot be asked, nobody can
/// have denied it in this way.
pub(crate) fn counter_readable() -> bool {
    let mut mode: libc::c_int = libc::PR_TSC_ENABLE;
    // SAFETY: PR_GET_TSC writes one int to the address given, or fails.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    result != 0 || mode != libc::PR_TSC_SIGSEGV
}
