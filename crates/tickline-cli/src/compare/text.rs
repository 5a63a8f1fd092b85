//! The differences as text for people.

use std::io::{self, Write};

use super::{Difference, DocumentDiff};
use crate::terminal::plain;
use crate::words::cell;
use crate::wrap::Layout;

/// The longest value that fits into a column, characters.
const SHORT: usize = 16;

/// Writes the comparison as text.
pub(super) fn write(found: &DocumentDiff, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    let number = found.differences.len();
    let difference = if number == 1 { "difference" } else { "differences" };
    let equal = found.equal;
    let within = found.above_percent;
    let result =
        format!("{number} {difference}, {equal} facts and figures are equal (costs within {within} %).");
    layout.say("", &result, out)?;
    for (name, side) in [("A", &found.first), ("B", &found.second)] {
        let taken = side.taken_at.as_deref().unwrap_or("at an unknown time");
        writeln!(out, "  {name}: {}, {}", plain(&side.file), plain(taken))?;
    }
    rows("Differences", &found.differences, layout, out)?;
    rows("Known on one side only", &found.known_once, layout, out)
}

/// The short values in a table, then the long ones.
fn rows(title: &str, differences: &[Difference], layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    let row = |difference: &Difference| {
        let unit = difference.unit.map_or_else(String::new, |unit| format!(", {unit}"));
        let [first, second] = [&difference.first, &difference.second].map(cell);
        let ratio = difference.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        vec![format!("{}{unit}", difference.name), first, second, ratio]
    };
    let is_short = |row: &Vec<String>| row[1..].iter().all(|value| value.chars().count() <= SHORT);
    let (short, long): (Vec<_>, Vec<_>) = differences.iter().map(row).partition(is_short);
    if !differences.is_empty() {
        writeln!(out)?;
        layout.table(&[title, "A", "B", "B/A"], &short, out)?;
    }
    long.iter()
        .try_for_each(|row| writeln!(out, "  {}\n      A: {}\n      B: {}", plain(&row[0]), row[1], row[2]))
}
