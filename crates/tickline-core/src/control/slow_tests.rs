//! The control loop on slow counters, with late threads, and on slow machines.

use super::*;
use crate::testing::{INTERVAL_NS, Machine, new_clock};
use core::cell::Cell;

/// With a counter of 24 MHz the start granularity is 11 us: the iteration that settles a recovery
/// comes later, and in time.
#[test]
fn a_slow_counter_recovers_in_a_few_iterations() {
    struct Slow(Cell<u64>);
    impl Counter for Slow {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + 30);
            self.0.get() * 24 / 1_000
        }
        fn now_ordered(&self) -> u64 {
            self.now()
        }
        fn barrier(&self) {}
    }
    impl Reference for Slow {
        fn monotonic_ns(&self) -> i64 {
            self.0.set(self.0.get() + 40);
            i64::try_from(self.0.get()).unwrap()
        }
        fn realtime_ns(&self) -> i64 {
            self.monotonic_ns()
        }
    }
    let machine = Slow(Cell::new(1 << 40));
    let pass = |ns| machine.0.set(machine.0.get() + ns);
    for phase in 0..60 {
        let clock = Shared::new(crate::cell::Latch::new());
        let mut control = Control::new(Config {
            interval_ns: INTERVAL_NS,
            resolutions: Resolutions { counter_ticks: 1, reference_ns: 1, resolution_ticks: 0 },
            renewal: Renewal::Ahead,
        });
        pass(phase * 701);
        let (mut iterations, mut steady) = (0, 0);
        while steady < 3 {
            let mut outcome = control.maintain(&clock, &machine, &machine);
            if outcome.iteration == Iteration::Recovered {
                outcome = control.maintain(&clock, &machine, &machine);
            }
            steady += u32::from(outcome.next_in_ns == INTERVAL_NS);
            pass(outcome.next_in_ns + 60_000); // what a sleeping thread comes late
            iterations += 1;
            assert!(iterations < 150, "no steady state");
        }
        assert!(clock.events(Event::Expiry) <= 1, "{} lines died", clock.events(Event::Expiry));
        assert!(clock.events(Event::Recovery) <= 2, "{} recoveries", clock.events(Event::Recovery));
    }
}

/// There is a line even if the thread always comes 5 ms late and the line is off its target. With
/// an interval of 10 ms such lines were cut to intervals of 625 us, valid for 3.75 ms at most, so
/// each ended before the next.
#[test]
fn lines_that_are_off_last_until_a_late_thread_has_come() {
    let machine = Machine::new();
    let (clock, mut control) = new_clock(machine);
    control.reschedule(Renewal::Ahead, 10_000_000);
    let mut late_iteration = || {
        let mut outcome = control.maintain(clock, machine, machine);
        if outcome.iteration == Iteration::Recovered {
            outcome = control.maintain(clock, machine, machine);
        }
        machine.pass(outcome.next_in_ns + 5_000_000);
    };
    (0..200).for_each(|_| late_iteration());
    let before = clock.events(Event::Expiry);
    for iteration in 0..200 {
        // Just after a change lines are short because one sample says nothing about the rate.
        // Those do end too early.
        machine.set_rate_ppb(iteration / 10 % 2 * 20_000);
        late_iteration();
    }
    let expiries = clock.events(Event::Expiry) - before;
    assert!(expiries <= 2, "{expiries} lines died");
}

/// A machine on which a burst takes longer than the usual limit for a sample's age still gets a
/// line.
#[test]
fn a_slow_machine_gets_a_line() {
    let machine = Machine::new();
    machine.reference_ticks.set((4_000, 4_000)); // 32 brackets take a quarter of a millisecond
    let (clock, mut control) = new_clock(machine);
    for _ in 0..200 {
        let outcome = control.maintain(clock, machine, machine);
        machine.pass(outcome.next_in_ns);
    }
    let error = clock.read(machine).expect("a line") - machine.truth_ns();
    assert!(error.abs() <= 8_000, "{error} ns");
}

/// Where an iteration takes longer than half of the interval, its samples are too old for any
/// line: the reference may have changed its rate since. Samples of 37 to 75 ms made lines at an
/// interval of 1 ms, which a change by 1 % put off by hundreds of microseconds.
#[test]
fn a_machine_too_slow_for_its_interval_gets_no_line() {
    const SHORT_NS: u64 = 1_000_000;
    let machine = Machine::new();
    machine.reference_ticks.set((300_000, 300_000)); // 32 brackets take 20 ms
    let (clock, mut control) = new_clock(machine);
    control.reschedule(Renewal::Ahead, SHORT_NS);
    for iteration in 0..200 {
        let outcome = control.maintain(clock, machine, machine);
        assert!(
            matches!(outcome.iteration, Iteration::Learning | Iteration::Lost),
            "{outcome:?} in iteration {iteration}"
        );
        machine.pass(outcome.next_in_ns);
    }
    assert_eq!(clock.read(machine), None);
    assert!(clock.gauges.samples_are_stale());
    // The machine is quick again: the next iterations make a line, and nothing is stale.
    machine.reference_ticks.set((10, 10));
    for _ in 0..80 {
        let outcome = control.maintain(clock, machine, machine);
        machine.pass(outcome.next_in_ns);
    }
    assert!(clock.read(machine).is_some() && !clock.gauges.samples_are_stale());
}
