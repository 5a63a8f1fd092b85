//! What the samples and the clock's status have shown so far: the rate, the cost of a pair, and
//! incidents.

use std::time::{Duration, Instant};

use tickline::{Events, State, Status};

use crate::calibration::Scale;
use crate::elapsed::Elapsed;
use crate::evidence::{ClockFacts, DISTURBING};
use crate::incidents::Incidents;

/// Above this uncertainty the rate was about to change when a sample was taken: a tenth of what
/// criterion could show. The clock widens its figure when something contradicts its rate.
const VAGUE_PPB: f64 = 100_000.0;

/// How long a cost of a pair is used. It changes with the core's frequency.
const COST_LASTS: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) scale: Scale,
    cost_measured: Instant,
    incidents: Incidents,
    last_is_disturbed: bool,
    /// The clock's events at the start.
    start: Events,
    /// What the clock said at the last sample.
    clock: ClockFacts,
}

impl Progress {
    /// `clock` was read with the scale's rate, or before.
    pub(crate) fn new(scale: Scale, clock: ClockFacts) -> Self {
        Self {
            scale,
            cost_measured: Instant::now(),
            incidents: Incidents::default(),
            last_is_disturbed: false,
            start: clock.events,
            clock,
        }
    }

    /// Measures the cost of a pair anew if it is time. While a gate is closed, nothing vouches for
    /// the counter.
    pub(crate) fn renew_cost(&mut self, measure: impl FnOnce() -> f64) {
        if self.clock.state == State::Fast && self.cost_measured.elapsed() >= COST_LASTS {
            (self.scale.cost_ticks, self.cost_measured) = (measure(), Instant::now());
        }
    }

    /// Counts a sample, and learns the rate. `status` was read after the sample.
    pub(crate) fn count(&mut self, sample: &Elapsed, status: &Status) {
        // While a gate is closed, nothing vouches for the clock's rate.
        if let (State::Fast, Some(scale)) = (status.state, self.scale.at_rate_of(status)) {
            self.scale = scale;
        }
        self.incidents.samples += 1;
        self.incidents.moved += u64::from(sample.moved > 0);
        self.incidents.backwards += u64::from(sample.backwards > 0);
        self.last_is_disturbed = self.scale.uncertainty_ppb > VAGUE_PPB;
        self.incidents.disturbed += u64::from(self.last_is_disturbed);
        self.disturb_last(status);
    }

    /// Counts the last sample as disturbed, but only once, if the clock has noticed something since
    /// the last status, or did not vouch for the counter then or now. What it noticed after the
    /// sample may have happened during it.
    pub(crate) fn disturb_last(&mut self, status: &Status) {
        let before = std::mem::replace(&mut self.clock, ClockFacts::of(status));
        if self.incidents.samples == 0 || !self.clock.is_disturbed_since(&before) {
            return;
        }
        self.incidents.disturbed += u64::from(!self.last_is_disturbed);
        self.last_is_disturbed = true;
        let states = [self.clock.state, before.state];
        self.incidents.fallback_state =
            states.into_iter().find(|state| *state != State::Fast).or(self.incidents.fallback_state);
    }

    /// The incidents up to the last status.
    pub(crate) fn incidents(&self) -> Incidents {
        let since = |event| self.clock.events.get(event).saturating_sub(self.start.get(event));
        let counts = DISTURBING.map(|event| (event, since(event)));
        let events = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        Incidents { events, ..self.incidents.clone() }
    }
}

#[cfg(test)]
mod tests {
    use tickline::{Clock, Driver, Event, Reason};

    use super::*;

    const CLOSED: State = State::Fallback(Reason::DisabledByProgram);

    /// A status of this clock with a counter of 2.5 GHz and open gates, in place of those here.
    fn status(clock: &Clock) -> Status {
        let mut status = clock.status();
        (status.state, status.frequency_hz, status.max_drift_ppb) = (State::Fast, Some(2_500_000_000), 500);
        status
    }

    fn with(status: &Status, change: impl FnOnce(&mut Status)) -> Status {
        let mut status = status.clone();
        change(&mut status);
        status
    }

    fn clock() -> Clock {
        Clock::builder().driver(Driver::Manual).start().expect("a clock")
    }

    fn progress(status: &Status) -> Progress {
        Progress::new(Scale::WALL.at_rate_of(status).expect("a rate"), ClockFacts::of(status))
    }

    #[test]
    fn the_rate_is_the_clocks_while_its_gates_are_open() {
        let open = status(&clock());
        let mut progress = progress(&open);
        let first = progress.scale;
        assert!((first.ns_per_tick - 0.4).abs() < 1e-12, "{first:?}");
        assert!((first.uncertainty_ppb - 500.2).abs() < 1e-6, "{first:?}");
        let faster = with(&open, |status| status.frequency_hz = Some(5_000_000_000));
        progress.count(&Elapsed::default(), &with(&faster, |status| status.state = CLOSED));
        assert_eq!(progress.scale, first, "nothing vouches for another one");
        progress.count(&Elapsed::default(), &faster);
        assert!((progress.scale.ns_per_tick - 0.2).abs() < 1e-12, "{progress:?}");
    }

    /// Symptom: after a change of rate, samples by the old rate were reported nowhere.
    #[test]
    fn samples_count_as_disturbed_until_the_new_rate_is_known() {
        let open = status(&clock());
        let mut progress = progress(&open);
        let vague = with(&open, |status| status.max_drift_ppb = 800_000);
        for (status, disturbed) in [(&open, 0), (&vague, 1), (&vague, 2), (&open, 2)] {
            progress.count(&Elapsed::default(), status);
            assert_eq!(progress.incidents.disturbed, disturbed, "{progress:?}");
        }
    }

    /// Symptom: all samples after a gate had closed were timed by a counter that nothing vouched
    /// for, and one of them was reported.
    #[test]
    fn every_sample_while_a_gate_is_closed_counts() {
        let open = status(&clock());
        let closed = with(&open, |status| status.state = CLOSED);
        let mut progress = progress(&open);
        // The fifth sample began with a closed gate.
        for status in [&open, &closed, &closed, &closed, &open, &open] {
            progress.count(&Elapsed::default(), status);
        }
        let incidents = progress.incidents();
        assert_eq!((incidents.samples, incidents.disturbed), (6, 4));
        assert_eq!(incidents.fallback_state, Some(CLOSED));
        assert_eq!(
            incidents.to_string(),
            format!(
                "4 of 6 samples coincide with a disturbance of the clock, to be repeated: it did not vouch for the \
                 counter: {CLOSED}"
            )
        );
    }

    #[test]
    fn samples_with_a_moved_pair_count_once() {
        let open = status(&clock());
        let mut progress = progress(&open);
        let twice = Elapsed::of_pair(0, 10, true) + Elapsed::of_pair(10, 20, true);
        for sample in [twice, Elapsed::of_pair(0, 10, false), Elapsed::of_pair(10, 0, false)] {
            progress.count(&sample, &open);
        }
        assert_eq!(
            progress.incidents().to_string(),
            "1 of 3 samples contain a move of the thread to another CPU; to avoid that, bind it to one\n\
             1 of 3 samples are too short, because the counter stepped back: the results cannot be trusted"
        );
    }

    #[test]
    fn what_is_noticed_after_the_last_sample_is_counted_with_it_once() {
        let clock = clock();
        let mut statuses = vec![status(&clock)];
        for _ in 0..3 {
            clock.disable();
            clock.enable();
            clock.maintain(); // judges the gates, and opens what the facts allow
            statuses.push(status(&clock));
        }
        if statuses[2].events == statuses[1].events {
            eprintln!("SKIPPED: the counter does not serve here, so its gate stays closed");
            return;
        }
        let mut none = progress(&statuses[0]);
        none.disturb_last(&statuses[1]);
        assert_eq!(none.incidents().to_string(), "", "no sample, nothing to say");
        let mut progress = progress(&statuses[0]);
        progress.count(&Elapsed::default(), &statuses[0]);
        progress.count(&Elapsed::default(), &statuses[1]);
        assert_eq!(
            progress.incidents().to_string(),
            "1 of 2 samples coincide with a disturbance of the clock, to be repeated: gate_closed 1"
        );
        progress.disturb_last(&statuses[2]);
        assert_eq!(progress.incidents().disturbed, 1);
        progress.count(&Elapsed::default(), &statuses[2]);
        progress.disturb_last(&statuses[3]);
        assert_eq!(progress.incidents().disturbed, 2);
        assert_eq!(progress.incidents().events, [(Event::GateClosed, 3)]);
    }
}
