//! What a rule finds.

use serde::Serialize;

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
    pub(super) fn new(code: &'static str, severity: Severity, what: impl Into<String>) -> Self {
        Self { code, severity, what: what.into(), evidence: Vec::new(), fix: String::new(), gain_ratio: None }
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

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }
}
