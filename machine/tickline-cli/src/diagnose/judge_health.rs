//! Judges the state of the machine's clocks from facts and findings.

use super::process;
use crate::document::{Document, Finding, Health, Level, Severity, worst};
use crate::measure::served_by::ServedBy;

impl Health {
    /// The health that these findings show. They must be sorted by severity.
    pub(crate) fn new(document: &Document, findings: &[Finding]) -> Self {
        let first = |severity| findings.iter().find(|finding| finding.severity == severity);
        let wrong = first(Severity::Wrong);
        let slow = first(Severity::Slow);
        let unsure = first(Severity::Unsure);
        let known_right = document.utc_bound_in_words();
        let level = level(document, findings, &[]);

        let cost = cost(document, slow);
        let time = match (wrong.or(unsure), known_right) {
            (Some(finding), _) => finding.what.clone(),
            (None, Some(text)) => text,
            (None, None) => {
                "whether Unix time is right is unknown: no NTP state was read".to_owned()
            }
        };
        let text = if wrong.is_some() {
            format!("{time}; {cost}")
        } else {
            format!("{cost}; {time}")
        };
        let decided_by = match level {
            Level::Unknown => {
                let reason = findings.iter().find(|finding| is_of_answerers(finding));
                reason.or(worst(findings))
            }
            _ => worst(findings),
        };
        Self {
            level,
            text,
            decided_by: decided_by.map(|finding| finding.code),
        }
    }
}

/// Whether this is the note that says why the answerer of the clocks is unknown.
fn is_of_answerers(finding: &Finding) -> bool {
    finding.code == process::Code::AnswerersUnknown.code()
}

/// The level that these findings show, without those whose codes are `accepted`. What an accepted
/// finding leaves unknown is accepted with it.
pub(crate) fn level(document: &Document, findings: &[Finding], accepted: &[String]) -> Level {
    let is_accepted = |finding: &&Finding| accepted.iter().any(|code| code == finding.code);
    let counts = |severity| {
        let mut found = findings
            .iter()
            .filter(|finding| finding.severity == severity);
        found.any(|finding| !is_accepted(&finding))
    };
    let accepts = |is_about: fn(&Finding) -> bool| {
        let mut found = findings.iter().filter(is_accepted);
        found.any(is_about)
    };
    let accepts_cost =
        accepts(|finding| finding.severity == Severity::Slow || is_of_answerers(finding));
    // Without an NTP state, no finding says anything about Unix time.
    let accepts_time = document.machine.ntp.is_some()
        && accepts(|finding| matches!(finding.severity, Severity::Wrong | Severity::Unsure));

    if counts(Severity::Wrong) {
        Level::Wrong
    } else if counts(Severity::Slow) {
        Level::Slow
    } else if !document.is_answered_by_vdso() && !accepts_cost {
        Level::Unknown
    } else if counts(Severity::Unsure) {
        Level::Unsure
    } else if document.utc_bound_in_words().is_some() || accepts_time {
        Level::Ok
    } else {
        Level::Unknown
    }
}

/// The cost of a call for the time, and the reason if it is slow.
fn cost(document: &Document, slow: Option<&Finding>) -> String {
    let clocksource = match document.machine.clocksource() {
        Some(name) => format!(" ({name})"),
        None => String::new(),
    };
    let served_by = document.precise_served_by();
    if let Some((clock, ServedBy::SystemCall)) = served_by {
        let function = clock.split(' ').next().unwrap_or(clock);
        let costs = costs_of_system_call(document, slow);
        return format!("every {function} is a system call{costs}{clocksource}");
    }
    if let Some(finding) = slow {
        return finding.what.clone();
    }
    if let Some((clock, ServedBy::Vdso)) = served_by {
        let function = clock.split(' ').next().unwrap_or(clock);
        let cost = match document.precise_cost_ns() {
            Some(ns) => format!("takes {ns:.0} ns"),
            None => "needs no system call".to_owned(),
        };
        let clocksource = match document.machine.clocksource() {
            Some(name) => format!(", {name}"),
            None => String::new(),
        };
        return format!("{function} {cost} (vDSO{clocksource})");
    }
    format!("it is unknown who answers the clocks{clocksource}")
}

/// The present cost, and the attainable cost if the finding has a fix that leads to it.
fn costs_of_system_call(document: &Document, slow: Option<&Finding>) -> String {
    let has_gain = slow.is_some_and(|finding| finding.gain_ratio.is_some());
    match (document.precise_cost_ns(), document.avoidable_cost_ns()) {
        (_, Some((now_ns, then_ns))) if has_gain => {
            format!(": {now_ns:.0} ns, {then_ns:.0} possible")
        }
        (Some(now_ns), _) => format!(": {now_ns:.0} ns"),
        (None, _) => String::new(),
    }
}
