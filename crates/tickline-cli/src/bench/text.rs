//! The costs as text for people: tables, or a sentence for each row on a narrow terminal.

use std::io::{self, Write};

use crate::document::{Bench, CostRow, Document};
use crate::measure::costs::LongRun;
use crate::wrap::{Look, TABLE};

/// Writes the document as text.
pub(crate) fn write(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", look.wrap("", &document.verdict))?;
    document.build_note().map_or(Ok(()), |note| writeln!(out, "{}", look.wrap("", note)))?;
    let Some(bench) = &document.bench else { return Ok(()) };
    costs(document, bench.rounds, look, out)?;
    long_run(bench, look, out)
}

fn costs(document: &Document, rounds: u32, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let title = format!("Costs, ns a call in a tight loop; {rounds} rounds over all clocks, interleaved");
    writeln!(out, "\n{}", look.wrap("", &title))?;
    if look.columns < TABLE {
        return document
            .costs
            .iter()
            .try_for_each(|cost| writeln!(out, "{}", look.wrap("  ", &spelled(cost))));
    }
    writeln!(out, "  {:<36} {:>9} {:>9} {:>9} {:>9}", "", "fastest", "median", "90 %", "ratio to")?;
    writeln!(out, "  {:<36} {:>9} {:>9} {:>9} {:>9}", "clock", "round", "round", "below", "counter")?;
    for cost in &document.costs {
        write!(out, "  {:<36} ", cost.clock)?;
        match cost.cost_ns {
            Some(ns) => write!(out, "{ns:>9.2}")?,
            None => write!(out, "not here")?,
        }
        for figure in [cost.median_ns, cost.p90_ns, cost.ratio_to_counter] {
            match figure {
                Some(figure) => write!(out, " {figure:>9.2}")?,
                None => write!(out, " {:>9}", "-")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// A row as a sentence.
fn spelled(cost: &CostRow) -> String {
    let Some(ns) = cost.cost_ns else { return format!("{}: not here", cost.clock) };
    let mut text = format!("{}: fastest round {ns:.2}", cost.clock);
    for (name, figure) in
        [("median", cost.median_ns), ("90 % below", cost.p90_ns), ("ratio to counter", cost.ratio_to_counter)]
    {
        if let Some(figure) = figure {
            text += &format!(", {name} {figure:.2}");
        }
    }
    text
}

fn long_run(bench: &Bench, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let title = format!("Long run: {} calls of each clock, with all interruptions", bench.calls);
    writeln!(out, "\n{}", look.wrap("", &title))?;
    let figures = |run: &LongRun| run.mean_ns.zip(run.total_s);
    if look.columns < TABLE {
        return bench.long_run.iter().try_for_each(|run| {
            let text = match figures(run) {
                Some((ns, s)) => format!("{}: {ns:.2} ns a call, {s:.3} s in all", run.clock),
                None => format!("{}: not here", run.clock),
            };
            writeln!(out, "{}", look.wrap("  ", &text))
        });
    }
    writeln!(out, "  {:<36} {:>9} {:>9}", "clock", "ns a call", "s in all")?;
    for run in &bench.long_run {
        match figures(run) {
            Some((ns, s)) => writeln!(out, "  {:<36} {ns:>9.2} {s:>9.3}", run.clock)?,
            None => writeln!(out, "  {:<36} not here", run.clock)?,
        }
    }
    Ok(())
}
