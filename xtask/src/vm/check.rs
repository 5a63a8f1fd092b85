//! What must hold in a guest's report.

use std::fmt;

use serde_json::Value;

/// Something that must hold in every phase of this name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    pub(super) phase: &'static str,
    /// Keys of the phase's JSON, separated by dots.
    pub(super) path: &'static str,
    pub(super) rule: Rule,
    pub(super) when: When,
    pub(super) why: &'static str,
}

impl Check {
    pub(super) const fn new(phase: &'static str, path: &'static str, rule: Rule, why: &'static str) -> Self {
        Self { phase, path, rule, when: When::Always, why }
    }
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
        let unsynchronised = are_unsynchronised(phase);
        match self {
            Self::Always => true,
            Self::Unsynchronised => unsynchronised,
            Self::NotUnsynchronised => !unsynchronised,
        }
    }
}

/// Whether the comparison has found the counters of two CPUs unsynchronised.
pub(super) fn are_unsynchronised(phase: &Value) -> bool {
    phase["comparison"]["found"] == "unsynchronised"
}

/// What a value must be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    Is(&'static str),
    /// A text with this in it.
    Has(&'static str),
    OneOf(&'static [&'static str]),
    /// A list that has one of these.
    Lists(&'static [&'static str]),
    True,
    False,
    Nothing,
    Exactly(u64),
    AtMost(u64),
    AtLeast(u64),
    /// At most so many times another value of the same phase.
    AtMostTimes(u64, &'static str),
    /// The same, plus a third value.
    AtMostTimesPlus(u64, &'static str, &'static str),
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
            Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::AtLeast(limit) => write!(f, "at least {limit}"),
            Self::AtMostTimes(factor, path) => write!(f, "at most {factor} times {path}"),
            Self::AtMostTimesPlus(factor, path, more) => {
                write!(f, "at most {factor} times {path} and {more}")
            }
        }
    }
}
