//! `tickline doctor`: explains this machine's clocks, or those of a machine whose facts were recorded.

mod recorded;
mod text;
mod wrap;

use std::io;
use std::time::Duration;

use crate::args::Doctor;
use crate::document::Document;
use crate::exit::Exit;
use crate::machine;
use crate::measure::costs::Cost;
use crate::measure::served::{Served, ServedBy};
use crate::measure::{costs, resolution, served, track};
use crate::output::Outputs;
use crate::progress::Progress;
use crate::rights;

pub(crate) fn run(args: &Doctor) -> io::Result<Exit> {
    if let Some(file) = &args.facts {
        return recorded::run(file, &args.json);
    }
    let patient = Patient::admit()?;
    let outputs = Outputs::open(&args.json)?;
    let progress = Progress::new();
    let mut document = patient.examine("doctor", args.time, &progress, 1.0);
    document.diagnose()?;
    progress.finish();
    outputs.emit(&document, |out| text::write(&document, out))?;
    Ok(Exit::of(&document))
}

/// This machine, seen by a process with the rights that this one was started with.
#[derive(Debug)]
pub(crate) struct Patient {
    counter_readable: Option<bool>,
    served: Result<Served, String>,
    /// The global clock's thread runs until the end.
    _guard: tickline::ClockGuard,
}

impl Patient {
    /// Before anything else is done: after `PR_SET_TSC`, every look at a clock of libc or std would be the end.
    pub(crate) fn admit() -> io::Result<Self> {
        let counter_readable = machine::counter_readable();
        let guard = tickline::start().map_err(io::Error::other)?;
        let served = served::find();
        rights::take(counter_readable);
        Ok(Self { counter_readable, served, _guard: guard })
    }

    /// Watches the offset for `time`, measures the clocks, and collects the facts, all within the first `share` of the
    /// progress. What is wrong is not said yet: there may be more to measure.
    ///
    /// The tracking goes first: it gives the clock's thread the time to settle, and the costs are then those of a clock in its
    /// steady state.
    pub(crate) fn examine(
        &self,
        command: &'static str,
        time: Duration,
        progress: &Progress,
        share: f64,
    ) -> Document {
        let track = track::track(time, progress.part("offset and bound", 0.0, 0.6 * share));
        let mut costs = costs::measure(progress.part("costs", 0.6 * share, share));
        costs.iter_mut().filter(|cost| !self.can_call(cost.name)).for_each(Cost::forget);
        let resolutions = resolution::measure(|clock| self.can_call(clock));
        let mut document =
            Document::new(command).measured(&costs, track).explained(self.served.clone(), &resolutions);
        document.machine.counter_readable = self.counter_readable;
        document
    }

    /// Whether programs that are started like this one can call a clock: where that would end them, it has no cost for them.
    pub(crate) fn can_call(&self, clock: &str) -> bool {
        self.served.as_ref().map_or(true, |served| served.get(clock) != Some(&ServedBy::Nobody))
    }
}
