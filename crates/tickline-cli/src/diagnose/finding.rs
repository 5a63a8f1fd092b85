//! A finding: the result of a rule.

use serde::Serialize;

use super::steps::Steps;

/// How severe a finding is. The order is that of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// Times are wrong, or a call for the time ends the process.
    Wrong,
    /// A call for the time costs more than necessary.
    Slow,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// The name, as in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Slow => "slow",
            Self::Note => "note",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Finding {
    /// The finding's name, as a stable code.
    pub(crate) code: &'static str,
    /// How severe the finding is.
    pub(crate) severity: Severity,
    /// The finding in one sentence, without a full stop.
    pub(crate) what: String,
    /// The facts and measurements that show it. Never empty.
    pub(crate) evidence: Vec<String>,
    /// What to do: the command, the kernel's parameter, the hypervisor's setting.
    pub(crate) fix: String,
    /// The fix as commands, step by step; null where it needs somebody's judgement, or another
    /// machine.
    pub(crate) steps: Option<Steps>,
    /// The cost of a clock now, as a multiple of its cost after the fix, by measurements on the
    /// machine; null where unknown.
    pub(crate) gain_ratio: Option<f64>,
    /// The command that counts which programs make such calls; null where the finding is not about
    /// the cost of calls.
    pub(crate) who: Option<&'static str>,
}

impl Finding {
    pub(super) fn new(code: &'static str, severity: Severity, what: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            what: what.into(),
            evidence: Vec::new(),
            fix: String::new(),
            steps: None,
            gain_ratio: None,
            who: (severity == Severity::Slow).then_some("sudo tickline who"),
        }
    }

    /// The gain in words: the same in text and HTML.
    pub(crate) fn gain(&self) -> Option<String> {
        self.gain_ratio.map(|ratio| format!("{ratio:.1} times as fast, by the measured costs"))
    }

    pub(super) fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    pub(super) fn seen_if(self, evidence: Option<String>) -> Self {
        match evidence {
            Some(evidence) => self.seen(evidence),
            None => self,
        }
    }

    pub(super) fn seen_all(mut self, evidence: Vec<String>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }

    pub(super) fn steps(mut self, steps: Option<Steps>) -> Self {
        self.steps = steps;
        self
    }
}
