//! Properties of brackets and histories at extreme values: no value overflows, and saturated values
//! err on the safe side. The simulator checks at each reading that bounds contain the reference.

use crate::estimate::{Allowance, CAPACITY, FitResult, History};
use crate::reference::{ReferenceKind, Resolutions};
use crate::sample::{Point, Sample};
use crate::units::FixedNs;
use proptest::prelude::*;

use super::wide::{clamped_i64, signed_ticks, wide};
use super::{CHEAP, config, number, signed_number, slope};

/// A hostile sample: with any values, or with ticks and ns from the sample before, and the distance
/// of its points, ns.
#[derive(Debug, Clone)]
enum Hostile {
    Anywhere([u64; 2], [i64; 2]),
    After(u32, i32, i16),
}

fn hostile() -> impl Strategy<Value = Hostile> {
    prop_oneof![
        1 => ([number(), number()], [signed_number(), signed_number()])
            .prop_map(|(ticks, ns)| Hostile::Anywhere(ticks, ns)),
        4 => any::<(u32, i32, i16)>().prop_map(|(gap, ns, width)| Hostile::After(gap, ns, width)),
        1 => Just(Hostile::After(0, 0, 0)),
    ]
}

proptest! {
    #![proptest_config(config(CHEAP))]

    /// A bracket makes two points, or none if the counter ran backwards in it.
    #[test]
    fn a_bracket_is_two_points(
        (before, after, time_ns, counter_ticks, reference_ns)
            in (number(), number(), signed_number(), number(), signed_number())
    ) {
        let resolutions = Resolutions { counter_ticks, reference_ns, reference_kind: ReferenceKind::Independent };
        for after in [after, before.wrapping_add(after >> 20)] {
            let sample = Sample::from_bracket(before, time_ns, after, resolutions);
            assert_eq!(sample.is_some(), signed_ticks(before, after) >= wide(0), "{before} to {after}");
            let Some(sample) = sample else { continue };
            assert_eq!((sample.upper.ticks, sample.lower.ns), (before, time_ns));
            assert_eq!(sample.upper.ns, clamped_i64(wide(time_ns) + resolutions.reference_ns));
            let around = wide(1_u128 << 64);
            assert_eq!(wide(sample.lower.ticks), (wide(after) + resolutions.unseen_ticks()) % around);
        }
    }
}

proptest! {
    // A case takes some milliseconds.
    #![proptest_config(config(1))]

    /// A history does not panic for any samples, and keeps its invariants.
    #[test]
    fn a_history_endures_any_samples(
        (samples, slope, max_drift_ppb, interval)
            in (prop::collection::vec(hostile(), 1..40), slope(), any::<u32>(), number())
    ) {
        let mut history = History::new();
        for sample in samples {
            let ([upper_ticks, lower_ticks], [upper_ns, lower_ns]) = match sample {
                Hostile::Anywhere(ticks, ns) => (ticks, ns),
                Hostile::After(gap, ns, width) => {
                    let last = history.newest().copied().unwrap_or_default().lower;
                    let ticks = last.ticks.wrapping_add(gap.into());
                    let ns = last.ns.saturating_add(ns.into());
                    ([ticks; 2], [ns.saturating_add(width.into()), ns])
                }
            };
            history.push(Sample {
                upper: Point { ticks: upper_ticks, ns: upper_ns },
                lower: Point { ticks: lower_ticks, ns: lower_ns },
            });
            let before = history.samples().len();
            let FitResult { fit, dropped } = history.fit();
            assert_eq!(history.samples().len() + dropped, before);
            assert!(fit.is_some() || history.samples().len() < 2, "{history:?}");
            if let Some(fit) = fit {
                assert!(fit.slope_min <= fit.slope_max, "{fit:?}");
                let target = history.target(&fit, interval);
                assert!(target.is_none_or(|t| fit.slope_min <= t.slope && t.slope <= fit.slope_max));
            }
            history.thin(slope);
            assert!((1..=CAPACITY.min(before)).contains(&history.samples().len()), "the newest is gone");
            let allowance = Allowance { max_drift_ppb, dither: FixedNs::ZERO };
            assert!(history.bounds(slope, &allowance, FixedNs::ZERO).is_some());
        }
    }
}
