//! An estimate with its interval.

use serde::{Deserialize, Serialize};

/// An estimate with both ends of its interval. The name of the field that has it ends in the unit:
/// ns of [`Comparison::difference_ns`](crate::results::Comparison::difference_ns), % of
/// [`BenchmarkVerdict::difference_percent`](crate::results::BenchmarkVerdict::difference_percent).
///
/// ```
/// use tickline_criterion::results::Interval;
///
/// let difference_percent: Interval =
///     serde_json::from_str(r#"{"estimate":17.2,"low":16.4,"high":18.0}"#)?;
/// assert!(difference_percent.excludes_zero());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interval {
    /// The estimate. It is between both ends.
    pub estimate: f64,
    /// The low end.
    pub low: f64,
    /// The high end.
    pub high: f64,
}

impl Interval {
    /// Whether the whole interval is above 0, or below.
    #[must_use]
    pub fn excludes_zero(self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Half of the interval's width, in the interval's unit.
    pub(crate) fn half_width(self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether all three are numbers. There is no percentage of a time of 0.
    pub(crate) fn is_finite(self) -> bool {
        self.in_order().into_iter().all(f64::is_finite)
    }

    /// The interval for JSON, which has no other numbers.
    pub(crate) fn finite(self) -> Option<Self> {
        self.is_finite().then_some(self)
    }

    /// The interval in another unit: `convert` changes no order.
    pub(crate) fn map(self, convert: impl Fn(f64) -> f64) -> Self {
        Self {
            estimate: convert(self.estimate),
            low: convert(self.low),
            high: convert(self.high),
        }
    }

    /// The interval with both ends further out.
    pub(crate) fn widened(self, by: f64) -> Self {
        Self {
            low: self.low - by,
            high: self.high + by,
            ..self
        }
    }

    /// The low end, the estimate, and the high end.
    pub(crate) const fn in_order(self) -> [f64; 3] {
        [self.low, self.estimate, self.high]
    }
}
