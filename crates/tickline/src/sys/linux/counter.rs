//! Linux: whether a process may read the counter.

/// Whether the process may read the counter: `prctl(PR_GET_TSC)`, which x86 has, and arm64 since
/// Linux 6.12. A kernel without this call can't deny the counter in this way.
pub(crate) fn counter_readable() -> bool {
    let mut mode: libc::c_int = libc::PR_TSC_ENABLE;
    // SAFETY: PR_GET_TSC writes one int to the address given, or fails.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    result != 0 || mode != libc::PR_TSC_SIGSEGV
}
