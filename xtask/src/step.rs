//! Steps: commands with what they need, run in a row, and a summary.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// A command, and what it needs to be there.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// The program and its arguments, separated by spaces.
    pub(crate) command: Cow<'static, str>,
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// Commands that must succeed, or the step is skipped; separated by spaces.
    pub(crate) needs: &'static [&'static str],
    beside: bool,
}

impl Step {
    pub(crate) fn new(name: &'static str, command: impl Into<Cow<'static, str>>) -> Self {
        Self { name, command: command.into(), environment: &[], needs: &[], beside: false }
    }

    pub(crate) fn with(mut self, environment: &'static [(&'static str, &'static str)]) -> Self {
        self.environment = environment;
        self
    }

    pub(crate) fn needs(mut self, needs: &'static [&'static str]) -> Self {
        self.needs = needs;
        self
    }

    /// May run beside the steps that follow; steps of this kind run one after the other. Such a
    /// step measures nothing, and builds into a directory of its own. One build at a time would
    /// not keep two cores busy.
    pub(crate) fn beside(mut self) -> Self {
        self.beside = true;
        self
    }
}

/// The exit code of a command that has skipped some of its checks, and said which: all others
/// have passed.
pub(crate) const SOME_SKIPPED: u8 = 77;

enum End {
    Passed,
    /// Why, and then what its output says of it.
    Failed(String),
    /// What it needs; empty if only parts were skipped.
    Skipped(&'static str),
}

/// How a step has ended, and how long it took, s.
type Done = (&'static str, End, f64);

/// Runs every step, even after a failure, and prints a summary. A step that was skipped has not
/// passed. Steps that may run beside others begin at the place of the first of them; their output
/// follows at the end. The summary repeats why a step has failed, for whoever sees the end alone.
pub(crate) fn run_all(steps: &[Step]) -> ExitCode {
    let ends = thread::scope(|scope| {
        let (mut ends, mut beside) = (Vec::new(), None);
        for step in steps {
            if step.beside {
                let all = || -> Vec<(Done, String)> {
                    steps.iter().filter(|step| step.beside).map(|step| done(step, Output::Kept)).collect()
                };
                beside.get_or_insert_with(|| scope.spawn(all));
            } else {
                println!("\n=== {}: {}", step.name, step.command);
                let (end, _) = done(step, Output::Shown);
                ends.push(end);
            }
        }
        let beside = beside.map_or_else(Vec::new, |lane| lane.join().expect("nothing in it panics"));
        for (step, (end, output)) in steps.iter().filter(|step| step.beside).zip(beside) {
            println!("\n=== {}: {}\n{output}", step.name, step.command);
            say(&end);
            ends.push(end);
        }
        ends
    });
    let count = |wanted: fn(&End) -> bool| ends.iter().filter(|(_, end, _)| wanted(end)).count();
    let (passed, failed) =
        (count(|end| matches!(end, End::Passed)), count(|end| matches!(end, End::Failed(_))));
    println!("\nsummary");
    for (name, end, seconds) in &ends {
        let word = match end {
            End::Passed => "passed",
            End::Failed(_) => "FAILED",
            End::Skipped(_) => "SKIPPED",
        };
        println!("  {word:<8} {seconds:>7.1} s  {name}");
        if let End::Failed(why) = end {
            why.lines().for_each(|line| println!("      {line}"));
        }
    }
    println!("{passed} passed, {failed} failed, {} skipped", ends.len() - passed - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Where the output of a step goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Shown,
    Kept,
}

fn done(step: &Step, output: Output) -> (Done, String) {
    let start = Instant::now();
    let (end, kept) = run(step, output);
    let done = (step.name, end, start.elapsed().as_secs_f64());
    if output == Output::Shown {
        say(&done);
    }
    (done, kept)
}

/// Says aloud if a step has not passed.
fn say((name, end, _): &Done) {
    match end {
        End::Passed => {}
        End::Failed(why) => println!("=== FAILED {name}: {}", why.lines().next().unwrap_or_default()),
        End::Skipped("") => println!("=== SKIPPED parts of {name}, named above"),
        End::Skipped(need) => {
            println!("=== SKIPPED {name}: `{need}` does not work here; this was NOT checked");
        }
    }
}

fn run(step: &Step, output: Output) -> (End, String) {
    if let Some(need) = step.needs.iter().find(|need| !works(need)) {
        return (End::Skipped(need), String::new());
    }
    let Some(mut command) = command(&step.command) else {
        return (End::Failed("no command".to_owned()), String::new());
    };
    command.envs(step.environment.iter().copied());
    match with_output(&mut command, output) {
        Ok((status, kept)) if status.success() => (End::Passed, kept),
        Ok((status, kept)) if status.code() == Some(SOME_SKIPPED.into()) => (End::Skipped(""), kept),
        Ok((status, kept)) => (End::Failed(format!("{status}\n{}", faults(&kept))), kept),
        Err(error) => (End::Failed(error.to_string()), String::new()),
    }
}

/// A process that the command has left behind may keep its output open. So much of silence after
/// the command's end, or so long in all, and nobody waits for more.
const SILENCE: Duration = Duration::from_millis(500);
const LEFT_BEHIND: Duration = Duration::from_secs(10);

/// Runs the command, and shows its output. Returns that as well.
pub(crate) fn shown(command: &mut Command) -> io::Result<(ExitStatus, String)> {
    with_output(command, Output::Shown)
}

/// Runs the command. Returns both of its output streams, line by line as they came.
fn with_output(command: &mut Command, output: Output) -> io::Result<(ExitStatus, String)> {
    if output == Output::Kept {
        command.stdin(Stdio::null());
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (sender, lines) = mpsc::sync_channel(1024);
    let streams: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|stream| Box::new(stream) as _),
        child.stderr.take().map(|stream| Box::new(stream) as _),
    ];
    for stream in streams.into_iter().flatten() {
        let sender = sender.clone();
        thread::spawn(move || {
            let lines = BufReader::new(stream).split(b'\n').map_while(Result::ok);
            for line in lines {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let mut kept = String::new();
    let mut ended: Option<Instant> = None;
    loop {
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
        match lines.recv_timeout(SILENCE) {
            Ok(line) if ended.is_none_or(|ended| ended.elapsed() < LEFT_BEHIND) => {
                if output == Output::Shown {
                    println!("{line}");
                }
                let _ = writeln!(kept, "{line}");
            }
            Err(RecvTimeoutError::Timeout) if ended.is_none() => {}
            _ => return Ok((child.wait()?, kept)),
        }
    }
}

/// The last lines that tell why, each with the one behind it, or else the last ones.
fn faults(output: &str) -> String {
    const SIGNS: [&str; 4] = ["FAILED", "panicked at", "error:", "error["];
    const MOST: usize = 16;
    let tells = |line: &str| SIGNS.iter().any(|sign| line.contains(sign));
    let lines: Vec<&str> = output.lines().collect();
    let is_telling = |place: usize| tells(lines[place]) || place > 0 && tells(lines[place - 1]);
    let mut telling: Vec<&str> =
        (0..lines.len()).filter(|place| is_telling(*place)).map(|place| lines[place]).collect();
    if telling.is_empty() {
        telling = lines;
    }
    telling[telling.len().saturating_sub(MOST)..].join("\n")
}

pub(crate) fn works(line: &str) -> bool {
    command(line).and_then(|mut command| command.output().ok()).is_some_and(|output| output.status.success())
}

/// The command, to be run in the root of the workspace.
pub(crate) fn command(line: &str) -> Option<Command> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next()?);
    command.args(words).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent()?);
    // Cargo sets these for its children; without them `cargo +nightly` can choose another
    // toolchain.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_counts_wherever_it_runs() {
        let run = |own: &str, beside: &str| {
            run_all(&[Step::new("beside", beside.to_owned()).beside(), Step::new("own", own.to_owned())])
        };
        let good = "cargo --version";
        let bad = "cargo no-such-command";
        assert_eq!(run(good, good), ExitCode::SUCCESS);
        assert_eq!(run(bad, good), ExitCode::FAILURE);
        assert_eq!(run(good, bad), ExitCode::FAILURE);
    }

    #[test]
    fn a_failed_step_says_why() {
        let (end, _) = run(&Step::new("failing", "cargo no-such-command"), Output::Kept);
        let End::Failed(why) = end else { panic!("it passed") };
        let (status, output) = why.split_once('\n').expect("the command says why");
        assert!(status.contains("101") && output.contains("no-such-command"), "{why}");
        assert_eq!(faults("one\ntwo\n"), "one\ntwo");
        assert_eq!(faults("one\nx panicked at y\nwhy\nmore\n"), "x panicked at y\nwhy");
    }

    /// A server that a test has left behind, say.
    #[test]
    #[cfg(unix)]
    fn a_process_that_is_left_behind_does_not_keep_a_step_from_its_end() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 30 & sleep 1; echo ended"]);
        let start = Instant::now();
        let (status, kept) = with_output(&mut command, Output::Kept).expect("there is a shell");
        assert!(status.success() && kept == "ended\n", "{kept}");
        assert!(start.elapsed() < Duration::from_secs(25));
    }

    #[test]
    fn a_step_without_what_it_needs_is_skipped_and_not_passed() {
        let step = || Step::new("needy", "cargo no-such-command").needs(&["cargo no-such-need"]);
        for step in [step(), step().beside()] {
            let (end, _) = run(&step, Output::Kept);
            assert!(matches!(end, End::Skipped("cargo no-such-need")));
        }
    }
}
