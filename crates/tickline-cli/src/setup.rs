//! What `doctor`, `bench` and `report` do before they measure, and what they all measure.

use std::io;
use std::time::Duration;

use crate::document::Document;
use crate::machine;
use crate::measure::costs::Cost;
use crate::measure::served::Served;
use crate::measure::served_by::ServedBy;
use crate::measure::{costs, resolution, served, track};
use crate::progress::Progress;
use crate::rights;

/// This machine, seen by a process with the rights that this one was started with.
#[derive(Debug)]
pub(crate) struct Setup {
    counter_readable: Option<bool>,
    served: Result<Served, String>,
    /// The global clock's thread runs until the end.
    _guard: tickline::ClockGuard,
}

impl Setup {
    /// Before anything else is done: after `PR_SET_TSC`, every look at a clock of libc or std would be the end.
    pub(crate) fn start() -> io::Result<Self> {
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
    pub(crate) fn measure(
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
