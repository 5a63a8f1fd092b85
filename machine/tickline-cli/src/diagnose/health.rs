//! The state of the machine's clocks in one sentence, the first of each output: the cost of the
//! time, and whether the time is known to be right. The sentence is about the machine, not about
//! tickline's use of the counter.

use serde::Serialize;

use super::finding::{Finding, Severity};
use crate::document::Document;
use crate::measure::served_by::ServedBy;
use crate::words::code;

/// The state of the machine's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// The precise clocks are answered without a system call, and Unix time is within a known
    /// distance of UTC.
    Ok,
    /// Fast, but not known to be right.
    Unsure,
    /// A call for the time costs more than necessary.
    Slow,
    /// Times are wrong, or a call for the time ends the process.
    Wrong,
    /// The answerer of the clocks, or the kernel's NTP state, is unknown.
    Unknown,
}

/// The state of the machine's clocks, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Health {
    /// `ok`, `unsure` (fast, but not known to be right), `slow`, `wrong` or `unknown`.
    pub(crate) level: Level,
    /// The cost of the time, and whether the time is known to be right, in one sentence without a
    /// full stop.
    pub(crate) text: String,
}

impl Health {
    /// The health that these findings show. They must be sorted by severity.
    pub(crate) fn new(facts: &Document, findings: &[Finding]) -> Self {
        let first = |severity| findings.iter().find(|finding| finding.severity == severity);
        let (wrong, slow, unsure) = (
            first(Severity::Wrong),
            first(Severity::Slow),
            first(Severity::Unsure),
        );
        let right = facts.utc();
        let level = match (wrong, slow, unsure, &right) {
            (Some(_), ..) => Level::Wrong,
            (None, Some(_), ..) => Level::Slow,
            _ if !facts.is_answered_by_vdso() => Level::Unknown,
            (.., Some(_), _) => Level::Unsure,
            (.., Some(_)) => Level::Ok,
            _ => Level::Unknown,
        };
        let cost = cost(facts, slow);
        let time = wrong
            .or(unsure)
            .map(|finding| finding.what.clone())
            .or(right);
        let time = time.unwrap_or_else(|| {
            "whether Unix time is right is unknown: no NTP state was read".to_owned()
        });
        let text = if wrong.is_some() {
            format!("{time}; {cost}")
        } else {
            format!("{cost}; {time}")
        };
        Self { level, text }
    }

    /// Whether a clock was found slow or wrong. A missing claim about Unix time does not count as a
    /// fault, because many containers have no NTP daemon on a host that has one.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self.level, Level::Slow | Level::Wrong)
    }

    /// The sentence, with the level and a hint at the fix.
    pub(crate) fn sentence(&self, findings: &[Finding]) -> String {
        let is_unsure = findings
            .iter()
            .any(|finding| finding.severity == Severity::Unsure);
        let level = match self.level {
            Level::Unsure => "FAST, NOT KNOWN RIGHT".to_owned(),
            Level::Slow if is_unsure => "SLOW, NOT KNOWN RIGHT".to_owned(),
            level => code(level).to_uppercase(),
        };
        let fix = match worst(findings) {
            Some(finding) if finding.fix.is_none => " No fix is known.",
            Some(_) => " Fix below.",
            None => "",
        };
        format!("{level}: {}.{fix}", self.text)
    }
}

/// The most severe finding that needs a fix, if the findings are sorted by severity.
pub(crate) fn worst(findings: &[Finding]) -> Option<&Finding> {
    findings
        .first()
        .filter(|finding| finding.severity != Severity::Note)
}

/// The cost of a call for the time, and the reason if it is slow.
fn cost(facts: &Document, slow: Option<&Finding>) -> String {
    let clocksource = facts
        .clocksource()
        .map_or_else(String::new, |name| format!(" ({name})"));
    match (facts.precise_served_by(), slow) {
        (Some((clock, ServedBy::SystemCall)), _) => {
            let has_gain = slow.is_some_and(|found| found.gain_ratio.is_some());
            let costs = match (
                facts.precise_ns(),
                facts.avoidable_cost_ns().filter(|_| has_gain),
            ) {
                (_, Some((now, then))) => format!(": {now:.0} ns, {then:.0} possible"),
                (Some(now), None) => format!(": {now:.0} ns"),
                (None, None) => String::new(),
            };
            format!(
                "every {} is a system call{costs}{clocksource}",
                clock.split(' ').next().unwrap_or(clock)
            )
        }
        (_, Some(finding)) => finding.what.clone(),
        (Some((clock, ServedBy::Vdso)), None) => {
            let cost = facts
                .precise_ns()
                .map_or_else(String::new, |ns| format!(": {ns:.0} ns a call"));
            format!("the vDSO answers {clock}{cost}{clocksource}")
        }
        _ => format!("it is unknown who answers the clocks{clocksource}"),
    }
}
