//! Tests with a counter of 1 GHz in a register of 30 bits, which wraps after 1.07 s.

use super::*;
use crate::control::Control;
use crate::shared::Event;
use crate::testing::{HookedClock, Machine, bounds_hold, leak, new_clock};

const BITS: u32 = 30;
const WRAP_NS: u64 = 1 << BITS;
const INTERVAL_NS: u64 = 100_000_000;

/// A machine with its clock.
struct Rig<C> {
    machine: &'static Machine,
    /// The ticks that the register has lost.
    lost_ticks: &'static Cell<u64>,
    counter: C,
    clock: &'static HookedClock,
    control: Control,
    last_ns: i64,
}

/// What [`Rig::run`] demands of its readings, which are in order in any case.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Demand {
    BoundsHold,
    /// No more: after a reset the clock is ahead for a while.
    Order,
}

/// A clock that has run for five wraps.
fn steady() -> Rig<impl Counter> {
    let (machine, clock, mut control) = new_clock();
    let lost_ticks = leak(Cell::new(0));
    let counter = Extended::<BITS, _>::new(|| machine.now() - lost_ticks.get());
    control.config.interval_ns = INTERVAL_NS;
    let mut rig = Rig {
        machine,
        lost_ticks,
        counter,
        clock,
        control,
        last_ns: i64::MIN,
    };
    rig.run(5 * WRAP_NS, Demand::BoundsHold);
    rig
}

impl<C: Counter> Rig<C> {
    /// Runs for `ns`, with iterations when they are due and readings in between.
    fn run(&mut self, ns: u64, demand: Demand) {
        let end_ns = self.machine.truth_ns() + ns.cast_signed();
        while self.machine.truth_ns() < end_ns {
            let iteration = self
                .control
                .iterate(self.clock, &self.counter, self.machine);
            for _ in 0..5 {
                self.machine.pass(iteration.next_in_ns / 5);
                self.lead_ns();
                if demand == Demand::BoundsHold {
                    self.is_published();
                }
            }
        }
    }

    /// The lead of a reading over the truth, ns. The reading must be in order.
    fn lead_ns(&mut self) -> i64 {
        let reading = self
            .clock
            .readings()
            .read_ordered_in_any_state(&self.counter, self.machine);
        assert!(
            reading.ns >= self.last_ns,
            "{} after {}",
            reading.ns,
            self.last_ns
        );
        self.last_ns = reading.ns;
        reading.ns - self.machine.truth_ns()
    }

    /// Whether there is a line. Its bounds must hold.
    fn is_published(&self) -> bool {
        bounds_hold(self.clock, &self.counter, self.machine)
    }
}

#[test]
fn a_clock_runs_through_many_wraps() {
    let mut rig = steady();
    rig.run(50 * WRAP_NS, Demand::BoundsHold);
    assert!(rig.is_published());
    let figures = rig.clock.readings().figures();
    let hz = figures.last_line.unwrap().frequency_hz;
    assert!(
        hz.abs_diff(1_000_000_000) < 10_000,
        "{hz} Hz: more than 10 ppm off"
    );
    for event in [
        Event::Disruption,
        Event::BoundViolation,
        Event::CounterReset,
    ] {
        let count = rig.clock.readings().event_count(event);
        assert_eq!(count, 0, "{}", event.code());
    }
}

/// A reading before the next iteration is late by the wrap, which it cannot detect. The iteration
/// corrects the line, and counts a disruption.
#[test]
fn a_missed_wrap_is_noticed_by_the_next_iteration() {
    let mut rig = steady();
    rig.machine.pass(WRAP_NS + INTERVAL_NS); // the counter shows only one interval
    let late_ns = -rig.lead_ns();
    assert!(
        u64::try_from(late_ns).unwrap().abs_diff(WRAP_NS) < 200_000,
        "late by {late_ns} ns"
    );
    for wraps in 1..6 {
        _ = rig.control.iterate(rig.clock, &rig.counter, rig.machine);
        assert_eq!(rig.clock.readings().event_count(Event::Disruption), wraps);
        assert_eq!(rig.clock.readings().event_count(Event::StepForward), wraps);
        assert!(rig.is_published());
        rig.run(3 * WRAP_NS, Demand::BoundsHold);
        assert_eq!(
            rig.clock.readings().event_count(Event::Disruption),
            wraps,
            "once is enough"
        );
        // No reading is wrong if an iteration comes first.
        rig.machine.pass(wraps * WRAP_NS + INTERVAL_NS);
    }
}

/// After a reset the counter seems to have run from its old value up to the wrap. So the clock is
/// ahead, never goes back, and is slewed until it is right.
#[test]
fn a_register_that_was_reset_is_noticed_by_the_next_iteration() {
    let mut rig = steady();
    while rig.counter.now() % WRAP_NS < WRAP_NS - INTERVAL_NS {
        rig.run(10_000_000, Demand::BoundsHold);
    }
    rig.lost_ticks
        .set(rig.lost_ticks.get() + rig.counter.now() % WRAP_NS);
    let lead_ns = rig.lead_ns();
    assert!(
        (1_000_000..100_000_000).contains(&lead_ns),
        "ahead by {lead_ns} ns"
    );
    rig.run(INTERVAL_NS / 16, Demand::Order);
    assert_eq!(rig.clock.readings().event_count(Event::Disruption), 1);
    // At half the rate a lead takes twice its length to disappear.
    rig.run(2 * lead_ns.unsigned_abs() + 2 * INTERVAL_NS, Demand::Order);
    assert!(rig.is_published());
    rig.run(3 * WRAP_NS, Demand::BoundsHold);
}
