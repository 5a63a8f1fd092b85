//! The registration of a clock's thread, and the recent time that the thread stores.
//!
//! A thread is registered by an id before it starts, and ends when another thread, or none, is
//! registered. Then its handle is being dropped. Or the handle is lost, because a filter has killed
//! the thread that was starting or dropping it.
//!
//! The thread counts as running once it has begun: from then on its death is noticed. It may be
//! killed before, or never be made, because a filter kills the thread that starts it.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::instant::Instant;
use crate::sys::{self, RobustFutex};

/// The registration of one clock's thread.
#[derive(Debug)]
pub(crate) struct Registration {
    /// The token of the process in which the thread runs; [`not_begun`] until it has begun; 0
    /// without a thread.
    process: AtomicU64,
    /// The id of the thread that was registered last; 0 without one.
    id: AtomicU64,
    /// A word that the kernel marks if the thread is killed.
    pub(crate) futex: RobustFutex,
    /// The recent time that the thread stored last, ns.
    recent_ns: AtomicI64,
}

/// Stands for the token while the thread with this id has not begun. No token has the highest bit:
/// a token's number counts forks.
const fn not_begun(id: u64) -> u64 {
    1 << 63 | id
}

impl Registration {
    /// No thread.
    pub(super) const fn new() -> Self {
        Self {
            process: AtomicU64::new(0),
            id: AtomicU64::new(0),
            futex: RobustFutex::new(),
            recent_ns: AtomicI64::new(0),
        }
    }

    /// Whether the thread runs in this process. A forked child has no thread, and the thread may
    /// have been killed.
    pub(super) fn is_running(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release exchange in `begin`.
        let process = self.process.load(Ordering::Acquire);
        process != 0 && process == sys::process_token() && !self.futex.owner_died()
    }

    /// Registers the thread with this id before its start, and stores the first recent time.
    pub(crate) fn register(&self, id: u64, recent: Instant) {
        self.store_recent(recent);
        self.futex.clear();
        // ORDERING: Relaxed, pairs with the load in `has_id`. The creation of the thread publishes
        // it to that thread.
        self.id.store(id, Ordering::Relaxed);
        // ORDERING: Relaxed, as for the id.
        self.process.store(not_begun(id), Ordering::Relaxed);
    }

    /// Records that the thread with this id runs, unless another one is registered by now. Only
    /// this thread may call it, once it holds the futex.
    pub(crate) fn begin(&self, id: u64) {
        let token = sys::process_token();
        // ORDERING: Release, pairs with the Acquire load in `is_running`: a reader that sees the
        // token sees the first recent time.
        self.process
            .compare_exchange(not_begun(id), token, Ordering::Release, Ordering::Relaxed)
            .ok();
    }

    /// Unregisters the thread.
    pub(crate) fn unregister(&self) {
        // ORDERING: Relaxed for both, they publish no other memory.
        self.process.store(0, Ordering::Relaxed);
        self.id.store(0, Ordering::Relaxed);
    }

    /// Whether the thread with this id is the registered one.
    pub(crate) fn has_id(&self, id: u64) -> bool {
        // ORDERING: Relaxed, pairs with the stores above: the thread may notice later.
        self.id.load(Ordering::Relaxed) == id
    }

    /// The recent time that the thread stored last.
    #[inline]
    pub(super) fn recent(&self) -> Instant {
        // ORDERING: Relaxed, a single value; coherence makes it non-decreasing for each reader.
        Instant::from_signed_nanos(self.recent_ns.load(Ordering::Relaxed))
    }

    /// Stores the recent time.
    pub(crate) fn store_recent(&self, time: Instant) {
        // Keeps the maximum, because the lines of two CPUs may differ by their bounds.
        // ORDERING: Relaxed, pairs with the load in `recent`.
        self.recent_ns
            .fetch_max(time.as_signed_nanos(), Ordering::Relaxed);
    }
}
