//! `tickline bench`: what the clocks cost, and against an earlier run.

mod earlier;
mod text;

pub(crate) use earlier::Compared;

use std::io;

use serde::Serialize;

use crate::args;
use crate::doctor::Patient;
use crate::document::Document;
use crate::exit::Exit;
use crate::measure::costs::{self, Cost, LongRun};
use crate::output::Outputs;
use crate::progress::Progress;

/// What `bench` has besides the costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Bench {
    /// Rounds over all clocks, behind each figure of `costs`.
    pub(crate) rounds: u32,
    /// Calls of each clock in the long run.
    pub(crate) calls: u32,
    /// What that took.
    pub(crate) long_run: Vec<LongRun>,
    /// The costs against those of an earlier run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compared: Option<Compared>,
}

pub(crate) fn run(args: &args::Bench) -> io::Result<Exit> {
    let patient = Patient::admit()?;
    let earlier = args.compare.as_deref().map(earlier::read).transpose()?;
    let outputs = Outputs::open(&args.json)?;
    let progress = Progress::new();
    costs::settle();
    let mut costs = costs::measure_rounds(args.rounds, progress.part("costs", 0.0, 0.5));
    let mut long_run = costs::long_run(args.calls, progress.part("the long run", 0.5, 1.0));
    costs.iter_mut().filter(|cost| !patient.can_call(cost.name)).for_each(Cost::forget);
    long_run.iter_mut().filter(|run| !patient.can_call(run.clock)).for_each(LongRun::forget);
    let mut document = Document::new("bench").costed(&costs);
    drop(patient);
    progress.finish();
    let compared = earlier.map(|earlier| earlier.against(&document));
    document.bench = Some(Bench { rounds: args.rounds, calls: args.calls, long_run, compared });
    outputs.emit(&document, |out| text::write(&document, out))?;
    Ok(Exit::of(&document))
}
