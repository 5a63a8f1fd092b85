//! One generic reading of a line, and the slow path behind it.
//!
//! ```text
//! w = word                              // no line -> slow path
//! (base, slope, window) = slot(w)
//! t = counter
//! t - w >= window, or the word is another one now   -> slow path
//! otherwise                                         base + ((t - w) * slope >> 48)
//! ```
//!
//! A [`Kind`] says which read of the counter a reading makes, and what it takes from the slot.
//! The source of ticks is the common counter here, and the counter of this CPU in
//! [`per_cpu`](crate::per_cpu). The named functions only choose the two.

use super::{Event, Shared};
use crate::cell::{Bounds, Published, State, StateCell};
use crate::counter::Counter;
use crate::sample::Reference;
use crate::word::{Phase, Word};

/// How long a reader waits while a line is being replaced before it helps, ns. A writer that is
/// not preempted needs some 60 ns.
const REPLACING_NS: u64 = 2_000;

/// ...and how often it loads the word meanwhile, in case the counter stands still or the line's
/// slope is wrong. An ordered read takes 5 ns at least, so with a counter that runs the time ends
/// the wait first.
const REPLACING_LOADS: u32 = 1_000;

/// How often a reader loads the word during a first publication before it helps. The writer asks
/// the reference meanwhile, which may take 2 us (`acpi_pm`); a load takes 5 ns at least. The
/// clock has no line yet, so the reader must not read the counter.
const FIRST_LOADS: u32 = if cfg!(loom) { 2 } else { 2_000 };

/// Where a reading came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The line.
    Line {
        /// Time since the end of the window, ns; 0 inside it.
        overdue_ns: u64,
    },
    /// The reference clock.
    Reference {
        /// What the reference returned, ns: the reading, unless the high-water mark is larger.
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
    /// The least and the greatest time of the reference, ns, widened to contain the reading
    /// itself.
    #[inline]
    #[must_use]
    pub fn bounds_ns(&self) -> (i64, i64) {
        let Bounds { lower, upper, .. } = &self.bounds;
        (lower.at(self.ticks).min(self.ns), upper.at(self.ticks).max(self.ns))
    }
}

/// A kind of reading: which read of the counter it makes, and what it takes from a slot.
pub trait Kind {
    /// The result.
    type Reading;
    /// What it takes from the slot besides the line.
    type Extra;
    /// Whether the counter is read after every earlier load.
    const ORDERED: bool;

    /// Whether `word` names a line that serves this kind.
    #[inline(always)]
    fn serves(word: Word) -> bool {
        word.is_published()
    }

    /// The line.
    #[inline(always)]
    fn published(cell: &impl StateCell, word: Word) -> Published {
        cell.published(word)
    }

    /// Reads what this kind takes from the slot besides the line.
    fn extra(cell: &impl StateCell, word: Word) -> Self::Extra;

    /// The result, from the line's value `ns` at `ticks`.
    fn reading(ticks: u64, ns: i64, extra: Self::Extra) -> Self::Reading;
}

/// The monotonic time, ns, by a plain read of the counter.
#[derive(Debug)]
pub enum Plain {}

/// The monotonic time, ns, by an ordered read of the counter.
#[derive(Debug)]
pub enum Ordered {}

/// Unix time, ns, by a plain read of the counter. The line may leave it to the OS.
#[derive(Debug)]
pub enum Unix {}

/// The monotonic time by an ordered read of the counter, with the bounds that belong to the line.
#[derive(Debug)]
pub enum WithBounds {}

impl Kind for Plain {
    type Reading = i64;
    type Extra = ();
    const ORDERED: bool = false;

    #[inline(always)]
    fn extra(_cell: &impl StateCell, _word: Word) {}

    #[inline(always)]
    fn reading(_ticks: u64, ns: i64, (): ()) -> i64 {
        ns
    }
}

impl Kind for Ordered {
    type Reading = i64;
    type Extra = ();
    const ORDERED: bool = true;

    #[inline(always)]
    fn extra(_cell: &impl StateCell, _word: Word) {}

    #[inline(always)]
    fn reading(_ticks: u64, ns: i64, (): ()) -> i64 {
        ns
    }
}

impl Kind for Unix {
    type Reading = i64;
    type Extra = ();
    const ORDERED: bool = false;

    #[inline(always)]
    fn serves(word: Word) -> bool {
        word.is_published_for_unix()
    }

    #[inline(always)]
    fn published(cell: &impl StateCell, word: Word) -> Published {
        cell.published_unix(word)
    }

    #[inline(always)]
    fn extra(_cell: &impl StateCell, _word: Word) {}

    #[inline(always)]
    fn reading(_ticks: u64, ns: i64, (): ()) -> i64 {
        ns
    }
}

impl Kind for WithBounds {
    type Reading = LineReading;
    type Extra = Bounds;
    const ORDERED: bool = true;

    #[inline(always)]
    fn extra(cell: &impl StateCell, word: Word) -> Bounds {
        cell.bounds(word)
    }

    #[inline(always)]
    fn reading(ticks: u64, ns: i64, bounds: Bounds) -> LineReading {
        LineReading { ticks, ns, bounds }
    }
}

impl<S: StateCell> Shared<S> {
    /// The inlined path: the line at a plain read of the counter, or `None` if the slow path must
    /// be taken. Does not read the counter unless there is a line.
    #[inline(always)]
    pub fn read(&self, counter: &impl Counter) -> Option<i64> {
        self.read_as::<Plain>(counter)
    }

    /// As [`read`](Self::read), with the counter read after every earlier load.
    #[inline(always)]
    pub fn read_ordered(&self, counter: &impl Counter) -> Option<i64> {
        self.read_as::<Ordered>(counter)
    }

    /// As [`read`](Self::read), in Unix time; `None` also if the line leaves that to the OS.
    #[inline(always)]
    pub fn read_unix(&self, counter: &impl Counter) -> Option<i64> {
        self.read_as::<Unix>(counter)
    }

    /// As [`read_ordered`](Self::read_ordered), with the bounds that belong to the line.
    #[inline]
    pub fn read_bounds(&self, counter: &impl Counter) -> Option<LineReading> {
        self.read_as::<WithBounds>(counter)
    }

    /// A reading of kind `K` by the inlined path.
    #[inline(always)]
    pub fn read_as<K: Kind>(&self, counter: &impl Counter) -> Option<K::Reading> {
        self.read_line::<K>(|| if K::ORDERED { counter.now_ordered() } else { counter.now() }, 0)
    }

    /// A reading of the line at the tick that `ticks` returns, if it is at least `skipped_ticks`
    /// after the line's start. The window then ends later by as much. Rule 1: the word must be
    /// the same after `ticks` was called.
    #[inline(always)]
    pub(crate) fn read_line<K: Kind>(
        &self,
        ticks: impl FnOnce() -> u64,
        skipped_ticks: u64,
    ) -> Option<K::Reading> {
        let word = self.cell.word();
        if !K::serves(word) {
            return None;
        }
        let published = K::published(&self.cell, word);
        let extra = K::extra(&self.cell, word);
        let ticks = ticks();
        // Two-sided: a tick before the start wraps to a huge difference.
        let delta = ticks.wrapping_sub(word.to_bits()).wrapping_sub(skipped_ticks);
        (delta < published.window_ticks && self.cell.is_still(word))
            .then(|| K::reading(ticks, published.line.at(ticks), extra))
    }

    /// As [`read_bounds`](Self::read_bounds), but as long as the line is valid, for the slow
    /// path.
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

    /// The slow path: whatever the state, an ordered reading. Never waits for another thread
    /// longer than two microseconds; lock-free: it repeats only when another thread has changed
    /// the state meanwhile.
    pub fn read_slow(&self, counter: &impl Counter, reference: &impl Reference) -> SlowReading {
        let mut wait = Wait::default();
        loop {
            let unfinished = |state: &State| {
                if wait.is_over(state, counter) && self.help(state, counter, reference) {
                    self.count(Event::Help);
                }
            };
            let reading = self.try_read_slow(
                || Some(counter.now_ordered()),
                || counter.barrier(),
                reference,
                unfinished,
            );
            if let Some(reading) = reading {
                return reading;
            }
        }
    }

    /// One attempt of the slow path; `None` if another is needed. `ordered_ticks` returns `None`
    /// if this thread was moved away from this line's CPU. `unfinished` handles a line that is
    /// being replaced, or published for the first time.
    pub(crate) fn try_read_slow(
        &self,
        ordered_ticks: impl FnOnce() -> Option<u64>,
        barrier: impl FnOnce(),
        reference: &impl Reference,
        unfinished: impl FnOnce(&State),
    ) -> Option<SlowReading> {
        let state = self.cell.load();
        let word = state.word;
        match word.phase() {
            Phase::Published => {
                let ticks = ordered_ticks()?;
                if self.is_over(&state, ticks, reference) {
                    self.expire(&state, ticks, None, reference);
                    return None;
                }
                self.cell.is_still(word).then(|| line_reading(&state, ticks))
            }
            Phase::Replacing | Phase::FirstPublication => {
                unfinished(&state);
                None
            }
            Phase::NoLine => {
                let reference_ns = reference.monotonic_ns();
                barrier();
                let source = Source::Reference { reference_ns };
                // Rule 6: a line that was published meanwhile may already be above this.
                self.cell
                    .is_still(word)
                    .then(|| SlowReading { ns: reference_ns.max(state.high_water_ns()), source })
            }
        }
    }
}

/// How long a reader has waited for a writer.
#[derive(Default)]
struct Wait {
    /// The word for which it waits, the tick at which it began, and how often it has read the
    /// word since.
    current: Option<(Word, u64, u32)>,
}

impl Wait {
    /// Rule 3: whether the reader has waited long enough for the writer of `state`.
    fn is_over(&mut self, state: &State, counter: &impl Counter) -> bool {
        let first = state.word.phase() == Phase::FirstPublication;
        let Some((_, since_ticks, loads)) = self.current.filter(|(seen, ..)| *seen == state.word) else {
            // A line that is being replaced was published before, so the counter may be read.
            let since_ticks = if first { 0 } else { counter.now_ordered() };
            self.current = Some((state.word, since_ticks, 0));
            return false;
        };
        let early = if first {
            loads < FIRST_LOADS
        } else {
            let patience_ticks = state.line.slope.ticks_in(REPLACING_NS);
            counter.now_ordered().wrapping_sub(since_ticks) <= patience_ticks && loads < REPLACING_LOADS
        };
        if early {
            self.current = Some((state.word, since_ticks, loads.saturating_add(1)));
            crate::primitive::spin_loop();
        }
        !early
    }
}

/// A reading of a line that is valid at `ticks`.
fn line_reading(state: &State, ticks: u64) -> SlowReading {
    let ns = state.line.at(ticks);
    let window_end_ticks = state.line.start_ticks.wrapping_add(state.window_ticks);
    let overdue_ns = u64::try_from(ns.saturating_sub(state.line.at(window_end_ticks))).unwrap_or(0);
    SlowReading { ns, source: Source::Line { overdue_ns } }
}
