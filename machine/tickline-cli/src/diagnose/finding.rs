//! A finding: the result of a rule.

use serde::{Deserialize, Serialize};

use super::facts::is_plain_counter;
use super::fix::Fix;
use super::steps::{Place, Steps};
use super::texts::{self, Values};
use crate::document::Document;

/// The severity of a finding, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// Times are wrong, or a call for the time ends the process.
    Wrong,
    /// A call for the time costs more than necessary.
    Slow,
    /// Times are not known to be right.
    Unsure,
    /// Worth knowing.
    Note,
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
    /// The finding with this key in `texts.json`. `values` replace the names in braces.
    pub(super) fn new(key: &'static str, values: Values<'_>) -> Self {
        let words = texts::words(key, values);
        let severity = words.severity.unwrap_or(Severity::Note);
        Self {
            code: texts::code(key),
            severity,
            what: words.what,
            evidence: words.evidence,
            fix: words
                .no_fix
                .map_or_else(|| words.fix.into(), |why| Fix::none(&why)),
            gain_ratio: None,
            who: (severity == Severity::Slow).then_some("sudo tickline who"),
        }
    }

    /// The labels and texts below the finding's sentence, in text and HTML.
    pub(crate) fn details(&self) -> Vec<(&'static str, Detail)> {
        let gain = self
            .gain_ratio
            .map(|ratio| format!("{ratio:.1} times as fast, by the measured costs"));
        let who = self
            .who
            .map(|command| format!("{command} (counts the calls of each program)"));
        let texts = self.evidence.iter().map(|text| ("seen", text.clone()));
        let texts = texts.chain(self.fix.parts().into_iter().map(|part| ("fix", part)));
        let is_host = self
            .fix
            .steps
            .as_ref()
            .is_some_and(|steps| steps.place == Place::Host);
        let texts =
            texts.chain(is_host.then(|| ("run", "the following commands on the host".to_owned())));
        let commands = self.fix.steps.iter().flat_map(Steps::named);
        let commands = commands.map(|(name, command)| (name, Detail::Command(command.to_owned())));
        let last = gain
            .map(|gain| ("gain", gain))
            .into_iter()
            .chain(who.map(|who| ("who", who)));
        let text = |(name, text)| (name, Detail::Text(text));
        texts
            .map(text)
            .chain(commands)
            .chain(last.map(text))
            .collect()
    }

    /// Adds evidence: any number of texts, such as an `Option`.
    pub(super) fn with_evidence(mut self, evidence: impl IntoIterator<Item = String>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Adds the present and the attainable cost of a call, and the gain if there is a fix. Adds
    /// nothing for a fix to a clocksource other than the counter, whose cost was not measured.
    pub(super) fn with_gain(self, facts: &Document) -> Self {
        let target = self
            .fix
            .steps
            .as_ref()
            .and_then(|steps| steps.clocksource.as_deref());
        let is_counters = match target.or(facts.clocksource()) {
            _ if self.code.starts_with("tsc_") => true,
            Some("xen") => facts.invariant() != Some(false),
            name => name.is_none_or(is_plain_counter),
        };
        let Some((now_ns, then_ns)) = facts.avoidable_cost_ns().filter(|_| is_counters) else {
            return self;
        };
        let gain_ratio = (!self.fix.is_none).then_some(now_ns / then_ns);
        let evidence = format!(
            "a call takes {now_ns:.0} ns; {then_ns:.0} ns (a coarse clock plus a counter read) is attainable"
        );
        Self {
            gain_ratio,
            ..self.with_evidence([evidence])
        }
    }

    pub(super) fn with_fix(mut self, fix: impl Into<Fix>) -> Self {
        self.fix = fix.into();
        self
    }

    /// Adds commands to the fix, and keeps its text.
    pub(super) fn with_steps(mut self, steps: Steps) -> Self {
        self.fix.steps = Some(steps);
        self
    }
}
