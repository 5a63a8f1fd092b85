//! Offset and bound over time.

use maud::{Markup, html};

use super::figure::{Figure, Swatch, WIDTH};
use super::scale::{BOTTOM, HEIGHT, LEFT, Scale, TOP, below};
use crate::document::TrackSummary;
use crate::measure::as_f64;
use crate::measure::track::Point;
use crate::words::time;

/// The chart; empty without points.
pub(in crate::report) fn figure(track: &TrackSummary) -> Markup {
    let Some(last) = track.points.last() else { return Markup::default() };
    let limit = limit(&track.points);
    let x = Scale::linear(0.0, last.at_s, LEFT, WIDTH - 4.0);
    let y = Scale::linear(-limit, limit, BOTTOM, TOP);
    let beyond = track.points.iter().filter(|point| point.offset_ns.abs() > limit).count();
    let drawing = html! {
        (x.columns(5.0, &y, |s| format!("{s:.0$} s", usize::from(last.at_s < 5.0))))
        (y.rows(6.0, &x, time))
        path.bound d=(band(&track.points, &x, &y)) {}
        path.axis d=(format!("M{LEFT} {0}H{WIDTH}", y.at(0.0))) {}
        path.offset d=(offsets(&track.points, &x, &y)) {}
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

/// The area between the claimed bounds.
fn band(points: &[Point], x: &Scale, y: &Scale) -> String {
    let there = points.iter().map(|point| (point.at_s, ends(point)[1]));
    let back = points.iter().rev().map(|point| (point.at_s, ends(point)[0]));
    let places = there.chain(back).map(|(at_s, ns)| format!("{} {}", x.at(at_s), y.at(ns)));
    format!("M{}Z", places.collect::<Vec<_>>().join("L"))
}

/// A dot for each point.
fn offsets(points: &[Point], x: &Scale, y: &Scale) -> String {
    points.iter().map(|point| format!("M{} {}h0", x.at(point.at_s), y.at(point.offset_ns))).collect()
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
