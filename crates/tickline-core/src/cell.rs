//! The cell: the memory in which a writer publishes lines for readers.
//!
//! The [`LineState`] is the line itself: 128 bits that are loaded and swapped as one. Next to it
//! are two slots. The state names one of them. A slot holds the parts of a line for which the state
//! has no room:
//!
//! - the first tick, and the number of ticks for which the line may be used,
//! - its `b` in Unix time,
//! - its bounds, and its evidence (rule 12 of `DESIGN.md`, section "Order").
//!
//! Only the writer stores to a slot, and never to the one that the state names.
//!
//! A line has five types on its way from the writer to a reading:
//!
//! | type | has | made by | used by |
//! |---|---|---|---|
//! | `Plan`, private to the control loop | target, bounds and interval of the next line | the writer, before it changes the state (`make_plan` in `control/publish.rs`) | the writer, which builds the next line by it |
//! | [`LineState`] | the line that readings use, as `m` and `b`, or the high-water mark; the tag | the writer; a thread that ends a line, bars or unbars the clock | every reading, which loads it twice |
//! | [`WindowedLine`] | a state, with the start and the window of its line | the writer, for the line that it builds; [`snapshot`](StateCell::snapshot), from the cell | the writer; a reading by the slow path; a thread that ends the line |
//! | [`NextLine`] | a `WindowedLine`, its bounds, and the time suspended | the writer, from the line that it has built and the plan | [`publish`](StateCell::publish), which fills a slot with it and swaps in its state |
//! | [`Line`] | a line that has a start, a value there and a slope | the writer, for the bounds of a plan; [`bounds`](SlotView::bounds), from a slot | a reading with bounds: each of the two [`Bounds`] is a `Line` |
//!
//! A reader loads the state, reads the counter and the slot, and loads the state again. The second
//! load proves that the line was current when the reader read the counter. Order needs this proof
//! (rule 1).
//!
//! # Protocol
//!
//! Only the holder of the clock's lock calls [`StateCell::publish`]; any thread may call
//! [`StateCell::try_swap`].
//!
//! | access | ordering | pairs with |
//! |---|---|---|
//! | reader: first load of the state | acquire | the writer's swap: the reader sees the slot's contents |
//! | reader: loads from the slot | relaxed | ordered by the first load before them and the second load behind them |
//! | reader: second load of the state | behind an acquire fence | the next writer's stores to the slot: a reader that has seen one of them also sees the swap before it |
//! | writer: stores to the slot | release | the reader's fence |
//! | any thread: swap of the state | acquire and release | both loads of the state |
//!
//! All that a reading without bounds loads is in one cache line.

use crate::line::{Line, Slope};
use crate::primitive::{AtomicI64, AtomicU64, Ordering};
use crate::sample::Point;
use crate::state::{AtomicState, LineState};

mod published;

pub use published::{Bounds, NextLine, RangeNs, WindowedLine};
pub(crate) use published::{Evidence, PlannedBounds, UnroundedLine};

/// The operations on the memory of one clock's state, as the [protocol](self#protocol) says.
///
/// [`LineCell`] is the memory. An implementation of your own wraps one, to observe the operations
/// or to stop a thread between two of them, as this repository's simulator does. It MUST pass each
/// operation on, in the order in which it is called. Otherwise readings may step back; they cause
/// no undefined behaviour.
///
/// ```
/// use core::cell::Cell;
/// use tickline_core::cell::{LineCell, NextLine, SlotView, StateCell};
/// use tickline_core::counter::Counter;
/// use tickline_core::reference::Reference;
/// use tickline_core::shared::SharedClock;
/// use tickline_core::state::LineState;
///
/// /// Counts the swaps of the state.
/// #[derive(Default)]
/// struct Counted { cell: LineCell, swaps: Cell<u32> }
///
/// impl StateCell for Counted {
///     fn load(&self) -> LineState { self.cell.load() }
///     fn is_still(&self, state: LineState) -> bool { self.cell.is_still(state) }
///     fn slot(&self, state: LineState) -> SlotView<'_> { self.cell.slot(state) }
///     fn try_swap(&self, from: LineState, to: LineState) -> bool {
///         self.swaps.set(self.swaps.get() + 1);
///         self.cell.try_swap(from, to)
///     }
///     fn publish(&self, from: LineState, next: &NextLine) -> bool {
///         self.swaps.set(self.swaps.get() + 1);
///         self.cell.publish(from, next)
///     }
/// }
///
/// # struct Machine;
/// # impl Counter for Machine {
/// #     fn now(&self) -> u64 { 5_000 }
/// #     fn barrier(&self) {}
/// # }
/// # impl Reference for Machine {
/// #     fn monotonic_ns(&self) -> i64 { 7_000 }
/// #     fn unix_ns(&self) -> i64 { 7_000 }
/// # }
/// # let (counter, reference) = (Machine, Machine);
/// let clock = SharedClock::new(Counted::default());
/// clock.bar(&counter, &reference);
/// clock.unbar(&counter, &reference);
/// assert_eq!(clock.cell().swaps.get(), 2);
/// ```
pub trait StateCell {
    /// The state: the first load, before the slot is read.
    fn load(&self) -> LineState;

    /// Whether the state is still `state`: the second load, after the slot and the counter were
    /// read.
    fn is_still(&self, state: LineState) -> bool;

    /// The slot of this state.
    fn slot(&self, state: LineState) -> SlotView<'_>;

    /// The state, and its line's start and window, in any phase.
    fn snapshot(&self) -> WindowedLine {
        let state = self.load();
        let window = self.slot(state).window();
        WindowedLine {
            state,
            start_ticks: window.start_ticks,
            window_ticks: window.length_ticks,
        }
    }

    /// Swaps `from` for `to`, which is not a published state. Any thread may call this. Returns
    /// whether it swapped.
    fn try_swap(&self, from: LineState, to: LineState) -> bool;

    /// Fills the slot named by the state of `next`, which must not be the one named by `from`, then
    /// swaps `from` for that state. Only the holder of the clock's lock may call this. Returns
    /// whether it swapped.
    fn publish(&self, from: LineState, next: &NextLine) -> bool;
}

/// The memory of one clock's state, for a [`SharedClock`](crate::shared::SharedClock).
///
/// A counter of 7.8125 MHz or less gets no line: see [`SHIFT`](crate::state::SHIFT).
///
/// ```
/// use tickline_core::{cell::LineCell, shared::SharedClock};
///
/// static CLOCK: SharedClock = SharedClock::new(LineCell::new());
/// assert_eq!(CLOCK.readings().figures().last_line, None, "none yet");
/// ```
#[derive(Debug)]
#[repr(C, align(64))]
pub struct LineCell {
    state: AtomicState,
    slots: Slots,
    bounds: [BoundsWords; 2],
}

/// The parts of the two slots that readings without bounds load. A reader indexes without a branch.
#[derive(Debug)]
#[repr(C)]
struct Slots {
    start_ticks: [AtomicU64; 2],
    window_ticks: [AtomicU64; 2],
    /// The `b` of Unix time, ready for use, so that a reading of Unix time costs no more than
    /// another.
    unix_b: [AtomicI64; 2],
}

/// The bounds, from the start of the line on, and the line's evidence.
#[derive(Debug)]
#[repr(C, align(64))]
struct BoundsWords {
    lower_base_ns: AtomicI64,
    lower_slope: AtomicU64,
    upper_base_ns: AtomicI64,
    upper_slope: AtomicU64,
    unix_bound_ns: AtomicU64,
    proven_ticks: AtomicU64,
    proven_ns: AtomicI64,
    suspended_ns: AtomicI64,
}

const _: () = assert!(
    size_of::<AtomicState>() != 16 || size_of::<LineCell>() == 192,
    "a reading without bounds loads one cache line, one with bounds loads two"
);

/// The stored value if the reference does not say how long the machine was suspended.
const UNKNOWN_SUSPENDED_NS: i64 = i64::MIN;

// ORDERING for loads from a slot: Relaxed. The first load of the state is Acquire, which keeps
// these loads behind it. The fence of the second load keeps them before it.
const SLOT_LOAD: Ordering = Ordering::Relaxed;

/// The ticks at which the fast path may use a line.
///
/// ```
/// use tickline_core::cell::Window;
///
/// let window = Window { start_ticks: u64::MAX, length_ticks: 3 }; // the counter wraps in it
/// assert!(window.contains(u64::MAX) && window.contains(1));
/// assert!(!window.contains(u64::MAX - 1) && !window.contains(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first tick of the window.
    pub start_ticks: u64,
    /// The length of the window, ticks.
    pub length_ticks: u64,
}

impl Window {
    /// Whether the fast path may use the line at `ticks`. The check is two-sided: a tick before the
    /// start wraps to a huge difference.
    #[inline(always)]
    #[must_use]
    pub const fn contains(&self, ticks: u64) -> bool {
        ticks.wrapping_sub(self.start_ticks) < self.length_ticks
    }
}

/// The slot of a state, which a [`StateCell`] returns. Its values count only if a second load finds
/// the state that the view was made for, as the values of a [snapshot](StateCell::snapshot) do.
/// Each load of the state needs a new view.
#[derive(Debug, Clone, Copy)]
pub struct SlotView<'a> {
    slots: &'a Slots,
    bounds: &'a [BoundsWords; 2],
    slot: usize,
    /// The `b` of the state.
    b: i64,
}

#[expect(
    clippy::indexing_slicing,
    reason = "0 or 1 of two; a match would compile to a branch in the hot path"
)]
impl SlotView<'_> {
    /// The window of the line.
    #[inline(always)]
    #[must_use]
    pub fn window(&self) -> Window {
        let length_ticks = self.slots.window_ticks[self.slot].load(SLOT_LOAD);
        Window {
            start_ticks: self.start_ticks(),
            length_ticks,
        }
    }

    #[inline(always)]
    fn start_ticks(&self) -> u64 {
        self.slots.start_ticks[self.slot].load(SLOT_LOAD)
    }

    /// The line's `b` in Unix time, ns.
    #[inline(always)]
    pub(crate) fn unix_b(&self) -> i64 {
        self.slots.unix_b[self.slot].load(SLOT_LOAD)
    }

    /// The bounds of the line.
    #[inline]
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let words = &self.bounds[self.slot];
        let start_ticks = self.start_ticks();
        let bound = |base: &AtomicI64, slope: &AtomicU64| Line {
            start_ticks,
            base_ns: base.load(SLOT_LOAD),
            slope: Slope {
                bits: slope.load(SLOT_LOAD),
            },
        };
        Bounds {
            lower: bound(&words.lower_base_ns, &words.lower_slope),
            upper: bound(&words.upper_base_ns, &words.upper_slope),
            unix_offset_ns: self.unix_b().wrapping_sub(self.b),
            unix_bound_ns: words.unix_bound_ns.load(SLOT_LOAD),
        }
    }

    /// The line's evidence.
    pub(crate) fn evidence(&self) -> Evidence {
        let words = &self.bounds[self.slot];
        let suspended_ns = words.suspended_ns.load(SLOT_LOAD);
        Evidence {
            proven: Point {
                ticks: words.proven_ticks.load(SLOT_LOAD),
                ns: words.proven_ns.load(SLOT_LOAD),
            },
            suspended_ns: Some(suspended_ns).filter(|ns| *ns != UNKNOWN_SUSPENDED_NS),
        }
    }

    /// Stores a line to this slot.
    pub(crate) fn fill(&self, next: &NextLine) {
        let NextLine {
            line,
            bounds: planned,
            suspended_ns,
        } = next;
        let base = planned.range_at(line.start_ticks);
        let bounds = &planned.rounded;
        let slot = self.slot;
        let words = &self.bounds[slot];
        // ORDERING: Release for all, pairs with the fence of the second load. A reader of the
        // slot's earlier line may have loaded one of these values. It then also sees the swap that
        // took that line out of use, so its second load finds another state.
        let order = Ordering::Release;
        self.slots.start_ticks[slot].store(line.start_ticks, order);
        self.slots.window_ticks[slot].store(line.window_ticks, order);
        self.slots.unix_b[slot].store(line.state.b.wrapping_add(bounds.unix_offset_ns), order);
        words.lower_base_ns.store(base.earliest_ns, order);
        words.lower_slope.store(bounds.lower.slope.bits, order);
        words.upper_base_ns.store(base.latest_ns, order);
        words.upper_slope.store(bounds.upper.slope.bits, order);
        words.unix_bound_ns.store(bounds.unix_bound_ns, order);
        words.proven_ticks.store(bounds.lower.start_ticks, order);
        words.proven_ns.store(
            bounds.lower.base_ns.saturating_sub(planned.resolution_ns),
            order,
        );
        words
            .suspended_ns
            .store(suspended_ns.unwrap_or(UNKNOWN_SUSPENDED_NS), order);
    }
}

impl BoundsWords {
    const fn new() -> Self {
        Self {
            lower_base_ns: AtomicI64::new(0),
            lower_slope: AtomicU64::new(0),
            upper_base_ns: AtomicI64::new(0),
            upper_slope: AtomicU64::new(0),
            unix_bound_ns: AtomicU64::new(0),
            proven_ticks: AtomicU64::new(0),
            proven_ns: AtomicI64::new(0),
            suspended_ns: AtomicI64::new(0),
        }
    }
}

impl LineCell {
    /// A cell without a line. The first reading may return any time, even a negative one.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_high_water_mark(i64::MIN)
    }

    /// A cell without a line, whose readings are not below `high_water_ns`.
    ///
    /// ```
    /// # use tickline_core::cell::LineCell;
    /// # use tickline_core::reference::Reference;
    /// # use tickline_core::shared::SharedClock;
    /// # struct Machine;
    /// # impl tickline_core::counter::Counter for Machine {
    /// #     fn now(&self) -> u64 { 5_000 }
    /// #     fn barrier(&self) {}
    /// # }
    /// # impl Reference for Machine {
    /// #     fn monotonic_ns(&self) -> i64 { -7_000 }
    /// #     fn unix_ns(&self) -> i64 { -7_000 }
    /// # }
    /// # let (counter, reference) = (Machine, Machine);
    /// assert_eq!(reference.monotonic_ns(), -7_000);
    /// let clock = SharedClock::new(LineCell::new());
    /// assert_eq!(clock.readings().now_ordered_ns(&counter, &reference), -7_000);
    /// let clock = SharedClock::new(LineCell::with_high_water_mark(0));
    /// assert_eq!(clock.readings().now_ordered_ns(&counter, &reference), 0);
    /// ```
    #[must_use]
    pub const fn with_high_water_mark(high_water_ns: i64) -> Self {
        Self {
            state: AtomicState::new(high_water_ns),
            slots: Slots {
                start_ticks: [const { AtomicU64::new(0) }; 2],
                window_ticks: [const { AtomicU64::new(0) }; 2],
                unix_b: [const { AtomicI64::new(0) }; 2],
            },
            bounds: [const { BoundsWords::new() }; 2],
        }
    }
}

impl Default for LineCell {
    /// As [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

impl StateCell for LineCell {
    #[inline(always)]
    fn load(&self) -> LineState {
        self.state.load()
    }

    #[inline(always)]
    fn is_still(&self, state: LineState) -> bool {
        self.state.is_still(state)
    }

    #[inline(always)]
    fn slot(&self, state: LineState) -> SlotView<'_> {
        SlotView {
            slots: &self.slots,
            bounds: &self.bounds,
            slot: state.slot(),
            b: state.b,
        }
    }

    fn try_swap(&self, from: LineState, to: LineState) -> bool {
        debug_assert!(!to.is_published(), "a line is published, not swapped in");
        self.state.try_swap(from, to)
    }

    fn publish(&self, from: LineState, next: &NextLine) -> bool {
        let state = next.line.state;
        debug_assert!(state.is_published(), "a state without a line is swapped in");
        self.slot(state).fill(next);
        self.state.try_swap(from, state)
    }
}

#[cfg(test)]
mod tests;
