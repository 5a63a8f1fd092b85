//! A clock over the portable state, on every target.

use core::cell::Cell;

use super::portable::AtomicState;
use crate::cell::LineCell;
use crate::cell::{NextLine, SlotView, StateCell};
use crate::control::Control;
use crate::counter::Counter;
use crate::line::Slope;
use crate::primitive::Ordering;
use crate::shared::SharedClock;
use crate::state::{LineState, Phase};
use crate::testing::{CONFIG, FnClock, INTERVAL_NS, Machine, RESOLUTIONS, Step, interrupted, leak};

/// A cell whose state is the portable one.
struct PortableCell {
    state: AtomicState,
    /// Only its slots are in use.
    slots: LineCell,
}

impl StateCell for PortableCell {
    fn load(&self) -> LineState {
        self.state.load()
    }
    fn is_still(&self, state: LineState) -> bool {
        self.state.is_still(state)
    }
    fn slot(&self, state: LineState) -> SlotView<'_> {
        self.slots.slot(state)
    }
    fn try_swap(&self, from: LineState, to: LineState) -> bool {
        self.state.try_swap(from, to)
    }
    fn publish(&self, from: LineState, next: &NextLine) -> bool {
        self.slot(next.line.state).fill(next);
        self.state.try_swap(from, next.line.state)
    }
}

/// A machine, its clock without samples, and the control loop.
fn new_clock() -> (
    &'static Machine,
    &'static SharedClock<PortableCell>,
    Control,
) {
    let cell = PortableCell {
        state: AtomicState::new(i64::MIN),
        slots: LineCell::new(),
    };
    (
        Machine::new(),
        leak(SharedClock::new(cell)),
        Control::new(RESOLUTIONS, CONFIG),
    )
}

/// A machine, and a clock with a line.
fn clock_with_line() -> (&'static Machine, &'static SharedClock<PortableCell>) {
    let (machine, clock, mut control) = new_clock();
    for _ in 0..200 {
        let iteration = control.iterate(clock, machine, machine);
        if iteration.next_in_ns == INTERVAL_NS {
            machine.pass(1_000);
            return (machine, clock);
        }
        machine.pass(iteration.next_in_ns);
    }
    panic!("no line");
}

/// Other threads are stopped within a swap, which this thread begins and never ends.
const STOPPED: usize = 20;

/// A counter of the machine. A call that reads it this often waits for a stopped thread.
fn impatient(machine: &'static Machine) -> impl Counter {
    let reads = Cell::new(0);
    FnClock(move || {
        reads.set(reads.get() + 1);
        assert!(reads.get() < 100_000, "the call waits");
        machine.now()
    })
}

/// Symptom: with seven threads stopped within a swap, a reading that had to retire a line never
/// returned.
#[test]
fn rule_3_threads_that_are_stopped_within_a_swap_stop_no_reading() {
    let (machine, clock) = clock_with_line();
    let line = clock.cell().snapshot();
    let last_ns = line.ns_at(machine.now());
    let state = &clock.cell().state;
    for _ in 0..STOPPED {
        assert!(
            state
                .begin_swap(line.state, line.state.replacing())
                .is_some()
        );
    }
    let replacing = clock.readings().announce(&line);
    let replacing = replacing.expect("no other thread swaps").state;
    for _ in 0..STOPPED {
        let mark_ns = line.ns_at(machine.now());
        assert!(
            state
                .begin_swap(replacing, replacing.without_line(mark_ns))
                .is_some()
        );
    }
    let readings = clock.readings();
    let reading = readings.read_ordered_in_any_state(&impatient(machine), machine);
    assert_eq!(clock.cell().load().phase(), Phase::NoLine);
    assert!(reading.ns >= last_ns, "{} after {last_ns}", reading.ns);
}

/// Symptom: with seven threads stopped within a swap, the call that bars the clock never returned.
#[test]
fn rule_8_threads_that_are_stopped_within_a_swap_keep_no_clock_unbarred() {
    let (machine, clock) = clock_with_line();
    let line = clock.cell().snapshot();
    let state = &clock.cell().state;
    for _ in 0..STOPPED {
        assert!(state.begin_swap(line.state, line.state.barred()).is_some());
    }
    let closed = line.state.barred();
    assert!(state.try_swap(line.state, closed));
    for _ in 0..STOPPED {
        let mark_ns = line.ns_at(machine.now());
        assert!(
            state
                .begin_swap(closed, closed.without_line(mark_ns))
                .is_some()
        );
    }
    clock.bar(&impatient(machine), machine);
    let state = clock.cell().load();
    assert_eq!((state.phase(), state.is_barred()), (Phase::NoLine, true));
    assert_eq!(clock.readings().read_ordered_ns(machine), None);
    assert!(clock.unbar(&impatient(machine), machine));
}

/// Rule 7: two threads retire one line. The slower one raises the mark while the writer announces a
/// first line, and a reading returns that mark. The line, which starts above the lower mark, must
/// not be published.
#[test]
fn rule_7_no_first_line_is_published_below_a_mark_that_has_risen() {
    let state = AtomicState::new(i64::MIN);
    let slope = Slope { bits: 1 << 47 };
    let before = LineState::default().without_line(1_000);
    assert!(state.try_swap(LineState::default(), before));
    let first = before.first_publication();
    let line = before.next_line(slope).expect("fits").with_b(1_001);
    let (word, next) = state.begin_swap(before, first).expect("no swap since");
    // ORDERING: Relaxed, one thread plays all parts.
    state.mark().fetch_max(2_000, Ordering::Relaxed);
    assert_eq!(state.load(), before.with_b(2_000), "as a reading finds it");
    assert!(state.end_swap(word, next));
    assert!(!state.try_swap(first, line));
    assert!(state.try_swap(first.with_b(2_000), line.with_b(2_001)));
    assert_eq!(state.load(), line.with_b(2_001));
}

/// Rule 7: a thread that was stopped within a swap raises the mark after the writer has announced a
/// first line. Symptom: the writer left the announcement behind, and each reading waited until
/// another thread took it back.
#[test]
fn rule_7_a_mark_that_rises_leaves_no_first_publication_behind() {
    let (machine, clock, mut control) = new_clock();
    let is_announced =
        |step| step == Step::Reference && clock.cell().load().phase() == Phase::FirstPublication;
    let raise = || {
        // ORDERING: Relaxed, one thread plays all parts.
        clock.cell().state.mark().fetch_max(0, Ordering::Relaxed);
    };
    let iterate_to_a_line = || {
        for _ in 0..200 {
            let iteration = control.iterate(clock, machine, machine);
            assert_ne!(clock.cell().load().phase(), Phase::FirstPublication);
            if clock.cell().load().is_published() {
                return;
            }
            machine.pass(iteration.next_in_ns);
        }
        panic!("no line");
    };
    interrupted(machine, is_announced, raise, iterate_to_a_line);
}

/// A mark rises only.
#[test]
fn rule_5_a_late_thread_does_not_lower_the_mark() {
    let state = AtomicState::new(i64::MIN);
    let high = LineState::default().without_line(2_000);
    assert!(state.try_swap(LineState::default(), high));
    assert!(state.try_swap(high, high.barred().with_b(1_000)));
    assert_eq!(state.load(), high.barred());
}
