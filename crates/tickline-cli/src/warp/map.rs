//! The heat map: for each pair, the largest possible difference between the counters.

use std::io::{self, Write};

use anstyle::{Ansi256Color, AnsiColor, Style};

use crate::measure::pattern::Pattern;
use crate::measure::warp::Warp;
use crate::terminal::{self, Colour};
use crate::wrap::Look;

/// How the map is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Display {
    pub(crate) colour: Colour,
    /// Columns of the terminal.
    pub(crate) columns: usize,
}

impl Display {
    pub(crate) fn of_stdout() -> Self {
        Self { colour: Colour::of_stdout(), columns: terminal::columns() }
    }
}

/// A cell of the map, in ascending order of concern.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) enum Cell {
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

/// Upper bounds of the classes of difference, ns, each with its character and colour (of the
/// 256-colour palette, from green by yellow to red). The uncertainty of an exchange is some 20 ns
/// between hyperthreads, and 200 ns between sockets.
pub(crate) const CLASSES: [(f64, char, u8); 7] = [
    (50.0, '.', 22),
    (100.0, ':', 28),
    (200.0, '-', 64),
    (500.0, '=', 136),
    (1_000.0, '+', 172),
    (10_000.0, '*', 166),
    (f64::INFINITY, '@', 160),
];

fn class(ns: f64) -> (char, u8) {
    let found = CLASSES.iter().find(|(end, ..)| ns < *end).unwrap_or(&CLASSES[CLASSES.len() - 1]);
    (found.1, found.2)
}

impl Cell {
    /// Two characters, and their colour.
    fn drawn(self) -> (String, Option<u8>) {
        match self {
            Self::Blank => ("  ".to_owned(), None),
            Self::Same => (" \\".to_owned(), None),
            Self::Unknown => (" ?".to_owned(), None),
            Self::Synchronised(ns) => (format!(" {}", class(ns).0), Some(class(ns).1)),
            Self::Unsynchronised(ns) => (format!("!{}", class(ns).0), Some(class(ns).1)),
        }
    }
}

/// Draws the map. On a narrow terminal a cell stands for several CPUs, and shows their worst pair.
pub(crate) fn write(warp: &Warp, display: &Display, out: &mut dyn Write) -> io::Result<()> {
    const LABEL: usize = 6;
    let places = (display.columns.saturating_sub(LABEL) / 2).max(1);
    let merged = warp.cpus.len().div_ceil(places).max(1);
    let heads: Vec<u32> = warp.cpus.iter().step_by(merged).copied().collect();
    let cells = cells(warp, merged, heads.len());
    let look = Look { colour: Colour::None, columns: display.columns };
    writeln!(out, "\n{}", look.wrap("", "Largest possible difference between the counters of two CPUs"))?;
    if merged > 1 {
        let text = format!("(a cell is {merged} by {merged} CPUs, and shows their worst pair)");
        writeln!(out, "{}", look.wrap("", &text))?;
    }
    for line in headings(&heads) {
        writeln!(out, "{:LABEL$}{line}", "")?;
    }
    let rows = match warp.pattern {
        Pattern::All => heads.len(),
        Pattern::Star => 1,
    };
    for (head, row) in heads.iter().zip(&cells).take(rows) {
        write!(out, "{head:>5} ")?;
        for cell in row {
            let (text, colour) = cell.drawn();
            match (display.colour, colour) {
                (Colour::Ansi, Some(colour)) => paint(&text, colour, out)?,
                _ => write!(out, "{text}")?,
            }
        }
        writeln!(out)?;
    }
    legend(look, out)
}

fn paint(text: &str, colour: u8, out: &mut dyn Write) -> io::Result<()> {
    let style = Style::new().bg_color(Some(Ansi256Color(colour).into()));
    let style = style.fg_color(Some(AnsiColor::BrightWhite.into()));
    write!(out, "{style}{text}{style:#}")
}

/// The cells of both halves, so that a row shows all pairs of a CPU.
pub(crate) fn cells(warp: &Warp, merged: usize, places: usize) -> Vec<Vec<Cell>> {
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
        let farthest = pair.offset_least_ns.zip(pair.offset_most_ns);
        let farthest_ns = farthest.map(|(least, most)| least.abs().max(most.abs()));
        let cell = match (pair.synchronised, farthest_ns) {
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

/// The CPUs' numbers above the columns, one digit a line.
fn headings(heads: &[u32]) -> Vec<String> {
    let digits = heads.iter().max().map_or(1, |most| most.to_string().len());
    let names: Vec<Vec<char>> =
        heads.iter().map(|head| format!("{head:>digits$}").chars().collect()).collect();
    (0..digits).map(|line| names.iter().flat_map(|name| [' ', name[line]]).collect()).collect()
}

fn legend(look: Look, out: &mut dyn Write) -> io::Result<()> {
    let classes = CLASSES.map(|(end, character, _)| match end {
        end if end.is_finite() => format!("{character} <{end:.0} ns"),
        _ => format!("{character} more"),
    });
    writeln!(out, "{}", look.wrap("      ", &classes.join(", ")))?;
    writeln!(out, "{}", look.wrap("      ", "! unsynchronised, ? could not be compared, \\ the same CPU"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::warp::WarpPair;

    fn pair(from_cpu: u32, to_cpu: u32, ns: Option<f64>, synchronised: Option<bool>) -> WarpPair {
        WarpPair {
            from_cpu,
            to_cpu,
            exchanges: 1_000,
            warps: u64::from(synchronised == Some(false)),
            largest_warp_ns: 0.0,
            offset_least_ns: ns.map(|ns| -ns),
            offset_most_ns: ns,
            synchronised,
        }
    }

    fn warp(cpus: Vec<u32>, pattern: Pattern, pairs: Vec<WarpPair>) -> Warp {
        Warp {
            cpus,
            pattern,
            frequency_hz: Some(2e9),
            resolution_ns: Some(10.0),
            untested_cpus: None,
            synchronised: None,
            unknown: None,
            largest_warp_ns: 0.0,
            pairs,
        }
    }

    fn drawn(warp: &Warp, colour: Colour, columns: usize) -> Vec<String> {
        let mut out = Vec::new();
        write(warp, &Display { colour, columns }, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_pair_has_its_cell_on_both_sides() {
        let pairs = vec![
            pair(0, 3, Some(45.0), Some(true)),
            pair(0, 12, Some(20_000.0), Some(false)),
            pair(3, 12, None, None),
        ];
        let lines = drawn(&warp(vec![0, 3, 12], Pattern::All, pairs), Colour::None, 80);
        let map: Vec<&str> = lines.iter().skip(2).take(5).map(|line| line.as_str()).collect();
        assert_eq!(map, ["           1", "       0 3 2", "    0  \\ .!@", "    3  . \\ ?", "   12 !@ ? \\"]);
        assert!(lines.iter().all(|line| line.is_ascii() && line.len() <= 80), "{lines:?}");
    }

    #[test]
    fn colours_only_where_they_are_wanted() {
        let warp = warp(vec![0, 1], Pattern::All, vec![pair(0, 1, Some(45.0), Some(true))]);
        assert!(drawn(&warp, Colour::Ansi, 80).iter().any(|line| line.contains("\u{1b}[48;5;22m")));
        assert!(!drawn(&warp, Colour::None, 80).iter().any(|line| line.contains('\u{1b}')));
    }

    #[test]
    fn a_wide_machine_is_merged_and_its_worst_pair_stays() {
        let cpus: Vec<u32> = (0..1_000).collect();
        let mut pairs: Vec<WarpPair> =
            cpus.iter().skip(1).map(|to| pair(0, *to, Some(70.0), Some(true))).collect();
        pairs[500].synchronised = Some(false);
        let lines = drawn(&warp(cpus, Pattern::Star, pairs), Colour::None, 80);
        assert!(lines[2].contains("a cell is 28 by 28 CPUs"), "{}", lines[2]);
        assert!(lines.iter().all(|line| line.len() <= 80), "{lines:?}");
        assert_eq!(lines.iter().filter(|line| line.contains("!:")).count(), 1, "{lines:?}");
        for columns in [0, 1, 7, 20] {
            let few =
                super::tests::warp(vec![0, 1, 2], Pattern::All, vec![pair(0, 1, Some(45.0), Some(true))]);
            assert!(!drawn(&few, Colour::None, columns).is_empty());
        }
    }
}
