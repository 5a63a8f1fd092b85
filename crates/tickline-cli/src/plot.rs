//! A small plot made of text: offsets as `*`, the claimed bounds as a shaded band.
//!
//! `watch` uses ratatui's `Chart`, which does not fit here: it has no shaded band, and its Braille
//! dots are not ASCII.

use crate::measure::track::Point;

/// The width of the widest plot, columns, without the labels.
const COLUMNS: usize = 64;
/// Columns of the labels.
const LABELS: usize = 10;
/// Odd, so that 0 has a row of its own.
const ROWS: usize = 11;

/// The lines of a plot of offset and bound over time, for a terminal of this width. Empty without
/// points.
pub(crate) fn lines(points: &[Point], columns: usize) -> Vec<String> {
    let columns = columns.saturating_sub(LABELS).clamp(10, COLUMNS);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let limit = nice_limit(points.iter().map(extent).fold(1.0, f64::max));
    let span = (last.at_s - first.at_s).max(f64::MIN_POSITIVE);
    let mut grid = vec![vec![' '; columns]; ROWS];
    for point in points {
        let column = place((point.at_s - first.at_s) / span, columns);
        let low = row(point.offset_ns - as_f64(point.before_ns), limit);
        let high = row(point.offset_ns + as_f64(point.after_ns), limit);
        for line in &mut grid[high..=low] {
            if line[column] == ' ' {
                line[column] = '.';
            }
        }
        grid[row(point.offset_ns, limit)][column] = '*';
    }
    let mut lines = Vec::with_capacity(ROWS + 2);
    for (index, line) in grid.iter().enumerate() {
        let label = match index {
            0 => format!("{limit:+5.0} ns"),
            _ if index == ROWS / 2 => "    0 ns".to_owned(),
            _ if index == ROWS - 1 => format!("{:+5.0} ns", -limit),
            _ => " ".repeat(8),
        };
        lines.push(format!("{label} |{}", line.iter().collect::<String>()).trim_end().to_owned());
    }
    lines.push(format!("         +{}", "-".repeat(columns)));
    lines.push(format!("          0 s{:>width$}", format!("{span:.1} s"), width = columns - 3));
    lines
}

/// How far a point and its bounds reach from 0, ns.
fn extent(point: &Point) -> f64 {
    let (above, below) =
        (point.offset_ns + as_f64(point.after_ns), as_f64(point.before_ns) - point.offset_ns);
    above.abs().max(below.abs())
}

/// 1, 2 or 5 times a power of ten, not below `value`.
pub(crate) fn nice_limit(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|limit| *limit >= value).unwrap_or(value)
}

/// The row of a value between `limit` (top) and `-limit`.
fn row(value: f64, limit: f64) -> usize {
    place((limit - value) / (2.0 * limit), ROWS)
}

/// The nearest of `count` positions for a share of 0 to 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "clamped to a small table"
)]
fn place(share: f64, count: usize) -> usize {
    ((share.clamp(0.0, 1.0) * (count - 1) as f64).round() as usize).min(count - 1)
}

#[expect(clippy::cast_precision_loss, reason = "a bound of far less than 2^53 ns")]
fn as_f64(ns: u64) -> f64 {
    ns as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_s: f64, offset_ns: f64) -> Point {
        let (before_ns, after_ns) = (10, 10);
        Point { at_s, offset_ns, bracket_ns: 15.0, before_ns, after_ns, inside: true, violated: false }
    }

    #[test]
    fn points_are_drawn_at_their_time_and_offset() {
        let lines = lines(&[point(0.0, 40.0), point(1.0, 0.0), point(2.0, -40.0)], 100);
        assert_eq!(lines.len(), ROWS + 2);
        assert_eq!(lines[0], "  +50 ns |.", "the top of the first bound");
        assert_eq!(lines[1], "         |*");
        assert!(lines[5].starts_with("    0 ns |") && lines[5].contains('*'));
        assert!(lines[9].ends_with('*') && lines[9].len() == 10 + COLUMNS);
        assert!(lines[12].ends_with("2.0 s"));
    }

    #[test]
    fn no_points_give_no_plot() {
        assert!(lines(&[], 100).is_empty());
        assert_eq!(lines(&[point(0.0, 0.0)], 100).len(), ROWS + 2, "one point is enough");
    }

    #[test]
    fn limits_are_round() {
        for (value, limit) in [(1.0, 1.0), (1.1, 2.0), (37.0, 50.0), (51.0, 100.0), (300.0, 500.0)] {
            assert!((nice_limit(value) - limit).abs() < 1e-9, "{value}: {}", nice_limit(value));
        }
    }
}
