//! A microcontroller's clock: SysTick at 16 MHz, which wraps after 1.05 s, and an RTC at 32,768
//! Hz for a reference.

use super::*;
use crate::cell::LineCell;
use crate::control::{Config, Control, Iteration, Renewal};
use crate::sample::{Reference, Resolutions};
use crate::shared::{Event, Shared, Source};

const BITS: u32 = 24;
/// 16 MHz, and off by 37 ppm.
const HZ: u64 = 16_000_592;
const WRAP_NS: u64 = (1 << BITS) * 1_000_000_000 / HZ;
const RTC_HZ: u64 = 32_768;
const INTERVAL_NS: u64 = 100_000_000;

/// True time, and the registers.
struct Board {
    time_ns: Cell<u64>,
    /// What the register has lost, ticks.
    lost_ticks: Cell<u64>,
}

impl Board {
    fn pass(&self, ns: u64) {
        self.time_ns.set(self.time_ns.get() + ns);
    }

    /// The register: counts down, and is read in 250 ns.
    fn systick(&self) -> u32 {
        self.pass(250);
        let ticks = u128::from(self.time_ns.get()) * u128::from(HZ) / 1_000_000_000;
        let up = u64::try_from(ticks).unwrap() - self.lost_ticks.get();
        u32::try_from(!up & 0xff_ffff).unwrap()
    }

    /// Deep sleep: the register starts again at its reload value.
    fn reset_systick(&self) {
        let now = u64::from(!self.systick() & 0xff_ffff);
        self.lost_ticks.set(self.lost_ticks.get() + now);
    }

    fn truth_ns(&self) -> i64 {
        i64::try_from(self.time_ns.get()).unwrap()
    }
}

impl Reference for Board {
    fn monotonic_ns(&self) -> i64 {
        self.pass(250);
        let ticks = u128::from(self.time_ns.get()) * u128::from(RTC_HZ) / 1_000_000_000;
        i64::try_from(ticks * 1_000_000_000 / u128::from(RTC_HZ)).unwrap()
    }
    fn realtime_ns(&self) -> i64 {
        self.monotonic_ns()
    }
}

/// The board with its clock.
struct Rig<'a, C> {
    board: &'a Board,
    counter: C,
    clock: Shared<LineCell<7>>,
    control: Control,
    last_ns: i64,
}

fn new_board() -> Board {
    Board { time_ns: Cell::new(3_000_000_000), lost_ticks: Cell::new(0) }
}

fn new_rig(board: &Board) -> Rig<'_, impl Counter> {
    let reference_ns = i64::try_from(1_000_000_000_u64.div_ceil(RTC_HZ)).unwrap();
    let control = Control::new(Config {
        interval_ns: INTERVAL_NS,
        resolutions: Resolutions { counter_ticks: 1, reference_ns, resolution_ticks: 0 },
        renewal: Renewal::Ahead,
    });
    let counter = Extended::<BITS, _>::new(|| u64::from(!board.systick()));
    Rig { board, counter, clock: Shared::new(LineCell::with_shift()), control, last_ns: i64::MIN }
}

impl<C: Counter> Rig<'_, C> {
    /// Iterations when they are due and readings in between, for `ns`; each reading in order,
    /// and, if `exact`, within its bounds.
    fn run(&mut self, ns: u64, exact: bool) {
        let end_ns = self.board.time_ns.get() + ns;
        while self.board.time_ns.get() < end_ns {
            let outcome = self.control.maintain(&self.clock, &self.counter, self.board);
            if outcome.iteration == Iteration::Recovered {
                continue;
            }
            for _ in 0..5 {
                self.board.pass(outcome.next_in_ns / 5);
                self.read();
                assert!(!exact || self.is_within_bounds());
            }
        }
    }

    /// A reading, in order, and where it came from.
    fn read(&mut self) -> Source {
        let reading = self.clock.read_slow(&self.counter, self.board);
        assert!(reading.ns >= self.last_ns, "{} after {}", reading.ns, self.last_ns);
        self.last_ns = reading.ns;
        reading.source
    }

    /// By how much a reading is ahead of the truth, ns.
    fn lead_ns(&mut self) -> i64 {
        self.read();
        self.last_ns - self.board.truth_ns()
    }

    /// Whether the true time is within the bounds of a reading by the line; so if there is no line.
    fn is_within_bounds(&self) -> bool {
        let before_ns = self.board.truth_ns();
        let Some(reading) = self.clock.read_bounds_slow(&self.counter, self.board) else { return true };
        let (earliest_ns, latest_ns) = reading.bounds_ns();
        earliest_ns <= self.board.truth_ns() && before_ns <= latest_ns
    }

    fn is_published(&self) -> bool {
        self.clock.read(&self.counter).is_some()
    }
}

#[test]
fn a_clock_runs_through_many_wraps() {
    let board = new_board();
    let mut rig = new_rig(&board);
    rig.run(60 * WRAP_NS, true);
    assert!(rig.is_published());
    let hz = rig.clock.figures().frequency_hz.unwrap();
    assert!(hz.abs_diff(HZ) < 160, "{hz} Hz: more than 10 ppm off");
    for event in [Event::Disruption, Event::BoundViolation, Event::CounterReset] {
        assert_eq!(rig.clock.events(event), 0, "{}", event.name());
    }
}

/// A reading that comes first is late by the wrap, which it cannot detect. The next iteration is
/// right, and says so.
#[test]
fn a_missed_wrap_is_noticed_by_the_next_iteration() {
    let board = new_board();
    let mut rig = new_rig(&board);
    rig.run(5 * WRAP_NS, true);
    board.pass(WRAP_NS + INTERVAL_NS); // by the counter, one interval
    let late_ns = -rig.lead_ns();
    assert!(u64::try_from(late_ns).unwrap().abs_diff(WRAP_NS) < 200_000, "late by {late_ns} ns");
    rig.control.maintain(&rig.clock, &rig.counter, &board);
    assert_eq!(rig.clock.events(Event::Disruption), 1);
    assert_eq!(rig.clock.events(Event::StepForward), 1);
    assert!(rig.is_within_bounds() && rig.is_published());
    rig.run(5 * WRAP_NS, true);
    assert_eq!(rig.clock.events(Event::Disruption), 1, "once is enough");
}

#[test]
fn no_reading_is_wrong_if_an_iteration_comes_first_after_a_long_sleep() {
    let board = new_board();
    let mut rig = new_rig(&board);
    rig.run(5 * WRAP_NS, true);
    for wraps in 1..6 {
        board.pass(wraps * WRAP_NS + INTERVAL_NS);
        rig.run(3 * WRAP_NS, true);
        assert_eq!(rig.clock.events(Event::Disruption), wraps);
    }
}

/// The counter's value is past the window, so the reference serves at once.
#[test]
fn a_missed_wrap_and_a_passed_window_end_the_line() {
    let board = new_board();
    let mut rig = new_rig(&board);
    rig.run(5 * WRAP_NS, true);
    board.pass(WRAP_NS + 8 * INTERVAL_NS); // no line is valid for longer than 4 intervals
    assert!(matches!(rig.read(), Source::Reference { .. }));
    let lead_ns = rig.lead_ns();
    assert!(lead_ns.unsigned_abs() < 1_000_000_000 / RTC_HZ + 1_000, "off by {lead_ns} ns");
    assert_eq!(rig.clock.events(Event::Expiry), 1);
    rig.run(3 * WRAP_NS, true);
    assert!(rig.is_published());
}

/// The counter seems to have run from its old value up to the wrap. So the clock is ahead, never
/// goes back, and is slewed until it is right.
#[test]
fn a_register_that_was_reset_is_noticed_by_the_next_iteration() {
    let board = new_board();
    let mut rig = new_rig(&board);
    rig.run(5 * WRAP_NS, true);
    while rig.counter.now() & 0xff_ffff < (1 << BITS) - HZ / 10 {
        rig.run(10_000_000, true);
    }
    board.reset_systick();
    let lead_ns = rig.lead_ns();
    assert!((1_000_000..100_000_000).contains(&lead_ns), "ahead by {lead_ns} ns");
    rig.run(INTERVAL_NS / 16, false);
    assert_eq!(rig.clock.events(Event::Disruption), 1);
    // At half the rate it takes twice as long as it is ahead.
    rig.run(2 * lead_ns.unsigned_abs() + 2 * INTERVAL_NS, false);
    assert!(rig.is_within_bounds() && rig.is_published());
    rig.run(3 * WRAP_NS, true);
}

#[test]
fn a_difference_is_taken_modulo_a_wrap() {
    let register = Cell::new(u64::MAX);
    let counter = Extended::<16, _>::new(|| register.get());
    assert_eq!(counter.now(), 0xffff, "bits above do not count");
    register.set(4);
    assert_eq!(counter.now(), 0x1_0004);
    assert_eq!(counter.now_ordered(), 0x1_0004);
    register.set(3); // one short of a wrap
    assert_eq!(counter.now(), 0x2_0003);
    let widest = Extended::<63, _>::new(|| register.get());
    register.set(2);
    assert_eq!(widest.now(), (1 << 63) + 2);
}
