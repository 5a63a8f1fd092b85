//! What a call costs, as bars.

use maud::{Markup, html};

use super::figure::{Figure, Swatch, WIDTH, units};
use super::scale::Scale;
use crate::document::CostRow;
use crate::measure::served_by::ServedBy;
use crate::words::time;

/// A row has a name above a bar.
const ROW: f64 = 34.0;
/// Room for the values behind the bars.
const RIGHT: f64 = 62.0;
/// The lower end of the scale, ns. A smaller cost is drawn there; one cycle takes 0.2 ns or more.
const LEAST_NS: f64 = 1.0;

/// The chart; empty without costs.
pub(in crate::report) fn figure(costs: &[CostRow]) -> Markup {
    let largest = costs.iter().filter_map(|row| row.cost_ns).fold(0.0, f64::max);
    if largest <= 0.0 {
        return Markup::default();
    }
    // Costs of 2 and 25 ns must be told apart beside one of 1,000.
    let scale = Scale::decades(LEAST_NS, largest.max(10.0), 0.0, WIDTH - RIGHT);
    let bottom = (0..costs.len()).fold(0.0, |bottom, _| bottom + ROW);
    let drawing = html! {
        (scale.columns(4.0, &Scale::linear(0.0, 1.0, bottom, 0.0), time))
        @for (row, y) in costs.iter().zip((0..).map(|row: u32| ROW * f64::from(row))) {
            text x="0" y=(y + 13.0) { (row.clock) }
            @match row.cost_ns {
                Some(ns) => {
                    @let width = units(scale.at(ns).max(2.0));
                    rect class=(class(row)) x="0" y=(y + 18.0) height="11" width=(width) {}
                    text x=(units(width + 5.0)) y=(y + 28.0) { (time(ns)) }
                }
                None => text.quiet x="0" y=(y + 28.0) { "not available" },
            }
        }
    };
    let of_row =
        |row: &CostRow| format!("{} {}", row.clock, row.cost_ns.map_or("not available".to_owned(), time));
    Figure {
        title: "Cost of a call",
        summary: &format!("Bars: {}", costs.iter().map(of_row).collect::<Vec<_>>().join(", ")),
        meaning: html! {
            "Calls in a tight loop; the fastest of the interleaved rounds counts. Shorter is better. Each thin line stands for "
            "ten times the cost of the line before it. No clock that reads the counter can cost less than the bare counter."
        },
        legend: &[
            ("tickline", Swatch::Bar("tickline")),
            ("the bare counter", Swatch::Bar("counter")),
            ("the OS", Swatch::Bar("os")),
            ("the OS, by a system call", Swatch::Bar("os syscall")),
        ],
        size: Some("large"),
        height: bottom + 18.0,
        drawing,
    }
    .markup()
}

/// The owner of the clock, and whether it enters the kernel, as classes.
fn class(row: &CostRow) -> &'static str {
    match &*row.clock {
        _ if row.served_by == Some(ServedBy::SystemCall) || row.clock.starts_with("system call") => {
            "os syscall"
        }
        clock if clock.starts_with("tickline") => "tickline",
        clock if clock.contains("rdtsc") || clock.contains("cntvct") => "counter",
        _ => "os",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::cost;

    #[test]
    fn bars_show_what_is_known() {
        let rows = [
            cost("tickline::now_ns", Some(9.0), None),
            cost("rdtscp", None, None),
            cost("clock_gettime PROCESS_CPUTIME", Some(387.0), Some(ServedBy::SystemCall)),
        ];
        let drawing = figure(&rows).into_string();
        for part in ["9 ns", "387 ns", "not available", "os syscall", "ten times"] {
            assert!(drawing.contains(part), "no {part} in {drawing}");
        }
        // 2 and 25 ns differ by more than a letter's width beside a system call.
        let width = |ns: f64| {
            let drawing = figure(&[cost("a", Some(ns), None), cost("b", Some(1_000.0), None)]).into_string();
            let bar = drawing.split("<rect class=\"os\"").nth(2).expect("behind the legend");
            bar.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse::<f64>().unwrap()
        };
        assert!(width(25.0) > width(2.0) + 100.0, "{} {}", width(25.0), width(2.0));
        assert!(figure(&rows[1..2]).into_string().is_empty(), "no cost at all");
    }
}
