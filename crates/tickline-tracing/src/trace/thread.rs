//! What a thread is called.

use core::sync::atomic::{AtomicU64, Ordering};
use std::fs;
use std::thread;

/// A thread, as viewers show it.
#[derive(Debug, Clone)]
pub(crate) struct ThreadName {
    /// The system's number, as `ps` and `perf` have it; a number of our own where `/proc` does not
    /// tell it.
    pub(crate) number: u64,
    pub(crate) name: String,
}

impl ThreadName {
    /// Of the present thread.
    pub(crate) fn present() -> Self {
        let number = system_number().unwrap_or_else(|| {
            static NEXT: AtomicU64 = AtomicU64::new(1);
            // ORDERING: Relaxed, the number alone counts.
            NEXT.fetch_add(1, Ordering::Relaxed)
        });
        let known = thread::current().name().map(str::to_owned);
        // A thread that Rust did not start may have a name by pthread_setname_np.
        let name = known.or_else(|| {
            let name = fs::read_to_string("/proc/thread-self/comm").ok()?;
            Some(name.trim_end().to_owned())
        });
        Self { number, name: name.unwrap_or_else(|| format!("thread {number}")) }
    }
}

/// By the link `/proc/thread-self`, whose target is `PROCESS/task/THREAD` on Linux.
fn system_number() -> Option<u64> {
    fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}
