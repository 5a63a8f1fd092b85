//! Diagnosis: facts and measurements -> findings. Pure functions; nothing is collected or measured here, so that a machine
//! whose facts were recorded is diagnosed as the one at hand is.
//!
//! Each rule looks at the facts and has something to say, with the evidence for it, or not. What is not known is no evidence:
//! a rule that needs it is silent.

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

/// Every rule. Findings of one severity are listed in this order.
const RULES: [Rule; 11] = [
    others::counter_denied,
    others::counters_apart,
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

/// What is wrong with the machine, the most severe first.
pub(crate) fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().filter_map(|rule| rule(facts)).collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}
