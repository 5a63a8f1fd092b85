//! Draws offset and bound over time as SVG, which needs no script. Colours are classes of
//! `report.css`. Elements that differ in colour also differ in shape.

use maud::{Markup, html};

use crate::measure::track::{OffsetSample, TrackSummary};
use crate::words::time;

/// The width of the view box. A text of 12 units is 10 pixels high on a screen of 390 pixels.
const WIDTH: f64 = 440.0;
/// The positions of the axes, units.
const LEFT: f64 = 66.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 212.0;
/// The height of the view box. The title of the horizontal axis is below the labels.
const HEIGHT: f64 = BOTTOM + 38.0;

/// The chart; empty without points.
pub(super) fn figure(track: &TrackSummary) -> Markup {
    let Some(last) = track.points.last() else {
        return Markup::default();
    };
    let limit = limit(&track.points);
    let x = Scale::new(0.0, last.at_s, LEFT, WIDTH - 4.0);
    let y = Scale::new(-limit, limit, BOTTOM, TOP);
    let beyond = track
        .points
        .iter()
        .filter(|point| point.offset_ns.abs() > limit)
        .count();
    let swatch =
        |symbol: Markup| html! { svg.swatch viewBox="0 0 22 10" aria-hidden="true" { (symbol) } };
    html! {
        figure {
            h3 { "Offset from CLOCK_MONOTONIC, and claimed bound" }
            ul.legend {
                li { (swatch(html! { path.offset d="M4 5h0M11 5h0M18 5h0" {} })) "offset" }
                li { (swatch(html! { rect.bound width="22" height="10" {} })) "claimed bound" }
                @if track.all.bound_violated > 0 {
                    li { (swatch(html! { path.bad d="M0 5H22" {} })) "bound violated" }
                }
            }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(track.summary()) {
                (axes(&x, &y))
                path.bound d=(band(&track.points, &x, &y)) {}
                path.axis d=(format!("M{LEFT} {0}H{WIDTH}", y.at(0.0))) {}
                path.offset d=(offsets(&track.points, &x, &y)) {}
                @for point in track.points.iter().filter(|point| point.bound_violated) {
                    path.bad d=(format!("M{} {}m-4 -4l8 8m0 -8l-8 8", x.at(point.at_s), y.at(point.offset_ns))) {
                        title { "bound violated at " (format!("{:.2} s", point.at_s)) }
                    }
                }
            }
            figcaption {
                "Each sample brackets a reading between two reads of CLOCK_MONOTONIC; the offset \
                 is the reading minus their "
                "middle. The bound says where CLOCK_MONOTONIC may be: the line at 0 must be within it. "
                (track.points.len()) " samples: " (track.all.outside_bracket) " outside of their bracket, "
                (track.all.bound_violated) " contradict the bound."
                @if beyond > 0 { " " (beyond) " beyond the range, drawn at its border." }
            }
        }
    }
}

/// A thin line and a label for each mark: seconds below the drawing, offsets to the left.
fn axes(x: &Scale, y: &Scale) -> Markup {
    let seconds = |s: f64| format!("{s:.0$} s", usize::from(x.high < 5.0));
    html! {
        @for value in x.marks() {
            @let x = x.at(value);
            path.grid d=(format!("M{x} {TOP}V{BOTTOM}")) {}
            // A label near an end is moved inwards, so the first one is beside the lowest offset's.
            text.middle[(LEFT + 20.0..WIDTH - 20.0).contains(&x)].end[x >= WIDTH - 20.0] x=(x) y=(BOTTOM + 15.0) {
                (seconds(value))
            }
        }
        @for value in y.marks() {
            @let y = y.at(value);
            path.grid d=(format!("M{LEFT} {y}H{WIDTH}")) {}
            text.end x=(LEFT - 5.0) y=(units(y + 4.0)) { (time(value)) }
        }
        text.middle x=(units((LEFT + WIDTH) / 2.0)) y=(HEIGHT - 4.0) { "time since the start" }
    }
}

/// The range of the drawing, ns: all points, unless a few would make the others indistinguishable.
fn limit(points: &[OffsetSample]) -> f64 {
    let mut extents: Vec<f64> = points.iter().map(OffsetSample::extent_ns).collect();
    extents.sort_by(f64::total_cmp);
    let largest = extents[extents.len() - 1];
    let usual = extents[(extents.len() - 1) * 98 / 100];
    1.1 * if largest > 4.0 * usual {
        usual
    } else {
        largest
    }
    .max(1.0)
}

/// The area between the claimed bounds.
fn band(points: &[OffsetSample], x: &Scale, y: &Scale) -> String {
    let there = points
        .iter()
        .map(|point| (point.at_s, point.bound_ends_ns()[1]));
    let back = points
        .iter()
        .rev()
        .map(|point| (point.at_s, point.bound_ends_ns()[0]));
    let corners = there
        .chain(back)
        .map(|(at_s, ns)| format!("{} {}", x.at(at_s), y.at(ns)));
    format!("M{}Z", corners.collect::<Vec<_>>().join("L"))
}

/// A dot for each point.
fn offsets(points: &[OffsetSample], x: &Scale, y: &Scale) -> String {
    points
        .iter()
        .map(|point| format!("M{} {}h0", x.at(point.at_s), y.at(point.offset_ns)))
        .collect()
}

/// Maps values from `low` to `high` to positions of the drawing from `from` to `to`.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self {
            low,
            high: if high > low { high } else { low + 1.0 },
            from,
            to,
        }
    }

    /// The position of a value. A value outside of the range is at its end.
    fn at(&self, value: f64) -> f64 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        units(self.from + share * (self.to - self.from))
    }

    /// Some five values between the ends, in steps of 1, 2, 5 or 10 times a power of ten.
    fn marks(&self) -> Vec<f64> {
        let least = (self.high - self.low) / 5.0;
        let power = 10_f64.powf(least.log10().floor());
        let step = power
            * [1.0, 2.0, 5.0]
                .into_iter()
                .find(|step| step * power >= least)
                .unwrap_or(10.0);
        let first = (self.low / step).ceil();
        let values = (0..100).map(|index| (first + f64::from(index)) * step);
        values
            .take_while(|value| *value <= self.high + step * 1e-6)
            .collect()
    }
}

/// A position, rounded to a tenth of a unit.
fn units(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::example::offset_sample;
    use crate::float::as_f64;

    #[test]
    fn the_plot_has_room_for_all_offsets_unless_a_few_are_far_off() {
        assert!((limit(&[offset_sample(0.0, 5.0), offset_sample(1.0, -30.0)]) - 60.5).abs() < 1e-9);
        let mut points: Vec<_> = (0..200)
            .map(|index| offset_sample(f64::from(index), 0.0))
            .collect();
        assert!((limit(&points) - 27.5).abs() < 1e-9, "{}", limit(&points));
        points[0].offset_ns = 551.0;
        assert!((limit(&points) - 27.5).abs() < 1e-9, "{}", limit(&points));
    }

    /// From 0 s to 1 s in 10 units, and from -10 ns to 10 ns in 20 units upwards.
    fn scales() -> (Scale, Scale) {
        (
            Scale::new(0.0, 1.0, 0.0, 10.0),
            Scale::new(-10.0, 10.0, 20.0, 0.0),
        )
    }

    fn two_points() -> [OffsetSample; 2] {
        [offset_sample(0.0, 5.0), offset_sample(1.0, -5.0)].map(|point| OffsetSample {
            bound_before_ns: 4,
            bound_after_ns: 2,
            ..point
        })
    }

    #[test]
    fn each_point_has_a_dot_at_its_offset() {
        let (x, y) = scales();
        assert_eq!(offsets(&two_points(), &x, &y), "M0 5h0M10 15h0");
    }

    #[test]
    fn the_band_goes_along_the_upper_bounds_and_back_along_the_lower_ones() {
        let (x, y) = scales();
        assert_eq!(band(&two_points(), &x, &y), "M0 3L10 13L10 19L0 9Z");
    }

    #[test]
    fn a_position_is_in_proportion_to_its_value() {
        let scale = Scale::new(100.0, 103.0, 50.0, 60.0);
        let positions = [100.0, 101.0, 102.0, 103.0].map(|value| scale.at(value));
        assert_eq!(positions, [50.0, 53.3, 56.7, 60.0]);
    }

    #[test]
    fn a_value_outside_of_the_range_is_at_its_end() {
        let (_, y) = scales();
        assert_eq!([-11.0, 11.0].map(|value| y.at(value)), [20.0, 0.0]);
    }

    /// The chart of 200 points, of which this many are far off and contradict their bounds.
    fn chart(far: usize) -> String {
        let points = (0..200).map(|index| OffsetSample {
            offset_ns: if index < far { 551.0 } else { 0.0 },
            bound_violated: index < far,
            ..offset_sample(as_f64(index as u64), 0.0)
        });
        figure(&TrackSummary::new(points.collect())).into_string()
    }

    #[test]
    fn the_last_point_is_just_inside_of_the_drawing() {
        let chart = chart(0);
        assert!(chart.contains("M436 "), "{chart}");
    }

    #[test]
    fn points_beyond_the_range_are_counted() {
        assert!(chart(2).contains(" 2 beyond the range"));
        assert!(!chart(0).contains("beyond"));
    }

    #[test]
    fn each_violated_bound_has_a_mark_and_the_legend_explains_it() {
        let [without, with] = [0, 2].map(chart);
        assert_eq!(with.matches("bound violated at").count(), 2);
        assert!(with.contains(">bound violated<"), "{with}");
        assert!(!without.contains(">bound violated<"), "{without}");
    }

    #[test]
    fn the_axes_have_the_time_and_the_offset_of_each_mark() {
        let chart = chart(0);
        for label in [">100 s<", ">20 ns<", ">-20 ns<"] {
            assert!(chart.contains(label), "no {label} in {chart}");
        }
    }

    #[test]
    fn the_marks_of_a_short_time_have_a_decimal() {
        let track = TrackSummary::new(two_points().to_vec());
        let chart = figure(&track).into_string();
        assert!(chart.contains(">0.2 s<"), "{chart}");
    }

    #[test]
    fn marks_of_a_scale_are_round_numbers_in_its_range() {
        assert_eq!(
            Scale::new(-30.0, 30.0, 0.0, 1.0).marks(),
            [-20.0, 0.0, 20.0]
        );
        assert_eq!(
            Scale::new(0.0, 10.0, 0.0, 1.0).marks(),
            [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        );
        assert_eq!(
            Scale::new(0.0, 3_600.0, 0.0, 1.0).marks(),
            [0.0, 1_000.0, 2_000.0, 3_000.0]
        );
        assert!(
            !Scale::new(5.0, 5.0, 0.0, 1.0).marks().is_empty(),
            "no range is one of 1"
        );
    }

    fn number_after(chart: &str, text: &str) -> f64 {
        let after = chart.split_once(text).expect(text).1;
        let end = after.find([' ', '"']).expect("an end");
        after[..end].parse().expect("a number")
    }

    #[test]
    fn the_titles_of_the_axes_are_within_the_chart() {
        let chart = chart(0);
        let height = number_after(&chart, r#"viewBox="0 0 440 "#);
        let title = chart.split_once("time since the start").expect("a title").0;
        let title = &title[title.rfind("<text").expect("a text")..];
        let title_y = number_after(title, r#"y=""#);
        assert!(BOTTOM < title_y && title_y < height, "{title_y}, {height}");
    }

    /// One of 50 points is more than the two percent that may be beyond the range.
    #[test]
    fn the_range_is_that_of_98_percent_of_the_points_if_the_others_are_far_off() {
        let points = |largest: f64| -> Vec<_> {
            let usual = (0..49).map(|index| offset_sample(0.0, f64::from(index)));
            usual.chain([offset_sample(0.0, largest)]).collect()
        };
        // A point's extent has 25 ns of bound.
        let usual = 48.0 + 25.0;
        assert!((limit(&points(10_000.0)) - 1.1 * usual).abs() < 1e-9);
        assert!((limit(&points(3.0 * 73.0 + 48.0)) - 4.4 * usual).abs() < 1e-9);
    }
}
