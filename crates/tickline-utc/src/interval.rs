//! What is known of a number: it is between two others.

/// The least and the greatest value that a number may have. Arithmetic ends at the ends of the
/// range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Interval<T> {
    pub(crate) min: T,
    pub(crate) max: T,
}

impl<T> Interval<T> {
    pub(crate) const fn between(min: T, max: T) -> Self {
        Self { min, max }
    }

    /// The interval of the values of `function`, which must not decrease.
    #[inline]
    pub(crate) fn map<U>(self, function: impl Fn(T) -> U) -> Interval<U> {
        Interval {
            min: function(self.min),
            max: function(self.max),
        }
    }
}

impl<T: Copy + Ord> Interval<T> {
    /// Only this value.
    pub(crate) const fn at(value: T) -> Self {
        Self::between(value, value)
    }

    /// Whether the two have a value in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }

    /// The smallest interval that contains both.
    pub(crate) fn hull(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

impl Interval<i64> {
    /// The values that are at most `half_width` from `middle`.
    pub(crate) const fn around(middle: i64, half_width: i64) -> Self {
        Self::between(middle, middle).widened_by(half_width)
    }

    /// Moves both ends outwards by `margin`.
    pub(crate) const fn widened_by(self, margin: i64) -> Self {
        Self {
            min: self.min.saturating_sub(margin),
            max: self.max.saturating_add(margin),
        }
    }

    /// The sums of a value of the one and a value of the other.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    /// The differences between a value of the one and a value of the other.
    pub(crate) const fn minus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_sub(other.max),
            max: self.max.saturating_sub(other.min),
        }
    }

    /// The distance between the ends; negative if no value is in the interval.
    pub(crate) const fn width(self) -> i64 {
        self.max.saturating_sub(self.min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Interval<i64> = Interval::between(3, 5);

    #[test]
    fn intervals_that_have_an_end_in_common_overlap() {
        for other in [Interval::between(5, 9), Interval::between(-1, 3)] {
            assert!(SMALL.overlaps(other) && other.overlaps(SMALL), "{other:?}");
        }
    }

    #[test]
    fn intervals_without_a_common_value_do_not_overlap() {
        for other in [Interval::between(6, 9), Interval::between(-1, 2)] {
            assert!(
                !SMALL.overlaps(other) && !other.overlaps(SMALL),
                "{other:?}"
            );
        }
    }

    #[test]
    fn an_interval_overlaps_one_inside_it() {
        assert!(SMALL.overlaps(Interval::at(4)) && Interval::at(4).overlaps(SMALL));
    }

    #[test]
    fn a_hull_contains_the_gap_between_the_two() {
        assert_eq!(SMALL.hull(Interval::at(9)), Interval::between(3, 9));
        assert_eq!(Interval::at(9).hull(SMALL), Interval::between(3, 9));
    }

    #[test]
    fn a_margin_moves_both_ends_outwards() {
        assert_eq!(SMALL.widened_by(2), Interval::between(1, 7));
    }

    #[test]
    fn an_interval_around_a_value_has_the_half_width_on_either_side() {
        assert_eq!(Interval::around(4, 1), SMALL);
    }

    #[test]
    fn a_sum_is_least_between_the_least_of_both() {
        assert_eq!(
            SMALL.plus(Interval::between(-1, 4)),
            Interval::between(2, 9)
        );
    }

    #[test]
    fn a_difference_is_least_between_the_least_and_the_greatest() {
        assert_eq!(
            Interval::between(10, 20).minus(SMALL),
            Interval::between(5, 17)
        );
    }

    #[test]
    fn arithmetic_ends_at_the_ends_of_the_range() {
        let all = Interval::between(i64::MIN, i64::MAX);
        assert_eq!(all.widened_by(1), all);
        assert_eq!(all.plus(Interval::between(-1, 1)), all);
        assert_eq!(all.minus(Interval::between(-1, 1)), all);
        assert_eq!(all.width(), i64::MAX);
    }
}
