//! The cells of the report's heat map: for each pair of CPUs, the largest possible difference between
//! the counters.

use crate::measure::warp::Warp;

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

/// Upper bounds of the classes of difference, ns. The uncertainty of an exchange is some 20 ns between
/// hyperthreads, and 200 ns between sockets.
pub(crate) const CLASSES: [f64; 7] = [50.0, 100.0, 200.0, 500.0, 1_000.0, 10_000.0, f64::INFINITY];

/// The cells of both halves, so that a row shows all pairs of a CPU. A cell stands for `merged` by
/// `merged` CPUs, and shows their worst pair.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::warp::WarpPair;

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
