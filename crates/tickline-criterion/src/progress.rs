//! What the samples and the clock's status have shown so far: the rate, the cost of a pair, and
//! incidents.

use std::time::{Duration, Instant};

use tickline::{Events, State, Status};

use crate::elapsed::Elapsed;
use crate::incidents::Incidents;
use crate::number::as_f64;

/// Above this uncertainty the rate was about to change when a sample was taken: a tenth of what
/// criterion could show. The clock widens its figure when something contradicts its rate.
const VAGUE_PPB: f64 = 100_000.0;

/// How long a cost of a pair is used. It changes with the core's frequency.
const COST_LASTS: Duration = Duration::from_millis(500);

/// How many ns a tick takes, and how far that may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    pub(crate) ns_per_tick: f64,
    pub(crate) uncertainty_ppb: f64,
}

impl Rate {
    /// The clock's; `None` before its first line.
    pub(crate) fn of(status: &Status) -> Option<Self> {
        let frequency_hz = as_f64(status.frequency_hz?);
        // The status rounds to whole Hz.
        let rounding_ppb = 0.5 / frequency_hz * 1e9;
        Some(Self {
            ns_per_tick: 1e9 / frequency_hz,
            uncertainty_ppb: as_f64(status.max_drift_ppb) + rounding_ppb,
        })
    }
}

#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) rate: Rate,
    /// What a pair costs.
    pub(crate) pair_ticks: f64,
    cost_measured: Instant,
    pub(crate) incidents: Incidents,
    /// The clock's status at the last sample.
    events: Events,
    state: State,
}

impl Progress {
    /// `events` were read with the rate, or before.
    pub(crate) fn new(rate: Rate, pair_ticks: f64, events: Events) -> Self {
        Self {
            rate,
            pair_ticks,
            cost_measured: Instant::now(),
            incidents: Incidents::default(),
            events,
            state: State::Fast,
        }
    }

    /// Whether the cost of a pair should be measured anew. While a gate is closed, nothing vouches
    /// for the counter.
    pub(crate) fn cost_is_due(&self) -> bool {
        self.state == State::Fast && self.cost_measured.elapsed() >= COST_LASTS
    }

    pub(crate) fn set_cost(&mut self, pair_ticks: f64) {
        (self.pair_ticks, self.cost_measured) = (pair_ticks, Instant::now());
    }

    /// Counts a sample, and learns the rate. `status` was read after the sample.
    pub(crate) fn count(&mut self, sample: &Elapsed, status: &Status) {
        self.incidents.count(sample, &self.events, &status.events);
        // Those on both sides of the sample.
        let states = [status.state, self.state];
        if let Some(state) = states.into_iter().find(|state| *state != State::Fast) {
            self.incidents.mark_unserved(state);
        }
        (self.events, self.state) = (status.events, status.state);
        // While a gate is closed, nothing vouches for the clock's rate.
        if let (State::Fast, Some(rate)) = (status.state, Rate::of(status)) {
            self.rate = rate;
        }
        if self.rate.uncertainty_ppb > VAGUE_PPB {
            self.incidents.mark_last();
        }
    }

    /// Counts what the clock has noticed since the last sample.
    pub(crate) fn end(&mut self, status: &Status) {
        self.incidents.disturb_last(&self.events, &status.events);
        self.events = status.events;
    }
}

#[cfg(test)]
mod tests {
    use tickline::{Clock, Driver, Reason};

    use super::*;

    const CLOSED: State = State::Fallback(Reason::DisabledByProgram);

    /// A status with a counter of 2.5 GHz and these gates, in place of those here.
    fn status(state: State) -> Status {
        let mut status = Clock::builder().driver(Driver::Manual).start().expect("a clock").status();
        (status.state, status.frequency_hz, status.max_drift_ppb) = (state, Some(2_500_000_000), 500);
        status
    }

    fn progress(status: &Status) -> Progress {
        Progress::new(Rate::of(status).expect("a rate"), 0.0, status.events)
    }

    #[test]
    fn the_rate_is_the_clocks_while_its_gates_are_open() {
        let open = status(State::Fast);
        let mut progress = progress(&open);
        let first = progress.rate;
        assert!((first.ns_per_tick - 0.4).abs() < 1e-12, "{first:?}");
        assert!((first.uncertainty_ppb - 500.2).abs() < 1e-6, "{first:?}");
        let faster = |state| {
            let mut status = open.clone();
            (status.state, status.frequency_hz) = (state, Some(5_000_000_000));
            status
        };
        progress.count(&Elapsed::default(), &faster(CLOSED));
        assert_eq!(progress.rate, first, "nothing vouches for another one");
        progress.count(&Elapsed::default(), &faster(State::Fast));
        assert!((progress.rate.ns_per_tick - 0.2).abs() < 1e-12, "{progress:?}");
    }

    /// Symptom: after a change of rate, samples by the old rate were reported nowhere.
    #[test]
    fn samples_count_as_disturbed_until_the_new_rate_is_known() {
        let open = status(State::Fast);
        let mut progress = progress(&open);
        let mut vague = open.clone();
        vague.max_drift_ppb = 800_000;
        for (status, disturbed) in [(&open, 0), (&vague, 1), (&vague, 2), (&open, 2)] {
            progress.count(&Elapsed::default(), status);
            assert_eq!(progress.incidents.disturbed, disturbed, "{progress:?}");
        }
    }

    /// Symptom: all samples after a gate had closed were timed by a counter that nothing vouched
    /// for, and one of them was reported.
    #[test]
    fn every_sample_while_a_gate_is_closed_counts() {
        let (open, closed) = (status(State::Fast), status(CLOSED));
        let mut progress = progress(&open);
        // The fifth sample began with a closed gate.
        for status in [&open, &closed, &closed, &closed, &open, &open] {
            progress.count(&Elapsed::default(), status);
        }
        let incidents = &progress.incidents;
        assert_eq!((incidents.samples, incidents.disturbed), (6, 4));
        assert_eq!(incidents.unserved, Some(CLOSED));
    }
}
