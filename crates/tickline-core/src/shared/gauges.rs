//! Figures that the control loop leaves for status displays. They steer nothing.

use crate::line::Slope;
use crate::primitive::{AtomicU64, Ordering};

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
pub(crate) struct Gauges([AtomicU64; GAUGES]);

/// How many places there are: each gauge has one.
const GAUGES: usize = Gauge::Disrupted as usize + 1;

/// A place in [`Gauges`]. `Disrupted` is the last one.
#[derive(Debug, Clone, Copy)]
enum Gauge {
    FrequencyHz,
    MaxDriftPpb,
    IntervalNs,
    OffsetNs,
    /// Iterations in a row all of whose samples were too old when they were complete.
    TooOldIterations,
    CounterTooSlow,
    Disrupted,
}

impl Gauges {
    pub(super) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; GAUGES])
    }

    fn get(&self, gauge: Gauge) -> u64 {
        // ORDERING: Relaxed, a figure on its own for display.
        self.0.get(gauge as usize).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn set(&self, gauge: Gauge, figure: u64) {
        if let Some(word) = self.0.get(gauge as usize) {
            // ORDERING: Relaxed, a figure on its own for display.
            word.store(figure, Ordering::Relaxed);
        }
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            frequency_hz: Some(self.get(Gauge::FrequencyHz)).filter(|&hz| hz != 0),
            max_drift_ppb: self.get(Gauge::MaxDriftPpb),
            interval_ns: self.get(Gauge::IntervalNs),
            offset_ns: self.get(Gauge::OffsetNs).cast_signed(),
            samples_too_old: self.get(Gauge::TooOldIterations) >= TOO_OLD_ITERATIONS,
            counter_too_slow: self.get(Gauge::CounterTooSlow) != 0,
            is_disrupted: self.get(Gauge::Disrupted) != 0,
        }
    }

    pub(crate) fn show_counter_too_slow(&self) {
        self.set(Gauge::CounterTooSlow, 1);
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
        self.set(Gauge::FrequencyHz, slope.to_hz());
        self.set(Gauge::MaxDriftPpb, u64::from(max_drift_ppb));
        self.set(Gauge::IntervalNs, interval_ns);
        self.set(Gauge::OffsetNs, offset_ns.cast_unsigned());
        self.set(Gauge::TooOldIterations, 0);
        self.set(Gauge::CounterTooSlow, 0);
        self.set(Gauge::Disrupted, u64::from(disrupted));
    }

    /// Counts an iteration all of whose samples were too old when they were complete. For the
    /// holder of the clock's lock.
    pub(crate) fn count_samples_too_old(&self) {
        self.set(Gauge::TooOldIterations, self.get(Gauge::TooOldIterations).saturating_add(1));
    }
}
