//! The names of a program's benchmarks.
//!
//! A process knows the full names of its benchmarks only from criterion. A program is therefore
//! started with `--list`, and this crate prints a mark before and after each of its benchmarks.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::arguments::{self, Role};
use crate::pairs::builds::process::{lines, next_line};
use crate::pairs::serving::MARK;

/// The first line of a program that lists its benchmarks, with the version of the turns.
const GREETING: &str = "turns 3";

/// How long a program may take until its first line. It prints the line before all else.
const GREETING_TIME: Duration = Duration::from_secs(10);

/// The mark before and after a benchmark in the list.
const BENCHMARK_MARK: &str = "tickline-criterion: benchmark";

/// Prints the first line of a list, if this process lists its benchmarks.
pub(crate) fn greet() {
    if arguments::role() == Role::List {
        _ = writeln!(io::stdout(), "{MARK}{GREETING}");
    }
}

/// Prints the mark, if this process lists its benchmarks.
pub(crate) fn mark_benchmark() {
    if arguments::role() == Role::List {
        _ = writeln!(io::stdout(), "{BENCHMARK_MARK}");
    }
}

/// criterion's names of a program's benchmarks of pairs, in order; `None` for one that a filter
/// excludes. `program` gets the arguments of this process.
pub(super) fn list(program: &Path, stderr: Stdio) -> Result<Vec<Option<String>>, String> {
    const NO_PROGRAM: &str =
        "its main does not call tickline_criterion::run, or it has another version of this crate";
    let mut command = Command::new(program);
    command
        .args(std::env::args_os().skip(1))
        .arg("--list")
        .stdin(Stdio::null());
    let mut child = arguments::prepare(&mut command, Role::List)
        .map_err(|error| error.to_string())?
        .stderr(stderr)
        .spawn()
        .map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("its output cannot be read")?;
    let lines = lines(output);
    let greeting = lines.recv_timeout(GREETING_TIME);
    if greeting.is_ok_and(|line| line.strip_prefix(MARK) == Some(GREETING)) {
        let listing: Vec<String> = std::iter::from_fn(|| next_line(&lines, &mut child)).collect();
        let status = child.wait().map_err(|error| error.to_string())?;
        if status.success() {
            return Ok(names(&listing));
        }
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        return Err(format!(
            "it can't list its benchmarks: {status}; criterion has the arguments {arguments:?}"
        ));
    }
    _ = child.kill();
    _ = child.wait();
    Err(NO_PROGRAM.to_owned())
}

fn names(listing: &[String]) -> Vec<Option<String>> {
    let within = listing
        .split(|line| line == BENCHMARK_MARK)
        .skip(1)
        .step_by(2);
    let name = |lines: &[String]| {
        lines
            .iter()
            .find_map(|line| line.strip_suffix(": benchmark"))
            .map(str::to_owned)
    };
    within.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_between_marks_and_other_benchmarks_are_ignored() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let listing = format!(
            "plain: benchmark\n{BENCHMARK_MARK}\na/1: benchmark\n{BENCHMARK_MARK}\nown words\n{BENCHMARK_MARK}\n{BENCHMARK_MARK}\nb: \
             benchmark\n{BENCHMARK_MARK}\na: b: benchmark\n{BENCHMARK_MARK}\n"
        );
        assert_eq!(
            names(&lines(&listing)),
            [Some("a/1".to_owned()), None, Some("a: b".to_owned())]
        );
        assert_eq!(names(&lines("plain: benchmark\n")), []);
    }
}
