//! Stamps of a clock with a simulated counter.

use core::cell::Cell;

use tickline_core::control::{Config, Control};
use tickline_core::counter::Counter;
use tickline_core::sample::Resolutions;

use super::*;

/// A counter of 1 GHz, and a reference that is zero at `zero_ticks`.
struct Machine {
    ticks: Cell<u64>,
    zero_ticks: u64,
}

impl Machine {
    fn pass(&self, ticks: u64) {
        self.ticks.set(self.ticks.get() + ticks);
    }
}

impl Counter for Machine {
    fn now(&self) -> u64 {
        self.pass(10);
        self.ticks.get()
    }
    fn now_ordered(&self) -> u64 {
        self.now()
    }
    fn barrier(&self) {}
}

impl Reference for Machine {
    fn monotonic_ns(&self) -> i64 {
        self.pass(10);
        signed(self.ticks.get()) - signed(self.zero_ticks)
    }
    fn realtime_ns(&self) -> i64 {
        self.monotonic_ns()
    }
}

/// An engine that has followed the machine for a second, unless this target has no counter to
/// convert with.
fn followed(machine: &Machine) -> Option<Engine> {
    COUNTER?;
    let engine = Engine::new(Driver::Manual, DEFAULT_INTERVAL_NS);
    let mut control = Control::new(Config {
        interval_ns: DEFAULT_INTERVAL_NS,
        resolutions: Resolutions { counter_ticks: 1, reference_ns: 1, resolution_ticks: 0 },
        renewal: Renewal::Ahead,
    });
    let until = machine.ticks.get() + 1_000_000_000;
    while machine.ticks.get() < until {
        let outcome = control.maintain(&engine.shared, machine, machine);
        machine.pass(if outcome.iteration == Iteration::Recovered { 0 } else { outcome.next_in_ns });
    }
    Some(engine)
}

/// The counter of a virtual machine may be older than its `CLOCK_MONOTONIC`: of 0 ticks,
/// `ticks_to_ns` made 18446744073639723548.
#[test]
fn a_counter_older_than_the_monotonic_clock() {
    let machine = Machine { ticks: Cell::new(90_000_000_000), zero_ticks: 70_000_000_000 };
    let Some(engine) = followed(&machine) else { return };
    let now = machine.now();
    let now_ns = now - machine.zero_ticks;
    assert!(engine.stamp_to_ns(now).abs_diff(now_ns) < 50);
    for ticks in [0, 1_000, 69_000_000_000] {
        assert_eq!(engine.stamp_to_ns(ticks), 0, "{ticks} ticks");
        let between = engine.ns_between_stamps(ticks, now);
        // Ticks from before the first line are converted by its slope, which is known to 0.2 %.
        let off = between.abs_diff(now - ticks);
        assert!(off <= (now - ticks) / 500, "{between} ns from {ticks} to {now}");
        assert_eq!(engine.ns_between_stamps(now, ticks), 0);
    }
    // Stamps of the OS clock are of the same time.
    assert_eq!(engine.ns_between_stamps(7 | OS_STAMP, 1_007 | OS_STAMP), 1_000);
    assert_eq!(engine.ns_between_stamps(1_007 | OS_STAMP, 7 | OS_STAMP), 0);
    let (before, after) = ((now_ns - 500) | OS_STAMP, (now_ns + 500) | OS_STAMP);
    assert!(engine.ns_between_stamps(before, now).abs_diff(500) < 50);
    assert!(engine.ns_between_stamps(now, after).abs_diff(500) < 50);
    assert_eq!(engine.ns_between_stamps(now, before), 0);
    assert!(engine.ns_between_stamps(0, u64::MAX) > u64::MAX >> 1, "beyond the largest signed number");
}

/// A rate limiter takes differences from an origin that is no stamp. They must grow, whatever lines
/// the clock forgets.
#[test]
fn differences_from_0_grow_as_time_does() {
    let machine = Machine { ticks: Cell::new(90_000_000_000), zero_ticks: 70_000_000_000 };
    let Some(engine) = followed(&machine) else { return };
    let mut control = Control::new(Config {
        interval_ns: 1_000_000,
        resolutions: Resolutions { counter_ticks: 1, reference_ns: 1, resolution_ticks: 0 },
        renewal: Renewal::Ahead,
    });
    let mut round = || {
        let outcome = control.maintain(&engine.shared, &machine, &machine);
        machine.pass(if outcome.iteration == Iteration::Recovered { 0 } else { outcome.next_in_ns });
        outcome.iteration
    };
    // A control loop that begins anew retires the line that it finds. While there is none, stamps
    // do not advance.
    while round() != Iteration::Published {}
    let mut last = (machine.ticks.get(), engine.ns_between_stamps(0, machine.ticks.get()));
    for _ in 0..500 {
        round();
        let now = machine.now();
        let between = engine.ns_between_stamps(0, now);
        let (passed, returned) = (now - last.0, between.checked_sub(last.1).expect("it steps back"));
        assert!(returned.abs_diff(passed) <= 100 + passed / 500, "{returned} ns in {passed}");
        last = (now, between);
    }
}

/// Before the first line ticks convert to 0, and stamps of the OS clock to their time.
#[test]
fn without_a_line() {
    let engine = Engine::new(Driver::Manual, DEFAULT_INTERVAL_NS);
    assert_eq!((engine.stamp_to_ns(5), engine.stamp_to_ns(5 | OS_STAMP)), (0, 5));
    assert_eq!(engine.ns_between_stamps(0, 5), 0);
    assert_eq!(engine.ns_between_stamps(3 | OS_STAMP, 5 | OS_STAMP), 2);
}

/// The slow paths return 0 for a clock that is set to a time before its zero.
#[test]
fn times_before_zero_are_zero() {
    assert_eq!(
        [-1, i64::MIN, 0, 1, i64::MAX].map(saturating_unsigned),
        [0, 0, 0, 1, i64::MAX.unsigned_abs()]
    );
}

#[test]
fn ordering_a_threads_first_coarse_time_is_there_before_it() {
    for _ in 0..8 {
        let engine = Engine::new(Driver::Manual, DEFAULT_INTERVAL_NS);
        let start_ns = engine.now_ordered_ns();
        std::thread::scope(|scope| {
            scope.spawn(|| engine.attach_thread());
            while !engine.thread_is_here() {
                std::thread::yield_now();
            }
            assert!(engine.recent_ns() >= start_ns);
        });
    }
}
