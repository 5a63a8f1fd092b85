//! Numbers that are unique in this process.

use core::sync::atomic::{AtomicU64, Ordering};

/// A new number, at least 1: for a recorder, a block of spans' numbers, a file, or a thread.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // ORDERING: Relaxed: the number orders no memory.
    NEXT.fetch_add(1, Ordering::Relaxed)
}
