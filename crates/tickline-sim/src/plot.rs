//! Offset and bound over time, as SVG.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::check::Mark;
use crate::run::run_tracked;
use crate::scenario::Scenario;

const SIZE: (u32, u32) = (1_000, 1_500);

/// Time between two points, ns.
const EVERY_NS: u64 = 20_000_000;

const SECOND: f64 = 1e9;

/// Plots of several scenarios, one below the other, written to `path`.
///
/// # Errors
///
/// A violation of a scenario, or why the file could not be written. Nothing is left half written.
pub fn write(path: &Path, scenarios: &[(&str, Scenario)]) -> Result<(), Box<dyn core::error::Error>> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        for (part, (title, scenario)) in area.split_evenly((scenarios.len(), 1)).iter().zip(scenarios) {
            draw(part, title, &run_tracked(scenario, EVERY_NS)?.track)?;
        }
        area.present()?;
    }
    let unfinished = path.with_extension("unfinished");
    let end = std::fs::write(&unfinished, svg).and_then(|()| std::fs::rename(&unfinished, path));
    if end.is_err() {
        std::fs::remove_file(&unfinished).ok();
    }
    Ok(end?)
}

/// Nanoseconds on an axis that is logarithmic on either side of 10 ns around 0: 2 is 100 ns.
#[expect(clippy::cast_precision_loss, reason = "a plot")]
fn log_ns(ns: i64) -> f64 {
    let size = ns.abs() as f64;
    let place = if size < 10.0 { size / 10.0 } else { size.log10() };
    if ns < 0 { -place } else { place }
}

fn label(place: &f64) -> String {
    let size = place.abs();
    if (size - size.round()).abs() > 0.01 {
        return String::new();
    }
    #[expect(clippy::cast_possible_truncation, reason = "a small whole number")]
    let text = match size.round() as i32 {
        0 => "0".to_owned(),
        power @ 1..3 => format!("{} ns", 10_u64.pow(power.unsigned_abs())),
        power @ 3..6 => format!("{} us", 10_u64.pow(power.unsigned_abs() - 3)),
        power @ 6..9 => format!("{} ms", 10_u64.pow(power.unsigned_abs() - 6)),
        power => format!("{} s", 10_u64.pow(power.unsigned_abs() - 9)),
    };
    if *place < 0.0 { format!("-{text}") } else { text }
}

fn draw<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    title: &str,
    track: &[Mark],
) -> Result<(), Box<dyn core::error::Error>>
where
    B::ErrorType: 'static,
{
    #[expect(clippy::cast_precision_loss, reason = "a plot")]
    let seconds = |mark: &Mark| mark.at_ns as f64 / SECOND;
    let most = track
        .iter()
        .flat_map(|mark| [mark.offset_ns, mark.earliest_ns, mark.latest_ns, mark.unix_offset_ns])
        .map(|ns| log_ns(ns).abs())
        .fold(log_ns(100), f64::max);
    let end = track.last().map_or(1.0, seconds);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(8)
        .x_label_area_size(22)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..end, -most * 1.05..most * 1.05)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(12)
        .y_labels(if most < 3.0 { 5 } else { 9 })
        .x_label_formatter(&|s| format!("{s:.0} s"))
        .y_label_formatter(&label)
        .draw()?;
    // Where the OS clock served, there is nothing to bound.
    for part in track.chunk_by(|a, b| a.fast == b.fast).filter(|part| part[0].fast) {
        let up = part.iter().map(|mark| (seconds(mark), log_ns(mark.latest_ns)));
        let down = part.iter().rev().map(|mark| (seconds(mark), log_ns(mark.earliest_ns)));
        let outline: Vec<_> = up.chain(down).collect();
        chart.draw_series([Polygon::new(outline, RGBColor(200, 215, 240).filled())])?;
    }
    let line = |value: fn(&Mark) -> i64| track.iter().map(move |mark| (seconds(mark), log_ns(value(mark))));
    let unix = RGBColor(200, 110, 0);
    if track.iter().any(|mark| mark.unix_offset_ns.abs_diff(mark.offset_ns) > 100) {
        chart
            .draw_series(LineSeries::new(line(|mark| mark.unix_offset_ns), unix))?
            .label("Unix time")
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 15, y)], unix));
    }
    let own = RGBColor(20, 50, 140);
    chart
        .draw_series(LineSeries::new(line(|mark| mark.offset_ns), own))?
        .label("monotonic time")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 15, y)], own));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}
