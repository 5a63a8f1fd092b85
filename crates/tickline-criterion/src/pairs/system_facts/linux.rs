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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use nix::sched::sched_getaffinity;

    use super::*;

    /// The CPUs on which the calling thread may run.
    fn own_cpus() -> Vec<usize> {
        let cpus = sched_getaffinity(Pid::from_raw(0)).expect("the CPUs of this thread");
        (0..CpuSet::count())
            .filter(|cpu| cpus.is_set(*cpu) == Ok(true))
            .collect()
    }

    #[test]
    fn a_thread_that_is_bound_to_a_cpu_runs_on_it() {
        for own in own_cpus() {
            let found = thread::spawn(move || (bind(own), cpu())).join();
            assert_eq!(found.expect("no panic"), (true, Some(own)));
        }
    }

    #[test]
    fn no_thread_is_bound_to_a_cpu_that_cannot_exist() {
        assert!(
            !thread::spawn(|| bind(CpuSet::count()))
                .join()
                .expect("no panic")
        );
    }

    /// The preemptions of the calling thread, as `/proc` shows them (proc_pid_status(5)).
    fn preemptions_by_proc() -> Option<c_long> {
        let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
        let count = status
            .lines()
            .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
        count.trim().parse().ok()
    }

    /// Two threads of one CPU that yield to each other are preempted.
    #[test]
    fn the_preemptions_are_those_that_the_kernel_has_counted() {
        let Some(&shared) = own_cpus().first() else {
            return eprintln!("SKIPPED: no CPU that is known");
        };
        let is_over = AtomicBool::new(false);
        let counts = thread::scope(|scope| {
            scope.spawn(|| {
                bind(shared);
                // ORDERING: Relaxed, a flag on its own.
                while !is_over.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            });
            let counted = scope.spawn(|| {
                bind(shared);
                let begun = Instant::now();
                while preemptions_by_proc() == Some(0) && begun.elapsed() < Duration::from_secs(20)
                {
                    thread::yield_now();
                }
                let counts = (preemptions_by_proc(), preemptions(), preemptions_by_proc());
                // ORDERING: Relaxed, a flag on its own.
                is_over.store(true, Ordering::Relaxed);
                counts
            });
            counted.join().expect("no panic")
        });
        let (Some(before @ 1..), found, Some(after)) = counts else {
            return eprintln!("SKIPPED: this kernel does not show preemptions: {counts:?}");
        };
        assert!(
            found.is_some_and(|found| (before..=after).contains(&found)),
            "{counts:?}"
        );
    }
}
