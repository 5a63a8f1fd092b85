//! What Linux says about the calling thread.

use std::ffi::c_long;
use std::fs::File;
use std::os::unix::fs::FileExt;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

use crate::measurement::lost_time::NotSubtracted;

/// The reason if the times are missing.
pub(super) const MISSING: NotSubtracted = NotSubtracted::RunDelay;

/// The file of the thread that opens it (proc_pid_schedstat(5)).
pub(super) const SCHEDSTAT: &str = "/proc/thread-self/schedstat";

/// The length of three numbers of 64 bits, and more.
const LENGTH: usize = 80;

/// The calling thread's run delay and blocks.
#[derive(Debug)]
pub(super) struct ThreadFile(File);

impl ThreadFile {
    pub(super) fn open(path: &str) -> Option<Self> {
        let file = Self(File::open(path).ok()?);
        file.run_delay_ns().map(|_| file)
    }

    /// How long the thread that opened the file has waited for a CPU, ns.
    pub(super) fn run_delay_ns(&self) -> Option<u64> {
        let mut text = [0; LENGTH];
        let length = self.0.read_at(&mut text, 0).ok()?;
        run_delay_in(text.get(..length)?)
    }
}

/// The second number of a thread's `schedstat`. If the kernel keeps no such times, all three are 0
/// (`proc_pid_schedstat` in `fs/proc/base.c`); the third counts the times that the thread began to
/// run, and is never 0 then.
fn run_delay_in(text: &[u8]) -> Option<u64> {
    let mut numbers = std::str::from_utf8(text)
        .ok()?
        .split_ascii_whitespace()
        .map(|number| number.parse().ok());
    let [_ran_ns, run_delay_ns, runs] = [numbers.next()??, numbers.next()??, numbers.next()??];
    (runs > 0).then_some(run_delay_ns)
}

/// The calling thread's CPU clock.
pub(super) fn cpu_ns() -> Option<u64> {
    ns_of(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU clock of the calling thread's process.
pub(super) fn process_cpu_ns() -> Option<u64> {
    ns_of(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

fn ns_of(clock: ClockId) -> Option<u64> {
    let time = clock_gettime(clock).ok()?;
    let secs = u64::try_from(time.tv_sec()).ok()?;
    let ns = u64::try_from(time.tv_nsec()).ok()?;
    secs.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// How often the calling thread has blocked: `ru_nvcsw` (getrusage(2)).
pub(super) fn blocked() -> Option<c_long> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
    Some(usage.voluntary_context_switches())
}

/// How often the kernel took the CPU away from this thread, since the thread began: `ru_nivcsw`
/// (getrusage(2)).
pub(crate) fn preemptions() -> Option<c_long> {
    getrusage(UsageWho::RUSAGE_THREAD)
        .ok()
        .map(|usage| usage.involuntary_context_switches())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_delay_is_the_second_number() {
        assert_eq!(run_delay_in(b"1234 567 8\n"), Some(567));
        let largest = format!("{0} {0} {0}\n", u64::MAX);
        assert!(largest.len() < LENGTH);
        assert_eq!(run_delay_in(largest.as_bytes()), Some(u64::MAX));
    }

    #[test]
    fn a_thread_that_has_not_waited_yet_has_a_run_delay_of_0() {
        assert_eq!(run_delay_in(b"1234 0 1\n"), Some(0));
    }

    #[test]
    fn a_kernel_without_these_times_says_nothing() {
        assert_eq!(run_delay_in(b"0 0 0\n"), None);
    }

    #[test]
    fn a_text_of_another_form_says_nothing() {
        for text in ["", "12", "12 34", "12 x 3", "12 -4 3", "\u{b5} 1 2"] {
            assert_eq!(run_delay_in(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_file_that_is_missing_or_has_another_form_is_not_used() {
        assert!(ThreadFile::open("/proc/thread-self/no-such-file").is_none());
        assert!(ThreadFile::open("/proc/thread-self/comm").is_none());
    }

    #[test]
    fn the_cpu_clock_runs_while_the_thread_runs() {
        let before = cpu_ns().expect("a clock");
        let mut now = before;
        while now == before {
            now = cpu_ns().expect("a clock");
        }
        assert!(now > before);
    }

    #[test]
    fn the_cpu_clock_of_the_process_contains_threads_that_have_ended() {
        let before = process_cpu_ns().expect("a clock");
        let ran_ns = std::thread::spawn(|| {
            let begin = cpu_ns().expect("a clock");
            while cpu_ns().expect("a clock") - begin < 1_000_000 {}
            cpu_ns().expect("a clock") - begin
        });
        let ran_ns = ran_ns.join().expect("a thread");
        assert!(process_cpu_ns().expect("a clock") - before >= ran_ns);
    }

    #[test]
    fn a_sleep_counts_as_blocked() {
        let before = blocked().expect("a number");
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(blocked().expect("a number") > before);
    }
}
