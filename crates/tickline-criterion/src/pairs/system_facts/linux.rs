//! Facts about a thread on Linux: its CPU.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::{Pid, dup2_stdin, dup2_stdout};

/// The calling thread, for the functions of `nix::sched`.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// The CPU that this thread runs on.
pub(crate) fn cpu() -> Option<usize> {
    sched_getcpu().ok()
}

/// A thread that is bound to a CPU. The drop restores the thread's former mask of CPUs.
#[derive(Debug)]
pub(crate) struct Bound(CpuSet);

/// Binds this thread, and the threads and processes that it starts, to the CPU on which it runs.
///
/// # Errors
///
/// If that failed.
pub(crate) fn bind_to_present_cpu() -> Result<Bound, String> {
    let bound = cpu().and_then(bind);
    bound.ok_or_else(|| {
        "the thread can't be bound to its CPU; a sandbox must allow getcpu, sched_getaffinity and \
         sched_setaffinity"
            .to_owned()
    })
}

fn bind(cpu: usize) -> Option<Bound> {
    let former = sched_getaffinity(THIS_THREAD).ok()?;
    let mut cpus = CpuSet::new();
    cpus.set(cpu).ok()?;
    sched_setaffinity(THIS_THREAD, &cpus).ok()?;
    Some(Bound(former))
}

impl Drop for Bound {
    fn drop(&mut self) {
        _ = sched_setaffinity(THIS_THREAD, &self.0);
    }
}

/// Takes standard input and output away from the process and from those that it starts, and returns
/// them. Standard input is empty from then on, and output goes to the standard error stream. `None`
/// if that failed.
pub(crate) fn take_standard_streams() -> Option<[File; 2]> {
    // Duplicates that std makes are closed in other programs (FD_CLOEXEC).
    let input = io::stdin().as_fd().try_clone_to_owned().ok()?;
    let output = io::stdout().as_fd().try_clone_to_owned().ok()?;
    let empty = File::open("/dev/null").ok()?;
    dup2_stdout(io::stderr()).ok()?;
    dup2_stdin(empty).ok()?;
    Some([input.into(), output.into()])
}

#[cfg(test)]
mod tests {
    use std::ffi::c_long;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use tickline_observe::skip;

    use super::*;
    use crate::measurement::thread_meter::preemptions;

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
            let found = thread::spawn(move || {
                let bound = bind(own);
                (bound.is_some(), cpu())
            });
            assert_eq!(found.join().expect("no panic"), (true, Some(own)));
        }
    }

    #[test]
    fn no_thread_is_bound_to_a_cpu_that_cannot_exist() {
        assert!(
            thread::spawn(|| bind(CpuSet::count()).is_none())
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
            return skip("no CPU that is known");
        };
        let is_over = AtomicBool::new(false);
        let counts = thread::scope(|scope| {
            scope.spawn(|| {
                let _bound = bind(shared);
                // ORDERING: Relaxed, a flag on its own.
                while !is_over.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            });
            let counted = scope.spawn(|| {
                let _bound = bind(shared);
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
            return skip(format_args!(
                "this kernel does not show preemptions: {counts:?}"
            ));
        };
        assert!(
            found.is_some_and(|found| (before..=after).contains(&found)),
            "{counts:?}"
        );
    }

    /// Symptom: after the first benchmark with `--against` all of a program ran on one CPU.
    #[test]
    fn a_bound_thread_gets_its_cpus_back() {
        let cpus = || sched_getaffinity(THIS_THREAD).expect("a mask");
        let before = cpus();
        let bound = bind(cpu().expect("a CPU")).expect("bound");
        let number = |cpus: CpuSet| {
            let is_set = |cpu: &usize| cpus.is_set(*cpu).unwrap_or_default();
            (0..CpuSet::count()).filter(is_set).count()
        };
        assert_eq!(number(cpus()), 1);
        drop(bound);
        assert_eq!(cpus(), before);
    }
}
