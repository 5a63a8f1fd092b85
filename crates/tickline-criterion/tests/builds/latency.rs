//! Tests of `PairBencher::latency`.

use serde_json::Value;

use crate::benchmarks::{BATCHES, LATENCY};
use crate::programs::{Programs, texts};

/// Compares the builds with 2 steps and with 1, with these variables. Returns the output and the
/// stored comparison.
fn compared(programs: &Programs, variables: &[(&str, &str)]) -> (String, Value) {
    let other = programs.path(1).to_string_lossy().into_owned();
    let output = programs
        .command(2, "work/spin", &["--against", &other])
        .envs(variables.iter().copied())
        .output()
        .expect("a program");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}\n{err}");
    (out, programs.json("work/spin/new/comparison.json"))
}

/// Symptom: no comparison of builds was of what an iteration takes alone.
pub(crate) fn with_latency_pairs_in_turns_have_one_iteration(programs: &Programs) {
    let (out, json) = compared(programs, &[(LATENCY, "2")]);
    assert_eq!(json["iterations_per_pair"], 1, "{out}");
    assert!(out.contains(" couples of 1 iteration each"), "{out}");
}

pub(crate) fn with_latency_pairs_of_batched_inputs_have_one_iteration(programs: &Programs) {
    let (out, json) = compared(programs, &[(LATENCY, "2"), (BATCHES, "")]);
    assert_eq!(json["iterations_per_pair"], 1, "{out}");
}

pub(crate) fn the_build_that_is_started_decides_whether_it_is_latency(programs: &Programs) {
    let (out, json) = compared(programs, &[(LATENCY, "1")]);
    assert_ne!(json["iterations_per_pair"], 1, "{out}");
}

/// Symptom: a benchmark passed, although a large part of each pair was the cost of its readings.
pub(crate) fn a_limit_of_the_latency_of_a_short_routine_is_undecided(programs: &Programs) {
    let other = programs.path(8).to_string_lossy().into_owned();
    let verdicts = format!("--verdicts={}", programs.0.join("verdicts.json").display());
    let arguments = ["--max-regression=500000%", &verdicts, "--against", &other];
    let output = programs
        .command(8, "work/spin", &arguments)
        .env(LATENCY, "8")
        .output()
        .expect("a program");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{out}\n{err}");
    assert!(err.contains("UNDECIDED: work/spin: "), "{err}");
    let verdict = &programs.json("verdicts.json")["benchmarks"][0];
    let code = &verdict["reason"]["code"];
    // The OS clock may have a step that is longer than the routine.
    let is_no_time = verdict["measured_by"] == "os_clock" && code == "no_time";
    assert!(code == "too_short" || is_no_time, "{verdict}");
}
