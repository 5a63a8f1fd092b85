//! `tickline bench`: what the clocks cost.

mod text;

use std::io;

use crate::args;
use crate::document::Bench;
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
    let costs = costs::measure_rounds(args.rounds, progress.part("costs", 0.0, 0.5));
    let mut long_run = costs::long_run(args.calls, progress.part("the long run", 0.5, 1.0));
    long_run.iter_mut().filter(|run| !setup.can_call(run.clock)).for_each(LongRun::forget);
    let mut document = setup.document("bench", costs, None);
    drop(setup);
    progress.finish();
    document.bench = Some(Bench { rounds: args.rounds, calls: args.calls, long_run });
    outputs.emit(&document, |out| text::write(&document, Look::of_stdout(), out))?;
    Ok(document.exit())
}
