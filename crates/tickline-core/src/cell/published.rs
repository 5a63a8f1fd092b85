//! A line with its bounds and its evidence: as the writer plans them, and as readers find them in a
//! cell.

use crate::line::{Line, Slope};
use crate::sample::Point;
use crate::state::LineState;
use crate::units::{FixedNs, ticks_between};

/// A state, and the ticks for which its line may be used: of the line that a writer builds, or as
/// [loaded](super::StateCell::snapshot) from a cell.
///
/// Values loaded from a slot count only after a second load has confirmed the state, or a swap from
/// this state has succeeded.
///
/// ```
/// use tickline_core::cell::{LineCell, StateCell};
/// use tickline_core::shared::SharedClock;
///
/// /// The time for which the fast path may still use the clock's line at `ticks`, ns.
/// fn left_ns(clock: &SharedClock, ticks: u64) -> Option<i64> {
///     let line = clock.cell().snapshot();
///     let left_ns = line.ns_at(line.window_end_ticks()) - line.ns_at(ticks);
///     let counts = line.state.is_published() && clock.cell().is_still(line.state);
///     counts.then_some(left_ns)
/// }
/// assert_eq!(left_ns(&SharedClock::new(LineCell::new()), 1_000), None, "no line");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowedLine {
    /// The line, and the tag.
    pub state: LineState,
    /// The first tick at which the line may be used; without a line, the last line's first tick.
    pub start_ticks: u64,
    /// The window: for how long the fast path uses the line, ticks from its start.
    pub window_ticks: u64,
}

impl WindowedLine {
    /// The validity of the line, ticks from its start: twice its window. Past the window readers
    /// take the slow path.
    pub(crate) const fn valid_ticks(&self) -> u64 {
        self.window_ticks << 1
    }

    /// Whether the line is valid at `ticks`. The check is two-sided: a tick before the start fails.
    pub(crate) const fn is_valid_at(&self, ticks: u64) -> bool {
        ticks.wrapping_sub(self.start_ticks) < self.valid_ticks()
    }

    /// The first tick at which the fast path does not use the line any more.
    #[must_use]
    pub const fn window_end_ticks(&self) -> u64 {
        self.start_ticks.wrapping_add(self.window_ticks)
    }

    /// The first tick at which the line is not valid any more.
    #[must_use]
    pub const fn validity_end_ticks(&self) -> u64 {
        self.start_ticks.wrapping_add(self.valid_ticks())
    }

    /// The line at `ticks`, ns, rounded down. Exact while the line is valid; without a line it
    /// means nothing. Never panics.
    #[must_use]
    pub const fn ns_at(&self, ticks: u64) -> i64 {
        self.state.ns_at(ticks)
    }

    /// The line at `ticks`, rounded down to a fraction.
    pub(crate) fn fixed_at(&self, ticks: u64) -> FixedNs {
        self.state.fixed_at(ticks)
    }

    /// The line's slope; 0 without a line.
    #[must_use]
    pub const fn slope(&self) -> Slope {
        self.state.slope()
    }
}

/// The bounds between which the reference must be, and the offset of Unix time. Each line is
/// published with its bounds. They hold if, since the newest sample before the line,
///
/// - the reference's rate has stayed within the maximum drift of the measured rate
///   ([`LineFigures::max_drift_ppb`](crate::shared::LineFigures::max_drift_ppb)), apart from the
///   kernel's dither;
/// - the dither has stayed within the range that the bounds allow for it: 48 ns until samples have
///   shown it, then four times the largest dither of the latest samples, but at least 2 and at most
///   48 ns;
/// - neither the reference nor the counter has jumped.
///
/// A difference between the counters of two CPUs is not in the bounds.
///
/// The bounds in a slot start at the same tick as the slot's line.
///
/// ```
/// use tickline_core::cell::{Bounds, RangeNs};
/// use tickline_core::line::{Line, Slope};
///
/// let slope = Slope::from_hz(1_000_000_000).unwrap();
/// let lower = Line { start_ticks: 500, base_ns: 7_000, slope };
/// let upper = Line { base_ns: 7_020, ..lower };
/// let bounds = Bounds { lower, upper, unix_offset_ns: 1_000_000, unix_bound_ns: 5 };
/// let monotonic = RangeNs { earliest_ns: 7_100, latest_ns: 7_120 };
/// assert_eq!(bounds.monotonic_range_at(600), monotonic);
/// let unix = RangeNs { earliest_ns: 1_007_095, latest_ns: 1_007_125 };
/// assert_eq!(bounds.unix_range_at(600), unix);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The reference is not below this line.
    pub lower: Line,
    /// The reference is not above this line, which starts at the same tick as `lower`.
    pub upper: Line,
    /// The reference's Unix time minus its monotonic time, ns, as estimated.
    pub unix_offset_ns: i64,
    /// Half the width of the range that contains the true offset, ns.
    pub unix_bound_ns: u64,
}

impl Bounds {
    /// The range of the reference's monotonic time at `ticks`, ns. For ticks from the start of
    /// `lower` to [`Line::MAX_DELTA_TICKS`] after it; wrapped elsewhere ([`Line::ns_at`]). Never
    /// panics.
    #[inline]
    #[must_use]
    pub const fn monotonic_range_at(&self, ticks: u64) -> RangeNs {
        RangeNs {
            earliest_ns: self.lower.ns_at(ticks),
            latest_ns: self.upper.ns_at(ticks),
        }
    }

    /// The range of the reference's Unix time at `ticks`, ns, for the same ticks as
    /// [`monotonic_range_at`](Self::monotonic_range_at). It holds on a further condition: since the
    /// newest sample before the line, Unix time has kept its distance from monotonic time. Never
    /// panics.
    #[inline]
    #[must_use]
    pub const fn unix_range_at(&self, ticks: u64) -> RangeNs {
        self.in_unix_time(self.monotonic_range_at(ticks))
    }

    /// A range of monotonic time in Unix time.
    #[inline]
    pub(crate) const fn in_unix_time(&self, monotonic: RangeNs) -> RangeNs {
        let RangeNs {
            earliest_ns,
            latest_ns,
        } = monotonic;
        RangeNs {
            earliest_ns: earliest_ns
                .wrapping_add(self.unix_offset_ns)
                .saturating_sub_unsigned(self.unix_bound_ns),
            latest_ns: latest_ns
                .wrapping_add(self.unix_offset_ns)
                .saturating_add_unsigned(self.unix_bound_ns),
        }
    }
}

/// Two times between which the reference must be: its [`Bounds`] at one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeNs {
    /// The reference is not before this time, ns.
    pub earliest_ns: i64,
    /// The reference is not after this time, ns.
    pub latest_ns: i64,
}

/// A bound before its base is rounded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnroundedLine {
    /// The value at the first tick.
    pub(crate) base_fixed: FixedNs,
    pub(crate) slope: Slope,
}

/// Bounds as the writer plans them, at the newest sample. A slot gets them at the start of its
/// line, rounded only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PlannedBounds {
    /// The bounds at the newest sample, with bases rounded outwards.
    pub(crate) rounded: Bounds,
    /// The rounding of the lower base, down.
    lower_rounding: FixedNs,
    /// The rounding of the upper base, up.
    upper_rounding: FixedNs,
    /// The reference's resolution, ns: a returned value may be below the lower bound by this.
    pub(crate) resolution_ns: i64,
}

impl From<Bounds> for PlannedBounds {
    /// Bounds without rounding, and a reference without resolution.
    fn from(rounded: Bounds) -> Self {
        Self {
            rounded,
            ..Self::default()
        }
    }
}

impl PlannedBounds {
    /// Bounds whose lines start at `start_ticks`. The other fields are 0.
    pub(crate) const fn new(start_ticks: u64, lower: UnroundedLine, upper: UnroundedLine) -> Self {
        let lower_ns = lower.base_fixed.floor_ns();
        let upper_ns = upper.base_fixed.ceil_ns();
        Self {
            rounded: Bounds {
                lower: Line {
                    start_ticks,
                    base_ns: lower_ns,
                    slope: lower.slope,
                },
                upper: Line {
                    start_ticks,
                    base_ns: upper_ns,
                    slope: upper.slope,
                },
                unix_offset_ns: 0,
                unix_bound_ns: 0,
            },
            lower_rounding: lower.base_fixed.saturating_sub(FixedNs::from_ns(lower_ns)),
            upper_rounding: FixedNs::from_ns(upper_ns).saturating_sub(upper.base_fixed),
            resolution_ns: 0,
        }
    }

    /// The range at `start_ticks`, rounded outwards. If the newest sample is later than that
    /// tick, the bounds widen towards the past by the difference of their rates. The reference's
    /// rate was between these two rates.
    pub(super) fn range_at(&self, start_ticks: u64) -> RangeNs {
        let Bounds { lower, upper, .. } = &self.rounded;
        let back_ticks = ticks_between(start_ticks, lower.start_ticks).max(0);
        let spread = upper
            .slope
            .over(back_ticks)
            .saturating_sub(lower.slope.over(back_ticks));
        let earliest = lower
            .fixed_at(start_ticks)
            .saturating_add(self.lower_rounding)
            .saturating_sub(spread);
        let latest = upper
            .fixed_at(start_ticks)
            .saturating_sub(self.upper_rounding)
            .saturating_add(spread);
        RangeNs {
            earliest_ns: earliest.floor_ns(),
            latest_ns: latest.ceil_ns(),
        }
    }
}

/// A line to publish: see [`StateCell::publish`](super::StateCell::publish).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextLine {
    /// What a [snapshot](super::StateCell::snapshot) finds once the line is published.
    pub line: WindowedLine,
    pub(crate) bounds: PlannedBounds,
    /// The machine's total time suspended before the line's samples, ns; `None` if the reference
    /// does not state it.
    pub(crate) suspended_ns: Option<i64>,
}

impl NextLine {
    /// A line with these bounds, by a reference without resolution that does not state the time in
    /// suspends. The bounds may start at another tick than the line: the slot has them at the
    /// line's start.
    #[must_use]
    pub fn new(line: WindowedLine, bounds: Bounds) -> Self {
        Self {
            line,
            bounds: bounds.into(),
            suspended_ns: None,
        }
    }

    /// The bounds, at the tick of the newest sample.
    #[must_use]
    pub const fn bounds(&self) -> &Bounds {
        &self.bounds.rounded
    }
}

/// The evidence for a line, by which a thread that retires the line computes the high-water mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// A lower bound of the reference's returned value at one tick, as the newest sample proves.
    pub(crate) proven: Point,
    /// The machine's total time suspended before the samples, ns; `None` if the reference does
    /// not state it.
    pub(crate) suspended_ns: Option<i64>,
}
