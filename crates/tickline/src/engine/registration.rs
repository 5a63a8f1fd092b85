//! The registration of a clock's thread, and the coarse time that the thread stores.
//!
//! A thread is registered before it starts, by an id. It runs as long as the id stays registered: a
//! thread whose id is not registered any more has lost its handle, because the thread that was to
//! keep it was killed in a start or a drop.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tickline_core::try_lock::{LockGuard, TryLock};

use super::to_unsigned;
use crate::sys::{self, RobustFutex};

/// The registration of one clock's thread.
#[derive(Debug)]
pub(crate) struct Registration {
    /// The token of the process in which the thread lives; 0 without one.
    process: AtomicU64,
    /// The id of the thread that was registered last; 0 without one.
    id: AtomicU64,
    /// Held by the thread that starts this clock's thread, from the registration to the beginning.
    starting: TryLock<()>,
    /// A word that the kernel marks if the thread is killed.
    pub(crate) futex: RobustFutex,
    /// The coarse time that the thread stored last, ns.
    recent_ns: AtomicI64,
}

impl Registration {
    /// No thread.
    pub(super) const fn new() -> Self {
        Self {
            process: AtomicU64::new(0),
            id: AtomicU64::new(0),
            starting: TryLock::new(()),
            futex: RobustFutex::new(),
            recent_ns: AtomicI64::new(0),
        }
    }

    /// Whether the thread runs in this process. A forked child has no thread, and the thread may
    /// have been killed.
    pub(super) fn is_running(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release store in `register`.
        let process = self.process.load(Ordering::Acquire);
        process != 0 && process == sys::process_token() && !self.futex.owner_died()
    }

    /// Registers the thread with this id before its start, and stores the first coarse time.
    pub(crate) fn register(&self, id: u64, recent_ns: u64) {
        self.store_recent(recent_ns);
        self.futex.clear();
        // ORDERING: Relaxed, pairs with the load in `has_id`. The creation of the thread publishes
        // it to that thread.
        self.id.store(id, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire load in `is_running`: a reader that sees the
        // token sees the first coarse time.
        self.process.store(sys::process_token(), Ordering::Release);
    }

    /// Unregisters the thread.
    pub(crate) fn unregister(&self) {
        // ORDERING: Relaxed for both, they publish no other memory.
        self.process.store(0, Ordering::Relaxed);
        self.id.store(0, Ordering::Relaxed);
    }

    /// The right to start a thread. Whoever takes it over from a thread that was killed unregisters
    /// the clock's thread, which may never have begun. If it runs, it ends.
    pub(crate) fn begin_start(&self) -> Option<LockGuard<'_, ()>> {
        self.starting
            .try_lock(sys::lock_token(), |()| self.unregister())
    }

    /// Unregisters the thread if the thread that was starting it was killed.
    pub(super) fn forget_killed_start(&self) {
        if self.starting.is_held() {
            drop(self.begin_start());
        }
    }

    /// Whether the thread with this id is the registered one.
    pub(crate) fn has_id(&self, id: u64) -> bool {
        // ORDERING: Relaxed, pairs with the stores above: the thread may notice later.
        self.id.load(Ordering::Relaxed) == id
    }

    /// The coarse time that the thread stored last, ns.
    #[inline]
    pub(super) fn recent_ns(&self) -> u64 {
        // ORDERING: Relaxed, a single value; coherence makes it non-decreasing for each reader.
        to_unsigned(self.recent_ns.load(Ordering::Relaxed))
    }

    /// Stores the coarse time.
    pub(crate) fn store_recent(&self, ns: u64) {
        // Keeps the maximum, because the lines of two CPUs may differ by their bounds.
        // ORDERING: Relaxed, pairs with the load in `recent_ns`.
        self.recent_ns
            .fetch_max(ns.cast_signed(), Ordering::Relaxed);
    }
}
