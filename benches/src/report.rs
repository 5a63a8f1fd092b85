//! The output of programs with `--json`, and figures of many runs.
//!
//! The fields of each program's report are documented where they are declared; a name ends in its
//! unit, a name without one is a count or a text.

use std::io::{self, Write};

use serde::Serialize;

use crate::args;

/// Prints `report` as JSON if the arguments say so, else what `text` prints.
///
/// # Panics
///
/// If standard output cannot be written to.
pub fn print<R: Serialize>(report: &R, text: impl FnOnce(&R)) {
    if args::flag("json") {
        let mut out = io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, report).expect("standard output");
        writeln!(out).expect("standard output");
    } else {
        text(report);
    }
}

/// The middle of many figures and the largest, in the unit that the field's name says.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The largest.
    pub largest: f64,
}

impl Spread {
    /// Of `figures`; `None` if there are none.
    #[must_use]
    pub fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        Some(Self { median: *figures.get(figures.len() / 2)?, largest: *figures.last()? })
    }
}

/// A figure as text, or a dash.
#[must_use]
pub fn or_dash(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or_else(|| "-".into(), |figure| format!("{figure:.decimals$}"))
}
