//! The results of a command, as data. `--json` writes these structures field by field, the commands
//! make their texts from them, and the rules read them. `--facts` reads the document of another
//! machine back into them, with the fields that rules need. Keys end with their units. An unknown
//! figure is null. A document lacks the parts that its command does not measure.
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
pub(crate) mod utc_bound;

pub(crate) use clock_status::{ClockStatus, CpuRow, GateRow, utc_width_ns};
use clock_status::{gates, usual_status};
pub(crate) use explanation::{Block, Explained, Explanation};
pub(crate) use finding::{Detail, Finding, Severity, worst};
pub(crate) use fix::{Fix, Place, Steps};
pub(crate) use health::{Health, Level};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tickline::{ClockState, Reason, Status};

use crate::exit::Exit;
use crate::float::as_f64;
use crate::machine::{HostClock, Machine};
use crate::measure::calls::{MONOTONIC, NOW_NS};
use crate::measure::costs::{BenchSummary, CostRow};
use crate::measure::latency::LatencyRow;
use crate::measure::track::TrackSummary;
use crate::measure::warp::{WHY_NOT_COMPARED, WarpTest};
use crate::measure::watch::WatchSummary;
use crate::measure::who::WhoSummary;
use crate::words::time;

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

    /// The exit code: `Success` if no clock is slow or wrong, tickline reads the counter, and no
    /// test of pairs of CPUs has found unsynchronised counters. Such a test may find them although
    /// tickline reads the counter, because on bare metal tickline trusts the kernel.
    pub(crate) fn exit(&self) -> Exit {
        let is_good = self.fast && !self.is_bad() && self.unsynchronised_warp_test().is_none();
        if is_good {
            Exit::Success
        } else {
            Exit::Negative
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

    /// The sentence about the machine, above the findings; `None` if the command makes no
    /// diagnosis.
    pub(crate) fn headline(&self) -> Option<String> {
        self.headline_with("Fix below.")
    }

    /// The sentence about the machine. If there is a fix, the sentence ends with `fix_hint`.
    pub(crate) fn headline_with(&self, fix_hint: &str) -> Option<String> {
        Some(self.health.as_ref()?.sentence(self.findings(), fix_hint))
    }

    /// A warning if a debug build has measured costs, or the offset.
    pub(crate) fn build_note(&self) -> Option<&'static str> {
        if !self.debug_build {
            return None;
        }
        if !self.costs.is_empty() {
            return Some(
                "This is a debug build: its costs are several times those of a release build.",
            );
        }
        let is_watch = self.watch.is_some();
        is_watch.then_some(
            "This is a debug build: its brackets are wider than those of a release build.",
        )
    }
}

/// The document's result: which clock tickline reads, and why, in one sentence.
fn result(state: ClockState, document: &Document) -> String {
    match state {
        ClockState::Fast => {
            let costs = document.cost_ns(NOW_NS).zip(document.cost_ns(MONOTONIC));
            let costs = costs.map_or_else(String::new, |(now_ns, os_ns)| {
                // This happens in a debug build, or on a busy machine.
                let times = if os_ns < now_ns {
                    "so clock_gettime is faster in this run".to_owned()
                } else {
                    format!("{:.1} times as fast", os_ns / now_ns)
                };
                format!(": {now_ns:.1} ns a call where clock_gettime takes {os_ns:.0}, {times}")
            });
            let track = document.track.as_ref().map_or_else(String::new, |track| {
                let offset = time(track.all.largest_offset_ns);
                let bound = time(as_f64(track.all.largest_bound_ns));
                format!(
                    "; its largest offset from CLOCK_MONOTONIC was {offset} \
                     (its own bound: {bound})"
                )
            });
            format!("tickline reads the counter here{costs}{track}.")
        }
        ClockState::Fallback(reason) => {
            let named = matches!(
                reason,
                Reason::KernelRejected
                    | Reason::KernelUsesOther
                    | Reason::Untested
                    | Reason::Untestable
            );
            let detail = match (reason, &document.machine.clocksource) {
                (_, Some(name)) if named => format!(" ({name})"),
                (Reason::SamplesTooOld, _) => {
                    " (on a busy machine that passes by itself)".to_owned()
                }
                _ => String::new(),
            };
            let advice = match reason {
                Reason::Untested => {
                    " The comparison takes longer on a busy machine: run the command again, or \
                     compare them by `tickline warp`."
                        .to_owned()
                }
                Reason::Untestable => format!(
                    " A comparison fails if {WHY_NOT_COMPARED}: the CPUs are too busy, or the host \
                     does not run them together. When the machine is quieter, run the command \
                     again, or compare them by `tickline warp`."
                ),
                _ => String::new(),
            };
            format!("tickline reads the OS clock here, because {reason}{detail}.{advice}")
        }
        ClockState::Disrupted => {
            format!(
                "tickline reads the counter here; its state is {}.",
                ClockState::Disrupted
            )
        }
        state => format!("tickline reads the OS clock for now; its state is {state}."),
    }
}

#[cfg(test)]
mod tests {
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
    fn only_costs_by_a_debug_build_have_a_warning() {
        let document = |debug_build, costs: usize| Document {
            debug_build,
            costs: vec![CostRow::default(); costs],
            ..Document::default()
        };
        for (debug_build, costs, has_note) in [
            (true, 1, true),
            (true, 0, false),
            (false, 1, false),
            (false, 0, false),
        ] {
            let note = document(debug_build, costs).build_note();
            assert_eq!(note.is_some(), has_note, "{debug_build} {costs}");
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

    fn with_costs(now_ns: f64, os_ns: f64) -> Document {
        let cost = |(clock, cost_ns): (&str, f64)| CostRow {
            clock: clock.to_owned(),
            cost_ns: Some(cost_ns),
            ..CostRow::default()
        };
        Document {
            costs: [(NOW_NS, now_ns), (MONOTONIC, os_ns)].map(cost).to_vec(),
            ..Document::default()
        }
    }

    #[test]
    fn the_result_has_the_costs_of_both_clocks_and_their_ratio() {
        assert_eq!(
            result(ClockState::Fast, &with_costs(10.0, 25.0)),
            "tickline reads the counter here: 10.0 ns a call where clock_gettime takes 25, 2.5 times as fast."
        );
        assert_eq!(
            result(ClockState::Fast, &with_costs(20.0, 20.0)),
            "tickline reads the counter here: 20.0 ns a call where clock_gettime takes 20, 1.0 times as fast."
        );
    }

    /// Symptom: the same machine had two verdicts, and nothing said why.
    #[test]
    fn a_comparison_that_has_not_ended_says_what_to_do() {
        let of = |reason| result(ClockState::Fallback(reason), &Document::default());
        let shown = of(Reason::Untested);
        assert!(shown.contains("run the command again"), "{shown}");
        assert!(!of(Reason::KernelRejected).contains("again"));
    }

    /// Symptom: "because the counters of the CPUs could not be compared." and not a word more.
    #[test]
    fn a_comparison_that_failed_says_why_and_what_to_do() {
        let shown = result(
            ClockState::Fallback(Reason::Untestable),
            &Document::default(),
        );
        assert!(shown.contains(WHY_NOT_COMPARED), "{shown}");
        let advice = "When the machine is quieter, run the command again, or compare them by \
                      `tickline warp`.";
        assert!(shown.ends_with(advice), "{shown}");
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

    #[test]
    fn the_result_says_that_clock_gettime_was_faster() {
        assert_eq!(
            result(ClockState::Fast, &with_costs(30.0, 20.0)),
            "tickline reads the counter here: 30.0 ns a call where clock_gettime takes 20, so \
             clock_gettime is faster in this run."
        );
    }

    #[test]
    fn the_result_of_a_clock_without_measurements_is_its_state() {
        for (state, expected) in [
            (ClockState::Fast, "tickline reads the counter here."),
            (
                ClockState::Disrupted,
                "tickline reads the counter here; its state is disrupted: ",
            ),
            (
                ClockState::Calibrating,
                "tickline reads the OS clock for now; its state is calibrating: ",
            ),
        ] {
            let text = result(state, &Document::default());
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn the_result_names_the_clocksource_where_it_is_the_reason() {
        let mut document = Document::default();
        document.machine.clocksource = Some("hpet".to_owned());
        for (reason, is_named) in [
            (Reason::KernelRejected, true),
            (Reason::KernelUsesOther, true),
            (Reason::Untested, true),
            (Reason::Untestable, true),
            (Reason::SamplesTooOld, false),
        ] {
            let text = result(ClockState::Fallback(reason), &document);
            assert_eq!(text.contains(" (hpet)."), is_named, "{text}");
        }
    }

    #[test]
    fn the_result_says_that_a_busy_machine_passes() {
        let old = ClockState::Fallback(Reason::SamplesTooOld);
        let text = result(old, &Document::default());
        assert!(
            text.ends_with(" (on a busy machine that passes by itself)."),
            "{text}"
        );
        let other = ClockState::Fallback(Reason::KernelRejected);
        let text = result(other, &Document::default());
        assert!(!text.contains('('), "{text}");
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

    #[test]
    fn a_watch_by_a_debug_build_has_a_warning_of_its_own() {
        for debug_build in [true, false] {
            let document = Document {
                debug_build,
                watch: Some(crate::measure::watch::WatchSummary::default()),
                ..Document::default()
            };
            let has_note = document
                .build_note()
                .is_some_and(|note| note.contains("brackets"));
            assert_eq!(has_note, debug_build);
        }
    }

    #[test]
    fn the_exit_code_is_success_if_tickline_reads_a_counter_that_no_test_contradicts() {
        let exit = |fast, synchronised| {
            let warp = WarpTest {
                synchronised,
                ..WarpTest::default()
            };
            let document = Document {
                fast,
                warp: Some(warp),
                ..Document::default()
            };
            document.exit()
        };
        assert_eq!(exit(true, None), Exit::Success);
        assert_eq!(exit(true, Some(true)), Exit::Success);
        assert_eq!(exit(true, Some(false)), Exit::Negative);
        assert_eq!(exit(false, Some(true)), Exit::Negative);
    }
}
