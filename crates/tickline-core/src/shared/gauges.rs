//! Figures that the control loop leaves for status displays. They steer nothing.

use crate::cell::Bounds;
use crate::line::Slope;
use crate::primitive::{AtomicU64, Ordering};
use crate::stability::Allowance;
use crate::units::unsigned;

/// What an iteration found and published.
pub(crate) struct Found<'a> {
    pub(crate) slope: Slope,
    pub(crate) bounds: &'a Bounds,
    pub(crate) allowance: &'a Allowance,
    pub(crate) interval_ns: u64,
    /// Line minus target.
    pub(crate) offset_ns: i64,
    /// Whether the line is off because reference or counter jumped.
    pub(crate) disrupted: bool,
}

/// What the control loop last found, for status displays. Each figure is read on its own.
#[derive(Debug, Default)]
pub struct Gauges {
    /// The measured frequency of the counter, Hz; 0 before the first line.
    frequency_hz: AtomicU64,
    /// The maximum drift, ppb.
    max_drift_ppb: AtomicU64,
    /// The present interval between recalibrations, ns.
    interval_ns: AtomicU64,
    /// Line minus target at the last publication, ns, as the bits of an `i64`.
    offset_ns: AtomicU64,
    /// Iterations in a row all of whose samples were too old when they were complete.
    stale_iterations: AtomicU64,
    /// 1 once the counter was found to be too slow for the target; else 0.
    out_of_range: AtomicU64,
    /// [`BoundParts`], field by field.
    sample_ns: AtomicU64,
    dither_ns: AtomicU64,
    stability_ppb: AtomicU64,
    slope_ppb: AtomicU64,
    dither_ppb: AtomicU64,
    /// 1 while the line is off because reference or counter jumped; else 0.
    disrupted: AtomicU64,
}

/// What the bound of the present line is made of: to either side
///
/// ```text
/// sample_ns + dither_ns + (stability_ppb + slope_ppb + dither_ppb) * time since the sample
/// ```
///
/// and the distance of the reading from the middle, which includes rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BoundParts {
    /// Half of the width of the newest sample, ns: half a bracket, and the reference's
    /// resolution.
    pub sample_ns: u64,
    /// The range of the kernel's dither, ns; 0 if it is allowed for by its rate.
    pub dither_ns: u64,
    /// By how much the reference's rate is assumed to change, ppb.
    pub stability_ppb: u64,
    /// Half of the range of slopes that the samples leave open, ppb.
    pub slope_ppb: u64,
    /// The rate of the kernel's dither, ppb; 0 if it is allowed for by its range.
    pub dither_ppb: u64,
}

/// So many iterations in a row whose samples were too old are no accident, because each tries
/// four times.
const STALE_ITERATIONS: u64 = 4;

impl Gauges {
    pub(super) const fn new() -> Self {
        Self {
            frequency_hz: AtomicU64::new(0),
            max_drift_ppb: AtomicU64::new(0),
            interval_ns: AtomicU64::new(0),
            offset_ns: AtomicU64::new(0),
            stale_iterations: AtomicU64::new(0),
            out_of_range: AtomicU64::new(0),
            sample_ns: AtomicU64::new(0),
            dither_ns: AtomicU64::new(0),
            stability_ppb: AtomicU64::new(0),
            slope_ppb: AtomicU64::new(0),
            dither_ppb: AtomicU64::new(0),
            disrupted: AtomicU64::new(0),
        }
    }

    /// The measured frequency of the counter, Hz; `None` before the first line.
    #[must_use]
    pub fn frequency_hz(&self) -> Option<u64> {
        // ORDERING: Relaxed, a figure on its own for display.
        Some(self.frequency_hz.load(Ordering::Relaxed)).filter(|&hz| hz != 0)
    }

    /// The maximum drift, ppb.
    #[must_use]
    pub fn max_drift_ppb(&self) -> u64 {
        // ORDERING: Relaxed, a figure on its own for display.
        self.max_drift_ppb.load(Ordering::Relaxed)
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

    /// What the bound of the line published last is made of.
    #[must_use]
    pub fn bound_parts(&self) -> BoundParts {
        // ORDERING: Relaxed for all, figures on their own for display.
        let figure = |gauge: &AtomicU64| gauge.load(Ordering::Relaxed);
        BoundParts {
            sample_ns: figure(&self.sample_ns),
            dither_ns: figure(&self.dither_ns),
            stability_ppb: figure(&self.stability_ppb),
            slope_ppb: figure(&self.slope_ppb),
            dither_ppb: figure(&self.dither_ppb),
        }
    }

    /// Whether in iteration after iteration the samples were too old for a line when they were
    /// complete. The machine is then too slow for the interval, or the writer never gets a CPU
    /// for long enough.
    #[must_use]
    pub fn samples_are_stale(&self) -> bool {
        // ORDERING: Relaxed, a figure on its own for display.
        self.stale_iterations.load(Ordering::Relaxed) >= STALE_ITERATIONS
    }

    /// Whether the line is off because the reference or the counter jumped, and is still being
    /// slewed back.
    #[must_use]
    pub fn is_disrupted(&self) -> bool {
        // ORDERING: Relaxed, a flag on its own for display.
        self.disrupted.load(Ordering::Relaxed) != 0
    }

    /// Whether the counter is too slow for this target: see [`SHIFT`](crate::counter::SHIFT). There
    /// is never a line then.
    #[must_use]
    pub fn is_out_of_range(&self) -> bool {
        // ORDERING: Relaxed, a flag on its own for display.
        self.out_of_range.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn show_out_of_range(&self) {
        // ORDERING: Relaxed, a flag on its own for display.
        self.out_of_range.store(1, Ordering::Relaxed);
    }

    /// Shows what an iteration found.
    pub(crate) fn show(&self, found: &Found<'_>) {
        let Found { slope, bounds, allowance, interval_ns, offset_ns, disrupted } = *found;
        let dither_ns = unsigned(allowance.dither.round_ns());
        let half_width_ns = bounds.upper.base_ns.abs_diff(bounds.lower.base_ns).div_ceil(2);
        // One after the other: a list of them takes 1.5 KiB of stack where nothing is optimised.
        let show = |gauge: &AtomicU64, figure: u64| {
            // ORDERING: Relaxed, figures on their own for display.
            gauge.store(figure, Ordering::Relaxed);
        };
        show(&self.frequency_hz, slope.to_hz());
        show(&self.max_drift_ppb, u64::from(allowance.max_drift_ppb()));
        show(&self.interval_ns, interval_ns);
        show(&self.offset_ns, unsigned(offset_ns));
        show(&self.stale_iterations, 0);
        show(&self.out_of_range, 0);
        show(&self.sample_ns, half_width_ns.saturating_sub(dither_ns));
        show(&self.dither_ns, dither_ns);
        show(&self.stability_ppb, allowance.stability_ppb);
        show(&self.slope_ppb, allowance.slope_ppb);
        show(&self.dither_ppb, allowance.dither_ppb);
        show(&self.disrupted, u64::from(disrupted));
    }

    /// Counts an iteration all of whose samples were too old when they were complete.
    pub(crate) fn count_stale_iteration(&self) {
        // ORDERING: Relaxed, a count of its own.
        self.stale_iterations.fetch_add(1, Ordering::Relaxed);
    }
}
