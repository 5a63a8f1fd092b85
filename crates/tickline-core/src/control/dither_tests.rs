//! What is learnt of the kernel's dither. That the bounds of a reference that dithers hold is a
//! test of the simulator's (`bounds_of_a_dithering_reference_hold`).

use super::*;
use crate::stability::Allowance;
use crate::testing::{Chance, Machine, new_clock};

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
        let chance = Chance::new(seed);
        let mut run = |for_ns| {
            let end_ns = machine.truth_ns() + for_ns;
            while machine.truth_ns() < end_ns {
                let [before, after] = [(); 2].map(|()| 3 + chance.below(3).min(1) * noise_ticks);
                machine.reference_ticks.set((before, after));
                let outcome = control.maintain(clock, machine, machine);
                machine.pass(if outcome.iteration == Iteration::Recovered { 1 } else { outcome.next_in_ns });
            }
            allowance(&control).dither.round_ns()
        };
        run(30_000_000_000);
        let largest_ns = (0..50).map(|_| run(1_000_000_000)).max().expect("fifty");
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
    machine.steering_ppb.set(Some(0));
    control.maintain(clock, machine, machine);
    assert_eq!(allowance(&control).dither.round_ns(), 2);
    // The first change is too small for old samples to be dropped; the kernel only announces the
    // last one.
    for (rate_ppb, steering_ppb) in [(150, 0), (1_000, 0), (1_000, 3_000)] {
        machine.set_rate_ppb(rate_ppb);
        machine.steering_ppb.set(Some(steering_ppb));
        let changes = clock.events(Event::RateChange);
        machine.pass(control.config.interval_ns);
        control.maintain(clock, machine, machine);
        assert_eq!(clock.events(Event::RateChange) > changes, rate_ppb == 1_000 && steering_ppb == 0);
        let Allowance { max_drift_ppb, dither } = allowance(&control);
        assert_eq!(dither, FixedNs::ZERO, "{rate_ppb} ppb, {steering_ppb} announced");
        assert!(max_drift_ppb >= 480, "{max_drift_ppb}: the rate of the dither counts");
        for _ in 0..400 {
            let outcome = control.maintain(clock, machine, machine);
            machine.pass(outcome.next_in_ns);
        }
        assert!(allowance(&control).dither > FixedNs::ZERO, "learnt again after {rate_ppb} ppb");
    }
}
