//! The memory that readers and the writer share, and the operations that any thread may do: read,
//! retire a line, bar and unbar the clock.
//!
//! `DESIGN.md`, section "Order", states the rules of order. The functions here name the rules by
//! number.

use crate::cell::{LineCell, StateCell, WindowedLine};
use crate::counter::Counter;
use crate::primitive::AtomicI64;
use crate::reference::Reference;
use crate::sample::Point;
use crate::state::{LineState, Phase, has_atomics};
use crate::units::ticks_between;

pub(crate) mod events;
mod figures;
mod high_water;
mod reading;

pub use events::Event;
use events::EventCounters;
pub(crate) use figures::AtomicFigures;
pub use figures::{Figures, LineFigures, SampleAge};
#[cfg(all(test, loom))]
pub(crate) use reading::REPLACING_NS;
pub use reading::{BoundedReading, ReadingSource, SlowReading};

/// The memory that readers and the writer of one clock share. `S` is a [`LineCell`], or a
/// [`StateCell`] that wraps one. [`readings`](Self::readings) has the readings, the figures and the
/// events.
///
/// Every call for one clock, on every thread, MUST get the same counter and the same reference: the
/// register and the OS clock that are read must be the same, the values passed need not be. A line
/// converts only ticks of the counter that the control loop has sampled, and the high-water mark is
/// a time of the loop's reference. With another one, readings step back, and bounds do not contain
/// the reference; the behaviour is never undefined.
///
/// No type can demand that, because the values passed differ in type and over time. The control
/// loop of a CPU's line reads the counter with a check of the CPU; the line's readers read the
/// counter together with the CPU's id. And the program may forbid the reference some of its probes
/// later.
///
/// ```
/// use tickline_core::{cell::LineCell, shared::{ReadingSource, SharedClock}};
/// # use tickline_core::{counter::Counter, reference::Reference};
/// # struct Machine(core::sync::atomic::AtomicU64);
/// # impl Counter for Machine {
/// #     fn now(&self) -> u64 { self.0.fetch_add(10, core::sync::atomic::Ordering::Relaxed) }
/// #     fn barrier(&self) {}
/// # }
/// # impl Reference for Machine {
/// #     fn monotonic_ns(&self) -> i64 { self.now() as i64 }
/// #     fn unix_ns(&self) -> i64 { self.now() as i64 }
/// # }
/// # let (counter, reference) = (&Machine(5_000.into()), &Machine(7_000.into()));
///
/// static CLOCK: SharedClock = SharedClock::new(LineCell::new());
///
/// // Until a `Control` has published a line, the reference answers.
/// assert_eq!(CLOCK.readings().read_ordered_ns(counter), None);
/// let reading = CLOCK.readings().read_ordered_in_any_state(counter, reference);
/// assert!(matches!(reading.source, ReadingSource::Reference { reference_ns } if reference_ns == reading.ns));
/// ```
#[derive(Debug)]
pub struct SharedClock<S = LineCell> {
    readings: Readings<S>,
}

const _: () = assert!(
    core::mem::offset_of!(SharedClock, readings.cell) == 0 || cfg!(loom),
    "a reading would add an offset"
);

impl<S: Default> Default for SharedClock<S> {
    fn default() -> Self {
        Self::new(S::default())
    }
}

impl<S> SharedClock<S> {
    /// A clock that has no line yet, around `cell`.
    #[must_use]
    pub const fn new(cell: S) -> Self {
        Self {
            readings: Readings::new(cell),
        }
    }

    /// The part that a program may use beside the clock's driver.
    #[inline(always)]
    #[must_use]
    pub const fn readings(&self) -> &Readings<S> {
        &self.readings
    }

    /// State, slots and bounds. Any thread may read them, through [`StateCell`]. Only this clock
    /// and its [`Control`](crate::control::Control) swap or publish: another state there may break
    /// the order of readings.
    #[inline]
    #[must_use]
    pub const fn cell(&self) -> &S {
        &self.readings.cell
    }
}

/// The readings, the figures and the events of a clock. No [`Control`](crate::control::Control)
/// runs on this, and no method here bars or unbars the clock, or gives its cell away. Every call
/// MUST get the counter and the reference that [`SharedClock`] demands.
///
/// ```
/// use tickline_core::cell::LineCell;
/// use tickline_core::driver::DrivenClock;
/// use tickline_core::shared::SharedClock;
///
/// static CLOCK: DrivenClock = DrivenClock::new(SharedClock::new(LineCell::new()));
/// assert_eq!(CLOCK.readings().figures().last_line, None);
/// ```
#[derive(Debug)]
pub struct Readings<S> {
    /// State, slots and bounds.
    pub(crate) cell: S,
    pub(crate) figures: AtomicFigures,
    pub(crate) events: EventCounters,
    /// The latest time of the reference that has vouched for a line past its window, ns.
    vouched_ns: AtomicI64,
}

impl<S> Readings<S> {
    const fn new(cell: S) -> Self {
        Self {
            cell,
            figures: AtomicFigures::new(),
            events: EventCounters::new(),
            vouched_ns: AtomicI64::new(i64::MIN),
        }
    }

    /// The control loop's latest figures.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.figures.load()
    }

    /// The number of times that `event` has happened.
    #[must_use]
    pub fn event_count(&self, event: Event) -> u64 {
        self.events.get(event)
    }
}

impl<S: StateCell> Readings<S> {
    /// The state of the line: see [`StateCell::load`].
    #[inline]
    #[must_use]
    pub fn state(&self) -> LineState {
        self.cell.load()
    }

    /// Whether the state is still `state`, which [`state`](Self::state) has returned: see
    /// [`StateCell::is_still`].
    #[inline]
    #[must_use]
    pub fn is_still(&self, state: LineState) -> bool {
        self.cell.is_still(state)
    }
}

/// What it takes to change a clock: its memory, and the clocks that are read meanwhile.
pub(crate) struct Access<'a, S, C, R> {
    pub(crate) shared: &'a SharedClock<S>,
    pub(crate) counter: &'a C,
    pub(crate) reference: &'a R,
}

impl<S: StateCell, C: Counter, R: Reference> Access<'_, S, C, R> {
    /// Ends a line whose slope may be wrong. Readers get the OS clock until there is another line.
    pub(crate) fn retire_line(&self, line: &WindowedLine) {
        let readings = self.shared.readings();
        if let Some(replacing) = readings.announce(line) {
            readings.help(&replacing, self.counter, self.reference);
        }
    }
}

impl<S: StateCell> Readings<S> {
    /// Announces that `line` is replaced or ends (rules 2 and 4): from then on no second load
    /// confirms a reading of it. Returns the cell's new content; `None` if another thread has
    /// changed the state before.
    pub(crate) fn announce(&self, line: &WindowedLine) -> Option<WindowedLine> {
        let replacing = WindowedLine {
            state: line.state.replacing(),
            ..*line
        };
        self.cell
            .try_swap(line.state, replacing.state)
            .then_some(replacing)
    }

    /// Rules 4 and 5: retires `line`, which may not be used for `ticks`
    /// ([`may_use`](Self::may_use)). First changes the state, so that no reading of the line
    /// counts any more when the high-water mark is computed. `ticks` may still be within the line's
    /// validity, if the reference does not vouch for them, or if a writer's thread was moved to
    /// another CPU's counter. `newest` is as for [`high_water_ns`](Self::high_water_ns).
    pub(crate) fn retire_unusable(
        &self,
        line: &WindowedLine,
        ticks: u64,
        newest: Option<Point>,
        reference: &impl Reference,
    ) {
        let Some(replacing) = self.announce(line) else {
            return;
        };
        let is_reset = ticks_between(line.start_ticks, ticks) < 0;
        self.events.count(if is_reset {
            Event::CounterReset
        } else {
            Event::Expiry
        });
        // Without a reset, readings by other threads may have later ticks than `ticks`.
        let ticks = if is_reset {
            ticks
        } else {
            line.validity_end_ticks()
        };
        self.help_at(&replacing, || ticks, newest, reference);
    }

    /// Rule 5: retires a line that is being replaced, with a tick that is read after the state was
    /// seen. No reading of the old line that counts is later than this tick by more than the
    /// margin. A first publication goes back to the state before it. Returns whether this call
    /// changed the state.
    pub(crate) fn help(
        &self,
        snapshot: &WindowedLine,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> bool {
        self.help_at(snapshot, || counter.now_ordered(), None, reference)
    }

    /// Does the same as [`help`](Self::help), with a tick from the caller. The end of a first
    /// publication needs none. `newest` is as for [`high_water_ns`](Self::high_water_ns).
    pub(crate) fn help_at(
        &self,
        snapshot: &WindowedLine,
        ticks: impl FnOnce() -> u64,
        newest: Option<Point>,
        reference: &impl Reference,
    ) -> bool {
        let state = snapshot.state;
        let next = if state.phase() == Phase::FirstPublication {
            state.given_up()
        } else {
            state.without_line(self.high_water_ns(snapshot, ticks(), newest, reference))
        };
        self.cell.try_swap(state, next)
    }
}

impl<S: StateCell> SharedClock<S> {
    /// Rule 8: bars the clock, and ends its line. When this returns, no reading that begins later
    /// uses the counter, until [`unbar`](Self::unbar). An iteration of the control loop that has
    /// begun before may still read the counter, but publishes nothing. Waits for no thread. Returns
    /// whether this call has barred the clock; `false` without [`has_atomics`], where a clock never
    /// has a line.
    pub fn bar(&self, counter: &impl Counter, reference: &impl Reference) -> bool {
        if !has_atomics() {
            return false; // such a clock never has a line
        }
        let readings = &self.readings;
        let mut has_barred = false;
        loop {
            let snapshot = readings.cell.snapshot();
            match (snapshot.state.phase(), snapshot.state.is_barred()) {
                (Phase::NoLine, true) => return has_barred,
                (Phase::Replacing | Phase::FirstPublication, true) => {
                    readings.help(&snapshot, counter, reference);
                }
                (_, _) => {
                    let barred = snapshot.state.barred();
                    if readings.cell.try_swap(snapshot.state, barred) {
                        readings.events.count(Event::GateClosed);
                        has_barred = true;
                    }
                }
            }
        }
    }

    /// Lets lines be published again. Only for a clock without a [keeper](crate::gate::keeper): a
    /// [`DrivenClock`](crate::driver::DrivenClock) has one, and gives out only the [`Readings`]
    /// (rule K2). The clock has no line until then. Returns whether it was barred. Waits for no
    /// thread: if another thread is still in [`bar`](Self::bar), this call first does the rest of
    /// that.
    pub fn unbar(&self, counter: &impl Counter, reference: &impl Reference) -> bool {
        let readings = &self.readings;
        loop {
            let snapshot = readings.cell.snapshot();
            match (snapshot.state.phase(), snapshot.state.is_barred()) {
                (_, false) => return false,
                (Phase::NoLine, true) => {
                    let unbarred = snapshot.state.unbarred();
                    if readings.cell.try_swap(snapshot.state, unbarred) {
                        readings.events.count(Event::GateOpened);
                        return true;
                    }
                }
                (_, true) => {
                    readings.help(&snapshot, counter, reference);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
