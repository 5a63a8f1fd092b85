//! Figures that the control loop leaves for status displays. They steer nothing.

use crate::line::Slope;
use crate::primitive::{AtomicI64, AtomicU64, Ordering};

/// What the control loop last found, for status displays. They are read one by one, so two of them
/// may be from two iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// The measured frequency of the counter, Hz; `None` before the first line.
    pub frequency_hz: Option<u64>,
    /// The maximum drift, ppb.
    pub max_drift_ppb: u64,
    /// The present interval between recalibrations, ns.
    pub interval_ns: u64,
    /// Line minus target at the last publication, ns.
    pub offset_ns: i64,
    /// Whether the samples of several iterations in a row were too old for a line by the time they
    /// were complete. The machine is then too slow for the interval, or the writer never gets a CPU
    /// for long enough.
    pub samples_too_old: bool,
    /// Whether the counter is too slow for this target: see [`LineCell`](crate::cell::LineCell).
    /// There is never a line then.
    pub counter_too_slow: bool,
    /// Whether the line is off because the reference or the counter jumped, and is still being
    /// slewed back.
    pub is_disrupted: bool,
}

/// If the samples of this many iterations in a row were too old, that is no accident, because each
/// iteration tries four times.
const TOO_OLD_ITERATIONS: u64 = 4;

/// The memory of [`Figures`], which is 0 before the first line.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    frequency_hz: AtomicU64,
    max_drift_ppb: AtomicU64,
    interval_ns: AtomicU64,
    offset_ns: AtomicI64,
    /// Iterations in a row all of whose samples were too old when they were complete.
    too_old_iterations: AtomicU64,
    counter_too_slow: AtomicU64,
    is_disrupted: AtomicU64,
}

// ORDERING for all gauges: Relaxed, each is a figure on its own for display.
const GAUGE: Ordering = Ordering::Relaxed;

impl Gauges {
    pub(super) const fn new() -> Self {
        Self {
            frequency_hz: AtomicU64::new(0),
            max_drift_ppb: AtomicU64::new(0),
            interval_ns: AtomicU64::new(0),
            offset_ns: AtomicI64::new(0),
            too_old_iterations: AtomicU64::new(0),
            counter_too_slow: AtomicU64::new(0),
            is_disrupted: AtomicU64::new(0),
        }
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            frequency_hz: Some(self.frequency_hz.load(GAUGE)).filter(|&hz| hz != 0),
            max_drift_ppb: self.max_drift_ppb.load(GAUGE),
            interval_ns: self.interval_ns.load(GAUGE),
            offset_ns: self.offset_ns.load(GAUGE),
            samples_too_old: self.too_old_iterations.load(GAUGE) >= TOO_OLD_ITERATIONS,
            counter_too_slow: self.counter_too_slow.load(GAUGE) != 0,
            is_disrupted: self.is_disrupted.load(GAUGE) != 0,
        }
    }

    pub(crate) fn show_counter_too_slow(&self) {
        self.counter_too_slow.store(1, GAUGE);
    }

    /// Shows a line that was published: its slope; its maximum drift, ppb; the present interval,
    /// ns; its distance from the target, ns, and whether a jump is the reason for that distance.
    pub(crate) fn show(
        &self,
        slope: Slope,
        max_drift_ppb: u32,
        interval_ns: u64,
        offset_ns: i64,
        disrupted: bool,
    ) {
        self.frequency_hz.store(slope.to_hz(), GAUGE);
        self.max_drift_ppb.store(u64::from(max_drift_ppb), GAUGE);
        self.interval_ns.store(interval_ns, GAUGE);
        self.offset_ns.store(offset_ns, GAUGE);
        self.too_old_iterations.store(0, GAUGE);
        self.counter_too_slow.store(0, GAUGE);
        self.is_disrupted.store(u64::from(disrupted), GAUGE);
    }

    /// Counts an iteration all of whose samples were too old when they were complete. For the
    /// holder of the clock's lock.
    pub(crate) fn count_samples_too_old(&self) {
        let iterations = self.too_old_iterations.load(GAUGE);
        self.too_old_iterations.store(iterations.saturating_add(1), GAUGE);
    }
}
