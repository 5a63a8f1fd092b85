//! What a command has found, as data: the JSON is these structures field by field, the texts are made from them. Keys carry
//! their units; a figure that is not to be had is null; a part that a command does not measure is left out.

use std::collections::BTreeMap;

use serde::Serialize;
use tickline::{Clock, Environment, Reason, State, Status};

use crate::bench::Bench;
use crate::machine::Machine;
use crate::measure::calls::COUNTER;
use crate::measure::costs::Cost;
use crate::measure::track::{Point, Track};
use crate::measure::warp::Warp;
use crate::watch::Watch;

/// Raised when a key changes its meaning or goes away.
pub(crate) const SCHEMA: &str = "tickline/1";

/// Everything that was found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Document {
    pub(crate) schema: &'static str,
    pub(crate) program_version: &'static str,
    pub(crate) command: &'static str,
    /// One sentence.
    pub(crate) verdict: String,
    /// Whether tickline reads the counter here.
    pub(crate) fast: bool,
    /// Why not.
    pub(crate) reason: Option<&'static str>,
    pub(crate) machine: Machine,
    pub(crate) clock: ClockStatus,
    pub(crate) gates: Vec<Gate>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) costs: Vec<CostRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) track: Option<TrackSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warp: Option<Warp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bench: Option<Bench>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) watch: Option<Watch>,
}

/// The global clock's status.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ClockStatus {
    pub(crate) frequency_hz: Option<u64>,
    pub(crate) nominal_frequency_hz: Option<u64>,
    pub(crate) bound_ns: Option<u64>,
    pub(crate) rho_ppb: u64,
    pub(crate) interval_ns: u64,
    pub(crate) utc_error_ns: Option<u64>,
    /// The environment variable TICKLINE is neither on nor off.
    pub(crate) environment_unrecognised: bool,
    pub(crate) events: BTreeMap<&'static str, u64>,
}

/// What one gate says.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Gate {
    pub(crate) gate: &'static str,
    pub(crate) open: bool,
    /// Why it is closed, as a stable code.
    pub(crate) reason: Option<&'static str>,
    pub(crate) warning: Option<&'static str>,
    /// Reason or warning in words.
    pub(crate) text: Option<String>,
}

/// One clock's cost.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CostRow {
    pub(crate) clock: &'static str,
    /// In the fastest round.
    pub(crate) cost_ns: Option<f64>,
    pub(crate) median_ns: Option<f64>,
    /// Nine of ten rounds were no slower.
    pub(crate) most_ns: Option<f64>,
    pub(crate) ratio_to_counter: Option<f64>,
}

/// Offset and bound over time, and what they amount to.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TrackSummary {
    pub(crate) largest_offset_ns: f64,
    pub(crate) largest_bound_ns: u64,
    pub(crate) outside_bracket: usize,
    pub(crate) bound_violated: usize,
    pub(crate) points: Vec<Point>,
}

impl Document {
    /// What can be told without measuring: the machine and the global clock's status.
    pub(crate) fn new(command: &'static str) -> Self {
        let status = Clock::global().status();
        let machine = Machine::read(&status);
        Self {
            schema: SCHEMA,
            program_version: env!("CARGO_PKG_VERSION"),
            command,
            verdict: verdict(&status, &machine, None, None),
            fast: status.state == State::Fast,
            reason: status.reason().map(Reason::code),
            clock: ClockStatus::of(&status),
            gates: gates(&status),
            machine,
            costs: Vec::new(),
            track: None,
            warp: None,
            bench: None,
            watch: None,
        }
    }

    /// Adds what the clocks cost and how well the global clock keeps to CLOCK_MONOTONIC.
    pub(crate) fn measured(mut self, costs: &[Cost], track: Track) -> Self {
        self.add_costs(costs, Some(&track));
        self.track = Some(track.into());
        self
    }

    /// Adds what the clocks cost.
    pub(crate) fn costed(mut self, costs: &[Cost]) -> Self {
        self.add_costs(costs, None);
        self
    }

    fn add_costs(&mut self, costs: &[Cost], track: Option<&Track>) {
        let cost_of = |name: &str| costs.iter().find(|cost| cost.name == name)?.ns;
        let counter_ns = cost_of(COUNTER);
        self.costs = costs
            .iter()
            .map(|cost| CostRow {
                clock: cost.name,
                cost_ns: cost.ns,
                median_ns: cost.median_ns,
                most_ns: cost.most_ns,
                ratio_to_counter: cost.ns.zip(counter_ns).map(|(ns, counter_ns)| ns / counter_ns),
            })
            .collect();
        let calls = cost_of("tickline::now_ns").zip(cost_of("clock_gettime MONOTONIC"));
        self.verdict = verdict(&Clock::global().status(), &self.machine, calls, track);
    }
}

impl From<Track> for TrackSummary {
    fn from(track: Track) -> Self {
        Self {
            largest_offset_ns: track.largest_offset_ns(),
            largest_bound_ns: track.largest_bound_ns(),
            outside_bracket: track.outside(),
            bound_violated: track.violated(),
            points: track.points,
        }
    }
}

impl ClockStatus {
    fn of(status: &Status) -> Self {
        Self {
            frequency_hz: status.frequency_hz,
            nominal_frequency_hz: status.nominal_hz,
            bound_ns: status.bound_ns,
            rho_ppb: status.rho_ppb,
            interval_ns: status.interval_ns,
            utc_error_ns: status.utc_error_ns,
            environment_unrecognised: status.environment == Environment::Unrecognised,
            events: status.events.iter().map(|(event, count)| (event.name(), count)).collect(),
        }
    }
}

fn gates(status: &Status) -> Vec<Gate> {
    let gate = |verdict: &tickline::Verdict| Gate {
        gate: verdict.gate.name(),
        open: verdict.closed.is_none(),
        reason: verdict.closed.map(Reason::code),
        warning: verdict.warning.map(Reason::code),
        text: verdict.closed.or(verdict.warning).map(|reason| reason.to_string()),
    };
    status.verdicts.iter().map(gate).collect()
}

/// One sentence. `calls` are the costs of a reading by tickline and by the OS, ns.
fn verdict(status: &Status, machine: &Machine, calls: Option<(f64, f64)>, track: Option<&Track>) -> String {
    match (status.state, calls, track) {
        (State::Fast, Some((now, os)), Some(track)) => format!(
            "tickline reads the counter here: {now:.1} ns a call where clock_gettime takes {os:.1}, {:.1} times as fast; \
             it was seen at most {:.0} ns from CLOCK_MONOTONIC (its own bound: {} ns).",
            os / now,
            track.largest_offset_ns(),
            track.largest_bound_ns()
        ),
        (State::Fast, Some((now, os)), None) => format!(
            "tickline reads the counter here: {now:.1} ns a call where clock_gettime takes {os:.1}, {:.1} times as fast.",
            os / now
        ),
        (State::Fast, _, _) => "tickline reads the counter here.".to_owned(),
        (State::Fallback(reason), _, _) => {
            let named = matches!(reason, Reason::KernelRejected | Reason::KernelUsesOther | Reason::Untested);
            let detail = machine.clocksource.as_ref().filter(|_| named);
            let detail = detail.map_or_else(String::new, |name| format!(" ({name})"));
            format!("tickline serves the OS clock here, because {reason}{detail}.")
        }
        (state, _, _) => format!("tickline serves the OS clock for now; its state is {state}."),
    }
}
