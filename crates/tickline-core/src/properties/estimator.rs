//! The estimator with samples of a true line, and with arbitrary samples, steered by coverage.

use arbitrary::Arbitrary;

use super::estimate::{self, Read, Truth};
use crate::estimate::{CAPACITY, History};
use crate::line::Slope;
use crate::sample::{Point, Resolutions, Sample};
use crate::units::FixedNs;

/// What to check, and with what.
#[derive(Debug, Arbitrary)]
pub struct Input(Case);

#[derive(Debug, Arbitrary)]
enum Case {
    True { truth: TruthCase, reads: Vec<ReadCase>, ahead: u32, horizon: u32 },
    Bracket { before: u64, reference_ns: i64, after: u64, counter_step: u64, reference_step: i64 },
    Hostile { steps: Vec<Step> },
}

/// Within what a counter and a reference can be.
#[derive(Debug, Arbitrary)]
struct TruthCase {
    hz: u64,
    max_drift_ppb: u32,
    ticks: u64,
    ns: i64,
    counter_step: u16,
    reference_step: u8,
}

#[derive(Debug, Arbitrary)]
struct ReadCase {
    gap: u32,
    gap_shift: u8,
    before: u16,
    after: u16,
    phases: [u16; 3],
    rate: u64,
}

#[derive(Debug, Arbitrary)]
enum Step {
    /// Upper and lower point, anywhere.
    Push([u64; 2], [i64; 2]),
    /// The same after the newest sample.
    PushAfter {
        gap: u32,
        ns: i32,
        width: i16,
    },
    /// The newest sample again.
    PushAgain,
    Fit,
    Thin(u64),
    Bounds(u64, u32),
    Target(u64),
    Clear,
}

/// Counters that exist, 15.3 kHz to 16 GHz.
const USUAL_HZ: std::ops::Range<u64> = 15_300..16_000_000_000;

/// As many as a history holds twice over.
const MAX_READS: usize = 2 * CAPACITY;

impl Input {
    /// # Panics
    ///
    /// If a property does not hold.
    pub fn check(self) {
        match self.0 {
            Case::True { truth, reads, ahead, horizon } => {
                let hz = USUAL_HZ.start + truth.hz % (USUAL_HZ.end - USUAL_HZ.start);
                let truth = Truth {
                    slope: Slope::from_hz(hz).expect("fast enough"),
                    max_drift_ppb: truth.max_drift_ppb % 1_000_000,
                    ticks: truth.ticks,
                    ns: truth.ns >> 3,
                    resolutions: Resolutions {
                        counter_ticks: truth.counter_step.into(),
                        reference_ns: i64::from(truth.reference_step) + 1,
                        resolution_ticks: 0,
                    },
                };
                let reads: Vec<Read> = reads.iter().take(MAX_READS).map(read_of).collect();
                estimate::check_history(&truth, &reads, ahead.into(), horizon.into());
            }
            Case::Bracket { before, reference_ns, after, counter_step, reference_step } => {
                let resolutions = Resolutions {
                    counter_ticks: counter_step,
                    reference_ns: reference_step,
                    resolution_ticks: 0,
                };
                estimate::check_bracket(before, reference_ns, after, resolutions);
            }
            Case::Hostile { steps } => endure(&steps),
        }
    }
}

fn read_of(case: &ReadCase) -> Read {
    Read {
        gap_ticks: u64::from(case.gap) << (case.gap_shift % 6),
        before_ticks: case.before.into(),
        after_ticks: case.after.into(),
        phases: case.phases,
        rate: case.rate,
    }
}

/// A history does not panic, whatever its samples are, and keeps its invariants.
fn endure(steps: &[Step]) {
    let (mut history, mut last_fit) = (History::new(), None);
    for step in steps {
        let before = history.samples().len();
        match *step {
            Step::Push([upper_ticks, lower_ticks], [upper_ns, lower_ns]) => history.push(Sample {
                upper: Point { ticks: upper_ticks, ns: upper_ns },
                lower: Point { ticks: lower_ticks, ns: lower_ns },
            }),
            Step::PushAfter { gap, ns, width } => {
                let last = history.newest().unwrap_or_default().lower;
                let (ticks, ns) = (last.ticks.wrapping_add(gap.into()), last.ns.saturating_add(ns.into()));
                history.push(Sample {
                    upper: Point { ticks, ns: ns.saturating_add(width.into()) },
                    lower: Point { ticks, ns },
                });
            }
            Step::PushAgain => history.push(history.newest().unwrap_or_default()),
            Step::Fit => {
                let (fit, dropped) = history.fit();
                assert_eq!(history.samples().len() + dropped, before);
                assert!(fit.is_none_or(|fit| fit.slope_min <= fit.slope_max), "{fit:?}");
                assert!(fit.is_some() || history.samples().len() < 2, "{history:?}");
                last_fit = fit;
            }
            Step::Thin(slope) => {
                let newest = history.newest();
                history.thin(Slope::from_bits(slope));
                assert!(history.samples().len() <= before);
                assert_eq!(history.newest().is_some(), newest.is_some(), "the newest went");
            }
            Step::Bounds(slope, max_drift_ppb) => {
                let bounds =
                    history.bounds(Slope::from_bits(slope), max_drift_ppb, FixedNs::ZERO, FixedNs::ZERO);
                assert_eq!(bounds.is_some(), before > 0);
            }
            Step::Target(horizon_ticks) => {
                if let Some(fit) = last_fit {
                    let target = history.target(&fit, horizon_ticks);
                    assert!(target.is_none_or(|t| fit.slope_min <= t.slope && t.slope <= fit.slope_max));
                }
            }
            Step::Clear => history.clear(),
        }
        assert!(history.samples().len() <= CAPACITY);
    }
}
