//! The counts of each thread, and how a thread finds its own.
//!
//! A thread has a [`Local`] for each [`Shards`] that it records to, which nobody else sees. There it
//! finds the [`Counts`] of a callsite or a value without a lock. The same counts are in its
//! [`Shard`], behind a lock, for readers. The thread takes that lock only to add counts that it does
//! not have yet.
//!
//! An allocator may close a span of its own while this module allocates, with a lock held. If that
//! span can't be counted without a lock, it waits in [`PENDING`] until the thread has released its
//! locks.
//!
//! A forked child has its parent's counts, and locks as they were. If another thread held one, the
//! child waits for ever once it needs that.

use core::cell::{Cell, RefCell};
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::counts::Counts;
use super::known::{Known, Owned, Subject};
use super::lock;

/// Numbers the shards of a process, so that a thread can keep apart what belongs to each.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// All counts of some histograms.
#[derive(Debug)]
pub(super) struct Shards {
    number: u64,
    /// Those of threads that have ended included.
    all: Mutex<Vec<Shard>>,
    /// For threads that have lost their thread-local memory, because they are ending. It is written
    /// under its lock.
    late: Shard,
}

/// The counts of one thread. When that has ended, another thread may take them over.
#[derive(Debug, Clone, Default)]
struct Shard {
    /// The thread has another clone until it ends.
    owner: Arc<()>,
    shared: Arc<Mutex<ForReaders>>,
}

#[derive(Debug, Default)]
struct ForReaders {
    known: Known,
    /// How often the counts were reset.
    resets: u64,
}

/// What a thread knows of its shard. Counts may be retired.
#[derive(Debug)]
struct Local {
    shards: Weak<Shards>,
    number: u64,
    shard: Shard,
    known: Known,
    /// The number of resets when `known` was last empty.
    resets: u64,
}

/// A span that could not be counted yet.
struct Pending {
    shards: Arc<Shards>,
    subject: Owned,
    ns: u64,
}

thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
    /// Whether the thread may hold one of this module's locks.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Spans that were closed while the thread was inside. It is empty while it is not. Without a
    /// destructor, so that it serves a thread that is ending.
    static PENDING: Cell<ManuallyDrop<Vec<Pending>>> = const { Cell::new(ManuallyDrop::new(Vec::new())) };
}

/// As long as this lives, the thread may hold locks.
struct Inside {
    was_inside: bool,
}

impl Inside {
    fn enter() -> Self {
        Self { was_inside: IS_INSIDE.replace(true) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.was_inside {
            return;
        }
        IS_INSIDE.set(false);
        for Pending { shards, subject, ns } in take_pending() {
            shards.record(subject.subject(), ns);
        }
    }
}

fn take_pending() -> Vec<Pending> {
    ManuallyDrop::into_inner(PENDING.replace(ManuallyDrop::new(Vec::new())))
}

/// Remembers a span until the thread holds no lock. Each allocation here may come back to this
/// function, so the list is never borrowed.
#[cold]
fn defer(pending: Pending) {
    let mut all = take_pending();
    all.push(pending);
    loop {
        let meanwhile = ManuallyDrop::into_inner(PENDING.replace(ManuallyDrop::new(all)));
        if meanwhile.is_empty() {
            return;
        }
        all = take_pending();
        all.extend(meanwhile);
    }
}

impl Shards {
    pub(super) fn new() -> Arc<Self> {
        let late = Shard::default();
        Arc::new(Self {
            // ORDERING: Relaxed, the number alone counts.
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            all: Mutex::new(vec![late.clone()]),
            late,
        })
    }

    /// Counts a span of this thread.
    #[inline]
    pub(super) fn record(self: &Arc<Self>, subject: Subject<'_>, ns: u64) {
        let is_counted = LOCALS.try_with(|locals| {
            // Nothing is allocated while this is borrowed: an allocator may close a span of its own.
            let Ok(locals) = locals.try_borrow() else { return false };
            let local = locals.iter().find(|local| local.number == self.number);
            match local.and_then(|local| local.known.get(subject)) {
                Some(counts) if !counts.is_retired() => counts.try_record(ns),
                _ => false,
            }
        });
        if !is_counted.unwrap_or(false) {
            self.record_slowly(subject, ns);
        }
    }

    #[cold]
    fn record_slowly(self: &Arc<Self>, subject: Subject<'_>, ns: u64) {
        if IS_INSIDE.get() {
            let subject = match subject {
                Subject::Callsite(metadata) => Owned::Callsite(metadata),
                Subject::Value(value) => Owned::Value(value.into()),
            };
            defer(Pending { shards: Arc::clone(self), subject, ns });
            return;
        }
        let _inside = Inside::enter();
        let counts = LOCALS.try_with(|locals| {
            let locals = &mut *locals.try_borrow_mut().ok()?;
            if !locals.iter().any(|local| local.number == self.number) {
                locals.retain(|local| local.shards.strong_count() > 0);
                locals.push(Local::new(self));
            }
            let local = locals.iter_mut().find(|local| local.number == self.number);
            local.map(|local| local.counts(subject))
        });
        match counts.ok().flatten() {
            Some(counts) => counts.record(ns),
            // The lock is held meanwhile, because all ending threads record here.
            None => lock(&self.late.shared).known.get_or_insert(subject).record(ns),
        }
    }

    /// A shard for this thread.
    fn take(&self) -> Shard {
        let mut all = lock(&self.all);
        // Where the last owner's clone is gone, all that it did has happened before: `Arc` promises so
        // to whom it gives `&mut`. This thread goes on from its last counts.
        let free = all.iter_mut().position(|shard| Arc::get_mut(&mut shard.owner).is_some());
        if let Some(shard) = free.and_then(|place| all.get(place)) {
            return shard.clone();
        }
        let shard = Shard::default();
        all.push(shard.clone());
        shard
    }

    /// All shards. Threads that begin do not wait while a caller works on them.
    fn all(&self) -> Vec<Arc<Mutex<ForReaders>>> {
        lock(&self.all).iter().map(|shard| Arc::clone(&shard.shared)).collect()
    }

    /// Calls `call` for all counts. Threads that record do not wait for it.
    pub(super) fn for_each(&self, mut call: impl FnMut(Subject<'_>, &Counts)) {
        let _inside = Inside::enter();
        for shared in self.all() {
            let known: Vec<_> = lock(&shared).known.all().collect();
            known.iter().for_each(|(subject, counts)| call(subject.subject(), counts));
        }
    }

    pub(super) fn reset(&self) {
        let _inside = Inside::enter();
        for shared in self.all() {
            let mut shared = lock(&shared);
            shared.known.all().for_each(|(_, counts)| counts.retire());
            shared.known = Known::default();
            shared.resets += 1;
        }
    }
}

impl Local {
    fn new(shards: &Arc<Shards>) -> Self {
        Self {
            shards: Arc::downgrade(shards),
            number: shards.number,
            shard: shards.take(),
            known: Known::default(),
            resets: 0,
        }
    }

    /// The counts of `subject`, which readers then know too.
    fn counts(&mut self, subject: Subject<'_>) -> Arc<Counts> {
        let mut shared = lock(&self.shard.shared);
        if self.resets != shared.resets {
            self.known = Known::default();
            self.resets = shared.resets;
        }
        let counts = shared.known.get_or_insert(subject);
        self.known.insert(subject, Arc::clone(&counts));
        counts
    }
}

#[cfg(test)]
mod tests;
