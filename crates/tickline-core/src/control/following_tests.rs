//! How well the control loop follows its reference: at start-up, in the steady state, through
//! changes of rate, jumps and suspends.

use super::*;
use crate::testing::{By, INTERVAL_NS, Machine, bounds_hold, end_line, new_clock, settle, settled_clock};

/// From nothing to the first line in two iterations, and to the full interval once the kernel's
/// dither is known; good at every moment.
#[test]
fn start_up_is_short_and_never_far_off() {
    let machine = Machine::new();
    machine.set_rate_ppb(-20_000);
    let (clock, mut control) = new_clock(machine);
    let start = machine.truth_ns();
    let mut iterations = 0;
    loop {
        let outcome = control.maintain(clock, machine, machine);
        iterations += 1;
        if clock.read(machine).is_some() {
            let age = machine.truth_ns() - start;
            assert!(iterations > 2 || age < 200_000, "the first line took {age} ns");
            machine.pass(outcome.next_in_ns - 1_000);
            let error = clock.read_slow(machine, machine).ns - machine.truth_ns();
            assert!(error.abs() <= 150, "{error} ns off after {age} ns");
        } else {
            machine.pass(outcome.next_in_ns);
        }
        if outcome.next_in_ns == INTERVAL_NS {
            break;
        }
        assert!(iterations < 150, "still at an interval of {} ns", outcome.next_in_ns);
    }
    let age = machine.truth_ns() - start;
    assert!(age < 10_000_000_000, "the full interval after {age} ns");
}

/// A suspend with the counter running, which the next iteration notices. From then on the bounds
/// hold, and the clock says that it is disrupted until it is back.
#[test]
fn after_a_suspend_the_clock_says_so_until_it_is_back() {
    for (asleep_ns, windows) in [(50_000_000_u64, 1), (900_000_000, 1), (5_000_000_000, 1), (700_000_000, 3)]
    {
        let (machine, clock, mut control) = settled_clock();
        assert!(!clock.figures().is_disrupted);
        for _ in 0..windows {
            machine.suspend(asleep_ns);
            machine.pass(200_000);
        }
        let (start_ns, mut back_ns, mut last_ns) = (machine.truth_ns(), None, i64::MIN);
        while machine.truth_ns() - start_ns < 4_000_000_000 {
            let outcome = control.maintain(clock, machine, machine);
            for _ in 0..4 {
                if outcome.iteration != Iteration::Recovered {
                    machine.pass(outcome.next_in_ns / 4);
                }
                let reading = clock.read_bounds(machine);
                let (now_ns, truth_ns) = (clock.read_slow(machine, machine).ns, machine.truth_ns());
                assert!(now_ns >= last_ns, "{} ns back", last_ns - now_ns);
                last_ns = now_ns;
                let Some(reading) = reading else { continue };
                let (earliest_ns, latest_ns) = reading.bounds_ns();
                assert!(
                    (earliest_ns..=latest_ns + 100).contains(&truth_ns),
                    "{asleep_ns}: {earliest_ns} {truth_ns} {latest_ns}, {} ns after the suspend",
                    truth_ns - start_ns
                );
                let (ahead_ns, disrupted) = (now_ns - truth_ns, clock.figures().is_disrupted);
                assert!(disrupted || ahead_ns < 20_000, "{asleep_ns}: {ahead_ns} ns ahead, and not said");
                back_ns = if disrupted { None } else { back_ns.or(Some(truth_ns - start_ns)) };
            }
        }
        let back_ns = back_ns.expect("still off");
        // The rest of the window, 900 ms, at half rate; or as long as it slept, if that is less.
        // Each of the short lines then removes half of what is left.
        let limit_ns = 2 * i64::try_from(asleep_ns * windows).unwrap().min(974_000_000) + 900_000_000;
        assert!(back_ns <= limit_ns, "{asleep_ns}: back after {back_ns} ns, limit {limit_ns} ns");
    }
}

/// A suspend between the first samples, with the counter running on, would make a slope that is
/// far too small, and so a window of hours. A third sample contradicts it.
#[test]
fn a_suspend_while_learning_makes_no_line() {
    for asleep_ns in [300_000_000, 1_900_000_000, 10_000_000_000, 8 * 3_600_000_000_000] {
        for before in 1..4 {
            let machine = Machine::new();
            let (clock, mut control) = new_clock(machine);
            for iteration in 0..80 {
                if iteration == before {
                    machine.suspend(asleep_ns);
                }
                let outcome = control.maintain(clock, machine, machine);
                machine.pass(outcome.next_in_ns - 1_000);
                if let Some(ns) = clock.read(machine) {
                    let error = ns - machine.truth_ns();
                    assert!(
                        error.abs() < 1_000,
                        "{error} ns off in iteration {iteration}, {asleep_ns} before {before}"
                    );
                    assert!(clock.cell.snapshot().valid_ticks() < 4_000_000_000);
                }
            }
            assert!(clock.read_slow(machine, machine).ns - machine.truth_ns() < 1_000);
            assert!(clock.events(Event::Publication) > 0, "no line after {asleep_ns} before {before}");
        }
    }
}

/// Nothing can be learnt from a reference that stands still, or runs backwards slowly, whose samples
/// agree on a slope that saturates at 0: no line, and iterations become rare. A line that there was
/// stops with the reference. Once that goes on there is a line; the ticks of a fast counter are not
/// taken for nanoseconds before the slope is known, so iterations an interval apart are no break.
#[test]
fn a_reference_that_stands_still_makes_no_line_and_costs_little() {
    for (rate_ppb, has_line, hz) in [
        (-1_000_000_000, false, 1_000_000_000),
        (-1_001_000_000, false, 1_000_000_000),
        (-1_000_000_000, true, 1_000_000_000),
        (-1_000_000_000, false, 4_700_000_000),
    ] {
        let machine = Machine::new();
        let counter = By(|| machine.now() / 10 * (hz / 100_000_000));
        let (clock, mut control) = new_clock(machine);
        let mut iterate = || {
            let outcome = control.maintain(clock, &counter, machine);
            machine.pass(outcome.next_in_ns);
            outcome
        };
        if has_line {
            assert!((0..200).any(|_| iterate().next_in_ns == INTERVAL_NS));
        }
        machine.set_rate_ppb(rate_ppb);
        let mut last = 0;
        for _ in 0..80 {
            let outcome = iterate();
            assert!(has_line || matches!(outcome.iteration, Iteration::Learning | Iteration::Lost));
            last = outcome.next_in_ns;
        }
        assert_eq!(last, INTERVAL_NS);
        let lead = clock.read_slow(&counter, machine).ns - machine.truth_ns();
        assert!(lead < 1_000_000_000, "{lead} ns");
        machine.set_rate_ppb(0);
        machine.pass(2 * INTERVAL_NS);
        assert!((0..200).any(|_| iterate().iteration == Iteration::Published), "never: {hz} Hz");
    }
}

/// The kernel says that it steers differently: the maximum drift contains the new rate at once,
/// whatever the change and whenever it came.
#[test]
fn a_change_of_steering_widens_the_bounds_in_time() {
    for change_ppb in [1_000, -100_000, 83_000_000] {
        let machine = Machine::new();
        machine.steering_ppb.set(Some(0));
        let (clock, mut control) = new_clock(machine);
        settle(machine, clock, &mut control);
        for _ in 0..2 {
            control.maintain(clock, machine, machine);
            machine.pass(INTERVAL_NS - 1_000);
        }
        // A microsecond before the iteration, so that its sample does not show the change.
        machine.set_rate_ppb(change_ppb);
        machine.steering_ppb.set(Some(change_ppb));
        machine.pass(1_000);
        let outcome = control.maintain(clock, machine, machine);
        assert!(outcome.next_in_ns <= INTERVAL_NS / 15, "{outcome:?}"); // a sixteenth, and rounding
        machine.pass(outcome.next_in_ns - 1_000);
        assert!(bounds_hold(clock, machine, machine), "no line at {change_ppb} ppb");
    }
}

/// There is a line even if the thread always comes 5 ms late and the line is off its target. With
/// an interval of 10 ms such lines were cut to intervals of 625 us, valid for 3.75 ms at most, so
/// each ended before the next.
#[test]
fn lines_that_are_off_last_until_a_late_thread_has_come() {
    let machine = Machine::new();
    let (clock, mut control) = new_clock(machine);
    control.config.interval_ns = 10_000_000;
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

/// After a break in the samples the rate may be another one: there is no line before three
/// samples agree, and windows are short at first. That also holds if the first sample contradicts
/// the old bounds by little.
#[test]
fn a_break_in_the_samples_voids_what_was_known() {
    for change_ppb in [0, 100_000] {
        let (machine, clock, mut control) = settled_clock();
        machine.pass(18 * INTERVAL_NS);
        machine.set_rate_ppb(change_ppb);
        machine.pass(2 * INTERVAL_NS);
        for iteration in 0..40 {
            let outcome = control.maintain(clock, machine, machine);
            assert!(
                iteration > 2 || outcome.next_in_ns <= 2 * MIN_INTERVAL_NS,
                "{outcome:?} in iteration {iteration}"
            );
            if outcome.iteration == Iteration::Recovered {
                continue;
            }
            machine.pass(outcome.next_in_ns - 1_000);
            bounds_hold(clock, machine, machine);
        }
        assert!(clock.read(machine).is_some());
    }
}

/// The maximum drift is learnt, and never falls below 5 ppb; a contradiction widens it beyond
/// what it was, and a jump forgets that.
#[test]
fn the_maximum_drift_is_learnt_slowly_and_forgotten_at_once() {
    let machine = Machine::new();
    let (clock, mut control) = new_clock(machine);
    let mut iteration = |until: &dyn Fn(u64) -> bool| {
        for _ in 0..150 {
            let outcome = control.maintain(clock, machine, machine);
            if until(outcome.next_in_ns) {
                return;
            }
            machine.pass(outcome.next_in_ns);
        }
        panic!("it takes too long");
    };
    iteration(&|next_in_ns| next_in_ns > INTERVAL_NS / 20);
    let max_drift_ppb = || clock.figures().max_drift_ppb;
    assert!(max_drift_ppb() >= 480, "{} ppb before the kernel's dither is known", max_drift_ppb());
    iteration(&|next_in_ns| next_in_ns == INTERVAL_NS);
    for _ in 0..80 {
        machine.pass(INTERVAL_NS);
        iteration(&|_| true);
    }
    assert!((5..10).contains(&max_drift_ppb()), "{} ppb in the end", max_drift_ppb());
    machine.set_rate_ppb(10_000);
    machine.pass(INTERVAL_NS);
    iteration(&|_| true);
    assert!(max_drift_ppb() >= 15_000, "{} ppb after a change by 10,000", max_drift_ppb());
    machine.jump_reference(200_000_000);
    iteration(&|next_in_ns| next_in_ns > INTERVAL_NS / 5);
    assert!(max_drift_ppb() < 3_000, "{} ppb after a jump", max_drift_ppb());
}

/// A first line waits for a high-water mark that is a few microseconds ahead, but not for one far
/// ahead.
#[test]
fn a_recovery_waits_for_a_near_high_water_mark_only() {
    for (ahead_ns, waits) in [(8_000, true), (40_000, false)] {
        let (machine, clock, mut control) = settled_clock();
        machine.suspend(1_000_000);
        let mut due_ns = 0;
        while clock.read(machine).expect("a line") - machine.truth_ns() > ahead_ns {
            // Slews the lead down.
            if due_ns <= machine.truth_ns() {
                let due_in_ns = control.maintain(clock, machine, machine).next_in_ns;
                due_ns = machine.truth_ns() + i64::try_from(due_in_ns).unwrap();
            }
            machine.pass(1_000);
        }
        end_line(machine, clock);
        let outcome = control.maintain(clock, machine, machine);
        assert_eq!(
            outcome.iteration,
            if waits { Iteration::Lost } else { Iteration::Recovered },
            "{ahead_ns} ns"
        );
        machine.pass(outcome.next_in_ns);
        assert_ne!(control.maintain(clock, machine, machine).iteration, Iteration::Lost);
        let lead = clock.read_slow(machine, machine).ns - machine.truth_ns();
        assert!(!waits || (-20..1_000).contains(&lead), "{lead} ns ahead");
    }
}

/// A line may be used to the end of its validity. However late the next line comes, removing an
/// offset has not made a larger one on the other side.
#[test]
fn a_late_renewal_does_not_swing() {
    let (machine, clock, mut control) = settled_clock();
    control.maintain(clock, machine, machine);
    machine.pass(1_000_000);
    machine.suspend(30_000); // a jump, so the rate is not in doubt, and not so large that the slew is capped
    let lead = clock.read(machine).expect("a line") - machine.truth_ns();
    assert!((29_000..31_000).contains(&lead), "{lead} ns");
    assert_eq!(control.maintain(clock, machine, machine).iteration, Iteration::Published);
    machine.pass(clock.cell.snapshot().valid_ticks() - 15_000);
    let reading = clock.read_slow(machine, machine);
    assert!(matches!(reading.source, crate::shared::Source::Line { .. }), "{reading:?}");
    let swung = reading.ns - machine.truth_ns();
    assert!(swung.abs() < lead + lead / 10, "{lead} ns became {swung} ns");
}

/// While a line is off its target, the next one is due soon, however long the reference has been
/// watched.
#[test]
fn a_line_off_its_target_is_renewed_soon() {
    let (machine, clock, mut control) = settled_clock();
    // The jump is so large that the dither is known again, which allows long lines, long before
    // the lead is gone.
    machine.jump_reference(-6_000_000_000);
    for iterations in 0.. {
        let lead = clock.read_slow(machine, machine).ns - machine.truth_ns();
        if lead < 1_000 {
            assert!(iterations > 10, "the lead was gone after {iterations} iterations");
            break;
        }
        let outcome = control.maintain(clock, machine, machine);
        assert!(outcome.next_in_ns <= INTERVAL_NS / 15, "{outcome:?} while {lead} ns ahead"); // a sixteenth, and rounding
        machine.pass(outcome.next_in_ns);
    }
}

/// A control loop that starts anew finds a line that is removing an offset. It took that line's
/// slope for the reference's, and published bounds that excluded the reference.
#[test]
fn a_loop_that_is_begun_anew_does_not_believe_the_line_that_it_finds() {
    let (machine, clock, mut control) = settled_clock();
    machine.suspend(100_000_000);
    control.maintain(clock, machine, machine);
    let bent = clock.cell.snapshot();
    assert!(
        bent.state.is_published()
            && bent.slope().ppb_above(Slope::from_hz(1_000_000_000).unwrap()) < -100_000_000
    );
    machine.pass(20_000);
    let before = clock.read_ordered(machine).expect("a line");
    let mut anew = crate::testing::new_control();
    assert_eq!(anew.maintain(clock, machine, machine).iteration, Iteration::Learning);
    assert_eq!(clock.cell.load().phase(), Phase::NoLine);
    settle(machine, clock, &mut anew);
    let reading = clock.read_bounds(machine).expect("a line again");
    let (earliest, latest) = reading.bounds_ns();
    assert!(reading.ns >= before && earliest <= machine.truth_ns() && machine.truth_ns() - 100 <= latest);
}
