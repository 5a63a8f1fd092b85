//! The diagnosis: rules make findings from facts and measurements. The rules are pure functions
//! that collect and measure nothing, so they diagnose recorded machines as well as this machine.
//!
//! A rule reads the document, and returns a finding with its evidence, or `None`. An unknown fact
//! is no evidence: a rule that needs it returns `None`.
//!
//! `machine/CONTRIBUTING.md` says how to add a finding or a fact.

mod clock_rate;
mod clocksource;
mod container;
mod counter;
mod daemons;
mod hosts;
mod judge_health;
mod not_kept;
mod process;
mod shared_fixes;
mod slew;
mod steps;
#[cfg(test)]
mod tests;
mod tsc;
mod unix_time;
mod vmclock;

pub(crate) use judge_health::level;

use crate::document::{Document, Explained, Explanation, Finding, Health, Level, Severity};

/// A rule: makes a finding from facts, or none.
type Rule = fn(&Document) -> Option<Finding>;

/// All rules. Findings of the same severity have this order; a new rule goes to the end of its
/// group.
const RULES: &[Rule] = &[
    // Readings of a clock fail or mislead.
    process::counter_denied,
    counter::counters_unsynchronised,
    process::clock_interposed,
    counter::counter_trapped,
    // Readings are slow, or what was measured may be.
    clocksource::slow,
    clocksource::paravirtual_dearer,
    process::traced,
    process::no_thread,
    counter::not_invariant,
    process::answerers_unknown,
    not_kept::clocksource_not_kept,
    // The clocks' rate may be wrong, and with it durations and Unix time. No NTP daemon mends that.
    counter::frequency_implausible,
    clock_rate::clock_rate_wrong,
    // Unix time may be wrong.
    slew::ntp_slewing,
    unix_time::time_off,
    unix_time::ntp_unsynchronised,
    unix_time::utc_error_large,
    unix_time::leap_second,
    unix_time::unix_stepped,
    unix_time::utc_unproven,
    // The rest.
    counter::unused_frequency_implausible,
    counter::firmware_writes_tsc,
    process::switched_off,
    process::environment_unrecognised,
    vmclock::vmclock_unreadable,
];

/// What each code means, by code. A test finds a code of a finding that is missing here.
pub(crate) fn explanations() -> Vec<Explanation> {
    let mut explanations = Vec::new();
    explanations.extend(clock_rate::Code::ALL.iter().map(Explained::explanation));
    explanations.extend(clocksource::Code::ALL.iter().map(Explained::explanation));
    explanations.extend(counter::Code::ALL.iter().map(Explained::explanation));
    explanations.extend(not_kept::Code::ALL.iter().map(Explained::explanation));
    explanations.extend(process::Code::ALL.iter().map(Explained::explanation));
    explanations.extend(slew::Code::ALL.iter().map(Explained::explanation));
    explanations.extend(tsc::Code::ALL.iter().map(Explained::explanation));
    explanations.extend(unix_time::Code::ALL.iter().map(Explained::explanation));
    explanations.extend(vmclock::Code::ALL.iter().map(Explained::explanation));
    explanations.sort_by_key(|explanation| explanation.code);
    explanations
}

/// The findings, the most severe first.
pub(crate) fn findings(document: &Document) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().filter_map(|rule| rule(document)).collect();
    findings.sort_by_key(|finding| finding.severity);
    let Some(name) = document.machine.container.as_deref() else {
        return findings;
    };
    findings
        .into_iter()
        .map(|finding| container::with_fix_elsewhere(finding, name, document))
        .collect()
}

/// The rules about whether Unix time is near UTC. Their findings are unsure, or notes.
const NEAR_UTC_RULES: &[Rule] = &[
    unix_time::ntp_unsynchronised,
    unix_time::utc_error_large,
    unix_time::utc_unproven,
];

/// Why Unix time is not known to be within `--max-error` of UTC.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotNearUtc {
    /// The level that the doctor gives to this state, if it finds nothing else.
    pub(crate) level: Level,
    /// The reason in words, without a full stop.
    pub(crate) why: String,
}

/// Why Unix time is not known to be within `--max-error` of UTC; `None` if it is. It leaves out
/// findings about the clock's rate, and about what will happen.
pub(crate) fn why_not_near_utc(document: &Document) -> Option<NotNearUtc> {
    if let Some(off) = document.off_in_words() {
        return Some(NotNearUtc {
            level: Level::Wrong,
            why: off,
        });
    }
    let is_fault = |finding: &Finding| finding.severity != Severity::Note;
    let fault = NEAR_UTC_RULES
        .iter()
        .filter_map(|rule| rule(document))
        .find(is_fault);
    if let Some(finding) = fault {
        return Some(NotNearUtc {
            level: Level::Unsure,
            why: finding.what,
        });
    }
    if document.utc_bound().is_some() {
        return None;
    }
    Some(NotNearUtc {
        level: Level::Unknown,
        why: "the kernel's NTP state can't be read, and no source of UTC has answered".to_owned(),
    })
}

impl Document {
    /// Adds the findings, and the health that they show. The caller must add all measurements
    /// before, because the rules read them.
    pub(crate) fn add_diagnosis(&mut self) {
        let findings = findings(self);
        self.health = Some(Health::new(self, &findings));
        self.findings = Some(findings);
    }
}
