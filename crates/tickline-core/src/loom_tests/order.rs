//! Models of the rules of order of `DESIGN.md`, with the real readers and the real control loop.
//!
//! Each model starts from a state that one thread has reached, then starts readers and the
//! writer. It asserts the promise itself: a reading that was complete before another began is not
//! larger.

use loom::thread;

use super::{
    Clock, Coverage, READER_TICKS, Scene, View, WRITER_TICKS, check, new_shared, reading, spawn,
};
use crate::cell::{StateCell, WindowedLine};
use crate::control::{Control, Outcome};
use crate::counter::Counter;
use crate::primitive::{AtomicI64, Ordering};
use crate::shared::{Event, ReadingSource};
use crate::state::Phase;

/// A kind of reading, ns.
type Read = fn(&Clock, &View<'_>) -> i64;

fn slow_reading(clock: &Clock, view: &View<'_>) -> i64 {
    clock.readings().read_ordered_in_any_state(view, view).ns
}

/// A thread that takes two readings, the second not below the first, and returns the second.
fn reader(scene: &Scene, read: Read) -> thread::JoinHandle<i64> {
    spawn(scene, move |scene| {
        let view = scene.time.view(READER_TICKS);
        let first = read(&scene.clock, &view);
        let second = read(&scene.clock, &view);
        assert!(second >= first, "{second} after {first}");
        second
    })
}

/// Records the outcome of the writer's iteration, and the clock's events. Rule 3: a line that a
/// reader has retired is not replaced.
fn note(seen: &Coverage, clock: &Clock, outcome: Outcome) {
    seen.saw(format!("{outcome:?}"));
    let helped = clock.readings().event_count(Event::Help);
    assert!(
        outcome != Outcome::Published || helped == 0,
        "a line that was retired was replaced"
    );
    for event in [Event::Expiry, Event::Help] {
        if clock.readings().event_count(event) > 0 {
            seen.saw(event.code());
        }
    }
}

/// A writer runs an iteration while a reader reads twice. A third reading must not be below these.
fn a_writer_meets_a_reader(wanted: &[&str], scene: fn() -> (Scene, Control), read: Read) {
    check(Some(5), wanted, move |seen| {
        let (scene, mut control) = scene();
        let reader = reader(&scene, read);
        let iteration = scene.iterate(&mut control);
        let last = reader.join().unwrap();
        note(seen, &scene.clock, iteration.outcome);
        let now = reading(&scene.clock, &scene.time.view(WRITER_TICKS));
        assert!(now >= last, "{now} after {last}");
    });
}

/// Rules 1, 2, 3 and 5: a line is replaced by one of half its slope; a reader that meets a
/// replacement twice helps.
#[test]
fn rule_2_readings_are_in_order_while_a_line_is_lowered() {
    let with_bounds: Read = |clock, view| {
        clock
            .readings()
            .read_ordered_bounded(view)
            .map_or_else(|| slow_reading(clock, view), |reading| reading.ns)
    };
    for read in [reading, slow_reading, with_bounds] {
        a_writer_meets_a_reader(&["Published", "help"], Scene::with_line, read);
    }
}

/// A line is replaced by one of half its slope, while one reader passes its reading to another.
#[test]
fn rule_2_readings_of_two_threads_are_in_order_while_a_line_is_lowered() {
    check(Some(3), &["Published", "help"], |seen| {
        let (scene, mut control) = Scene::with_line();
        let taken = new_shared(AtomicI64::new(i64::MIN));
        let given = taken.clone();
        let giver = spawn(&scene, move |scene| {
            let now = reading(&scene.clock, &scene.time.view(READER_TICKS));
            // ORDERING: Release, pairs with the Acquire load of the taker.
            given.store(now, Ordering::Release);
        });
        let taker = spawn(&scene, move |scene| {
            // ORDERING: Acquire, pairs with the Release store of the giver.
            let last = taken.load(Ordering::Acquire);
            let now = reading(&scene.clock, &scene.time.view(READER_TICKS));
            assert!(now >= last, "{now} after {last}");
        });
        let iteration = scene.iterate(&mut control);
        giver.join().unwrap();
        taker.join().unwrap();
        note(seen, &scene.clock, iteration.outcome);
    });
}

/// Lets time pass until shortly before the `end_ticks` of a line. A reader's first read of the
/// counter may be before this end, its second is not. The writer's reads are before it, unless a
/// reader's read comes first.
fn shortly_before(
    (scene, control): (Scene, Control),
    end_ticks: fn(&WindowedLine) -> u64,
) -> (Scene, Control) {
    let now_ticks = scene.time.view(0).now_ordered();
    let end_ticks = end_ticks(&scene.clock.cell().snapshot());
    scene.time.pass(end_ticks - now_ticks - 12_000);
    (scene, control)
}

/// Rules 5 and 12: the window of a line passes under the writer. The line is ahead of the reference
/// by more than the reference vouches for, so the line ends with its window.
#[test]
fn rule_12_readings_are_in_order_when_a_window_ends_under_a_writer() {
    let scene = || shortly_before(Scene::with_line(), WindowedLine::window_end_ticks);
    a_writer_meets_a_reader(
        &["Published", "Calibrating", "help", "expiry"],
        scene,
        reading,
    );
}

/// Rules 2, 4 and 5: the validity of a line that is ahead of the reference ends under the writer.
#[test]
fn rule_4_readings_are_in_order_when_a_validity_ends_under_a_writer() {
    let scene = || shortly_before(Scene::with_long_line(), WindowedLine::validity_end_ticks);
    a_writer_meets_a_reader(
        &["Published", "Calibrating", "help", "expiry"],
        scene,
        slow_reading,
    );
}

/// Rules 6 and 7: a first publication takes place during a reading without a line. Right after it
/// the reference jumps ahead, so a reading that then returned the reference would be above the new
/// line.
#[test]
fn rule_6_no_first_line_is_below_a_reading_without_a_line() {
    check(Some(5), &["PublishedFirst", "no line first"], |seen| {
        let (scene, mut control) = Scene::without_line();
        let reader = spawn(&scene, move |scene| {
            let view = scene.time.view(500);
            let readings = scene.clock.readings();
            let first = readings.read_ordered_in_any_state(&view, &view);
            if matches!(first.source, ReadingSource::Reference { .. }) {
                seen.saw("no line first");
            }
            let second = reading(&scene.clock, &view);
            assert!(second >= first.ns, "{second} after {first:?}");
            second
        });
        let iteration = scene.iterate(&mut control);
        scene.time.jump(1_000_000);
        let last = reader.join().unwrap();
        note(seen, &scene.clock, iteration.outcome);
        let now = reading(&scene.clock, &scene.time.view(WRITER_TICKS));
        assert!(now >= last, "{now} after {last}");
    });
}

/// A thread bars the clock between two readings. After `bar` has returned, no thread uses the line.
fn stays_barred_under(wanted: &[&str], scene: fn() -> (Scene, Control)) {
    check(Some(4), wanted, move |seen| {
        let (scene, mut control) = scene();
        let closer = spawn(&scene, |Scene { clock, time }| {
            let view = time.view(1_000);
            let before = reading(clock, &view);
            assert!(clock.bar(&view, &view), "it was not barred");
            let readings = clock.readings();
            assert_eq!(readings.read_ordered_ns(&view), None, "the clock is barred");
            let after = readings.read_ordered_in_any_state(&view, &view);
            assert!(
                matches!(after.source, ReadingSource::Reference { .. }),
                "{after:?}"
            );
            assert!(after.ns >= before, "{after:?} after {before}");
        });
        let iteration = scene.iterate(&mut control);
        closer.join().unwrap();
        note(seen, &scene.clock, iteration.outcome);
        let state = scene.clock.cell().load();
        assert!(
            state.is_barred() && state.phase() == Phase::NoLine,
            "{state:?}"
        );
    });
}

/// Rule 8: the clock is barred, and a writer that was about to replace a line does not unbar it.
#[test]
fn rule_8_no_writer_replaces_the_line_of_a_barred_clock() {
    stays_barred_under(&["Published", "RetrySoon", "Barred"], Scene::with_line);
}

/// Rule 8: the clock is barred, and a writer that was about to publish a first line does not unbar
/// it.
#[test]
fn rule_8_no_writer_publishes_the_first_line_of_a_barred_clock() {
    stays_barred_under(&["PublishedFirst", "Barred"], Scene::without_line);
}
