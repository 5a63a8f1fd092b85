//! Brackets: readings between two reads of the OS clock. This module records how far readings, and
//! their bounds, are outside of their brackets.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tickline::{Clock, Comparison, Reason, State};
use tickline_observe::{Bounded, Bracket};

use crate::system::realtime_ns;

/// The brackets of a phase.
#[derive(Debug, Default)]
pub(crate) struct Brackets {
    count: u64,
    narrowest_ns: Option<u64>,
    /// How far `now_ordered` was outside of its bracket.
    ahead_ns: u64,
    behind_ns: u64,
    /// Rows with a reading further outside than twice the row's narrowest bracket.
    far: u64,
    /// Results of `reading()` whose bounds missed the bracket.
    bound_violated: u64,
    widest_bound_ns: u64,
    /// How far `unix_ns` was outside of its bracket.
    unix_outside_ns: u64,
    unix_bound_violated: u64,
    unix_widest_bound_ns: u64,
    /// Results of `reading()` by a line, with the line's bounds.
    by_line: u64,
    /// Rows of brackets, and rows before which the counter served.
    rows: u64,
    fast: u64,
    /// Reasons for not using the counter, in any row.
    reasons: BTreeSet<&'static str>,
}

impl Brackets {
    /// Takes `count` brackets.
    pub(crate) fn row(&mut self, clock: &Clock, count: u32) {
        let state = clock.status().state;
        self.rows += 1;
        self.fast += u64::from(state == State::Fast);
        if let State::Fallback(reason) = state {
            self.reasons.insert(reason.code());
        }
        let (mut outside_ns, mut narrowest_ns) = (0, u64::MAX);
        for _ in 0..count {
            self.count += 1;
            let bracket = Bracket::around(|| clock.now_ordered().as_nanos());
            self.ahead_ns = self.ahead_ns.max(bracket.ahead_ns());
            self.behind_ns = self.behind_ns.max(bracket.behind_ns());
            outside_ns = outside_ns.max(bracket.ahead_ns()).max(bracket.behind_ns());
            narrowest_ns = narrowest_ns.min(bracket.width_ns());
            let bounded = Bounded::read(clock);
            self.bound_violated += u64::from(bounded.missed_ns() > 0);
            if bounded.by_counter {
                self.by_line += 1;
                self.widest_bound_ns = self.widest_bound_ns.max(bounded.widest_ns());
            }
            self.unix(clock);
        }
        self.far += u64::from(outside_ns > 2 * narrowest_ns);
        self.narrowest_ns = Some(self.narrowest_ns.map_or(narrowest_ns, |it| it.min(narrowest_ns)));
    }

    fn unix(&mut self, clock: &Clock) {
        let before_ns = realtime_ns();
        let now_ns = clock.unix_now().as_nanos();
        let between_ns = realtime_ns();
        let reading = clock.unix_reading();
        let after_ns = realtime_ns();
        // If the clock was set meanwhile, there is no bracket.
        if (before_ns..=after_ns).contains(&between_ns) {
            let plain = Bracket { before_ns, now_ns, after_ns: between_ns };
            let bounded = Bounded {
                at: Bracket { before_ns: between_ns, now_ns: reading.time().as_nanos(), after_ns },
                earliest_ns: reading.earliest().as_nanos(),
                latest_ns: reading.latest().as_nanos(),
                by_counter: reading.state() == State::Fast,
            };
            self.unix_outside_ns = self.unix_outside_ns.max(plain.ahead_ns()).max(plain.behind_ns());
            self.unix_bound_violated += u64::from(bounded.missed_ns() > 0);
            self.unix_widest_bound_ns = self.unix_widest_bound_ns.max(bounded.widest_ns());
        }
    }

    /// The record, with the clock's state at the end.
    pub(crate) fn report(&self, clock: &Clock) -> Value {
        let status = clock.status();
        json!({
            "state": state_name(status.state),
            "reason": status.reason().map(Reason::code),
            "reasons": self.reasons,
            "comparison": comparison(status.comparison),
            "fast_percent": self.fast * 100 / self.rows.max(1),
            "bounded_percent": self.by_line * 100 / self.count.max(1),
            "narrowest_bracket_ns": self.narrowest_ns,
            "ahead_ns": self.ahead_ns,
            "behind_ns": self.behind_ns,
            "far_percent": self.far * 100 / self.rows.max(1),
            "bound_violated": self.bound_violated,
            "widest_bound_ns": self.widest_bound_ns,
            "unix_outside_ns": self.unix_outside_ns,
            "unix_bound_violated": self.unix_bound_violated,
            "unix_widest_bound_ns": self.unix_widest_bound_ns,
            "status": format!("{status:?}"),
        })
    }
}

/// The comparison of the CPUs' counters, in a report.
pub(crate) fn comparison(comparison: Comparison) -> Value {
    let found = match comparison {
        Comparison::Pending => "pending",
        Comparison::Single => "single",
        Comparison::Synchronised { .. } => "synchronised",
        Comparison::Unsynchronised { .. } => "unsynchronised",
        Comparison::Impossible => "impossible",
        _ => "unknown",
    };
    json!({ "found": found, "detail": format!("{comparison:?}") })
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
