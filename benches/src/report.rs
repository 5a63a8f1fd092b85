//! The output of the programs, and figures of many runs.
//!
//! The fields of each program's report are documented where they are declared; a name ends in its
//! unit, a name without one is a count or a text.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use serde::Serialize;
use serde_json::Value;
use tickline_observe::to_f64;

use crate::args;

/// Prints `report`: as JSON if the arguments say so, else a figure a line, and lists as tables.
///
/// # Panics
///
/// If standard output cannot be written to.
pub fn print<R: Serialize>(report: &R) {
    let text = if args::flag("json") {
        serde_json::to_string_pretty(report)
    } else {
        serde_json::to_value(report).map(|report| shown(&report))
    };
    writeln!(io::stdout(), "{}", text.expect("a report is JSON")).expect("standard output");
}

fn shown(report: &Value) -> String {
    let (mut text, mut tables) = (String::new(), String::new());
    for (name, value) in figures("", report) {
        let Value::Array(rows) = value else {
            writeln!(text, "{name}: {}", cell(value)).ok();
            continue;
        };
        for (place, row) in rows.iter().enumerate() {
            // Names come first.
            let mut figures = figures("", row);
            figures.sort_by_key(|(_, value)| !value.is_string());
            let widths = figures.iter().map(|it| if it.1.is_string() { 42 } else { it.0.len().max(18) });
            let line = |cells: &mut dyn Iterator<Item = String>| {
                let cells: String =
                    cells.zip(widths.clone()).map(|(cell, width)| format!("{cell:<width$} ")).collect();
                format!("{}\n", cells.trim_end())
            };
            if place == 0 {
                tables += &format!("\n{}", line(&mut figures.iter().map(|(name, _)| name.clone())));
            }
            tables += &line(&mut figures.iter().map(|(_, value)| cell(value)));
        }
    }
    text + &tables
}

/// The figures of an object and of those in it, each with its path. A [`Spread`] is one.
fn figures<'a>(path: &str, value: &'a Value) -> Vec<(String, &'a Value)> {
    match value {
        Value::Object(object) if !object.contains_key("median") => {
            let inner = |(key, value)| figures(format!("{path}.{key}").trim_start_matches('.'), value);
            object.iter().flat_map(inner).collect()
        }
        value => vec![(path.to_owned(), value)],
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(spread) => format!("{} ({})", cell(&spread["median"]), cell(&spread["largest"])),
        value if value.is_f64() => format!("{:.2}", value.as_f64().unwrap_or_default()),
        value => value.to_string(),
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

/// The slope of the line of least squares through `(x, y)`; `None` with fewer than two different x.
#[must_use]
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = to_f64(i64::try_from(points.len()).ok()?);
    let mean = |select: fn(&(f64, f64)) -> f64| points.iter().map(select).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let xx: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let xy: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (xx > 0.0).then(|| xy / xx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_found_if_there_is_one() {
        let points: Vec<(f64, f64)> = (0..100_i32)
            .map(|x| (f64::from(x), 7.0 + 3.0 * f64::from(x) + if x % 2 == 0 { 2.0 } else { -2.0 }))
            .collect();
        assert!((slope(&points).unwrap() - 3.0).abs() < 0.01);
        assert_eq!([slope(&[]), slope(&points[..1]), slope(&[(1.0, 2.0), (1.0, 3.0)])], [None; 3]);
    }
}
