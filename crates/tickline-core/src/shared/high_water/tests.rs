//! Tests of high-water marks across suspends, resets and slews.

use crate::cell::StateCell;
use crate::shared::ReadingSource;
use crate::testing::{
    HookedClock, Machine, Step, interrupted, is_replacing, new_clock, steady_clock,
};

/// Rule 5: in a suspend the counter ran on and the reference did not. The reference is then behind
/// the line's readings. The high-water mark keeps readings from stepping back, and is ahead by no
/// more than the window. After a reset in a suspend, no thread can know whether there was another
/// suspend before. A reader may have read the line after that earlier suspend.
#[test]
fn rule_5_the_high_water_mark_after_a_sleep_counts_on_an_earlier_suspend() {
    // If the reference does not answer when the line is made, or when it ends, there may have been
    // a suspend.
    for case in 0..8 {
        let [tells, tells_later, resets] = [1, 2, 4].map(|bit| case & bit == 0);
        let (machine, clock, mut control) = new_clock();
        machine.tells_suspends.set(tells);
        clock.make_steady(&mut control);
        machine.tells_suspends.set(tells_later);
        machine.suspend(300_000_000); // inside the window: the line is now ahead by 0.3 s
        let line = clock.by_line().expect("a line");
        assert!(line > machine.truth_ns() + 299_000_000);
        machine.suspend(3_600_000_000_000);
        if resets {
            machine.reset_counter();
        }
        let by_reference = clock.slow();
        assert!(
            by_reference.ns >= line,
            "{} ns back",
            line - by_reference.ns
        );
        // The line was 100 ms old, its window is 1 s.
        let frozen_ns = by_reference.ns - machine.truth_ns();
        assert!(
            frozen_ns < 1_000_000_000 - 90_000_000,
            "frozen for {frozen_ns} ns by an hour of sleep"
        );
    }
}

/// The end of the line's window, by the line, ns.
fn window_end_ns(clock: &HookedClock) -> i64 {
    let line = clock.cell().snapshot();
    line.ns_at(line.window_end_ticks())
}

/// A steady clock is 100 ms into a window of 1 s, of a line that is valid for 2 s.
const SUSPENDS_PAST_THE_WINDOW_NS: [u64; 2] = [1_100_000_000, 2_000_000_000];

/// Rule 12: past the window a line counts only for ticks that the reference vouches for. If it does
/// not vouch, the machine was suspended while the counter ran, and a reading by the line would be
/// ahead by the length of the suspend.
#[test]
fn rule_12_after_a_suspend_no_reader_goes_on_with_the_line() {
    for asleep_ns in SUSPENDS_PAST_THE_WINDOW_NS {
        let (machine, clock, _) = steady_clock();
        machine.suspend(asleep_ns);
        let readings = clock.readings();
        let bounded = readings.read_ordered_bounded_while_valid(machine, machine);
        assert_eq!(bounded, None, "{asleep_ns}");
        let reading = clock.slow();
        assert!(
            matches!(reading.source, ReadingSource::Reference { .. }),
            "{asleep_ns}: {reading:?}"
        );
    }
}

#[test]
fn rule_12_after_a_suspend_a_reading_is_not_past_the_lines_window() {
    for asleep_ns in SUSPENDS_PAST_THE_WINDOW_NS {
        let (machine, clock, _) = steady_clock();
        let end_ns = window_end_ns(clock);
        machine.suspend(asleep_ns);
        let past_ns = clock.slow().ns - end_ns;
        assert!(past_ns <= 2_000, "{asleep_ns}: {past_ns} ns past it");
    }
}

/// The line that the writer publishes may go on from the window's end.
#[test]
fn rule_12_after_a_suspend_no_writer_goes_on_with_the_line() {
    for asleep_ns in SUSPENDS_PAST_THE_WINDOW_NS {
        let (machine, clock, mut control) = steady_clock();
        let end_ns = window_end_ns(clock);
        machine.suspend(asleep_ns);
        _ = clock.iterate(&mut control);
        let past_ns = clock.slow().ns - end_ns;
        assert!(past_ns <= 2_000_000, "{asleep_ns}: {past_ns} ns past it");
    }
}

/// A clock 1.8 s after its last iteration. The window has lasted 1 s, and the validity lasts 2 s.
fn clock_past_its_window() -> (&'static Machine, &'static HookedClock) {
    let (machine, clock, _) = steady_clock();
    machine.pass(1_800_000_000);
    assert_eq!(clock.readings().read_ns(machine), None);
    (machine, clock)
}

#[test]
fn rule_12_without_a_suspend_the_line_goes_on_past_its_window() {
    let (machine, clock) = clock_past_its_window();
    assert!(clock.slow().ns.abs_diff(machine.truth_ns()) < 100);
    let readings = clock.readings();
    let bounded = readings.read_ordered_bounded_while_valid(machine, machine);
    assert!(bounded.is_some());
}

#[test]
fn a_reading_past_the_window_says_how_long_ago_it_ended() {
    let (_, clock) = clock_past_its_window();
    let reading = clock.slow();
    let ReadingSource::Line { overdue_ns } = reading.source else {
        panic!("{reading:?}")
    };
    let expected_ns = 890_000_000..910_000_000;
    assert!(expected_ns.contains(&overdue_ns), "{overdue_ns}");
}

/// Rules 5 and 12: a thread finds that the reference does not vouch for the line, and is stopped
/// before it ends the line. Meanwhile the reference comes to vouch for a later reading. The
/// high-water mark is not below that reading.
#[test]
fn rule_12_a_line_that_was_vouched_for_later_is_not_forgotten() {
    for by_writer in [false, true] {
        let (machine, clock, mut control) = steady_clock();
        machine.pass(1_000_000_000);
        machine.suspend(15_000_000); // past the window, and ahead by 1.4 % of the line's age
        let read_late = move || {
            machine.pass(800_000_000); // now by 0.8 %
            clock.slow()
        };
        let (seen, ()) = interrupted(machine, is_replacing, read_late, || {
            if by_writer {
                _ = clock.iterate(&mut control);
            } else {
                clock.slow();
            }
        });
        assert!(
            matches!(seen.source, ReadingSource::Line { .. }),
            "{seen:?}"
        );
        let late = clock.slow().ns;
        assert!(
            late >= seen.ns,
            "by the writer {by_writer}: {} ns back",
            seen.ns - late
        );
    }
}

/// Rules 5 and 12: a fork may move the process into a time namespace whose clock is behind the old
/// clock, by less or by more than the age of the sample. The old clock has vouched for readings.
#[test]
fn rule_12_a_reference_that_went_back_does_not_lower_the_mark() {
    for back_ns in [20_000_000, 100_000_000, 900_000_000, 3_600_000_000_000] {
        let (machine, clock, _) = steady_clock();
        machine.pass(1_700_000_000); // past the window
        let last = clock.slow();
        assert!(
            matches!(last.source, ReadingSource::Line { .. }),
            "{last:?}"
        );
        machine.jump_reference(-back_ns);
        let next = clock.slow().ns;
        assert!(next >= last.ns, "{back_ns}: {} ns back", last.ns - next);
    }
}

/// Rule 5: the counter came further than a reference of 250 Hz shows. If the mark ignored the
/// reference's resolution, a reset, or a move of the writer to another CPU's counter, would leave a
/// mark that is too low by up to that resolution.
#[test]
fn rule_5_a_coarse_reference_does_not_limit_the_mark_after_a_reset() {
    const RESOLUTION_NS: i64 = 4_000_000;
    for by_writer in [false, true] {
        let (machine, clock, mut control) = new_clock();
        machine.reference_resolution_ns.set(RESOLUTION_NS);
        control.resolutions.reference_ns = RESOLUTION_NS;
        clock.make_steady(&mut control);
        let stop = if by_writer {
            is_replacing
        } else {
            |step| step == Step::Published
        };
        let (line, _) = clock.interrupted(&mut control, stop, move || {
            machine.pass(RESOLUTION_NS.unsigned_abs() / 4);
            let line = clock.by_line().expect("a line");
            machine.reset_counter();
            line
        });
        let ahead_ns = clock.slow().ns - line;
        assert!(
            (0..3 * RESOLUTION_NS).contains(&ahead_ns),
            "by the writer {by_writer}: {ahead_ns} ns ahead"
        );
    }
}
