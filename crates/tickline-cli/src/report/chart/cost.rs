//! What a call costs, as bars.

use maud::{Markup, html};

use super::figure::{Figure, Swatch, WIDTH, units};
use super::scale::{Scale, time};
use crate::document::CostRow;
use crate::measure::served_by::ServedBy;

const ROW: f64 = 20.0;
/// Room for `clock_gettime MONOTONIC_COARSE`.
const LEFT: f64 = 208.0;
/// Room for the values behind the bars.
const RIGHT: f64 = 54.0;

/// The chart; empty without costs.
pub(in crate::report) fn figure(costs: &[CostRow]) -> Markup {
    let largest = |chosen: fn(&&CostRow) -> bool| {
        costs.iter().filter(chosen).filter_map(|row| row.cost_ns).fold(0.0, f64::max)
    };
    // The clocks of CPU time take more than a system call, and would make the other bars too
    // short.
    let limit = largest(|row| !row.clock.ends_with("CPUTIME"));
    if limit <= 0.0 {
        return Markup::default();
    }
    let scale = Scale::linear(0.0, limit, LEFT, WIDTH - RIGHT);
    let height = 4.0 + ROW * rows(costs.len());
    let drawing = html! {
        @for (index, row) in costs.iter().enumerate() {
            @let y = 2.0 + ROW * rows(index);
            text.end x=(LEFT - 6.0) y=(y + 14.0) { (row.clock) }
            @match row.cost_ns {
                Some(ns) => {
                    rect class=(class(row)) x=(LEFT) y=(y + 3.0) height=(ROW - 6.0) width=(units((scale.at(ns) - LEFT).max(1.0))) {}
                    @if ns > limit { path.cut d=(format!("M{} {}l6 -{ROW}", WIDTH - RIGHT - 22.0, y + ROW)) {} }
                    text x=(units(scale.at(ns) + 5.0)) y=(y + 14.0) { (time(ns)) }
                }
                None => text.quiet x=(LEFT + 5.0) y=(y + 14.0) { "not available" },
            }
        }
        path.axis d=(format!("M{LEFT} 0V{height}")) {}
    };
    let of_row =
        |row: &CostRow| format!("{} {}", row.clock, row.cost_ns.map_or("not available".to_owned(), time));
    Figure {
        title: "Cost of a call",
        summary: &format!("Bars: {}", costs.iter().map(of_row).collect::<Vec<_>>().join(", ")),
        meaning: html! {
            "Calls in a tight loop; the fastest of the interleaved rounds counts. Shorter is better. No clock that reads the "
            "counter can cost less than the bare counter."
            @if limit < largest(|_| true) { " Cut bars are longer than drawn." }
        },
        legend: &[
            ("tickline", Swatch::Bar("tickline")),
            ("the bare counter", Swatch::Bar("counter")),
            ("the OS", Swatch::Bar("os")),
            ("the OS, by a system call", Swatch::Bar("os syscall")),
        ],
        height,
        drawing,
    }
    .markup()
}

#[expect(clippy::cast_precision_loss, reason = "some clocks")]
fn rows(count: usize) -> f64 {
    count as f64
}

/// The owner of the clock, and whether it enters the kernel, as classes.
fn class(row: &CostRow) -> &'static str {
    match row.clock {
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
    use crate::measure::calls::MONOTONIC;

    fn row(clock: &'static str, cost_ns: Option<f64>, served_by: Option<ServedBy>) -> CostRow {
        let (median_ns, p90_ns, ratio_to_counter, resolution_ns) = (cost_ns, cost_ns, None, None);
        CostRow { clock, cost_ns, median_ns, p90_ns, ratio_to_counter, resolution_ns, served_by }
    }

    #[test]
    fn bars_show_what_is_known() {
        let rows = [
            row("tickline::now_ns", Some(9.0), None),
            row("rdtscp", None, None),
            row(MONOTONIC, Some(20.0), Some(ServedBy::Vdso)),
            row("clock_gettime PROCESS_CPUTIME", Some(387.0), Some(ServedBy::SystemCall)),
        ];
        let drawing = figure(&rows).into_string();
        for part in ["9 ns", "387 ns", "not available", "os syscall", "longer than drawn"] {
            assert!(drawing.contains(part), "no {part} in {drawing}");
        }
        let drawing = figure(&rows[..3]).into_string();
        assert!(!drawing.contains("longer than drawn"), "{drawing}");
        assert!(figure(&rows[1..2]).into_string().is_empty(), "no cost at all");
    }
}
