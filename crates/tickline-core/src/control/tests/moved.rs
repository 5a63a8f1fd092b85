//! A hypervisor moves the machine, or restores it from a snapshot. The counter and the reference go
//! on together, as where the kernel keeps time by the counter: only the disruption marker tells.

use super::*;

/// A steady clock whose hypervisor offers a marker, which is 7.
fn watched_clock() -> (&'static Machine, &'static HookedClock, Control) {
    let (machine, clock, mut control) = new_clock();
    machine.disruption_marker.set(Some(7));
    clock.make_steady(&mut control);
    (machine, clock, control)
}

#[test]
fn a_moved_machine_is_disrupted_at_the_next_iteration() {
    let (machine, clock, mut control) = watched_clock();
    assert!(!clock.is_disrupted());
    let before = clock.readings().event_count(Event::Disruption);
    machine.disruption_marker.set(Some(8));
    _ = clock.iterate(&mut control);
    assert!(clock.is_disrupted());
    assert_eq!(clock.readings().event_count(Event::Disruption), before + 1);
}

#[test]
fn a_moved_machine_is_disrupted_for_an_interval() {
    let (machine, clock, mut control) = watched_clock();
    machine.disruption_marker.set(Some(8));
    let moved_ns = machine.truth_ns();
    let since_ns = || (machine.truth_ns() - moved_ns).unsigned_abs();
    while since_ns() < 2 * INTERVAL_NS {
        let begun_ns = since_ns();
        let iteration = clock.iterate(&mut control);
        let is_disrupted = clock.is_disrupted();
        assert!(
            is_disrupted || begun_ns >= INTERVAL_NS * 9 / 10,
            "over after {begun_ns} ns"
        );
        machine.pass(iteration.next_in_ns);
    }
    assert!(!clock.is_disrupted());
    let disruptions = clock.readings().event_count(Event::Disruption);
    assert_eq!(disruptions, 1, "counted once");
}

/// Symptom: the clock stayed disrupted until the counter was back where the move had been.
#[test]
fn a_counter_that_is_reset_after_a_move_does_not_keep_the_clock_disrupted() {
    let (machine, clock, mut control) = watched_clock();
    machine.disruption_marker.set(Some(8));
    _ = clock.iterate(&mut control);
    machine.reset_counter();
    for _ in 0..200 {
        let iteration = clock.iterate(&mut control);
        machine.pass(iteration.next_in_ns);
    }
    assert!(!clock.is_disrupted());
}

/// Another host's counter has another rate, so the samples of both say nothing together.
#[test]
fn no_bounds_rest_on_samples_from_before_a_move() {
    let (machine, clock, mut control) = watched_clock();
    let moved_ticks = machine.now();
    machine.disruption_marker.set(Some(8));
    _ = clock.iterate(&mut control);
    let oldest_ticks = control.oldest_sample_ticks().expect("a sample");
    assert!(ticks_between(moved_ticks, oldest_ticks) > 0);
}

#[test]
fn the_line_of_a_moved_machine_is_replaced_in_order() {
    let (machine, clock, mut control) = watched_clock();
    machine.disruption_marker.set(Some(8));
    let mut last_ns = clock.slow().ns;
    for _ in 0..100 {
        let iteration = clock.iterate(&mut control);
        assert!(bounds_hold(clock, machine, machine), "no line");
        machine.pass(iteration.next_in_ns / 2);
        let now_ns = clock.slow().ns;
        assert!(now_ns >= last_ns, "{now_ns} after {last_ns}");
        last_ns = now_ns;
        machine.pass(iteration.next_in_ns / 2);
    }
}

/// Symptom: a start with minimal probes, which read no device, counted as a move.
#[test]
fn a_marker_that_nobody_states_any_more_disrupts_nothing() {
    let (machine, clock, mut control) = watched_clock();
    for marker in [None, Some(7)] {
        machine.disruption_marker.set(marker);
        _ = clock.iterate(&mut control);
        assert!(!clock.is_disrupted(), "{marker:?}");
    }
    assert_eq!(clock.readings().event_count(Event::Disruption), 0);
}

#[test]
fn a_move_is_noticed_although_the_marker_was_unknown_meanwhile() {
    let (machine, clock, mut control) = watched_clock();
    for marker in [None, Some(8)] {
        machine.disruption_marker.set(marker);
        _ = clock.iterate(&mut control);
    }
    assert_eq!(clock.readings().event_count(Event::Disruption), 1);
}

/// The device may become readable after the clock's start.
#[test]
fn a_marker_that_becomes_known_disrupts_nothing() {
    let (machine, clock, mut control) = steady_clock();
    machine.disruption_marker.set(Some(7));
    _ = clock.iterate(&mut control);
    assert!(!clock.is_disrupted());
    assert_eq!(clock.readings().event_count(Event::Disruption), 0);
}
