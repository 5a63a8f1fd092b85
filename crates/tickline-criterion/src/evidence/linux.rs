//! Linux: `getrusage`, `/proc/stat`, cpufreq.

use std::ffi::c_long;
use std::fs;

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;

/// How often the kernel took the CPU away from this thread, since the thread began: `ru_nivcsw`
/// (getrusage(2)).
pub(crate) fn preemptions() -> Option<c_long> {
    getrusage(UsageWho::RUSAGE_THREAD).ok().map(|usage| usage.involuntary_context_switches())
}

/// The CPU that this thread runs on.
pub(crate) fn cpu() -> Option<usize> {
    sched_getcpu().ok()
}

/// Binds this thread to a CPU, and the processes that it starts. Returns whether it is bound.
pub(crate) fn bind(cpu: usize) -> bool {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus)).is_ok()
}

/// Time that the hypervisor took from `cpu`, in units of `USER_HZ`; from all CPUs together if the
/// CPU is not known.
pub(crate) fn stolen(cpu: Option<usize>) -> Option<u64> {
    stolen_in(&fs::read_to_string("/proc/stat").ok()?, cpu)
}

/// The frequency of a CPU's core, kHz.
pub(crate) fn frequency_khz(cpu: usize) -> Option<u64> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The eighth number in the line of `cpu`, or in the first line, which is for all CPUs
/// (proc_stat(5)).
fn stolen_in(text: &str, cpu: Option<usize>) -> Option<u64> {
    let name = cpu.map_or_else(|| "cpu".to_owned(), |cpu| format!("cpu{cpu}"));
    let mut fields = text.lines().map(str::split_whitespace);
    fields.find_map(|mut fields| (fields.next()? == name).then(|| fields.nth(7)?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_that_of_the_cpu() {
        let text = "cpu  10 0 20 30 40 0 5 9 0 0\ncpu0 5 0 10 15 20 0 2 3 0 0\ncpu1 5 0 10 15 20 0 3 6 0 0\n\
                    cpu10 1 2 3 4\nintr 7\n";
        assert_eq!(stolen_in(text, None), Some(9));
        assert_eq!(stolen_in(text, Some(0)), Some(3));
        assert_eq!(stolen_in(text, Some(1)), Some(6));
        assert_eq!(stolen_in(text, Some(10)), None, "an old kernel");
        assert_eq!(stolen_in(text, Some(2)), None);
    }
}
