//! `tickline bench`: what the clocks cost.

use std::io::{self, Write};

use crate::args;
use crate::document::{Bench, Document};
use crate::exit::Exit;
use crate::measure::costs::{self, LongRun};
use crate::output::Outputs;
use crate::progress::Progress;
use crate::setup::Setup;
use crate::wrap::Look;

pub(crate) fn run(args: &args::Bench) -> io::Result<Exit> {
    let setup = Setup::start();
    let outputs = Outputs::open(&args.json)?;
    let progress = Progress::new();
    costs::settle();
    let costs = costs::measure(args.rounds, progress.part("costs", 0.0, 0.5));
    let mut long_run = costs::long_run(args.calls, progress.part("the long run", 0.5, 1.0));
    long_run.iter_mut().filter(|run| !setup.can_call(run.clock)).for_each(LongRun::forget);
    let mut document = setup.document("bench", costs, None);
    drop(setup);
    progress.finish();
    document.bench = Some(Bench { rounds: args.rounds, calls: args.calls, long_run });
    outputs.emit(&document, |out| write(&document, Look::of_stdout(), out))?;
    Ok(document.exit())
}

/// Writes the document as text.
fn write(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    look.say("", &document.verdict, out)?;
    document.build_note().map_or(Ok(()), |note| look.say("", note, out))?;
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
