//! Counts incidents and learns the rate, from the samples and the clock's status.

use tickline::{Events, State, Status};

use crate::elapsed::Elapsed;
use crate::incidents::{Incidents, is_jump};
use crate::rate::{Anchor, Follower};

#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) follower: Follower,
    /// What a pair costs.
    pub(crate) pair_ticks: f64,
    pub(crate) incidents: Incidents,
    /// The clock's status at the last sample.
    events: Events,
    state: State,
    /// Whether there was a disturbance since the baseline began. While a gate is closed there is
    /// no anchor for a new baseline, and the old one would span the jump when the gate opens. So
    /// this stays set until then.
    restart_pending: bool,
    /// Whether the rate is the one from before the disturbance: a new rate takes two anchors.
    rate_is_old: bool,
}

impl Progress {
    /// `events` were read just before the follower's first anchor, or later.
    pub(crate) fn new(follower: Follower, pair_ticks: f64, events: Events) -> Self {
        Self {
            follower,
            pair_ticks,
            incidents: Incidents::default(),
            events,
            state: State::Fast,
            restart_pending: false,
            rate_is_old: false,
        }
    }

    /// Whether [`count`](Self::count) could learn from an anchor. While a gate is closed there is
    /// nothing to learn, and the counter is not read.
    pub(crate) fn wants_anchor(&self, state: State) -> bool {
        state == State::Fast && (self.restart_pending || self.follower.is_due())
    }

    /// Whether [`learn`](Self::learn) could begin a new baseline.
    pub(crate) fn wants_restart(&self, state: State) -> bool {
        state == State::Fast && self.restart_pending
    }

    /// Counts a sample. `status` was read after the sample and after `anchor`, so that no rate
    /// spans a jump before that. Returns whether the rate was updated.
    pub(crate) fn count(&mut self, sample: &Elapsed, status: &Status, anchor: Option<Anchor>) -> bool {
        self.incidents.count(sample, &self.events, &status.events);
        // Those on both sides of the sample.
        let states = [status.state, self.state];
        if let Some(state) = states.into_iter().find(|state| *state != State::Fast) {
            self.incidents.count_unserved(state);
        }
        let learnt = self.go_on(status, anchor);
        if self.rate_is_old {
            self.incidents.mark_last();
        }
        learnt
    }

    /// Learns from an anchor; `status` was read after it. Returns whether the rate was updated.
    pub(crate) fn learn(&mut self, status: &Status, anchor: Anchor) -> bool {
        self.incidents.disturb_last(&self.events, &status.events);
        self.go_on(status, Some(anchor))
    }

    fn go_on(&mut self, status: &Status, anchor: Option<Anchor>) -> bool {
        let jumped = is_jump(&self.events, &status.events);
        self.restart_pending |= jumped;
        self.rate_is_old |= jumped;
        (self.events, self.state) = (status.events, status.state);
        match anchor {
            // The jump may be on either side of this anchor; the next anchor is after the jump.
            Some(anchor) if !jumped && status.state == State::Fast => {
                if self.restart_pending {
                    self.follower.restart(anchor, status.max_drift_ppb);
                } else {
                    self.follower.advance(anchor, status.max_drift_ppb);
                    self.rate_is_old = false;
                }
                self.restart_pending = false;
                true
            }
            _ => false,
        }
    }

    /// Counts what the clock has noticed since the last sample.
    pub(crate) fn end(&mut self, status: &Status) {
        self.incidents.disturb_last(&self.events, &status.events);
        self.go_on(status, None);
    }
}

#[cfg(test)]
mod tests {
    use tickline::{Clock, Driver};

    use super::*;

    const S: u64 = 1_000_000_000;

    /// An anchor at `ns`, with a counter of 2.5 GHz, known within 30 ns and 100 ticks.
    fn anchor(ns: u64) -> Anchor {
        let ticks = ns * 5 / 2 + 7_000;
        Anchor { before_ticks: ticks - 50, after_ticks: ticks + 50, earliest_ns: ns - 15, latest_ns: ns + 15 }
    }

    /// The same, after the clock has jumped ahead by a second.
    fn ahead(ns: u64) -> Anchor {
        Anchor { earliest_ns: ns + S - 15, latest_ns: ns + S + 15, ..anchor(ns) }
    }

    /// A clock that does nothing by itself, and a status with open gates, whether they are open
    /// here or not.
    fn clock() -> Option<(Clock, Status)> {
        let clock = Clock::builder().driver(Driver::Manual).start().expect("a clock");
        if tickline_core::counter::HardwareCounter::if_present().is_none() {
            // Without a counter no gate can close.
            eprintln!("SKIPPED: no counter that tickline reads");
            return None;
        }
        let status = opened(clock.status());
        Some((clock, status))
    }

    fn opened(mut status: Status) -> Status {
        status.state = State::Fast;
        status
    }

    fn progress(status: &Status) -> Progress {
        let follower = Follower::new(anchor(S), anchor(2 * S), 0).expect("a rate");
        Progress::new(follower, 0.0, status.events)
    }

    fn ns_per_tick_is_right(progress: &Progress) -> bool {
        (progress.follower.rate().ns_per_tick - 0.4).abs() < 1e-6
    }

    /// Symptom: the disturbance was seen while the gate was closed and nothing could be learnt,
    /// and forgotten; when the gate opened again, the rate was fitted across the jump.
    #[test]
    fn a_jump_behind_a_closed_gate_is_not_in_the_rate() {
        let Some((clock, open)) = clock() else { return };
        let mut progress = progress(&open);
        let sample = Elapsed::default();
        clock.disable();
        let closed = clock.status();
        assert!(!progress.wants_anchor(closed.state));
        for _ in 0..2 {
            assert!(!progress.count(&sample, &closed, None));
        }
        let open = opened(closed);
        assert!(progress.wants_anchor(open.state), "before it would be due");
        assert!(progress.count(&sample, &open, Some(ahead(3 * S))));
        assert!(progress.count(&sample, &open, Some(ahead(4 * S))));
        assert!(ns_per_tick_is_right(&progress), "{progress:?}");
        // The samples with the old rate: while the gate was closed, and until there was a new rate.
        assert_eq!((progress.incidents.samples, progress.incidents.disturbed), (4, 3));
        assert!(!progress.count(&sample, &open, None) && progress.incidents.disturbed == 3);
    }

    /// Symptom: after a change of rate, the baseline began anew one sample later, which may be
    /// seconds, and samples by the old rate were reported nowhere.
    #[test]
    fn a_baseline_begins_anew_with_the_sample_that_was_disturbed() {
        let Some((clock, open)) = clock() else { return };
        let mut progress = progress(&open);
        clock.disable();
        let jumped = opened(clock.status());
        assert!(!progress.count(&Elapsed::default(), &jumped, None));
        assert!(progress.wants_restart(jumped.state));
        assert!(progress.learn(&jumped, ahead(3 * S)) && !progress.wants_restart(jumped.state));
        progress.count(&Elapsed::default(), &jumped, None);
        assert_eq!((progress.incidents.samples, progress.incidents.disturbed), (2, 2), "by the old rate");
        progress.count(&Elapsed::default(), &jumped, Some(ahead(4 * S)));
        assert_eq!(progress.incidents.disturbed, 2, "by the new one");
        assert!(ns_per_tick_is_right(&progress), "{progress:?}");
    }

    /// Symptom: the clock jumped between the read of its events and the anchor. The rate was
    /// fitted across the jump, and kept when the events showed the jump.
    #[test]
    fn an_anchor_that_came_with_a_disturbance_is_not_used() {
        let Some((clock, open)) = clock() else { return };
        let mut progress = progress(&open);
        clock.disable();
        let jumped = opened(clock.status());
        assert!(!progress.count(&Elapsed::default(), &jumped, Some(ahead(3 * S))));
        assert!(ns_per_tick_is_right(&progress), "{progress:?}");
        assert!(progress.count(&Elapsed::default(), &jumped, Some(ahead(4 * S))));
        assert!(progress.count(&Elapsed::default(), &jumped, Some(ahead(5 * S))));
        assert!(ns_per_tick_is_right(&progress), "{progress:?}");
    }

    /// Symptom: all samples after a gate had closed were timed by a counter that nothing vouched
    /// for, and one of them was reported.
    #[test]
    fn every_sample_while_a_gate_is_closed_counts() {
        let Some((clock, open)) = clock() else { return };
        let mut progress = progress(&open);
        let sample = Elapsed::default();
        progress.count(&sample, &open, None);
        clock.disable();
        let closed = clock.status();
        for _ in 0..3 {
            progress.count(&sample, &closed, None);
        }
        let open = opened(closed.clone());
        progress.count(&sample, &open, None); // it began with a closed gate
        progress.count(&sample, &open, None);
        let incidents = &progress.incidents;
        assert_eq!((incidents.samples, incidents.disturbed, incidents.unserved), (6, 5, 4));
        assert_eq!(incidents.unserved_state, Some(closed.state));
    }
}
