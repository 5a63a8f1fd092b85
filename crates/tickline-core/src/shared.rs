//! What readers and the writer share, and every reading that is not the inlined one.
//!
//! The rules of order that the functions below keep are numbered as in `DESIGN.md`, section "Order":
//!
//! - a reading from a line counts if the word is the same after the counter was read (rule 1);
//! - whoever finds a line's hard window passed, or the counter before it, makes the clock cold before anything else
//!   (rule 4), leaving a floor that no earlier reading can have exceeded (rule 5);
//! - whoever finds `closing` for longer than two microseconds makes the clock cold too: nobody waits for a preempted
//!   writer (rule 3);
//! - a cold reading is the reference or the floor, whichever is larger, and counts if the state is still the same after
//!   the reference was read (rule 6);
//! - a gate is a state of its own, so that no late writer can open it (rule 8);
//! - past the soft window the reference must vouch for a reading (rule 12): `floor.rs`.

use crate::cell::{Envelope, State, StateCell};
use crate::counter::Counter;
use crate::line::Line;
use crate::primitive::{AtomicU64, Ordering};
use crate::sample::{Point, Reference};
use crate::timeline::Timeline;
use crate::word::{Phase, Slot};

mod floor;
mod suspends;

/// How long a reader looks at a closing word before it goes on without the writer, ns: many times what a writer needs that
/// is not preempted (some 60 ns).
const CLOSING_NS: u64 = 2_000;

/// ...and how many looks it takes, in case the counter stands still or the line's slope is far from the truth. An ordered read
/// takes 5 ns at least, so a counter that goes on ends the wait before.
const CLOSING_LOOKS: u32 = 1_000;

/// Looks at an opening before a reader goes on without the writer. It is asking the reference meanwhile, which may take 2 us
/// (`acpi_pm`); a look takes 5 ns at least. No counter is read for this, because the clock is still cold.
const OPENING_LOOKS: u32 = if cfg!(loom) { 2 } else { 2_000 };

/// Something that happened to a clock, counted since it was made.
///
/// ```
/// use tickline_core::{cell::portable::PortableCell, shared::{Event, Shared}};
///
/// let clock = Shared::new(PortableCell::new());
/// for event in Event::ALL {
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
    Rescue,
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
    pub const ALL: [Self; 12] = [
        Self::Publication,
        Self::Recovery,
        Self::Expiry,
        Self::CounterReset,
        Self::Rescue,
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
            Self::Rescue => "rescue",
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

/// What the control loop last found, for status displays. Each figure is read on its own.
#[derive(Debug, Default)]
pub struct Gauges {
    /// The measured frequency of the counter, Hz; 0 before the first line.
    pub(crate) frequency_hz: AtomicU64,
    /// The stated limit of the reference's rate, ppb.
    pub(crate) rho_ppb: AtomicU64,
    /// The present interval between recalibrations, ns.
    pub(crate) interval_ns: AtomicU64,
    /// Line minus target at the last publication, ns, as the bits of an `i64`.
    pub(crate) offset_ns: AtomicU64,
    /// 1 while the line is off because reference or counter jumped; else 0.
    pub(crate) disrupted: AtomicU64,
}

impl Gauges {
    const fn new() -> Self {
        Self {
            frequency_hz: AtomicU64::new(0),
            rho_ppb: AtomicU64::new(0),
            interval_ns: AtomicU64::new(0),
            offset_ns: AtomicU64::new(0),
            disrupted: AtomicU64::new(0),
        }
    }

    /// The measured frequency of the counter, Hz; `None` before the first line.
    #[must_use]
    pub fn frequency_hz(&self) -> Option<u64> {
        // ORDERING: Relaxed, a figure on its own for display.
        Some(self.frequency_hz.load(Ordering::Relaxed)).filter(|&hz| hz != 0)
    }

    /// The stated limit of the reference's rate, ppb.
    #[must_use]
    pub fn rho_ppb(&self) -> u64 {
        // ORDERING: Relaxed, a figure on its own for display.
        self.rho_ppb.load(Ordering::Relaxed)
    }

    /// The present interval between recalibrations, ns.
    #[must_use]
    pub fn interval_ns(&self) -> u64 {
        // ORDERING: Relaxed, a figure on its own for display.
        self.interval_ns.load(Ordering::Relaxed)
    }

    /// Line minus target at the last publication, ns.
    #[must_use]
    pub fn offset_ns(&self) -> i64 {
        // ORDERING: Relaxed, a figure on its own for display.
        crate::units::signed(self.offset_ns.load(Ordering::Relaxed))
    }

    /// Whether the line is off because the reference or the counter jumped, and is still being brought back.
    #[must_use]
    pub fn is_disrupted(&self) -> bool {
        // ORDERING: Relaxed, a flag on its own for display.
        self.disrupted.load(Ordering::Relaxed) != 0
    }
}

/// Where a reading came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The line.
    Line {
        /// Time past the end of the soft window, ns; 0 inside it.
        overdue_ns: u64,
    },
    /// The reference clock.
    Reference {
        /// What the reference said, ns: the reading, unless the floor is larger.
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
    pub envelope: Envelope,
}

impl LineReading {
    /// The least and the most that the reference can be, ns, widened to contain the reading itself.
    #[must_use]
    pub fn bounds_ns(&self) -> (i64, i64) {
        // The envelope starts one counter step after its newest sample, so a prompt reading may come before it.
        let ticks = if crate::units::ticks_between(self.envelope.lower.start_ticks, self.ticks) < 0 {
            self.envelope.lower.start_ticks
        } else {
            self.ticks
        };
        (self.envelope.lower.at(ticks).min(self.ns), self.envelope.upper.at(ticks).max(self.ns))
    }
}

/// The memory that readers and the writer of one clock share. All zeros are a valid clock, cold, with floor 0.
#[derive(Debug, Default)]
pub struct Shared<S> {
    /// State, slopes and bounds.
    pub cell: S,
    /// Past lines.
    pub timeline: Timeline,
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
        self.read_with(|| counter.now())
    }

    /// As [`read`](Self::read), with the counter read after every earlier load.
    #[inline(always)]
    pub fn read_ordered(&self, counter: &impl Counter) -> Option<i64> {
        self.read_with(|| counter.now_ordered())
    }

    /// As [`read`](Self::read), in Unix time.
    #[inline(always)]
    pub fn read_unix(&self, counter: &impl Counter) -> Option<i64> {
        let state = self.cell.load();
        if !state.word.is_open() {
            return None;
        }
        let line = self.line(state);
        let unix_offset_ns = self.cell.unix_offset_ns(state.word.slot());
        let ticks = counter.now();
        self.confirms(state, ticks).then(|| line.at(ticks).wrapping_add(unix_offset_ns))
    }

    /// As [`read_ordered`](Self::read_ordered), with the bounds that belong to the line.
    #[inline]
    pub fn read_bounds(&self, counter: &impl Counter) -> Option<LineReading> {
        let state = self.cell.load();
        if !state.word.is_open() {
            return None;
        }
        let line = self.line(state);
        let envelope = self.cell.envelope(state.word.slot());
        let ticks = counter.now_ordered();
        self.confirms(state, ticks).then(|| LineReading { ticks, ns: line.at(ticks), envelope })
    }

    /// As [`read_bounds`](Self::read_bounds), also from a line that is guarded, or past its soft window: for the slow path.
    pub fn read_bounds_whole(
        &self,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Option<LineReading> {
        let state = self.cell.load_whole();
        if !state.word.is_live() {
            return None;
        }
        let line = self.line(state);
        let envelope = self.cell.envelope(state.word.slot());
        let ticks = counter.now_ordered();
        let in_use = !self.is_over(state, ticks, reference) && self.cell.load_whole().word == state.word;
        in_use.then(|| LineReading { ticks, ns: line.at(ticks), envelope })
    }

    /// A stamp: the counter, if the inlined path may use it now.
    #[inline(always)]
    pub fn stamp(&self, counter: &impl Counter) -> Option<u64> {
        let word = self.cell.word();
        if !word.is_open() {
            return None;
        }
        let ticks = counter.now();
        word.admits(ticks.wrapping_sub(word.ticks())).then_some(ticks)
    }

    #[inline(always)]
    fn read_with(&self, now_ticks: impl FnOnce() -> u64) -> Option<i64> {
        let state = self.cell.load();
        if !state.word.is_open() {
            return None;
        }
        let line = self.line(state);
        let ticks = now_ticks();
        self.confirms(state, ticks).then(|| line.at(ticks))
    }

    /// Rule 1, and the soft window: both are one branch.
    #[inline(always)]
    fn confirms(&self, state: State, ticks: u64) -> bool {
        // `&`, not `&&`: one branch that is never taken costs less than two.
        state.word.admits(ticks.wrapping_sub(state.word.ticks())) & (self.cell.word() == state.word)
    }

    /// The line of a live or closing state.
    #[inline(always)]
    pub fn line(&self, state: State) -> Line {
        Line {
            start_ticks: state.word.ticks(),
            base_ns: state.base_ns,
            slope: self.cell.slope(state.word.slot()),
        }
    }

    /// The slow path: whatever the state, an ordered reading. Never waits for another thread longer than two
    /// microseconds; lock-free: it repeats only when another thread has changed the state meanwhile.
    pub fn read_slow(&self, counter: &impl Counter, reference: &impl Reference) -> SlowReading {
        // The closing word that was seen, when, and how often.
        let mut closing: Option<(State, u64, u32)> = None;
        loop {
            let state = self.cell.load_whole();
            match state.word.phase() {
                Phase::Live | Phase::LiveGuarded => {
                    let line = self.line(state);
                    let ticks = counter.now_ordered();
                    if self.is_over(state, ticks, reference) {
                        self.expire(state, &line, ticks, None, reference);
                    } else if self.cell.word() == state.word {
                        let soft_end = line.start_ticks.wrapping_add(state.word.soft_ticks());
                        let ns = line.at(ticks);
                        let overdue_ns = u64::try_from(ns.saturating_sub(line.at(soft_end))).unwrap_or(0);
                        return SlowReading { ns, source: Source::Line { overdue_ns } };
                    }
                }
                Phase::Closing => match closing {
                    Some((seen, since_ticks, looks)) if seen == state => {
                        if self.is_early(state, since_ticks, looks, counter) {
                            closing = Some((seen, since_ticks, looks.saturating_add(1)));
                            crate::primitive::spin_loop();
                        } else if self.finish_closing(state, counter, reference) {
                            self.count(Event::Rescue);
                        }
                    }
                    _ if state.word.is_opening() => closing = Some((state, 0, 0)),
                    // A closing word follows a live one, so the counter may be read.
                    _ => closing = Some((state, counter.now_ordered(), 0)),
                },
                Phase::Cold => {
                    let reference_ns = reference.monotonic_ns();
                    counter.barrier();
                    // Rule 6: a line that was published meanwhile may already be above this.
                    if self.cell.load_whole() == state {
                        let source = Source::Reference { reference_ns };
                        return SlowReading { ns: reference_ns.max(state.base_ns), source };
                    }
                }
            }
        }
    }

    /// Rule 3: whether a writer may still be under way that had begun at `since_ticks` or before, so many `looks` ago.
    fn is_early(&self, state: State, since_ticks: u64, looks: u32, counter: &impl Counter) -> bool {
        if state.word.is_opening() {
            return looks < OPENING_LOOKS;
        }
        let patience_ticks = self.line(state).slope.ticks_in(CLOSING_NS);
        counter.now_ordered().wrapping_sub(since_ticks) <= patience_ticks && looks < CLOSING_LOOKS
    }

    /// Rules 4 and 5: makes the clock cold because the `line` of `state` does not count for `ticks`, which were read after it
    /// ([`is_over`](Self::is_over)). Closes it first: nobody reads it any more when the floor is taken. `ticks` alone do not say
    /// so where the reference does not vouch for them yet, or where a writer's thread was moved to another CPU's counter.
    /// `newest` is as for [`floor`](Self::floor).
    pub(crate) fn expire(
        &self,
        state: State,
        line: &Line,
        ticks: u64,
        newest: Option<Point>,
        reference: &impl Reference,
    ) {
        if !self.cell.retire(state, state.word.closing(), state.base_ns) {
            return;
        }
        let reset = crate::units::ticks_between(line.start_ticks, ticks) < 0;
        self.count(if reset { Event::CounterReset } else { Event::Expiry });
        let closing = State { word: state.word.closing(), ..state };
        let end_ticks = line.start_ticks.wrapping_add(state.word.hard_ticks());
        // Within the window, other readers may have been later than this.
        let ticks = if reset { ticks } else { end_ticks };
        self.finish_closing_at(closing, ticks, newest, reference);
    }

    /// Rule 5: closing -> cold, with a tick read after `closing` was seen: no reading of the old line that counts was made
    /// later. An opening goes back to where it came from. Returns whether this call did it.
    pub fn finish_closing(&self, state: State, counter: &impl Counter, reference: &impl Reference) -> bool {
        // While a clock is opening its counter is of no use here, and is left alone.
        let ticks = if state.word.is_opening() { 0 } else { counter.now_ordered() };
        self.finish_closing_at(state, ticks, None, reference)
    }

    /// As [`finish_closing`](Self::finish_closing), with `ticks` from whoever has read the counter, and `newest` as for
    /// [`floor`](Self::floor).
    pub(crate) fn finish_closing_at(
        &self,
        state: State,
        ticks: u64,
        newest: Option<Point>,
        reference: &impl Reference,
    ) -> bool {
        if state.word.is_opening() {
            return self.cell.retire(state, state.word.given_up(), state.base_ns);
        }
        let (floor_ticks, floor_ns) = self.floor(state, &self.line(state), ticks, newest, reference);
        self.cell.retire(state, state.word.cold(floor_ticks), floor_ns)
    }

    /// Rule 8: closes the gate. When this returns, no reading that begins later uses the counter, until
    /// [`open_gate`](Self::open_gate). Returns whether the gate was open before.
    pub fn close_gate(&self, counter: &impl Counter, reference: &impl Reference) -> bool {
        let mut was_open = false;
        loop {
            let state = self.cell.load_whole();
            match (state.word.phase(), state.word.is_gated()) {
                (Phase::Cold, true) => return was_open,
                (Phase::Closing, true) => {
                    self.finish_closing(state, counter, reference);
                }
                (_, _) => {
                    if self.cell.retire(state, state.word.gated(), state.base_ns) {
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
            let state = self.cell.load_whole();
            match (state.word.phase(), state.word.is_gated()) {
                (_, false) => return false,
                (Phase::Cold, true) => {
                    if self.cell.retire(state, state.word.ungated(), state.base_ns) {
                        self.count(Event::GateOpened);
                        return true;
                    }
                }
                (_, true) => {
                    self.finish_closing(state, counter, reference);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
