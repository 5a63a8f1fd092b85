//! SVG plots of distributions: for each time, the share of the pairs that took at least as long.
//!
//! Both axes are logarithmic, so that the tail is visible down to one pair in 10,000. A routine is
//! faster, in the middle or in the tail, where its curve is to the left of another curve.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::number::as_f64;

const WIDTH: u32 = 960;
/// The height of the plot without its titles, of the title, and of a line of the subtitle.
const CHART_HEIGHT: u32 = 384;
const TITLE_HEIGHT: u16 = 40;
const LINE_HEIGHT: u16 = 16;
const FONT: &str = "sans-serif";

/// The most characters of a line of the subtitle. The line has 928 px. In the widest of the common
/// fonts, DejaVu Sans, a digit is 6.7 px wide at this size, and the mean character is narrower.
const LINE_CHARACTERS: usize = 138;

const COLORS: [RGBColor; 2] = [RGBColor(31, 120, 180), RGBColor(178, 34, 34)];
const GREY: RGBColor = RGBColor(110, 110, 110);

/// The smallest time, ns, and the smallest share, %, on the axes. A logarithmic axis has no 0.
const MIN_NS: f64 = 0.1;
const MIN_SHARE: f64 = 0.01;

/// A distribution to draw. Times are ns.
pub(crate) struct Series<'a> {
    /// The name in the legend of a plot with two series.
    pub(crate) name: &'a str,
    /// Times and their counts, in rising order.
    pub(crate) histogram: &'a [(f64, u64)],
    pub(crate) marks: &'a [Mark],
}

/// A quantile that is marked in a plot.
pub(crate) struct Mark {
    pub(crate) name: &'static str,
    /// The share of the pairs below.
    pub(crate) below: f64,
    pub(crate) ns: f64,
}

/// Draws one or two series. Errors come from the drawing library.
pub(crate) fn draw(
    title: &str,
    subtitle: &str,
    series: &[Series<'_>],
) -> Result<String, Box<dyn Error>> {
    let subtitle = lines(subtitle);
    let lines_height = u32::from(LINE_HEIGHT) * u32::try_from(subtitle.len())?;
    let titles_height = u32::from(TITLE_HEIGHT) + lines_height;
    let size = (WIDTH, titles_height + CHART_HEIGHT);
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    draw_titles(&root, title, &subtitle)?;
    let (_, area) = root.split_vertically(titles_height);
    let all: Vec<_> = series
        .iter()
        .map(|one| tail_shares(one.histogram))
        .collect();
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(62)
        .build_cartesian_2d(times_ns(&all).log_scale(), (MIN_SHARE..120.0).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("ns of an iteration")
        .y_desc("pairs that took as long or longer, %")
        .y_label_formatter(&|share| format!("{share}"))
        .draw()?;
    // The labels of the second series are a line lower, because quantiles may be close together.
    for (((one, points), color), lower) in series.iter().zip(all).zip(COLORS).zip([1.0, 0.75]) {
        let drawn = chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
        if series.len() > 1 {
            drawn.label(one.name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 14, y + 5)], color.filled())
            });
        }
        for Mark { name, below, ns } in one.marks {
            let at = (ns.max(MIN_NS), (1.0 - below) * 100.0);
            chart.draw_series([Circle::new(at, 3, color.filled())])?;
            let style = (FONT, 12).into_font().color(&color);
            chart.draw_series([Text::new(
                format!("  {name} {ns:.1}"),
                (at.0, at.1 * lower),
                style,
            )])?;
        }
    }
    if series.len() > 1 {
        chart
            .configure_series_labels()
            .border_style(GREY)
            .background_style(WHITE)
            .draw()?;
    }
    root.present()?;
    drop((chart, area, root));
    Ok(svg)
}

fn draw_titles(
    root: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    subtitle: &[String],
) -> Result<(), Box<dyn Error>> {
    root.fill(&WHITE)?;
    let style = (FONT, 20).into_font();
    root.draw(&Text::new(title.to_owned(), (16, 12), style))?;
    let style = (FONT, 13).into_font().color(&GREY);
    let mut y = i32::from(TITLE_HEIGHT);
    for line in subtitle {
        root.draw(&Text::new(line.clone(), (16, y), style.clone()))?;
        y += i32::from(LINE_HEIGHT);
    }
    Ok(())
}

/// The text in lines of at most [`LINE_CHARACTERS`], each broken at a space. A longer word has a
/// line of its own.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LINE_CHARACTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The range of the axis of times, ns, with room at both ends.
fn times_ns(curves: &[Vec<(f64, f64)>]) -> Range<f64> {
    let visible = || {
        let points = curves.iter().flatten();
        points
            .filter(|(_, share)| *share >= MIN_SHARE)
            .map(|(ns, _)| *ns)
    };
    let (left, right) = (
        visible().fold(f64::INFINITY, f64::min),
        visible().fold(MIN_NS, f64::max),
    );
    left / 1.1..right * 1.3
}

/// The points of the curve: times, and the share of pairs that took at least as long, %.
fn tail_shares(histogram: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let total: u64 = histogram.iter().map(|(_, count)| count).sum();
    let mut left = total;
    let mut points = Vec::new();
    for (ns, count) in histogram {
        points.push((ns.max(MIN_NS), as_f64(left) / as_f64(total) * 100.0));
        left -= count;
        points.push((ns.max(MIN_NS), as_f64(left.max(1)) / as_f64(total) * 100.0));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_the_tail_fall_from_100_percent_to_the_slowest() {
        let points = tail_shares(&[(40.0, 90), (50.0, 9), (9_000.0, 1)]);
        assert_eq!(points[0], (40.0, 100.0));
        assert_eq!(points[4], (9_000.0, 1.0));
    }

    /// Times from 0 to 3 s.
    const WIDE: [(f64, u64); 4] = [(0.0, 7), (43.0, 100_000), (53.0, 30_000), (3e9, 1)];

    fn marks() -> [Mark; 4] {
        [
            ("p50", 0.5, 43.4),
            ("p90", 0.9, 52.0),
            ("p99", 0.99, 53.0),
            ("p99.9", 0.999, 1e6),
        ]
        .map(|(name, below, ns)| Mark { name, below, ns })
    }

    #[test]
    fn a_plot_is_drawn_of_any_distribution() {
        let marks = marks();
        for histogram in [&WIDE[..], &WIDE[..1], &WIDE[3..]] {
            let one = Series {
                name: "a",
                histogram,
                marks: &marks,
            };
            let svg = draw("group/name", "7 pairs", &[one]).expect("a plot");
            assert!(
                svg.starts_with("<svg") && svg.ends_with("</svg>\n"),
                "{svg}"
            );
            assert!(svg.contains("group/name"), "{svg}");
        }
    }

    #[test]
    fn a_plot_is_drawn_of_any_two_distributions() {
        let marks = marks();
        for histogram in [&WIDE[..], &WIDE[..1], &WIDE[3..]] {
            let both = [
                Series {
                    name: "a",
                    histogram,
                    marks: &marks,
                },
                Series {
                    name: "b",
                    histogram: &WIDE,
                    marks: &marks[..1],
                },
            ];
            let svg = draw("a and b", "", &both).expect("a plot");
            assert!(svg.contains("a and b"), "{svg}");
        }
    }

    #[test]
    fn the_title_of_a_plot_is_escaped() {
        let marks = marks();
        let one = Series {
            name: "a",
            histogram: &WIDE,
            marks: &marks,
        };
        let svg = draw("a & b", "", &[one]).expect("a plot");
        assert!(svg.contains("a &amp; b"), "{svg}");
    }

    /// Symptom: the right edge cut the subtitle of a plot with four disturbances.
    #[test]
    fn a_long_subtitle_has_lines_that_fit() {
        let subtitle = "5036817 pairs of 1 iteration, 37317 disturbed and excluded: moved 15 (up to 4.11 ms), \
                        preempted 16442 (up to 8.06 ms), interrupted 2199 (up to 2.37 ms), stolen 18661 (up to \
                        1.79 ms)";
        let found = lines(subtitle);
        assert_eq!(found.len(), 2, "{found:?}");
        let do_fit = found.iter().all(|line| line.len() <= LINE_CHARACTERS);
        assert!(do_fit, "{found:?}");
        assert_eq!(found.join(" "), subtitle);
        let marks = marks();
        let one = Series {
            name: "a",
            histogram: &WIDE,
            marks: &marks,
        };
        let svg = draw("title", subtitle, &[one]).expect("a plot");
        for (line, y) in found.iter().zip([40, 56]) {
            let drawn = svg.split("<text ").find(|text| text.contains(line));
            let at = format!("y=\"{y}\"");
            assert!(
                drawn.is_some_and(|text| text.contains(&at)),
                "{line}: {svg}"
            );
        }
        assert!(svg.contains("height=\"456\""), "a line higher: {svg}");
    }

    #[test]
    fn a_short_subtitle_has_one_line() {
        for subtitle in ["", "7 pairs of 1 iteration, none disturbed"] {
            assert_eq!(lines(subtitle), [subtitle]);
        }
    }

    #[test]
    fn a_line_is_as_long_as_its_characters_and_not_its_bytes() {
        let half = "\u{b5}".repeat(LINE_CHARACTERS / 2 - 1);
        let subtitle = format!("{half} {half}");
        assert_eq!(lines(&subtitle), [subtitle]);
    }

    #[test]
    fn a_word_that_is_longer_than_a_line_has_its_own() {
        let long = "a".repeat(LINE_CHARACTERS + 1);
        assert_eq!(
            lines(&format!("7 {long} pairs")),
            ["7", long.as_str(), "pairs"]
        );
    }

    /// The horizontal position of the only mark, a circle, in a plot of two times.
    fn mark_x(ns: f64) -> f64 {
        let series = Series {
            name: "a",
            histogram: &[(40.0, 9), (50.0, 1)],
            marks: &[Mark {
                name: "mark",
                below: 0.5,
                ns,
            }],
        };
        let svg = draw("title", "", &[series]).expect("a plot");
        let (_, after) = svg.split_once("cx=\"").expect("a circle");
        let (x, _) = after.split_once('"').expect("a number");
        x.parse().expect("a number")
    }

    #[test]
    fn the_fastest_time_is_right_of_the_axis() {
        let axis_x = 12.0 + 62.0; // the margin and the labels
        assert!(mark_x(40.0) > axis_x, "{}", mark_x(40.0));
    }

    #[test]
    fn the_slowest_time_is_left_of_the_margin() {
        let end_x = f64::from(WIDTH) - 12.0;
        assert!(mark_x(50.0) < end_x, "{}", mark_x(50.0));
    }
}
