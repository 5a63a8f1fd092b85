//! The fix for a finding, in words and step by step.

use serde::{Serialize, Serializer};

/// The fix for a finding.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Fix {
    /// The fix in words: the command, the kernel's parameter, the hypervisor's setting.
    #[serde(rename = "fix", serialize_with = "in_one_text")]
    #[cfg_attr(test, schemars(with = "String"))]
    parts: Vec<Part>,
    /// The fix step by step, as commands or words; null if an administrator must decide, or if the
    /// steps on another machine are unknown.
    #[serde(rename = "steps", serialize_with = "steps_of")]
    #[cfg_attr(test, schemars(with = "Option<Steps>"))]
    change: Change,
}

/// What a fix changes, with the steps if there are any.
#[derive(Debug, Clone, PartialEq)]
enum Change {
    /// Nothing: there is no fix, and therefore no gain. The text says why.
    Nothing,
    /// The kernel's clocksource, to this one. If there are steps, their `now` makes the switch, and
    /// so does `doctor --fix`.
    Clocksource(String, Option<Steps>),
    /// Anything else.
    Other(Option<Steps>),
}

impl Default for Change {
    fn default() -> Self {
        Self::Other(None)
    }
}

/// A part of the fix in words.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    text: String,
    kind: PartKind,
}

/// What a part is to the part before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartKind {
    /// The next step.
    Step,
    /// What takes the place of the part before it, so it is not the next step.
    Alternative,
    /// Stands before the steps of an alternative that has several.
    Introduction,
    /// The next step of an alternative.
    StepOfAlternative,
}

impl Part {
    fn new(kind: PartKind, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind,
        }
    }
}

impl From<String> for Fix {
    fn from(part: String) -> Self {
        Self {
            parts: vec![Part::new(PartKind::Step, part)],
            ..Self::default()
        }
    }
}

impl From<&str> for Fix {
    fn from(part: &str) -> Self {
        part.to_owned().into()
    }
}

impl Fix {
    /// States that there is no fix, for this reason.
    pub(crate) fn none(why: &str) -> Self {
        Self {
            change: Change::Nothing,
            ..format!("none: {why}").into()
        }
    }

    /// Sets the steps of a fix that is no switch of the clocksource.
    pub(crate) fn with_steps(self, steps: impl Into<Option<Steps>>) -> Self {
        Self {
            change: Change::Other(steps.into()),
            ..self
        }
    }

    /// Sets the clocksource to which the fix switches, and the steps of the switch; `None` if these
    /// are unknown.
    pub(crate) fn with_switch(self, clocksource: &str, steps: Option<Steps>) -> Self {
        Self {
            change: Change::Clocksource(clocksource.to_owned(), steps),
            ..self
        }
    }

    /// Whether there is no fix, and therefore no gain.
    pub(crate) fn is_impossible(&self) -> bool {
        self.change == Change::Nothing
    }

    /// The fix step by step.
    pub(crate) fn steps(&self) -> Option<&Steps> {
        match &self.change {
            Change::Nothing => None,
            Change::Clocksource(_, steps) | Change::Other(steps) => steps.as_ref(),
        }
    }

    /// The clocksource to which the fix switches.
    pub(crate) fn clocksource(&self) -> Option<&str> {
        match &self.change {
            Change::Clocksource(name, _) => Some(name),
            Change::Nothing | Change::Other(_) => None,
        }
    }

    /// The switch of the clocksource that `doctor --fix` makes, and its steps.
    pub(crate) fn switch(&self) -> Option<(&str, &Steps)> {
        match &self.change {
            Change::Clocksource(name, Some(steps)) => Some((name, steps)),
            _ => None,
        }
    }

    /// The same fix in words, without its steps.
    pub(crate) fn without_steps(mut self) -> Self {
        if let Change::Clocksource(_, steps) | Change::Other(steps) = &mut self.change {
            *steps = None;
        }
        self
    }

    /// The same fix in words, for another machine than this one: `place` stands before the text.
    /// The steps were for this machine.
    pub(crate) fn elsewhere(self, place: &str) -> Self {
        if self.is_impossible() {
            return self;
        }
        self.without_steps().introduced_by(place)
    }

    /// Says what must be decided before the steps, if there are any.
    pub(crate) fn with_caution(mut self, caution: &str) -> Self {
        if let Change::Clocksource(_, Some(steps)) | Change::Other(Some(steps)) = &mut self.change {
            steps.caution = Some(caution.to_owned());
        }
        self
    }

    /// Adds a part to the text.
    pub(crate) fn then(mut self, part: impl Into<String>) -> Self {
        self.parts.push(Part::new(PartKind::Step, part));
        self
    }

    /// Adds a part to the text, which takes the place of the part before it.
    pub(crate) fn or(mut self, part: impl Into<String>) -> Self {
        self.parts.push(Part::new(PartKind::Alternative, part));
        self
    }

    /// Adds the text of another fix, without its steps, as an alternative. `introduction` stands
    /// before it, and before its steps if it has several.
    pub(crate) fn or_fix(mut self, introduction: &str, other: &Self) -> Self {
        if other.steps_in_text() < 2 {
            return self.or(format!("{introduction} {}", other.text()));
        }
        self.parts
            .push(Part::new(PartKind::Introduction, introduction));
        for part in &other.parts {
            let mut part = part.clone();
            if part.kind == PartKind::Step {
                part.kind = PartKind::StepOfAlternative;
            }
            self.parts.push(part);
        }
        self
    }

    /// The number of steps of the text, without those of alternatives.
    fn steps_in_text(&self) -> usize {
        let is_step = |part: &&Part| part.kind == PartKind::Step;
        self.parts.iter().filter(is_step).count()
    }

    /// Adds the text of another fix, without its steps. `introduction` stands before it.
    pub(crate) fn then_fix(mut self, introduction: &str, other: Self) -> Self {
        self.parts.extend(other.introduced_by(introduction).parts);
        self
    }

    /// As [`Fix::or_fix`], unless the other states that there is no fix.
    pub(crate) fn or_unless_impossible(self, introduction: &str, other: &Self) -> Self {
        if other.is_impossible() {
            self
        } else {
            self.or_fix(introduction, other)
        }
    }

    /// Puts a part before the text, which `introduction` then joins to it.
    pub(crate) fn preceded_by(self, first: String, introduction: &str) -> Self {
        let mut fix = self.introduced_by(introduction);
        fix.parts.insert(0, Part::new(PartKind::Step, first));
        fix
    }

    fn introduced_by(mut self, introduction: &str) -> Self {
        if let Some(first) = self.parts.first_mut() {
            first.text = format!("{introduction} {}", first.text);
        }
        self
    }

    /// The fix in words.
    pub(crate) fn text(&self) -> String {
        joined(&self.parts)
    }

    /// The texts that a person reads. A long text is one text for each part. Steps are numbered if
    /// there are several, and those of an alternative have letters; an alternative has neither.
    pub(crate) fn paragraphs(&self) -> Vec<String> {
        /// The length of a long text, bytes: three lines.
        const LONG: usize = 250;
        let text = self.text();
        if text.len() < LONG || self.parts.len() == 1 {
            return vec![text];
        }
        let has_numbers = self.steps_in_text() > 1;
        let mut number = 0;
        let mut letters = 'a'..='z';
        let mut paragraphs = Vec::new();
        for part in &self.parts {
            let text = &part.text;
            paragraphs.push(match part.kind {
                PartKind::Step if has_numbers => {
                    number += 1;
                    format!("{number}. {text}")
                }
                PartKind::Step | PartKind::Alternative => text.clone(),
                PartKind::Introduction => {
                    letters = 'a'..='z';
                    text.clone()
                }
                PartKind::StepOfAlternative => {
                    let letter = letters.next().unwrap_or('z');
                    format!("{letter}. {text}")
                }
            });
        }
        paragraphs
    }
}

/// Other programs read the fix as one text.
fn in_one_text<S: Serializer>(parts: &[Part], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&joined(parts))
}

/// Other programs read the steps beside the text.
fn steps_of<S: Serializer>(change: &Change, serializer: S) -> Result<S::Ok, S::Error> {
    match change {
        Change::Nothing => serializer.serialize_none(),
        Change::Clocksource(_, steps) | Change::Other(steps) => steps.serialize(serializer),
    }
}

fn joined(parts: &[Part]) -> String {
    let mut text = String::new();
    let mut separator = "";
    for part in parts {
        text += separator;
        text += &part.text;
        separator = match part.kind {
            PartKind::Introduction => " ",
            PartKind::Step | PartKind::Alternative | PartKind::StepOfAlternative => "; ",
        };
    }
    text
}

/// The machine on which the user takes the steps of a fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// On the machine that the finding is about.
    #[default]
    Here,
    /// On the host, below the hypervisor.
    Host,
}

/// The steps of a fix: commands for a POSIX shell, or words where no short command does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Steps {
    /// The machine on which the user takes the steps: `here`, the machine itself, or `host`, the
    /// host of a guest.
    pub(crate) place: Place,
    /// The command that must succeed first; null if no check is necessary.
    pub(crate) check: Option<String>,
    /// What must be decided first, because the steps can break it; null if they break nothing.
    /// `doctor --fix` says it before it asks.
    pub(crate) caution: Option<String>,
    /// The command that fixes the fault until the next restart; null if only a restart fixes it.
    pub(crate) now: Option<String>,
    /// The command that fixes the fault from the next restart on; null if no short command does.
    pub(crate) keep: Option<String>,
    /// In place of `keep`: what a person edits, one text for each boot loader that the machine may
    /// have; the first says so if it is unknown. Empty if `keep` is not null, if nothing must be
    /// kept, or if the command line selects several clocksources: `fix` then says what to do.
    pub(crate) keep_by_hand: Vec<String>,
    /// The command that undoes `now` at once.
    pub(crate) undo: Option<String>,
    /// The command that undoes `keep`; null if that is null.
    pub(crate) undo_keep: Option<String>,
    /// What undoes `keep_by_hand`: one text; empty if that is empty.
    pub(crate) undo_keep_by_hand: Vec<String>,
}

impl Steps {
    /// The name and the command of each step. The check is named "first": it is shown below the
    /// numbered steps of the text, and comes before them.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let steps = [
            ("first", &self.check),
            ("now", &self.now),
            ("undo", &self.undo),
            ("keep", &self.keep),
            ("undo keep", &self.undo_keep),
        ];
        steps
            .into_iter()
            .filter_map(|(name, command)| Some((name, command.as_deref()?)))
    }

    /// The name and the text of each step that a person does by hand.
    pub(crate) fn by_hand(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let keep = self.keep_by_hand.iter().map(|text| ("keep", text.as_str()));
        let undo = self.undo_keep_by_hand.iter();
        keep.chain(undo.map(|text| ("undo keep", text.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_fix_is_one_paragraph_with_semicolons() {
        let fix = Fix::from("boot with tsc=reliable").then("then compare");
        assert_eq!(fix.paragraphs(), ["boot with tsc=reliable; then compare"]);
    }

    #[test]
    fn each_part_of_a_long_fix_is_a_numbered_paragraph() {
        let long = "x".repeat(250);
        let fix = Fix::from(long.as_str()).then("then compare; again");
        let numbered = [format!("1. {long}"), "2. then compare; again".to_owned()];
        assert_eq!(fix.paragraphs(), numbered);
        assert_eq!(Fix::from(long.as_str()).paragraphs(), [long]);
    }

    /// Symptom: "2. or boot with ..." read as the second of two steps.
    #[test]
    fn an_alternative_is_not_numbered_like_a_step() {
        let long = "x".repeat(250);
        let one_step = Fix::from(long.as_str()).or_fix("or", &"boot with a".into());
        let alternative = "or boot with a".to_owned();
        assert_eq!(one_step.paragraphs(), [long.clone(), alternative.clone()]);
        let two_steps = one_step.then("restart");
        let expected = [format!("1. {long}"), alternative, "2. restart".to_owned()];
        assert_eq!(two_steps.paragraphs(), expected);
    }

    /// Symptom: an alternative of several steps was one paragraph of 90 words.
    #[test]
    fn the_steps_of_an_alternative_have_letters() {
        let long = "x".repeat(250);
        let other = Fix::from("boot with a").then("compare");
        let fix = Fix::from(long.as_str()).or_fix("or:", &other);
        let shown = [long.as_str(), "or:", "a. boot with a", "b. compare"];
        assert_eq!(fix.paragraphs(), shown);
        assert_eq!(fix.text(), format!("{long}; or: boot with a; compare"));
        let again = fix.then("restart").or_fix("or:", &other).paragraphs();
        let numbered = ["1. ", "or:", "a. ", "b. ", "2. ", "or:", "a. ", "b. "];
        let is_numbered = |(text, number): (&String, &&str)| text.starts_with(number);
        assert!(again.iter().zip(&numbered).all(is_numbered), "{again:?}");
    }

    #[test]
    fn a_fix_that_joins_others_keeps_its_own_steps_only() {
        let own = Steps {
            now: Some("own".to_owned()),
            ..Steps::default()
        };
        let other = Fix::from("a").then("b").with_steps(Steps::default());
        let fix = Fix::from("first").with_steps(own.clone());
        let joined = fix
            .then_fix("or", other)
            .preceded_by("check".to_owned(), "then");
        assert_eq!(joined.text(), "check; then first; or a; b");
        assert_eq!(joined.steps(), Some(&own));
    }

    #[test]
    fn a_fix_elsewhere_keeps_its_clocksource_and_has_no_steps() {
        let fix = Fix::from("a")
            .then("b")
            .with_switch("tsc", Some(Steps::default()));
        let elsewhere = fix.elsewhere("there:");
        assert_eq!(elsewhere.text(), "there: a; b");
        assert_eq!(elsewhere.steps(), None);
        assert_eq!(elsewhere.clocksource(), Some("tsc"));
        let none = Fix::none("why");
        assert_eq!(none.clone().elsewhere("there:"), none);
    }

    #[test]
    fn a_fix_of_250_bytes_is_split_into_paragraphs() {
        let paragraphs = |bytes| {
            let first = "x".repeat(bytes - "; y".len());
            Fix::from(first).then("y").paragraphs().len()
        };
        assert_eq!((paragraphs(249), paragraphs(250)), (1, 2));
    }
}
