//! The distances of readings, and of their bounds, from their brackets. A bracket is two reads of
//! the OS clock around a reading.

use tickline::{Clock, ClockState, CounterComparison, Status};
use tickline_observe::{Bounded, Bracket};

use crate::agreed::FAR_BRACKETS;
use crate::phase::{Comparison, Found, Watched};

/// The brackets of a phase.
#[derive(Debug, Default)]
pub(crate) struct Brackets {
    count: u64,
    /// The number of results of `reading()` by a line.
    by_line: u64,
    /// The number of rows that are far, and of rows before which the counter served.
    far: u64,
    fast: u64,
    /// The figures for the report so far.
    watched: Watched,
}

impl Brackets {
    /// Takes a row of `count` brackets.
    pub(crate) fn take_row(&mut self, clock: &Clock, count: u32) {
        let state = clock.status().state;
        let watched = &mut self.watched;
        watched.rows += 1;
        self.fast += u64::from(state == ClockState::Fast);
        if let ClockState::Fallback(reason) = state {
            watched.reasons.insert(reason.code().to_owned());
        }
        let mut outside_ns = 0;
        let mut narrowest_ns = u64::MAX;
        for _ in 0..count {
            self.count += 1;
            let bracket = Bracket::around(|| clock.now_ordered().as_nanos());
            watched.ahead_ns = watched.ahead_ns.max(bracket.ahead_ns());
            watched.behind_ns = watched.behind_ns.max(bracket.behind_ns());
            outside_ns = outside_ns.max(bracket.ahead_ns()).max(bracket.behind_ns());
            narrowest_ns = narrowest_ns.min(bracket.width_ns());
            let bounded = Bounded::read(clock);
            watched.bound_violated += u64::from(bounded.missed_ns() > 0);
            if bounded.by_counter {
                self.by_line += 1;
                watched.widest_bound_ns = watched.widest_bound_ns.max(bounded.widest_ns());
            }
            take_unix(watched, clock);
        }
        self.far += u64::from(outside_ns > FAR_BRACKETS * narrowest_ns);
        watched.narrowest_bracket_ns = watched
            .narrowest_bracket_ns
            .into_iter()
            .chain([narrowest_ns])
            .min();
    }

    /// The report, with the clock's state at the end.
    pub(crate) fn report(self, status: &Status) -> Watched {
        let percent = |count: u64, of: u64| count * 100 / of.max(1);
        Watched {
            state: status.state.code().to_owned(),
            reason: status.reason().map(|reason| reason.code().to_owned()),
            fast_percent: percent(self.fast, self.watched.rows),
            bounded_percent: percent(self.by_line, self.count),
            far_percent: percent(self.far, self.watched.rows),
            status: format!("{status:?}"),
            ..self.watched
        }
    }
}

fn take_unix(watched: &mut Watched, clock: &Clock) {
    let plain = Bracket::by(libc::CLOCK_REALTIME, || clock.unix_now().as_nanos());
    let bounded = Bounded::read_unix(clock);
    // If the clock was set meanwhile, there is no bracket.
    if [plain, bounded.bracket]
        .iter()
        .all(|bracket| bracket.before_ns <= bracket.after_ns)
    {
        watched.unix_outside_ns = watched
            .unix_outside_ns
            .max(plain.ahead_ns())
            .max(plain.behind_ns());
        watched.unix_bound_violated += u64::from(bounded.missed_ns() > 0);
        watched.unix_widest_bound_ns = watched.unix_widest_bound_ns.max(bounded.widest_ns());
    }
}

/// The comparison of the CPUs' counters, in a report.
pub(crate) fn comparison(comparison: CounterComparison) -> Comparison {
    let found = match comparison {
        CounterComparison::Pending => Found::Pending,
        CounterComparison::Single => Found::Single,
        CounterComparison::Synchronised { .. } => Found::Synchronised,
        CounterComparison::Unsynchronised { .. } => Found::Unsynchronised,
        CounterComparison::Impossible => Found::Impossible,
        _ => Found::Unknown,
    };
    Comparison {
        found,
        detail: format!("{comparison:?}"),
    }
}
