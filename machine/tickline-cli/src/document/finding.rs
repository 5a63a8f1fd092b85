//! A finding: the result of a rule (`diagnose`).

use serde::Serialize;

use super::explanation::Explained;
use super::fix::{Fix, Place};
use crate::sudo;

tickline_core::named! {
    /// The severity of a finding, the most severe first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Severity {
        /// Times are wrong, or a call for the time ends the process.
        Wrong => "wrong",
        /// A call for the time costs more than necessary.
        Slow => "slow",
        /// Times are not known to be right.
        Unsure => "unsure",
        /// Worth knowing.
        Note => "note",
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Finding {
    /// The finding's stable code.
    pub(crate) code: &'static str,
    /// The finding's severity.
    pub(crate) severity: Severity,
    /// The finding in one sentence, without a full stop.
    pub(crate) what: String,
    /// The facts and measurements that show the finding. Never empty.
    pub(crate) evidence: Vec<String>,
    #[serde(flatten)]
    pub(crate) fix: Fix,
    /// The present cost of a clock as a multiple of its cost after the fix, by measurements on the
    /// machine; null if unknown.
    pub(crate) gain_ratio: Option<f64>,
    /// The command that counts which programs make such calls; null if the finding is not about the
    /// cost of calls.
    pub(crate) who: Option<&'static str>,
}

/// A part of a finding, as text and HTML show it.
#[derive(Debug)]
pub(crate) enum Detail {
    Text(String),
    /// A command, which is not wrapped so that users can copy it.
    Command(String),
}

impl Finding {
    /// Times are wrong: this sentence, which evidence and a fix must follow.
    pub(crate) fn wrong(code: impl Explained, what: impl Into<String>) -> Self {
        Self::new(Severity::Wrong, &code, what.into())
    }

    /// A call costs more than necessary: this sentence, which evidence and a fix must follow.
    pub(crate) fn slow(code: impl Explained, what: impl Into<String>) -> Self {
        Self {
            who: Some("sudo tickline who"),
            ..Self::new(Severity::Slow, &code, what.into())
        }
    }

    /// Times are not known to be right: this sentence, which evidence and a fix must follow.
    pub(crate) fn unsure(code: impl Explained, what: impl Into<String>) -> Self {
        Self::new(Severity::Unsure, &code, what.into())
    }

    /// Worth knowing: this sentence, which evidence and a fix must follow.
    pub(crate) fn note(code: impl Explained, what: impl Into<String>) -> Self {
        Self::new(Severity::Note, &code, what.into())
    }

    fn new(severity: Severity, code: &impl Explained, what: String) -> Self {
        Self {
            code: code.explanation().code,
            severity,
            what,
            evidence: Vec::new(),
            fix: Fix::default(),
            gain_ratio: None,
            who: None,
        }
    }

    /// Adds one text to the evidence.
    pub(crate) fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// Adds any number of texts to the evidence, such as those of an `Option`.
    pub(crate) fn seen_all(mut self, evidence: impl IntoIterator<Item = String>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Sets the fix: a text, or a text with steps.
    pub(crate) fn fix(mut self, fix: impl Into<Fix>) -> Self {
        self.fix = fix.into();
        self
    }

    /// Whether `doctor --fix` fixes the fault, by a switch to another clocksource.
    pub(crate) fn is_fixed_by_switch(&self) -> bool {
        self.fix.switch().is_some() && self.severity < Severity::Note
    }

    /// The labels and texts below the finding's sentence, in text and HTML. `program` is the name
    /// by which `sudo` finds this program on the machine of the finding.
    pub(crate) fn details(&self, program: &str) -> Vec<(&'static str, Detail)> {
        let mut details = Vec::new();
        for text in &self.evidence {
            details.push(("seen", Detail::Text(text.clone())));
        }
        for text in self.fix.paragraphs() {
            details.push(("fix", Detail::Text(text)));
        }
        if self.is_fixed_by_switch() {
            let text = format!(
                "or run `sudo {program} doctor --fix` (as root, where there is no sudo), which \
                 prints these steps, and asks before it changes anything"
            );
            details.push(("fix", Detail::Text(text)));
        }
        if let Some(steps) = self.fix.steps() {
            if steps.place == Place::Host {
                let text = "the following commands on the host".to_owned();
                details.push(("run", Detail::Text(text)));
            }
            for (name, command) in steps.named() {
                details.push((name, Detail::Command(command.to_owned())));
            }
            for (name, text) in steps.by_hand() {
                details.push((name, Detail::Text(text.to_owned())));
            }
        }
        if let Some(ratio) = self.gain_ratio {
            let text = format!("{ratio:.1} times as fast, by the measured costs");
            details.push(("gain", Detail::Text(text)));
        }
        if let Some(command) = self.who {
            let command = sudo::with_program(command, program);
            let text = format!("{command} (counts the calls of each program)");
            details.push(("who", Detail::Text(text)));
        }
        details
    }
}

/// The most severe finding that needs a fix, if the findings are sorted by severity.
pub(crate) fn worst(findings: &[Finding]) -> Option<&Finding> {
    let first = findings.first()?;
    if first.severity == Severity::Note {
        return None;
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::fix::Steps;

    fn finding(severity: Severity, fix: Fix) -> Finding {
        Finding {
            code: "a_code",
            severity,
            what: "what".to_owned(),
            evidence: vec!["evidence".to_owned()],
            fix,
            gain_ratio: None,
            who: None,
        }
    }

    /// The details as lines, if `sudo` finds the program by its usual name.
    fn lines(finding: &Finding) -> Vec<String> {
        lines_with(finding, sudo::NAME)
    }

    /// The details as lines, if `sudo` finds the program by this name.
    fn lines_with(finding: &Finding, program: &str) -> Vec<String> {
        let line = |(label, detail)| match detail {
            Detail::Text(text) => format!("{label}: {text}"),
            Detail::Command(command) => format!("{label}$ {command}"),
        };
        finding.details(program).into_iter().map(line).collect()
    }

    fn with_steps(place: Place) -> Finding {
        let steps = Steps {
            place,
            now: Some("a command".to_owned()),
            ..Steps::default()
        };
        finding(Severity::Wrong, Fix::from("do it").with_steps(steps))
    }

    #[test]
    fn a_finding_has_its_evidence_its_fix_and_the_commands() {
        assert_eq!(
            lines(&with_steps(Place::Here)),
            ["seen: evidence", "fix: do it", "now$ a command"]
        );
    }

    /// Symptom: the finding did not name the command that makes the change, and prints how to keep
    /// it.
    #[test]
    fn a_switch_that_the_doctor_can_make_names_its_command() {
        let switch = Fix::from("do it").with_switch("tsc", Some(Steps::default()));
        let names_it = |severity| {
            let lines = lines(&finding(severity, switch.clone()));
            lines
                .iter()
                .any(|line| line.contains("`sudo tickline doctor --fix`"))
        };
        assert!(names_it(Severity::Slow));
        assert!(!names_it(Severity::Note), "--fix ignores notes");
    }

    /// Symptom: "command not found" of a command that a text had told the user to run.
    #[test]
    fn a_command_has_the_name_by_which_sudo_finds_the_program() {
        let switch = Fix::from("do it").with_switch("tsc", Some(Steps::default()));
        let finding = Finding {
            who: Some("sudo tickline who"),
            ..finding(Severity::Slow, switch)
        };
        let lines = lines_with(&finding, "/a/tickline").join("\n");
        for command in ["`sudo /a/tickline doctor --fix`", "sudo /a/tickline who ("] {
            assert!(lines.contains(command), "no {command} in {lines}");
        }
    }

    #[test]
    fn commands_for_the_host_are_introduced() {
        assert_eq!(
            lines(&with_steps(Place::Host)),
            [
                "seen: evidence",
                "fix: do it",
                "run: the following commands on the host",
                "now$ a command"
            ]
        );
    }

    #[test]
    fn the_gain_has_one_decimal_and_the_count_its_command() {
        let finding = Finding {
            gain_ratio: Some(29.96),
            who: Some("sudo tickline who"),
            ..finding(Severity::Slow, Fix::from("do it"))
        };
        assert_eq!(
            lines(&finding)[2..],
            [
                "gain: 30.0 times as fast, by the measured costs",
                "who: sudo tickline who (counts the calls of each program)"
            ]
        );
    }

    #[test]
    fn a_note_is_not_the_worst_finding() {
        let note = finding(Severity::Note, Fix::default());
        assert_eq!(worst(std::slice::from_ref(&note)), None);
    }

    #[test]
    fn no_findings_have_no_worst_one() {
        assert_eq!(worst(&[]), None);
    }

    #[test]
    fn the_first_finding_is_the_worst() {
        let [slow, note] = [Severity::Slow, Severity::Note].map(|of| finding(of, Fix::default()));
        assert_eq!(worst(&[slow.clone(), note]), Some(&slow));
    }
}
