//! What commands do before they measure, and the measurements that several of them share.
//!
//! `PR_SET_TSC` may have taken the right to read the counter from the process. Without it, a call of
//! a libc or std clock ends the process where the vDSO reads the counter. The measurements call
//! these clocks, so the program gives itself the right. Before that, tickline judges its gates,
//! because its verdicts are about the rights that the process was started with.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use tickline::{Clock, ClockGuard};

use crate::document::Document;
use crate::machine;
use crate::measure::calls::{self, Call};
use crate::measure::costs::{self, CostRow};
use crate::measure::served_by::{self, ServedBy, ServedByClock};
use crate::measure::track::{self, TrackSummary};
use crate::measure::{resolution, status_when};
use crate::progress::Progress;

/// A process that is ready to measure, and the rights that it was started with.
#[derive(Debug)]
pub(crate) struct Setup {
    counter_readable: Option<bool>,
    served_by: Result<ServedByClock, String>,
    /// Keeps the global clock's thread running. The error says why there is none.
    guard: Result<ClockGuard, String>,
}

impl Setup {
    /// For commands that measure clocks: finds out who answers each, and starts the global clock.
    /// Must be called first: after `PR_SET_TSC`, a call of a libc or std clock would end the
    /// process.
    pub(crate) fn start() -> Self {
        // The filtered processes inherit this process's rights, which must still be those of its
        // start.
        let served_by = served_by::find();
        Self { served_by, ..Self::start_clock() }
    }

    /// For commands that measure no other clock than tickline's. Must be called first as well.
    ///
    /// The clock's thread keeps the rights that the process was started with. Afterwards this thread
    /// may read the counter, and so may those that it starts. If the clock's thread cannot be
    /// started, the readers drive the clock.
    pub(crate) fn start_clock() -> Self {
        let counter_readable = machine::counter_readable();
        let guard = tickline::start().map_err(|error| with_cause(&error));
        if guard.is_err() {
            Clock::global().maintain();
        }
        // The gates are judged some 60 us later.
        status_when(|status| status.is_judged, Duration::from_millis(200));
        if counter_readable == Some(false) {
            machine::allow_counter();
        }
        Self { counter_readable, served_by: Ok(BTreeMap::new()), guard }
    }

    /// Tracks the offset for `time`, measures the clocks, and collects the facts, all within the
    /// first `share` of the progress. Makes no findings yet, since the caller may measure more.
    ///
    /// The tracking comes first. It gives the clock's thread time to settle, so that the costs are
    /// those of the steady state.
    pub(crate) fn measure(
        &self,
        command: &'static str,
        time: Duration,
        progress: &Progress,
        share: f64,
    ) -> Document {
        let track = track::track(time, progress.part("offset and bound", 0.0, 0.6 * share));
        let calls = self.calls();
        let mut costs = costs::measure(&calls, costs::ROUNDS, progress.part("costs", 0.6 * share, share));
        resolution::measure(&mut costs, &calls);
        self.document(command, costs, Some(track))
    }

    /// Every call. One that ends a process with the rights of the start has no cost.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let mut calls = calls::all(costs::may_read_counter());
        for call in calls.iter_mut().filter(|call| self.served_by(call.name) == Some(ServedBy::Nobody)) {
            (call.run, call.read_ns) = (None, None);
        }
        calls
    }

    /// The facts, with these measurements, and who answers the clocks.
    pub(crate) fn document(
        &self,
        command: &'static str,
        mut costs: Vec<CostRow>,
        track: Option<TrackSummary>,
    ) -> Document {
        costs.iter_mut().for_each(|row| row.served_by = self.served_by(&row.clock));
        let mut document = Document::new(command, costs, track);
        document.served_unknown = self.served_by.as_ref().err().cloned();
        document.machine.counter_readable = self.counter_readable;
        document.clock.thread_error = self.guard.as_ref().err().cloned();
        document
    }

    fn served_by(&self, clock: &str) -> Option<ServedBy> {
        self.served_by.as_ref().ok()?.get(clock).copied()
    }
}

/// An error of the library, with what the system said: the library's own text does not say why a
/// thread could not be started.
pub(crate) fn with_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}
