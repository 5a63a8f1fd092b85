//! Runs the steps of a lane. A step is a command with its requirements. Steps run one after the
//! other; only those of [`Step::beside_others`] run beside the steps that follow. A summary ends
//! the lane.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use crate::command::{command_of, output, run_logged, words};
use crate::outcome::NotPassed::{self, Failed, Skipped};
use crate::outcome::{SOME_SKIPPED, code, counts, word};
use crate::test_output;

/// A command with its requirements.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// The filters of the tests that the step runs; none if it runs all tests, or no test.
    pub(crate) filters: Vec<&'static str>,
    /// Commands that show that a tool is there. They change nothing.
    pub(crate) needs: Vec<Vec<String>>,
    /// Commands that fetch, install or make what the step uses.
    preparations: Vec<Vec<String>>,
    /// Whether the step runs beside the steps that follow.
    runs_beside_others: bool,
    /// The code that can't change the result, in globs of git.
    pub(crate) not_compiled: Vec<&'static str>,
}

impl Step {
    /// A step that needs nothing. The command's first word is the program.
    pub(crate) fn new<'a>(name: &'static str, command: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            name,
            command: owned(command),
            environment: Vec::new(),
            filters: Vec::new(),
            needs: Vec::new(),
            preparations: Vec::new(),
            runs_beside_others: false,
            not_compiled: Vec::new(),
        }
    }

    /// Adds arguments.
    pub(crate) fn args<'a>(mut self, words: impl IntoIterator<Item = &'a str>) -> Self {
        self.command.extend(owned(words));
        self
    }

    /// Chooses the tests whose paths contain one of these texts. The step fails if a text chooses
    /// no test, because cargo runs no test then, and succeeds. `--` and the harness's options come
    /// before.
    pub(crate) fn only_tests<const N: usize>(mut self, filters: [&'static str; N]) -> Self {
        self.filters.extend(filters);
        // A quiet cargo prints no line for a test.
        self.env("CARGO_TERM_QUIET", "false").args(filters)
    }

    /// Sets a variable of the command's environment.
    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// Adds a command that shows that a tool is there, and changes nothing. If it fails, the step
    /// is skipped. A skipped step has not passed.
    pub(crate) fn needs<'a>(mut self, command: impl IntoIterator<Item = &'a str>) -> Self {
        self.needs.push(owned(command));
        self
    }

    /// Adds a command that fetches, installs or makes what the step uses. It runs after those of
    /// [`needs`](Self::needs). If it fails, the step is skipped.
    pub(crate) fn prepare_by<'a>(mut self, command: impl IntoIterator<Item = &'a str>) -> Self {
        self.preparations.push(owned(command));
        self
    }

    /// Lets the step run beside the steps that follow. Such steps run one after the other. The step
    /// must measure nothing. It must build into a directory of its own, because cargo runs only one
    /// build at a time in a directory.
    pub(crate) fn beside_others(mut self) -> Self {
        self.runs_beside_others = true;
        self
    }

    /// Lets a stored result hold when only this code has changed (`ci/results.rs`). The step must
    /// not compile it.
    pub(crate) fn without(mut self, code: &'static str) -> Self {
        self.not_compiled.push(code);
        self
    }
}

fn owned<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
impl Step {
    /// Whether the step runs the tests of crates.
    pub(crate) fn runs_tests(&self) -> bool {
        self.command[0] == "cargo" && self.command.iter().any(|word| word == "test")
    }
}

/// A step that has run.
struct Done<'a> {
    name: &'a str,
    result: Result<(), NotPassed>,
    /// Why tests of the step have skipped themselves, or other parts. Such tests count as passed.
    skips: Vec<String>,
    seconds: f64,
}

impl Done<'_> {
    /// The result in words.
    fn words(&self) -> String {
        match self.skips.len() {
            0 => word(&self.result).to_owned(),
            skips => format!("{}, skips within: {skips}", word(&self.result)),
        }
    }

    /// The reasons in `skips`, and how often each was given.
    fn reasons(&self) -> BTreeMap<&str, u32> {
        let mut reasons = BTreeMap::new();
        for reason in &self.skips {
            *reasons.entry(reason.as_str()).or_default() += 1;
        }
        reasons
    }
}

/// The end of all steps.
pub(crate) struct AllDone {
    /// The exit code: 1 if a step has failed.
    pub(crate) code: u8,
    /// The results as rows of a table.
    pub(crate) rows: String,
    /// What was skipped, as commands of GitHub's runner.
    pub(crate) annotations: String,
}

/// Runs every step, even after a failure, and prints a summary. A step that was skipped has not
/// passed. Prints the output of each step when the step ends, and keeps it in `target/ci`. The
/// summary repeats the faults of failed steps.
pub(crate) fn run_all(steps: &[Step]) -> AllDone {
    let done = run_in_order(steps);
    println!("\n{}", summary(&done));
    let rows = done.iter().map(|step| {
        let Done { name, seconds, .. } = step;
        format!("| {name} | {} | {seconds:.0} |\n", step.words())
    });
    let failed = code(done.iter().map(|step| &step.result)) == 1;
    AllDone {
        code: u8::from(failed),
        rows: rows.collect(),
        annotations: annotations(&done),
    }
}

/// Runs every step. The steps that run beside others begin when it is the first one's turn.
fn run_in_order(steps: &[Step]) -> Vec<Done<'_>> {
    let run_those_beside_others = || {
        let beside_others = steps.iter().filter(|step| step.runs_beside_others);
        beside_others.map(run_step).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let mut done = Vec::new();
        let mut beside_others = None;
        for step in steps {
            if !step.runs_beside_others {
                done.push(run_step(step));
            } else if beside_others.is_none() {
                beside_others = Some(scope.spawn(run_those_beside_others));
            }
        }
        if let Some(thread) = beside_others {
            done.extend(thread.join().expect("nothing in it panics"));
        }
        done
    })
}

/// The result of each step, with the faults of failed steps, and the reasons of what was skipped or
/// skipped itself. Failed steps come last, since a log that is cut keeps its end.
fn summary(done: &[Done<'_>]) -> String {
    let mut text = "summary\n".to_owned();
    let width = done.iter().map(|step| step.words().len()).max();
    let width = width.unwrap_or(0);
    let (failed, others): (Vec<_>, Vec<_>) = done
        .iter()
        .partition(|step| matches!(step.result, Err(Failed(_))));
    for step in others.into_iter().chain(failed) {
        let words = step.words();
        let seconds = step.seconds;
        text += &format!("  {words:<width$} {seconds:>7.1} s  {}\n", step.name);
        if let Err(Failed(why) | Skipped(why)) = &step.result {
            for line in why.lines() {
                text += &format!("      {line}\n");
            }
        }
        for (reason, count) in step.reasons() {
            text += &format!("      SKIPPED within, {count} times: {reason}\n");
        }
    }
    let skips: usize = done.iter().map(|step| step.skips.len()).sum();
    let counts = counts(done.iter().map(|step| &step.result));
    text + &format!("{counts}; skips within steps: {skips}")
}

fn run_step(step: &Step) -> Done<'_> {
    let start = Instant::now();
    println!("\n=== {}: {}", step.name, step.command.join(" "));
    let mut skips = Vec::new();
    let result = run(step, &mut skips);
    if let Err(Failed(why) | Skipped(why)) = &result {
        println!("=== {} {}: {}", word(&result), step.name, first_line(why));
    }
    Done {
        name: step.name,
        result,
        skips,
        seconds: start.elapsed().as_secs_f64(),
    }
}

/// What was skipped, as commands for GitHub, which shows them on the page of a run. It shows
/// nothing else of a run that has passed.
fn annotations(done: &[Done<'_>]) -> String {
    let mut text = String::new();
    for step in done {
        let name = step.name;
        if let Err(Skipped(why)) = &step.result {
            text += &format!("::warning::SKIPPED {name}: {}\n", first_line(why));
        }
        for (reason, count) in step.reasons() {
            text += &format!("::notice::SKIPPED within {name}, {count} times: {reason}\n");
        }
    }
    text
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Fails unless each filter of the step has chosen a test.
fn require_tests(step: &Step, output: &str) -> Result<(), NotPassed> {
    let has_run = |filter: &&&str| test_output::has_run(output, filter);
    match step.filters.iter().find(|filter| !has_run(filter)) {
        None => Ok(()),
        Some(filter) => Err(Failed(format!("no test has run whose path has `{filter}`"))),
    }
}

/// Looks for the step's tools. If all are there, fetches, installs and makes what the step uses.
fn prepare(step: &Step) -> Result<(), NotPassed> {
    for command in step.needs.iter().chain(&step.preparations) {
        let done = output(&mut command_of(command));
        done.map_err(|why| Skipped(format!("NOT checked: {why}")))?;
    }
    Ok(())
}

/// Runs a step, and adds the reasons of what skipped itself to `skips`.
fn run(step: &Step, skips: &mut Vec<String>) -> Result<(), NotPassed> {
    prepare(step)?;
    let mut command = command_of(&step.command);
    command.envs(step.environment.iter().map(|(name, value)| (name, value)));
    let (status, output) = run_logged(&mut command, step.name)?;
    println!("=== the output of {}\n{output}", step.name);
    skips.extend(test_output::skips(&output).map(str::to_owned));
    match status.code() {
        Some(0) => require_tests(step, &output),
        Some(code) if code == i32::from(SOME_SKIPPED) => {
            let why = "parts of it were NOT checked, and its output names them";
            Err(Skipped(why.to_owned()))
        }
        _ => {
            let faults = test_output::faults(&output);
            Err(Failed(format!("`{}`: {status}\n{faults}", words(&command))))
        }
    }
}

#[cfg(test)]
mod tests;
