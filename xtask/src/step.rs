//! Runs commands and steps. A step is a command with its requirements. Steps run one after the
//! other, and end with a summary.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use crate::files;

/// A command with its requirements.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    environment: Vec<(&'static str, String)>,
    needs: Vec<Vec<String>>,
    /// Whether the step runs beside the steps that follow.
    runs_beside_others: bool,
    /// Whether changes of the libraries' integration tests may change the result.
    pub(crate) depends_on_library_tests: bool,
}

impl Step {
    /// A step that needs nothing. The command's first word is the program.
    pub(crate) fn new<'a>(name: &'static str, command: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            name,
            command: owned(command),
            environment: Vec::new(),
            needs: Vec::new(),
            runs_beside_others: false,
            depends_on_library_tests: true,
        }
    }

    /// Adds arguments.
    pub(crate) fn args<'a>(mut self, words: impl IntoIterator<Item = &'a str>) -> Self {
        self.command.extend(owned(words));
        self
    }

    /// Sets a variable of the command's environment.
    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// Adds a command to run first, which shows that a tool is there, or installs it. If it fails,
    /// the step is skipped. A skipped step has not passed.
    pub(crate) fn needs<'a>(mut self, command: impl IntoIterator<Item = &'a str>) -> Self {
        self.needs.push(owned(command));
        self
    }

    /// Lets the step run beside the steps that follow; such steps run one after the other. It must
    /// measure nothing, and build into a directory of its own, because one build at a time would
    /// not keep two cores busy.
    pub(crate) fn beside_others(mut self) -> Self {
        self.runs_beside_others = true;
        self
    }

    /// Lets a stored result hold when only the libraries' integration tests have changed
    /// (`ci/results.rs`). The step must not compile them.
    pub(crate) fn without_library_tests(mut self) -> Self {
        self.depends_on_library_tests = false;
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

/// The exit code of a command that has skipped some of its checks, and has printed which. All other
/// checks have passed.
pub(crate) const SOME_SKIPPED: u8 = 77;

/// Why a check has not passed.
#[derive(Debug, Clone)]
pub(crate) enum NotPassed {
    /// The check was skipped, because this machine lacks this requirement, and found no fault.
    /// Empty if only parts of a step were skipped.
    Skipped(String),
    /// The check failed, with one line for each fault.
    Failed(String),
}

use NotPassed::{Failed, Skipped};

impl From<String> for NotPassed {
    fn from(fault: String) -> Self {
        Failed(fault)
    }
}

impl From<io::Error> for NotPassed {
    fn from(error: io::Error) -> Self {
        Failed(error.to_string())
    }
}

/// The result of a check, in one word.
pub(crate) const fn word<T>(result: &Result<T, NotPassed>) -> &'static str {
    match result {
        Ok(_) => "passed",
        Err(Failed(_)) => "FAILED",
        Err(Skipped(_)) => "SKIPPED",
    }
}

/// The numbers of checks that passed, failed and were skipped.
pub(crate) fn counts<'a, T: 'a>(
    results: impl Iterator<Item = &'a Result<T, NotPassed>> + Clone,
) -> String {
    let count = |wanted: &str| {
        results
            .clone()
            .filter(|result| word(result) == wanted)
            .count()
    };
    format!(
        "{} passed, {} failed, {} skipped",
        count("passed"),
        count("FAILED"),
        count("SKIPPED")
    )
}

/// The exit code of a command that has made these checks.
pub(crate) fn code<'a, T: 'a>(results: impl Iterator<Item = &'a Result<T, NotPassed>>) -> u8 {
    let code = |why: &NotPassed| {
        if matches!(why, Failed(_)) {
            1
        } else {
            SOME_SKIPPED
        }
    };
    results
        .filter_map(|result| result.as_ref().err().map(code))
        .min()
        .unwrap_or(0)
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
}

/// The end of all steps.
pub(crate) struct AllDone {
    /// The exit code: 1 if a step has failed.
    pub(crate) code: u8,
    /// The results as rows of a table.
    pub(crate) rows: String,
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

/// The result of each step, with the faults of failed steps, and the reasons of tests, or other
/// parts, that skipped themselves. Failed steps come last, since a log that is cut keeps its end.
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
        if let Err(Failed(why)) = &step.result {
            for line in why.lines() {
                text += &format!("      {line}\n");
            }
        }
        let mut reasons = BTreeMap::<&str, u32>::new();
        for reason in &step.skips {
            *reasons.entry(reason).or_default() += 1;
        }
        for (reason, count) in reasons {
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
    match &result {
        Ok(()) => {}
        Err(Failed(why)) => println!(
            "=== FAILED {}: {}",
            step.name,
            why.lines().next().unwrap_or_default()
        ),
        Err(Skipped(need)) if need.is_empty() => {
            println!("=== SKIPPED parts of {}, named above", step.name);
        }
        Err(Skipped(need)) => {
            println!(
                "=== SKIPPED {}: `{need}` does not work here; this was NOT checked",
                step.name
            );
        }
    }
    Done {
        name: step.name,
        result,
        skips,
        seconds: start.elapsed().as_secs_f64(),
    }
}

/// Runs a step, and adds the reasons of what skipped itself to `skips`.
fn run(step: &Step, skips: &mut Vec<String>) -> Result<(), NotPassed> {
    for need in &step.needs {
        if output(&mut command_of(need)).is_err() {
            return Err(Skipped(need.join(" ")));
        }
    }
    let mut command = command_of(&step.command);
    command.envs(step.environment.iter().map(|(name, value)| (name, value)));
    let (status, output) = logged(&mut command, step.name)?;
    println!("=== the output of {}\n{output}", step.name);
    skips.extend(self::skips(&output).map(str::to_owned));
    match status.code() {
        Some(0) => Ok(()),
        Some(code) if code == i32::from(SOME_SKIPPED) => Err(Skipped(String::new())),
        _ => Err(Failed(format!(
            "{status}\n{}",
            faults(&without_successes(&output))
        ))),
    }
}

/// Runs a command to its end. Returns both of its output streams. The command writes them to a
/// file, because a process that it leaves running could keep a pipe open.
pub(crate) fn logged(command: &mut Command, name: &str) -> io::Result<(ExitStatus, String)> {
    let folder = files::target().join("ci");
    fs::create_dir_all(&folder)?;
    let path: PathBuf = folder.join(name.replace(['/', ' '], "-") + ".log");
    let log = File::create(&path)?;
    let status = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()?;
    Ok((
        status,
        String::from_utf8_lossy(&fs::read(path)?).into_owned(),
    ))
}

/// The beginning of the message of a test, or another part of a step, that skips itself.
const SKIP_MARK: &str = "SKIPPED: ";

/// The reasons of what skipped itself.
pub(crate) fn skips(output: &str) -> impl Iterator<Item = &str> {
    let skips = output.lines().filter_map(|line| line.split_once(SKIP_MARK));
    skips.map(|(_, reason)| reason)
}

/// The output without what tests have printed that passed. `--show-output` lists them between
/// `successes:` and the failures or the closing line.
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
/// line names an error.
fn faults(output: &str) -> String {
    const SIGNS: [&str; 4] = ["FAILED", "panicked at", "error:", "error["];
    const MAX_LINES: usize = 16;
    let tells = |line: &str| SIGNS.iter().any(|sign| line.contains(sign));
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

/// The output of a command that must succeed, without the line break at the end.
pub(crate) fn output_of(line: &str) -> Result<String, String> {
    output(&mut command(line))
}

/// As [`output_of`], for a command with an environment or with arguments that have spaces.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let line = format!("{command:?}").replace('"', "");
    let output = command
        .output()
        .map_err(|error| format!("`{line}`: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "`{line}`: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end_matches('\n')
        .to_owned())
}

/// Runs a command, lets it print to the terminal, and returns its exit code.
pub(crate) fn exit_code(line: &str) -> Result<u8, String> {
    let status = command(line)
        .status()
        .map_err(|error| format!("`{line}`: {error}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.ok_or_else(|| format!("`{line}`: {status}"))
}

/// Runs a command that must succeed, and lets it print to the terminal.
pub(crate) fn must_succeed(line: &str) -> Result<(), String> {
    match exit_code(line)? {
        0 => Ok(()),
        code => Err(format!("`{line}`: exit code {code}")),
    }
}

/// The command of this line, to be run in the root of the workspace.
pub(crate) fn command(line: &str) -> Command {
    command_of(line.split_whitespace())
}

/// The command of these words, to be run in the root of the workspace.
fn command_of<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Command {
    let mut words = words.into_iter();
    let program = words.next().expect("a command has a program");
    let mut command = Command::new(program);
    command.args(words).current_dir(files::root());
    // Cargo sets these variables for its children. They would keep `cargo +nightly` from choosing
    // another toolchain.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    command
}

/// The host in words: the number of CPUs, and the processor's name.
pub(crate) fn host_description() -> String {
    let text = files::read("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{cpus} CPUs of {}",
        name.map_or("an unknown processor", |(_, name)| name)
    )
}

#[cfg(test)]
mod tests;
