//! States that come again, and the high-water mark that a line leaves: what `state/mod.rs` says
//! about a state that is its own proof. The readers are the real ones. Lines are made by hand, so
//! that a state can come again after two of them, not after 1,024.

use core::cell::Cell;
use std::sync::{Arc, Mutex};

use super::order::{READER_TICKS, WRITER_TICKS, with_line};
use super::{Clock, Time, View, check, made, reading, spawn};
use crate::cell::{Bounds, CellLine, LineCell, StateCell};
use crate::counter::Counter;
use crate::discipline::MEETING_MARGIN_NS;
use crate::line::Slope;
use crate::primitive::{AtomicI64, Ordering};
use crate::shared::Shared;
use crate::state::{Phase, Serves, State};
use crate::units::FixedNs;

const SHIFT: u32 = <LineCell as StateCell>::SHIFT;
const START_TICKS: u64 = 1 << 40;

/// A number that threads share and that orders nothing: no step of the model.
#[derive(Clone, Default)]
struct Untimed(Arc<Mutex<u64>>);

impl Untimed {
    fn get(&self) -> u64 {
        *self.0.lock().unwrap()
    }

    fn set(&self, value: u64) {
        *self.0.lock().unwrap() = value;
    }
}

/// What the threads of a model share.
#[derive(Clone)]
struct Scene {
    clock: Arc<Clock>,
    time: Arc<Time>,
    /// The last readings of the reader and of the writer, each for the other one.
    by_reader: Arc<AtomicI64>,
    by_writer: Arc<AtomicI64>,
    /// Counts what the clock has been through, so that a thread can tell between which of it it was stopped.
    life: Untimed,
}

impl Scene {
    /// A clock whose reference is behind the counter, so that it plays no part, unless it jumps.
    fn new() -> Self {
        Self {
            clock: made(Shared::new(LineCell::new())),
            time: made(Time::new(START_TICKS, -500_000)),
            by_reader: made(AtomicI64::new(i64::MIN)),
            by_writer: made(AtomicI64::new(i64::MIN)),
            life: Untimed::default(),
        }
    }

    /// A reading of the writer, which is not below what the reader has handed over.
    fn writer_reads(&self) -> i64 {
        // ORDERING: Acquire, pairs with the Release store of the reader.
        let last = self.by_reader.load(Ordering::Acquire);
        let now = reading(&self.clock, &self.time.view(WRITER_TICKS));
        assert!(now >= last, "{now} after the reader's {last}");
        // ORDERING: Release, pairs with the Acquire load of the reader.
        self.by_writer.store(now, Ordering::Release);
        now
    }

    /// Makes a reading in another thread, not below what the writer has handed over.
    fn reader_reads(&self, read: impl FnOnce(&Self) -> i64) {
        // ORDERING: Acquire, pairs with the Release store of the writer.
        let last = self.by_writer.load(Ordering::Acquire);
        let now = read(self);
        assert!(now >= last, "{now} after the writer's {last}");
        // ORDERING: Release, pairs with the Acquire load of the writer.
        self.by_reader.store(now, Ordering::Release);
    }

    /// Swaps `old` for its replacement, and reads the counter. `None` if somebody else was first.
    fn announce(&self, old: &CellLine) -> Option<(CellLine, u64)> {
        let replacing = CellLine { state: old.state.replacing(), ..*old };
        let swapped = self.clock.cell.swap(old.state, replacing.state);
        swapped.then(|| (replacing, self.time.view(WRITER_TICKS).now_ordered()))
    }

    /// Publishes `state` at `ticks`. `None` if somebody has retired the line before it.
    fn publish(&self, from: State, state: State, at_ticks: u64) -> Option<CellLine> {
        let start_ticks = at_ticks - MEETING_MARGIN_NS;
        let line = CellLine { state, start_ticks, window_ticks: 1 << 20, shift: SHIFT };
        self.clock.cell.publish(from, &line, &Bounds::default(), None).then(|| {
            self.life.set(self.life.get() + 1);
            line
        })
    }

    /// Replaces `old` by a line of half its slope, which meets it a margin from now.
    fn publish_half(&self, old: &CellLine, at_ticks: u64) -> Option<CellLine> {
        let half = Slope::from_bits(old.slope().to_bits() >> 1);
        let next = old.state.next_line(half, SHIFT, Serves::Both).unwrap();
        let next = next.with_b(next.b_not_below(old.state, SHIFT, at_ticks + MEETING_MARGIN_NS));
        self.publish(old.state, next, at_ticks)
    }

    /// A line of 1 GHz, published before any thread starts.
    fn first_line(&self) -> CellLine {
        let ghz = Slope::from_hz(1_000_000_000).unwrap();
        let state = State::default().next_line(ghz, SHIFT, Serves::Both).unwrap();
        let b = state.b_through(SHIFT, START_TICKS, FixedNs::from_ns(7_000_000));
        self.publish(State::default(), state.with_b(b), START_TICKS).unwrap()
    }
}

/// A counter that notes in which life of the state it was read.
struct Watched<'a> {
    view: View<'a>,
    life: &'a Untimed,
    read_in: Cell<u64>,
}

impl Counter for Watched<'_> {
    fn now(&self) -> u64 {
        self.now_ordered()
    }
    fn now_ordered(&self) -> u64 {
        self.read_in.set(self.life.get());
        self.view.now_ordered()
    }
    fn barrier(&self) {}
}

/// A line is replaced by a flatter one, and comes again, to the last bit, as a step forward. A
/// reader that was stopped meanwhile finds the state of its first look at its second one. Its
/// reading is in order, with those that were handed over in between, too.
#[test]
fn a_line_that_comes_again_keeps_the_order() {
    check(Some(3), &["it came again", "another line", "helped"], |seen| {
        let scene = Scene::new();
        let first = scene.first_line();
        scene.life.set(1);
        let noted = seen.clone();
        let reader = spawn(&scene, move |scene| {
            scene.reader_reads(|scene| {
                let view = scene.time.view(READER_TICKS);
                let watched = Watched { view, life: &scene.life, read_in: Cell::new(0) };
                let Some(now) = scene.clock.read_ordered(&watched) else {
                    return scene.clock.read_slow(&watched, &watched.view).ns;
                };
                // The first look was no later than the counter, the second one has just been.
                match (watched.read_in.get(), scene.life.get()) {
                    (1, 3) => noted.note("it came again"),
                    (2, 2) => noted.note("another line"),
                    _ => {}
                }
                now
            });
        });
        let published = (|| {
            let (replacing, at_ticks) = scene.announce(&first)?;
            let second = scene.publish_half(&replacing, at_ticks)?;
            scene.writer_reads();
            scene.time.pass(2 * MEETING_MARGIN_NS);
            let (replacing, at_ticks) = scene.announce(&second)?;
            let early = at_ticks - MEETING_MARGIN_NS;
            assert!(first.at(early) >= second.at(early), "a step back");
            scene.publish(replacing.state, first.state, at_ticks)
        })();
        if published.is_none() {
            seen.note("helped");
        }
        scene.writer_reads();
        reader.join().unwrap();
        scene.writer_reads();
    });
}

/// A high-water mark comes again after a line that was so flat that no reading of it exceeded the
/// mark. Under that line the reference ran ahead. A reader that was stopped since before the line
/// finds its state again, and returns the reference.
#[test]
fn a_high_water_mark_that_comes_again_keeps_the_order() {
    const MARK_NS: i64 = 1 << 42;
    check(Some(3), &["it came again"], |seen| {
        let scene = Scene::new();
        let before = State::default().with_b(MARK_NS);
        assert!(scene.clock.cell.swap(State::default(), before));
        scene.life.set(1);
        let noted = seen.clone();
        let reader = spawn(&scene, move |scene| {
            scene.reader_reads(|scene| {
                let view = scene.time.view(READER_TICKS);
                // The reference reads this counter between the two looks.
                let life = Cell::new(0);
                let reference = crate::testing::By(|| {
                    life.set(scene.life.get());
                    crate::sample::Reference::monotonic_ns(&view)
                });
                let now = scene.clock.read_slow(&view, &reference).ns;
                if life.get() == 2 && scene.life.get() == 3 && now > MARK_NS {
                    noted.note("it came again");
                }
                now
            });
        });
        let retired = (|| {
            let cell = &scene.clock.cell;
            let view = scene.time.view(WRITER_TICKS);
            let first = before.first_publication();
            cell.swap(before, first).then_some(())?;
            let at_ticks = view.now_ordered();
            let flat = before.next_line(Slope::from_bits(1 << 18), SHIFT, Serves::Both).unwrap();
            let flat = flat.with_b(flat.b_through(SHIFT, at_ticks, FixedNs::from_ns(MARK_NS)));
            let line = scene.publish(first, flat, at_ticks)?;
            assert_eq!(line.at(line.end_ticks()), MARK_NS, "too steep");
            scene.time.jump(MARK_NS);
            assert_eq!(scene.writer_reads(), MARK_NS);
            let (replacing, at_ticks) = scene.announce(&line)?;
            let mark_ns = line.at(at_ticks);
            // The line's slot and count are not those of the first state; 1,023 lines later they would be.
            cell.swap(replacing.state, before.with_b(mark_ns)).then_some(())?;
            scene.life.set(3);
            Some(())
        })();
        assert!(retired.is_some(), "a reader waits longer for the next line of one that is so flat");
        scene.writer_reads();
        reader.join().unwrap();
        scene.writer_reads();
    });
}

/// Rule 10: a thread that helps with a tick of an earlier life of a line, whose slope and `b` are
/// in use again, comes too late: the count tells the two lives apart. Its high-water mark would be
/// below what the line has returned since.
#[test]
fn rule_10_a_helper_of_an_earlier_life_is_too_late() {
    check(Some(4), &["in time", "an earlier life"], |seen| {
        let scene = Scene::new();
        let first = scene.first_line();
        scene.life.set(1);
        let (replacing, at_ticks) = scene.announce(&first).unwrap();
        let noted = seen.clone();
        let helper = spawn(&scene, move |scene| {
            let found = scene.clock.cell.snapshot();
            if found.state != replacing.state {
                return;
            }
            let view = scene.time.view(WRITER_TICKS);
            let watched = Watched { view, life: &scene.life, read_in: Cell::new(0) };
            if scene.clock.help(&found, &watched, &watched.view) {
                noted.note("in time");
            } else if (watched.read_in.get(), scene.life.get()) == (1, 4) {
                noted.note("an earlier life");
            }
        });
        (|| {
            let second = scene.publish_half(&replacing, at_ticks)?;
            scene.time.pass(2 * MEETING_MARGIN_NS);
            let (replacing, at_ticks) = scene.announce(&second)?;
            let slope = first.slope();
            let third = replacing.state.next_line(slope, SHIFT, Serves::Both).unwrap().with_b(first.state.b);
            let third = scene.publish(replacing.state, third, at_ticks)?;
            assert_eq!((third.slope(), third.state.slot()), (slope, first.state.slot()));
            scene.time.pass(4 * MEETING_MARGIN_NS);
            let read_ns = scene.writer_reads();
            let (replacing, at_ticks) = scene.announce(&third)?;
            scene.life.set(4);
            // The writer gives up.
            let view = scene.time.view(WRITER_TICKS);
            assert!(scene.clock.help_at(&replacing, at_ticks, None, &view), "retired by an old tick");
            let mark_ns = scene.clock.cell.load().high_water_ns();
            assert!(mark_ns >= read_ns, "{mark_ns} after {read_ns}");
            Some(())
        })();
        helper.join().unwrap();
        scene.writer_reads();
    });
}

/// Rule 5: the high-water mark of a line that a gate has ended is exactly the line at a tick that
/// somebody has read, a margin later; and never below a reading of the line.
#[test]
fn a_high_water_mark_is_exact_and_above_all_readings() {
    check(Some(5), &["a reading", "the closer's tick", "the reader's tick"], |seen| {
        let (clock, _, time) = with_line();
        let line = clock.cell.snapshot();
        let by_reader = Untimed::default();
        let scene = (clock.clone(), time.clone(), by_reader.clone(), seen.clone());
        let reader = spawn(&scene, |(clock, time, last, seen)| {
            let view = time.view(READER_TICKS);
            let ticks = Cell::new(0);
            let counter = crate::testing::By(|| {
                ticks.set(view.now_ordered());
                ticks.get()
            });
            let first = clock.read_ordered(&counter);
            if first.is_some() {
                seen.note("a reading");
            }
            clock.read_slow(&counter, &view);
            last.set(ticks.get());
            first
        });
        let view = time.view(WRITER_TICKS);
        let ticks = Cell::new(0);
        let counter = crate::testing::By(|| {
            ticks.set(view.now_ordered());
            ticks.get()
        });
        assert!(clock.close_gate(&counter, &view), "it was open");
        let state = clock.cell.load();
        assert!(state.is_gate_closed() && state.phase() == Phase::NoLine, "{state:?}");
        let read_ns = reader.join().unwrap();
        let mark_ns = clock.cell.load().high_water_ns();
        assert_eq!(state.high_water_ns(), mark_ns, "nobody changes it");
        assert!(read_ns.is_none_or(|ns| ns <= mark_ns), "{read_ns:?} above {mark_ns}");
        let at = |ticks: u64| line.at(ticks + line.slope().ticks_in(MEETING_MARGIN_NS));
        if mark_ns == at(ticks.get()) {
            seen.note("the closer's tick");
        } else {
            assert_eq!(mark_ns, at(by_reader.get()));
            seen.note("the reader's tick");
        }
    });
}
