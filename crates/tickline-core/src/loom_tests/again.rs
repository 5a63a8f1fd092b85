//! Models of recurring states (`state.rs`, "A state is its own proof"). The readers are the real
//! ones. The lines are made by hand, so that a state can recur after two lines, not after 1,024.
//!
//! Tests of `shared` and `state` check that the count distinguishes lives for a thread that swaps
//! (rule 10).

use core::cell::Cell;
use std::sync::{Arc, Mutex};

use super::{READER_TICKS, Scene, Time, WRITER_TICKS, check, new_shared, reading, spawn};
use crate::cell::LineCell;
use crate::cell::{Bounds, NextLine, StateCell, WindowedLine};
use crate::counter::Counter;
use crate::discipline::MEETING_MARGIN_NS;
use crate::line::Slope;
use crate::primitive::{AtomicI64, Ordering};
use crate::reference::Reference;
use crate::shared::SharedClock;
use crate::state::LineState;
use crate::testing::FnClock;
use crate::units::FixedNs;

const START_TICKS: u64 = 1 << 40;

/// A clock whose lines are made by hand. The reader and the writer each store their last reading
/// here for the other.
#[derive(Clone)]
struct Handmade {
    scene: Scene,
    by_reader: Arc<AtomicI64>,
    by_writer: Arc<AtomicI64>,
    /// The number of changes so far, so that a thread knows between which changes it was stopped.
    /// Access to it is no step of the model, and orders nothing.
    life: Arc<Mutex<u64>>,
}

impl Handmade {
    /// A clock whose reference is behind the counter, so that the reference does not matter until
    /// it jumps.
    fn new() -> Self {
        let clock = new_shared(SharedClock::new(LineCell::new()));
        let time = new_shared(Time::new(START_TICKS, -500_000));
        let [by_reader, by_writer] = [(); 2].map(|()| new_shared(AtomicI64::new(i64::MIN)));
        Self {
            scene: Scene { clock, time },
            by_reader,
            by_writer,
            life: Arc::default(),
        }
    }

    fn life(&self) -> u64 {
        *self.life.lock().unwrap()
    }

    fn begin_next_life(&self) {
        *self.life.lock().unwrap() += 1;
    }

    /// Makes a reading, checks that it is not below the other thread's last one, and stores it for
    /// that thread.
    fn read_in_order(theirs: &AtomicI64, mine: &AtomicI64, read: impl FnOnce() -> i64) -> i64 {
        // ORDERING: Acquire, pairs with the other thread's Release store below.
        let last = theirs.load(Ordering::Acquire);
        let now = read();
        assert!(now >= last, "{now} after the other thread's {last}");
        // ORDERING: Release, pairs with the other thread's Acquire load above.
        mine.store(now, Ordering::Release);
        now
    }

    fn writer_reads(&self) -> i64 {
        let read = || reading(&self.scene.clock, &self.scene.time.view(WRITER_TICKS));
        Self::read_in_order(&self.by_reader, &self.by_writer, read)
    }

    fn read_as_reader(&self, read: impl FnOnce() -> i64) -> i64 {
        Self::read_in_order(&self.by_writer, &self.by_reader, read)
    }

    /// Swaps a state for an announcement, and reads the counter. `None` if another thread has
    /// swapped first.
    fn announce(&self, from: LineState, to: LineState) -> Option<(LineState, u64)> {
        let swapped = self.scene.clock.cell().try_swap(from, to);
        swapped.then(|| (to, self.scene.time.view(WRITER_TICKS).now_ordered()))
    }

    /// Publishes `state` at `at_ticks`. `None` if another thread has retired the line before it.
    fn publish(&self, from: LineState, state: LineState, at_ticks: u64) -> Option<WindowedLine> {
        let start_ticks = at_ticks - MEETING_MARGIN_NS;
        let line = WindowedLine {
            state,
            start_ticks,
            window_ticks: 1 << 20,
        };
        self.scene
            .clock
            .cell()
            .publish(from, &NextLine::new(line, Bounds::default()))
            .then(|| {
                self.begin_next_life();
                line
            })
    }
}

/// A line is replaced by a flatter one, and recurs, bit for bit, as a step forward. A reader that
/// was stopped meanwhile finds the same state at both of its loads. Its reading is in order, also
/// with the readings that were handed over in between.
#[test]
fn a_recurring_line_keeps_the_order() {
    check(
        Some(3),
        &["the state recurred", "another line", "helped"],
        |seen| {
            let clock = Handmade::new();
            let ghz = Slope::from_hz(1_000_000_000).unwrap();
            let first = LineState::default().next_line(ghz).unwrap();
            let first =
                first.with_b(first.b_not_below_time(START_TICKS, FixedNs::from_ns(7_000_000)));
            let first = clock
                .publish(LineState::default(), first, START_TICKS)
                .unwrap();
            let reader = spawn(&clock, move |clock| {
                clock.read_as_reader(|| {
                    let view = clock.scene.time.view(READER_TICKS);
                    let read_in = Cell::new(0);
                    let counter = FnClock(|| {
                        read_in.set(clock.life());
                        view.now_ordered()
                    });
                    let Some(now) = clock.scene.clock.readings().read_ordered_ns(&counter) else {
                        return clock
                            .scene
                            .clock
                            .readings()
                            .read_ordered_in_any_state(&counter, &view)
                            .ns;
                    };
                    // The first load was no later than the read of the counter. The second load was
                    // the last step.
                    match (read_in.get(), clock.life()) {
                        (1, 3) => seen.saw("the state recurred"),
                        (2, 2) => seen.saw("another line"),
                        _ => {}
                    }
                    now
                });
            });
            let published = (|| {
                let (replacing, at_ticks) = clock.announce(first.state, first.state.replacing())?;
                // The next line has half the slope. The two lines meet a margin from now.
                let half = Slope {
                    bits: first.slope().bits >> 1,
                };
                let next = replacing.next_line(half).unwrap();
                let next =
                    next.with_b(next.b_not_below_line(replacing, at_ticks + MEETING_MARGIN_NS));
                let second = clock.publish(replacing, next, at_ticks)?;
                clock.writer_reads();
                clock.scene.time.pass(2 * MEETING_MARGIN_NS);
                let (replacing, at_ticks) =
                    clock.announce(second.state, second.state.replacing())?;
                let early = at_ticks - MEETING_MARGIN_NS;
                assert!(first.ns_at(early) >= second.ns_at(early), "a step back");
                clock.publish(replacing, first.state, at_ticks)
            })();
            if published.is_none() {
                seen.saw("helped");
            }
            clock.writer_reads();
            reader.join().unwrap();
            clock.writer_reads();
        },
    );
}

/// A high-water mark recurs after a line that was so flat that no reading of it exceeded the mark.
/// Under that line the reference ran ahead. A reader that was stopped before the line finds its
/// state again, and returns the reference.
#[test]
fn a_recurring_high_water_mark_keeps_the_order() {
    const MARK_NS: i64 = 1 << 42;
    check(Some(3), &["the state recurred"], |seen| {
        let clock = Handmade::new();
        let before = LineState::default().with_b(MARK_NS);
        assert!(
            clock
                .scene
                .clock
                .cell()
                .try_swap(LineState::default(), before)
        );
        let reader = spawn(&clock, move |clock| {
            let view = clock.scene.time.view(READER_TICKS);
            let asked_in = Cell::new(0);
            // The reference reads this counter between the two loads.
            let reference = FnClock(|| {
                asked_in.set(clock.life());
                view.monotonic_ns()
            });
            let now = clock.read_as_reader(|| {
                clock
                    .scene
                    .clock
                    .readings()
                    .read_ordered_in_any_state(&view, &reference)
                    .ns
            });
            if (asked_in.get(), clock.life()) == (1, 2) && now > MARK_NS {
                seen.saw("the state recurred");
            }
        });
        let retired = (|| {
            let (first, at_ticks) = clock.announce(before, before.first_publication())?;
            let flat = before.next_line(Slope { bits: 1 << 18 }).unwrap();
            let flat = flat.with_b(flat.b_not_below_time(at_ticks, FixedNs::from_ns(MARK_NS)));
            let line = clock.publish(first, flat, at_ticks)?;
            assert_eq!(line.ns_at(line.validity_end_ticks()), MARK_NS, "too steep");
            clock.scene.time.jump(MARK_NS);
            assert_eq!(clock.writer_reads(), MARK_NS);
            let (replacing, at_ticks) = clock.announce(line.state, line.state.replacing())?;
            // The line's slot and count differ from the first state's; 1,023 lines later they would
            // be the same.
            let mark = before.with_b(line.ns_at(at_ticks));
            clock
                .scene
                .clock
                .cell()
                .try_swap(replacing, mark)
                .then(|| clock.begin_next_life())
        })();
        assert!(
            retired.is_some(),
            "a reader helped, though so flat a line makes it wait long"
        );
        clock.writer_reads();
        reader.join().unwrap();
        clock.writer_reads();
    });
}
