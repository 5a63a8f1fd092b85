//! What this process holds: memory, threads, descriptors.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest wait for threads that were joined to leave procfs.
const PATIENCE: Duration = Duration::from_secs(5);

/// Has all threads share one heap. By default each new thread takes the next of 8 heaps a CPU,
/// whose first pages would count as growth until the last heap has been used.
pub(crate) fn keep_one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: passes numbers, before the first thread is made.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}

/// Counts by procfs; 0 where there is none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    pub(crate) resident_kib: u64,
    pub(crate) threads: u64,
    pub(crate) descriptors: u64,
}

impl Held {
    pub(crate) fn now() -> Self {
        // What was freed goes back to the kernel, so that what is left is held.
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: passes a number; the allocator locks what it needs.
        unsafe {
            libc::malloc_trim(0)
        };
        Self { resident_kib: status("VmRSS:"), threads: status("Threads:"), descriptors: descriptors() }
    }

    /// Once there are no more than so many threads; for want of that, after a while.
    pub(crate) fn at_rest(threads: u64) -> Self {
        let start = Instant::now();
        loop {
            let held = Self::now();
            if held.threads <= threads || start.elapsed() > PATIENCE {
                return held;
            }
            sleep(Duration::from_millis(5));
        }
    }

    /// One of the counts, of each.
    pub(crate) fn list(all: &[Self], count: impl Fn(&Self) -> u64) -> String {
        all.iter().map(|held| count(held).to_string()).collect::<Vec<_>>().join(" ")
    }
}

/// A line of `/proc/self/status`.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Open descriptors, but for the one that reads the folder.
fn descriptors() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(0, |folder| (folder.count() as u64).saturating_sub(1))
}
