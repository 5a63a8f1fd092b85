//! Tests of `PairBencher::latency`.

use serde_json::Value;

use crate::{LATENCY, Programs, texts};

/// Compares two builds with these steps. The pairs of one of them have one iteration. Returns the
/// output and the stored comparison.
fn compared(programs: &Programs, [this, other]: [u64; 2], of_latency: u64) -> (String, Value) {
    let other = programs.path(other).to_string_lossy().into_owned();
    let output = programs
        .command(this, "work/spin", &["--against", &other])
        .env(LATENCY, of_latency.to_string())
        .output()
        .expect("a program");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}\n{err}");
    (out, programs.json("work/spin/new/comparison.json"))
}

/// Symptom: no comparison of builds was of what an iteration takes alone.
pub(crate) fn with_latency_pairs_in_turns_have_one_iteration(programs: &Programs) {
    let (out, json) = compared(programs, [2, 1], 2);
    assert_eq!(json["iterations_per_pair"], 1, "{out}");
    assert!(out.contains(" couples of 1 iteration each"), "{out}");
}

pub(crate) fn the_build_that_is_started_decides_whether_it_is_latency(programs: &Programs) {
    let (out, json) = compared(programs, [2, 1], 1);
    assert_ne!(json["iterations_per_pair"], 1, "{out}");
}

/// Symptom: a slowdown of 25 % passed a limit of 3 %, because it read as 2 %.
pub(crate) fn a_limit_of_the_latency_of_a_short_routine_cannot_tell(programs: &Programs) {
    let other = programs.path(1).to_string_lossy().into_owned();
    let arguments = ["--max-regression=500000%", "--against", &other];
    let output = programs
        .command(1, "work/spin", &arguments)
        .env(LATENCY, "1")
        .output()
        .expect("a program");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{out}\n{err}");
    // Too short for a percentage, or, by a clock with a long step, a time of 0.
    assert!(err.contains("CAN'T TELL: work/spin: "), "{err}");
}
