//! Properties of brackets and histories at extreme values: nothing overflows, and what saturates
//! stays on its side. That bounds contain the reference is checked by the simulator, at each
//! reading.

use crate::estimate::{CAPACITY, History};
use crate::line::Slope;
use crate::sample::{Point, Resolutions, Sample};
use crate::units::FixedNs;

use super::wide::{clamped_i64, signed_ticks, wide};

/// Any bracket is two points, or nothing if the counter ran backwards in it.
pub(crate) fn check_bracket(
    before_ticks: u64,
    reference_ns: i64,
    after_ticks: u64,
    resolutions: Resolutions,
) {
    let Some(sample) = Sample::of(before_ticks, reference_ns, after_ticks, resolutions) else {
        assert!(signed_ticks(before_ticks, after_ticks) < wide(0), "{before_ticks} to {after_ticks}");
        return;
    };
    assert!(signed_ticks(before_ticks, after_ticks) >= wide(0), "{sample:?}");
    assert_eq!((sample.upper.ticks, sample.lower.ns), (before_ticks, reference_ns));
    assert_eq!(sample.upper.ns, clamped_i64(wide(reference_ns) + resolutions.reference_ns));
    let around = wide(1_u128 << 64);
    assert_eq!(wide(sample.lower.ticks), (wide(after_ticks) + resolutions.counter_ticks) % around);
}

/// What may be done to a history.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Upper and lower point, anywhere.
    Push([u64; 2], [i64; 2]),
    /// The same after the newest sample: ticks and ns from there, and how far apart they are, ns.
    PushAfter(u32, i32, i16),
    /// The newest sample again.
    PushAgain,
    Fit,
    Thin(u64),
    Bounds(u64, u32),
    Target(u64),
    Clear,
}

/// A history does not panic, whatever its samples are, and keeps its invariants.
pub(crate) fn check_hostile(steps: &[Step]) {
    let (mut history, mut last_fit) = (History::new(), None);
    for step in steps {
        let before = history.samples().len();
        match *step {
            Step::Push([upper_ticks, lower_ticks], [upper_ns, lower_ns]) => history.push(Sample {
                upper: Point { ticks: upper_ticks, ns: upper_ns },
                lower: Point { ticks: lower_ticks, ns: lower_ns },
            }),
            Step::PushAfter(gap, ns, width) => {
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
            Step::Target(interval_ticks) => {
                if let Some(fit) = last_fit {
                    let target = history.target(&fit, interval_ticks);
                    assert!(target.is_none_or(|t| fit.slope_min <= t.slope && t.slope <= fit.slope_max));
                }
            }
            Step::Clear => history.clear(),
        }
        assert!(history.samples().len() <= CAPACITY);
    }
}
