//! The drivers of a clock: who runs its iterations, and whether a driver has stopped in one.

use core::sync::atomic::Ordering;

use tickline_core::control::Cadence;
use tickline_core::driver::{Next, Obstacle};
use tickline_core::reference::Reference;
use tickline_core::shared::SlowReading;
use tickline_core::try_lock::LockGuard;

use super::Engine;
use crate::settings::Driver;
use crate::sys::reference::{NEVER_NS, OsClock};
use crate::sys::{self, COUNTER};
use crate::trust::facts::Collector;

/// The time after which a driver that holds a lock counts as stopped, ns. It holds it for
/// microseconds, for milliseconds while it is preempted, and for a pass while it calibrates CPUs.
/// A pass waits for at most half a second, and takes 80 us more for each CPU: 0.83 s for 4,096.
/// A move to a busy CPU takes milliseconds: with 128 of them the thread may count as stopped, so
/// the text of [`DriverStopped`](tickline_core::gate::Reason::DriverStopped) says that it may be
/// slow.
const STOPPED_AFTER_NS: i64 = 1_000_000_000;

impl Engine {
    /// Whether this clock's thread runs in this process.
    pub(crate) fn has_thread(&self) -> bool {
        self.registration.is_running()
    }

    /// The driver of this clock in this process; `None` with a backend, which has no control loop.
    pub(crate) fn driver(&self) -> Option<Driver> {
        if self.backend.is_some() {
            None
        } else if self.has_thread() {
            Some(Driver::Thread)
        } else if self.is_manual {
            Some(Driver::Manual)
        } else {
            Some(Driver::Reader)
        }
    }

    /// Runs an iteration if this reader should do so now. Returns whether it did.
    pub(super) fn iterate_as_reader(&self, reading: &SlowReading) -> bool {
        if !self.clock.count_slow_reading(reading, self.interval_ns()) {
            return false;
        }
        let _errno = sys::PreserveErrno::new();
        let iterated = self.driver() == Some(Driver::Reader)
            && self.prepare_one_task()
            && self.iterate(Cadence::OnDemand).is_ok();
        if iterated && self.clock.count_iteration() {
            self.review();
        }
        iterated
    }

    /// Runs an iteration for the program. Returns the time until the next one is due, ns: the
    /// interval if none ran. If the program drives the clock, some iterations review the facts.
    pub(crate) fn iterate_for_program(&self) -> u64 {
        if self.backend.is_some() {
            return self.interval_ns(); // there is no control loop
        }
        let mut iterated = self.iterate(Cadence::Scheduled);
        let is_driver = iterated.is_ok() && self.driver() == Some(Driver::Manual);
        if is_driver && self.clock.count_iteration() && self.review() {
            iterated = self.iterate(Cadence::Scheduled);
        }
        iterated.unwrap_or(self.interval_ns())
    }

    /// Runs an iteration of the common line's control loop, and a second one after a first
    /// publication. Returns the time until the next iteration is due, ns; if none could run, the
    /// obstacle. Waits for no thread, and preserves `errno`.
    pub(crate) fn iterate(&self, cadence: Cadence) -> Result<u64, Obstacle> {
        let _errno = sys::PreserveErrno::new();
        let mut next = self.ask();
        loop {
            let obstacle = match next {
                Next::Iterate(permit) => match COUNTER {
                    Some(counter) => {
                        self.end_refusals();
                        let os_clock = self.probed_os_clock();
                        next = permit.iterate(self.interval_ns(), cadence, &counter, &os_clock);
                        continue;
                    }
                    // Does not happen: without a counter a gate is closed.
                    None => Obstacle::Unjudged,
                },
                Next::Rest(iteration) => return Ok(iteration.next_in_ns),
                Next::NoIteration(obstacle) => obstacle,
                // `CalibrateCpus`: another thread has changed the kind of lines. `Judge` does not
                // come here: `ask` settles each ticket.
                Next::CalibrateCpus(_) | Next::Judge(_) => Obstacle::Unjudged,
            };
            self.record_obstacle(obstacle);
            return Err(obstacle);
        }
    }

    /// Asks what to do now. Judges the gates first, if they must be.
    pub(super) fn ask(&self) -> Next<'_> {
        match self.clock.ask(sys::lock_token(), &OsClock) {
            Next::Judge(ticket) => self.collect_and_settle(ticket),
            next => next,
        }
    }

    /// The lock on the collected facts; `None` while another thread has it.
    #[inline(never)]
    pub(crate) fn collector(&self) -> Option<LockGuard<'_, Collector>> {
        self.collector
            .try_lock(sys::lock_token(), Collector::discard_facts)
    }

    /// Records that a driver runs no iteration of its kind of line. A closed gate is no refusal.
    pub(super) fn record_obstacle(&self, obstacle: Obstacle) {
        match obstacle {
            Obstacle::GateClosed => self.end_refusals(),
            _ => self.record_refusal(),
        }
    }

    /// Records that a driver has not got what it needs for an iteration. The first refusal in a row
    /// stores the time.
    pub(super) fn record_refusal(&self) {
        // ORDERING: Relaxed for both, for display. The load comes first: a store each time would
        // take the cache line from readers.
        if self.refused_since_ns.load(Ordering::Relaxed) == NEVER_NS {
            self.refused_since_ns
                .store(OsClock.monotonic_ns(), Ordering::Relaxed);
        }
    }

    /// Ends a row of refusals: a driver has got what it needs.
    pub(super) fn end_refusals(&self) {
        // ORDERING: Relaxed for both, as in `record_refusal`.
        if self.refused_since_ns.load(Ordering::Relaxed) != NEVER_NS {
            self.refused_since_ns.store(NEVER_NS, Ordering::Relaxed);
        }
    }

    /// Whether a thread has stopped while it held a lock that every driver needs, for display.
    pub(super) fn has_stopped_driver(&self) -> bool {
        // ORDERING: Relaxed, for display.
        let since_ns = self.refused_since_ns.load(Ordering::Relaxed);
        since_ns != NEVER_NS
            && OsClock.monotonic_ns().saturating_sub(since_ns) > STOPPED_AFTER_NS
            && (self.clock.is_locked() || self.collector.is_locked())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a driver counts as stopped that was first refused at this time, while a thread holds
    /// the clock's lock or not.
    fn counts_as_stopped(since_ns: i64, is_held: bool) -> bool {
        let engine = Engine::new(Driver::Manual);
        // ORDERING: Relaxed; the same thread loads it.
        engine.refused_since_ns.store(since_ns, Ordering::Relaxed);
        let _held = is_held.then(|| engine.clock.lock(sys::lock_token()));
        engine.has_stopped_driver()
    }

    #[test]
    fn a_driver_that_has_held_a_lock_for_seconds_has_stopped() {
        let long_ago_ns = OsClock.monotonic_ns() - 2 * STOPPED_AFTER_NS;
        assert!(counts_as_stopped(long_ago_ns, true));
    }

    #[test]
    fn without_a_held_lock_no_driver_has_stopped() {
        let long_ago_ns = OsClock.monotonic_ns() - 2 * STOPPED_AFTER_NS;
        assert!(!counts_as_stopped(long_ago_ns, false));
    }

    /// The time since which a reader counts as refused, once it has run a task after an earlier
    /// refusal, while a thread holds the clock's lock or not.
    fn refused_since_after_a_task(is_held: bool) -> i64 {
        let engine = Engine::new(Driver::Reader);
        // ORDERING: Relaxed for both, on one thread.
        engine.refused_since_ns.store(1, Ordering::Relaxed);
        let _held = is_held.then(|| engine.clock.lock(sys::lock_token()));
        engine.prepare_one_task();
        engine.refused_since_ns.load(Ordering::Relaxed)
    }

    /// Symptom: two readers met, their burst ended before a judgement, and seconds later a thread
    /// that was just inside the lock counted as stopped.
    #[test]
    fn a_reader_that_runs_a_task_is_refused_no_longer() {
        assert_eq!(refused_since_after_a_task(false), NEVER_NS);
    }

    /// Readers run their tasks beside it.
    #[test]
    fn a_task_does_not_hide_a_driver_that_holds_the_lock() {
        assert_eq!(refused_since_after_a_task(true), 1);
    }

    #[test]
    fn a_closed_gate_ends_a_row_of_refusals() {
        let engine = Engine::new(Driver::Manual);
        engine.disable();
        // ORDERING: Relaxed for both, on one thread.
        engine.refused_since_ns.store(1, Ordering::Relaxed);
        let iterated = engine.iterate(Cadence::Scheduled);
        assert_eq!(iterated, Err(Obstacle::GateClosed));
        assert_eq!(engine.refused_since_ns.load(Ordering::Relaxed), NEVER_NS);
    }

    #[test]
    fn a_held_lock_begins_a_row_of_refusals() {
        let engine = Engine::new(Driver::Manual);
        let _held = engine.clock.lock(sys::lock_token()).expect("a free lock");
        let iterated = engine.iterate(Cadence::Scheduled);
        assert_eq!(iterated, Err(Obstacle::LockHeld));
        // ORDERING: Relaxed, on one thread.
        assert_ne!(engine.refused_since_ns.load(Ordering::Relaxed), NEVER_NS);
    }

    /// The text is core's, and the limit is this file's.
    #[test]
    fn the_reason_of_a_stopped_driver_states_the_limit() {
        let text = tickline_core::gate::Reason::DriverStopped.to_string();
        assert!(text.contains("for more than a second"), "{text}");
        assert_eq!(STOPPED_AFTER_NS, 1_000_000_000);
    }

    #[test]
    fn a_driver_that_was_just_refused_has_not_stopped() {
        let later_ns = OsClock.monotonic_ns() + 3_600 * STOPPED_AFTER_NS;
        assert!(!counts_as_stopped(later_ns, true));
    }
}
