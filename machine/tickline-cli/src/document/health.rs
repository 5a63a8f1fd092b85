//! The state of the machine's clocks in one sentence, the first of each output: the cost of the
//! time, and whether the time is known to be right. The sentence is about the machine, not about
//! tickline's use of the counter.

use serde::Serialize;

use super::finding::{Finding, Severity};

tickline_core::named! {
    /// The state of the machine's clocks.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Level {
        /// The precise clocks are answered without a system call, and Unix time is within a known
        /// distance of UTC.
        Ok => "ok",
        /// Fast, but not known to be right.
        Unsure => "unsure",
        /// A call for the time costs more than necessary.
        Slow => "slow",
        /// Times are wrong, or a call for the time ends the process.
        Wrong => "wrong",
        /// The answerer of the clocks, or the kernel's NTP state, is unknown.
        Unknown => "unknown",
    }
}

impl Level {
    /// The word with which a text begins that does not say what the time costs.
    pub(crate) fn word(self) -> String {
        match self {
            Self::Unsure => "NOT KNOWN RIGHT".to_owned(),
            level => level.code().to_uppercase(),
        }
    }
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
    /// The code of the finding that decides the level: the worst, or the note that says why the
    /// level is unknown.
    #[serde(skip)]
    pub(crate) decided_by: Option<&'static str>,
}

impl Health {
    /// Whether a clock was found slow or wrong. A missing claim about Unix time does not count as a
    /// fault, because many containers have no NTP daemon on a host that has one.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self.level, Level::Slow | Level::Wrong)
    }

    /// The finding that decides the level.
    pub(crate) fn finding<'a>(&self, findings: &'a [Finding]) -> Option<&'a Finding> {
        let code = self.decided_by?;
        findings.iter().find(|finding| finding.code == code)
    }

    /// The sentence, with the level and, if there is a fix, `fix_hint`, which says where the fix
    /// is.
    pub(crate) fn sentence(&self, findings: &[Finding], fix_hint: &str) -> String {
        let is_unsure = findings
            .iter()
            .any(|finding| finding.severity == Severity::Unsure);
        let word = self.level.word();
        let level = match self.level {
            Level::Unsure => format!("FAST, {word}"),
            Level::Slow if is_unsure => format!("{word}, {}", Level::Unsure.word()),
            _ => word,
        };
        let sentence = format!("{level}: {}.", self.text);
        match self.finding(findings) {
            Some(finding) if finding.fix.is_impossible() => {
                let code = finding.code;
                if findings.iter().all(|other| other.fix.is_impossible()) {
                    format!("{sentence} No fix is known.")
                } else {
                    format!("{sentence} No fix is known for {code}; another finding has one.")
                }
            }
            Some(_) => format!("{sentence} {fix_hint}"),
            None => sentence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::finding::worst;
    use crate::document::fix::Fix;

    fn finding(severity: Severity, fix: Fix) -> Finding {
        Finding {
            code: "a_code",
            severity,
            what: String::new(),
            evidence: Vec::new(),
            fix,
            gain_ratio: None,
            who: None,
        }
    }

    /// The sentence at this level with these findings.
    fn sentence_with(level: Level, findings: &[Finding]) -> String {
        let health = Health {
            level,
            text: "it costs 900 ns".to_owned(),
            decided_by: worst(findings).map(|finding| finding.code),
        };
        health.sentence(findings, "Fix below.")
    }

    /// The sentence at this level with one finding of this severity and fix.
    fn sentence(level: Level, severity: Severity, fix: Fix) -> String {
        sentence_with(level, &[finding(severity, fix)])
    }

    #[test]
    fn the_sentence_says_where_the_fix_is() {
        let found = sentence(Level::Slow, Severity::Slow, "do it".into());
        assert_eq!(found, "SLOW: it costs 900 ns. Fix below.");
    }

    #[test]
    fn the_sentence_says_that_there_is_no_fix() {
        let found = sentence(Level::Slow, Severity::Slow, Fix::none("why"));
        assert_eq!(found, "SLOW: it costs 900 ns. No fix is known.");
    }

    /// Symptom: "No fix is known." above the fix of a note.
    #[test]
    fn a_finding_without_a_fix_does_not_deny_that_of_another() {
        let findings = [
            finding(Severity::Slow, Fix::none("why")),
            finding(Severity::Note, "do it".into()),
        ];
        let found = sentence_with(Level::Slow, &findings);
        assert_eq!(
            found,
            "SLOW: it costs 900 ns. No fix is known for a_code; another finding has one."
        );
    }

    #[test]
    fn a_note_has_no_fix_in_the_sentence() {
        let found = sentence(Level::Ok, Severity::Note, Fix::none("why"));
        assert_eq!(found, "OK: it costs 900 ns.");
    }

    #[test]
    fn a_time_that_is_not_known_right_is_in_the_level() {
        let unsure = |level| sentence(level, Severity::Unsure, "do it".into());
        assert!(unsure(Level::Unsure).starts_with("FAST, NOT KNOWN RIGHT: "));
        assert!(unsure(Level::Slow).starts_with("SLOW, NOT KNOWN RIGHT: "));
        assert!(unsure(Level::Wrong).starts_with("WRONG: "));
    }
}
