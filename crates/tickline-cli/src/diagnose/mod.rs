//! Diagnosis: facts and measurements -> findings. The rules are pure functions, which collect and measure nothing. They
//! therefore diagnose a recorded machine like the present one.
//!
//! A rule reads the facts and returns a finding with its evidence, or `None`. An unknown fact is no evidence: a rule that needs
//! it returns `None`.
//!
//! `CONTRIBUTING.md` says how to add a finding.

mod clocksource;
mod facts;
mod finding;
mod fix;
mod log;
mod others;
#[cfg(test)]
mod tests;

pub(crate) use facts::{Facts, Row};
pub(crate) use finding::{Finding, Severity};

type Rule = fn(&Facts) -> Option<Finding>;

/// All rules. Findings of one severity are listed in this order.
const RULES: [Rule; 11] = [
    others::counter_denied,
    others::counters_unsynchronised,
    others::counter_trapped,
    clocksource::slow,
    others::not_invariant,
    others::frequency_implausible,
    others::firmware_writes_tsc,
    others::switched_off,
    others::environment_unrecognised,
    others::ntp_slewing,
    others::ntp_unsynchronised,
];

/// The findings, the most severe first.
pub(crate) fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().filter_map(|rule| rule(facts)).collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}
