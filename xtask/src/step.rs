//! Steps: commands with what they need, run in a row, and a summary.

use std::borrow::Cow;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// A command, and what it needs to be there.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// The program and its arguments, separated by spaces.
    pub(crate) command: Cow<'static, str>,
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// Commands that must succeed, or the step is skipped; separated by spaces.
    pub(crate) needs: &'static [&'static str],
}

impl Step {
    pub(crate) fn new(name: &'static str, command: impl Into<Cow<'static, str>>) -> Self {
        Self { name, command: command.into(), environment: &[], needs: &[] }
    }

    pub(crate) fn with(mut self, environment: &'static [(&'static str, &'static str)]) -> Self {
        self.environment = environment;
        self
    }

    pub(crate) fn needs(mut self, needs: &'static [&'static str]) -> Self {
        self.needs = needs;
        self
    }
}

/// The exit code of a command that has skipped some of its checks, and said which: all others have passed.
pub(crate) const SOME_SKIPPED: u8 = 77;

enum End {
    Passed,
    Failed,
    /// What it needs; empty if only parts were skipped.
    Skipped(&'static str),
}

/// Runs every step, even after a failure, and sums up. A step that was skipped has not passed.
pub(crate) fn run_all(steps: &[Step]) -> ExitCode {
    let mut ends = Vec::new();
    for step in steps {
        println!("\n=== {}: {}", step.name, step.command);
        let start = Instant::now();
        let end = run(step);
        let seconds = start.elapsed().as_secs_f64();
        match end {
            End::Skipped("") => println!("=== SKIPPED parts of {}, named above", step.name),
            End::Skipped(need) => {
                println!("=== SKIPPED {}: `{need}` does not work here; this was NOT checked", step.name);
            }
            End::Passed | End::Failed => {}
        }
        ends.push((step.name, end, seconds));
    }
    let count = |wanted: fn(&End) -> bool| ends.iter().filter(|(_, end, _)| wanted(end)).count();
    let (passed, failed) = (count(|end| matches!(end, End::Passed)), count(|end| matches!(end, End::Failed)));
    println!("\nsummary");
    for (name, end, seconds) in &ends {
        let word = match end {
            End::Passed => "passed",
            End::Failed => "FAILED",
            End::Skipped(_) => "SKIPPED",
        };
        println!("  {word:<8} {seconds:>7.1} s  {name}");
    }
    println!("{passed} passed, {failed} failed, {} skipped", ends.len() - passed - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(step: &Step) -> End {
    if let Some(need) = step.needs.iter().find(|need| !works(need)) {
        return End::Skipped(need);
    }
    let status =
        command(&step.command).map(|mut command| command.envs(step.environment.iter().copied()).status());
    match status {
        Some(Ok(status)) if status.success() => End::Passed,
        Some(Ok(status)) if status.code() == Some(SOME_SKIPPED.into()) => End::Skipped(""),
        Some(Ok(status)) => {
            println!("=== FAILED {}: {status}", step.name);
            End::Failed
        }
        Some(Err(error)) => {
            println!("=== FAILED {}: {error}", step.name);
            End::Failed
        }
        None => End::Failed,
    }
}

fn works(line: &str) -> bool {
    command(line).and_then(|mut command| command.output().ok()).is_some_and(|output| output.status.success())
}

/// The command, to be run in the root of the workspace.
pub(crate) fn command(line: &str) -> Option<Command> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next()?);
    command.args(words).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent()?);
    // Cargo tells its children which toolchain it is; `cargo +nightly` must be free to choose another.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    Some(command)
}
