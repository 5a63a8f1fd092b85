//! What readers and the writer share, and every reading that is not the inlined one.
//!
//! The rules of order that the functions below keep are numbered as in `DESIGN.md`, section "Order":
//!
//! - a reading from a line counts if the word is the same after the counter was read (rule 1);
//! - whoever finds that a line is not valid any more, or the counter before it, makes the clock cold before anything else
//!   (rule 4), leaving a high-water mark that no earlier reading can have exceeded (rule 5);
//! - whoever finds `closing` for longer than two microseconds makes the clock cold too: nobody waits for a preempted
//!   writer (rule 3);
//! - a cold reading is the reference or the high-water mark, whichever is larger, and counts if the state is still the same after
//!   the reference was read (rule 6);
//! - a gate is a state of its own, so that no late writer can open it (rule 8);
//! - a stamp, whenever it is converted, is in order with the readings of its thread (rule 12).
//! - past the window the reference must vouch for a reading (rule 13): `floor.rs`.

use crate::cell::{Bounds, Published, State, StateCell};
use crate::counter::Counter;
use crate::primitive::{AtomicU64, Ordering};
use crate::sample::{Point, Reference};
use crate::timeline::{Conversion, Timeline, Unconverted};
use crate::units::{signed, ticks_between};
use crate::word::{FIRST_TICKS, Phase, Slot, Word};

mod gauges;
mod high_water;
mod suspends;

pub(crate) use gauges::Found;
pub use gauges::{BoundParts, Gauges};

/// How long a reader looks at a closing word before it goes on without the writer, ns: many times what a writer needs that
/// is not preempted (some 60 ns).
const REPLACING_NS: u64 = 2_000;

/// ...and how many looks it takes, in case the counter stands still or the line's slope is far from the truth. An ordered read
/// takes 5 ns at least, so a counter that goes on ends the wait before.
const REPLACING_LOADS: u32 = 1_000;

/// Looks at an opening before a reader goes on without the writer. It is asking the reference meanwhile, which may take 2 us
/// (`acpi_pm`); a look takes 5 ns at least. No counter is read for this, because the clock is still cold.
const FIRST_LOADS: u32 = if cfg!(loom) { 2 } else { 2_000 };

/// Something that happened to a clock, counted since it was made.
///
/// ```
/// use tickline_core::{cell::Latch, shared::{Event, Shared}};
///
/// let clock = Shared::new(Latch::new());
/// for event in Event::ALL.iter().copied() {
///     assert_eq!(clock.events(event), 0, "{}", event.name());
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A line replaced a line.
    Publication,
    /// A line followed a cold spell.
    Recovery,
    /// A reader or the writer found the window passed, and made the clock cold.
    Expiry,
    /// The counter was found before the start of the line: it was reset, or differs between CPUs.
    CounterReset,
    /// A reader found the writer preempted in the middle, and made the clock cold.
    Help,
    /// The clock was stepped forward to the reference.
    StepForward,
    /// The reference changed its rate by more than the samples allow; old ones were dropped.
    RateChange,
    /// The reference left the stated bounds.
    BoundViolation,
    /// The reference or the counter jumped.
    Disruption,
    /// Unix time was stepped.
    UnixStep,
    /// A gate was closed.
    GateClosed,
    /// A gate was opened again.
    GateOpened,
}

impl Event {
    /// Every event, in the order of their declaration.
    pub const ALL: &'static [Self] = &[
        Self::Publication,
        Self::Recovery,
        Self::Expiry,
        Self::CounterReset,
        Self::Help,
        Self::StepForward,
        Self::RateChange,
        Self::BoundViolation,
        Self::Disruption,
        Self::UnixStep,
        Self::GateClosed,
        Self::GateOpened,
    ];

    /// A stable name, in snake case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publication => "publication",
            Self::Recovery => "recovery",
            Self::Expiry => "expiry",
            Self::CounterReset => "counter_reset",
            Self::Help => "help",
            Self::StepForward => "step_forward",
            Self::RateChange => "rate_change",
            Self::BoundViolation => "bound_violation",
            Self::Disruption => "disruption",
            Self::UnixStep => "unix_step",
            Self::GateClosed => "gate_closed",
            Self::GateOpened => "gate_opened",
        }
    }
}

/// Where a reading came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The line.
    Line {
        /// Time past the end of the window of the inlined path, ns; 0 inside it.
        overdue_ns: u64,
    },
    /// The reference clock.
    Reference {
        /// What the reference said, ns: the reading, unless the high-water mark is larger.
        reference_ns: i64,
    },
}

/// A reading by the slow path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowReading {
    /// The monotonic time, ns.
    pub ns: i64,
    /// Where it came from.
    pub source: Source,
}

/// A reading from a line together with the bounds published with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineReading {
    /// The counter, ticks.
    pub ticks: u64,
    /// The line's value there, ns.
    pub ns: i64,
    /// The bounds.
    pub bounds: Bounds,
}

impl LineReading {
    /// The least and the most that the reference can be, ns, widened to contain the reading itself.
    #[inline]
    #[must_use]
    pub fn bounds_ns(&self) -> (i64, i64) {
        let Bounds { lower, upper, .. } = &self.bounds;
        (lower.at(self.ticks).min(self.ns), upper.at(self.ticks).max(self.ns))
    }
}

/// The memory that readers and the writer of one clock share. All zeros are a valid clock, cold, with high-water mark 0.
#[derive(Debug, Default)]
pub struct Shared<S> {
    /// State, slopes and bounds.
    pub cell: S,
    /// Past lines.
    pub(crate) timeline: Timeline,
    /// What the control loop last found.
    pub gauges: Gauges,
    suspends: suspends::Suspends,
    events: [AtomicU64; Event::ALL.len()],
}

impl<S> Shared<S> {
    /// A clock that is cold, around `cell`.
    #[must_use]
    pub const fn new(cell: S) -> Self {
        Self {
            cell,
            timeline: Timeline::new(),
            gauges: Gauges::new(),
            suspends: suspends::Suspends::new(),
            events: [const { AtomicU64::new(0) }; Event::ALL.len()],
        }
    }

    /// Notes for the line that is about to be published in `slot` how long the machine had been suspended before its samples.
    pub(crate) fn note_suspended(&self, slot: Slot, suspended_ns: Option<i64>) {
        self.suspends.note(slot, suspended_ns);
    }

    /// Counts an event.
    pub fn count(&self, event: Event) {
        if let Some(counter) = self.events.get(event as usize) {
            // ORDERING: Relaxed, a count that orders nothing.
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often `event` has happened.
    #[must_use]
    pub fn events(&self, event: Event) -> u64 {
        // ORDERING: Relaxed, a count that orders nothing.
        self.events.get(event as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}

impl<S: StateCell> Shared<S> {
    /// The inlined path: the line at a plain read of the counter, or `None` if the slow path must be taken. The counter
    /// is not touched unless the word is live.
    #[inline(always)]
    pub fn read(&self, counter: &impl Counter) -> Option<i64> {
        self.read_with(Word::is_published, S::published, || counter.now())
    }

    /// As [`read`](Self::read), with the counter read after every earlier load.
    #[inline(always)]
    pub fn read_ordered(&self, counter: &impl Counter) -> Option<i64> {
        self.read_with(Word::is_published, S::published, || counter.now_ordered())
    }

    /// As [`read`](Self::read), in Unix time; `None` also if the line leaves that to the OS.
    #[inline(always)]
    pub fn read_unix(&self, counter: &impl Counter) -> Option<i64> {
        self.read_with(Word::is_published_for_unix, S::published_unix, || counter.now())
    }

    /// As [`read_ordered`](Self::read_ordered), with the bounds that belong to the line.
    #[inline]
    pub fn read_bounds(&self, counter: &impl Counter) -> Option<LineReading> {
        let word = self.cell.word();
        if !word.is_published() {
            return None;
        }
        let published = self.cell.published(word);
        let bounds = self.cell.bounds(word);
        let ticks = counter.now_ordered();
        self.confirms(word, &published, ticks).then(|| LineReading {
            ticks,
            ns: published.line.at(ticks),
            bounds,
        })
    }

    /// As [`read_bounds`](Self::read_bounds), as long as the line is valid: for the slow path.
    pub fn read_bounds_slow(
        &self,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Option<LineReading> {
        let state = self.cell.load();
        if !state.word.is_published() {
            return None;
        }
        let bounds = self.cell.bounds(state.word);
        let ticks = counter.now_ordered();
        let in_use = !self.is_over(&state, ticks, reference) && self.cell.is_still(state.word);
        in_use.then(|| LineReading { ticks, ns: state.line.at(ticks), bounds })
    }

    /// A stamp: the counter, if the inlined path may use it now. [`stamp_to_ns`](Self::stamp_to_ns) converts it.
    ///
    /// There is no second look at the word, which would cost as much as the rest: a stamp that was taken late is sorted out
    /// when it is converted. One that the CPU took early, before it had loaded the word, cannot be: so that none is
    /// converted with the line before, they begin two granules after the line's start, which is after its publication.
    #[inline(always)]
    pub fn stamp(&self, counter: &impl Counter) -> Option<u64> {
        let word = self.cell.word();
        if !word.is_published() {
            return None;
        }
        let window_ticks = self.cell.published(word).window_ticks;
        let ticks = counter.now();
        let delta = ticks.wrapping_sub(word.to_bits()).wrapping_sub(FIRST_TICKS);
        (delta < window_ticks).then_some(ticks)
    }

    #[inline(always)]
    fn read_with(
        &self,
        serves: impl FnOnce(Word) -> bool,
        published: impl FnOnce(&S, Word) -> Published,
        now_ticks: impl FnOnce() -> u64,
    ) -> Option<i64> {
        let word = self.cell.word();
        if !serves(word) {
            return None;
        }
        let published = published(&self.cell, word);
        let ticks = now_ticks();
        self.confirms(word, &published, ticks).then(|| published.line.at(ticks))
    }

    /// Rule 1, and the window. Two-sided: a tick before the start wraps to a huge difference.
    #[inline(always)]
    fn confirms(&self, word: Word, published: &Published, ticks: u64) -> bool {
        ticks.wrapping_sub(word.to_bits()) < published.window_ticks && self.cell.is_still(word)
    }

    /// The slow path: whatever the state, an ordered reading. Never waits for another thread longer than two
    /// microseconds; lock-free: it repeats only when another thread has changed the state meanwhile.
    pub fn read_slow(&self, counter: &impl Counter, reference: &impl Reference) -> SlowReading {
        // The closing or opening word that was seen, when, and how often.
        let mut waiting: Option<(Word, u64, u32)> = None;
        loop {
            let state = self.cell.load();
            let word = state.word;
            match word.phase() {
                Phase::Published => {
                    let ticks = counter.now_ordered();
                    if self.is_over(&state, ticks, reference) {
                        self.expire(&state, ticks, None, reference);
                    } else if self.cell.is_still(word) {
                        return line_reading(&state, ticks);
                    }
                }
                Phase::Replacing | Phase::FirstPublication => match waiting {
                    Some((seen, since_ticks, looks)) if seen == word => {
                        if self.is_early(&state, since_ticks, looks, counter) {
                            waiting = Some((seen, since_ticks, looks.saturating_add(1)));
                            crate::primitive::spin_loop();
                        } else if self.help(&state, counter, reference) {
                            self.count(Event::Help);
                        }
                    }
                    _ if word.phase() == Phase::FirstPublication => waiting = Some((word, 0, 0)),
                    // A closing word follows a live one, so the counter may be read.
                    _ => waiting = Some((word, counter.now_ordered(), 0)),
                },
                Phase::NoLine => {
                    let reference_ns = reference.monotonic_ns();
                    counter.barrier();
                    // Rule 6: a line that was published meanwhile may already be above this.
                    if self.cell.is_still(word) {
                        let source = Source::Reference { reference_ns };
                        return SlowReading { ns: reference_ns.max(state.high_water_ns()), source };
                    }
                }
            }
        }
    }

    /// Rule 12: a stamp in ns, by the line that was in use when it was taken. `None` if there has been no line yet.
    ///
    /// In order with all stamps and readings of the thread that took it, as long as its line is remembered. Waits for nobody,
    /// but where the stamp's line is being replaced at this moment: then it waits as a reading does.
    ///
    /// A thread may be stopped between its looks at the word and at the counter, and its line retired meanwhile. Readings that
    /// it makes then may be as low as the high-water mark, so the stamp is no later than that.
    pub fn stamp_to_ns(&self, ticks: u64, counter: &impl Counter, reference: &impl Reference) -> Option<i64> {
        loop {
            let state = self.cell.load();
            let word = state.word;
            let Conversion { ns, by_newest } = match self.timeline.convert(ticks, word.slot()) {
                Ok(conversion) => conversion,
                Err(Unconverted::NoLine) => return None,
                Err(Unconverted::Moved) => continue,
            };
            let passed = || ticks_between(state.line.start_ticks, ticks) >= signed(state.valid_ticks());
            let limit_ns = match word.phase() {
                Phase::NoLine => state.high_water_ns(),
                Phase::Replacing | Phase::FirstPublication if by_newest => {
                    // What comes of it, a line or a high-water mark, decides.
                    self.read_slow(counter, reference);
                    continue;
                }
                Phase::Published if by_newest && passed() => {
                    // Retires the line, unless these are ticks of the future, which nobody has taken.
                    self.read_slow(counter, reference);
                    i64::MAX
                }
                Phase::Replacing | Phase::FirstPublication | Phase::Published => i64::MAX,
            };
            if self.cell.is_still(word) {
                return Some(ns.min(limit_ns));
            }
        }
    }

    /// Rule 3: whether a writer may still be under way that had begun at `since_ticks` or before, so many `looks` ago.
    fn is_early(&self, state: &State, since_ticks: u64, looks: u32, counter: &impl Counter) -> bool {
        if state.word.phase() == Phase::FirstPublication {
            return looks < FIRST_LOADS;
        }
        let patience_ticks = state.line.slope.ticks_in(REPLACING_NS);
        counter.now_ordered().wrapping_sub(since_ticks) <= patience_ticks && looks < REPLACING_LOADS
    }

    /// Rules 4 and 5: makes the clock cold because the line of `state` does not count for `ticks`, which were read after it
    /// ([`is_over`](Self::is_over)). Closes it first: nobody reads it any more when the high-water mark is taken. `ticks` alone do not say
    /// so where the reference does not vouch for them yet, or where a writer's thread was moved to another CPU's counter.
    /// `newest` is as for [`high_water_ticks`](Self::high_water_ticks).
    pub(crate) fn expire(
        &self,
        state: &State,
        ticks: u64,
        newest: Option<Point>,
        reference: &impl Reference,
    ) {
        let closing = State { word: state.word.replacing(), ..*state };
        if !self.cell.swap(state.word, closing.word) {
            return;
        }
        let reset = ticks_between(state.line.start_ticks, ticks) < 0;
        self.count(if reset { Event::CounterReset } else { Event::Expiry });
        // Within the window, other readers may have been later than this.
        let ticks = if reset { ticks } else { state.end_ticks() };
        self.help_at(&closing, ticks, newest, reference);
    }

    /// Rule 5: closing -> cold, with a tick read after `closing` was seen: no reading of the old line that counts was made
    /// later. An opening goes back to where it came from. Returns whether this call did it.
    pub fn help(&self, state: &State, counter: &impl Counter, reference: &impl Reference) -> bool {
        // While a clock is opening its counter is of no use here, and is left alone.
        let ticks = if state.word.phase() == Phase::FirstPublication { 0 } else { counter.now_ordered() };
        self.help_at(state, ticks, None, reference)
    }

    /// As [`help`](Self::help), with `ticks` from whoever has read the counter, and `newest` as for
    /// [`high_water_ticks`](Self::high_water_ticks).
    pub(crate) fn help_at(
        &self,
        state: &State,
        ticks: u64,
        newest: Option<Point>,
        reference: &impl Reference,
    ) -> bool {
        if state.word.phase() == Phase::FirstPublication {
            return self.cell.swap(state.word, state.word.given_up());
        }
        self.cell
            .swap(state.word, state.word.without_line(self.high_water_ticks(state, ticks, newest, reference)))
    }

    /// Rule 8: closes the gate. When this returns, no reading that begins later uses the counter, until
    /// [`open_gate`](Self::open_gate). Returns whether the gate was open before.
    pub fn close_gate(&self, counter: &impl Counter, reference: &impl Reference) -> bool {
        let mut was_open = false;
        loop {
            let state = self.cell.load();
            match (state.word.phase(), state.word.is_gate_closed()) {
                (Phase::NoLine, true) => return was_open,
                (Phase::Replacing | Phase::FirstPublication, true) => {
                    self.help(&state, counter, reference);
                }
                (_, _) => {
                    if self.cell.swap(state.word, state.word.with_gate_closed()) {
                        self.count(Event::GateClosed);
                        was_open = true;
                    }
                }
            }
        }
    }

    /// Opens the gate again: the clock is cold until the next line. Returns whether the gate was closed before. Waits for
    /// nobody: a gate that somebody is still closing is closed first.
    pub fn open_gate(&self, counter: &impl Counter, reference: &impl Reference) -> bool {
        loop {
            let state = self.cell.load();
            match (state.word.phase(), state.word.is_gate_closed()) {
                (_, false) => return false,
                (Phase::NoLine, true) => {
                    if self.cell.swap(state.word, state.word.with_gate_open()) {
                        self.count(Event::GateOpened);
                        return true;
                    }
                }
                (_, true) => {
                    self.help(&state, counter, reference);
                }
            }
        }
    }
}

/// A reading of a line that is valid at `ticks`.
pub(crate) fn line_reading(state: &State, ticks: u64) -> SlowReading {
    let ns = state.line.at(ticks);
    let window_end_ticks = state.line.start_ticks.wrapping_add(state.window_ticks);
    let overdue_ns = u64::try_from(ns.saturating_sub(state.line.at(window_end_ticks))).unwrap_or(0);
    SlowReading { ns, source: Source::Line { overdue_ns } }
}

#[cfg(test)]
mod tests;
