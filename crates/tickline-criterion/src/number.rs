//! Conversions of numbers, the median, and a random choice.

use std::hash::{BuildHasher, RandomState};

/// A length as a `u64`.
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// An index or length as a `usize`, which must be large enough for it.
pub(crate) fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The nearest whole number; 0 for negative values and for NaN.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
pub(crate) fn round(value: f64) -> u64 {
    value.round() as u64
}

/// The value as an `f64`: exact below 2^53, which is 40 days of a counter at 2.6 GHz.
#[expect(
    clippy::cast_precision_loss,
    reason = "rounds to 53 bits, far below the counter's resolution"
)]
pub(crate) fn as_f64(value: u64) -> f64 {
    value as f64
}

/// The median of at least one value. The values must be in rising order.
pub(crate) fn middle(sorted: &[f64]) -> f64 {
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// A random number below `limit`, which is far below 2^64.
pub(crate) fn random_below(limit: u64) -> u64 {
    // Each `RandomState` has other keys.
    RandomState::new().hash_one(()) % limit
}

/// 0 or 1, at random: the index of the side that comes first.
pub(crate) fn random_side() -> usize {
    index(random_below(2))
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(middle(&[7.0]), 7.0);
        assert_eq!(middle(&[1.0, 4.0, 90.0]), 4.0);
        assert_eq!(middle(&[1.0, 4.0, 5.0, 90.0]), 4.5);
    }

    #[test]
    fn a_negative_value_rounds_to_zero() {
        assert_eq!([-0.6, 0.4, 0.5, 6.5, f64::NAN].map(round), [0, 0, 1, 7, 0]);
    }

    #[test]
    fn both_sides_come_first_equally_often() {
        let sides = iter::repeat_with(random_side).take(10_000);
        let ones = sides.filter(|side| *side == 1).count();
        assert!((4_700..=5_300).contains(&ones), "{ones} of 10,000");
        assert!((0..100).all(|_| random_side() < 2));
    }
}
