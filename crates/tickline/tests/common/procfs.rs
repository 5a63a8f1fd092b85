//! The facts of procfs about this process: its threads, their signals, its descriptors.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Waits until this many threads are called tickline. A new thread takes a moment to give itself a
/// name. An old one takes a moment to leave procfs after it was joined.
pub(crate) fn await_tickline_threads(expected: usize) {
    let start = Instant::now();
    while tickline_threads().len() != expected {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}, not {expected}",
            tickline_threads()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The `field` in the procfs status of the thread with this folder. `None` if the thread has ended.
pub(crate) fn status_field(thread: &Path, field: &str) -> Option<String> {
    let status = std::fs::read_to_string(thread.join("status")).ok()?;
    Some(
        status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .expect("a field")
            .trim()
            .to_owned(),
    )
}

/// The signals that the status of a thread has in this `field`: bit 0 stands for signal 1.
pub(crate) fn signals(thread: &Path, field: &str) -> u64 {
    u64::from_str_radix(&status_field(thread, field).expect("procfs"), 16).expect("a mask")
}

/// The signals that the status of this thread has in this `field`.
pub(crate) fn own_signals(field: &str) -> u64 {
    signals(Path::new("/proc/thread-self"), field)
}

/// The timer descriptors of this process.
pub(crate) fn timers() -> Vec<i32> {
    let is_timer = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|target| target.to_string_lossy().contains("timerfd"))
    };
    let entries = std::fs::read_dir("/proc/self/fd")
        .expect("procfs")
        .flatten()
        .filter(is_timer);
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The folders in procfs of the threads of this process that are called tickline.
pub(crate) fn tickline_threads() -> Vec<PathBuf> {
    threads_named("tickline")
}

pub(crate) fn threads_named(wanted: &str) -> Vec<PathBuf> {
    let is_wanted = |task: &PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == wanted)
    };
    let tasks = std::fs::read_dir("/proc/self/task")
        .expect("procfs")
        .flatten()
        .map(|task| task.path());
    tasks.filter(is_wanted).collect()
}
