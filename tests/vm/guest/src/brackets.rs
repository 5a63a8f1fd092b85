//! The distances of readings, and of their bounds, from their brackets. A bracket is two reads of
//! the OS clock around a reading.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use tickline::{Clock, ClockState, CounterComparison, Reason};
use tickline_observe::{Bounded, Bracket};

use crate::agreed::FAR_BRACKETS;

/// The brackets of a phase.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Brackets {
    count: u64,
    narrowest_bracket_ns: Option<u64>,
    /// The largest distances of `now_ordered` from its bracket.
    ahead_ns: u64,
    behind_ns: u64,
    /// The number of rows with a distance of more than [`FAR_BRACKETS`] of the row's narrowest
    /// bracket.
    far: u64,
    /// The number of results of `reading()` whose bounds missed the bracket.
    bound_violated: u64,
    widest_bound_ns: u64,
    /// The largest distance of `unix_ns` from its bracket.
    unix_outside_ns: u64,
    unix_bound_violated: u64,
    unix_widest_bound_ns: u64,
    /// The number of results of `reading()` by a line, with the line's bounds.
    by_line: u64,
    /// The number of rows, and of rows before which the counter served.
    rows: u64,
    fast: u64,
    /// The reasons for not using the counter, in any row.
    reasons: BTreeSet<&'static str>,
}

impl Brackets {
    /// Takes a row of `count` brackets.
    pub(crate) fn take_row(&mut self, clock: &Clock, count: u32) {
        let state = clock.status().state;
        self.rows += 1;
        self.fast += u64::from(state == ClockState::Fast);
        if let ClockState::Fallback(reason) = state {
            self.reasons.insert(reason.code());
        }
        let mut outside_ns = 0;
        let mut narrowest_ns = u64::MAX;
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
            self.take_unix(clock);
        }
        self.far += u64::from(outside_ns > FAR_BRACKETS * narrowest_ns);
        self.narrowest_bracket_ns = self
            .narrowest_bracket_ns
            .into_iter()
            .chain([narrowest_ns])
            .min();
    }

    fn take_unix(&mut self, clock: &Clock) {
        let plain = Bracket::by(libc::CLOCK_REALTIME, || clock.unix_now().as_nanos());
        let bounded = Bounded::read_unix(clock);
        // If the clock was set meanwhile, there is no bracket.
        if [plain, bounded.bracket]
            .iter()
            .all(|bracket| bracket.before_ns <= bracket.after_ns)
        {
            self.unix_outside_ns = self
                .unix_outside_ns
                .max(plain.ahead_ns())
                .max(plain.behind_ns());
            self.unix_bound_violated += u64::from(bounded.missed_ns() > 0);
            self.unix_widest_bound_ns = self.unix_widest_bound_ns.max(bounded.widest_ns());
        }
    }

    /// The report, with the clock's state at the end.
    pub(crate) fn report(&self, clock: &Clock) -> Value {
        let status = clock.status();
        let percent = |count: u64, of: u64| Value::from(count * 100 / of.max(1));
        let mut report = json!(self);
        report["state"] = status.state.code().into();
        report["reason"] = status.reason().map(Reason::code).into();
        report["comparison"] = comparison(status.comparison);
        report["fast_percent"] = percent(self.fast, self.rows);
        report["bounded_percent"] = percent(self.by_line, self.count);
        report["far_percent"] = percent(self.far, self.rows);
        report["status"] = format!("{status:?}").into();
        report
    }
}

/// The comparison of the CPUs' counters, in a report.
pub(crate) fn comparison(comparison: CounterComparison) -> Value {
    let found = match comparison {
        CounterComparison::Pending => "pending",
        CounterComparison::Single => "single",
        CounterComparison::Synchronised { .. } => "synchronised",
        CounterComparison::Unsynchronised { .. } => "unsynchronised",
        CounterComparison::Impossible => "impossible",
        _ => "unknown",
    };
    json!({ "found": found, "detail": format!("{comparison:?}") })
}
