//! Reads the output of test programs, and of other parts of a step: what has skipped itself, what
//! has passed, and what tells of a fault.

/// The beginning of the message of a test, or another part of a step, that skips itself.
const SKIP_MARK: &str = "SKIPPED: ";

/// The reasons of what skipped itself.
pub(crate) fn skips(output: &str) -> impl Iterator<Item = &str> {
    let skips = output.lines().filter_map(|line| line.split_once(SKIP_MARK));
    skips.map(|(_, reason)| reason)
}

/// The output without the lines that passed tests have printed. `--show-output` lists these lines
/// between `successes:` and the failures or the closing line.
fn without_successes(output: &str) -> String {
    let mut kept = String::new();
    let mut is_success = false;
    for line in output.lines() {
        if line == "successes:" {
            is_success = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            is_success = false;
        }
        if !is_success {
            kept += line;
            kept += "\n";
        }
    }
    kept
}

/// The last lines of the output that name an error, each with the next line; the last lines if no
/// line names an error. The lines that passed tests have printed are left out.
pub(crate) fn faults(output: &str) -> String {
    const SIGNS: [&str; 4] = ["FAILED", "panicked at", "error:", "error["];
    const MAX_LINES: usize = 16;
    let tells = |line: &str| SIGNS.iter().any(|sign| line.contains(sign));
    let output = without_successes(output);
    let lines: Vec<&str> = output.lines().collect();
    let is_telling = |index: &usize| tells(lines[*index]) || *index > 0 && tells(lines[*index - 1]);
    let mut telling: Vec<&str> = (0..lines.len())
        .filter(is_telling)
        .map(|index| lines[index])
        .collect();
    if telling.is_empty() {
        telling = lines;
    }
    telling[telling.len().saturating_sub(MAX_LINES)..].join("\n")
}

/// The number of tests that passed: the sum over the closing lines of all test programs.
pub(crate) fn passed(output: &str) -> u64 {
    let counts = output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: "));
    counts
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}

/// Whether a test has run whose path contains a text.
pub(crate) fn has_run(output: &str, text: &str) -> bool {
    let lines = output.lines().filter_map(|line| line.split_once(" ... "));
    // Without capture, another test may have printed in front of the line.
    let tests = lines.filter_map(|(start, result)| Some((start.rsplit_once("test ")?.1, result)));
    let mut ran = tests.filter(|(_, result)| !result.starts_with("ignored"));
    ran.any(|(path, _)| path.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of a test program by `--show-output`, with a test that skips itself.
    const OUTPUT: &str = "\
running 3 tests
test one ... ok
test two ... ok

successes:

---- one stdout ----
SKIPPED: no counter that may be read

---- two stdout ----
thread 'two' panicked at tests/two.rs:3: as it should

successes:
    one
    two

failures:

---- three stdout ----
thread 'three' panicked at tests/three.rs:7:
left: 1

failures:
    three

test result: FAILED. 2 passed; 1 failed; 0 ignored
";

    #[test]
    fn a_test_that_skips_itself_is_counted_whatever_is_before_its_mark() {
        let found: Vec<&str> = skips(OUTPUT).collect();
        assert_eq!(found, ["no counter that may be read"]);
        let found: Vec<&str> =
            skips("test one ... SKIPPED: no root\nok\nSKIPPED all guests").collect();
        assert_eq!(found, ["no root"]);
    }

    /// Tests that passed may print panics of their own.
    #[test]
    fn the_faults_of_a_step_are_those_of_tests_that_failed() {
        let faults = faults(OUTPUT);
        assert!(
            faults.contains("panicked at tests/three.rs:7:\nleft: 1"),
            "{faults}"
        );
        assert!(!faults.contains("two.rs"), "{faults}");
    }

    #[test]
    fn an_output_without_a_sign_of_an_error_is_shown_at_its_end() {
        let output: String = (0..30).map(|line| format!("line {line}\n")).collect();
        let faults = faults(&output);
        assert!(faults.starts_with("line 14\n"), "{faults}");
        assert!(faults.ends_with("line 29"), "{faults}");
    }

    #[test]
    fn a_test_has_run_if_its_line_has_a_result() {
        let output = "half a linetest a::one ... SKIPPED: no root\nok\ntest a::two ... ignored\n";
        let ran = ["a::one", "on", "two", "SKIPPED", "line"].map(|text| has_run(output, text));
        assert_eq!(ran, [true, true, false, false, false]);
    }

    #[test]
    fn the_passes_of_all_test_programs_are_summed() {
        let one = "test result: ok. 12 passed; 0 failed; 1 ignored\n";
        assert_eq!(passed(&one.repeat(2)), 24);
        assert_eq!(passed("no test ran"), 0);
    }
}
