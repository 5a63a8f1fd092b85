//! The comparison of the CPUs' counters: when, and which pairs. [`exchange`] compares a pair.
//!
//! A thread of its own compares the first CPU with every other CPU that this process may use,
//! except isolated CPUs. Between two tries it sleeps stoppably ([`REST_NS`]), so a program that
//! ends waits for at most one try. The result belongs to the process, and is renewed as long as a
//! clock's thread needs it ([`RESULT_LASTS_NS`]).
//!
//! If all tries for a pair together give too few exchanges, or only such as leave a larger
//! difference possible than order allows (`MAX_DIFFERENCE_NS` in `comparison.rs` of
//! `tickline-core`), the comparison is impossible for now. A later comparison tries again, and an
//! earlier result stays.

use core::time::Duration;
use std::sync::Arc;

use tickline_core::comparison::{
    CounterComparison, CounterDifference, Synchronisation, allowed_difference_ticks,
};
use tickline_core::counter::{Counter, HardwareCounter, resolution_ticks};
use tickline_core::reference::Reference;
use tickline_core::try_lock::{LockGuard, LockToken, TryLock};
use tickline_core::units::ticks_between;

use crate::sys::reference::OsClock;
use crate::sys::{self, COUNTER, StoppableSleep, Thread, WakeCause};
use crate::trust::exchange::{self, Exchanges};

/// The least rest between two tries, ns. A rest is at least as long as the last try took.
const REST_NS: u64 = 20_000_000;

/// The time after which a result is renewed, ns: CPUs and hosts of virtual machines change.
const RESULT_LASTS_NS: i64 = 600_000_000_000;

/// Tries for a pair before the comparison counts as impossible.
const TRIES_PER_PAIR: u32 = 6;

/// The wait after an impossible comparison, ns; doubled after each further one, up to
/// [`RESULT_LASTS_NS`]. At worst a pair takes some seconds of CPU time, while one thread waits in
/// vain for the other. The operators' guide of `tickline serve` names the longest wait.
const RETRY_NS: i64 = 1_000_000_000;

/// The most attempts to take the lock on the result. Each failure yields to other threads.
const PUBLISH_TRIES: u32 = 10_000;

/// The last result, and when the next one is due.
#[derive(Debug, Clone, Copy)]
struct LastResult {
    comparison: CounterComparison,
    /// Impossible comparisons in a row.
    failures: u32,
    /// When to compare again, ns.
    due_ns: i64,
    /// The [disruption marker](Reference::disruption_marker) before the comparison.
    marker: Option<u64>,
}

static LAST_RESULT: TryLock<Option<LastResult>> = TryLock::new(None);

/// Held by the thread of this process that compares.
static COMPARISON_LOCK: TryLock<()> = TryLock::new(());

/// The lock on the result; `None` while another thread has it. A forked child takes it over from
/// its parent's threads.
fn locked_result() -> Option<LockGuard<'static, Option<LastResult>>> {
    LAST_RESULT.try_lock(sys::lock_token(), |result| *result = None)
}

/// The lock on the comparison, for the calling thread; `None` while another thread compares.
///
/// Its token has the process's number, not that of `lock_token`: a comparison takes up to seconds,
/// and a child that is forked meanwhile must always be able to take the lock over.
fn comparison_lock() -> Option<LockGuard<'static, ()>> {
    // SAFETY: the lock protects no data, so two threads may hold it at once. The processes that
    // share this memory need no common number. A forked child may take the lock besides a guard
    // that it has from its parent, also if a signal handler has forked, and returns in the child.
    let token = unsafe { LockToken::new(sys::process_number()) };
    COMPARISON_LOCK.try_lock(sys::naming_this_thread(token), |()| ())
}

/// The result; `None` while another thread has the lock. The call does not wait, because a signal
/// handler may judge the gates.
#[inline(never)]
pub(crate) fn result() -> Option<CounterComparison> {
    locked_result().map(|result| LastResult::on_host(*result, OsClock.disruption_marker()))
}

/// The result; `Pending` also while another thread has the lock.
pub(crate) fn result_or_pending() -> CounterComparison {
    result().unwrap_or(CounterComparison::Pending)
}

/// Publishes a result. `marker` is the disruption marker before the comparison.
fn publish(comparison: CounterComparison, marker: Option<u64>) {
    // Other threads hold the lock for nanoseconds. A forked child may wait in vain (`lock_token`).
    for _ in 0..PUBLISH_TRIES {
        if let Some(mut result) = locked_result() {
            *result = Some(LastResult::after(
                *result,
                comparison,
                marker,
                OsClock.monotonic_ns(),
            ));
            return;
        }
        std::thread::yield_now();
    }
}

impl LastResult {
    /// Whether the comparison is of the host with this marker, on which the machine runs now:
    /// another host's counters may differ. While no marker was known, moves went unnoticed.
    fn is_of_host(&self, marker: Option<u64>) -> bool {
        self.marker == marker
    }

    /// The comparison, if it is of the host with this marker.
    fn on_host(last: Option<Self>, marker: Option<u64>) -> CounterComparison {
        last.filter(|last| last.is_of_host(marker))
            .map_or(CounterComparison::Pending, |last| last.comparison)
    }

    /// The result after another comparison.
    fn after(
        before: Option<Self>,
        comparison: CounterComparison,
        marker: Option<u64>,
        now_ns: i64,
    ) -> Self {
        if comparison != CounterComparison::Impossible {
            return Self {
                comparison,
                failures: 0,
                due_ns: now_ns.saturating_add(RESULT_LASTS_NS),
                marker,
            };
        }
        let failures = before.map_or(0, |before| before.failures);
        let wait_ns = RETRY_NS
            .saturating_mul(1 << failures.min(30))
            .min(RESULT_LASTS_NS);
        Self {
            comparison: before
                .filter(|before| before.marker == marker)
                .map_or(comparison, |before| before.comparison),
            failures: failures.saturating_add(1),
            due_ns: now_ns.saturating_add(wait_ns),
            marker,
        }
    }
}

/// The thread that compares, if it runs; stopped and joined when dropped.
#[derive(Debug, Default)]
pub(crate) struct ComparisonThread(Option<Comparison>);

#[derive(Debug)]
struct Comparison {
    thread: Thread,
    /// The thread's sleep between two tries. The thread has a handle, too, until it has compared.
    sleep: Arc<StoppableSleep>,
}

impl Comparison {
    /// Whether the thread has ended without dropping its handle: a filter has killed it.
    fn was_killed(&self) -> bool {
        // In this order: a thread that has compared drops its handle before it ends.
        self.thread.has_ended() && self.is_handle_kept()
    }

    fn is_handle_kept(&self) -> bool {
        Arc::strong_count(&self.sleep) > 1
    }
}

impl ComparisonThread {
    /// Whether the thread compares now.
    pub(crate) fn is_running(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|comparison| comparison.is_handle_kept() && !comparison.was_killed())
    }

    /// Starts a comparison in the background, unless there is a fresh result, or another thread of
    /// this process compares. If the system refuses the thread, or a filter has killed the last
    /// one, the comparison is impossible.
    pub(crate) fn start_if_due(&mut self) {
        if self.0.as_ref().is_some_and(Comparison::was_killed) {
            *self = Self(None);
            publish(CounterComparison::Impossible, OsClock.disruption_marker());
        }
        let last = locked_result().and_then(|result| *result);
        let is_fresh = last.is_some_and(|last| {
            last.is_of_host(OsClock.disruption_marker()) && OsClock.monotonic_ns() < last.due_ns
        });
        if self.is_running() || is_fresh {
            return;
        }
        if comparison_lock().is_none() {
            return;
        }
        let sleep = Arc::new(StoppableSleep::plain());
        let thread_sleep = Arc::clone(&sleep);
        let spawned = Thread::spawn(Some(c"tickline-cmp"), move || {
            // The thread takes the lock, so that others notice if it is killed.
            let Some(_guard) = comparison_lock() else {
                return;
            };
            let marker = OsClock.disruption_marker();
            if let Some(comparison) = compare(&thread_sleep) {
                publish(comparison, marker);
            }
        });
        match spawned {
            // The drop of the former value joins its thread, which has ended.
            Ok(thread) => {
                *self = Self(Some(Comparison { thread, sleep }));
            }
            Err(_) => publish(CounterComparison::Impossible, OsClock.disruption_marker()),
        }
    }
}

impl Drop for ComparisonThread {
    fn drop(&mut self) {
        if let Some(comparison) = self.0.take()
            && !comparison.was_killed()
        {
            comparison.sleep.stop();
            comparison.thread.join();
        }
    }
}

/// A moment by a counter and by the OS clock, which stands still in a suspend.
#[derive(Debug, Clone, Copy)]
struct Moment {
    ticks: u64,
    ns: i64,
    suspended_ns: Option<i64>,
}

/// Measures the rate of one CPU's counter; the counters of several CPUs may be unsynchronised.
#[derive(Debug)]
struct RateOnCpu {
    cpu: u32,
    /// The resolution of the OS clock, ns.
    os_resolution_ns: i64,
    /// `None` if no thread could read the clocks on that CPU.
    begin: Option<Moment>,
}

impl RateOnCpu {
    /// Begins to measure. The OS clock is read first.
    fn begin(cpu: u32, counter: HardwareCounter) -> Self {
        let by_kernel = sys::clocksource().resolutions(HardwareCounter::CLOCKSOURCE, 0);
        let read = move || {
            let suspended_ns = OsClock.suspended_ns();
            let ns = OsClock.monotonic_ns();
            let ticks = counter.now_ordered();
            Moment {
                ticks,
                ns,
                suspended_ns,
            }
        };
        Self {
            cpu,
            os_resolution_ns: by_kernel.reference_ns.max(OsClock::resolution_ns()),
            begin: exchange::on_cpu(cpu, read),
        }
    }

    /// [`allowed_difference_ticks`] at the least rate that the counter has had since the beginning,
    /// so that a wait between two reads makes it smaller. 0 while no rate is known.
    fn allowed_difference_ticks(&self, counter: HardwareCounter) -> u64 {
        // The OS clock is read last.
        let read = move || {
            let ticks = counter.now_ordered();
            let ns = OsClock.monotonic_ns();
            let suspended_ns = OsClock.suspended_ns();
            Moment {
                ticks,
                ns,
                suspended_ns,
            }
        };
        let end = exchange::on_cpu(self.cpu, read);
        self.begin.zip(end).map_or(0, |(begin, end)| {
            allowed_ticks_between(begin, end, self.os_resolution_ns)
        })
    }
}

/// [`allowed_difference_ticks`] at the least rate between two moments, by an OS clock of this
/// resolution. The counter may have run on in a suspend. 0 if the system says at only one of the
/// moments for how long it was suspended.
fn allowed_ticks_between(begin: Moment, end: Moment, os_resolution_ns: i64) -> u64 {
    let ticks = u64::try_from(ticks_between(begin.ticks, end.ticks)).unwrap_or(0);
    let asleep_ns = match (begin.suspended_ns, end.suspended_ns) {
        (Some(before_ns), Some(after_ns)) => after_ns.saturating_sub(before_ns).max(0),
        (None, None) => 0,
        _ => return 0,
    };
    let most_ns = end
        .ns
        .saturating_sub(begin.ns)
        .saturating_add(asleep_ns)
        .saturating_add(os_resolution_ns);
    allowed_difference_ticks(ticks, u64::try_from(most_ns).unwrap_or(0))
}

/// The comparison of two CPUs.
#[derive(Debug, Clone, Copy)]
enum PairComparison {
    /// The sleep was stopped.
    Stopped,
    /// All tries together give no result.
    Impossible,
    Unsynchronised(CounterDifference),
    Synchronised(CounterDifference),
}

/// Compares the counter of one CPU with those of the other CPUs.
#[derive(Debug)]
struct Comparer<'a> {
    sleep: &'a StoppableSleep,
    counter: HardwareCounter,
    resolution_ticks: u64,
    /// The first CPU of each pair.
    first: RateOnCpu,
    /// The rest before the next try, ns.
    rest_ns: u64,
}

impl Comparer<'_> {
    fn compare_pair(&mut self, other_cpu: u32) -> PairComparison {
        let mut exchanges = Exchanges::NONE;
        for _ in 0..TRIES_PER_PAIR {
            if self.sleep.wait(Duration::from_nanos(self.rest_ns)) == WakeCause::Stopped {
                return PairComparison::Stopped;
            }
            let from_ns = OsClock.monotonic_ns();
            exchanges += exchange::between(self.first.cpu, other_cpu);
            self.rest_ns = OsClock
                .monotonic_ns()
                .saturating_sub(from_ns)
                .unsigned_abs()
                .max(REST_NS);
            let allowed_ticks = self.first.allowed_difference_ticks(self.counter);
            match exchanges.synchronisation(self.resolution_ticks, allowed_ticks) {
                Synchronisation::Synchronised => {
                    return PairComparison::Synchronised(exchanges.difference);
                }
                Synchronisation::Unsynchronised => {
                    return PairComparison::Unsynchronised(exchanges.difference);
                }
                Synchronisation::Unknown => {}
            }
        }
        PairComparison::Impossible
    }
}

/// Compares all CPUs. `None` if `sleep` was stopped.
fn compare(sleep: &StoppableSleep) -> Option<CounterComparison> {
    let Some(counter) = COUNTER else {
        return Some(CounterComparison::Impossible);
    };
    let cpus = sys::comparable_cpus();
    let [first, others @ ..] = cpus.as_slice() else {
        return Some(CounterComparison::Impossible);
    };
    if others.is_empty() {
        return Some(CounterComparison::Single);
    }
    let resolution_ticks = resolution_ticks(&counter);
    let mut comparer = Comparer {
        sleep,
        counter,
        resolution_ticks,
        first: RateOnCpu::begin(*first, counter),
        rest_ns: REST_NS,
    };
    let mut largest_ticks = 0;
    for other in others {
        match comparer.compare_pair(*other) {
            PairComparison::Stopped => return None,
            PairComparison::Impossible => return Some(CounterComparison::Impossible),
            PairComparison::Unsynchronised(difference) => {
                return Some(CounterComparison::Unsynchronised {
                    cpu: *first,
                    other_cpu: *other,
                    difference,
                });
            }
            PairComparison::Synchronised(difference) => {
                largest_ticks = difference
                    .largest_ticks(resolution_ticks)
                    .max(largest_ticks);
            }
        }
    }
    // Two CPUs other than the first may differ from it in opposite directions.
    let max_difference_ticks = if others.len() == 1 {
        largest_ticks
    } else {
        largest_ticks.saturating_mul(2)
    };
    Some(CounterComparison::Synchronised {
        cpus: u32::try_from(cpus.len()).unwrap_or(u32::MAX),
        max_difference_ticks,
    })
}

#[cfg(test)]
mod tests;
