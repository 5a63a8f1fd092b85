//! Rules for the phases of a guest's report. A rule compares a figure that the guest has found with
//! what is expected, and says in words what is wrong. A missing figure satisfies only
//! [`is_nothing`] and [`is_not`].

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Debug, Display};

use super::phase::Phase;

/// A figure of a phase, and its name: the path of the field, from the phase on.
#[derive(Debug)]
pub(super) struct Figure<'a, T> {
    pub(super) name: &'static str,
    pub(super) found: Option<&'a T>,
}

/// The figure in a field of a phase, or in a field of one of its parts. Part and field may be
/// missing: `Option::from` makes an `Option<&T>` from an `&Option<T>` as well as from a `&T`.
macro_rules! figure {
    ($phase:ident.$field:ident) => {
        $crate::vm::check::Figure {
            name: stringify!($field),
            found: Option::from(&$phase.$field),
        }
    };
    ($phase:ident.$part:ident.$($field:ident).+) => {
        $crate::vm::check::Figure {
            name: concat!(stringify!($part), $(".", stringify!($field)),+),
            found: $phase
                .$part
                .as_ref()
                .and_then(|part| Option::from(&part.$($field).+)),
        }
    };
}
pub(super) use figure;

pub(super) fn named<'a>(phases: &'a [Phase], name: &'a str) -> impl Iterator<Item = &'a Phase> {
    phases.iter().filter(move |phase| phase.name == name)
}

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
    let server = phase.counted.as_ref().map(|counted| &counted.server);
    let messages = [
        ("messages", phase.messages.as_ref()),
        ("messages of the server", server),
    ];
    let mut text = String::new();
    for (title, messages) in messages {
        if let Some(messages) = messages.filter(|messages| !messages.is_empty()) {
            text += &format!("; {title}: {messages}");
        }
    }
    text
}

/// `Ok` if `is_right`, or else the figure and the expectation.
fn require(
    is_right: bool,
    name: &str,
    found: Option<impl Display>,
    expected: impl FnOnce() -> String,
) -> Outcome {
    if is_right {
        return Ok(());
    }
    let found = found.map_or_else(|| "missing".to_owned(), |found| found.to_string());
    Err(format!("{name} is {found}, expected {}", expected()))
}

pub(super) fn is(Figure { name, found }: Figure<'_, String>, expected: &str) -> Outcome {
    let is_right = found.is_some_and(|found| found == expected);
    require(is_right, name, found, || format!("\"{expected}\""))
}

pub(super) fn is_one_of<T: PartialEq<E> + Display, E: Display>(
    Figure { name, found }: Figure<'_, T>,
    expected: &[E],
) -> Outcome {
    let is_right = found.is_some_and(|found| expected.iter().any(|one| found == one));
    require(is_right, name, found, || choice(expected))
}

/// These values in words, of which one is right.
fn choice<E: Display>(expected: &[E]) -> String {
    let expected: Vec<String> = expected.iter().map(E::to_string).collect();
    format!("\"{}\"", expected.join("\" or \""))
}

pub(super) fn is_not(Figure { name, found }: Figure<'_, String>, unexpected: &str) -> Outcome {
    let is_right = found.is_none_or(|found| found != unexpected);
    require(is_right, name, found, || "anything else".to_owned())
}

pub(super) fn is_nothing(Figure { name, found }: Figure<'_, String>) -> Outcome {
    require(found.is_none(), name, found, || "nothing".to_owned())
}

pub(super) fn has(Figure { name, found }: Figure<'_, String>, text: &str) -> Outcome {
    let is_right = found.is_some_and(|found| found.contains(text));
    require(is_right, name, found, || format!("a text with \"{text}\""))
}

/// Whether the first of several texts has this one.
pub(super) fn first_has(Figure { name, found }: Figure<'_, Vec<String>>, text: &str) -> Outcome {
    let found = found.and_then(|found| found.first());
    has(Figure { name, found }, text)
}

/// Whether a list has one of these entries.
pub(super) fn lists_one_of(
    Figure { name, found }: Figure<'_, BTreeSet<String>>,
    expected: &[&str],
) -> Outcome {
    let is_right = found.is_some_and(|found| expected.iter().any(|one| found.contains(*one)));
    let found = found.map(|found| Vec::from_iter(found.iter().map(String::as_str)).join(" "));
    require(is_right, name, found, || {
        format!("a list with {}", choice(expected))
    })
}

/// Whether a list has exactly these entries.
pub(super) fn lists(Figure { name, found }: Figure<'_, Vec<bool>>, expected: &[bool]) -> Outcome {
    let is_right = found.is_some_and(|found| found == expected);
    let found = found.map(|found| format!("{found:?}"));
    require(is_right, name, found, || format!("{expected:?}"))
}

pub(super) fn is_true(Figure { name, found }: Figure<'_, bool>) -> Outcome {
    require(found == Some(&true), name, found, || "true".to_owned())
}

pub(super) fn is_false(Figure { name, found }: Figure<'_, bool>) -> Outcome {
    require(found == Some(&false), name, found, || "false".to_owned())
}

/// How a number may compare with a limit. A limit may be missing, if it is computed.
fn compared<T: PartialOrd + Display>(
    Figure { name, found }: Figure<'_, T>,
    words: &str,
    limit: Option<T>,
    is_right: impl Fn(&T, &T) -> bool,
) -> Outcome {
    let is_right = found
        .zip(limit.as_ref())
        .is_some_and(|(found, limit)| is_right(found, limit));
    require(is_right, name, found, || match limit {
        Some(limit) => format!("{words} {limit}"),
        None => "a limit, which is missing".to_owned(),
    })
}

pub(super) fn equals<T: PartialOrd + Display>(figure: Figure<'_, T>, expected: T) -> Outcome {
    compared(figure, "exactly", Some(expected), T::eq)
}

pub(super) fn at_least<T: PartialOrd + Display>(figure: Figure<'_, T>, limit: T) -> Outcome {
    compared(figure, "at least", Some(limit), T::ge)
}

pub(super) fn at_most<T: PartialOrd + Display>(figure: Figure<'_, T>, limit: T) -> Outcome {
    compared(figure, "at most", Some(limit), T::le)
}

/// As [`at_least`], with a limit that is computed from other figures of the report.
pub(super) fn at_least_that<T: PartialOrd + Display>(
    figure: Figure<'_, T>,
    limit: Option<T>,
) -> Outcome {
    compared(figure, "at least", limit, T::ge)
}

/// As [`at_most`], with a limit that is computed from other figures of the report.
pub(super) fn at_most_that<T: PartialOrd + Display>(
    figure: Figure<'_, T>,
    limit: Option<T>,
) -> Outcome {
    compared(figure, "at most", limit, T::le)
}

#[cfg(test)]
mod tests {
    use super::super::phase::{Counted, Found, ProgramRun, Utc};
    use super::*;

    fn x<T>(found: &T) -> Figure<'_, T> {
        Figure {
            name: "x",
            found: Some(found),
        }
    }

    fn missing<T: 'static>() -> Figure<'static, T> {
        Figure {
            name: "x",
            found: None,
        }
    }

    #[test]
    fn each_rule_can_hold_and_can_fail() {
        let text = &"tsc-early".to_owned();
        let texts = &Vec::from(["first", "second"].map(str::to_owned));
        let list = &BTreeSet::from(["unsynchronised", "slow"].map(str::to_owned));
        let bools = &Vec::from([true, false]);
        for (holds, fails) in [
            (is(x(text), "tsc-early"), is(x(text), "tsc")),
            (
                is_one_of(x(text), &["a", "tsc-early"]),
                is_one_of(x(text), &["a", "tsc"]),
            ),
            (is_not(x(text), "tsc"), is_not(x(text), "tsc-early")),
            (is_nothing(missing()), is_nothing(x(&String::new()))),
            (has(x(text), "early"), has(x(text), "late")),
            (first_has(x(texts), "irs"), first_has(x(texts), "second")),
            (
                lists_one_of(x(list), &["x", "slow"]),
                lists_one_of(x(list), &["slower"]),
            ),
            (lists(x(bools), &[true, false]), lists(x(bools), &[true])),
            (is_true(x(&true)), is_true(x(&false))),
            (is_false(x(&false)), is_false(x(&true))),
            (equals(x(&3), 3), equals(x(&3), 4)),
            (at_least(x(&3), 3), at_least(x(&2), 3)),
            (at_most(x(&3), 3), at_most(x(&4), 3)),
            (
                at_least_that(x(&2.5), Some(2.5)),
                at_least_that(x(&2.4), Some(2.5)),
            ),
            (
                at_most_that(x(&2.5), Some(2.5)),
                at_most_that(x(&2.6), Some(2.5)),
            ),
        ] {
            assert_eq!(holds, Ok(()));
            assert!(fails.is_err());
        }
    }

    #[test]
    fn a_missing_value_satisfies_no_rule_but_that_it_is_missing_or_is_another() {
        for outcome in [
            is(missing(), ""),
            is_one_of::<String, &str>(missing(), &[""]),
            has(missing(), ""),
            first_has(missing(), ""),
            first_has(x(&Vec::new()), ""),
            lists_one_of(missing(), &[""]),
            lists_one_of(x(&BTreeSet::new()), &[""]),
            lists(missing(), &[]),
            is_true(missing()),
            is_false(missing()),
            equals(missing(), 0),
            at_least(missing(), 0),
            at_most(missing(), 0),
            at_most_that(x(&0), None),
            at_least_that(x(&0), None),
        ] {
            assert!(outcome.is_err());
        }
        assert_eq!(is_nothing(missing()), Ok(()));
        assert_eq!(is_not(missing(), "y"), Ok(()));
    }

    #[test]
    fn a_figure_is_in_a_phase_or_in_a_part_which_may_lack_it() {
        let phase = Phase {
            done: Some(true),
            utc: Some(Utc {
                missed: 3,
                ..Utc::default()
            }),
            program: Some(ProgramRun::default()),
            ..Phase::default()
        };
        assert_eq!(is_true(figure!(phase.done)), Ok(()));
        assert_eq!(equals(figure!(phase.utc.missed), 3), Ok(()));
        for (outcome, expected) in [
            (is(figure!(phase.error), "a"), "error is missing"),
            (
                equals(figure!(phase.program.exit_code), 0),
                "program.exit_code is missing",
            ),
            (
                at_least(figure!(phase.utc.kinds.kernel), 1),
                "utc.kinds.kernel is missing",
            ),
            (
                is_one_of(figure!(phase.comparison.found), &[Found::Single]),
                "comparison.found is missing",
            ),
        ] {
            let fault = outcome.unwrap_err();
            assert!(fault.starts_with(expected), "{fault}");
        }
    }

    #[test]
    fn a_check_holds_in_every_phase_of_its_name_and_needs_one() {
        let phase = |name: &str, missed| Phase {
            utc: Some(Utc {
                missed,
                ..Utc::default()
            }),
            ..Phase::named(name)
        };
        let check = Check::new(
            "p",
            rule("no range misses", |phase| {
                at_most(figure!(phase.utc.missed), 0)
            }),
        );
        assert_eq!(check.fault(&[phase("p", 0), phase("q", 1)]), None);
        assert_eq!(
            check.fault(&[phase("p", 0), phase("p", 1)]).unwrap(),
            "p: utc.missed is 1, expected at most 0: no range misses"
        );
        assert_eq!(
            check.fault(&[phase("q", 0)]).unwrap(),
            "p: the guest did not get there"
        );
    }

    #[test]
    fn a_fault_has_the_messages_of_the_program_and_of_the_server() {
        let phase = Phase {
            messages: Some("not served".to_owned()),
            counted: Some(Counted {
                server: "no line".to_owned(),
                ..Counted::default()
            }),
            ..Phase::named("p")
        };
        let check = Check::new("p", rule("why", |phase| is_true(figure!(phase.done))));
        assert_eq!(
            check.fault(&[phase]).unwrap(),
            "p: done is missing, expected true: why; messages: not served; \
             messages of the server: no line"
        );
    }
}
