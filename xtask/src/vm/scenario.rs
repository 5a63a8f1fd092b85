//! The guests of `tests/vm/guests.toml`: machine, kernel, what is done to it, and what must hold in its
//! report.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::packages::Program;
use crate::files;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// QEMU's `-cpu`, by the name that guests give it.
    processors: BTreeMap<String, String>,
    /// Checks that several guests have, by the group's name.
    groups: BTreeMap<String, Vec<String>>,
    guest: Vec<Guest>,
}

/// A guest as the table has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Guest {
    name: String,
    about: String,
    #[serde(default = "invariant")]
    processor: String,
    #[serde(default = "two")]
    cpus: u8,
    #[serde(default = "reliable")]
    kernel: String,
    #[serde(default = "none")]
    act: String,
    #[serde(default = "auto")]
    trust: String,
    waive: Option<String>,
    #[serde(default = "fast")]
    awaits: String,
    #[serde(default = "greedy")]
    readers: String,
    interval_ms: Option<u32>,
    #[serde(default)]
    pace: Pace,
    program: Option<Program>,
    #[serde(default)]
    out_of_order: bool,
    expect: BTreeMap<String, String>,
    checks: Vec<String>,
    #[serde(default)]
    findings: Vec<[String; 3]>,
}

fn invariant() -> String {
    "invariant".into()
}
fn two() -> u8 {
    2
}
fn reliable() -> String {
    "tsc=reliable".into()
}
fn none() -> String {
    "none".into()
}
fn auto() -> String {
    "auto".into()
}
fn fast() -> String {
    "fast".into()
}
fn greedy() -> String {
    "greedy".into()
}

/// How fast the guest's clocks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Pace {
    /// As fast as the host's. If a guest's do not, they were calibrated wrong, and it is booted
    /// again.
    #[default]
    Real,
    Any,
}

/// A guest: what it is, what is done to it, what is expected.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) about: String,
    /// QEMU's `-cpu`.
    pub(super) processor: String,
    pub(super) cpus: u8,
    /// For the kernel: its own settings, and the guest's.
    pub(super) command_line: String,
    pub(super) pace: Pace,
    /// A program of the distribution that the guest needs.
    pub(super) program: Option<Program>,
    pub(super) checks: Vec<Check>,
    pub(super) findings: Vec<Expected>,
}

/// The first finding that the program `tickline` is to print in a phase.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) phase: String,
    /// What is special about the phase.
    pub(super) about: String,
    pub(super) code: String,
}

/// Something that must hold in every phase of this name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) phase: String,
    /// Keys of the phase's JSON, separated by dots.
    pub(super) path: String,
    pub(super) rule: Rule,
    pub(super) when: When,
    pub(super) why: String,
}

/// In which phases of that name a check must hold: it depends on what the comparison of the
/// counters has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Always,
    Unsynchronised,
    NotUnsynchronised,
}

impl When {
    pub(super) fn is_now(self, phase: &Value) -> bool {
        match self {
            Self::Always => true,
            Self::Unsynchronised => are_unsynchronised(phase),
            Self::NotUnsynchronised => !are_unsynchronised(phase),
        }
    }
}

/// Whether the comparison has found the counters of two CPUs unsynchronised.
pub(super) fn are_unsynchronised(phase: &Value) -> bool {
    phase["comparison"]["found"] == "unsynchronised"
}

/// What a value must be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Is(String),
    /// A text with this in it.
    Has(String),
    OneOf(Vec<String>),
    /// A list that has one of these.
    Lists(Vec<String>),
    True,
    False,
    Nothing,
    Exactly(u64),
    AtLeast(u64),
    /// At most so much; or so many times another value of the same phase, plus a third one.
    AtMost(u64, Option<String>, Option<String>),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(text) => write!(f, "\"{text}\""),
            Self::Has(text) => write!(f, "a text with \"{text}\""),
            Self::OneOf(texts) => write!(f, "one of {texts:?}"),
            Self::Lists(texts) => write!(f, "a list with one of {texts:?}"),
            Self::True => write!(f, "true"),
            Self::False => write!(f, "false"),
            Self::Nothing => write!(f, "nothing"),
            Self::Exactly(number) => write!(f, "{number}"),
            Self::AtLeast(limit) => write!(f, "at least {limit}"),
            Self::AtMost(limit, None, _) => write!(f, "at most {limit}"),
            Self::AtMost(factor, Some(path), None) => write!(f, "at most {factor} times {path}"),
            Self::AtMost(factor, Some(path), Some(more)) => {
                write!(f, "at most {factor} times {path} and {more}")
            }
        }
    }
}

impl Rule {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let list = |texts: &str| texts.split(", ").map(str::to_owned).collect();
        Some(match text.split_once(' ')? {
            ("is", "true") => Self::True,
            ("is", "false") => Self::False,
            ("is", "nothing") => Self::Nothing,
            ("is", text) => Self::Is(text.trim().into()),
            ("has", text) => Self::Has(text.into()),
            ("one", texts) => Self::OneOf(list(texts.strip_prefix("of ")?)),
            ("lists", texts) => Self::Lists(list(texts)),
            ("=", number) => Self::Exactly(number.parse().ok()?),
            (">=", number) => Self::AtLeast(number.parse().ok()?),
            ("<=", rest) => match rest.split_once(" * ") {
                None => Self::AtMost(rest.parse().ok()?, None, None),
                Some((factor, paths)) => {
                    let (path, more) =
                        paths.split_once(" + ").map_or((paths, None), |(path, more)| (path, Some(more)));
                    Self::AtMost(factor.parse().ok()?, Some(path.into()), more.map(str::to_owned))
                }
            },
            _ => return None,
        })
    }
}

impl Check {
    /// `PATH RULE [unless unsynchronised | if unsynchronised] # why`.
    pub(super) fn parse(phase: &str, line: &str) -> Result<Self, String> {
        let parse = || {
            let (rule, why) = line.split_once(" # ")?;
            let (path, rule) = rule.split_once(' ')?;
            let (rule, when) = match (
                rule.strip_suffix(" unless unsynchronised"),
                rule.strip_suffix(" if unsynchronised"),
            ) {
                (Some(rule), _) => (rule, When::NotUnsynchronised),
                (_, Some(rule)) => (rule, When::Unsynchronised),
                _ => (rule, When::Always),
            };
            let (phase, path, why) = (phase.to_owned(), path.to_owned(), why.to_owned());
            Some(Self { phase, path, rule: Rule::parse(rule)?, when, why })
        };
        parse().ok_or_else(|| format!("guests.toml: no check: {line}"))
    }
}

/// Every guest.
pub(super) fn all() -> Result<Vec<Scenario>, String> {
    let table: Result<Table, _> = toml::from_str(&files::read("tests/vm/guests.toml")?);
    let Table { processors, groups, guest } = table.map_err(|error| format!("guests.toml: {error}"))?;
    guest.into_iter().map(|guest| scenario(&processors, &groups, guest)).collect()
}

/// QEMU's `-cpu` of most guests.
pub(super) fn processor() -> Result<String, String> {
    let all = all()?;
    all.into_iter().next().map(|first| first.processor).ok_or_else(|| "guests.toml has no guest".into())
}

fn scenario(
    processors: &BTreeMap<String, String>,
    groups: &BTreeMap<String, Vec<String>>,
    mut guest: Guest,
) -> Result<Scenario, String> {
    for (group, phase, is_wanted) in [
        ("order", "end", !guest.out_of_order),
        // With one there is nobody to exchange readings with.
        ("exchanges", "end", guest.cpus > 1),
        ("followed", "set_clock", true),
        ("prompt", "set_clock", guest.pace == Pace::Real),
    ] {
        if is_wanted {
            guest.expect.insert(group.to_owned(), phase.to_owned());
        }
    }
    let mut checks = Vec::new();
    for (group, phases) in &guest.expect {
        let lines = groups.get(group).ok_or_else(|| format!("guests.toml has no group {group}"))?;
        for phase in phases.split(' ') {
            for line in lines {
                checks.push(Check::parse(phase, line)?);
            }
        }
    }
    for line in &guest.checks {
        let (phase, line) = line.split_once(' ').unwrap_or_default();
        checks.push(Check::parse(phase, line)?);
    }
    // A panic ends the guest: QEMU is told not to boot again.
    let mut command_line = format!(
        "console=ttyS0 panic=-1 {} tickline.act={} tickline.trust={} tickline.awaits={} tickline.readers={}",
        guest.kernel, guest.act, guest.trust, guest.awaits, guest.readers
    );
    if let Some(waived) = &guest.waive {
        command_line += &format!(" tickline.waive={waived}");
    }
    if let Some(ms) = guest.interval_ms {
        command_line += &format!(" tickline.interval_ms={ms}");
    }
    let processor = processors.get(&guest.processor).cloned();
    let findings = guest.findings.into_iter().map(|[phase, about, code]| Expected { phase, about, code });
    Ok(Scenario {
        processor: processor.ok_or_else(|| format!("guests.toml has no processor {}", guest.processor))?,
        name: guest.name,
        about: guest.about,
        cpus: guest.cpus,
        command_line,
        pace: guest.pace,
        program: guest.program,
        checks,
        findings: findings.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_every_scenario_expects_something() {
        let scenarios = all().unwrap();
        assert!(scenarios.len() > 30);
        for (index, one) in scenarios.iter().enumerate() {
            assert!(scenarios[..index].iter().all(|other| other.name != one.name), "{} twice", one.name);
            let states = |phase| {
                one.checks
                    .iter()
                    .any(|it| it.phase == phase && ["state", "reason"].contains(&it.path.as_str()))
            };
            assert!(states("before") && states("after"), "{} expects no state", one.name);
            assert!(one.checks.iter().any(|it| it.path.contains("backward")), "{}: no order", one.name);
        }
    }

    #[test]
    fn a_line_that_is_no_check_is_refused() {
        for wrong in ["", "path", "path is tsc", "path <= x # why", "path about 3 # why", "is # why"] {
            assert!(Check::parse("p", wrong).is_err(), "{wrong}");
        }
    }
}
