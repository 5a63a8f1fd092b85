//! Tests of how the control loop follows its reference, where the steps must be exact, or the
//! simulator has no such machine. The other cases are in the simulator's scenarios and limits
//! (`tests/sim`).

use super::*;
use crate::control::publish::WAIT_FOR_HIGH_WATER_NS;
use crate::testing::{CONFIG, FnClock, RESOLUTIONS};

/// A suspend between the first samples, during which the counter runs, would make a slope that is
/// far too small, and so a window of hours. A third sample contradicts it.
#[test]
fn a_suspend_while_calibrating_makes_no_line() {
    for (asleep_ns, before) in [300_000_000, 8 * 3_600_000_000_000]
        .into_iter()
        .flat_map(|ns| [(ns, 1), (ns, 3)])
    {
        let (machine, clock, mut control) = new_clock();
        clock.iterations(before, &mut control);
        machine.suspend(asleep_ns);
        for iteration in 0..80 {
            clock.iterations(1, &mut control);
            let error = clock
                .readings()
                .read_ns(machine)
                .map_or(0, |ns| ns - machine.truth_ns());
            assert!(
                error.abs() < 1_000,
                "{error} ns off in iteration {iteration}, {asleep_ns} ns asleep after {before} \
                 iterations"
            );
        }
        assert!(
            clock.readings().read_ns(machine).is_some(),
            "no line, {asleep_ns} ns asleep after {before} iterations"
        );
    }
}

/// A clock by a counter of `hz` whose reference stands still, or nearly.
struct Stopped {
    machine: &'static Machine,
    clock: &'static HookedClock,
    control: Control,
    hz: u64,
}

impl Stopped {
    /// The clock before its reference stops.
    fn before(hz: u64) -> Self {
        let (machine, clock, control) = new_clock();
        Self {
            machine,
            clock,
            control,
            hz,
        }
    }

    fn counter(&self) -> FnClock<impl Fn() -> u64 + use<>> {
        let machine = self.machine;
        let hz = self.hz;
        FnClock(move || machine.now() / 10 * (hz / 100_000_000))
    }

    fn iterate(&mut self) -> Iteration {
        let counter = self.counter();
        let iteration = self.control.iterate(self.clock, &counter, self.machine);
        self.machine.pass(iteration.next_in_ns);
        iteration
    }

    /// 80 iterations with a reference at this rate. They become rare, and readings stop with the
    /// reference.
    fn stop(&mut self, rate_ppb: i64) -> Vec<Iteration> {
        self.machine.set_rate_ppb(rate_ppb);
        let iterations: Vec<_> = (0..80).map(|_| self.iterate()).collect();
        assert_eq!(iterations[79].next_in_ns, INTERVAL_NS);
        let now_ns = self
            .clock
            .readings()
            .read_ordered_in_any_state(&self.counter(), self.machine)
            .ns;
        let lead_ns = now_ns - self.machine.truth_ns();
        assert!(lead_ns < 1_000_000_000, "{lead_ns} ns");
        iterations
    }

    /// The reference goes on, and the clock gets a line.
    fn assert_recovers(&mut self) {
        self.machine.set_rate_ppb(0);
        self.machine.pass(2 * INTERVAL_NS);
        assert!((0..200).any(|_| self.iterate().outcome == Outcome::Published));
    }
}

/// Whether an iteration has published a line.
fn any_published(iterations: &[Iteration]) -> bool {
    iterations
        .iter()
        .any(|iteration| !matches!(iteration.outcome, Outcome::Calibrating | Outcome::RetrySoon))
}

#[test]
fn a_line_stops_with_its_reference() {
    let mut stopped = Stopped::before(1_000_000_000);
    assert!((0..200).any(|_| stopped.iterate().next_in_ns == INTERVAL_NS));
    stopped.stop(-1_000_000_000);
    stopped.assert_recovers();
}

/// The samples agree on a slope that saturates at 0.
#[test]
fn a_reference_that_runs_backwards_slowly_makes_no_line() {
    let mut stopped = Stopped::before(1_000_000_000);
    let iterations = stopped.stop(-1_001_000_000);
    assert!(!any_published(&iterations), "{iterations:?}");
    stopped.assert_recovers();
}

/// Before the slope is known, the ticks of a fast counter do not count as nanoseconds, so
/// iterations that are an interval apart are no break.
#[test]
fn a_reference_that_stands_still_makes_no_line_for_a_fast_counter() {
    let mut stopped = Stopped::before(4_700_000_000);
    let iterations = stopped.stop(-1_000_000_000);
    assert!(!any_published(&iterations), "{iterations:?}");
    stopped.assert_recovers();
}

/// The kernel reports a change of its steering. The maximum drift contains the new rate at once,
/// and the dither is unknown again, for small and large changes.
#[test]
fn a_change_of_steering_widens_the_bounds_in_time() {
    for change_ppb in [1_000, -100_000, 83_000_000] {
        let (machine, clock, mut control) = new_clock();
        machine.steering_ppb.set(Some(0));
        clock.make_steady(&mut control);
        for _ in 0..2 {
            _ = clock.iterate(&mut control);
            machine.pass(INTERVAL_NS - 1_000);
        }
        let dither = |control: &Control, over_ns| control.stability.allowance(None, over_ns).dither;
        let last_line = clock.readings().figures().last_line.expect("a line");
        assert!(last_line.max_drift_ppb < 480 && dither(&control, INTERVAL_NS) > FixedNs::ZERO);
        // The rate changes a microsecond before the iteration, so that the sample does not show the
        // change.
        machine.set_rate_ppb(change_ppb);
        machine.steering_ppb.set(Some(change_ppb));
        machine.pass(1_000);
        let iteration = clock.iterate(&mut control);
        assert!(iteration.next_in_ns <= SOON_NS, "{iteration:?}");
        assert_eq!(
            dither(&control, iteration.next_in_ns),
            FixedNs::ZERO,
            "the rate of the dither counts now"
        );
        machine.pass(iteration.next_in_ns - 1_000);
        assert!(
            bounds_hold(clock, machine, machine),
            "no line at {change_ppb} ppb"
        );
    }
}

/// After the kernel has changed its steering, what was seen before says little about the rate to
/// come. The next line is good for half of an eighth of the interval, however exact the slope is.
#[test]
fn a_change_of_steering_shortens_the_time_that_counts_as_watched() {
    let (machine, clock, mut control) = steady_clock();
    let ghz = Slope::from_hz(1_000_000_000).unwrap();
    let exact = Fit {
        slope_min: ghz,
        slope_max: ghz,
        is_exact: true,
    };
    machine.steering_ppb.set(Some(0));
    _ = clock.iterate(&mut control);
    assert!(control.stability.good_for_ns(&exact) >= INTERVAL_NS);
    machine.steering_ppb.set(Some(1_000));
    _ = clock.iterate(&mut control);
    let good_for_ns = control.stability.good_for_ns(&exact);
    assert_eq!(good_for_ns, INTERVAL_NS / 16);
}

/// The events that a steady clock counts after a disturbance.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    rate_changes: u64,
    bound_violations: u64,
    disruptions: u64,
    unix_steps: u64,
}

/// A steady clock, some iterations after a disturbance.
struct Disturbed {
    counted: Counted,
    /// The maximum drift of a line by its samples, ppb. It is the sum of the assumed change of
    /// rate, the uncertainty of the rate, and 480 ppb until the dither is known.
    max_drift_ppb: u32,
}

impl Disturbed {
    fn by(disturb: impl FnOnce(&Machine), iterations: u32) -> Self {
        let (machine, clock, mut control) = steady_clock();
        machine.steering_ppb.set(Some(0));
        _ = clock.iterate(&mut control);
        machine.pass(INTERVAL_NS / 5);
        disturb(machine);
        let mut over_ns = 0;
        for _ in 0..iterations {
            over_ns = clock.iterate(&mut control).next_in_ns;
            machine.pass(over_ns);
        }
        let fit = control.stability.history.slopes_within(1_000_000);
        let allowance = control.stability.allowance(fit.as_ref(), over_ns);
        Self {
            counted: Counted {
                rate_changes: clock.readings().event_count(Event::RateChange),
                bound_violations: clock.readings().event_count(Event::BoundViolation),
                disruptions: clock.readings().event_count(Event::Disruption),
                unix_steps: clock.readings().event_count(Event::UnixStep),
            },
            max_drift_ppb: allowance.max_drift_ppb,
        }
    }

    fn counts(&self, expected: Counted) -> &Self {
        assert_eq!(self.counted, expected);
        self
    }

    fn assert_drift(&self, ppb: core::ops::Range<u32>) {
        assert!(ppb.contains(&self.max_drift_ppb), "{}", self.max_drift_ppb);
    }
}

/// What follows if the monitor has started anew and has two samples: the iteration has retired the
/// line, and has taken a second sample at once.
const DRIFT_OF_TWO_SAMPLES: core::ops::Range<u32> = 20_000_000..22_000_000;

// The rows of the table in the head of `stability.rs`, and a step of Unix time.

/// After a change of the steering by 1,000 ppb, 1,200 ppb are assumed; an interval later 600.
#[test]
fn samples_inside_the_bounds_halve_the_assumed_change() {
    Disturbed::by(|machine| machine.steering_ppb.set(Some(1_000)), 18)
        .counts(Counted::default())
        .assert_drift(1_080..1_100); // 480 + 600 + uncertainty
}

#[test]
fn samples_inside_the_bounds_that_no_line_fits_double_the_assumed_change() {
    Disturbed::by(|machine| machine.set_rate_ppb(60), 6)
        .counts(Counted {
            rate_changes: 1,
            ..Counted::default()
        })
        .assert_drift(493..500); // 480 + twice the initial 5 + 3 to 9 of uncertainty
}

#[test]
fn a_sample_just_outside_the_bounds_violates_them() {
    Disturbed::by(|machine| machine.set_rate_ppb(100), 2)
        .counts(Counted {
            bound_violations: 1,
            ..Counted::default()
        })
        .assert_drift(680..700); // 480 + the least change after a contradiction, 200 + uncertainty
}

#[test]
fn a_sample_outside_the_bounds_by_little_raises_the_assumed_change() {
    Disturbed::by(|machine| machine.jump_reference(900), 1)
        .counts(Counted {
            rate_changes: 1,
            bound_violations: 1,
            ..Counted::default()
        })
        // The jump of 900 ns is in a tenth of a second, and exceeds the bound by about 860 ns, so
        // by 8,600 ppb. 480 + twice that + 800 of uncertainty, because the samples no longer agree.
        .assert_drift(18_000..19_000);
}

/// A monitor that has started anew does not know the rate, which may then be any.
#[test]
fn a_sample_outside_the_bounds_by_much_is_a_disruption() {
    Disturbed::by(|machine| machine.jump_reference(1_000_000), 1)
        .counts(Counted {
            bound_violations: 1,
            disruptions: 1,
            ..Counted::default()
        })
        .assert_drift(500_000_000..600_000_000);
}

#[test]
fn a_counter_that_ran_backwards_is_a_disruption() {
    Disturbed::by(Machine::reset_counter, 1)
        .counts(Counted {
            disruptions: 1,
            ..Counted::default()
        })
        .assert_drift(DRIFT_OF_TWO_SAMPLES);
}

#[test]
fn a_break_starts_the_monitor_anew() {
    Disturbed::by(|machine| machine.pass(4 * INTERVAL_NS), 1)
        .counts(Counted::default())
        .assert_drift(DRIFT_OF_TWO_SAMPLES);
}

#[test]
fn a_step_of_unix_time_changes_no_drift() {
    Disturbed::by(|machine| machine.unix_offset_ns.set(5), 1)
        .counts(Counted {
            unix_steps: 1,
            ..Counted::default()
        })
        .assert_drift(8..11);
}

/// The clock keeps a line even if the thread always comes 5 ms late and the line is off its target.
/// Symptom: with an interval of 10 ms such lines were cut to intervals of 625 us. They were valid
/// for at most 3.75 ms, so each ended before the next.
#[test]
fn lines_that_are_off_last_until_a_late_thread_has_come() {
    let (machine, clock, mut control) = new_clock();
    control.config.interval_ns = 10_000_000;
    let mut late_iteration = || {
        let mut iteration = clock.iterate(&mut control);
        if iteration.next_in_ns == 0 {
            iteration = clock.iterate(&mut control);
        }
        machine.pass(iteration.next_in_ns + 5_000_000);
    };
    (0..200).for_each(|_| late_iteration());
    let before = clock.readings().event_count(Event::Expiry);
    for iteration in 0..200 {
        // Just after a change lines are short, because one sample does not show the rate. Such
        // short lines may end too early.
        machine.set_rate_ppb(iteration / 10 % 2 * 20_000);
        late_iteration();
    }
    let expiries = clock.readings().event_count(Event::Expiry) - before;
    assert!(expiries <= 2, "{expiries} lines ended");
}

/// A first line waits for a high-water mark that is a few microseconds ahead, but not for one far
/// ahead.
#[test]
fn a_first_publication_waits_for_a_near_high_water_mark_only() {
    for (ahead_ns, waits) in [
        (WAIT_FOR_HIGH_WATER_NS / 2, true),
        (3 * WAIT_FOR_HIGH_WATER_NS, false),
    ] {
        let (machine, clock, mut control) = steady_clock();
        clock.end_line();
        clock.swap_to(|state| state.with_b(machine.truth_ns() + ahead_ns));
        let iteration = clock.iterate(&mut control);
        let expected = if waits {
            Outcome::RetrySoon
        } else {
            Outcome::PublishedFirst
        };
        assert_eq!(iteration.outcome, expected, "{ahead_ns} ns");
        machine.pass(iteration.next_in_ns);
        assert_ne!(clock.iterate(&mut control).outcome, Outcome::RetrySoon);
        let lead = clock.lead_ns();
        assert!(!waits || (-20..1_000).contains(&lead), "{lead} ns ahead");
    }
}

/// Whether a clock is disrupted by a first line that a high-water mark puts ahead of the reference
/// by this much, if a read of the reference takes `read_ns`.
fn is_disrupted_by_mark(lead_ns: i64, read_ns: u64) -> bool {
    let (machine, clock, mut control) = steady_clock();
    machine.reference_ticks.set((read_ns / 2, read_ns / 2));
    clock.make_steady(&mut control);
    let mut publish_first_line = |ahead_ns| {
        clock.end_line();
        clock.swap_to(|state| state.with_b(machine.truth_ns() + ahead_ns));
        control.burst_count = 0; // each burst has as many samples
        let begin_ns = machine.truth_ns();
        let outcome = clock.iterate(&mut control).outcome;
        assert_eq!(outcome, Outcome::PublishedFirst);
        machine.truth_ns() - begin_ns
    };
    // Meanwhile the reference comes nearer to the mark.
    let iteration_ns = publish_first_line(-1_000_000_000);
    publish_first_line(iteration_ns + lead_ns);
    clock.is_disrupted()
}

#[test]
fn a_first_line_that_a_high_water_mark_puts_ahead_is_disrupted() {
    assert!(is_disrupted_by_mark(4 * WAIT_FOR_HIGH_WATER_NS, 20));
}

#[test]
fn a_first_line_above_its_high_water_mark_is_not_disrupted() {
    assert!(!is_disrupted_by_mark(-4 * WAIT_FOR_HIGH_WATER_NS, 20));
}

#[test]
fn a_first_line_is_not_disrupted_by_a_lead_that_wide_samples_explain() {
    assert!(!is_disrupted_by_mark(60_000, 40_000));
    assert!(is_disrupted_by_mark(100_000, 40_000));
}

/// A new control loop finds a line that is removing an offset. Symptom: the loop took that line's
/// slope for the reference's rate, and published bounds that excluded the reference.
#[test]
fn a_new_loop_does_not_go_on_with_the_slope_of_an_existing_line() {
    let (machine, clock, mut control) = steady_clock();
    machine.suspend(100_000_000);
    _ = clock.iterate(&mut control);
    assert!(
        clock.cell().snapshot().slope().to_hz() > 1_100_000_000,
        "it removes no offset"
    );
    machine.pass(20_000);
    let before = clock.by_line().expect("a line");
    control = Control::new(RESOLUTIONS, CONFIG);
    assert_eq!(
        control.iterate(clock, machine, machine).outcome,
        Outcome::Calibrating
    );
    assert_eq!(clock.cell().load().phase(), Phase::NoLine);
    clock.make_steady(&mut control);
    assert!(bounds_hold(clock, machine, machine), "no line again");
    assert!(clock.by_line() >= Some(before));
}

/// Even if sampling takes long, the first line's window is not much longer than the interval,
/// because a suspend may put readings ahead by as much as the window. Here sampling takes 40 ms,
/// most of it before the brackets, so the samples are young when they are used.
#[test]
fn a_first_line_does_not_outlast_its_interval() {
    let (machine, clock, mut control) = new_clock();
    machine.suspends_ticks.set(40_000_000);
    control.config.interval_ns = 1_000_000;
    while clock.readings().event_count(Event::FirstPublication) == 0 {
        assert!(machine.truth_ns() < 1 << 40, "no line");
        clock.iterations(1, &mut control);
    }
    let window_ticks = clock.cell().snapshot().valid_ticks() / 2;
    assert!(window_ticks <= 2_000_000, "a window of {window_ticks} ns");
}

/// The maximum drift includes what the samples leave open. During start-up slopes are uncertain:
/// here the reference shows the time at the start of a read and at its end in turn, so the middles
/// of the samples are as wrong as they can be.
#[test]
fn the_bounds_hold_while_the_slope_is_uncertain() {
    let (machine, clock, mut control) = new_clock();
    let mut checked = 0;
    for iteration in 0..24 {
        let ticks = if iteration % 2 == 0 { (0, 90) } else { (90, 0) };
        machine.reference_ticks.set(ticks);
        let next_in_ns = clock.iterate(&mut control).next_in_ns;
        machine.pass(next_in_ns.saturating_sub(1_000));
        checked += u32::from(bounds_hold(clock, machine, machine));
    }
    assert!(checked > 15, "{checked} readings");
    assert_eq!(clock.readings().event_count(Event::BoundViolation), 0);
}

/// A reading shows the tick at which a coarse counter last moved, and the reference has run on
/// since. The bounds hold until the counter moves again.
#[test]
fn the_bounds_hold_until_a_coarse_counter_moves() {
    const RESOLUTION_TICKS: u64 = 200;
    let (machine, clock, mut control) = new_clock();
    machine.reference_ticks.set((0, 1));
    control.resolutions.counter_ticks = RESOLUTION_TICKS;
    let counter = FnClock(|| machine.now() / RESOLUTION_TICKS * RESOLUTION_TICKS);
    let mut checked = 0;
    for _ in 0..60 {
        let iteration = control.iterate(clock, &counter, machine);
        for _ in 0..2 * RESOLUTION_TICKS {
            machine.pass(1);
            checked += u32::from(bounds_hold(clock, &counter, machine));
        }
        machine.pass(iteration.next_in_ns.saturating_sub(5_000));
    }
    assert!(checked > 10_000, "{checked} readings");
}

/// A line may be used to the end of its validity. However late the next line comes, removing an
/// offset has not made a larger one on the other side.
#[test]
fn a_late_replacement_does_not_swing() {
    let (machine, clock, mut control) = steady_clock();
    _ = clock.iterate(&mut control);
    machine.pass(1_000_000);
    // A jump, so the rate is not in doubt. It is so small that half the rate is enough.
    machine.suspend(30_000);
    let lead_ns = clock.lead_ns();
    assert!((29_000..31_000).contains(&lead_ns), "{lead_ns} ns");
    assert_eq!(clock.iterate(&mut control).outcome, Outcome::Published);
    machine.pass(clock.cell().snapshot().valid_ticks() - 15_000);
    let reading = clock.slow();
    assert!(
        matches!(reading.source, ReadingSource::Line { .. }),
        "{reading:?}"
    );
    let swung_ns = reading.ns - machine.truth_ns();
    assert!(
        swung_ns.abs() < lead_ns + lead_ns / 10,
        "{lead_ns} ns became {swung_ns} ns"
    );
}

/// While a line is off its target the next one is due soon, however long the reference has been
/// watched. The jump is so large that the dither is known again, which allows long lines, long
/// before the lead is gone.
#[test]
fn a_line_off_its_target_is_replaced_soon() {
    let (machine, clock, mut control) = steady_clock();
    machine.jump_reference(-6_000_000_000);
    let mut iterations = 0;
    while clock.lead_ns() >= 1_000 {
        let iteration = clock.iterate(&mut control);
        assert!(iteration.next_in_ns <= SOON_NS, "{iteration:?}");
        machine.pass(iteration.next_in_ns);
        iterations += 1;
    }
    assert!(iterations > 100, "{iterations} iterations");
}

/// Where a burst takes longer than the usual limit for a sample's age, there is a line all the
/// same, and each line lasts until sampling for the next one is over.
#[test]
fn a_slow_machine_gets_a_line() {
    let (machine, clock, mut control) = new_clock();
    machine.reference_ticks.set((4_000, 4_000)); // 32 brackets take a quarter of a millisecond
    clock.iterations(200, &mut control);
    let error_ns = clock.lead_ns();
    assert!(
        clock.by_line().is_some() && error_ns.abs() <= 8_000,
        "{error_ns} ns"
    );
    let readings = clock.readings();
    let events = [Event::FirstPublication, Event::Expiry].map(|event| readings.event_count(event));
    assert_eq!(events, [1, 0]);
}
