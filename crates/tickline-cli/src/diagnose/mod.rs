//! Diagnosis: facts and measurements -> findings. Pure functions; nothing is collected or measured here, so that a machine
//! whose facts were recorded is diagnosed as the one at hand is.
//!
//! Each rule looks at the facts and has something to say, with the evidence for it, or not. What is not known is no evidence:
//! a rule that needs it is silent.

mod clocksource;
mod facts;
mod fix;
mod log;
mod others;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub(crate) use facts::{Facts, Row};

/// How bad it is. The order is that of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// Times are wrong, or asking for them ends the process.
    Wrong,
    /// Asking for the time costs more than it need.
    Slow,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// The name that JSON has, too.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Slow => "slow",
            Self::Note => "note",
        }
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Finding {
    /// What it is, as a stable code.
    pub(crate) code: &'static str,
    /// How bad it is.
    pub(crate) severity: Severity,
    /// One sentence, without a full stop.
    pub(crate) what: String,
    /// What was read or measured that shows it. Never empty.
    pub(crate) evidence: Vec<String>,
    /// What to do: the command, the kernel's parameter, the hypervisor's setting.
    pub(crate) fix: String,
    /// By how many times the cost of a clock would fall, by what was measured on the machine; null where that does not say.
    pub(crate) gain_ratio: Option<f64>,
}

impl Finding {
    fn new(code: &'static str, severity: Severity, what: impl Into<String>) -> Self {
        Self { code, severity, what: what.into(), evidence: Vec::new(), fix: String::new(), gain_ratio: None }
    }

    fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    fn seen_if(self, evidence: Option<String>) -> Self {
        match evidence {
            Some(evidence) => self.seen(evidence),
            None => self,
        }
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }
}

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
