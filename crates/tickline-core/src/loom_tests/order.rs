//! The rules of order of `DESIGN.md`: the real readers against the real control loop.
//!
//! Each model starts from a state that one thread has reached, then starts readers and the
//! writer. It asserts the promise itself: a reading that was complete before another began is not
//! larger.

use std::sync::Arc;

use loom::thread;

use super::{Clock, Seen, Time, View, check, made, reading, run_until, spawn};
use crate::cell::{CellLine, LineCell, StateCell};
use crate::control::{Config, Control, Iteration};
use crate::counter::Counter;
use crate::primitive::{AtomicI64, Ordering};
use crate::shared::{Event, Shared, Source};
use crate::state::Phase;
use crate::testing::CONFIG;

/// What a writer's iteration begins with.
pub(super) type Scene = (Arc<Clock>, Control, Arc<Time>);

fn started(until: Iteration) -> Scene {
    let (clock, time) = (made(Shared::new(LineCell::new())), made(Time::new(1 << 40, 0)));
    let mut control = Control::new(Config { interval_ns: 1_000_000, ..CONFIG });
    run_until(until, &clock, &mut control, &time);
    (clock, control, time)
}

/// A clock whose line is 30 us ahead of the reference, so that the next one has half its slope.
pub(super) fn with_line() -> Scene {
    let (clock, control, time) = started(Iteration::Published);
    time.pass(20_000);
    time.suspend(30_000);
    (clock, control, time)
}

/// The same with a line that lasts for long and is ahead by less than 1 % of its window, so that
/// the reference still vouches for it past the window.
fn with_long_line() -> Scene {
    let (clock, mut control, time) = started(Iteration::Published);
    let view = time.view(10);
    for _ in 0..20 {
        let next_in_ns = control.maintain(&clock, &view, &view).next_in_ns;
        if next_in_ns >= control.config.interval_ns {
            time.suspend(30_000);
            return (clock, control, time);
        }
        time.pass(next_in_ns);
    }
    panic!("the lines do not grow");
}

/// A clock without a line, with enough samples for one: a gate was closed and opened, and the
/// high-water mark's margin has passed.
pub(super) fn without_line() -> Scene {
    let (clock, control, time) = started(Iteration::Recovered);
    let view = time.view(10);
    assert!(clock.close_gate(&view, &view) && clock.open_gate(&view, &view));
    time.pass(13_000);
    (clock, control, time)
}

/// How long a read of the writer takes, ticks. A reader's reads take longer than
/// [`MEETING_MARGIN_NS`](crate::discipline::MEETING_MARGIN_NS), and longer than it waits for a
/// replacement. So the next read distinguishes lines that differ, and nobody spins.
pub(super) const WRITER_TICKS: u64 = 100;
pub(super) const READER_TICKS: u64 = 9_000;

/// A kind of reading, ns.
type Read = fn(&Clock, &View<'_>) -> i64;

fn slow_reading(clock: &Clock, view: &View<'_>) -> i64 {
    clock.read_slow(view, view).ns
}

/// A thread that takes two readings, the second not below the first, and returns the second.
fn reader(clock: &Arc<Clock>, time: &Arc<Time>, read: Read) -> thread::JoinHandle<i64> {
    spawn(&(clock.clone(), time.clone()), move |(clock, time)| {
        let view = time.view(READER_TICKS);
        let first = read(clock, &view);
        let second = read(clock, &view);
        assert!(second >= first, "{second} after {first}");
        second
    })
}

/// Records how the writer's iteration ended, and which events there were. Rule 3: a line that a
/// reader has retired is not replaced.
fn note(seen: &Seen, clock: &Clock, iteration: Iteration) {
    seen.note(format!("{iteration:?}"));
    let helped = clock.events(Event::Help);
    assert!(iteration != Iteration::Published || helped == 0, "a line that was retired was replaced");
    for event in [Event::Expiry, Event::Help] {
        if clock.events(event) > 0 {
            seen.note(event.name());
        }
    }
}

/// An iteration of a writer while a reader reads twice; a third reading is not below those.
fn a_writer_meets_a_reader(wanted: &[&str], scene: fn() -> Scene, read: Read) {
    check(Some(5), wanted, move |seen| {
        let (clock, mut control, time) = scene();
        let reader = reader(&clock, &time, read);
        let view = time.view(WRITER_TICKS);
        let outcome = control.maintain(&clock, &view, &view);
        let last = reader.join().unwrap();
        note(seen, &clock, outcome.iteration);
        let now = reading(&clock, &view);
        assert!(now >= last, "{now} after {last}");
    });
}

/// Rules 1, 2, 3 and 5: a line is replaced by one of half its slope; a reader that meets a
/// replacement twice helps.
fn a_line_is_lowered_under(read: Read) {
    a_writer_meets_a_reader(&["Published", "help"], with_line, read);
}

#[test]
fn a_line_is_lowered_under_a_reader() {
    a_line_is_lowered_under(reading);
}

#[test]
fn a_line_is_lowered_under_a_slow_reader() {
    a_line_is_lowered_under(slow_reading);
}

#[test]
fn a_line_is_lowered_under_a_reader_of_bounds() {
    a_line_is_lowered_under(|clock, view| {
        clock.read_bounds(view).map_or_else(|| clock.read_slow(view, view).ns, |reading| reading.ns)
    });
}

/// The same with two readers, one of which passes its reading to the other.
#[test]
fn a_line_is_lowered_between_two_readers() {
    check(Some(3), &["Published", "help"], |seen| {
        let (clock, mut control, time) = with_line();
        let handed = made(AtomicI64::new(i64::MIN));
        let scene = (clock.clone(), time.clone(), handed);
        let giver = spawn(&scene, |(clock, time, handed)| {
            let now = reading(clock, &time.view(READER_TICKS));
            // ORDERING: Release, pairs with the Acquire load of the taker.
            handed.store(now, Ordering::Release);
        });
        let taker = spawn(&scene, |(clock, time, handed)| {
            // ORDERING: Acquire, pairs with the Release store of the giver.
            let last = handed.load(Ordering::Acquire);
            let now = reading(clock, &time.view(READER_TICKS));
            assert!(now >= last, "{now} after {last}");
        });
        let view = time.view(WRITER_TICKS);
        let outcome = control.maintain(&clock, &view, &view);
        giver.join().unwrap();
        taker.join().unwrap();
        note(seen, &clock, outcome.iteration);
    });
}

/// Lets time pass until shortly before the `end_ticks` of a line. A reader's first load may be
/// before that, and its second is not. The writer's loads are, as long as nobody reads.
fn shortly_before((clock, control, time): Scene, end_ticks: fn(&CellLine) -> u64) -> Scene {
    let now_ticks = time.view(0).now_ordered();
    time.pass(end_ticks(&clock.cell.snapshot()) - now_ticks - 12_000);
    (clock, control, time)
}

/// Rules 5 and 13: the window of a line passes under the writer. The line is ahead of the
/// reference by more than that vouches for, so it is over then.
#[test]
fn a_window_ends_under_a_writer() {
    let scene = || shortly_before(with_line(), |line| line.start_ticks + line.window_ticks);
    a_writer_meets_a_reader(&["Published", "Learning", "help", "expiry"], scene, reading);
}

/// Rules 2, 4 and 5: the window of a line that is ahead of the reference passes under the writer.
#[test]
fn a_window_passes_under_a_writer() {
    let scene = || shortly_before(with_long_line(), CellLine::end_ticks);
    a_writer_meets_a_reader(&["Published", "Learning", "help", "expiry"], scene, slow_reading);
}

/// Rules 6 and 7: a reading without a line that spans a recovery. Right after the recovery the
/// reference jumps ahead, so a reading that returns the reference then is above the new line.
#[test]
fn a_clock_recovers_under_a_reader_without_a_line() {
    check(Some(5), &["Recovered", "no line first"], |seen| {
        let (clock, mut control, time) = without_line();
        let scene = (clock.clone(), time.clone(), seen.clone());
        let reader = spawn(&scene, |(clock, time, seen)| {
            let view = time.view(500);
            let first = clock.read_slow(&view, &view);
            if matches!(first.source, Source::Reference { .. }) {
                seen.note("no line first");
            }
            let second = reading(clock, &view);
            assert!(second >= first.ns, "{second} after {first:?}");
            second
        });
        let view = time.view(WRITER_TICKS);
        let outcome = control.maintain(&clock, &view, &view);
        time.jump(1_000_000);
        let last = reader.join().unwrap();
        note(seen, &clock, outcome.iteration);
        let now = reading(&clock, &view);
        assert!(now >= last, "{now} after {last}");
    });
}

/// A thread that closes the gate between two readings: when `close_gate` has returned, nobody
/// uses the line.
fn closer(clock: &Arc<Clock>, time: &Arc<Time>) -> thread::JoinHandle<()> {
    spawn(&(clock.clone(), time.clone()), |(clock, time)| {
        let view = time.view(1_000);
        let before = reading(clock, &view);
        assert!(clock.close_gate(&view, &view), "it was open");
        assert_eq!(clock.read_ordered(&view), None, "the gate is closed");
        let after = clock.read_slow(&view, &view);
        assert!(matches!(after.source, Source::Reference { .. }), "{after:?}");
        assert!(after.ns >= before, "{after:?} after {before}");
    })
}

fn a_gate_closes_under(wanted: &[&str], scene: fn() -> Scene) {
    check(Some(4), wanted, move |seen| {
        let (clock, mut control, time) = scene();
        let closer = closer(&clock, &time);
        let view = time.view(WRITER_TICKS);
        let outcome = control.maintain(&clock, &view, &view);
        closer.join().unwrap();
        note(seen, &clock, outcome.iteration);
        let state = clock.cell.load();
        assert!(state.is_gate_closed() && state.phase() == Phase::NoLine, "{state:?}");
    });
}

/// Rule 8: a gate closes, and no writer that was about to replace a line opens it.
#[test]
fn a_gate_closes_under_a_writer() {
    a_gate_closes_under(&["Published", "Lost", "GateClosed"], with_line);
}

/// Rule 8: the same for a clock that is about to recover.
#[test]
fn a_gate_closes_under_a_recovery() {
    a_gate_closes_under(&["Recovered", "GateClosed"], without_line);
}
