//! Brackets: readings between two reads of the OS clock.
//!
//! A reading outside its bracket is wrong by the distance at least, however wide the bracket is.
//! One inside says no more than the width. So this records distances, and bounds that miss the
//! bracket.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tickline::{Clock, Comparison, Event, Events, Reason, State};

use crate::system::{monotonic_ns, realtime_ns};

/// Brackets before offsets count: they show how narrow brackets get.
const TRIALS: u64 = 200;

/// The brackets of a phase.
#[derive(Debug)]
pub(crate) struct Brackets {
    count: u64,
    narrowest_ns: u64,
    /// `now_ordered_ns` outside its bracket.
    outside: u64,
    ahead_ns: u64,
    behind_ns: u64,
    /// Offset from the middle of narrow brackets, ns.
    least_offset_ns: i64,
    most_offset_ns: i64,
    /// `reading()` whose bounds missed the bracket.
    bound_violated: u64,
    bound_missed_ns: u64,
    widest_bound_ns: u64,
    /// `unix_ns` outside its bracket.
    unix_outside: u64,
    unix_outside_ns: u64,
    unix_bound_violated: u64,
    unix_widest_bound_ns: u64,
    /// `reading()` by a line, with the line's bounds.
    by_line: u64,
    /// States, one for each row.
    fast: u64,
    disrupted: u64,
    calibrating: u64,
    fallback: u64,
    /// Reasons for not using the counter, in any row.
    reasons: BTreeSet<&'static str>,
    events: Events,
}

impl Brackets {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            count: 0,
            narrowest_ns: u64::MAX,
            outside: 0,
            ahead_ns: 0,
            behind_ns: 0,
            least_offset_ns: i64::MAX,
            most_offset_ns: i64::MIN,
            bound_violated: 0,
            bound_missed_ns: 0,
            widest_bound_ns: 0,
            unix_outside: 0,
            unix_outside_ns: 0,
            unix_bound_violated: 0,
            unix_widest_bound_ns: 0,
            by_line: 0,
            fast: 0,
            disrupted: 0,
            calibrating: 0,
            fallback: 0,
            reasons: BTreeSet::new(),
            events: clock.status().events,
        }
    }

    /// Takes `count` brackets.
    pub(crate) fn row(&mut self, clock: &Clock, count: u32) {
        match clock.status().state {
            State::Fast => self.fast += 1,
            State::Fallback(reason) => {
                self.fallback += 1;
                self.reasons.insert(reason.code());
            }
            State::Disrupted => self.disrupted += 1,
            _ => self.calibrating += 1,
        }
        for _ in 0..count {
            self.count += 1;
            self.ordered(clock);
            self.bounds(clock);
            self.unix(clock);
        }
    }

    fn ordered(&mut self, clock: &Clock) {
        let before_ns = monotonic_ns();
        let now_ns = clock.now_ordered_ns();
        let after_ns = monotonic_ns();
        let (ahead_ns, behind_ns) = (now_ns.saturating_sub(after_ns), before_ns.saturating_sub(now_ns));
        self.outside += u64::from(ahead_ns > 0 || behind_ns > 0);
        self.ahead_ns = self.ahead_ns.max(ahead_ns);
        self.behind_ns = self.behind_ns.max(behind_ns);
        let width_ns = after_ns - before_ns;
        // A bracket a quarter wider than the narrowest is still narrow.
        if self.count > TRIALS && width_ns <= self.narrowest_ns + self.narrowest_ns / 4 {
            let middle_ns = before_ns + width_ns / 2;
            let offset_ns = now_ns.wrapping_sub(middle_ns).cast_signed();
            self.least_offset_ns = self.least_offset_ns.min(offset_ns);
            self.most_offset_ns = self.most_offset_ns.max(offset_ns);
        }
        self.narrowest_ns = self.narrowest_ns.min(width_ns);
    }

    fn bounds(&mut self, clock: &Clock) {
        let before_ns = monotonic_ns();
        let reading = clock.reading();
        let after_ns = monotonic_ns();
        let missed_ns = reading
            .earliest()
            .as_nanos()
            .saturating_sub(after_ns)
            .max(before_ns.saturating_sub(reading.latest().as_nanos()));
        self.bound_violated += u64::from(missed_ns > 0);
        self.bound_missed_ns = self.bound_missed_ns.max(missed_ns);
        if reading.state() == State::Fast {
            self.by_line += 1;
            let bound_ns = (reading.at().as_nanos() - reading.earliest().as_nanos())
                .max(reading.latest().as_nanos() - reading.at().as_nanos());
            self.widest_bound_ns = self.widest_bound_ns.max(bound_ns);
        }
    }

    fn unix(&mut self, clock: &Clock) {
        let before_ns = realtime_ns();
        let now_ns = clock.unix_ns();
        let between_ns = realtime_ns();
        let reading = clock.unix_reading();
        let after_ns = realtime_ns();
        // There is no bracket if the clock was set meanwhile.
        if (before_ns..=after_ns).contains(&between_ns) {
            let outside_ns = now_ns.saturating_sub(between_ns).max(before_ns.saturating_sub(now_ns));
            self.unix_outside += u64::from(outside_ns > 0);
            self.unix_outside_ns = self.unix_outside_ns.max(outside_ns);
            self.unix_bound_violated += u64::from(
                reading.earliest().as_nanos() > after_ns || reading.latest().as_nanos() < between_ns,
            );
            let bound_ns = (reading.at().as_nanos() - reading.earliest().as_nanos())
                .max(reading.latest().as_nanos() - reading.at().as_nanos());
            self.unix_widest_bound_ns = self.unix_widest_bound_ns.max(bound_ns);
        }
    }

    /// The record, with the clock's state at the end.
    pub(crate) fn report(&self, clock: &Clock) -> Value {
        let status = clock.status();
        let events: serde_json::Map<String, Value> = Event::ALL
            .iter()
            .map(|&event| (event, status.events.get(event) - self.events.get(event)))
            .filter(|(_, count)| *count > 0)
            .map(|(event, count)| (event.name().to_owned(), count.into()))
            .collect();
        let offset = |ns: i64| (self.least_offset_ns <= self.most_offset_ns).then_some(ns);
        let rows = self.fast + self.disrupted + self.calibrating + self.fallback;
        let share = |count: u64| count * 100 / rows.max(1);
        let warnings: Vec<&str> =
            status.verdicts().iter().filter_map(|verdict| verdict.warning.map(Reason::code)).collect();
        json!({
            "state": state_name(status.state),
            "reason": status.reason().map(Reason::code),
            "reasons": self.reasons,
            "warnings": warnings,
            "hypervisor": status.hypervisor.name(),
            "comparison": comparison(status.comparison),
            "nominal_hz": status.nominal_hz,
            "fast_percent": share(self.fast),
            "disrupted_percent": share(self.disrupted),
            "calibrating_percent": share(self.calibrating),
            "fallback_percent": share(self.fallback),
            "brackets": self.count,
            "bounded_percent": self.by_line * 100 / self.count.max(1),
            "narrowest_bracket_ns": self.narrowest_ns,
            "outside": self.outside,
            "ahead_ns": self.ahead_ns,
            "behind_ns": self.behind_ns,
            "least_offset_ns": offset(self.least_offset_ns),
            "most_offset_ns": offset(self.most_offset_ns),
            "bound_violated": self.bound_violated,
            "bound_missed_ns": self.bound_missed_ns,
            "widest_bound_ns": self.widest_bound_ns,
            "max_drift_ppb": status.max_drift_ppb,
            "interval_ns": status.interval_ns,
            "frequency_hz": status.frequency_hz,
            "unix_outside": self.unix_outside,
            "unix_outside_ns": self.unix_outside_ns,
            "unix_bound_violated": self.unix_bound_violated,
            "unix_widest_bound_ns": self.unix_widest_bound_ns,
            "events": events,
        })
    }
}

/// The comparison of the CPUs' counters, in a report.
pub(crate) fn comparison(comparison: Comparison) -> Value {
    match comparison {
        Comparison::Pending => json!({ "found": "pending" }),
        Comparison::Single => json!({ "found": "single" }),
        Comparison::Synchronised { cpus } => json!({ "found": "synchronised", "cpus": cpus }),
        Comparison::Unsynchronised(pair) => json!({
            "found": "unsynchronised",
            "here": pair.here,
            "there": pair.there,
            "least_ticks": pair.difference.least_ticks,
            "most_ticks": pair.difference.most_ticks,
        }),
        Comparison::Impossible => json!({ "found": "impossible" }),
        _ => json!({ "found": "unknown" }),
    }
}

/// The state's name in a report.
pub(crate) fn state_name(state: State) -> &'static str {
    match state {
        State::Fast => "fast",
        State::Disrupted => "disrupted",
        State::Calibrating => "calibrating",
        State::Fallback(_) => "fallback",
        _ => "unknown",
    }
}
