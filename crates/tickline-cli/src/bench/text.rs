//! The costs as text for people.

use std::io::{self, Write};

use crate::document::{Bench, Document};
use crate::wrap::Look;

/// Writes the document as text.
pub(crate) fn write(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", look.wrap("", &document.verdict))?;
    document.build_note().map_or(Ok(()), |note| writeln!(out, "{}", look.wrap("", note)))?;
    let Some(Bench { rounds, calls, long_run }) = &document.bench else { return Ok(()) };
    let title = format!("Costs, ns a call in a tight loop; {rounds} rounds over all clocks, interleaved");
    writeln!(out, "\n{}", look.wrap("", &title))?;
    const COSTS: [(&str, &str); 5] = [
        ("clock", "clock"),
        ("cost_ns", "fastest round"),
        ("median_ns", "median"),
        ("p90_ns", "90 % below"),
        ("ratio_to_counter", "to counter"),
    ];
    look.table_of(&COSTS, &document.costs, out)?;
    let title = format!("Long run: {calls} calls of each clock, with all interruptions");
    writeln!(out, "\n{}", look.wrap("", &title))?;
    look.table_of(&[("clock", "clock"), ("mean_ns", "ns a call"), ("total_s", "s in all")], long_run, out)
}
