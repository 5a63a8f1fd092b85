//! Offset and bound over time.

use maud::{Markup, html};

use super::figure::{Figure, Swatch, WIDTH};
use super::scale::{BOTTOM, HEIGHT, LEFT, Scale, TOP, below, time};
use crate::document::TrackSummary;
use crate::measure::as_f64;
use crate::measure::track::Point;

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
        (x.columns(5.0, &y, |s| format!("{s:.0$} s", usize::from(last.at_s < 5.0))))
        (y.rows(6.0, &x, time))
        path.bound d=(band(&columns, &x, &y)) {}
        path.axis d=(format!("M{LEFT} {0}H{WIDTH}", y.at(0.0))) {}
        path.offset d=(offsets(&columns, &x, &y)) {}
        @for point in track.points.iter().filter(|point| point.violated) {
            path.bad d=(format!("M{} {}m-4 -4l8 8m0 -8l-8 8", x.at(point.at_s), y.at(point.offset_ns))) {
                title { "bound violated at " (format!("{:.2} s", point.at_s)) }
            }
        }
        (below("time since the start"))
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
        size: None,
        height: HEIGHT,
        drawing,
    }
    .markup()
}

/// The range of the drawing, ns: all points, unless a few would make the others indistinguishable.
fn limit(points: &[Point]) -> f64 {
    let reach = |point: &Point| ends(point).into_iter().fold(0.0, |far: f64, end| far.max(end.abs()));
    let mut reaches: Vec<f64> = points.iter().map(reach).collect();
    reaches.sort_by(f64::total_cmp);
    let (largest, usual) = (reaches[reaches.len() - 1], reaches[(reaches.len() - 1) * 98 / 100]);
    1.1 * if largest > 4.0 * usual { usual } else { largest }.max(1.0)
}

/// The ends of the claimed bound, ns from CLOCK_MONOTONIC.
fn ends(point: &Point) -> [f64; 2] {
    [point.offset_ns - as_f64(point.before_ns), point.offset_ns + as_f64(point.after_ns)]
}

/// Points that share a place on the time axis: the extremes of their offsets and bounds, ns.
#[derive(Debug, Clone, Copy)]
struct Column {
    at_s: f64,
    offset: [f64; 2],
    bound: [f64; 2],
}

impl Column {
    fn of(points: &[Point]) -> Self {
        let extremes = |values: fn(&Point) -> [f64; 2]| {
            let all = || points.iter().flat_map(values);
            [all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max)]
        };
        Self { at_s: points[0].at_s, offset: extremes(|point| [point.offset_ns; 2]), bound: extremes(ends) }
    }
}

/// The area between the claimed bounds.
fn band(columns: &[Column], x: &Scale, y: &Scale) -> String {
    let there = columns.iter().map(|column| (column.at_s, column.bound[1]));
    let back = columns.iter().rev().map(|column| (column.at_s, column.bound[0]));
    let places = there.chain(back).map(|(at_s, ns)| format!("{} {}", x.at(at_s), y.at(ns)));
    format!("M{}Z", places.collect::<Vec<_>>().join("L"))
}

/// A dot, or a line from the lowest to the highest, for each column.
fn offsets(columns: &[Column], x: &Scale, y: &Scale) -> String {
    let line = |Column { at_s, offset: [low, high], .. }: &Column| {
        format!("M{} {}V{}", x.at(*at_s), y.at(*high), y.at(*low))
    };
    columns.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::{point, track};

    #[test]
    fn the_range_holds_everything_unless_a_few_are_far_off() {
        assert!((limit(&[point(0.0, 5.0), point(1.0, -30.0)]) - 60.5).abs() < 1e-9);
        let mut points: Vec<Point> = (0..200).map(|index| point(f64::from(index), 0.0)).collect();
        assert!((limit(&points) - 27.5).abs() < 1e-9, "{}", limit(&points));
        points[0].offset_ns = 551.0;
        assert!((limit(&points) - 27.5).abs() < 1e-9, "{}", limit(&points));
    }

    #[test]
    fn points_that_share_a_column_keep_their_extremes() {
        let column = Column::of(&[point(1.0, 5.0), point(1.1, -7.0), point(1.2, 0.0)]);
        assert_eq!((column.at_s, column.offset, column.bound), (1.0, [-7.0, 5.0], [-32.0, 30.0]));
    }

    #[test]
    fn a_violation_is_marked_and_in_the_legend() {
        let mut track = track();
        let loud = figure(&track).into_string();
        assert!(loud.contains("bound violated at 0.14 s"), "{loud}");
        track.points[7].violated = false;
        track.bound_violated = 0;
        let quiet = figure(&track).into_string();
        assert!(!quiet.contains("violated at") && quiet.contains("claimed bound"), "{quiet}");
        track.points.clear();
        assert!(figure(&track).into_string().is_empty());
    }
}
