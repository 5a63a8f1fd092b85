//! Expectations against what a guest has reported.

use serde_json::Value;

use super::qemu::Run;
use super::scenario::{Check, Rule, Scenario};

/// What came of a scenario.
#[derive(Debug)]
pub(super) enum Verdict {
    Passed,
    /// What was expected, and what was seen instead.
    Failed(Vec<String>),
    /// What this guest could not do. Nothing else failed, but this has not passed.
    Skipped(String),
}

impl Verdict {
    pub(super) const fn failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "FAILED",
            Self::Skipped(_) => "SKIPPED",
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        match self {
            Self::Passed => Vec::new(),
            Self::Failed(faults) => faults.clone(),
            Self::Skipped(why) => vec![format!("SKIPPED: {why}")],
        }
    }
}

/// Judges a run.
pub(super) fn judge(scenario: &Scenario, run: &Run) -> Verdict {
    if let Some(what) = find(&run.phases, "unavailable", "what").next().and_then(Value::as_str) {
        return Verdict::Skipped(what.to_owned());
    }
    let mut faults: Vec<String> =
        run.broken.iter().map(|broken| format!("the guest broke: {broken}")).collect();
    for phase in run.phases.iter().filter(|phase| phase["phase"] == "error") {
        faults.push(format!("the guest's error: {}", phase["error"]));
    }
    for check in &scenario.checks {
        faults.extend(fault(check, &run.phases));
    }
    if faults.is_empty() { Verdict::Passed } else { Verdict::Failed(faults) }
}

/// A value of every phase of this name: `path` is one of keys, separated by dots. `Null` where there is none.
pub(super) fn find<'a>(
    phases: &'a [Value],
    name: &'a str,
    path: &'a str,
) -> impl Iterator<Item = &'a Value> + 'a {
    phases.iter().filter(move |phase| phase["phase"] == name).map(move |phase| value(phase, path))
}

fn value<'a>(phase: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(phase, |value, key| &value[key])
}

/// What is wrong with the phases of a check, if anything is.
fn fault(check: &Check, phases: &[Value]) -> Option<String> {
    let mut phases = phases.iter().filter(|phase| phase["phase"] == check.phase).peekable();
    if phases.peek().is_none() {
        return Some(format!("{}: the guest did not get there", check.phase));
    }
    let broken = phases.find(|phase| !holds(check.rule, value(phase, check.path), phase))?;
    let seen = value(broken, check.path);
    Some(format!("{}: {} is {seen}, expected {}: {}", check.phase, check.path, check.rule, check.why))
}

fn holds(rule: Rule, seen: &Value, phase: &Value) -> bool {
    match rule {
        Rule::Is(text) => seen == text,
        Rule::OneOf(texts) => texts.iter().any(|text| seen == text),
        Rule::True => seen == true,
        Rule::Nothing => seen.is_null(),
        // A number that is missing holds nothing.
        Rule::Exactly(number) => seen.as_u64() == Some(number),
        Rule::AtMost(limit) => seen.as_u64().is_some_and(|seen| seen <= limit),
        Rule::AtLeast(limit) => seen.as_u64().is_some_and(|seen| seen >= limit),
        Rule::AtMostTimes(factor, path) => {
            seen.as_u64().zip(value(phase, path).as_u64()).is_some_and(|(seen, unit)| seen <= factor * unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fault_of(rule: Rule, seen: &Value) -> Option<String> {
        let phases = [json!({ "phase": "x" }), json!({ "phase": "p", "a": { "b": seen }, "unit": 10 })];
        fault(&Check { phase: "p", path: "a.b", rule, why: "so" }, &phases)
    }

    #[test]
    fn each_rule_can_fail() {
        for (rule, good, bad) in [
            (Rule::Is("tsc"), json!("tsc"), json!("tsc-early")),
            (Rule::OneOf(&["hpet", "acpi_pm"]), json!("hpet"), json!("tsc")),
            (Rule::True, json!(true), json!(null)),
            (Rule::Nothing, json!(null), json!("slow")),
            (Rule::Exactly(0), json!(0), json!(1)),
            (Rule::AtMost(5), json!(5), json!(6)),
            (Rule::AtLeast(5), json!(5), json!(4)),
            (Rule::AtMostTimes(2, "unit"), json!(20), json!(21)),
        ] {
            assert_eq!(fault_of(rule, &good), None, "{rule}");
            assert!(fault_of(rule, &bad).is_some(), "{rule}");
        }
    }

    #[test]
    fn what_is_missing_is_not_passed() {
        for rule in [
            Rule::Is("x"),
            Rule::True,
            Rule::Exactly(0),
            Rule::AtMost(5),
            Rule::AtLeast(0),
            Rule::AtMostTimes(2, "unit"),
        ] {
            assert!(fault_of(rule, &Value::Null).is_some(), "{rule}");
        }
        let check = Check { phase: "never", path: "a", rule: Rule::Nothing, why: "so" };
        assert!(fault(&check, &[json!({ "phase": "p" })]).is_some(), "a phase that was not reached");
    }

    #[test]
    fn one_bad_phase_of_several_of_a_name_is_found() {
        let phases = [json!({ "phase": "p", "a": 1 }), json!({ "phase": "p", "a": 9 })];
        let check = Check { phase: "p", path: "a", rule: Rule::AtMost(5), why: "so" };
        assert!(fault(&check, &phases).is_some());
    }
}
