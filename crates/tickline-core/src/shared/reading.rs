//! The fast readings of a line, and the slow path behind them. `DESIGN.md`, section "Reading",
//! explains each step.
//!
//! All fast readings are one function, [`Readings::read_with`]. Its arguments say which states
//! it may use, and how to read counter and slot. The counter is the common one, or for
//! [`per_cpu`](crate::per_cpu) the current CPU's counter.

use super::{Event, Readings};
use crate::cell::{Bounds, RangeNs, StateCell, Window, WindowedLine};
use crate::counter::Counter;
use crate::reference::Reference;
use crate::state::{LineState, Phase, in_register};

/// The time for which a reader that finds a line being replaced waits before it helps, ns. A writer
/// that is not preempted needs about 60 ns.
pub(crate) const REPLACING_NS: u64 = 2_000;

/// The least time between two loads of the state in a wait, ns. An ordered read of the counter, or
/// [`spin_loop`](core::hint::spin_loop), is between the two.
const MIN_LOAD_NS: u32 = 5;

/// The number of loads of the state after which a waiting reader also helps, in case the counter
/// stands still or the line's slope is wrong. If the counter runs, [`REPLACING_NS`] ends the wait
/// first: the loads take at least 2.5 times as long.
const REPLACING_LOADS: u32 = 1_000;

const _: () = assert!(REPLACING_LOADS as u64 * MIN_LOAD_NS as u64 > 2 * REPLACING_NS);

/// The number of loads of the state, with a [`spin_loop`](core::hint::spin_loop) after each, after
/// which a reader that finds a first publication helps. They take 10 us or more. Where `PAUSE`
/// takes 140 cycles, as on Skylake (Intel 64 and IA-32 Architectures Optimization Reference Manual,
/// "Pause Latency in Skylake Client Microarchitecture"), they take 280,000 cycles: 100 us at 2.8
/// GHz, 140 us at 2 GHz. `docs/guarantees.md` of `tickline` promises about 150 us. The writer asks
/// the reference meanwhile, which may take 2 us (`acpi_pm`). The reader must not read the counter
/// to measure the time, because the clock has no line yet.
const FIRST_LOADS: u32 = if cfg!(loom) { 2 } else { 10_000 / MIN_LOAD_NS };

/// The source of a reading. A third one would be a breaking change: a reading has no other.
///
/// ```
/// use tickline_core::shared::ReadingSource;
///
/// fn in_words(source: ReadingSource) -> String {
///     match source {
///         ReadingSource::Line { overdue_ns: 0 } => "the line".into(),
///         ReadingSource::Line { overdue_ns } => format!("a line that was due {overdue_ns} ns ago"),
///         ReadingSource::Reference { .. } => "the OS clock".into(),
///     }
/// }
/// assert_eq!(in_words(ReadingSource::Line { overdue_ns: 7 }), "a line that was due 7 ns ago");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingSource {
    /// The line.
    Line {
        /// Time since the end of the window, ns; 0 inside it.
        overdue_ns: u64,
    },
    /// The reference clock.
    Reference {
        /// The reference's value, ns. It is the reading, unless the high-water mark is larger.
        reference_ns: i64,
    },
}

/// A reading by the slow path.
///
/// ```
/// use tickline_core::counter::Counter;
/// use tickline_core::reference::Reference;
/// use tickline_core::shared::{ReadingSource, SharedClock};
///
/// /// How far the reading was raised above the reference, so that it is not below an earlier one,
/// /// ns. `None` if it came from a line.
/// fn raised_ns(clock: &SharedClock, counter: &impl Counter, reference: &impl Reference) -> Option<i64> {
///     let reading = clock.readings().read_ordered_in_any_state(counter, reference);
///     match reading.source {
///         ReadingSource::Line { .. } => None,
///         ReadingSource::Reference { reference_ns } => Some(reading.ns - reference_ns),
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowReading {
    /// The monotonic time, ns.
    pub ns: i64,
    /// The source of the time.
    pub source: ReadingSource,
}

impl SlowReading {
    /// A reading of a line that is valid at `ticks`.
    fn by_line(line: &WindowedLine, ticks: u64) -> Self {
        let ns = line.ns_at(ticks);
        let window_end_ns = line.ns_at(line.window_end_ticks());
        let overdue_ns = u64::try_from(ns.saturating_sub(window_end_ns)).unwrap_or(0);
        Self {
            ns,
            source: ReadingSource::Line { overdue_ns },
        }
    }
}

/// A reading from a line together with the bounds published with it.
///
/// ```
/// use tickline_core::counter::Counter;
/// use tickline_core::shared::SharedClock;
///
/// /// The largest distance of a reading from the reference, ns; `None` without a line.
/// fn largest_error_ns(clock: &SharedClock, counter: &impl Counter) -> Option<i64> {
///     let reading = clock.readings().read_ordered_bounded(counter)?;
///     let range = reading.monotonic_range();
///     Some((reading.ns - range.earliest_ns).max(range.latest_ns - reading.ns))
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BoundedReading {
    /// The counter, ticks.
    pub ticks: u64,
    /// The line at this tick, ns.
    pub ns: i64,
    /// The bounds.
    pub bounds: Bounds,
}

impl BoundedReading {
    /// The reading in Unix time, ns.
    #[inline]
    #[must_use]
    pub const fn unix_ns(&self) -> i64 {
        self.ns.wrapping_add(self.bounds.unix_offset_ns)
    }

    /// The range of the reference's monotonic time, ns, widened to contain [`ns`](Self::ns).
    #[inline]
    #[must_use]
    pub fn monotonic_range(&self) -> RangeNs {
        let range = self.bounds.monotonic_range_at(self.ticks);
        RangeNs {
            earliest_ns: range.earliest_ns.min(self.ns),
            latest_ns: range.latest_ns.max(self.ns),
        }
    }

    /// The range of the reference's Unix time, ns, widened to contain [`unix_ns`](Self::unix_ns).
    #[inline]
    #[must_use]
    pub fn unix_range(&self) -> RangeNs {
        self.bounds.in_unix_time(self.monotonic_range())
    }
}

impl<S: StateCell> Readings<S> {
    /// The fast path: the line at a plain read of the counter, ns. In order only within a thread:
    /// the CPU may read the counter before older loads complete. `None` if the caller must take the
    /// slow path ([`read_ordered_in_any_state`](Self::read_ordered_in_any_state)). Reads the
    /// counter only if the clock has a line, and never waits.
    #[inline(always)]
    #[must_use]
    pub fn read_ns(&self, counter: &impl Counter) -> Option<i64> {
        let read_parts = |cell: &S, state| (cell.slot(state).window(), counter.now());
        let (state, ticks) = self.read_with(LineState::allows_fast_path, read_parts)?;
        Some(state.fast_at(ticks))
    }

    /// An ordered reading by the fast path, ns: reads the counter after every earlier load. `None`
    /// if the caller must take the slow path. Never waits.
    #[inline(always)]
    #[must_use]
    pub fn read_ordered_ns(&self, counter: &impl Counter) -> Option<i64> {
        let (state, ticks) = self.line_and_ticks(counter)?;
        Some(state.fast_at(ticks))
    }

    /// The time, ns: an ordered reading, by the fast path or else by the slow path. With
    /// synchronised counters, never below an earlier ordered reading of this clock, on any thread.
    ///
    /// ```
    /// use tickline_core::cell::LineCell;
    /// use tickline_core::counter::Counter;
    /// use tickline_core::reference::Reference;
    /// use tickline_core::shared::SharedClock;
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
    /// static CLOCK: SharedClock = SharedClock::new(LineCell::new());
    /// let now_ns = CLOCK.readings().now_ordered_ns(&counter, &reference);
    /// assert_eq!(now_ns, 7_000, "no line yet: by the reference");
    /// ```
    #[must_use]
    pub fn now_ordered_ns(&self, counter: &impl Counter, reference: &impl Reference) -> i64 {
        self.read_ordered_ns(counter)
            .unwrap_or_else(|| self.read_ordered_in_any_state(counter, reference).ns)
    }

    /// An ordered read of the counter, ticks. The clock was not barred, and its line was current,
    /// when the counter was read. `None` where [`read_ordered_ns`](Self::read_ordered_ns) returns
    /// `None`. For callers that convert ticks by lines of their own.
    #[inline]
    #[must_use]
    pub fn read_ordered_ticks(&self, counter: &impl Counter) -> Option<u64> {
        Some(self.line_and_ticks(counter)?.1)
    }

    #[inline(always)]
    fn line_and_ticks(&self, counter: &impl Counter) -> Option<(LineState, u64)> {
        self.read_with(LineState::allows_fast_path, |cell, state| {
            let ticks = counter.now_ordered();
            (cell.slot(state).window(), ticks)
        })
    }

    /// A plain reading of Unix time, ns. `None` as for [`read_ns`](Self::read_ns), and if the line
    /// leaves Unix time to the reference
    /// ([`serves_unix_time`](crate::control::Config::serves_unix_time)). The caller then calls
    /// [`Reference::unix_ns`]. Unix time follows the reference's steps and has no high-water mark,
    /// so there is no slow path for it.
    ///
    /// ```
    /// # use tickline_core::{cell::LineCell, counter::Counter, reference::Reference, shared::SharedClock};
    /// # struct Machine;
    /// # impl Counter for Machine {
    /// #     fn now(&self) -> u64 { 5_000 }
    /// #     fn barrier(&self) {}
    /// # }
    /// # impl Reference for Machine {
    /// #     fn monotonic_ns(&self) -> i64 { 7_000 }
    /// #     fn unix_ns(&self) -> i64 { 1_000_000_007_000 }
    /// # }
    /// # let (clock, counter, reference) = (SharedClock::new(LineCell::new()), Machine, Machine);
    /// let unix_ns = clock.readings().read_unix_ns(&counter).unwrap_or_else(|| reference.unix_ns());
    /// # assert_eq!(unix_ns, 1_000_000_007_000);
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn read_unix_ns(&self, counter: &impl Counter) -> Option<i64> {
        let mut unix_b = 0;
        let (state, ticks) = self.read_with(LineState::allows_fast_unix, |cell, state| {
            let slot = cell.slot(state);
            let window = slot.window();
            unix_b = slot.unix_b();
            (window, counter.now())
        })?;
        Some(state.with_b(unix_b).fast_at(ticks))
    }

    /// An ordered reading with the bounds of its line. `None` where
    /// [`read_ordered_ns`](Self::read_ordered_ns) returns `None`.
    #[inline]
    #[must_use]
    pub fn read_ordered_bounded(&self, counter: &impl Counter) -> Option<BoundedReading> {
        // Filled in place, because each copy of `Bounds` costs stack.
        let mut bounds = Bounds::default();
        let (state, ticks) = self.read_with(LineState::allows_fast_path, |cell, state| {
            let ticks = counter.now_ordered();
            let slot = cell.slot(state);
            bounds = slot.bounds();
            // Load the window last. If the state recurred, the slot holds a newer line, whose
            // window excludes this tick.
            (slot.window(), ticks)
        })?;
        Some(BoundedReading {
            ticks,
            ns: state.fast_at(ticks),
            bounds,
        })
    }

    /// A state that `serves` accepts, and ticks at which it was current. Rule 1: the state must be
    /// the same after `read_parts` has read the slot and the counter, ticks. A plain reading loads
    /// the slot first, while earlier instructions are still under way. An ordered reading reads the
    /// counter first: its barrier waits for every earlier load, and the loads behind the counter
    /// cost no time.
    #[inline(always)]
    fn read_with(
        &self,
        serves: impl FnOnce(LineState) -> bool,
        read_parts: impl FnOnce(&S, LineState) -> (Window, u64),
    ) -> Option<(LineState, u64)> {
        let cell = in_register(&self.cell);
        let state = cell.load();
        if !serves(state) {
            return None;
        }
        let (window, ticks) = read_parts(cell, state);
        if !window.contains(ticks) || !cell.is_still(state) {
            return None;
        }
        Some((state, ticks))
    }

    /// An ordered reading with the bounds of its line, as long as the line is valid: past the
    /// window it asks the reference (rule 12). `None` without such a line, while the line is being
    /// replaced, or if another thread changes the state meanwhile. Never waits, and retires no
    /// line.
    #[must_use]
    pub fn read_ordered_bounded_while_valid(
        &self,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Option<BoundedReading> {
        let snapshot = self.cell.snapshot();
        if !snapshot.state.is_published() {
            return None;
        }
        let bounds = self.cell.slot(snapshot.state).bounds();
        let ticks = counter.now_ordered();
        let is_usable =
            self.may_use(&snapshot, ticks, reference) && self.cell.is_still(snapshot.state);
        is_usable.then(|| BoundedReading {
            ticks,
            ns: snapshot.ns_at(ticks),
            bounds,
        })
    }

    /// An ordered reading in any state, by the slow path: never below an earlier ordered one. Waits
    /// at most 2 us (`REPLACING_NS`) for a writer that replaces the line, or for `FIRST_LOADS`
    /// loads of the state, which take 10 us or more, for a writer that publishes a first line. Then
    /// the reader helps. The call is lock-free: it repeats only if another thread has changed the
    /// state meanwhile.
    pub fn read_ordered_in_any_state(
        &self,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> SlowReading {
        let mut wait = WaitForWriter::default();
        loop {
            let unfinished = |line: &WindowedLine| {
                if !wait.count_and_keep_waiting(line, counter)
                    && self.help(line, counter, reference)
                {
                    self.events.count(Event::Help);
                }
            };
            let ordered_ticks = || Some(counter.now_ordered());
            let reading = self.try_read_in_any_state(
                ordered_ticks,
                || counter.barrier(),
                reference,
                unfinished,
            );
            if let Some(reading) = reading {
                return reading;
            }
        }
    }

    /// One attempt of the slow path; `None` if another is needed. `ordered_ticks` returns `None` if
    /// this thread was moved away from this line's CPU. `unfinished` handles a line that is being
    /// replaced or first published.
    pub(crate) fn try_read_in_any_state(
        &self,
        ordered_ticks: impl FnOnce() -> Option<u64>,
        barrier: impl FnOnce(),
        reference: &impl Reference,
        unfinished: impl FnOnce(&WindowedLine),
    ) -> Option<SlowReading> {
        let snapshot = self.cell.snapshot();
        let state = snapshot.state;
        match state.phase() {
            Phase::Published => {
                let ticks = ordered_ticks()?;
                if !self.may_use(&snapshot, ticks, reference) {
                    self.retire_unusable(&snapshot, ticks, None, reference);
                    return None;
                }
                self.cell
                    .is_still(state)
                    .then(|| SlowReading::by_line(&snapshot, ticks))
            }
            Phase::Replacing | Phase::FirstPublication => {
                unfinished(&snapshot);
                None
            }
            Phase::NoLine => {
                let reference_ns = reference.monotonic_ns();
                barrier();
                let source = ReadingSource::Reference { reference_ns };
                // Rule 6: a line that was published meanwhile may already be above this value.
                self.cell.is_still(state).then(|| SlowReading {
                    ns: reference_ns.max(state.high_water_ns()),
                    source,
                })
            }
        }
    }
}

/// A reader's wait for a writer.
#[derive(Default)]
struct WaitForWriter {
    /// The state whose end the reader awaits. At first it is a state without a line, which no
    /// reader awaits.
    state: LineState,
    /// The tick at which the wait began; 0 in a first publication.
    since_ticks: u64,
    /// The number of loads of this state since.
    loads: u32,
}

impl WaitForWriter {
    /// Rule 3: counts a load of the state in `snapshot`. Returns whether to go on waiting for it.
    fn count_and_keep_waiting(&mut self, snapshot: &WindowedLine, counter: &impl Counter) -> bool {
        let is_first = snapshot.state.phase() == Phase::FirstPublication;
        if snapshot.state != self.state {
            // A line that is being replaced was published before, so the counter may be read.
            let since_ticks = if is_first { 0 } else { counter.now_ordered() };
            *self = Self {
                state: snapshot.state,
                since_ticks,
                loads: 0,
            };
            return true;
        }
        let is_early = if is_first {
            self.loads < FIRST_LOADS
        } else {
            let waited_ticks = counter.now_ordered().wrapping_sub(self.since_ticks);
            waited_ticks <= snapshot.slope().ticks_in_ceil(REPLACING_NS)
                && self.loads < REPLACING_LOADS
        };
        if is_early {
            self.loads = self.loads.saturating_add(1);
            crate::primitive::spin_loop();
        }
        is_early
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FnClock, Step, interrupted, new_clock, steady_clock};

    const BEGIN_TICKS: u64 = 1 << 40;

    /// A state whose line is being replaced.
    fn replacing() -> WindowedLine {
        let (_, clock, _) = steady_clock();
        clock.swap_to(LineState::replacing);
        clock.cell().snapshot()
    }

    /// A state whose first line is being published.
    fn first_publication() -> WindowedLine {
        let (_, clock, _) = new_clock();
        clock.swap_to(LineState::first_publication);
        clock.cell().snapshot()
    }

    /// Whether a reader that has found `state` still waits after `waited_ticks`.
    fn waits_after(state: &WindowedLine, waited_ticks: u64) -> bool {
        let mut wait = WaitForWriter::default();
        assert!(wait.count_and_keep_waiting(state, &FnClock(|| BEGIN_TICKS)));
        wait.count_and_keep_waiting(state, &FnClock(|| BEGIN_TICKS + waited_ticks))
    }

    /// The number of loads of this line's state after which a reader waits no longer.
    fn loads_until_help(
        wait: &mut WaitForWriter,
        line: &WindowedLine,
        counter: &impl Counter,
    ) -> u32 {
        let mut loads = 0;
        while loads < 10_000 && wait.count_and_keep_waiting(line, counter) {
            loads += 1;
        }
        loads
    }

    #[test]
    fn a_reader_waits_two_microseconds_for_a_replacement() {
        let state = replacing();
        assert!(waits_after(
            &state,
            state.slope().ticks_in_ceil(REPLACING_NS)
        ));
    }

    #[test]
    fn a_reader_helps_a_replacement_after_two_microseconds() {
        let state = replacing();
        assert!(!waits_after(
            &state,
            state.slope().ticks_in_ceil(REPLACING_NS) + 1
        ));
    }

    /// The first load begins the wait.
    #[test]
    fn a_reader_whose_counter_stands_still_helps_a_replacement_after_enough_loads() {
        let counter = FnClock(|| BEGIN_TICKS);
        let loads = loads_until_help(&mut WaitForWriter::default(), &replacing(), &counter);
        assert_eq!(loads, 1 + REPLACING_LOADS);
    }

    #[test]
    fn a_reader_helps_a_first_publication_after_enough_loads_and_never_reads_the_counter() {
        let counter = FnClock(|| unreachable!("the clock has no line yet"));
        let mut wait = WaitForWriter::default();
        let loads = loads_until_help(&mut wait, &first_publication(), &counter);
        assert_eq!(loads, 1 + FIRST_LOADS);
    }

    /// Each writer gets its time.
    #[test]
    fn a_reader_counts_the_loads_of_each_state_anew() {
        let counter = FnClock(|| BEGIN_TICKS);
        let mut wait = WaitForWriter::default();
        loads_until_help(&mut wait, &replacing(), &counter);
        let loads = loads_until_help(&mut wait, &first_publication(), &counter);
        assert_eq!(loads, 1 + FIRST_LOADS);
    }

    #[test]
    fn a_reader_does_not_help_a_replacement_that_ends_while_it_waits() {
        let (machine, clock, _) = steady_clock();
        clock.swap_to(LineState::replacing);
        let mut loads = 0;
        let is_third_load = move |step| {
            loads += u32::from(step == Step::Load);
            loads == 3
        };
        interrupted(machine, is_third_load, || clock.end_line(), || clock.slow());
        assert_eq!(clock.readings().event_count(Event::Help), 0);
    }

    #[test]
    fn no_bounded_reading_uses_a_line_that_is_being_replaced() {
        let (machine, clock, _) = steady_clock();
        clock.swap_to(LineState::replacing);
        assert_eq!(
            clock
                .readings()
                .read_ordered_bounded_while_valid(machine, machine),
            None
        );
    }

    /// A reading at tick 0, where both bounds are 0 ns.
    fn reading_of(ns: i64) -> BoundedReading {
        let bounds = Bounds {
            unix_offset_ns: 1_000,
            unix_bound_ns: 2,
            ..Bounds::default()
        };
        BoundedReading {
            ticks: 0,
            ns,
            bounds,
        }
    }

    fn range(earliest_ns: i64, latest_ns: i64) -> RangeNs {
        RangeNs {
            earliest_ns,
            latest_ns,
        }
    }

    #[test]
    fn a_range_below_a_reading_is_widened_up_to_it() {
        assert_eq!(reading_of(5).monotonic_range(), range(0, 5));
    }

    #[test]
    fn a_range_above_a_reading_is_widened_down_to_it() {
        assert_eq!(reading_of(-5).monotonic_range(), range(-5, 0));
    }

    #[test]
    fn a_range_of_unix_time_contains_the_reading_and_the_error_of_the_offset() {
        let reading = reading_of(5);
        assert_eq!(reading.unix_ns(), 1_005);
        assert_eq!(reading.unix_range(), range(998, 1_007));
    }
}
