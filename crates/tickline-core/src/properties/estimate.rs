//! Properties of brackets and histories at extreme values: no value overflows, and saturated values
//! err on the safe side. The simulator checks at each reading that bounds contain the reference.

use crate::estimate::{CAPACITY, History};
use crate::line::Slope;
use crate::sample::{Point, Resolutions, Sample};
use crate::units::FixedNs;

use super::wide::{clamped_i64, signed_ticks, wide};

/// A bracket makes two points, or none if the counter ran backwards in it.
pub(crate) fn check_bracket(
    before_ticks: u64,
    reference_ns: i64,
    after_ticks: u64,
    resolutions: Resolutions,
) {
    let Some(sample) = Sample::from_bracket(before_ticks, reference_ns, after_ticks, resolutions) else {
        assert!(signed_ticks(before_ticks, after_ticks) < wide(0), "{before_ticks} to {after_ticks}");
        return;
    };
    assert!(signed_ticks(before_ticks, after_ticks) >= wide(0), "{sample:?}");
    assert_eq!((sample.upper.ticks, sample.lower.ns), (before_ticks, reference_ns));
    assert_eq!(sample.upper.ns, clamped_i64(wide(reference_ns) + resolutions.reference_ns));
    let around = wide(1_u128 << 64);
    assert_eq!(wide(sample.lower.ticks), (wide(after_ticks) + resolutions.lead_ticks()) % around);
}

/// A hostile sample: with any values, or with ticks and ns from the sample before, and the distance
/// of its points, ns.
#[derive(Debug, Clone)]
pub(crate) enum Hostile {
    Anywhere([u64; 2], [i64; 2]),
    After(u32, i32, i16),
}

/// A history does not panic for any samples, and keeps its invariants.
pub(crate) fn check_hostile(samples: &[Hostile], slope: Slope, max_drift_ppb: u32, interval_ticks: u64) {
    let mut history = History::new();
    for sample in samples {
        let ([upper_ticks, lower_ticks], [upper_ns, lower_ns]) = match *sample {
            Hostile::Anywhere(ticks, ns) => (ticks, ns),
            Hostile::After(gap, ns, width) => {
                let last = history.newest().unwrap_or_default().lower;
                let (ticks, ns) = (last.ticks.wrapping_add(gap.into()), last.ns.saturating_add(ns.into()));
                ([ticks; 2], [ns.saturating_add(width.into()), ns])
            }
        };
        history.push(Sample {
            upper: Point { ticks: upper_ticks, ns: upper_ns },
            lower: Point { ticks: lower_ticks, ns: lower_ns },
        });
        let before = history.samples().len();
        let (fit, dropped) = history.fit();
        assert_eq!(history.samples().len() + dropped, before);
        assert!(fit.is_some() || history.samples().len() < 2, "{history:?}");
        if let Some(fit) = fit {
            assert!(fit.slope_min <= fit.slope_max, "{fit:?}");
            let target = history.target(&fit, interval_ticks);
            assert!(target.is_none_or(|t| fit.slope_min <= t.slope && t.slope <= fit.slope_max));
        }
        history.thin(slope);
        assert!((1..=CAPACITY.min(before)).contains(&history.samples().len()), "the newest is gone");
        assert!(history.bounds(slope, max_drift_ppb, FixedNs::ZERO, FixedNs::ZERO).is_some());
    }
}
