//! The costs as text for people.

use std::io::{self, Write};

use crate::document::{Bench, Compared, Document};
use crate::terminal::plain;

/// Writes the document as text.
pub(crate) fn write(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", document.verdict)?;
    document.build_note().map_or(Ok(()), |note| writeln!(out, "{note}"))?;
    let Some(bench) = &document.bench else { return Ok(()) };
    costs(document, bench.rounds, out)?;
    long_run(bench, out)?;
    bench.compared.as_ref().map_or(Ok(()), |found| compared(found, out))
}

fn costs(document: &Document, rounds: u32, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nCosts, ns a call in a tight loop; {rounds} rounds over all clocks, interleaved")?;
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

fn long_run(bench: &Bench, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nLong run: {} calls of each clock, with all interruptions", bench.calls)?;
    writeln!(out, "  {:<36} {:>9} {:>9}", "clock", "ns a call", "s in all")?;
    for run in &bench.long_run {
        match run.mean_ns.zip(run.total_s) {
            Some((ns, s)) => writeln!(out, "  {:<36} {ns:>9.2} {s:>9.3}", run.clock)?,
            None => writeln!(out, "  {:<36} not here", run.clock)?,
        }
    }
    Ok(())
}

fn compared(compared: &Compared, out: &mut dyn Write) -> io::Result<()> {
    let (file, version) = (plain(&compared.file), plain(&compared.program_version));
    writeln!(out, "\nCompared with {file} (tickline {version}), fastest rounds")?;
    for difference in &compared.differences {
        writeln!(out, "  another {}", plain(difference))?;
    }
    writeln!(out, "  {:<36} {:>9} {:>9} {:>9}", "clock", "then, ns", "now, ns", "now/then")?;
    for row in &compared.clocks {
        writeln!(
            out,
            "  {:<36} {:>9.2} {:>9.2} {:>9.3}",
            plain(&row.clock),
            row.then_ns,
            row.now_ns,
            row.ratio_to_then
        )?;
    }
    for (which, clocks) in [("then", &compared.only_then), ("now", &compared.only_now)] {
        for clock in clocks {
            writeln!(out, "  {:<36} {which} only", plain(clock))?;
        }
    }
    let Some(percent) = compared.fail_above_percent else { return Ok(()) };
    match compared.too_slow.join(", ") {
        none if none.is_empty() => writeln!(out, "  no clock is slower by more than {percent} %"),
        clocks => writeln!(out, "  slower by more than {percent} %: {}", plain(&clocks)),
    }
}
