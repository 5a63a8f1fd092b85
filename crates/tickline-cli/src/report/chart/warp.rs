//! The largest possible difference between the counters of two CPUs, as a heat map.

use maud::{Markup, html};

use super::figure::{Figure, WIDTH, units};
use super::scale::time;
use crate::measure::as_f64;
use crate::measure::pattern::Pattern;
use crate::measure::warp::Warp;

const LEFT: f64 = 40.0;
const TOP: f64 = 22.0;

/// Rows and columns at most: a cell is then 6 units wide. More CPUs share cells, which show the
/// worst of their pairs.
const MOST: usize = 64;

/// Up to this number of CPUs, each cell shows its figure.
const WITH_FIGURES: usize = 7;

/// The largest cell.
const LARGEST: f64 = 56.0;

/// The chart; empty without pairs.
pub(in crate::report) fn figure(warp: &Warp) -> Markup {
    if warp.pairs.is_empty() {
        return Markup::default();
    }
    let merged = warp.cpus.len().div_ceil(MOST);
    let heads: Vec<u32> = warp.cpus.iter().step_by(merged).copied().collect();
    let cells = cells(warp, merged, heads.len());
    let rows = if warp.pattern == Pattern::Star { 1 } else { heads.len() };
    let size = ((WIDTH - LEFT) / places(heads.len())).min(LARGEST);
    let at = |index: usize| units(places(index) * size);
    // Labels at a distance of 26 units do not overlap.
    let every = (1..=heads.len()).find(|step| places(*step) * size >= 26.0).unwrap_or(1);
    let bottom = TOP + at(rows) + 8.0;
    let drawing = html! {
        text.end x=(LEFT - 6.0) y=(TOP - 6.0) { "CPU" }
        @for (index, cpu) in heads.iter().enumerate().step_by(every) {
            text.middle x=(units(LEFT + at(index) + size / 2.0)) y=(TOP - 6.0) { (cpu) }
            @if index < rows {
                text.end x=(LEFT - 6.0) y=(units(TOP + at(index) + size / 2.0 + 4.0)) { (cpu) }
            }
        }
        @for (row, line) in cells.iter().take(rows).enumerate() {
            @for (column, cell) in line.iter().enumerate() {
                (drawn(*cell, (LEFT + at(column), TOP + at(row)), size, heads.len() <= WITH_FIGURES))
            }
        }
        (legend(bottom))
    };
    let unsynchronised = warp.pairs.iter().filter(|pair| pair.synchronised == Some(false)).count();
    let unknown = warp.pairs.iter().filter(|pair| pair.synchronised.is_none()).count();
    let summary = format!(
        "Of {} CPUs: pairs compared {}, unsynchronised {unsynchronised}, unknown {unknown}; largest warp {}",
        warp.cpus.len(),
        warp.pairs.len() - unknown,
        time(warp.largest_warp_ns)
    );
    Figure {
        title: "Counters of the CPUs against each other",
        summary: &summary,
        meaning: html! {
            "Two threads exchange the counter's value; the colour shows the largest possible difference between the two "
            "counters, which is mostly the time of an exchange. Unsynchronised pairs are marked. " (summary) "."
            @if merged > 1 { " A cell is " (merged) " by " (merged) " CPUs, and shows their worst pair." }
        },
        legend: &[],
        size: None,
        height: bottom + 34.0,
        drawing,
    }
    .markup()
}

/// A cell of the map, in ascending order of concern.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Cell {
    /// The pair was not compared.
    Blank,
    /// A CPU and itself.
    Same,
    /// Synchronised; the largest possible difference, ns.
    Synchronised(f64),
    /// Too few exchanges.
    Unknown,
    /// Unsynchronised; the largest possible difference, ns.
    Unsynchronised(f64),
}

/// Upper bounds of the classes of difference, ns. The uncertainty of an exchange is some 20 ns between
/// hyperthreads, and 200 ns between sockets.
const CLASSES: [f64; 7] = [50.0, 100.0, 200.0, 500.0, 1_000.0, 10_000.0, f64::INFINITY];

/// The cells of both halves, so that a row shows all pairs of a CPU. A cell stands for `merged` by
/// `merged` CPUs, and shows their worst pair.
fn cells(warp: &Warp, merged: usize, places: usize) -> Vec<Vec<Cell>> {
    let mut cells = vec![vec![Cell::Blank; places]; places];
    let place = |cpu: u32| warp.cpus.binary_search(&cpu).map_or(0, |place| place / merged);
    let mut worst = |row: usize, column: usize, cell: Cell| {
        let before = &mut cells[row][column];
        if *before < cell {
            *before = cell;
        }
    };
    for cpu in &warp.cpus {
        worst(place(*cpu), place(*cpu), Cell::Same);
    }
    for pair in &warp.pairs {
        let cell = match (pair.synchronised, pair.farthest_ns()) {
            (Some(true), Some(ns)) => Cell::Synchronised(ns),
            (Some(false), Some(ns)) => Cell::Unsynchronised(ns),
            _ => Cell::Unknown,
        };
        let (from, to) = (place(pair.from_cpu), place(pair.to_cpu));
        worst(from, to, cell);
        worst(to, from, cell);
    }
    cells
}

/// A cell, with its figure if there is room for one.
fn drawn(cell: Cell, (x, y): (f64, f64), size: f64, figures: bool) -> Markup {
    let (x, y) = (units(x), units(y));
    let (inner, middle) = (units(size - 1.0), (units(x + size / 2.0), units(y + size / 2.0 + 4.0)));
    let text = |text: &str| html! { text.middle x=(middle.0) y=(middle.1) { (text) } };
    match cell {
        Cell::Blank => Markup::default(),
        Cell::Same => html! { path.grid d=(format!("M{x} {y}l{inner} {inner}")) {} },
        Cell::Unknown => html! {
            rect.grid fill="none" x=(x) y=(y) width=(inner) height=(inner) {}
            @if size >= 12.0 { (text("?")) }
        },
        Cell::Synchronised(ns) | Cell::Unsynchronised(ns) => html! {
            rect.heat x=(x) y=(y) width=(inner) height=(inner) fill-opacity=(opacity(class(ns))) {
                title { (time(ns)) " at most" }
            }
            @if matches!(cell, Cell::Unsynchronised(_)) {
                @let (left, top, side) = (x + 1.0, y + 1.0, units(inner - 2.0));
                path.bad d=(format!("M{left} {top}h{side}v{side}h-{side}z")) {}
            }
            @if figures { (text(&time(ns))) }
        },
    }
}

/// The classes of difference, from left to right.
fn legend(top: f64) -> Markup {
    const STEP: f64 = 54.0;
    html! {
        @for (index, end) in CLASSES.iter().enumerate() {
            @let x = LEFT + STEP * places(index);
            rect.heat x=(x) y=(top + 4.0) width=(STEP) height="10" fill-opacity=(opacity(index)) {}
            @if end.is_finite() {
                text.middle x=(x + STEP) y=(top + 27.0) { (time(*end)) }
            }
        }
    }
}

fn class(ns: f64) -> usize {
    CLASSES.iter().position(|end| ns < *end).unwrap_or(CLASSES.len() - 1)
}

/// A larger difference is darker; the text on it stays readable.
fn opacity(class: usize) -> f64 {
    units(0.1 + places(class) * 0.1)
}

fn places(count: usize) -> f64 {
    as_f64(count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::warp::WarpPair;
    use crate::report::sample::warp;

    #[test]
    fn every_pair_has_two_cells() {
        let drawn = |synchronised| figure(&warp(4, |_, _| synchronised)).into_string();
        let good = drawn(Some(true));
        assert_eq!(good.matches(" ns at most").count(), 12);
        assert_eq!(good.matches("class=\"bad\"").count(), 0);
        let bad = drawn(Some(false));
        assert_eq!(bad.matches("class=\"bad\"").count(), 12);
        assert!(bad.contains("d=\"M97 23h53v53h-53z\""), "the mark is not around its cell: {bad}");
        assert_eq!(drawn(None).matches(">?<").count(), 12);
        assert!(figure(&warp(1, |_, _| None)).into_string().is_empty());
    }

    #[test]
    fn many_cpus_share_cells() {
        let drawing = figure(&warp(200, |_, _| Some(true))).into_string();
        assert!(drawing.contains("A cell is 4 by 4 CPUs"), "{drawing}");
        assert_eq!(drawing.matches(" ns at most</title>").count(), 50 * 50);
    }

    fn pair(from_cpu: u32, to_cpu: u32, ns: Option<f64>, synchronised: Option<bool>) -> WarpPair {
        let offset_least_ns = ns.map(|ns| -ns);
        WarpPair { from_cpu, to_cpu, offset_least_ns, offset_most_ns: ns, synchronised, ..Default::default() }
    }

    #[test]
    fn each_pair_has_its_cell_on_both_sides_and_the_worst_one_stays() {
        let warp = Warp {
            cpus: vec![0, 3, 12, 13],
            pairs: vec![
                pair(0, 3, Some(45.0), Some(true)),
                pair(0, 12, Some(20_000.0), Some(false)),
                pair(0, 13, Some(50.0), Some(true)),
                pair(3, 12, None, None),
            ],
            ..Warp::default()
        };
        use Cell::{Blank, Same, Synchronised, Unknown, Unsynchronised};
        let far = Unsynchronised(20_000.0);
        let expected = [
            [Same, Synchronised(45.0), far, Synchronised(50.0)],
            [Synchronised(45.0), Same, Unknown, Blank],
            [far, Unknown, Same, Blank],
            [Synchronised(50.0), Blank, Blank, Same],
        ];
        assert_eq!(cells(&warp, 1, 4), expected);
        assert_eq!(cells(&warp, 2, 2), [[Synchronised(45.0), far], [far, Same]]);
    }
}
