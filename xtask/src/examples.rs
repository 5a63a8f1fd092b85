//! `cargo xtask examples`: runs every example of the crates twice, once with the counter switched
//! off.
//!
//! Cargo lists the examples. The head of an example must have one line that says what the example
//! prints:
//!
//! ```text
//! //! Its output has: "this", "and that".
//! ```
//!
//! An example that takes a long time by default may have another line, `CI runs it with: --short`.

use serde_json::Value;

use crate::command::{command, output, output_of};
use crate::files;

/// The command that builds the examples. `cargo test --workspace` has already built them so.
const BUILD: &str =
    "cargo build --workspace --examples --quiet --message-format json-render-diagnostics";

/// The texts of a clock's state while the counter is in use, and while it is not (`ClockState` in
/// `tickline`).
const BY_COUNTER: &str = "readings come from the counter";
const BY_OS: &str = "readings come from the OS clock, because";

/// Builds and runs all examples. Fails if an example fails, or does not print what its head says.
pub(crate) fn run() -> Result<u8, String> {
    let built = output_of(BUILD)?;
    let mut count = 0;
    let mut code = 0;
    for message in built
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        let (Some(program), Some(source)) = (
            message["executable"].as_str(),
            message["target"]["src_path"].as_str(),
        ) else {
            continue;
        };
        if message["target"]["kind"][0] == "example" {
            count += 1;
            println!("\n=== {program}");
            if let Err(why) = run_and_judge(program, &files::read(source)?) {
                println!("=== FAILED {program}: {why}");
                code = 1;
            }
        }
    }
    println!("\n{count} examples");
    if count > 0 {
        Ok(code)
    } else {
        Err("cargo has built no example".into())
    }
}

/// Runs an example twice, shows the output of the first run, and judges both runs.
fn run_and_judge(program: &str, source: &str) -> Result<(), String> {
    let line = |start: &str| {
        source
            .lines()
            .find_map(|line| line.strip_prefix(start))
            .unwrap_or_default()
    };
    // Examples write their files into this folder. They take less than 2 s, so `timeout` only ends
    // an example that hangs.
    let folder = files::target().join("examples-run");
    files::make_folder(&folder)?;
    let start = |switch: &str| {
        let arguments = line("//! CI runs it with: ").split_whitespace();
        let mut limited = command("timeout 60");
        limited.arg(program).args(arguments).current_dir(&folder);
        output(limited.env("TICKLINE", switch))
    };
    let by_default = start("on")?;
    println!("{by_default}");
    judge(line("//! Its output has: "), &by_default, &start("off")?)
}

fn judge(expected: &str, by_default: &str, switched_off: &str) -> Result<(), String> {
    let expected: Vec<&str> = expected.split('"').skip(1).step_by(2).collect();
    if expected.is_empty() {
        return Err("there is no line `Its output has: \"...\"` in its head".into());
    }
    for (how, text) in [("", by_default), (" with TICKLINE=off", switched_off)] {
        if let Some(words) = expected.iter().find(|words| !text.contains(**words)) {
            return Err(format!(
                "its output{how} does not have \"{words}\":\n{text}"
            ));
        }
    }
    if by_default.contains(BY_COUNTER) && !switched_off.contains(BY_OS) {
        return Err(format!(
            "with TICKLINE=off it does not say that readings come from the OS clock:\n{switched_off}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: &str = "\"one\".";

    #[test]
    fn an_example_must_print_what_its_head_says_with_and_without_the_counter() {
        assert_eq!(judge(EXPECTED, "one, two", "one"), Ok(()));
        let error = judge(EXPECTED, "two", "one").unwrap_err();
        assert!(
            error.starts_with("its output does not have \"one\""),
            "{error}"
        );
        let error = judge(EXPECTED, "one", "two").unwrap_err();
        assert!(
            error.starts_with("its output with TICKLINE=off does not have"),
            "{error}"
        );
    }

    #[test]
    fn an_example_whose_head_says_nothing_has_failed() {
        for expected in ["", "nothing in quotes"] {
            let error = judge(expected, "one", "one").unwrap_err();
            assert!(error.starts_with("there is no line"), "{error}");
        }
    }

    /// An example that ignores the switch would use the counter.
    #[test]
    fn an_example_that_says_what_serves_must_say_it_of_the_os_clock_too() {
        let by_counter = format!("one: {BY_COUNTER}");
        let by_os = format!("one: {BY_OS} it is switched off");
        assert_eq!(judge(EXPECTED, &by_counter, &by_os), Ok(()));
        let error = judge(EXPECTED, &by_counter, &by_counter).unwrap_err();
        assert!(
            error.starts_with("with TICKLINE=off it does not say"),
            "{error}"
        );
    }
}
