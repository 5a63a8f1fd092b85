//! The invariants, checked at the end of every reading and every iteration. A violation panics;
//! the scheduler reports it.
//!
//! | invariant | where |
//! |---|---|
//! | an ordered reading that was complete before another began is never larger | [`Check::check_reading`] |
//! | a retired line leaves a high-water mark that is not below the times returned | [`SteppedCell`](crate::world::SteppedCell) |
//! | no thread's own readings decrease, of any kind | [`Check::check_reading`] |
//! | a line was in use when the counter was read, and its window had not passed | [`Check::check_line`] |
//! | no reading that began while the counter was switched off used the counter | [`Check::check_reading`] |
//! | a clock that nothing keeps barred is unbarred within a few iterations | [`Check::count_barred_iteration`] |
//! | a reading is the time of its line; if each CPU has a line, it is the line of the reading's CPU | [`Check::check_line`] |
//! | offsets stay within the limit of the scenario | [`Check::check_offset`] |
//! | the bound holds whenever its assumption holds | [`Check::check_bounds`] |
//! | after a fault the clock is fast again in time, unless it is switched off, or a gate is closed by the facts | [`Check::check_line_is_back`] |

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use tickline_core::cell::{Bounds, RangeNs, Window};
use tickline_core::shared::BoundedReading;
use tickline_core::state::LineState;

use crate::limits::Limits;
use crate::machine::{PS, PS_PER_S};
use crate::scenario::MAX_CPUS;
use crate::world::{MAX_ACTORS, World};

/// The smallest difference between the rates of two bounds, ppb: 5 to either side, less the error
/// of rounding. It does not include the kernel's dither, which has a range of its own in the
/// bounds.
const MIN_SPREAD_PPB: u128 = 9;

/// The number of iterations that may find the clock barred after the last act on it. One waits
/// until the facts are judged again. One judges them. One finds the effect of a late act.
const MAX_BARRED: u64 = 3;

/// The longest wait for the evidence of bounds, ps. A choice, not a measurement: longer than any
/// stall of a random scenario (`Chance::stall_ns`). An iteration may take longer, because suspends
/// add up. Its bounds are then not judged.
const MAX_PENDING_PS: u64 = 100 * PS_PER_S;

/// The cell of a clock with one line.
pub(crate) const ONE_LINE: usize = 0;

/// The kinds of readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadKind {
    Plain,
    Ordered,
    Bounds,
    Unix,
    /// A reading by the slow path at once.
    Slow,
}

/// The path and the clock of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPath {
    FastPath,
    SlowPathByLine,
    SlowPathByReference,
}

/// The facts at the beginning of a reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begin {
    high_water_ns: [i64; MAX_CPUS],
    /// If the counter was switched off: the number of calls of `enable()` that had begun.
    off_since: Option<u64>,
}

/// Bounds that the simulator can't judge yet, because it does not know their evidence.
struct Pending {
    from_ps: u64,
    cell: usize,
    reading: BoundedReading,
    truth_ns: i64,
}

pub(crate) struct Check {
    world: Rc<World>,
    limits: Limits,
    own_last_ns: [[Cell<i64>; MAX_CPUS]; MAX_ACTORS],
    /// Whether the counter must be off: a `disable()` that no `enable()` overlapped has returned,
    /// and no `enable()` has begun since.
    is_off: Cell<bool>,
    /// The numbers of calls of `enable()` that have begun, and that have not returned.
    enables_begun: Cell<u64>,
    enables_under_way: Cell<u64>,
    /// Calls of the program that bar the clock, or have it judged, and have not returned.
    pub(crate) acts_under_way: Cell<u64>,
    /// Iterations in a row that could not make a line because the clock was barred, though nothing
    /// speaks against a line.
    pub(crate) barred: Cell<u64>,
    /// The end of the last fault, ps.
    pub(crate) disturbed_ps: Cell<u64>,
    /// The time of the last step of Unix time, ps.
    pub(crate) unix_step_ps: Cell<u64>,
    pending: RefCell<Vec<Pending>>,
    /// The points of a plot.
    pub(crate) track: RefCell<Vec<TrackPoint>>,
}

/// One point of a plot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrackPoint {
    /// Simulated time, ns.
    pub at_ns: u64,
    /// Reading minus reference, ns.
    pub offset_ns: i64,
    /// The lower bound minus the reference, ns; at most 0 if it holds.
    pub earliest_ns: i64,
    /// The upper bound minus the reference, ns; at least 0 if it holds.
    pub latest_ns: i64,
    /// Unix time by the line minus Unix time, ns.
    pub unix_offset_ns: i64,
    /// The CPU, where each has a line of its own; else 0.
    pub cpu: usize,
    /// The iterations of the control loop so far, summed over all CPUs.
    pub iterations: u64,
    /// Whether the reading came from a line.
    pub by_line: bool,
}

impl Check {
    pub(crate) fn new(world: Rc<World>) -> Self {
        let limits = Limits::new(&world.scenario);
        Self {
            world,
            limits,
            own_last_ns: [const { [const { Cell::new(i64::MIN) }; MAX_CPUS] }; MAX_ACTORS],
            is_off: Cell::new(false),
            enables_begun: Cell::new(0),
            enables_under_way: Cell::new(0),
            acts_under_way: Cell::new(0),
            barred: Cell::new(0),
            disturbed_ps: Cell::new(0),
            unix_step_ps: Cell::new(0),
            pending: RefCell::default(),
            track: RefCell::default(),
        }
    }

    /// Records the facts at the beginning of a reading.
    pub(crate) fn begin(&self) -> Begin {
        Begin {
            high_water_ns: core::array::from_fn(|cell| {
                self.world
                    .cells
                    .get(cell)
                    .map_or(i64::MIN, |cell| cell.returned_ns.get())
            }),
            off_since: self.is_off.get().then(|| self.enables_begun.get()),
        }
    }

    /// Checks a complete reading of `ns` by a cell.
    pub(crate) fn check_reading(
        &self,
        begin: Begin,
        cell: usize,
        ns: i64,
        path: ReadPath,
        kind: ReadKind,
    ) {
        let world = &self.world;
        // The slow path orders plain readings, too.
        let is_ordered = kind != ReadKind::Plain || path != ReadPath::FastPath;
        let is_by_line = path != ReadPath::SlowPathByReference;
        if is_by_line {
            // Past the window, the reader reads the reference after the counter. The line's read
            // counts.
            world.me().last_read.set(world.me().counter_read.get());
        }
        let me = world.running.get();
        let last_read = world.me().last_read.get();
        let loaded = world.me().loaded.get();
        let is_before_reset = |(state, at_ps)| state == loaded.state && last_read.at_ps > at_ps;
        if is_by_line && world.cells[cell].reset.get().is_some_and(is_before_reset) {
            // No thread has read since the counter started again, and the counter is now back in
            // the window of the old line. No reader can detect this reset.
            world.is_over.set(true);
            return;
        }
        let step_back_ns = self.limits.step_back_ns;
        let high_water_ns = begin.high_water_ns[cell];
        assert!(
            !is_ordered || ns >= high_water_ns.saturating_sub(step_back_ns),
            "order: {ns} ns, though {high_water_ns} ns had been returned before it began: {} ns back",
            high_water_ns - ns
        );
        let last_ns = self.own_last_ns[me][cell].replace(ns);
        assert!(
            ns >= last_ns.saturating_sub(step_back_ns),
            "order within a thread: {ns} ns after {last_ns} ns: {} ns back",
            last_ns - ns
        );
        if is_by_line {
            self.check_line(cell, ns, path);
            self.check_not_while_off(begin);
        }
        world.counts.borrow_mut().by_line += u64::from(is_by_line);
        world.counts.borrow_mut().by_reference += u64::from(!is_by_line);
        if is_ordered {
            let returned_ns = &world.cells[cell].returned_ns;
            returned_ns.set(returned_ns.get().max(ns));
        }
        self.check_offset(ns - last_read.returned_ns, last_read.at_ps);
    }

    /// Checks the line of a reading of `ns`. The line must belong to the cell whose counter the
    /// reading used, and must hold at the tick of the reading.
    fn check_line(&self, cell: usize, ns: i64, path: ReadPath) {
        let world = &self.world;
        let loaded = world.me().loaded.get();
        let last_read = world.me().last_read.get();
        let state = loaded.state;
        let own = &world.cells[cell];
        assert!(
            last_read.cell == cell,
            "the line of CPU {cell} at the counter of CPU {}",
            last_read.cell
        );
        let by_state = own.by_state.borrow();
        let Some(&(line, since_ps)) = by_state.get(&state) else {
            panic!("a line that cell {cell} never had: {state:?}");
        };
        let by_line_ns = line.ns_at(last_read.ticks);
        assert!(
            ns == by_line_ns,
            "{ns} ns by cell {cell}, by its line it is {by_line_ns} ns"
        );
        if path == ReadPath::FastPath && world.scenario.clock.per_cpu {
            // The reader reads the counter before the state. A line that was published in between
            // holds from its predecessor's end on. The two may differ by as long as the counter
            // shows the same value.
            let machine = &world.scenario.machine;
            let moves_ps =
                2 * (machine.counter_resolution_ticks + 1) * PS_PER_S / machine.counter_hz;
            let at_ps = last_read.at_ps;
            assert!(
                at_ps + moves_ps >= since_ps,
                "a line of {since_ps} ps, read at {at_ps} ps: {state:?}"
            );
        } else {
            // The state may have recurred before the reading's second load.
            let is_in_use = last_read.state == state || own.lives(state) != loaded.life;
            assert!(
                is_in_use,
                "a line that was not in use: {state:?}, in use was {:?}",
                last_read.state
            );
        }
        let Window {
            start_ticks,
            length_ticks,
        } = loaded.window.expect("a reading reads the slot");
        let max_ticks = if path == ReadPath::FastPath {
            length_ticks
        } else {
            2 * length_ticks
        };
        let delta = last_read.ticks.wrapping_sub(start_ticks);
        assert!(
            state.is_published() && delta < max_ticks,
            "an expired line: {delta} ticks of {max_ticks}, {state:?}"
        );
    }

    /// Compares an offset with the limits. Closer limits hold if nothing had disturbed the clock
    /// for a while when this thread last read a clock. The reading may be complete much later.
    fn check_offset(&self, offset_ns: i64, read_ps: u64) {
        let mut counts = self.world.counts.borrow_mut();
        let off_ns = offset_ns.unsigned_abs();
        let limits = &self.limits;
        counts.offset_ns = counts.offset_ns.max(off_ns);
        if let Some(limit_ns) = limits.offset_ns {
            assert!(
                off_ns <= limit_ns,
                "offset {offset_ns} ns, limit {limit_ns}"
            );
        }
        let is_calm = read_ps.saturating_sub(self.disturbed_ps.get()) >= limits.calm_after_ns * PS;
        if is_calm && limits.step_back_ns == 0 {
            counts.calm_offset_ns = counts.calm_offset_ns.max(off_ns);
            let limit_ns = limits.calm_offset_ns;
            assert!(
                off_ns <= limit_ns,
                "offset {offset_ns} ns long after the last fault, limit {limit_ns}"
            );
        }
    }

    /// Checks a complete reading with bounds.
    pub(crate) fn check_bounds(&self, reading: &BoundedReading) {
        let last_read = self.world.me().last_read.get();
        let truth_ns = last_read.true_ns;
        let RangeNs {
            earliest_ns,
            latest_ns,
        } = reading.monotonic_range();
        assert!(
            (earliest_ns..=latest_ns).contains(&reading.ns),
            "{reading:?} is outside its own bounds"
        );
        self.check_unix_bound(&reading.bounds);
        self.pending.borrow_mut().push(Pending {
            from_ps: self.world.now_ps.get(),
            cell: last_read.cell,
            reading: *reading,
            truth_ns,
        });
        self.judge_bounds();
    }

    /// Judges the bounds whose evidence is known by now. If an iteration has not ended within
    /// [`MAX_PENDING_PS`], its bounds are not judged.
    pub(crate) fn judge_bounds(&self) {
        self.pending.borrow_mut().retain(|pending| {
            let evidence = self.world.cells[pending.cell].evidence.borrow();
            let Some(since_ps) = evidence.get(&pending.reading.bounds.lower.start_ticks) else {
                return self.world.now_ps.get() - pending.from_ps < MAX_PENDING_PS;
            };
            self.judge(pending, *since_ps);
            false
        });
    }

    fn judge(&self, pending: &Pending, since_ps: u64) {
        let Pending {
            cell,
            reading,
            truth_ns,
            from_ps,
        } = pending;
        let bounds = &reading.bounds;
        let slowest = bounds.lower.slope.bits;
        let fastest = bounds.upper.slope.bits;
        let clocks = self.world.clocks.borrow();
        // A rate that did not change is within any maximum drift, because the drift includes the
        // uncertainty of the samples. Some samples limited the slopes and were then thinned out.
        // They were at most twice as old as the oldest remaining sample.
        let start_ps = self.world.cells[*cell].time_ps(&clocks, bounds.lower.start_ticks);
        let fitted_ps =
            since_ps.saturating_sub(start_ps.saturating_sub(since_ps).saturating_mul(2));
        let straight = clocks.was_straight(fitted_ps);
        // Evidence from after the reading means that the counter was reset before the iteration
        // ended. The time of its ticks is then unknown. And with unsynchronised counters the clock
        // promises only order (`Limits::new`).
        let may_hold = since_ps <= *from_ps && self.limits.step_back_ns == 0;
        let holds = may_hold && (straight || clocks.rate_was_within(since_ps, slowest, fastest));
        // A rate at the edge of its limits is beyond them while the kernel dithers.
        let dither_ns = if straight { 0 } else { self.limits.dither_ns };
        let margin_ns = (3 * self.world.scenario.machine.stale_ns + dither_ns).cast_signed();
        let RangeNs {
            earliest_ns,
            latest_ns,
        } = reading.monotonic_range();
        let inside = earliest_ns - margin_ns <= *truth_ns && *truth_ns <= latest_ns + margin_ns;
        self.world.counts.borrow_mut().bounds_checked += u64::from(holds);
        assert!(
            inside || !holds,
            "bound: the reference is at {truth_ns} ns, stated were {earliest_ns} to {latest_ns} ({} ns outside), \
             and its rate had kept its limits since {since_ps} ps",
            (earliest_ns - truth_ns).max(truth_ns - latest_ns)
        );
        assert!(
            u128::from(fastest - slowest) * 1_000_000_000 >= u128::from(slowest) * MIN_SPREAD_PPB,
            "a reference as stable as {slowest} to {fastest} is not to be assumed"
        );
    }

    /// Checks the bound of the offset of Unix time, unless the line is older than the last step.
    fn check_unix_bound(&self, bounds: &Bounds) {
        if self.world.me().last_read.get().born_ps <= self.unix_step_ps.get() {
            return;
        }
        let truth_ns = self.world.clocks.borrow().unix_offset_ns;
        // The second read of monotonic time may be from before the read of Unix time.
        let bound_ns = bounds.unix_bound_ns + self.world.scenario.machine.stale_ns;
        assert!(
            bounds.unix_offset_ns.abs_diff(truth_ns) <= bound_ns,
            "the offset of Unix time is off by {} ns, bound {bound_ns}",
            bounds.unix_offset_ns - truth_ns
        );
    }

    /// Checks a complete reading in Unix time. Its line claims to know Unix time to `margin_ns`,
    /// from the narrowest of a few samples. All of these samples may have been interrupted.
    pub(crate) fn check_unix(&self, ns: i64, margin_ns: u64) {
        let last_read = self.world.me().last_read.get();
        if last_read.born_ps <= self.unix_step_ps.get() {
            return; // the line is older than the step
        }
        let Some(offset_limit_ns) = self.limits.offset_ns else {
            return;
        };
        let truth_ns = last_read.returned_ns + self.world.clocks.borrow().unix_offset_ns;
        let limit_ns = offset_limit_ns + self.limits.unix_ns.max(margin_ns);
        assert!(
            ns.abs_diff(truth_ns) <= limit_ns,
            "Unix time is off by {} ns, limit {limit_ns}",
            ns - truth_ns
        );
    }

    /// Checks a complete reading that used the counter.
    pub(crate) fn check_not_while_off(&self, begin: Begin) {
        let stayed_off = begin.off_since == Some(self.enables_begun.get());
        assert!(
            !stayed_off,
            "the counter was used although it was switched off"
        );
    }

    /// Runs the program's call of `disable()`.
    pub(crate) fn run_disable(&self, call: impl FnOnce()) {
        let begun = self.enables_begun.get();
        call();
        let overlapped = self.enables_under_way.get() != 0 || self.enables_begun.get() != begun;
        self.is_off.set(self.is_off.get() || !overlapped);
    }

    /// Runs the program's call of `enable()`.
    pub(crate) fn run_enable(&self, call: impl FnOnce()) {
        self.is_off.set(false);
        self.enables_begun.set(self.enables_begun.get() + 1);
        self.enables_under_way.set(self.enables_under_way.get() + 1);
        call();
        self.enables_under_way.set(self.enables_under_way.get() - 1);
    }

    /// Runs a call to the keeper, or a change of the facts.
    pub(crate) fn run_act(&self, act: impl FnOnce()) {
        self.acts_under_way.set(self.acts_under_way.get() + 1);
        act();
        self.acts_under_way.set(self.acts_under_way.get() - 1);
        self.barred.set(0);
    }

    /// Records a fork. In the child, calls that were under way never return.
    pub(crate) fn record_fork(&self) {
        self.enables_under_way.set(0);
        self.acts_under_way.set(0);
    }

    /// Counts an iteration that could not make a line because the clock was barred, though no fact
    /// and no act bars it. Checks that there are few of them in a row.
    pub(crate) fn count_barred_iteration(&self) {
        self.barred.set(self.barred.get() + 1);
        assert!(
            self.barred.get() <= MAX_BARRED,
            "the clock stays barred: {} iterations since the last act, and no fact is against the counter",
            self.barred.get()
        );
    }

    /// Records a disturbance of the machine, which is over at `until_ps`.
    pub(crate) fn record_disturbance(&self, until_ps: u64) {
        self.disturbed_ps.set(self.disturbed_ps.get().max(until_ps));
    }

    /// Checks the state of a cell that needs a line, after the driver's iteration, whether or not
    /// the iteration took place.
    pub(crate) fn check_line_is_back(&self, state: LineState) {
        let Some(limit_ns) = self.limits.without_line_ns else {
            return;
        };
        let since_ps = self
            .world
            .now_ps
            .get()
            .saturating_sub(self.disturbed_ps.get());
        assert!(
            state.is_published() || since_ps <= limit_ns * PS,
            "{:?}{} for {} ns after the last fault, limit {limit_ns}",
            state.phase(),
            if state.is_barred() { ", barred" } else { "" },
            since_ps / PS
        );
    }
}
