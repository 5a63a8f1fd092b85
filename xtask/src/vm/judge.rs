//! Compares a guest's report with the expectations of `tests/vm/guests.toml`.

use std::cmp::Ordering;

use serde_json::Value;

use super::guest::{Check, Guest};
use super::qemu::Run;
use crate::step::NotPassed;

/// Judges a run.
pub(super) fn judge(guest: &Guest, run: &Run) -> Result<(), NotPassed> {
    let mut faults: Vec<String> = run
        .broken
        .iter()
        .map(|broken| format!("the guest broke: {broken}"))
        .collect();
    for phase in run.phases.iter().filter(|phase| phase["phase"] == "error") {
        faults.push(format!("the guest's error: {}", phase["error"]));
    }
    faults.extend(violated(&guest.checks, &run.phases));
    match unavailable(&run.phases)
        .map(str::to_owned)
        .or_else(|| untestable(&run.phases))
    {
        _ if !faults.is_empty() => Err(NotPassed::Failed(faults.join("\n"))),
        Some(requirement) => Err(NotPassed::Skipped(requirement)),
        None => Ok(()),
    }
}

/// The checks that a report violates, in words. If the guest lacks a requirement, the phases that
/// it did not reach are not judged.
pub(super) fn violated<'a>(
    checks: impl IntoIterator<Item = &'a Check>,
    phases: &[Value],
) -> Vec<String> {
    let untestable = untestable(phases);
    let is_reached = |check: &Check| phases.iter().any(|phase| phase["phase"] == check.phase);
    // If a program is unavailable, only its own phases, `PROGRAM MODE`, are excused.
    let is_excused = |check: &Check| {
        phases
            .iter()
            .filter(|phase| phase["phase"] == "unavailable")
            .any(|phase| {
                let is_of = |program| {
                    check
                        .phase
                        .rsplit_once(' ')
                        .is_some_and(|(name, _)| name == program)
                };
                phase["program"].as_str().is_none_or(is_of)
            })
    };
    // The checks of order hold whichever clock serves the readings.
    let counts = |check: &&Check| {
        (is_reached(check) || !is_excused(check))
            && (untestable.is_none() || check.path.starts_with("readers."))
    };
    checks
        .into_iter()
        .filter(counts)
        .filter_map(|check| fault(check, phases))
        .collect()
}

/// The requirement that this guest lacks.
fn unavailable(phases: &[Value]) -> Option<&str> {
    find(phases, "unavailable", "what").find_map(Value::as_str)
}

/// A reason not to judge the guest: its clock reports that it could not compare the CPUs' counters.
/// On a busy machine the emulator's threads take turns, and never run at the same time. If the
/// clock uses the counter anyway, or names another reason, the guest is judged.
fn untestable(phases: &[Value]) -> Option<String> {
    let is_untestable = |phase: &Value| {
        phase["comparison"]["found"] == "impossible"
            && phase["state"] == "fallback"
            && phase["reason"] == "untestable"
    };
    let phase = phases
        .iter()
        .filter(|phase| phase["phase"] != "start")
        .find(|phase| is_untestable(phase))?;
    Some(format!(
        "{}: the CPUs' counters could not be compared, on a machine that is too busy",
        phase["phase"].as_str().unwrap_or_default()
    ))
}

/// The value at `path` in every phase of this name, `Null` if the phase does not have it. The path
/// has keys, separated by dots; a number is an index into a list.
pub(super) fn find<'a>(
    phases: &'a [Value],
    name: &'a str,
    path: &'a str,
) -> impl Iterator<Item = &'a Value> + 'a {
    phases
        .iter()
        .filter(move |phase| phase["phase"] == name)
        .map(move |phase| value(phase, path))
}

fn value<'a>(phase: &'a Value, path: &str) -> &'a Value {
    path.split('.')
        .fold(phase, |value, key| match key.parse::<usize>() {
            Ok(index) => &value[index],
            Err(_) => &value[key],
        })
}

/// The first phase that violates a check, in words.
fn fault(check: &Check, phases: &[Value]) -> Option<String> {
    let mut phases = phases
        .iter()
        .filter(|phase| phase["phase"] == check.phase)
        .peekable();
    if phases.peek().is_none() {
        return Some(format!("{}: the guest did not get there", check.phase));
    }
    let broken =
        phases.find(|phase| holds(&check.rule, value(phase, &check.path), phase) != Some(true))?;
    let found = value(broken, &check.path);
    let fault = format!(
        "{}: {} is {found}, expected \"{}\": {}",
        check.phase, check.path, check.rule, check.why
    );
    let texts = ["messages", "counted.server"].map(|path| (path, value(broken, path)));
    let texts = texts
        .into_iter()
        .filter(|(_, text)| text.as_str().is_some_and(|text| !text.is_empty()));
    Some(texts.fold(fault, |fault, (path, text)| {
        format!("{fault}; {path}: {text}")
    }))
}

/// Whether a value of a phase satisfies a rule of `tests/vm/guests.toml`; `None` if `rule` is not a
/// rule. A missing value satisfies only `is nothing` and `lacks`.
pub(super) fn holds(rule: &str, found: &Value, phase: &Value) -> Option<bool> {
    let is_one_of = |found: &Value, texts: &str| texts.split(", ").any(|text| *found == *text);
    // A limit is a number, or a multiple of another value of the phase plus a third value.
    let limit = |text: &str| {
        let (factor, paths) = text.split_once(" * ").unwrap_or((text, ""));
        let factor: f64 = factor.parse().ok()?;
        let values: Option<Vec<f64>> = paths
            .split(" + ")
            .map(|path| number(value(phase, path)))
            .collect();
        Some(match values.as_deref() {
            _ if paths.is_empty() => Some(factor),
            Some([unit, more @ ..]) => Some(factor * unit + more.iter().sum::<f64>()),
            _ => None,
        })
    };
    let order = |limit: Option<f64>| number(found)?.partial_cmp(&limit?);
    Some(match rule.split_once(' ')? {
        ("is", "true") => *found == true,
        ("is", "false") => *found == false,
        ("is", "nothing") => found.is_null(),
        ("is", text) => *found == *text.trim(),
        ("has", text) => found.as_str().is_some_and(|found| found.contains(text)),
        ("lacks", text) => !found.to_string().contains(text),
        ("one", texts) => is_one_of(found, texts.strip_prefix("of ")?),
        ("lists", texts) => found
            .as_array()
            .is_some_and(|list| list.iter().any(|one| is_one_of(one, texts))),
        ("=", text) => order(limit(text)?).is_some_and(Ordering::is_eq),
        (">=", text) => order(limit(text)?).is_some_and(Ordering::is_ge),
        ("<=", text) => order(limit(text)?).is_some_and(Ordering::is_le),
        _ => return None,
    })
}

/// A count or a duration. No negative number satisfies a rule.
fn number(found: &Value) -> Option<f64> {
    found.as_f64().filter(|number| *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::guest::all;
    use super::super::programs::Program;
    use super::*;

    fn fault_of(rule: &str, found: &Value) -> Option<String> {
        let phases = [
            json!({ "phase": "x" }),
            json!({ "phase": "p", "a": { "b": found }, "unit": 10 }),
        ];
        fault(
            &Check::parse("p", &format!("a.b {rule} # so")).unwrap(),
            &phases,
        )
    }

    #[test]
    fn each_rule_can_fail_and_what_is_missing_is_not_passed() {
        for (rule, good, bad) in [
            ("is tsc", json!("tsc"), json!("tsc-early")),
            ("is ", json!(""), json!("tsc")),
            (
                "has echo tsc",
                json!("echo tsc | tee"),
                json!("echo hpet | tee"),
            ),
            (
                "lacks ntp_flag",
                json!({ "code": "time_off" }),
                json!({ "code": "ntp_flag" }),
            ),
            ("one of hpet, acpi_pm", json!("hpet"), json!("tsc")),
            (
                "lists slow, x",
                json!(["unsynchronised", "slow"]),
                json!(["slower"]),
            ),
            ("is true", json!(true), json!(null)),
            ("is false", json!(false), json!(null)),
            ("is nothing", json!(null), json!("slow")),
            ("= 0", json!(0), json!(1)),
            ("<= 5", json!(5), json!(6)),
            (">= 5", json!(5), json!(4)),
            ("<= 2 * unit", json!(20), json!(21)),
            ("<= 2 * unit + unit", json!(30), json!(31)),
            (">= 2.5 * unit", json!(25), json!(24.9)),
            ("<= 0", json!(0), json!(-1)),
            ("<= 2 * nothing", json!(0), json!(0)),
        ] {
            if !rule.contains("nothing") && !rule.starts_with("lacks") {
                assert!(fault_of(rule, &Value::Null).is_some(), "{rule}");
            }
            if rule != "<= 2 * nothing" {
                assert_eq!(fault_of(rule, &good), None, "{rule}");
            }
            assert!(fault_of(rule, &bad).is_some(), "{rule}");
        }
        let phases = [
            json!({ "phase": "p", "a": 1 }),
            json!({ "phase": "p", "a": 9 }),
        ];
        assert!(
            fault(&Check::parse("p", "a <= 5 # so").unwrap(), &phases).is_some(),
            "one of several"
        );
        let check = Check::parse("never", "a is nothing # so").unwrap();
        assert!(
            fault(&check, &[json!({ "phase": "p" })]).is_some(),
            "a phase that was not reached"
        );
    }

    /// A guest that lacks a requirement is skipped only if it violates no check.
    #[test]
    fn what_a_guest_lacks_hides_no_fault() {
        let guests = all().unwrap();
        let suspended = guests
            .iter()
            .find(|guest| guest.name == "suspended")
            .unwrap();
        let verdict = |more: &[Value]| {
            let mut phases = Run::unavailable("no suspend").phases;
            phases.extend_from_slice(more);
            judge(
                suspended,
                &Run {
                    phases,
                    broken: None,
                },
            )
        };
        assert!(
            matches!(verdict(&[]), Err(NotPassed::Skipped(requirement)) if requirement == "no suspend")
        );
        let readers = |backward: u64| {
            json!({ "phase": "end", "readers":
                { "backward": backward, "backward_in_thread": 0, "readings": 100_000, "exchanges": 10 } })
        };
        assert!(matches!(verdict(&[readers(0)]), Err(NotPassed::Skipped(_))));
        let error = json!({ "phase": "error", "error": "no clock" });
        for fault in [readers(1), error] {
            assert!(matches!(verdict(&[fault]), Err(NotPassed::Failed(_))));
        }
    }

    #[test]
    fn a_program_that_is_not_built_excuses_no_other() {
        let checks = ["Go native", "Go preload", "Go with C native", "end"]
            .map(|phase| Check::parse(phase, "calls >= 1 # so").unwrap());
        let missing = json!({ "phase": "unavailable", "what": "not built", "program": "Go" });
        assert_eq!(
            violated(&checks, &[missing]).len(),
            2,
            "of the other program, and of the end"
        );
    }

    /// A report of a guest without faults, and changes of the report. Each change has the expected
    /// fault, a JSON pointer into the report, and the new value.
    #[derive(serde::Deserialize)]
    struct Report {
        guest: String,
        /// The only program of the report.
        program: Option<String>,
        good: Value,
        faults: Vec<(String, String, Value)>,
    }

    #[test]
    fn whatever_is_wrong_with_a_program_or_the_package_is_a_fault() {
        let reports: Vec<Report> = serde_json::from_str(include_str!("judged.json")).unwrap();
        for Report {
            guest: name,
            program,
            good,
            faults,
        } in reports
        {
            let mut guest = all()
                .unwrap()
                .into_iter()
                .find(|guest| guest.name == name)
                .unwrap();
            let others: Vec<String> = guest
                .programs
                .iter()
                .filter(|other| Some(&other.name) != program.as_ref())
                .flat_map(Program::phases)
                .collect();
            guest.checks.retain(|check| !others.contains(&check.phase));
            let judged = |lines: &Value| {
                let run = Run {
                    phases: lines.as_array().unwrap().clone(),
                    broken: None,
                };
                match judge(&guest, &run) {
                    Ok(()) => String::new(),
                    Err(NotPassed::Skipped(why) | NotPassed::Failed(why)) => why,
                }
            };
            assert_eq!(judged(&good), "", "{name}");
            for (expected, pointer, value) in faults {
                let mut lines = good.clone();
                *lines.pointer_mut(&pointer).unwrap() = value;
                let found = judged(&lines);
                assert!(found.contains(&expected), "{expected}: {found}");
            }
        }
    }

    #[test]
    fn counters_that_could_not_be_compared_are_skipped_only_if_they_are_not_used() {
        let phase = |found: &str, state: &str, reason: &str| {
            let comparison = json!({ "found": found });
            [
                json!({ "phase": "before", "comparison": comparison, "state": state, "reason": reason }),
            ]
        };
        assert!(untestable(&phase("impossible", "fallback", "untestable")).is_some());
        assert!(untestable(&phase("impossible", "fast", "untestable")).is_none());
        assert!(untestable(&phase("impossible", "fallback", "slow")).is_none());
        assert!(untestable(&phase("synchronised", "fallback", "untestable")).is_none());
    }
}
