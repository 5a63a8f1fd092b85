//! The machine's clocks in one sentence, which stands first in each output. It is about the
//! machine, not about tickline's use of the counter.

use serde::Serialize;

use super::finding::{Finding, Severity};
use super::fix;
use crate::document::Document;
use crate::measure::served_by::ServedBy;

/// How the machine's clocks are. The order is that of the exit codes of monitoring plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// The precise clocks are answered without a system call, and nothing was found.
    Ok,
    /// A call for the time costs more than necessary.
    Slow,
    /// Times are wrong, or a call for the time ends the process.
    Wrong,
    /// It is unknown who answers the clocks.
    Unknown,
}

impl Level {
    /// The name, as in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Slow => "slow",
            Self::Wrong => "wrong",
            Self::Unknown => "unknown",
        }
    }
}

/// How the machine's clocks are, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Health {
    /// `ok`, `slow`, `wrong` or `unknown`.
    pub(crate) level: Level,
    /// The reason, in one sentence without a full stop.
    pub(crate) text: String,
}

impl Health {
    /// The health that these findings show. They must be sorted by severity.
    pub(crate) fn of(facts: &Document, findings: &[Finding]) -> Self {
        let worst = findings.first().filter(|finding| finding.severity < Severity::Note);
        let (level, text) = match worst {
            Some(finding) if finding.severity == Severity::Wrong => (Level::Wrong, finding.what.clone()),
            Some(finding) => (Level::Slow, slow(finding, facts)),
            None => match facts.precise() {
                Some((clock, ServedBy::Vdso)) => {
                    let cost =
                        facts.precise_ns().map_or_else(String::new, |ns| format!(": {ns:.0} ns a call"));
                    (Level::Ok, format!("the vDSO answers {clock}{cost}{}", source(facts)))
                }
                _ => (Level::Unknown, format!("it is unknown who answers the clocks{}", source(facts))),
            },
        };
        Self { level, text }
    }

    /// Whether the machine needs care.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self.level, Level::Slow | Level::Wrong)
    }

    /// The sentence for people, with a hint at the fix.
    pub(crate) fn sentence(&self, findings: &[Finding]) -> String {
        let level = self.level.name().to_uppercase();
        let fix = match findings.first().filter(|_| self.is_bad()) {
            Some(finding) if fix::is_none(&finding.fix) => " No fix is known.",
            Some(_) => " Fix below.",
            None => "",
        };
        format!("{level}: {}.{fix}", self.text)
    }
}

fn slow(finding: &Finding, facts: &Document) -> String {
    let by_call = match facts.precise() {
        Some((clock, ServedBy::SystemCall)) => clock.split(' ').next(),
        _ => None,
    };
    let Some(clock) = by_call else { return finding.what.clone() };
    let costs = match (facts.precise_ns(), facts.dear()) {
        (_, Some((now, then))) => format!(": {now:.0} ns, {then:.0} possible"),
        (Some(now), None) => format!(": {now:.0} ns"),
        (None, None) => String::new(),
    };
    format!("every {clock} is a system call{costs}{}", source(facts))
}

fn source(facts: &Document) -> String {
    facts.clocksource().map_or_else(String::new, |name| format!(" ({name})"))
}
