//! Several control loops for one clock.

use super::*;
use crate::testing::CONFIG;

/// Two at once would store to one slot, and could publish a line with parts of both.
#[test]
fn a_control_loop_does_nothing_while_another_one_iterates() {
    let (_, clock, mut control) = steady_clock();
    let iterate_another = || clock.iterate(&mut Control::new(CONFIG));
    let (other, iteration) = clock.interrupted(&mut control, is_publish, iterate_another);
    assert_eq!(
        [other.outcome, iteration.outcome],
        [Outcome::RetrySoon, Outcome::Published]
    );
}

/// As in a forked child, and after the end of a driver's thread.
#[test]
fn a_control_loop_goes_on_after_an_iteration_that_never_ended() {
    let (_, clock, mut control) = steady_clock();
    core::mem::forget(clock.iterating.begin(&mut control));
    assert_eq!(clock.iterate(&mut control).outcome, Outcome::Published);
}

#[test]
fn control_loops_that_take_turns_keep_order_and_bounds() {
    let (machine, clock, first) = steady_clock();
    let mut controls = [first, Control::new(CONFIG), Control::new(CONFIG)];
    let (mut last_ns, mut by_line) = (i64::MIN, 0);
    for turn in 0..300 {
        let iteration = clock.iterate(&mut controls[turn % 3]);
        for _ in 0..3 {
            machine.pass(iteration.next_in_ns / 4);
            let reading = clock.slow();
            assert!(reading.ns >= last_ns, "{} ns back", last_ns - reading.ns);
            last_ns = reading.ns;
            by_line += u32::from(bounds_hold(clock, machine, machine));
        }
    }
    assert!(by_line > 450, "{by_line}");
}
