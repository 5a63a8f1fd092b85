//! The results of a command, as data. `--json` writes these structures field by field, the commands
//! make their texts from them, and the rules read them. `--facts` reads the document of another
//! machine back into them, with the fields that rules need. Keys end with their units. An unknown
//! figure is null. A document lacks the parts that its command does not measure.
//!
//! `finding`, `fix`, `explanation` and `health` are what the rules say. `questions` and `utc_bound`
//! answer what rules and texts ask about a document. `result` has its sentences and its exit code.
//!
//! The comments on the fields are the descriptions in `schema/`. A test compares them
//! (`schema.rs`).

mod clock_status;
#[cfg(test)]
pub(crate) mod example;
mod explanation;
mod finding;
mod fix;
mod health;
pub(crate) mod questions;
mod result;
pub(crate) mod utc_bound;

pub(crate) use clock_status::{ClockStatus, CpuRow, GateRow, utc_width_ns};
use clock_status::{gates, usual_status};
pub(crate) use explanation::{Block, Explained, Explanation};
pub(crate) use finding::{Detail, Finding, Severity, worst};
pub(crate) use fix::{Fix, Place, Steps};
pub(crate) use health::{Health, Level};
use result::result;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tickline::Status;

use crate::machine::{HostClock, Machine};
use crate::measure::costs::{BenchSummary, CostRow};
use crate::measure::latency::LatencyRow;
use crate::measure::track::TrackSummary;
use crate::measure::warp::WarpTest;
use crate::measure::watch::WatchSummary;
use crate::measure::who::WhoSummary;

/// The schema's name. Its number rises when a key changes its meaning or is removed.
pub(crate) const SCHEMA: &str = "tickline/2";

/// The results of a command.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct Document {
    /// The schema's name, `tickline/2`. It changes when a key changes its meaning or is removed,
    /// but not when keys are added.
    pub(crate) schema: String,
    /// The version of the program that has written this document, as `--version` prints it.
    pub(crate) program_version: String,
    /// Whether that program was a debug build. Its costs are several times the costs of a release
    /// build.
    pub(crate) debug_build: bool,
    /// The command that has written this document.
    pub(crate) command: String,
    /// The time of the measurement, in UTC, as in RFC 3339.
    pub(crate) taken_at: String,
    /// The state of the machine's clocks, whether or not tickline reads the counter; absent if the
    /// command makes no diagnosis.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub(crate) health: Option<Health>,
    /// The command's result, in one sentence: the clock that tickline reads, or a comparison's
    /// result.
    pub(crate) result: String,
    /// Whether tickline reads the counter here.
    pub(crate) fast: bool,
    /// Why tickline does not read the counter, as a stable code.
    pub(crate) reason: Option<String>,
    /// The largest accepted error of Unix time, ns (`--max-error`); null without this option.
    pub(crate) max_error_ns: Option<i64>,
    /// The findings about the machine's clocks, the most severe first; absent if the command makes
    /// no diagnosis.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub(crate) findings: Option<Vec<Finding>>,
    /// The facts of the machine, as far as they can be read.
    pub(crate) machine: Machine,
    /// The status of tickline's clock.
    pub(crate) clock: ClockStatus,
    /// The conditions for the use of the counter, in the order of their judgement.
    pub(crate) gates: Vec<GateRow>,
    /// The cost of a call of each clock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) costs: Vec<CostRow>,
    /// Why it is unknown whether the vDSO or a system call answers each clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) served_unknown: Option<String>,
    /// The offset of tickline from CLOCK_MONOTONIC over time. `watch` writes its samples only by
    /// `--csv`.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub(crate) track: Option<TrackSummary>,
    /// The rate of this guest's clock against its host's; absent if the hypervisor gives no clock
    /// that this user may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host_clock: Option<HostClock>,
    /// The times that single readings took, as histograms.
    #[serde(skip_serializing_if = "Vec::is_empty", skip_deserializing)]
    pub(crate) latencies: Vec<LatencyRow>,
    /// The comparison of the CPUs' counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warp: Option<WarpTest>,
    /// A long run of each clock.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub(crate) bench: Option<BenchSummary>,
    /// The summary of `watch`.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub(crate) watch: Option<WatchSummary>,
    /// The processes that ask for the time by system calls.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub(crate) who: Option<WhoSummary>,
}

impl Document {
    /// A document with these measurements, the facts of the machine, and the global clock's status.
    pub(crate) fn new(
        command: &'static str,
        costs: Vec<CostRow>,
        track: Option<TrackSummary>,
    ) -> Self {
        Self::with_status(&usual_status(), command, costs, track)
    }

    fn with_status(
        status: &Status,
        command: &'static str,
        costs: Vec<CostRow>,
        track: Option<TrackSummary>,
    ) -> Self {
        let machine = Machine::read(status);
        let mut document = Self {
            schema: SCHEMA.into(),
            program_version: env!("TICKLINE_VERSION").into(),
            debug_build: cfg!(debug_assertions),
            command: command.into(),
            taken_at: format!("{:.0}", Timestamp::now()),
            fast: status.reads_counter(),
            reason: status.reason().map(|reason| reason.code().into()),
            clock: ClockStatus::read(status, &machine),
            gates: gates(status),
            machine,
            costs,
            track,
            ..Self::default()
        };
        document.result = result(status.state, &document);
        document
    }

    /// What is known of Unix time now, for a limit of its error.
    pub(crate) fn of_unix_time(max_error_ns: i64) -> Self {
        let status = usual_status();
        let machine = Machine::read_unix_time();
        Self {
            clock: ClockStatus::read(&status, &machine),
            machine,
            max_error_ns: Some(max_error_ns),
            ..Self::default()
        }
    }

    /// The test of pairs of CPUs, if it has found unsynchronised counters.
    pub(crate) fn unsynchronised_warp_test(&self) -> Option<&WarpTest> {
        self.warp
            .as_ref()
            .filter(|warp| warp.synchronised == Some(false))
    }

    /// Whether a clock of the machine is slow or wrong.
    pub(crate) fn is_bad(&self) -> bool {
        self.health.as_ref().is_some_and(Health::is_bad)
    }

    /// Whether tickline reads the counter; `None` if the facts were collected without the program,
    /// so that the document has no gates.
    pub(crate) fn counter_used(&self) -> Option<bool> {
        (!self.gates.is_empty()).then_some(self.fast)
    }

    /// The findings; none if the command makes no diagnosis.
    pub(crate) fn findings(&self) -> &[Finding] {
        self.findings.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use tickline::ClockState;

    use super::*;
    use crate::machine::Leap;

    /// Texts and metrics have the code, and the documents have what serde makes of the name.
    #[test]
    fn a_code_is_the_same_in_texts_and_documents() {
        for severity in Severity::ALL {
            assert_eq!(serde_json::json!(severity), severity.code());
        }
        for level in Level::ALL {
            assert_eq!(serde_json::json!(level), level.code());
        }
        for leap in Leap::ALL {
            assert_eq!(serde_json::json!(leap), leap.code());
        }
    }

    #[test]
    fn the_facts_for_a_wait_have_its_limit() {
        assert_eq!(Document::of_unix_time(7).max_error_ns, Some(7));
    }

    #[test]
    fn the_facts_for_a_wait_have_a_claim_about_utc_or_the_reason_for_none() {
        let clock = Document::of_unix_time(7).clock;
        assert_ne!(clock.utc_error_ns.is_some(), clock.utc_unknown.is_some());
    }

    #[test]
    fn the_facts_for_a_wait_have_the_kernels_ntp_state() {
        let has_state = tickline_utc::sources::kernel::KernelClock::read().is_some();
        assert_eq!(Document::of_unix_time(7).machine.ntp.is_some(), has_state);
    }

    /// Symptom: `fast` was false and the exit code 1 while a disrupted clock read the counter, as
    /// the result said.
    #[test]
    fn a_disrupted_clock_reads_the_counter_by_every_answer() {
        let mut status = tickline::Clock::global().status();
        status.state = ClockState::Disrupted;
        let document = Document::with_status(&status, "doctor", Vec::new(), None);
        assert!(document.fast);
        assert_eq!(document.counter_used(), Some(true));
        let gauges = crate::openmetrics::text(&document);
        assert!(gauges.contains("\ntickline_fast 1\n"), "{gauges}");
    }

    fn of_health(level: Level) -> Document {
        Document {
            health: Some(Health {
                level,
                text: "the time costs 25 ns".to_owned(),
                decided_by: None,
            }),
            ..Document::default()
        }
    }

    #[test]
    fn a_clock_is_bad_if_it_is_slow_or_wrong() {
        assert!(of_health(Level::Slow).is_bad());
        assert!(of_health(Level::Wrong).is_bad());
        assert!(!of_health(Level::Unsure).is_bad());
        assert!(!Document::default().is_bad());
    }
}
