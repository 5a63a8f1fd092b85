//! The distribution of pairs, and its quantiles.
//!
//! A counter with a resolution of `w` ticks reads a duration as a multiple of `w`: sometimes the
//! multiple below the duration, and sometimes the multiple above. The median of such values is a
//! multiple of `w`, too, even for 100,000 equal durations, and can be wrong by `w / 2`. Therefore
//! each value represents an interval of width `w` around it:
//!
//! ```text
//! F(x) = sum of count[i] * clamp((x - value[i]) / w + 1/2, 0, 1) / sum of count[i]
//! ```
//!
//! and the quantile `q` is the `x` with `F(x) = q`. For equal durations at random phases of the
//! counter, the median is then right within 0.09 `w` (a test has the numbers). This is the median
//! of grouped data, with groups that may overlap (Yule and Kendall, An Introduction to the Theory
//! of Statistics, 14th edition, chapter 5).

use hdrhistogram::Histogram;

use crate::measurement::calibration::Scale;
use crate::number::as_f64;

/// The number of significant digits in a histogram: values are exact up to 2,047 ticks, and within
/// 0.1 % above.
const DIGITS: u8 = 3;

/// The longest pair in a histogram, ticks: minutes. Longer pairs count as this.
const MAX_TICKS: u64 = 1 << 40;

/// The pairs of a benchmark, ticks.
#[derive(Debug, Clone)]
pub(crate) struct Distribution(pub(crate) Histogram<u64>);

impl Default for Distribution {
    fn default() -> Self {
        let empty = Histogram::new_with_bounds(1, MAX_TICKS, DIGITS);
        Self(empty.expect("bounds and digits are constants"))
    }
}

impl Extend<u64> for Distribution {
    fn extend<T: IntoIterator<Item = u64>>(&mut self, pairs: T) {
        pairs
            .into_iter()
            .for_each(|ticks| self.0.saturating_record(ticks));
    }
}

impl Distribution {
    /// The values and their counts, in rising order.
    pub(crate) fn counted(&self) -> Vec<Counted> {
        let middle = |value: u64| as_f64(self.0.median_equivalent(value));
        let steps = self.0.iter_recorded();
        steps
            .map(|step| (middle(step.value_iterated_to()), step.count_at_value()))
            .collect()
    }

    /// The times of an iteration, ns, without the cost of a pair, and their counts, in rising
    /// order. A pair has `iterations` iterations.
    pub(crate) fn histogram_ns(&self, scale: &Scale, iterations: u64) -> Vec<(f64, u64)> {
        let each_ns = |ticks: f64| scale.net_ns(ticks) / as_f64(iterations);
        self.counted()
            .into_iter()
            .map(|(ticks, count)| (each_ns(ticks), count))
            .collect()
    }
}

/// A value, ticks, and its count.
pub(crate) type Counted = (f64, u64);

/// The `q`-quantile, ticks, of `values` in any order. Each value represents an interval of
/// `width_ticks`. `None` without values.
pub(crate) fn quantile(values: &[Counted], width_ticks: f64, q: f64) -> Option<f64> {
    let total: f64 = values.iter().map(|(_, count)| as_f64(*count)).sum();
    if total == 0.0 {
        return None;
    }
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    for (value, _) in values {
        min = min.min(*value);
        max = max.max(*value);
    }
    let half = width_ticks.max(f64::MIN_POSITIVE) / 2.0;
    let (mut low, mut high) = (min - half, max + half);
    let share = |x: f64| -> f64 {
        let below = |value: f64| ((x - value) / (2.0 * half) + 0.5).clamp(0.0, 1.0);
        values
            .iter()
            .map(|(value, count)| below(*value) * as_f64(*count))
            .sum::<f64>()
            / total
    };
    // Bisection: 50 halvings narrow days of ticks down to less than a thousandth of a tick.
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if share(middle) < q {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(f64::midpoint(low, high))
}

/// The median of single values: [`quantile`] for the few values of a round.
pub(crate) fn median(values: &[f64], width_ticks: f64) -> Option<f64> {
    let counted: Vec<Counted> = values.iter().map(|value| (*value, 1)).collect();
    quantile(&counted, width_ticks, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_durations_have_their_median_within_a_tenth_of_a_step() {
        let step = 26.0;
        for thousandths in 0..=1_000_u32 {
            let fraction = f64::from(thousandths) / 1_000.0;
            // Durations of 4 resolutions and a fraction. The counter reads them as 4 or 5
            // resolutions, depending on its phase at the start.
            let above = u64::from(thousandths);
            let values = [(4.0 * step, 1_000 - above), (5.0 * step, above)];
            let median = quantile(&values, step, 0.5).expect("values");
            let truth = (4.0 + fraction) * step;
            assert!((median - truth).abs() <= 0.09 * step, "{median} of {truth}");
        }
    }

    #[test]
    fn a_counter_that_moves_by_one_tick_has_its_own_values_for_quantiles() {
        let values: Vec<Counted> = (1..=1_000)
            .rev()
            .map(|value| (f64::from(value), 1))
            .collect();
        for (q, expected) in [(0.5, 500.5), (0.9, 900.5), (0.999, 999.5)] {
            let found = quantile(&values, 1.0, q).expect("values");
            assert!((found - expected).abs() < 0.01, "{found} of {expected}");
        }
        assert_eq!(quantile(&[], 1.0, 0.5), None);
        assert_eq!(quantile(&[(7.0, 0)], 1.0, 0.5), None);
    }
}
