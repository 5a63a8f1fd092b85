//! A thread's number and name.

use core::sync::atomic::{AtomicU64, Ordering};
use std::fs;
use std::thread;

/// Number and name of the present thread, as viewers show it. The number is the system's, which
/// `ps` and `perf` show. Where `/proc` does not have it, the recorder counts threads itself.
pub(crate) fn present() -> (u64, String) {
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
    (number, name.unwrap_or_else(|| format!("thread {number}")))
}

/// Reads the link `/proc/thread-self`. Its target on Linux is `PROCESS/task/THREAD`.
fn system_number() -> Option<u64> {
    fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}
