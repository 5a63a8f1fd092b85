//! Rules for the phases of a guest's report. A rule compares a value that the guest has found with
//! what is expected, and says in words what is wrong. A missing value satisfies only
//! [`is_nothing`] and [`is_not`].

use std::borrow::Cow;
use std::fmt::{self, Debug, Display};

use super::report::{Phase, named};

/// Whether a value is as expected; if not, the value and the expectation in words.
pub(super) type Outcome = Result<(), String>;

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The order of readings, which holds whichever clock serves them.
    Order,
    /// Anything else.
    Other,
}

/// A rule, and the reason for it.
pub(super) struct Rule {
    subject: Subject,
    why: Cow<'static, str>,
    test: Box<dyn Fn(&Phase) -> Outcome>,
}

impl Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

pub(super) fn rule(
    why: impl Into<Cow<'static, str>>,
    test: impl Fn(&Phase) -> Outcome + 'static,
) -> Rule {
    Rule {
        subject: Subject::Other,
        why: why.into(),
        test: Box::new(test),
    }
}

impl From<Rule> for Vec<Rule> {
    fn from(rule: Rule) -> Self {
        vec![rule]
    }
}

/// A rule about the order of readings.
pub(super) fn rule_of_order(why: &'static str, test: impl Fn(&Phase) -> Outcome + 'static) -> Rule {
    Rule {
        subject: Subject::Order,
        ..rule(why, test)
    }
}

/// A rule that must hold in every phase of this name.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) phase: String,
    rule: Rule,
}

impl Check {
    pub(super) fn new(phase: &str, rule: Rule) -> Self {
        Self {
            phase: phase.to_owned(),
            rule,
        }
    }

    /// The checks of these rules in a phase.
    pub(super) fn all(phase: &str, rules: Vec<Rule>) -> impl Iterator<Item = Self> {
        rules.into_iter().map(move |rule| Self::new(phase, rule))
    }

    pub(super) fn is_about_order(&self) -> bool {
        self.rule.subject == Subject::Order
    }

    /// The first phase that violates the check, in words.
    pub(super) fn fault(&self, phases: &[Phase]) -> Option<String> {
        let Self { phase: name, rule } = self;
        let mut is_reached = false;
        for phase in named(phases, name) {
            is_reached = true;
            if let Err(found) = (rule.test)(phase) {
                let fault = format!("{name}: {found}: {}", rule.why);
                return Some(fault + &messages(phase));
            }
        }
        (!is_reached).then(|| format!("{name}: the guest did not get there"))
    }
}

/// The messages of a program, and of the server meanwhile.
fn messages(phase: &Phase) -> String {
    let messages = [
        ("messages", &phase.messages),
        ("messages of the server", &phase.counted.server),
    ];
    let mut text = String::new();
    for (title, messages) in messages {
        if let Some(messages) = messages.as_ref().filter(|messages| !messages.is_empty()) {
            text += &format!("; {title}: {messages}");
        }
    }
    text
}

/// `Ok` if `is_right`, or else the value and the expectation.
fn require(
    is_right: bool,
    what: &str,
    found: Option<impl Display>,
    expected: impl FnOnce() -> String,
) -> Outcome {
    if is_right {
        return Ok(());
    }
    let found = found.map_or_else(|| "missing".to_owned(), |found| found.to_string());
    Err(format!("{what} is {found}, expected {}", expected()))
}

pub(super) fn is(what: &str, found: Option<&str>, expected: &str) -> Outcome {
    is_one_of(what, found, &[expected])
}

pub(super) fn is_one_of(what: &str, found: Option<&str>, expected: &[&str]) -> Outcome {
    let is_right = found.is_some_and(|found| expected.contains(&found));
    require(is_right, what, found, || {
        format!("\"{}\"", expected.join("\" or \""))
    })
}

pub(super) fn is_not(what: &str, found: Option<&str>, unexpected: &str) -> Outcome {
    require(found != Some(unexpected), what, found, || {
        "anything else".to_owned()
    })
}

pub(super) fn is_nothing(what: &str, found: Option<&str>) -> Outcome {
    require(found.is_none(), what, found, || "nothing".to_owned())
}

pub(super) fn has(what: &str, found: Option<&str>, text: &str) -> Outcome {
    let is_right = found.is_some_and(|found| found.contains(text));
    require(is_right, what, found, || format!("a text with \"{text}\""))
}

/// Whether a list has one of these entries.
pub(super) fn lists_one_of(what: &str, found: &[String], expected: &[&str]) -> Outcome {
    let is_right = found.iter().any(|one| expected.contains(&one.as_str()));
    require(is_right, what, Some(found.join(" ")), || {
        format!("a list with \"{}\"", expected.join("\" or \""))
    })
}

pub(super) fn is_true(what: &str, found: Option<bool>) -> Outcome {
    require(found == Some(true), what, found, || "true".to_owned())
}

pub(super) fn is_false(what: &str, found: Option<bool>) -> Outcome {
    require(found == Some(false), what, found, || "false".to_owned())
}

/// How a number may compare with a limit. A limit may be missing, if it is computed.
fn compared<T: PartialOrd + Copy + Display>(
    what: &str,
    found: Option<T>,
    words: &str,
    limit: Option<T>,
    is_right: impl Fn(&T, &T) -> bool,
) -> Outcome {
    let is_right = found
        .zip(limit)
        .is_some_and(|(found, limit)| is_right(&found, &limit));
    require(is_right, what, found, || match limit {
        Some(limit) => format!("{words} {limit}"),
        None => "a limit, which is missing".to_owned(),
    })
}

pub(super) fn equals<T: PartialOrd + Copy + Display>(
    what: &str,
    found: Option<T>,
    expected: T,
) -> Outcome {
    compared(what, found, "exactly", Some(expected), T::eq)
}

pub(super) fn at_least<T: PartialOrd + Copy + Display>(
    what: &str,
    found: Option<T>,
    limit: T,
) -> Outcome {
    compared(what, found, "at least", Some(limit), T::ge)
}

pub(super) fn at_most<T: PartialOrd + Copy + Display>(
    what: &str,
    found: Option<T>,
    limit: T,
) -> Outcome {
    compared(what, found, "at most", Some(limit), T::le)
}

/// As [`at_least`], with a limit that is computed from other values of the report.
pub(super) fn at_least_that<T: PartialOrd + Copy + Display>(
    what: &str,
    found: Option<T>,
    limit: Option<T>,
) -> Outcome {
    compared(what, found, "at least", limit, T::ge)
}

/// As [`at_most`], with a limit that is computed from other values of the report.
pub(super) fn at_most_that<T: PartialOrd + Copy + Display>(
    what: &str,
    found: Option<T>,
    limit: Option<T>,
) -> Outcome {
    compared(what, found, "at most", limit, T::le)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_can_hold_and_can_fail() {
        let text = Some("tsc-early");
        for (holds, fails) in [
            (is("x", text, "tsc-early"), is("x", text, "tsc")),
            (
                is_one_of("x", text, &["a", "tsc-early"]),
                is_one_of("x", text, &["a", "tsc"]),
            ),
            (is_not("x", text, "tsc"), is_not("x", text, "tsc-early")),
            (is_nothing("x", None), is_nothing("x", Some(""))),
            (has("x", text, "early"), has("x", text, "late")),
            (is_true("x", Some(true)), is_true("x", Some(false))),
            (is_false("x", Some(false)), is_false("x", Some(true))),
            (equals("x", Some(3), 3), equals("x", Some(3), 4)),
            (at_least("x", Some(3), 3), at_least("x", Some(2), 3)),
            (at_most("x", Some(3), 3), at_most("x", Some(4), 3)),
            (
                at_least_that("x", Some(2.5), Some(2.5)),
                at_least_that("x", Some(2.4), Some(2.5)),
            ),
            (
                at_most_that("x", Some(2.5), Some(2.5)),
                at_most_that("x", Some(2.6), Some(2.5)),
            ),
        ] {
            assert_eq!(holds, Ok(()));
            assert!(fails.is_err());
        }
        let list = ["unsynchronised".to_owned(), "slow".to_owned()];
        assert_eq!(lists_one_of("x", &list, &["x", "slow"]), Ok(()));
        assert!(lists_one_of("x", &list, &["slower"]).is_err());
    }

    #[test]
    fn a_missing_value_satisfies_no_rule_but_that_it_is_missing_or_is_another() {
        for outcome in [
            is("x", None, ""),
            is_one_of("x", None, &[""]),
            has("x", None, ""),
            lists_one_of("x", &[], &[""]),
            is_true("x", None),
            is_false("x", None),
            equals("x", None, 0),
            at_least("x", None, 0),
            at_most("x", None, 0),
            at_most_that("x", Some(0), None),
            at_least_that("x", Some(0), None),
        ] {
            assert!(outcome.is_err());
        }
        assert_eq!(is_nothing("x", None), Ok(()));
        assert_eq!(is_not("x", None, "y"), Ok(()));
    }

    #[test]
    fn a_check_holds_in_every_phase_of_its_name_and_needs_one() {
        let phase = |name: &str, missed| Phase {
            phase: name.to_owned(),
            missed: Some(missed),
            ..Phase::default()
        };
        let check = Check::new(
            "p",
            rule("no interval misses", |phase| {
                at_most("missed", phase.missed, 0)
            }),
        );
        assert_eq!(check.fault(&[phase("p", 0), phase("q", 1)]), None);
        assert_eq!(
            check.fault(&[phase("p", 0), phase("p", 1)]).unwrap(),
            "p: missed is 1, expected at most 0: no interval misses"
        );
        assert_eq!(
            check.fault(&[phase("q", 0)]).unwrap(),
            "p: the guest did not get there"
        );
    }

    #[test]
    fn a_fault_has_the_messages_of_the_program_and_of_the_server() {
        let mut phase = Phase {
            phase: "p".to_owned(),
            messages: Some("not served".to_owned()),
            ..Phase::default()
        };
        phase.counted.server = Some("no line".to_owned());
        let check = Check::new("p", rule("why", |phase| is_true("done", phase.done)));
        assert_eq!(
            check.fault(&[phase]).unwrap(),
            "p: done is missing, expected true: why; messages: not served; \
             messages of the server: no line"
        );
    }
}
