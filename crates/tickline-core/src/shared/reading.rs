//! The fast readings of a line, and the slow path behind them. `DESIGN.md`, section "Reading",
//! has their steps, and why each is there.
//!
//! All fast readings are one function, [`SharedClock::read_with`]. Its arguments say which
//! states it may use, and how to read counter and slot. Here the counter is the common one; in
//! [`per_cpu`](crate::per_cpu) it is this CPU's.

use super::{Event, SharedClock};
use crate::cell::{Bounds, StateCell, WindowedLine};
use crate::counter::Counter;
use crate::sample::Reference;
use crate::state::{LineState, Phase};

/// How long a reader waits while a line is being replaced before it helps, ns. A writer that is
/// not preempted needs some 60 ns.
const REPLACING_NS: u64 = 2_000;

/// How often such a reader loads the state before it helps, in case the counter stands still or the
/// line's slope is wrong. An ordered read takes at least 5 ns, so if the counter runs,
/// [`REPLACING_NS`] ends the wait first.
const REPLACING_LOADS: u32 = 1_000;

/// How often a reader loads the state during a first publication before it helps. The writer asks
/// the reference meanwhile, which may take 2 us (`acpi_pm`); a load takes at least 5 ns. The reader
/// must not read the counter to measure the time, because the clock has no line yet.
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

impl SlowReading {
    /// A reading of a line that is valid at `ticks`.
    fn by_line(line: &WindowedLine, ticks: u64) -> Self {
        let ns = line.at(ticks);
        let window_end_ticks = line.start_ticks.wrapping_add(line.window_ticks);
        let overdue_ns = u64::try_from(ns.saturating_sub(line.at(window_end_ticks))).unwrap_or(0);
        Self { ns, source: Source::Line { overdue_ns } }
    }
}

/// A reading from a line together with the bounds published with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundedReading {
    /// The counter, ticks.
    pub ticks: u64,
    /// The line's value there, ns.
    pub ns: i64,
    /// The bounds.
    pub bounds: Bounds,
}

impl BoundedReading {
    /// The least and the greatest time of the reference, ns, widened to contain the reading
    /// itself.
    #[inline]
    #[must_use]
    pub fn bounds_ns(&self) -> (i64, i64) {
        let Bounds { lower, upper, .. } = &self.bounds;
        (lower.at(self.ticks).min(self.ns), upper.at(self.ticks).max(self.ns))
    }
}

/// What a reading takes between its two looks at the state. The fields may be filled in either
/// order. A plain reading loads the slot first, while earlier instructions are still under way. An
/// ordered one reads the counter first: its barrier waits for every earlier load, and the loads
/// behind the counter cost no time.
struct Taken {
    /// Start and length of the window, from the slot, ticks.
    window: (u64, u64),
    /// The counter, ticks.
    ticks: u64,
}

impl<S: StateCell> SharedClock<S> {
    /// The fast path: the line at a plain read of the counter, ns, or `None` if the slow path
    /// must be taken. Does not read the counter unless there is a line.
    #[inline(always)]
    #[must_use]
    pub fn read(&self, counter: &impl Counter) -> Option<i64> {
        let (state, ticks) = self.read_with(LineState::allows_fast_path, |cell, state| Taken {
            window: cell.slot(state).window(),
            ticks: counter.now(),
        })?;
        Some(state.fast_at(S::SHIFT, ticks))
    }

    /// As [`read`](Self::read), with the counter read after every earlier load.
    #[inline(always)]
    #[must_use]
    pub fn read_ordered(&self, counter: &impl Counter) -> Option<i64> {
        let (state, ticks) = self.line_and_ticks(counter)?;
        Some(state.fast_at(S::SHIFT, ticks))
    }

    /// The counter, ticks, if [`read_ordered`](Self::read_ordered) would return a time.
    #[inline]
    #[must_use]
    pub fn read_ticks(&self, counter: &impl Counter) -> Option<u64> {
        Some(self.line_and_ticks(counter)?.1)
    }

    #[inline(always)]
    fn line_and_ticks(&self, counter: &impl Counter) -> Option<(LineState, u64)> {
        self.read_with(LineState::allows_fast_path, |cell, state| Taken {
            ticks: counter.now_ordered(),
            window: cell.slot(state).window(),
        })
    }

    /// As [`read`](Self::read), in Unix time; `None` also if the line leaves that to the OS.
    #[inline(always)]
    #[must_use]
    pub fn read_unix(&self, counter: &impl Counter) -> Option<i64> {
        let mut unix_b = 0;
        let (state, ticks) = self.read_with(LineState::allows_fast_unix, |cell, state| {
            let slot = cell.slot(state);
            let window = slot.window();
            unix_b = slot.unix_b();
            Taken { window, ticks: counter.now() }
        })?;
        Some(state.with_b(unix_b).fast_at(S::SHIFT, ticks))
    }

    /// As [`read_ordered`](Self::read_ordered), with the bounds that belong to the line.
    #[inline]
    #[must_use]
    pub fn read_bounds(&self, counter: &impl Counter) -> Option<BoundedReading> {
        // Filled in place, because each copy of `Bounds` costs stack.
        let mut bounds = Bounds::default();
        let (state, ticks) = self.read_with(LineState::allows_fast_path, |cell, state| {
            let ticks = counter.now_ordered();
            let slot = cell.slot(state);
            bounds = slot.bounds(state.b);
            // The window last: if the state came again meanwhile, a newer line's refuses this tick.
            Taken { ticks, window: slot.window() }
        })?;
        Some(BoundedReading { ticks, ns: state.fast_at(S::SHIFT, ticks), bounds })
    }

    /// A line that `serves`, and the ticks at which it was current. Rule 1: the state must be the
    /// same after `take` has read the counter and the slot.
    #[inline(always)]
    fn read_with(
        &self,
        serves: impl FnOnce(LineState) -> bool,
        take: impl FnOnce(&S, LineState) -> Taken,
    ) -> Option<(LineState, u64)> {
        let cell = crate::state::in_register(&self.cell);
        let state = cell.load();
        if !serves(state) {
            return None;
        }
        let Taken { window: (start_ticks, window_ticks), ticks } = take(cell, state);
        // Two-sided: a tick before the start wraps to a huge difference.
        if ticks.wrapping_sub(start_ticks) >= window_ticks || !cell.is_still(state) {
            return None;
        }
        Some((state, ticks))
    }

    /// As [`read_bounds`](Self::read_bounds), for the slow path: as long as the line is valid.
    #[must_use]
    pub fn read_bounds_while_valid(
        &self,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Option<BoundedReading> {
        let seen = self.cell.snapshot();
        if !seen.state.is_published() {
            return None;
        }
        let bounds = self.cell.slot(seen.state).bounds(seen.state.b);
        let ticks = counter.now_ordered();
        let in_use = !self.no_longer_counts(&seen, ticks, reference) && self.cell.is_still(seen.state);
        in_use.then(|| BoundedReading { ticks, ns: seen.at(ticks), bounds })
    }

    /// The slow path: an ordered reading, whatever the state. Waits at most two microseconds for a
    /// writer that replaces the line. Waits at most 2,000 loads of the state (10 us or more) for a
    /// writer that publishes a first line. Then it helps. Lock-free: it repeats only if another
    /// thread has changed the state meanwhile.
    pub fn read_slow(&self, counter: &impl Counter, reference: &impl Reference) -> SlowReading {
        let mut wait = Wait::default();
        loop {
            let unfinished = |seen: &WindowedLine| {
                if wait.is_long_enough(seen, counter) && self.help(seen, counter, reference) {
                    self.events.count(Event::Help);
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
        unfinished: impl FnOnce(&WindowedLine),
    ) -> Option<SlowReading> {
        let seen = self.cell.snapshot();
        let state = seen.state;
        match state.phase() {
            Phase::Published => {
                let ticks = ordered_ticks()?;
                if self.no_longer_counts(&seen, ticks, reference) {
                    self.expire(&seen, ticks, None, reference);
                    return None;
                }
                self.cell.is_still(state).then(|| SlowReading::by_line(&seen, ticks))
            }
            Phase::Replacing | Phase::FirstPublication => {
                unfinished(&seen);
                None
            }
            Phase::NoLine => {
                let reference_ns = reference.monotonic_ns();
                barrier();
                let source = Source::Reference { reference_ns };
                // Rule 6: a line that was published meanwhile may already be above this.
                self.cell
                    .is_still(state)
                    .then(|| SlowReading { ns: reference_ns.max(state.high_water_ns()), source })
            }
        }
    }
}

/// How long a reader has waited for a writer.
#[derive(Default)]
struct Wait {
    /// The state for which it waits, the tick at which it began, and how often it has loaded the
    /// state since.
    current: Option<(LineState, u64, u32)>,
}

impl Wait {
    /// Rule 3: whether the reader has waited long enough for the writer of the state in `seen`.
    fn is_long_enough(&mut self, seen: &WindowedLine, counter: &impl Counter) -> bool {
        let first = seen.state.phase() == Phase::FirstPublication;
        let Some((_, since_ticks, loads)) = self.current.filter(|(state, ..)| *state == seen.state) else {
            // A line that is being replaced was published before, so the counter may be read.
            let since_ticks = if first { 0 } else { counter.now_ordered() };
            self.current = Some((seen.state, since_ticks, 0));
            return false;
        };
        let early = if first {
            loads < FIRST_LOADS
        } else {
            let patience_ticks = seen.slope().ticks_in(REPLACING_NS);
            counter.now_ordered().wrapping_sub(since_ticks) <= patience_ticks && loads < REPLACING_LOADS
        };
        if early {
            self.current = Some((seen.state, since_ticks, loads.saturating_add(1)));
            crate::primitive::spin_loop();
        }
        !early
    }
}
