//! Figures of the control loop, for statuses and for the publisher of a page. No reading uses them.

use crate::primitive::{AtomicI64, AtomicU64, Ordering};

/// The control loop's latest figures. A reader loads them one by one, so two of them may be from
/// two iterations.
///
/// ```
/// use tickline_core::cell::LineCell;
/// use tickline_core::shared::SharedClock;
///
/// static CLOCK: SharedClock = SharedClock::new(LineCell::new());
/// assert_eq!(CLOCK.readings().figures().last_line, None, "no `Control` has published a line yet");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// The figures of the line that was published last, which may have ended since; `None` before
    /// the first line.
    pub last_line: Option<LineFigures>,
    /// The age of the last sample, if the samples of several iterations in a row were too old for a
    /// line when they were complete. To fix that, choose a longer interval, or leave the writer's
    /// thread more time on a CPU.
    pub too_old_sample: Option<SampleAge>,
    /// The measured frequency of a counter that is too slow for a line, Hz: see
    /// [`LineCell`](crate::cell::LineCell). `None` unless an iteration since the
    /// last line has found one.
    pub too_slow_counter_hz: Option<u64>,
}

/// The figures of a line that was published.
///
/// ```
/// use tickline_core::shared::Figures;
///
/// fn print(figures: &Figures) {
///     if let Some(line) = figures.last_line {
///         println!("{} Hz, {} ns off", line.frequency_hz, line.offset_ns);
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineFigures {
    /// The measured frequency of the counter, Hz.
    pub frequency_hz: u64,
    /// The maximum drift by which the bounds of the line were made, ppb.
    pub max_drift_ppb: u64,
    /// The interval between recalibrations, ns.
    pub interval_ns: u64,
    /// Line minus target at the publication, ns.
    pub offset_ns: i64,
    /// Whether the line is off its target after a jump of the reference or the counter, and is
    /// still being slewed back. Also true for an interval after a hypervisor has moved or restored
    /// the machine.
    pub is_disrupted: bool,
}

/// The age at which a sample was too old for a line.
///
/// ```
/// use tickline_core::shared::Figures;
///
/// fn print(figures: &Figures) {
///     if let Some(sample) = figures.too_old_sample {
///         println!("a sample was {} ns old; the limit is {} ns", sample.age_ns, sample.limit_ns);
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleAge {
    /// The age of the sample when its line was to be made, ns.
    pub age_ns: u64,
    /// The largest age that a sample may have, ns: 100 us, or twice the time that the quickest of
    /// the last samples took if that is longer, but then at most half of the interval.
    pub limit_ns: u64,
}

/// The number of iterations in a row with only too old samples that is no accident: each iteration
/// tries four times.
const TOO_OLD_ITERATIONS: u64 = 4;

/// The memory of [`Figures`].
#[derive(Debug)]
pub(crate) struct AtomicFigures {
    /// 0 before the first line.
    frequency_hz: AtomicU64,
    max_drift_ppb: AtomicU64,
    interval_ns: AtomicU64,
    offset_ns: AtomicI64,
    /// Iterations in a row all of whose samples were too old when they were complete.
    too_old_iterations: AtomicU64,
    /// The age of the last such sample, and its limit, ns.
    sample_age_ns: AtomicU64,
    sample_age_limit_ns: AtomicU64,
    /// 0 stands for `None`.
    too_slow_counter_hz: AtomicU64,
    is_disrupted: AtomicU64,
}

// ORDERING for all figures but the frequency: Relaxed. Each is a figure on its own, and orders no
// memory: a reading's bounds keep their promise without it.
const RELAXED: Ordering = Ordering::Relaxed;

impl AtomicFigures {
    pub(crate) const fn new() -> Self {
        Self {
            frequency_hz: AtomicU64::new(0),
            max_drift_ppb: AtomicU64::new(0),
            interval_ns: AtomicU64::new(0),
            offset_ns: AtomicI64::new(0),
            too_old_iterations: AtomicU64::new(0),
            sample_age_ns: AtomicU64::new(0),
            sample_age_limit_ns: AtomicU64::new(0),
            too_slow_counter_hz: AtomicU64::new(0),
            is_disrupted: AtomicU64::new(0),
        }
    }

    pub(crate) fn load(&self) -> Figures {
        Figures {
            last_line: self.last_line(),
            too_old_sample: self.too_old_sample(),
            too_slow_counter_hz: Some(self.too_slow_counter_hz.load(RELAXED)).filter(|&hz| hz != 0),
        }
    }

    fn last_line(&self) -> Option<LineFigures> {
        // ORDERING: Acquire, pairs with the Release store in `store`: a frequency comes with the
        // other figures of a line.
        let frequency_hz = self.frequency_hz.load(Ordering::Acquire);
        (frequency_hz != 0).then(|| LineFigures {
            frequency_hz,
            max_drift_ppb: self.max_drift_ppb.load(RELAXED),
            interval_ns: self.interval_ns.load(RELAXED),
            offset_ns: self.offset_ns.load(RELAXED),
            is_disrupted: self.is_disrupted.load(RELAXED) != 0,
        })
    }

    fn too_old_sample(&self) -> Option<SampleAge> {
        (self.too_old_iterations.load(RELAXED) >= TOO_OLD_ITERATIONS).then(|| SampleAge {
            age_ns: self.sample_age_ns.load(RELAXED),
            limit_ns: self.sample_age_limit_ns.load(RELAXED),
        })
    }

    /// Stores the frequency of a counter that is too slow for a line. One of less than 1 Hz counts
    /// as 1 Hz.
    pub(crate) fn store_too_slow_counter(&self, hz: u64) {
        self.too_slow_counter_hz.store(hz.max(1), RELAXED);
    }

    /// Stores the figures of a line that was published. Its counter was not too slow.
    pub(crate) fn store(&self, line: &LineFigures) {
        self.max_drift_ppb.store(line.max_drift_ppb, RELAXED);
        self.interval_ns.store(line.interval_ns, RELAXED);
        self.offset_ns.store(line.offset_ns, RELAXED);
        self.too_slow_counter_hz.store(0, RELAXED);
        self.is_disrupted
            .store(u64::from(line.is_disrupted), RELAXED);
        // ORDERING: Release, pairs with the Acquire load in `last_line`.
        self.frequency_hz
            .store(line.frequency_hz, Ordering::Release);
    }

    /// Counts an iteration if all of its samples were too old when they were complete: `too_old` is
    /// the age of the last one. Another iteration ends the row. Only the holder of the clock's lock
    /// may call this.
    pub(crate) fn record_iteration(&self, too_old: Option<SampleAge>) {
        let Some(SampleAge { age_ns, limit_ns }) = too_old else {
            self.too_old_iterations.store(0, RELAXED);
            return;
        };
        self.sample_age_ns.store(age_ns, RELAXED);
        self.sample_age_limit_ns.store(limit_ns, RELAXED);
        let iterations = self.too_old_iterations.load(RELAXED);
        self.too_old_iterations
            .store(iterations.saturating_add(1), RELAXED);
    }
}
