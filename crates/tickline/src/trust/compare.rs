//! Comparing the counters of the CPUs that this process may use: a star around the first one, a pair at a time.
//!
//! Each pair hands a token to and fro for a millisecond at the most ([`exchange`]); between two pairs everything rests for twenty
//! times as long. Isolated CPUs are left alone. The result is the process's, and is made again after ten minutes, for as long
//! as a clock's thread lives to want it. Never in a caller.
//!
//! If the exchanges of all tries together are too few, it is tried again later, and takes back nothing that was found before.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread;

use tickline_core::compare::{Comparison, Pair};
use tickline_core::counter::resolution_ticks;
use tickline_core::sample::Reference;
use tickline_core::try_lock::{self, TryLock};

use crate::sys::reference::OsClock;
use crate::sys::{self, COUNTER, SignalsBlocked};
use crate::trust::exchange::{self, Exchanges};

/// Fewer say nothing, over all tries: the first ones run with cold caches.
const LEAST_ROUNDS: u32 = 50;

/// The rest between two pairs, ns.
const REST_NS: i64 = 20_000_000;

/// How long a result counts, ns. CPUs come and go, and machines are resumed elsewhere.
const GOOD_FOR_NS: i64 = 600_000_000_000;

/// Tries for a pair before it counts as impossible.
const TRIES: u32 = 6;

/// When a comparison that was impossible is tried again, ns; twice as long each time. One takes a second of CPU at the worst,
/// where one thread waits for the other in vain.
const RETRY_NS: i64 = 1_000_000_000;

/// What is known.
#[derive(Debug, Clone, Copy)]
struct Known {
    comparison: Comparison,
    /// Comparisons in a row that were impossible.
    failures: u32,
    /// When to compare again, ns.
    due_ns: i64,
}

static RESULT: TryLock<Option<Known>> = TryLock::new(None);

/// How often `RESULT` has changed.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// The token of the process that is comparing; 0 for none.
static BUSY: AtomicU64 = AtomicU64::new(0);

/// The lock on what is known; `None` while somebody else has it. A child takes it over from threads that it does not have.
fn known() -> Option<try_lock::LockGuard<'static, Option<Known>>> {
    // SAFETY: the token is the same for all threads of this process, and unlike that of any ancestor; as for forks in signal
    // handlers, see `Engine::lock`.
    let mut known = unsafe { RESULT.try_lock(sys::token()) }?;
    if known.was_abandoned() {
        *known = None;
    }
    Some(known)
}

/// What is known; `None` while somebody else looks. Nobody waits here, for a judge may be a signal handler.
pub(crate) fn result() -> Option<Comparison> {
    known().map(|known| known.map_or(Comparison::Pending, |known| known.comparison))
}

/// How often the result has changed.
pub(crate) fn changes() -> u32 {
    // ORDERING: Acquire, pairs with the Release addition in `publish`.
    CHANGES.load(Ordering::Acquire)
}

fn publish(comparison: Comparison) {
    let mut known = loop {
        match known() {
            Some(known) => break known,
            None => thread::yield_now(), // looks take nanoseconds
        }
    };
    let before = *known;
    let next = Known::after(before, comparison, OsClock.monotonic_ns());
    *known = Some(next);
    drop(known);
    if before.is_none_or(|before| before.comparison != next.comparison) {
        // ORDERING: Release, pairs with the Acquire load in `changes`.
        CHANGES.fetch_add(1, Ordering::Release);
    }
}

impl Known {
    /// What is known after another comparison.
    fn after(before: Option<Self>, comparison: Comparison, now_ns: i64) -> Self {
        if comparison != Comparison::Impossible {
            return Self { comparison, failures: 0, due_ns: now_ns.saturating_add(GOOD_FOR_NS) };
        }
        let failures = before.map_or(0, |before| before.failures);
        let wait_ns = RETRY_NS.saturating_mul(1 << failures.min(30)).min(GOOD_FOR_NS);
        Self {
            comparison: before.map_or(comparison, |before| before.comparison),
            failures: failures.saturating_add(1),
            due_ns: now_ns.saturating_add(wait_ns),
        }
    }
}

fn is_fresh() -> bool {
    let known = known().and_then(|known| *known);
    known.is_some_and(|known| OsClock.monotonic_ns() < known.due_ns)
}

/// A comparison under way, or none; stopped and joined when dropped.
#[derive(Debug, Default)]
pub(crate) struct Comparing {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Comparing {
    /// Whether it is this one that is under way.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Starts a comparison in the background if there is no fresh result and nobody in this process is at it. Without a thread
    /// to be had, there will be none.
    pub(crate) fn ensure(&mut self) {
        if self.is_running() || is_fresh() {
            return;
        }
        let token = sys::token();
        // ORDERING: Acquire, pairs with the Release store below; a token that is not ours is that of an ancestor, whose
        // threads we do not have.
        let busy = BUSY.load(Ordering::Acquire);
        // ORDERING: as above.
        let taken = BUSY.compare_exchange(busy, token, Ordering::Acquire, Ordering::Relaxed);
        if busy == token || taken.is_err() {
            return;
        }
        let stop = Arc::clone(&self.stop);
        let blocked = SignalsBlocked::new();
        let made = thread::Builder::new().name("tickline-warp".to_owned()).spawn(move || {
            if let Some(comparison) = compare(&stop) {
                publish(comparison);
            }
            // ORDERING: Release, pairs with the Acquire load in `ensure`.
            BUSY.store(0, Ordering::Release);
        });
        drop(blocked);
        match made {
            Ok(thread) => self.thread = Some(thread),
            Err(_) => {
                publish(Comparison::Impossible);
                // ORDERING: as above.
                BUSY.store(0, Ordering::Release);
            }
        }
    }
}

impl Drop for Comparing {
    fn drop(&mut self) {
        // ORDERING: Relaxed, a flag that is looked at again and again.
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().ok();
        }
    }
}

/// Rests, cut short by `drop`, so that a program that ends at once need not wait for it. Returns whether to go on.
fn rest(stop: &AtomicBool) -> bool {
    let end_ns = OsClock.monotonic_ns().saturating_add(REST_NS);
    // ORDERING: Relaxed, pairs with the store in `drop`.
    while !stop.load(Ordering::Relaxed) {
        let left_ns = end_ns.saturating_sub(OsClock.monotonic_ns());
        let Some(left_ns) = u64::try_from(left_ns).ok().filter(|&ns| ns > 0) else { break };
        // Asked again, because it may return at once: a scope of `exchange` unparks the thread that made it when the last of its
        // threads is joined, whether or not that waits.
        thread::park_timeout(Duration::from_nanos(left_ns));
    }
    // ORDERING: as above.
    !stop.load(Ordering::Relaxed)
}

/// Compares all CPUs. `None` if it was told to stop.
fn compare(stop: &AtomicBool) -> Option<Comparison> {
    let Some(counter) = COUNTER else { return Some(Comparison::Impossible) };
    let cpus = sys::comparable_cpus();
    let [first, others @ ..] = cpus.as_slice() else { return Some(Comparison::Impossible) };
    if others.is_empty() {
        return Some(Comparison::Single);
    }
    let resolution_ticks = resolution_ticks(&counter);
    for other in others {
        let (mut handovers, mut rounds) = (Exchanges::NONE, 0);
        for _ in 0..TRIES {
            if !rest(stop) {
                return None;
            }
            rounds += exchange::compare(counter, *first, *other, &mut handovers);
            if rounds >= LEAST_ROUNDS {
                break;
            }
        }
        if rounds < LEAST_ROUNDS {
            return Some(Comparison::Impossible);
        }
        let difference = handovers.difference;
        if !difference.is_none(resolution_ticks) {
            return Some(Comparison::Unsynchronised(Pair { here: *first, there: *other, difference }));
        }
    }
    Some(Comparison::Synchronised { cpus: u32::try_from(cpus.len()).unwrap_or(u32::MAX) })
}

#[cfg(test)]
mod tests;
