//! The output of the programs, and statistics of many runs.
//!
//! The declaration of each program's report documents its fields. A field's name ends in its unit.
//! A field without a unit is a count or a text.

use std::io::{self, Write};

use serde::Serialize;
use tickline_observe::to_f64;

/// Prints `report` as JSON.
///
/// # Panics
///
/// If standard output cannot be written to.
pub fn print<R: Serialize>(report: &R) {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, report).expect("standard output");
    writeln!(out).expect("standard output");
}

/// The median and the largest of many figures, in the unit that the field's name states.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The largest figure.
    pub largest: f64,
}

impl Spread {
    /// The spread of `figures`; `None` without figures.
    #[must_use]
    pub fn new(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        Some(Self {
            median: *figures.get(figures.len() / 2)?,
            largest: *figures.last()?,
        })
    }
}

/// The slope of the line of least squares through `(x, y)`; `None` with fewer than two different x.
#[must_use]
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = to_f64(i64::try_from(points.len()).ok()?);
    let mean = |select: fn(&(f64, f64)) -> f64| points.iter().map(select).sum::<f64>() / count;
    let mean_x = mean(|point| point.0);
    let mean_y = mean(|point| point.1);
    let xx: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let xy: f64 = points
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum();
    (xx > 0.0).then(|| xy / xx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_found_if_there_is_one() {
        let points: Vec<(f64, f64)> = (0..100_i32)
            .map(|x| {
                (
                    f64::from(x),
                    7.0 + 3.0 * f64::from(x) + if x % 2 == 0 { 2.0 } else { -2.0 },
                )
            })
            .collect();
        assert!((slope(&points).unwrap() - 3.0).abs() < 0.01);
        assert_eq!(
            [
                slope(&[]),
                slope(&points[..1]),
                slope(&[(1.0, 2.0), (1.0, 3.0)])
            ],
            [None; 3]
        );
    }
}
