//! Windows: the CPUs of this process, and threads that are pinned to one.

use windows_sys::Win32::System::Threading::{
    GetActiveProcessorGroupCount, GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask,
    SetThreadAffinityMask,
};

/// The CPUs on which a thread of this process may run. Empty on a machine with several groups of
/// processors (more than 64 CPUs). A mask has only the CPUs of one group, and the CPUs of other
/// groups would count as compared.
pub(crate) fn comparable_cpus() -> Vec<u32> {
    // SAFETY: the call has no precondition.
    if unsafe { GetActiveProcessorGroupCount() } != 1 {
        return Vec::new();
    }
    let mut own = 0_usize;
    let mut system = 0_usize;
    // SAFETY: the call has no precondition, and returns a pseudo-handle that needs no closing.
    let process = unsafe { GetCurrentProcess() };
    // SAFETY: the handle is this process's, and both numbers are valid for a write.
    if unsafe { GetProcessAffinityMask(process, &raw mut own, &raw mut system) } == 0 {
        return Vec::new();
    }
    (0..usize::BITS)
        .filter(|cpu| own & (1 << cpu) != 0)
        .collect()
}

/// Pins the calling thread to `cpu`. Returns whether the system did.
pub(crate) fn pin_this_thread(cpu: u32) -> bool {
    let Some(mask) = 1_usize.checked_shl(cpu) else {
        return false;
    };
    // SAFETY: the call has no precondition, and returns a pseudo-handle that needs no closing.
    let thread = unsafe { GetCurrentThread() };
    // SAFETY: the handle is this thread's; a mask that is not allowed is an error, 0.
    unsafe { SetThreadAffinityMask(thread, mask) != 0 }
}
