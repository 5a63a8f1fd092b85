//! Judges the state of the machine's clocks from facts and findings.

use crate::document::{Document, Finding, Health, Level, Severity};
use crate::measure::served_by::ServedBy;

impl Health {
    /// The health that these findings show. They must be sorted by severity.
    pub(crate) fn new(document: &Document, findings: &[Finding]) -> Self {
        let first = |severity| findings.iter().find(|finding| finding.severity == severity);
        let wrong = first(Severity::Wrong);
        let slow = first(Severity::Slow);
        let unsure = first(Severity::Unsure);
        let known_right = document.utc();

        let level = if wrong.is_some() {
            Level::Wrong
        } else if slow.is_some() {
            Level::Slow
        } else if !document.is_answered_by_vdso() {
            Level::Unknown
        } else if unsure.is_some() {
            Level::Unsure
        } else if known_right.is_some() {
            Level::Ok
        } else {
            Level::Unknown
        };

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
        Self { level, text }
    }
}

/// The cost of a call for the time, and the reason if it is slow.
fn cost(document: &Document, slow: Option<&Finding>) -> String {
    let clocksource = match document.clocksource() {
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
        let cost = match document.precise_ns() {
            Some(ns) => format!("takes {ns:.0} ns"),
            None => "needs no system call".to_owned(),
        };
        let clocksource = match document.clocksource() {
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
    match (document.precise_ns(), document.avoidable_cost_ns()) {
        (_, Some((now_ns, then_ns))) if has_gain => {
            format!(": {now_ns:.0} ns, {then_ns:.0} possible")
        }
        (Some(now_ns), _) => format!(": {now_ns:.0} ns"),
        (None, _) => String::new(),
    }
}
