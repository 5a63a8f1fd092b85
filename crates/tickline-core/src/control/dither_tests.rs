//! Bounds of a reference that keeps to a straight line as Linux does: by switching between two
//! rates at its ticks.

use super::*;
use crate::stability::Allowance;
use crate::testing::{HookedClock, Machine, new_clock};

/// Off the intended rate, to either side. The machine counts whole nanoseconds, so ticks are
/// multiples of [`STEP_NS`].
const DITHER_PPB: i64 = 200;

/// 200 ppb of this are 1 ns.
const STEP_NS: u64 = 5_000_000;

/// A kernel whose ticks come 5 to 100 ms apart, and a program that reads and drives a clock
/// meanwhile.
struct Kernel {
    machine: &'static Machine,
    chance: u64,
    error_ns: i64,
    is_fast: bool,
    /// The kernel's ticks are 1 to this many steps apart.
    longest_steps: u64,
    tick_in_ns: u64,
    iteration_in_ns: u64,
    /// What other work adds to a whole burst, on either side or none.
    noise_ticks: u64,
    /// Readings whose bounds were checked, those whose bounds did not hold, and the largest
    /// half-width.
    seen: (u32, u32, i64),
}

impl Kernel {
    fn new(machine: &'static Machine, seed: u64) -> Self {
        Self {
            machine,
            chance: seed,
            error_ns: 0,
            is_fast: false,
            longest_steps: 20,
            tick_in_ns: 0,
            iteration_in_ns: 0,
            noise_ticks: 0,
            seen: (0, 0, 0),
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.chance =
            self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % limit
    }

    /// The kernel's tick: towards its intended line.
    fn tick(&mut self) {
        if self.longest_steps == 0 {
            self.tick_in_ns = STEP_NS;
            return;
        }
        self.is_fast = self.error_ns <= 0;
        self.machine.set_rate_ppb(if self.is_fast { DITHER_PPB } else { -DITHER_PPB });
        let longest = (self.longest_steps >> self.below(4)).max(1);
        let steps = 1 + self.below(longest);
        self.tick_in_ns = steps * STEP_NS;
        let change_ns = i64::try_from(steps).expect("a few steps");
        self.error_ns += if self.is_fast { change_ns } else { -change_ns };
    }

    /// Lets time pass, with iterations when they are due and readings in between.
    fn run(&mut self, clock: &HookedClock, control: &mut Control, for_ns: u64) {
        let mut left_ns = for_ns;
        while left_ns > 0 {
            if self.tick_in_ns == 0 {
                self.tick();
            }
            if self.iteration_in_ns == 0 {
                let (before, after) = (self.below(3).min(1), self.below(3).min(1));
                let noise_ticks = self.noise_ticks;
                self.machine.reference_ticks.set((3 + before * noise_ticks, 3 + after * noise_ticks));
                let outcome = control.maintain(clock, self.machine, self.machine);
                self.iteration_in_ns =
                    if outcome.iteration == Iteration::Recovered { 1 } else { outcome.next_in_ns };
            }
            let reading_in_ns = 1 + self.below(10_000_000);
            let pass_ns = reading_in_ns.min(self.tick_in_ns).min(self.iteration_in_ns).min(left_ns);
            self.machine.pass(pass_ns);
            (self.tick_in_ns, self.iteration_in_ns) =
                (self.tick_in_ns - pass_ns, self.iteration_in_ns - pass_ns);
            left_ns -= pass_ns;
            if let Some(reading) = clock.read_bounds(self.machine) {
                let (earliest_ns, latest_ns) = reading.bounds_ns();
                let truth_ns = self.machine.truth_ns();
                self.seen.0 += 1;
                self.seen.1 += u32::from(!(earliest_ns..=latest_ns).contains(&truth_ns));
                self.seen.2 = self.seen.2.max((latest_ns - earliest_ns) / 2);
            }
        }
    }
}

/// No bound is wrong: not while the range of the dither is unknown and its rate counts, and not
/// when it has been learnt. When the maximum drift was learnt down to 10 ppb without regard to
/// dither, 1 bound in 20 was wrong.
#[test]
fn a_dithering_reference_stays_within_the_bounds() {
    let mut all = 0;
    for (seed, renewal, noise_ticks, longest_steps) in [
        (1, Renewal::Ahead, 0, 20),
        (2, Renewal::AtExpiry, 0, 20),
        (3, Renewal::Ahead, 0, 20),
        (4, Renewal::Ahead, 10, 20),
        (5, Renewal::AtExpiry, 10, 20),
        (6, Renewal::Ahead, 10, 8),
        (7, Renewal::AtExpiry, 10, 8),
        (8, Renewal::Ahead, 40, 4),
    ] {
        let machine = Machine::new();
        let (clock, mut control) = new_clock(machine);
        control.reschedule(renewal, control.config().interval_ns);
        let mut kernel = Kernel::new(machine, seed);
        (kernel.noise_ticks, kernel.longest_steps) = (noise_ticks, longest_steps);
        kernel.run(clock, &mut control, 60_000_000_000);
        let (seen, wrong, widest_ns) = kernel.seen;
        assert_eq!(wrong, 0, "{renewal:?}, seed {seed}: of {seen}, up to {widest_ns} ns wide");
        all += seen;
    }
    assert!(all > 10_000, "{all} readings");
}

/// What the bounds planned last allow for.
fn allowance(control: &Control) -> Allowance {
    control.plan.as_ref().expect("a line was planned").allowance
}

/// Other work on the machine makes brackets wider, on either side or both. That is not taken for
/// dither.
#[test]
fn noise_is_not_taken_for_dither() {
    for (seed, noise_ticks) in [(1, 10), (2, 10), (3, 10), (4, 30)] {
        let machine = Machine::new();
        let (clock, mut control) = new_clock(machine);
        let mut kernel = Kernel::new(machine, seed);
        (kernel.longest_steps, kernel.noise_ticks) = (0, noise_ticks);
        kernel.run(clock, &mut control, 30_000_000_000);
        let mut largest_ns = 0;
        for _ in 0..50 {
            kernel.run(clock, &mut control, 1_000_000_000);
            largest_ns = largest_ns.max(allowance(&control).dither.round_ns());
        }
        assert!(largest_ns <= 12, "seed {seed}: {largest_ns} ns");
    }
}

/// Without dither, the allowance for it costs 2 ns.
#[test]
fn a_reference_that_does_not_dither_costs_next_to_nothing() {
    let (_, _, control) = crate::testing::settled_clock();
    let Allowance { max_drift_ppb, dither } = allowance(&control);
    assert_eq!(dither.round_ns(), 2);
    assert!(max_drift_ppb < 480, "{max_drift_ppb}: the rate of the dither counts, too");
}

/// A contradiction of the bounds, or a change of the rate, may also change the dither: its range
/// is unknown again, and its rate counts.
#[test]
fn a_change_of_rate_makes_the_dither_unknown() {
    let (machine, clock, mut control) = crate::testing::settled_clock();
    let reference = crate::testing::Steered { machine, ppb: core::cell::Cell::new(0) };
    control.maintain(clock, machine, &reference);
    assert_eq!(allowance(&control).dither.round_ns(), 2);
    // The first change is too small for old samples to be dropped; the kernel only announces the
    // last one.
    for (rate_ppb, steering_ppb) in [(150, 0), (1_000, 0), (1_000, 3_000)] {
        machine.set_rate_ppb(rate_ppb);
        reference.ppb.set(steering_ppb);
        let changes = clock.events(Event::RateChange);
        machine.pass(control.config().interval_ns);
        control.maintain(clock, machine, &reference);
        assert_eq!(clock.events(Event::RateChange) > changes, rate_ppb == 1_000 && steering_ppb == 0);
        let Allowance { max_drift_ppb, dither } = allowance(&control);
        assert_eq!(dither, FixedNs::ZERO, "{rate_ppb} ppb, {steering_ppb} announced");
        assert!(max_drift_ppb >= 480, "{max_drift_ppb}: the rate of the dither counts");
        for _ in 0..400 {
            let outcome = control.maintain(clock, machine, &reference);
            machine.pass(outcome.next_in_ns);
        }
        assert!(allowance(&control).dither > FixedNs::ZERO, "learnt again after {rate_ppb} ppb");
    }
}
