//! Rule 12: stamps, taken and converted at any step of a writer, are in order with each other and
//! with readings.

use super::*;
use crate::shared::Source;
use crate::testing::{
    By, HookedClock, Machine, Step, end_line, is_publish, leak, new_clock, once_at, settled_clock,
};
use core::cell::Cell;

/// What a stamp is converted to.
fn ns_of(clock: &HookedClock, machine: &Machine, ticks: u64) -> i64 {
    clock.stamp_to_ns(ticks, machine, machine).expect("a line")
}

/// Rule 12: a stamp by a line that was published a moment ago, taken and converted before its
/// writer goes on.
#[test]
fn rule_12_a_line_is_known_to_stamps_when_it_is_published() {
    for first in [false, true] {
        let (machine, clock, mut control) = settled_clock();
        if first {
            end_line(machine, clock);
        } else {
            machine.suspend(1_000_000); // the line is ahead by 1 ms, so the next one has half its slope
        }
        let stamp = once_at(
            machine,
            |step| step == Step::Published,
            move || {
                machine.pass(if first { 20_000 } else { 60_000 });
                let before = clock.read_ordered(machine).expect("a line");
                let ticks = clock.stamp(machine).expect("a line");
                let ns = ns_of(clock, machine, ticks);
                (before, ticks, ns, clock.read_ordered(machine).expect("a line"))
            },
        );
        control.maintain(clock, machine, machine);
        machine.hooks.clear();
        let (before, ticks, ns, after) = stamp.get().expect("the hook did not run");
        assert!(before <= ns && ns <= after, "{ns} between {before} and {after}, first line: {first}");
        assert_eq!(ns_of(clock, machine, ticks), ns, "the same later, first line: {first}");
    }
}

/// The same for a clock that has never had a line: the stamp was converted to 0.
#[test]
fn rule_12_the_first_line_of_all_is_known_to_stamps_when_it_is_published() {
    let machine = Machine::new();
    let (clock, mut control) = new_clock(machine);
    let found = once_at(
        machine,
        |step| step == Step::Published,
        move || {
            let before = clock.read_ordered(machine).expect("a line");
            machine.pass(2_000);
            let ticks = clock.stamp(machine).expect("a line");
            (before, ns_of(clock, machine, ticks))
        },
    );
    for _ in 0..40 {
        if control.maintain(clock, machine, machine).iteration == Iteration::Recovered {
            break;
        }
        machine.pass(MIN_INTERVAL_NS);
    }
    machine.hooks.clear();
    let (before, ns) = found.get().expect("a line");
    assert!(ns >= before, "{ns} after {before}");
}

/// Rule 12: a line whose publication fails converts no stamp, neither before it fails nor after
/// that.
#[test]
fn rule_12_a_line_that_is_not_published_converts_nothing() {
    for first in [false, true] {
        let (machine, clock, mut control) = settled_clock();
        let old = clock.cell.load().line;
        if first {
            end_line(machine, clock);
        } else {
            machine.jump_reference(10_000_000); // the next line steps forward
        }
        let seen = once_at(machine, is_publish, move || {
            machine.set_rate_ppb(-100_000_000); // what the next line expects does not come true
            machine.pass(50_000);
            let ticks = machine.now();
            let ns = ns_of(clock, machine, ticks);
            let by_reference = clock.read_slow(machine, machine);
            assert!(matches!(by_reference.source, Source::Reference { .. }), "{by_reference:?}");
            (ticks, ns, by_reference.ns)
        });
        let lines = || clock.events(Event::Publication) + clock.events(Event::Recovery);
        let before = lines();
        control.maintain(clock, machine, machine);
        machine.hooks.clear();
        let (ticks, ns, by_reference) = seen.get().expect("the hook did not run");
        assert_eq!(lines(), before, "it was published");
        assert!(ns <= by_reference, "{} ns back, first line: {first}", ns - by_reference);
        // A first line would not have limited them.
        assert!(ns == old.at(ticks) || first, "{ns} at {ticks} of {old:?}");
        for _ in 0..40 {
            assert_eq!(ns_of(clock, machine, ticks), ns, "the same whatever follows, first line: {first}");
            control.maintain(clock, machine, machine);
            machine.pass(MIN_INTERVAL_NS);
        }
        assert!(lines() > before, "no other line followed");
    }
}

/// Rule 12: a thread that was stopped between its reads of the word and of the counter, while a
/// gate was closed.
#[test]
fn rule_12_a_stamp_that_was_taken_late_is_not_above_what_is_read_next() {
    for recovers in [false, true] {
        let (machine, clock, control) = settled_clock();
        machine.suspend(1_000_000); // the line is ahead by 1 ms
        let before = clock.read_ordered(machine).expect("a line");
        let control = leak(core::cell::RefCell::new(control));
        let ran = once_at(
            machine,
            |step| step == Step::Counter,
            move || {
                end_line(machine, clock);
                machine.pass(100_000);
            },
        );
        let ticks = clock.stamp(machine).expect("the word was published");
        machine.hooks.clear();
        assert!(ran.get().is_some());
        let early = ns_of(clock, machine, ticks);
        let by_reference = clock.read_slow(machine, machine).ns;
        assert!(early <= by_reference, "{} ns back", early - by_reference);
        machine.pass(100_000);
        assert_eq!(ns_of(clock, machine, ticks), early, "the reference has gone on, the stamp has not");
        if recovers {
            while control.borrow_mut().maintain(clock, machine, machine).iteration != Iteration::Recovered {
                machine.pass(MIN_INTERVAL_NS);
            }
        }
        let after = clock.read_slow(machine, machine).ns;
        let late = ns_of(clock, machine, ticks);
        assert!(before <= early && early <= late && late <= after, "{before} {early} {late} {after}");
    }
}

/// Rule 12: the same, stopped for longer than the window of a line that has been published
/// meanwhile. Nobody has retired it yet.
#[test]
fn rule_12_a_stamp_that_was_taken_past_a_later_line_is_not_above_what_is_read_next() {
    let (machine, clock, control) = settled_clock();
    let control = leak(core::cell::RefCell::new(control));
    let ran = once_at(
        machine,
        |step| step == Step::Counter,
        move || {
            end_line(machine, clock);
            let outcome = control.borrow_mut().maintain(clock, machine, machine);
            assert_eq!(outcome.iteration, Iteration::Recovered); // for 200 us at most
            machine.set_rate_ppb(-100_000_000);
            machine.pass(1_000_000);
        },
    );
    let ticks = clock.stamp(machine).expect("the word was published, and its window has not passed");
    machine.hooks.clear();
    assert!(ran.get().is_some());
    assert!(clock.cell.word().is_published(), "somebody has found it");
    let ns = ns_of(clock, machine, ticks);
    let after = clock.read_slow(machine, machine);
    assert!(matches!(after.source, Source::Reference { .. }), "{after:?}");
    assert!(ns <= after.ns, "{} ns back", ns - after.ns);
    assert_eq!(ns_of(clock, machine, ticks), ns);
    // The line in use converts ticks of the future, which no stamp has.
    let (machine, clock, _) = settled_clock();
    let now = machine.now();
    assert!(ns_of(clock, machine, now + (1 << 40)).abs_diff(machine.truth_ns() + (1 << 40)) < 100_000);
    assert!(clock.cell.word().is_published());
}

/// A counter that the CPU reads before the loads that precede it in the program.
fn early_read(ticks: u64) -> By<impl Fn() -> u64> {
    By(move || ticks)
}

/// Rule 12: where a counter is coarse, the tick that a writer reads after its announcement may be
/// the last one at which the old line was read. The new line, which may have stepped forward,
/// converted a stamp of that tick.
#[test]
fn rule_12_a_stamp_of_the_tick_at_which_two_lines_meet_goes_by_the_old_one() {
    let (machine, clock, mut control) = settled_clock();
    machine.jump_reference(10_000_000);
    let seen = leak(Cell::new(None));
    machine.hooks.set(move |step| {
        if matches!(step, Step::Swap(word) if word.phase() == Phase::Replacing) {
            let met = early_read(machine.now() + 10); // the writer's next read
            seen.set(clock.stamp(&met).zip(clock.read(&met)));
        }
    });
    assert_eq!(control.maintain(clock, machine, machine).iteration, Iteration::Published);
    machine.hooks.clear();
    let (ticks, ns) = seen.get().expect("a line");
    assert!(clock.read_ordered(machine).expect("a line") > ns + 9_000_000, "no step forward");
    assert_eq!(ns_of(clock, machine, ticks), ns);
}

/// Rule 12: two plain reads of the counter that the CPU makes early, before a line is published;
/// the words that it loads are of the new line, which steps forward. The first makes a reading,
/// the second a stamp.
#[test]
fn rule_12_a_stamp_that_was_taken_early_is_not_below_what_was_read() {
    for shift in [100, 300, 500, 700, 900] {
        let (machine, clock, mut control) = settled_clock();
        machine.pass(shift);
        machine.jump_reference(10_000_000);
        let met = leak(Cell::new(0));
        machine.hooks.set(move |step| {
            if matches!(step, Step::Publish(_)) {
                met.set(machine.now() - 10); // the writer's last read
            }
        });
        assert_eq!(control.maintain(clock, machine, machine).iteration, Iteration::Published);
        machine.hooks.clear();
        let word = clock.cell.word();
        for early in [met.get() - 30, word.to_bits() + 10, met.get() - 11] {
            let Some(before) = clock.read(&early_read(early)) else { continue };
            for ticks in early..=met.get() + 2_000 {
                let Some(ticks) = clock.stamp(&early_read(ticks)) else { continue };
                let ns = ns_of(clock, machine, ticks);
                assert!(ns >= before, "{ns} after {before}: {} ns back, shift {shift}", before - ns);
            }
        }
    }
}
