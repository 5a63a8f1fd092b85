//! SVG plots of distributions.
//!
//! The upper plot shows how many pairs took how long: one routine up to a little more than p99, two
//! to a little more than p90. The lower plot
//! shows what share of the pairs took at least as long. Both of its axes are logarithmic, so that
//! the tail is visible up to the slowest pair.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::number::as_f64;

const SIZE: (u32, u32) = (960, 680);
const TITLE_HEIGHT: u32 = 62;
const UPPER_HEIGHT: u32 = 300;
const FONT: &str = "sans-serif";

/// Bars of the upper plot.
const BINS: u32 = 240;

const COLORS: [RGBColor; 2] = [RGBColor(31, 120, 180), RGBColor(178, 34, 34)];
const MARK: RGBColor = RGBColor(110, 110, 110);

/// What is drawn of a distribution. Times are ns.
pub(crate) struct Series<'a> {
    /// Shown in the legend, if there are two series.
    pub(crate) name: &'a str,
    /// Times and how many pairs took them, in rising order.
    pub(crate) histogram: &'a [(f64, u64)],
    /// Quantiles and their names, in rising order, drawn as lines.
    pub(crate) marks: &'a [(&'a str, f64)],
    /// The width of the interval for which a time stands: the counter's resolution.
    pub(crate) width_ns: f64,
}

/// Draws one or two series. Errors come from the drawing library.
pub(crate) fn draw(title: &str, subtitle: &str, series: &[Series<'_>]) -> Result<String, String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw_on(&root, title, subtitle, series).map_err(|error| format!("the plot: {error}"))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw_on(root: &Area<'_>, title: &str, subtitle: &str, series: &[Series<'_>]) -> Drawn {
    root.fill(&WHITE)?;
    root.draw(&Text::new(title.to_owned(), (16, 12), (FONT, 20).into_font()))?;
    root.draw(&Text::new(subtitle.to_owned(), (16, 40), (FONT, 13).into_font().color(&MARK)))?;
    let (_, plots) = root.split_vertically(TITLE_HEIGHT);
    let (upper, lower) = plots.split_vertically(UPPER_HEIGHT);
    bars(&upper, series)?;
    tail(&lower, series)?;
    root.present()?;
    Ok(())
}

/// The interval of the upper plot with a margin: the middle 98 % of one series, 80 % of two.
fn range_ns(series: &[Series<'_>]) -> (f64, f64) {
    // The tails of two routines would leave no room for their difference.
    let tail = if series.len() > 1 { 10 } else { 1 };
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for one in series {
        let total: u64 = one.histogram.iter().map(|(_, count)| count).sum();
        let mut below = 0;
        for (ns, count) in one.histogram {
            let before = below;
            below += count;
            if below * 100 >= total * tail && before * 100 < total * (100 - tail) {
                (low, high) = (low.min(*ns - one.width_ns), high.max(*ns + one.width_ns));
            }
        }
        for (_, ns) in one.marks.iter().take(2) {
            (low, high) = (low.min(*ns), high.max(*ns));
        }
    }
    let margin = ((high - low) * 0.05).max(0.5);
    ((low - margin).max(0.0), high + margin)
}

/// The share of pairs in each bin, %. A time stands for an interval, which may span many bins.
fn binned(one: &Series<'_>, (low, high): (f64, f64)) -> Vec<(f64, f64)> {
    let bin_ns = (high - low) / f64::from(BINS);
    let width_ns = one.width_ns.max(bin_ns);
    let total: u64 = one.histogram.iter().map(|(_, count)| count).sum();
    (0..BINS)
        .map(|bin| {
            let left = low + f64::from(bin) * bin_ns;
            let inside = |ns: f64| {
                let (from, to) = (ns - width_ns / 2.0, ns + width_ns / 2.0);
                (to.min(left + bin_ns) - from.max(left)).max(0.0) / width_ns
            };
            let pairs: f64 = one.histogram.iter().map(|(ns, count)| inside(*ns) * as_f64(*count)).sum();
            (left, pairs / as_f64(total) * 100.0)
        })
        .collect()
}

fn bars(area: &Area<'_>, series: &[Series<'_>]) -> Drawn {
    let range = range_ns(series);
    let bin_ns = (range.1 - range.0) / f64::from(BINS);
    let all: Vec<_> = series.iter().map(|one| binned(one, range)).collect();
    let most = all.iter().flatten().map(|(_, share)| *share).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(62)
        .build_cartesian_2d(range.0..range.1, 0.0..most * 1.18)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("ns of an iteration")
        .y_desc(format!("share of pairs in {bin_ns:.3} ns, %"))
        .y_label_formatter(&|share| format!("{share:.2}"))
        .draw()?;
    let mut number = 0;
    for ((one, bins), color) in series.iter().zip(&all).zip(COLORS) {
        let bar = |(left, share): &(f64, f64)| {
            Rectangle::new([(*left, 0.0), (left + bin_ns, *share)], color.mix(0.55).filled())
        };
        let drawn = chart.draw_series(bins.iter().filter(|(_, share)| *share > 0.0).map(bar))?;
        if series.len() > 1 {
            drawn.label(one.name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 14, y + 5)], color.mix(0.55).filled())
            });
        }
        let marks = one.marks.iter().filter(|(_, ns)| (range.0..range.1).contains(ns));
        for (name, ns) in marks {
            chart.draw_series(LineSeries::new([(*ns, 0.0), (*ns, most * 1.18)], color))?;
            // Each name is a line lower than the one before, because quantiles may lie close
            // together.
            let y = most * (1.14 - 0.075 * f64::from(number));
            number += 1;
            chart.draw_series([Text::new(format!(" {name} {ns:.1}"), (*ns, y), (FONT, 12).into_font())])?;
        }
    }
    if series.len() > 1 {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperMiddle)
            .border_style(MARK)
            .background_style(WHITE)
            .draw()?;
    }
    Ok(())
}

/// Times with the share of pairs that took at least as long, %.
fn slower(one: &Series<'_>) -> Vec<(f64, f64)> {
    let total: u64 = one.histogram.iter().map(|(_, count)| count).sum();
    let mut left = total;
    let mut points = Vec::new();
    for (ns, count) in one.histogram {
        // A logarithmic axis has no 0.
        points.push((ns.max(LEAST_NS), as_f64(left) / as_f64(total) * 100.0));
        left -= count;
        points.push((ns.max(LEAST_NS), as_f64(left.max(1)) / as_f64(total) * 100.0));
    }
    points
}

/// The smallest time on the lower plot's axis, ns.
const LEAST_NS: f64 = 0.1;

fn tail(area: &Area<'_>, series: &[Series<'_>]) -> Drawn {
    let all: Vec<_> = series.iter().map(slower).collect();
    let ends = |fold: fn(f64, f64) -> f64, start, of: fn(&(f64, f64)) -> f64| {
        all.iter().flatten().map(of).fold(start, fold)
    };
    let (left, right) = (ends(f64::min, f64::INFINITY, |p| p.0), ends(f64::max, 0.0, |p| p.0));
    let lowest = ends(f64::min, 100.0, |p| p.1);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(62)
        .build_cartesian_2d((left / 1.1..right * 1.3).log_scale(), (lowest / 1.5..120.0).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("ns of an iteration, up to the slowest pair")
        .y_desc("slower, %")
        .y_label_formatter(&|share| format!("{share}"))
        .draw()?;
    for (points, color) in all.into_iter().zip(COLORS) {
        chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series<'a>(histogram: &'a [(f64, u64)], marks: &'a [(&'a str, f64)]) -> Series<'a> {
        Series { name: "a", histogram, marks, width_ns: 10.0 }
    }

    #[test]
    fn every_pair_of_the_interval_is_in_a_bin_once() {
        let histogram = [(40.0, 500), (50.0, 500)];
        let bins = binned(&series(&histogram, &[]), (0.0, 100.0));
        let sum: f64 = bins.iter().map(|(_, share)| share).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn the_tail_falls_from_all_to_the_slowest() {
        let histogram = [(40.0, 90), (50.0, 9), (9_000.0, 1)];
        let points = slower(&series(&histogram, &[]));
        assert_eq!(points[0], (40.0, 100.0));
        assert_eq!(points[4], (9_000.0, 1.0));
    }

    #[test]
    fn plots_of_anything_are_drawn() {
        let wide = [(0.0, 7), (43.0, 100_000), (53.0, 30_000), (3e9, 1)];
        let marks = [("p50", 43.4), ("p90", 52.0), ("p99", 53.0), ("p99.9", 1e6)];
        for histogram in [&wide[..], &wide[..1], &wide[3..]] {
            let svg = draw("group/name", "7 pairs", &[series(histogram, &marks)]).expect("a plot");
            assert!(
                svg.starts_with("<svg") && svg.contains("group/name") && svg.ends_with("</svg>\n"),
                "{svg}"
            );
            let both = [series(histogram, &marks[..1]), series(&wide, &marks[..1])];
            assert!(draw("a & b", "", &both).expect("a plot").contains("a &amp; b"));
        }
    }
}
