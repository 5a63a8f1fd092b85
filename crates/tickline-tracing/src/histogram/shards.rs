//! The histograms of each thread, and how a thread finds its own.
//!
//! A thread has a [`Shard`] for each [`Shards`] that it records to, behind a lock. A reader locks
//! the shards one after the other, so a thread waits only for a reader, while that adds up the
//! thread's histograms.
//!
//! An allocator may close a span of its own while this module allocates, with a lock held. That
//! span is not counted.
//!
//! A forked child has its parent's histograms, and locks as they were. If another thread held one,
//! the child waits for ever once it needs that.

use core::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, Weak};

use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;
use tracing_core::Metadata;

use super::{DIGITS, lock};

/// The most values of a field that have histograms of their own on a thread.
const MAX_VALUES: usize = 1_000;

/// The name under which spans with further values are counted.
const OTHER: &str = "(other)";

/// Spans that a thread counts together.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subject<'a> {
    Callsite(&'static Metadata<'static>),
    Value(&'a str),
}

/// Times of spans that count together.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) histogram: Histogram<u64>,
    pub(super) sum_ns: u64,
}

impl Times {
    pub(super) fn new() -> Self {
        Self { histogram: Histogram::new(DIGITS).expect("0 to 5 digits are allowed"), sum_ns: 0 }
    }

    pub(super) fn record(&mut self, ns: u64) {
        // Cannot fail: the histogram grows, up to 64-bit values.
        let _ = self.histogram.record(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    pub(super) fn add(&mut self, other: &Self) {
        // Cannot fail, for the same reason.
        let _ = self.histogram.add(&other.histogram);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
}

/// What a thread has counted.
#[derive(Debug, Default)]
struct Known {
    /// By the address of the metadata. It is different for each callsite, and no names are
    /// compared.
    by_callsite: FxHashMap<usize, (&'static Metadata<'static>, Times)>,
    by_value: FxHashMap<Box<str>, Times>,
}

impl Known {
    fn record(&mut self, subject: Subject<'_>, ns: u64) {
        match subject {
            Subject::Callsite(metadata) => {
                let address = core::ptr::from_ref(metadata).addr();
                self.by_callsite.entry(address).or_insert_with(|| (metadata, Times::new())).1.record(ns);
            }
            Subject::Value(value) => match self.by_value.get_mut(value) {
                Some(times) => times.record(ns),
                None => {
                    let value = if self.by_value.len() < MAX_VALUES { value } else { OTHER };
                    self.by_value.entry(value.into()).or_insert_with(Times::new).record(ns);
                }
            },
        }
    }
}

/// The histograms of one thread. When that has ended, another thread may go on with them.
type Shard = Arc<Mutex<Known>>;

/// All that some histograms have counted.
#[derive(Debug)]
pub(super) struct Shards {
    /// Those of threads that have ended included.
    all: Mutex<Vec<Shard>>,
}

/// A thread's shard.
#[derive(Debug)]
struct Local {
    shards: Weak<Shards>,
    shard: Shard,
}

thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
    /// Whether the thread may hold one of this module's locks. Without a destructor, so that it
    /// serves a thread that is ending.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `run`, which takes locks. Does nothing if the thread is inside already.
fn once_inside(run: impl FnOnce()) {
    struct Leave;

    impl Drop for Leave {
        fn drop(&mut self) {
            IS_INSIDE.set(false);
        }
    }

    if !IS_INSIDE.replace(true) {
        let _leave = Leave;
        run();
    }
}

impl Shards {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { all: Mutex::default() })
    }

    /// Counts a span of this thread. A thread that is ending has lost its thread-local memory; its
    /// last spans are not counted.
    #[inline]
    pub(super) fn record(self: &Arc<Self>, subject: Subject<'_>, ns: u64) {
        once_inside(|| {
            let _ = LOCALS.try_with(|locals| {
                let locals = &mut *locals.borrow_mut();
                let known = locals.iter().position(|local| local.shards.as_ptr() == Arc::as_ptr(self));
                let place = known.unwrap_or_else(|| self.join(locals));
                lock(&locals[place].shard).record(subject, ns);
            });
        });
    }

    /// Gives this thread a shard. Returns its place.
    #[cold]
    fn join(self: &Arc<Self>, locals: &mut Vec<Local>) -> usize {
        locals.retain(|local| local.shards.strong_count() > 0);
        let mut all = lock(&self.all);
        // Nobody else has a clone: its thread has ended.
        let free = all.iter().find(|shard| Arc::strong_count(shard) == 1).cloned();
        let shard = free.unwrap_or_else(|| {
            all.push(Shard::default());
            Arc::clone(&all[all.len() - 1])
        });
        locals.push(Local { shards: Arc::downgrade(self), shard });
        locals.len() - 1
    }

    /// Calls `call` for all that was counted.
    pub(super) fn for_each(&self, mut call: impl FnMut(Subject<'_>, &Times)) {
        once_inside(|| {
            for shard in lock(&self.all).iter() {
                let Known { by_callsite, by_value } = &*lock(shard);
                by_callsite.values().for_each(|(metadata, times)| call(Subject::Callsite(metadata), times));
                by_value.iter().for_each(|(value, times)| call(Subject::Value(value), times));
            }
        });
    }

    pub(super) fn reset(&self) {
        once_inside(|| lock(&self.all).iter().for_each(|shard| *lock(shard) = Known::default()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// How many spans are counted, by value.
    fn counted(shards: &Shards) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        shards.for_each(|subject, times| {
            let Subject::Value(value) = subject else { panic!("no callsite was recorded") };
            all.push((value.to_owned(), times.histogram.len()));
        });
        all.sort();
        all
    }

    fn total(shards: &Shards) -> u64 {
        counted(shards).iter().map(|(_, count)| count).sum()
    }

    fn record(shards: &Arc<Shards>, value: &str, times: u64) {
        (0..times).for_each(|ns| shards.record(Subject::Value(value), ns));
    }

    #[test]
    fn the_next_thread_goes_on_with_the_counts_of_one_that_has_ended() {
        let shards = Shards::new();
        for _ in 0..20 {
            let shards = Arc::clone(&shards);
            thread::spawn(move || record(&shards, "a", 100)).join().unwrap();
        }
        assert_eq!((total(&shards), lock(&shards.all).len()), (2_000, 1));
    }

    /// After a reset exactly those spans count that end later, also on threads that recorded
    /// before.
    #[test]
    fn a_reset_forgets_what_ended_before_and_nothing_else() {
        let shards = Shards::new();
        let (rounds, spans) = if cfg!(miri) { (3, 20) } else { (200, 1_000) };
        let barrier = Barrier::new(2);
        let mut found = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..rounds {
                    record(&shards, "a", spans);
                    record(&shards, &round.to_string(), 1);
                    barrier.wait();
                    barrier.wait();
                    record(&shards, "a", spans);
                    barrier.wait();
                    barrier.wait();
                }
            });
            for _ in 0..rounds {
                // Meanwhile the other thread records.
                shards.reset();
                let during = total(&shards);
                barrier.wait();
                shards.reset();
                let after = total(&shards);
                barrier.wait();
                let during_next = total(&shards);
                barrier.wait();
                found.push((during, after, during_next, counted(&shards)));
                barrier.wait();
            }
        });
        // Not before: a panic in between would leave the other thread waiting.
        for (round, (during, after, during_next, at_end)) in found.into_iter().enumerate() {
            assert!(during <= 2 * spans + 1 && during_next <= spans, "{during}, {during_next} in {round}");
            assert_eq!((after, at_end), (0, vec![("a".to_owned(), spans)]), "round {round}");
        }
    }

    /// Resets do not use up the values that a thread may know.
    #[test]
    fn values_count_for_themselves_again_after_a_reset() {
        let shards = Shards::new();
        for round in 0..3_u64 {
            (0..1_200).for_each(|value| record(&shards, &format!("{round} {value}"), 1));
            let all = counted(&shards);
            assert_eq!((all.len(), &all[0]), (1_001, &("(other)".to_owned(), 200)));
            shards.reset();
        }
    }
}
