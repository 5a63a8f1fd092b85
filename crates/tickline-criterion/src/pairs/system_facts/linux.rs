//! Facts about a thread on Linux: `getrusage`, and its CPU.

use std::ffi::c_long;

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;

/// How often the kernel took the CPU away from this thread, since the thread began: `ru_nivcsw`
/// (getrusage(2)).
pub(crate) fn preemptions() -> Option<c_long> {
    getrusage(UsageWho::RUSAGE_THREAD)
        .ok()
        .map(|usage| usage.involuntary_context_switches())
}

/// The CPU that this thread runs on.
pub(crate) fn cpu() -> Option<usize> {
    sched_getcpu().ok()
}

/// Binds this thread, and the processes that it starts, to a CPU. Returns whether that succeeded.
pub(crate) fn bind(cpu: usize) -> bool {
    let mut cpus = CpuSet::new();
    cpus.set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus))
        .is_ok()
}
