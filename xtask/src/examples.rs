//! `cargo xtask examples`: every example in `examples/`, run twice, once with the counter
//! switched off.
//!
//! There is no list: cargo says which examples there are. The head of an example says on one line
//! what it must print, and an example without that line fails:
//!
//! ```text
//! //! Its output has: "this", "and that".
//! ```
//!
//! One that takes long by default may have another line, `CI runs it with: --short`.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::step;

/// Optimised, as people run them.
const BUILD: &str = "cargo build --release --workspace --examples --all-features --quiet --message-format json-render-diagnostics";

/// They take less than 2 s on an idle machine. This only ends a program that hangs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

const EXPECTED: &str = "//! Its output has: ";
const ARGUMENTS: &str = "//! CI runs it with: ";

/// The text of a clock's state while the counter is in use, and while it is not (`State` in
/// `tickline`).
const BY_COUNTER: &str = "the counter serves";
const BY_OS: &str = "the OS clock serves, because";

/// With this in its environment, no program uses the counter.
const SWITCHED_OFF: (&str, &str) = ("TICKLINE", "off");

/// A built example.
struct Example {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// What its output must have.
    expected: Vec<String>,
}

/// Builds and runs all. Fails if one of them does, or does not print what its head says.
pub(crate) fn run() -> ExitCode {
    let examples = match build() {
        Ok(examples) => examples,
        Err(why) => {
            eprintln!("xtask examples: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = 0;
    for example in &examples {
        println!("\n=== {}", example.name);
        let start = Instant::now();
        let verdict = check(example);
        println!("    {:.1} s", start.elapsed().as_secs_f64());
        if let Err(why) = verdict {
            println!("=== FAILED {}: {why}", example.name);
            failed += 1;
        }
    }
    println!("\n{} examples, {failed} failed", examples.len());
    if failed == 0 && !examples.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Builds all examples, and reads what they must print.
fn build() -> Result<Vec<Example>, String> {
    let mut command = step::command(BUILD).ok_or("no command")?;
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("`{BUILD}` failed"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut examples = Vec::new();
    for message in messages.filter(|message| message["target"]["kind"][0] == "example") {
        let path = |value: &Value| value.as_str().map(PathBuf::from);
        let (Some(program), Some(source)) =
            (path(&message["executable"]), path(&message["target"]["src_path"]))
        else {
            continue;
        };
        let name = message["target"]["name"].as_str().unwrap_or_default().to_owned();
        let head = fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        examples.push(Example { name, program, arguments: arguments(&head), expected: expected(&head) });
    }
    examples.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(examples)
}

/// The quoted texts in the line of an example's head about its output.
fn expected(source: &str) -> Vec<String> {
    line(source, EXPECTED).split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Its arguments, separated by spaces.
fn arguments(source: &str) -> Vec<String> {
    line(source, ARGUMENTS).split_whitespace().map(str::to_owned).collect()
}

/// The rest of the line that begins so.
fn line<'a>(source: &'a str, beginning: &str) -> &'a str {
    source.lines().find_map(|line| line.strip_prefix(beginning)).unwrap_or_default()
}

/// What an example printed, and why it did not end well.
struct Run {
    text: String,
    fault: Option<String>,
}

/// Runs it twice, shows what it prints as it is, and judges both.
fn check(example: &Example) -> Result<(), String> {
    let as_it_is = start(example, None)?;
    print!("{}", as_it_is.text);
    judge(&example.expected, &as_it_is, &start(example, Some(SWITCHED_OFF))?)
}

fn judge(expected: &[String], as_it_is: &Run, switched_off: &Run) -> Result<(), String> {
    if expected.is_empty() {
        return Err(format!("there is no line `{EXPECTED}\"...\"` in its head"));
    }
    for (how, run) in [("", as_it_is), (" with TICKLINE=off", switched_off)] {
        let text = &run.text;
        if let Some(fault) = &run.fault {
            return Err(format!("it {fault}{how}:\n{text}"));
        }
        if let Some(words) = expected.iter().find(|words| !text.contains(*words)) {
            return Err(format!("its output{how} does not have \"{words}\":\n{text}"));
        }
    }
    if as_it_is.text.contains(BY_COUNTER) && !switched_off.text.contains(BY_OS) {
        return Err(format!("with TICKLINE=off it does not say what serves:\n{}", switched_off.text));
    }
    Ok(())
}

fn start(example: &Example, variable: Option<(&str, &str)>) -> Result<Run, String> {
    // Examples write their files here.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/examples-run");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut child = Command::new(&example.program)
        .args(&example.arguments)
        .current_dir(folder)
        .env_remove(SWITCHED_OFF.0)
        .envs(variable)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut pipe = child.stdout.take().ok_or("no pipe")?;
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned())
    });
    let fault = wait(&mut child).err();
    child.kill().ok();
    child.wait().ok();
    let text = reader.join().map_err(|_| "the reader panicked")?.map_err(|error| error.to_string())?;
    Ok(Run { text, fault })
}

fn wait(child: &mut Child) -> Result<(), String> {
    let start = Instant::now();
    while start.elapsed() < TIME_LIMIT {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("ended with {status}")),
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
    Err(format!("was not done after {} s", TIME_LIMIT.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_expected() {
        let head = "//! An example.\n//!\n//! Its output has: \"one\", \"two: 3\".\n";
        assert_eq!(expected(head), ["one", "two: 3"]);
        assert!(expected("//! An example.\n").is_empty());
    }

    #[test]
    fn an_example_may_need_arguments() {
        assert_eq!(arguments("//! An example.\n//! CI runs it with: --secs 1\n"), ["--secs", "1"]);
        assert!(arguments("//! An example.\n").is_empty());
    }

    fn verdict(expected: &[&str], as_it_is: &str, switched_off: &str) -> Result<(), String> {
        let run = |text: &str| Run { text: text.to_owned(), fault: None };
        let expected: Vec<String> = expected.iter().map(|words| (*words).to_owned()).collect();
        judge(&expected, &run(as_it_is), &run(switched_off))
    }

    #[test]
    fn an_example_must_print_what_it_says_and_what_serves() {
        assert_eq!(verdict(&["one"], "one", "one"), Ok(()));
        assert!(verdict(&[], "one", "one").unwrap_err().contains("there is no line"));
        assert!(verdict(&["one"], "two", "one").unwrap_err().contains("its output does not have"));
        assert!(verdict(&["one"], "one", "two").unwrap_err().contains("its output with TICKLINE=off"));
        let fast = format!("fast: {BY_COUNTER}");
        assert!(verdict(&["fast"], &fast, &fast).unwrap_err().contains("does not say what serves"));
        assert_eq!(verdict(&["serves"], &fast, &format!("fallback: {BY_OS} ...")), Ok(()));
    }

    #[test]
    fn an_example_must_end_well() {
        let run = |fault: Option<&str>| Run { text: "one".to_owned(), fault: fault.map(str::to_owned) };
        let failed = Some("ended with exit status: 3");
        for (as_it_is, switched_off) in [(failed, None), (None, failed)] {
            let verdict = judge(&["one".to_owned()], &run(as_it_is), &run(switched_off));
            assert!(verdict.unwrap_err().contains("exit status: 3"));
        }
    }
}
