//! Machines on which sampling takes long: always, or for longer than the interval. One on which it takes
//! long for a while is a test of the simulator's (`a_reference_that_becomes_slower_is_followed`).

use super::*;
use crate::testing::{Machine, iterations, new_clock};

/// A machine on which a burst takes longer than the usual limit for a sample's age still gets a
/// line.
#[test]
fn a_slow_machine_gets_a_line() {
    let machine = Machine::new();
    machine.reference_ticks.set((4_000, 4_000)); // 32 brackets take a quarter of a millisecond
    let (clock, mut control) = new_clock(machine);
    iterations(200, machine, clock, &mut control);
    let error = clock.read(machine).expect("a line") - machine.truth_ns();
    assert!(error.abs() <= 8_000, "{error} ns");
    // Each line lasts until sampling for the next one is over.
    assert_eq!((clock.events(Event::Recovery), clock.events(Event::Expiry)), (1, 0));
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
    control.config.interval_ns = SHORT_NS;
    for iteration in 0..200 {
        let outcome = control.maintain(clock, machine, machine);
        assert!(
            matches!(outcome.iteration, Iteration::Learning | Iteration::Lost),
            "{outcome:?} in iteration {iteration}"
        );
        machine.pass(outcome.next_in_ns);
    }
    assert_eq!(clock.read(machine), None);
    assert!(clock.figures().samples_are_stale);
    // The machine is quick again: the next iterations make a line, and nothing is stale.
    machine.reference_ticks.set((10, 10));
    iterations(80, machine, clock, &mut control);
    assert!(clock.read(machine).is_some() && !clock.figures().samples_are_stale);
}

/// However long sampling takes, the first line's window is not much longer than the interval: a
/// suspend may put readings ahead by as much. Here it takes 40 ms, most of it before the samples,
/// which are young when they are used.
#[test]
fn a_first_line_does_not_outlast_its_interval() {
    const SHORT_NS: u64 = 1_000_000;
    let machine = Machine::new();
    machine.suspends_ticks.set(40_000_000);
    let (clock, mut control) = new_clock(machine);
    control.config.interval_ns = SHORT_NS;
    for _ in 0..200 {
        let outcome = control.maintain(clock, machine, machine);
        if outcome.iteration == Iteration::Recovered {
            let window_ticks = clock.cell.snapshot().valid_ticks() / 2;
            assert!(window_ticks <= 2 * SHORT_NS, "a window of {window_ticks} ns");
            return;
        }
        machine.pass(outcome.next_in_ns);
    }
    panic!("no line");
}

/// `ticks << shift` wraps: lines become short before that, there is none across it, and readings go
/// on in order.
#[test]
fn no_line_reaches_across_the_wrap() {
    let machine = Machine::new();
    let end_ticks = crate::state::wrap_mask(7) + 1;
    let counter = crate::testing::By(move || {
        crate::counter::Counter::now(machine) + (end_ticks - (1 << 40) - 3_000_000_000)
    });
    let (clock, mut control) = new_clock(machine);
    let (mut last, mut lost, mut lines) = (i64::MIN, 0, [0; 2]);
    while machine.truth_ns() < (1 << 39) + 6_000_000_000 {
        let outcome = control.maintain(clock, &counter, machine);
        lost += u32::from(outcome.iteration == Iteration::Lost);
        let line = clock.cell.snapshot();
        if line.state.is_published() {
            let wraps = |ticks: u64| ticks / end_ticks;
            assert_eq!(wraps(line.start_ticks), wraps(line.end_ticks()), "{line:?}");
            lines[usize::try_from(wraps(line.start_ticks)).unwrap()] += 1;
        }
        for _ in 0..5 {
            machine.pass(outcome.next_in_ns / 5);
            let ns = clock.read_slow(&counter, machine).ns;
            assert!(ns >= last, "{} ns back", last - ns);
            assert!(ns.abs_diff(machine.truth_ns()) < 10_000);
            last = ns;
        }
    }
    assert!(lines.iter().all(|lines| *lines > 5), "{lines:?}");
    assert!(lost < 20, "{lost} iterations without a line");
}
