//! Tests of samples that take too long for the interval.

use super::*;

/// A clock with an interval of 1 ms, on a machine where 32 brackets take 20 ms.
fn clock_of_a_slow_machine() -> (&'static Machine, &'static HookedClock, Control) {
    let (machine, clock, mut control) = new_clock();
    machine.reference_ticks.set((300_000, 300_000));
    control.config.interval_ns = 1_000_000;
    clock.iterations(200, &mut control);
    (machine, clock, control)
}

/// If an iteration takes longer than half of the interval, its samples are too old for any line,
/// because the reference may have changed its rate since. Symptom: at an interval of 1 ms, samples
/// that took 37 to 75 ms made lines, and a change by 1 % put these lines off by hundreds of
/// microseconds.
#[test]
fn a_machine_too_slow_for_its_interval_gets_no_line() {
    let (_, clock, _) = clock_of_a_slow_machine();
    assert_eq!(clock.readings().event_count(Event::Replacement), 0);
}

#[test]
fn the_figure_of_a_sample_that_is_too_old_stays_until_the_machine_is_quick() {
    let (machine, clock, mut control) = clock_of_a_slow_machine();
    assert!(clock.readings().figures().too_old_sample.is_some());
    machine.reference_ticks.set((10, 10));
    clock.iterations(80, &mut control);
    assert_eq!(clock.readings().figures().too_old_sample, None);
}

#[test]
fn a_machine_that_is_quick_again_gets_a_line() {
    let (machine, clock, mut control) = clock_of_a_slow_machine();
    machine.reference_ticks.set((10, 10));
    clock.iterations(80, &mut control);
    assert!(clock.readings().read_ns(machine).is_some());
}

/// Symptom, by reading: after four preemptions in the hours since the last line, the status said
/// that the interval was too short.
#[test]
fn samples_are_too_old_only_in_iterations_in_a_row() {
    let (machine, clock, mut control) = new_clock();
    control.config.interval_ns = 1_000_000;
    for _ in 0..100 {
        machine.reference_ticks.set((300_000, 300_000));
        clock.iterations(3, &mut control);
        // An iteration that has nothing to do with old samples: the clock is barred.
        clock.bar(machine, machine);
        clock.iterations(1, &mut control);
        clock.unbar(machine, machine);
        assert!(clock.readings().figures().too_old_sample.is_none());
    }
}

#[test]
fn the_figures_have_the_age_of_samples_that_are_too_old() {
    let (_, clock, _) = clock_of_a_slow_machine();
    let figures = clock.readings().figures();
    let sample = figures.too_old_sample.expect("samples are too old");
    assert!(sample.age_ns > sample.limit_ns, "{sample:?}");
    assert!(sample.limit_ns.abs_diff(500_000) < 5_000, "{sample:?}");
}
