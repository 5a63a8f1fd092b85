//! The costs as text for people.

use std::io::{self, Write};

use crate::document::{Bench, Document};
use crate::wrap::{Look, figure};

/// Writes the document as text.
pub(crate) fn write(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", look.wrap("", &document.verdict))?;
    document.build_note().map_or(Ok(()), |note| writeln!(out, "{}", look.wrap("", note)))?;
    let Some(Bench { rounds, calls, long_run }) = &document.bench else { return Ok(()) };
    let title = format!("Costs, ns a call in a tight loop; {rounds} rounds over all clocks, interleaved");
    writeln!(out, "\n{}", look.wrap("", &title))?;
    let costs: Vec<_> = document
        .costs
        .iter()
        .map(|row| {
            let figures = [row.cost_ns, row.median_ns, row.p90_ns, row.ratio_to_counter].map(figure);
            [vec![row.clock.to_string()], figures.into()].concat()
        })
        .collect();
    look.table(&["clock", "fastest round", "median", "90 % below", "to counter"], &costs, out)?;
    let title = format!("Long run: {calls} calls of each clock, with all interruptions");
    writeln!(out, "\n{}", look.wrap("", &title))?;
    let runs: Vec<_> = long_run
        .iter()
        .map(|run| vec![run.clock.to_owned(), figure(run.mean_ns), figure(run.total_s.map(|s| s * 1e3))])
        .collect();
    look.table(&["clock", "ns a call", "ms in all"], &runs, out)
}
