//! How long single readings take, as a histogram with logarithmic scales.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use maud::{Markup, html};

use super::figure::{Figure, Swatch, WIDTH};
use super::scale::{BOTTOM, HEIGHT, LEFT, Scale, TOP, below};
use crate::document::{LatencyBin, LatencyRow};
use crate::measure::as_f64;
use crate::words::time;

/// Drawn bins: one for each ns up to 8, and eight for each doubling above.
const STEPS: u64 = 8;

/// The bin of 0 is drawn from here to 1 on the logarithmic scale.
const ZERO: f64 = 0.2;

/// How the clocks are drawn, in the order in which they are measured.
const CLASSES: [&str; 2] = ["tickline", "os"];

/// The chart; empty without readings.
pub(in crate::report) fn figure(rows: &[LatencyRow]) -> Markup {
    let shares: Vec<Vec<Bar>> = rows.iter().map(bars).collect();
    let all = || shares.iter().flatten();
    let longest = all().map(|bar| bar.to_ns).fold(0.0, f64::max);
    if longest <= 0.0 {
        return Markup::default();
    }
    let rarest = all().map(|bar| bar.share).fold(1.0, f64::min);
    let zeros = all().any(|bar| bar.from_ns < 1.0);
    // From there on without zeros, too: at the corner "1 ns" would lie over the lowest share.
    let x = Scale::decades(ZERO, longest, LEFT, WIDTH - 4.0);
    let y = Scale::decades(10_f64.powf(rarest.log10().floor()), 1.0, BOTTOM, TOP);
    let drawing = html! {
        (x.columns(5.0, &y, time))
        (y.rows(5.0, &x, rarity))
        @if zeros { text.middle x=(LEFT) y=(BOTTOM + 15.0) { "0" } }
        @for (bars, class) in shares.iter().zip(CLASSES) {
            @let path = outline(bars, &x, &y);
            path class={ "area " (class) } d=(path) {}
            path class={ "line " (class) } d=(path) {}
        }
        path.axis d=(format!("M{LEFT} {BOTTOM}H{WIDTH}")) {}
        (below("from one reading to the next"))
    };
    let of_row = |row: &LatencyRow| {
        format!(
            "{}: median {} ns, 99 % within {} ns, longest {} ns",
            row.clock, row.median_ns, row.p99_ns, row.max_ns
        )
    };
    let swatches = ["line tickline", "line os"].map(Swatch::Line);
    let legend: Vec<_> = rows.iter().map(|row| row.clock).zip(swatches).collect();
    Figure {
        title: "How long single readings take",
        summary: &rows.iter().map(of_row).collect::<Vec<_>>().join("; "),
        meaning: html! {
            "A loop reads a clock; the histogram counts the time from each reading to the next, by that clock. "
            "The peak is at the cost of a call; the resolution gives its width. Readings further to the right waited for a new "
            "line or a kernel update, or while an interrupt, another process or the hypervisor had the CPU."
            @if zeros { " 0 means two equal readings, within the clock's resolution." }
        },
        legend: &legend,
        size: None,
        height: HEIGHT,
        drawing,
    }
    .markup()
}

/// A drawn bin.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bar {
    from_ns: f64,
    to_ns: f64,
    /// The share of all readings.
    share: f64,
}

/// The bins of a clock as they are drawn.
fn bars(row: &LatencyRow) -> Vec<Bar> {
    let mut counts: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for LatencyBin { from_ns, count, .. } in &row.bins {
        *counts.entry(drawn_bin(*from_ns)).or_default() += count;
    }
    let bar = |((from_ns, to_ns), count)| Bar {
        from_ns: as_f64(from_ns).max(ZERO),
        to_ns: as_f64(to_ns),
        share: as_f64(count) / as_f64(row.readings),
    };
    counts.into_iter().map(bar).collect()
}

/// The drawn bin of a time: its first ns, and the first ns of the next bin.
fn drawn_bin(ns: u64) -> (u64, u64) {
    match (1 << ns.max(1).ilog2()) / STEPS {
        0 => (ns, ns + 1),
        step => (ns / step * step, (ns / step + 1) * step),
    }
}

/// The bars' outline, down to the axis where bins are empty.
fn outline(bars: &[Bar], x: &Scale, y: &Scale) -> String {
    let mut path = String::new();
    let mut end = None;
    for bar in bars {
        let (left, right, top) = (x.at(bar.from_ns), x.at(bar.to_ns), y.at(bar.share));
        if end.is_none_or(|end: f64| (left - end).abs() > 1e-9) {
            let close = if path.is_empty() { String::new() } else { format!("V{BOTTOM}") };
            write!(path, "{close}M{left} {BOTTOM}").ok();
        }
        write!(path, "V{top}H{right}").ok();
        end = Some(right);
    }
    path + &format!("V{BOTTOM}")
}

/// A share as `1 in N`.
fn rarity(share: f64) -> String {
    match 1.0 / share {
        count if count < 1.5 => "all".to_owned(),
        count if count < 999.0 => format!("1 in {count:.0}"),
        count if count < 999_999.0 => format!("1 in {:.0}k", count / 1e3),
        count => format!("1 in {:.0}M", count / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::latency;

    #[test]
    fn no_reading_is_lost_on_the_way_to_the_drawing() {
        let row = latency("a clock", 10);
        let bars = bars(&row);
        assert!((bars.iter().map(|bar| bar.share).sum::<f64>() - 1.0).abs() < 1e-9, "{bars:?}");
        assert_eq!((bars[1].from_ns, bars[1].to_ns), (18.0, 20.0), "19 ns");
        let (x, y) = (Scale::decades(1.0, 1e5, 0.0, 100.0), Scale::decades(1e-6, 1.0, BOTTOM, TOP));
        // Neighbours share an outline; a separate bin begins and ends at the axis.
        assert_eq!((bars.len(), outline(&bars, &x, &y).matches('M').count()), (5, 4));
        let drawing = figure(&[row]).into_string();
        assert!(drawing.contains("median 19 ns"));
        // Both stood in one place.
        let place = |label: &str| {
            let (before, _) = drawing.split_once(&format!(">{label}</text>")).expect("a label");
            before.rsplit("x=\"").next().unwrap().split('"').next().unwrap().parse::<f64>().unwrap()
        };
        assert!(place("1 ns") - place("0") > 20.0, "{} {}", place("0"), place("1 ns"));
        assert!(figure(&[]).into_string().is_empty());
    }
}
