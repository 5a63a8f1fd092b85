//! The confidence interval of a difference, from pairs of measurements.
//!
//! Each round gives one difference: the median of B minus the median of A, in the same few ms. If
//! there is no true difference, these differences scatter symmetrically around 0; their
//! distribution does not matter. The estimate is the median of the Walsh averages `(d[i] + d[j]) /
//! 2`, `i <= j` (Hodges and Lehmann, 1963). The interval ends at the `C`-th Walsh average from
//! either end. `C` comes from the distribution of Wilcoxon's signed rank statistic, here in its
//! normal approximation:
//!
//! ```text
//! C = n(n+1)/4 - z * sqrt(n(n+1)(2n+1)/24)
//! ```
//!
//! Source: Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd edition, 3.1 to 3.3
//! (Comments on the large-sample approximation). For normally distributed differences a t interval
//! would be shorter by 2 %, but it would be wrong if other load makes a few rounds outliers.

use crate::number::{as_f64, count, index, middle, round};

/// The quantile of the normal distribution for a two-sided interval of 95 %.
const Z: f64 = 1.959_964;

/// The smallest number of differences for the approximation; an interval of 95 % needs six.
pub(crate) const MIN_ROUNDS: usize = 10;

/// A difference and its bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) estimate: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The estimate and its interval of 95 %; `None` for fewer than [`MIN_ROUNDS`] differences.
pub(crate) fn interval(differences: &[f64]) -> Option<Interval> {
    if differences.len() < MIN_ROUNDS {
        return None;
    }
    let mut walsh = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (i, one) in differences.iter().enumerate() {
        walsh.extend(
            differences[i..]
                .iter()
                .map(|other| f64::midpoint(*one, *other)),
        );
    }
    walsh.sort_unstable_by(f64::total_cmp);
    let n = as_f64(count(differences.len()));
    let spread = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    // The cut is rounded down, so the interval may be too long, but not too short.
    let cut = index(round((n * (n + 1.0) / 4.0 - Z * spread).floor())).max(1);
    Some(Interval {
        estimate: middle(&walsh),
        low: walsh[cut - 1],
        high: walsh[walsh.len() - cut],
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::*;

    /// Numbers from -0.5 to 0.5, the same in each run.
    pub(crate) fn uniform(seed: u64) -> impl FnMut() -> f64 {
        let mut number = 0_u64;
        move || {
            number += 1;
            let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((seed, number));
            as_f64(hash >> 11) / as_f64(1 << 53) - 0.5
        }
    }

    /// Differences with heavy tails: uniform values, one in ten of which is ten times as large.
    fn differences(uniform: &mut impl FnMut() -> f64) -> Vec<f64> {
        let mut one = || {
            if uniform() < -0.4 {
                10.0 * uniform()
            } else {
                uniform()
            }
        };
        (0..60).map(|_| one()).collect()
    }

    #[test]
    fn five_percent_of_intervals_exclude_a_true_difference_of_zero() {
        let mut uniform = uniform(7);
        let outside = (0..2_000)
            .filter(|_| {
                let found = interval(&differences(&mut uniform)).expect("enough");
                found.low > 0.0 || found.high < 0.0
            })
            .count();
        // 100 are expected, with a standard deviation of 10.
        assert!((60..=135).contains(&outside), "{outside} of 2,000");
    }

    /// The definition applied by hand to the differences -4.5, -3.5, .. 4.5, and to the same
    /// differences plus 20.
    #[test]
    fn the_interval_is_that_of_an_example_by_hand() {
        let differences: Vec<f64> = (0..10).map(|step| f64::from(step) - 4.5).collect();
        let found = interval(&differences).expect("ten");
        // C = 27.5 - 1.96 * sqrt(96.25) = 8.27, so the ends are the eighth of 55 averages from
        // either end. The smallest averages are -4.5, -4, -3.5 twice, -3 twice, -2.5 three times.
        assert_eq!(
            found,
            Interval {
                estimate: 0.0,
                low: -2.5,
                high: 2.5
            }
        );
        let shifted: Vec<f64> = differences
            .iter()
            .map(|difference| difference + 20.0)
            .collect();
        assert_eq!(
            interval(&shifted),
            Some(Interval {
                estimate: 20.0,
                low: 17.5,
                high: 22.5
            })
        );
        assert_eq!(interval(&differences[1..]), None);
    }
}
