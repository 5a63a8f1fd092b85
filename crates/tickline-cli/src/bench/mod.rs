//! `tickline bench`: what the clocks cost, and the comparison with an earlier run.

mod earlier;
mod text;

use std::io;

use crate::args;
use crate::document::{Bench, Document};
use crate::exit::Exit;
use crate::measure::costs::{self, Cost, LongRun};
use crate::output::Outputs;
use crate::progress::Progress;
use crate::setup::Setup;
use crate::wrap::Look;

pub(crate) fn run(args: &args::Bench) -> io::Result<Exit> {
    let setup = Setup::start();
    let earlier = args.compare.as_deref().map(earlier::read).transpose()?;
    let outputs = Outputs::open(&args.json)?;
    let progress = Progress::new();
    costs::settle();
    let mut costs = costs::measure_rounds(args.rounds, progress.part("costs", 0.0, 0.5));
    let mut long_run = costs::long_run(args.calls, progress.part("the long run", 0.5, 1.0));
    costs.iter_mut().filter(|cost| !setup.can_call(cost.name)).for_each(Cost::forget);
    long_run.iter_mut().filter(|run| !setup.can_call(run.clock)).for_each(LongRun::forget);
    let mut document = Document::new("bench").costed(&costs);
    drop(setup);
    progress.finish();
    let compared = earlier.map(|earlier| earlier.against(&document, args.fail_above));
    let slower = compared.as_ref().is_some_and(|compared| !compared.too_slow.is_empty());
    document.bench = Some(Bench { rounds: args.rounds, calls: args.calls, long_run, compared });
    outputs.emit(&document, |out| text::write(&document, Look::of_stdout(), out))?;
    // With a limit, the exit code is about the comparison alone.
    Ok(match args.fail_above {
        Some(_) if slower => Exit::Closed,
        Some(_) => Exit::Fast,
        None => document.exit(),
    })
}
