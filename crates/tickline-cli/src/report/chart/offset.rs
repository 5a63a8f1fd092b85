//! Offset and bound over time.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::figure::{Figure, Swatch, WIDTH, units};
use super::scale::{Scale, time};
use crate::document::TrackSummary;
use crate::measure::track::Point;

const HEIGHT: f64 = 250.0;
const LEFT: f64 = 58.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = HEIGHT - 38.0;

/// Points that share a column are drawn as one line from the lowest to the highest.
const COLUMNS: usize = 250;

/// The chart; empty without points.
pub(in crate::report) fn figure(track: &TrackSummary) -> Markup {
    let Some(last) = track.points.last() else { return Markup::default() };
    let limit = limit(&track.points);
    let x = Scale::linear(0.0, last.at_s, LEFT, WIDTH - 4.0);
    let y = Scale::linear(-limit, limit, BOTTOM, TOP);
    let columns: Vec<Column> =
        track.points.chunks(track.points.len().div_ceil(COLUMNS)).map(Column::of).collect();
    let beyond = track.points.iter().filter(|point| point.offset_ns.abs() > limit).count();
    let drawing = html! {
        (x.columns(5.0, (TOP, BOTTOM), |s| format!("{s:.0$} s", usize::from(last.at_s < 5.0))))
        (y.rows(6.0, LEFT, time))
        path.bound d=(band(&columns, &x, &y)) {}
        path.axis d=(format!("M{LEFT} {0}H{WIDTH}", y.at(0.0))) {}
        path.offset d=(offsets(&columns, &x, &y)) {}
        @for point in track.points.iter().filter(|point| point.violated) {
            path.bad d=(format!("M{} {}m-4 -4l8 8m0 -8l-8 8", x.at(point.at_s), y.at(point.offset_ns))) {
                title { "bound violated at " (format!("{:.2} s", point.at_s)) }
            }
        }
        text.middle x=(units((LEFT + WIDTH) / 2.0)) y=(HEIGHT - 4.0) { "time since the start" }
    };
    let mut legend = vec![("offset", Swatch::Dot("offset")), ("claimed bound", Swatch::Bar("bound"))];
    if track.bound_violated > 0 {
        legend.push(("bound violated", Swatch::Line("bad")));
    }
    let summary = format!(
        "{} samples over {:.0} s: largest offset {:.0} ns, largest bound {} ns, bound violated {} times",
        track.points.len(),
        last.at_s,
        track.largest_offset_ns,
        track.largest_bound_ns,
        track.bound_violated
    );
    let counts = format!(
        "{} samples: {} outside of their bracket, {} contradict the bound.",
        track.points.len(),
        track.outside_bracket,
        track.bound_violated
    );
    Figure {
        title: "Offset from CLOCK_MONOTONIC, and claimed bound",
        summary: &summary,
        meaning: html! {
            "Each sample brackets a reading between two reads of CLOCK_MONOTONIC; the offset is the reading minus their middle. "
            "The bound says where CLOCK_MONOTONIC may be: the line at 0 must be within it. " (counts)
            @if beyond > 0 { " " (beyond) " beyond the range, drawn at its border." }
        },
        legend: &legend,
        size: "",
        height: HEIGHT,
        drawing,
    }
    .markup()
}

/// The range of the drawing, ns: all points, unless a few would make the others indistinguishable.
fn limit(points: &[Point]) -> f64 {
    let mut reaches: Vec<f64> = points.iter().map(|point| low(point).abs().max(high(point).abs())).collect();
    reaches.sort_by(f64::total_cmp);
    let (largest, usual) = (reaches[reaches.len() - 1], reaches[(reaches.len() - 1) * 98 / 100]);
    1.1 * if largest > 4.0 * usual { usual } else { largest }.max(1.0)
}

/// The lower end of the claimed bound, ns from CLOCK_MONOTONIC.
#[expect(clippy::cast_precision_loss, reason = "a bound of far less than 2^53 ns")]
fn low(point: &Point) -> f64 {
    point.offset_ns - point.before_ns as f64
}

/// The upper end of the claimed bound, ns from CLOCK_MONOTONIC.
#[expect(clippy::cast_precision_loss, reason = "a bound of far less than 2^53 ns")]
fn high(point: &Point) -> f64 {
    point.offset_ns + point.after_ns as f64
}

/// Points that share a place on the time axis.
#[derive(Debug, Clone, Copy)]
struct Column {
    at_s: f64,
    lowest: f64,
    highest: f64,
    low: f64,
    high: f64,
}

impl Column {
    fn of(points: &[Point]) -> Self {
        let fold = |value: fn(&Point) -> f64, choose: fn(f64, f64) -> f64, start| {
            points.iter().map(value).fold(start, choose)
        };
        Self {
            at_s: points[0].at_s,
            lowest: fold(|point| point.offset_ns, f64::min, f64::INFINITY),
            highest: fold(|point| point.offset_ns, f64::max, f64::NEG_INFINITY),
            low: fold(low, f64::min, f64::INFINITY),
            high: fold(high, f64::max, f64::NEG_INFINITY),
        }
    }
}

/// The area between the claimed bounds.
fn band(columns: &[Column], x: &Scale, y: &Scale) -> String {
    let mut path = String::new();
    let ends = columns.iter().map(|column| (column.at_s, column.high));
    let back = columns.iter().rev().map(|column| (column.at_s, column.low));
    for (at_s, ns) in ends.chain(back) {
        let verb = if path.is_empty() { 'M' } else { 'L' };
        write!(path, "{verb}{} {}", x.at(at_s), y.at(ns)).ok();
    }
    path + "Z"
}

/// A dot, or a line from the lowest to the highest, for each column.
fn offsets(columns: &[Column], x: &Scale, y: &Scale) -> String {
    let mut path = String::new();
    for column in columns {
        write!(path, "M{} {}V{}", x.at(column.at_s), y.at(column.highest), y.at(column.lowest)).ok();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_s: f64, offset_ns: f64) -> Point {
        let (before_ns, after_ns) = (10, 20);
        Point { at_s, offset_ns, bracket_ns: 15.0, before_ns, after_ns, inside: true, violated: false }
    }

    #[test]
    fn the_range_holds_everything_unless_a_few_are_far_off() {
        assert!((limit(&[point(0.0, 5.0), point(1.0, -30.0)]) - 44.0).abs() < 1e-9);
        let mut points: Vec<Point> = (0..200).map(|index| point(f64::from(index), 0.0)).collect();
        assert!((limit(&points) - 22.0).abs() < 1e-9, "{}", limit(&points));
        points[0].offset_ns = 551.0;
        assert!((limit(&points) - 22.0).abs() < 1e-9, "{}", limit(&points));
    }

    #[test]
    fn points_that_share_a_column_keep_their_extremes() {
        let column = Column::of(&[point(1.0, 5.0), point(1.1, -7.0), point(1.2, 0.0)]);
        let seen = [column.at_s, column.lowest, column.highest, column.low, column.high];
        for (seen, expected) in seen.into_iter().zip([1.0, -7.0, 5.0, -17.0, 25.0]) {
            assert!((seen - expected).abs() < 1e-9, "{column:?}");
        }
    }

    #[test]
    fn a_violation_is_marked_and_in_the_legend() {
        let mut points = vec![point(0.0, 5.0), point(1.0, 7.0)];
        let summary = |points: Vec<Point>, bound_violated| TrackSummary {
            largest_offset_ns: 7.0,
            largest_bound_ns: 20,
            outside_bracket: 0,
            bound_violated,
            points,
        };
        let quiet = figure(&summary(points.clone(), 0)).into_string();
        assert!(!quiet.contains("violated at") && quiet.contains("claimed bound"), "{quiet}");
        points[1].violated = true;
        let loud = figure(&summary(points, 1)).into_string();
        assert!(loud.contains("bound violated at 1.00 s"), "{loud}");
        assert!(figure(&summary(Vec::new(), 0)).into_string().is_empty());
    }
}
