//! A reading between two readings of `CLOCK_MONOTONIC`, and how far it is from their middle.

use crate::os::monotonic_ns;

/// Brackets wider than the narrowest by more than this give no offset, ns: the counter's
/// resolution on Zen 5, and the rounding.
pub const SPARE_NS: u64 = 12;

/// A reading and what `CLOCK_MONOTONIC` was before and after it, ns. The reading's zero is its
/// clock's own.
#[derive(Debug, Clone, Copy)]
pub struct Bracket {
    /// `CLOCK_MONOTONIC` before the reading.
    pub before_ns: u64,
    /// The reading.
    pub now_ns: u64,
    /// `CLOCK_MONOTONIC` after it.
    pub after_ns: u64,
}

impl Bracket {
    /// Brackets what `read` returns.
    #[inline]
    pub fn around(read: impl FnOnce() -> u64) -> Self {
        let before_ns = monotonic_ns();
        let now_ns = read();
        Self { before_ns, now_ns, after_ns: monotonic_ns() }
    }

    /// The narrowest of `tries` brackets, at least one.
    #[must_use]
    pub fn narrowest(tries: u32, read: fn() -> u64) -> Self {
        let mut best = Self::around(read);
        for _ in 1..tries {
            let bracket = Self::around(read);
            if bracket.width_ns() < best.width_ns() {
                best = bracket;
            }
        }
        best
    }

    /// ns from the reading before to the one after.
    #[must_use]
    pub const fn width_ns(&self) -> u64 {
        self.after_ns - self.before_ns
    }

    /// How far the reading is ahead of the bracket's middle, ns.
    #[must_use]
    pub fn offset_ns(&self) -> f64 {
        to_f64(self.now_ns.wrapping_sub(self.before_ns).cast_signed())
            - to_f64(self.width_ns().cast_signed()) / 2.0
    }

    /// What the clock has gained on `CLOCK_MONOTONIC` since an `earlier` bracket, ns.
    #[must_use]
    pub fn gained_ns(&self, earlier: &Self) -> f64 {
        // In integers first: Unix time is too large for what a float can distinguish.
        let clock = self.now_ns.wrapping_sub(earlier.now_ns).cast_signed();
        let reference_twice = (self.before_ns - earlier.before_ns) + (self.after_ns - earlier.after_ns);
        to_f64(clock) - to_f64(reference_twice.cast_signed()) / 2.0
    }
}

/// For differences and counts.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "differences and counts far below 2^53")]
pub const fn to_f64(value: i64) -> f64 {
    value as f64
}

/// The slope of the line of least squares through `(x, y)`, and the root of the mean square of
/// the residuals; `None` with fewer than two different x.
#[must_use]
pub fn fit(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = to_f64(i64::try_from(points.len()).ok()?);
    let mean = |select: fn(&(f64, f64)) -> f64| points.iter().map(select).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let xx: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let xy: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    if xx.is_nan() || xx <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let left: f64 = points.iter().map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum();
    Some((slope, (left / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_told_to_the_half_ns_even_in_unix_time() {
        const UNIX_NS: u64 = 1_800_000_000_000_000_000;
        let earlier = Bracket { before_ns: 1_000, now_ns: UNIX_NS, after_ns: 1_021 };
        let later =
            Bracket { before_ns: 2_000_001_000, now_ns: UNIX_NS + 2_000_000_003, after_ns: 2_000_001_020 };
        assert!((later.gained_ns(&earlier) - 3.5).abs() < 1e-9);
        assert!((earlier.gained_ns(&earlier)).abs() < 1e-9);
    }

    #[test]
    fn an_offset_is_seen_from_the_middle() {
        let bracket = |now_ns| Bracket { before_ns: 100, now_ns, after_ns: 120 }.offset_ns();
        assert!((bracket(110)).abs() < 1e-9);
        assert!((bracket(95) + 15.0).abs() < 1e-9);
        assert!((bracket(125) - 15.0).abs() < 1e-9);
    }

    #[test]
    fn a_line_is_found_and_what_is_left() {
        let points: Vec<(f64, f64)> = (0..100_i32)
            .map(|x| (f64::from(x), 7.0 + 3.0 * f64::from(x) + if x % 2 == 0 { 2.0 } else { -2.0 }))
            .collect();
        let (slope, left) = fit(&points).unwrap();
        assert!((slope - 3.0).abs() < 0.01 && (left - 2.0).abs() < 0.01, "{slope} {left}");
    }

    #[test]
    fn no_line_goes_through_one_point() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[(1.0, 2.0)]), None);
        assert_eq!(fit(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }
}
