//! The names of a program's benchmarks.
//!
//! A process knows the full names of its benchmarks only from criterion. A program is therefore
//! started with `--list`, and this crate prints a mark before and after each of its benchmarks.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::arguments::{self, Role, hints};
use crate::pairs::builds::process::{lines, next_line};
use crate::pairs::serving::MARK;
use crate::reason::{ReasonCode, VerdictReason};

/// The first line of a program that lists its benchmarks, with the version of the turns.
const GREETING: &str = "turns 5";

/// How long a program may take until its first line. It prints the line before all else.
const GREETING_TIME: Duration = Duration::from_secs(10);

/// How long the errors of a program that has ended may take, if another process has its stream.
const ERRORS_TIME: Duration = Duration::from_secs(1);

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

/// criterion's names of a program's benchmarks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// Of pairs, in order; `None` for one that a filter excludes.
    pub(super) pairs: Vec<Option<String>>,
    /// The others that the filter does not exclude: of `bench_function` and of `compare`.
    pub(super) others: Vec<String>,
}

impl Listing {
    pub(super) fn has_pairs(&self, name: &str) -> bool {
        self.pairs.iter().flatten().any(|pairs| pairs == name)
    }

    fn has_other(&self, name: &str) -> bool {
        self.others.iter().any(|other| other == name)
    }

    /// Why a benchmark of pairs can't be compared with this build, the other one. `None` if it can.
    pub(super) fn why_not_comparable(&self, name: &str) -> Option<VerdictReason> {
        if self.has_pairs(name) {
            None
        } else if self.has_other(name) {
            let text = "in the other build it is of bench_function or compare, not of bench_pairs";
            Some(ReasonCode::NotOfBenchPairs.with(text))
        } else {
            Some(ReasonCode::OnlyThisBuild.with("the other build has no such benchmark"))
        }
    }

    /// The benchmarks of this build, and then of the other one, that have no verdict, each with the
    /// reason.
    pub(super) fn not_judged<'a>(
        &'a self,
        theirs: &'a Self,
        is_judged: impl Fn(&str) -> bool,
    ) -> Vec<(&'a str, VerdictReason)> {
        let of_other_kind = self.others.iter().map(|name| {
            let text =
                "--against compares benchmarks of bench_pairs; it is of bench_function or compare";
            (name, ReasonCode::NotOfBenchPairs.with(text))
        });
        let not_measured = self.pairs.iter().flatten().map(|name| {
            let text = "the list of benchmarks has it, and this run did not measure it";
            (name, ReasonCode::NotMeasured.with(text))
        });
        let only_theirs = theirs.pairs.iter().flatten();
        let only_theirs = only_theirs
            .filter(|name| !self.has_pairs(name) && !self.has_other(name))
            .map(|name| {
                let text = "only the other build has it";
                (name, ReasonCode::OnlyOtherBuild.with(text))
            });
        of_other_kind
            .chain(not_measured)
            .chain(only_theirs)
            .map(|(name, reason)| (name.as_str(), reason))
            .filter(|(name, _)| !is_judged(name))
            .collect()
    }

    /// The first benchmark of pairs that the other list lacks.
    pub(super) fn only_here(&self, other: &Self) -> Option<&str> {
        let mut names = self.pairs.iter().flatten();
        let name = names.find(|name| !other.has_pairs(name))?;
        Some(name)
    }

    /// What `build` has, for a text about two builds without a common benchmark of pairs.
    pub(super) fn describe(&self, build: &str) -> String {
        let pairs: Vec<&str> = self.pairs.iter().flatten().map(String::as_str).collect();
        let others: Vec<&str> = self.others.iter().map(String::as_str).collect();
        if !pairs.is_empty() {
            format!("{build} has {}", first_names(&pairs))
        } else if !others.is_empty() {
            format!(
                "{build} has only benchmarks of bench_function or compare ({})",
                first_names(&others)
            )
        } else {
            format!("{build} has no benchmark that fits the filter")
        }
    }
}

/// The first of the names.
fn first_names(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    match names.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}

/// Whose program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Build {
    This,
    Other,
}

/// The names of a program's benchmarks. `program` gets the arguments of this process.
///
/// # Errors
///
/// If the program can't list them. What it printed about that is shown, if it is of this build.
pub(super) fn list(program: &Path, build: Build) -> Result<Listing, String> {
    let mut command = Command::new(program);
    command
        // The user's arguments may have a `--`, after which there are no options.
        .arg("--list")
        .args(std::env::args_os().skip(1))
        .stdin(Stdio::null());
    let mut child = arguments::prepare(&mut command, Role::List)
        .map_err(|error| error.to_string())?
        .stderr(match build {
            Build::This => Stdio::piped(),
            Build::Other => Stdio::null(),
        })
        .spawn()
        .map_err(|error| hints::not_started(program, &error))?;
    let errors = child.stderr.take().map(all_bytes);
    let show_errors = || {
        let bytes = errors.and_then(|errors| errors.recv_timeout(ERRORS_TIME).ok());
        _ = io::stderr().write_all(&bytes.unwrap_or_default());
    };
    let output = child.stdout.take().ok_or("its output can't be read")?;
    let lines = lines(output);
    let greeting = lines.recv_timeout(GREETING_TIME);
    if greeting
        .as_ref()
        .is_ok_and(|line| line.strip_prefix(MARK) == Some(GREETING))
    {
        let listing: Vec<String> = std::iter::from_fn(|| next_line(&lines, &mut child)).collect();
        let status = child.wait().map_err(|error| error.to_string())?;
        if status.success() {
            return Ok(parse(&listing));
        }
        show_errors();
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        return Err(format!(
            "it can't list its benchmarks: {status}; criterion has the arguments {arguments:?}: try \
             {} with --list and these",
            program.display()
        ));
    }
    _ = child.kill();
    _ = child.wait();
    show_errors();
    Err(without_greeting(&greeting))
}

/// Why a program has not greeted, by its first line, if it has printed one.
fn without_greeting(line: &Result<String, RecvTimeoutError>) -> String {
    let no_program = "its main does not call tickline_criterion::run, its [[bench]] has no \
                      `harness = false`, or it has another version of this crate";
    match line {
        Err(RecvTimeoutError::Timeout) => format!(
            "it has printed nothing for {} s: {no_program}, or its main does too much before that call",
            GREETING_TIME.as_secs()
        ),
        _ => no_program.to_owned(),
    }
}

/// Reads all of a stream, on a thread, so that a program that prints much need not wait.
fn all_bytes(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        _ = stream.read_to_end(&mut bytes);
        _ = sender.send(bytes);
    });
    receiver
}

fn parse(lines: &[String]) -> Listing {
    let name = |line: &String| line.strip_suffix(": benchmark").map(str::to_owned);
    let mut listing = Listing::default();
    // The marks enclose each benchmark of pairs, so that every second part is one.
    let parts = lines.split(|line| line == BENCHMARK_MARK);
    for (number, part) in parts.enumerate() {
        let mut names = part.iter().filter_map(name);
        if number % 2 == 1 {
            listing.pairs.push(names.next());
        } else {
            listing.others.extend(names);
        }
    }
    listing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn parsed(text: &str) -> Listing {
        parse(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_names_of_benchmarks_of_pairs_are_between_marks() {
        let listing = parsed(&format!(
            "plain: benchmark\n{BENCHMARK_MARK}\na/1: benchmark\n{BENCHMARK_MARK}\nown words\n{BENCHMARK_MARK}\n{BENCHMARK_MARK}\nb: \
             benchmark\n{BENCHMARK_MARK}\na: b: benchmark\n{BENCHMARK_MARK}\n"
        ));
        let pairs = [Some("a/1".to_owned()), None, Some("a: b".to_owned())];
        let others = texts(&["plain", "b"]);
        let expected = Listing {
            pairs: pairs.to_vec(),
            others,
        };
        assert_eq!(listing, expected);
    }

    /// Symptom: the text did not say that the program had been too slow.
    #[test]
    fn the_error_of_a_program_that_prints_nothing_has_the_time() {
        let text = without_greeting(&Err(RecvTimeoutError::Timeout));
        assert!(
            text.starts_with("it has printed nothing for 10 s: "),
            "{text}"
        );
    }

    #[test]
    fn the_error_of_a_program_that_prints_something_else_has_no_time() {
        let text = without_greeting(&Ok("Usage: ".to_owned()));
        assert!(text.starts_with("its main does not call "), "{text}");
    }

    #[test]
    fn without_marks_no_benchmark_is_of_pairs() {
        assert_eq!(parsed("plain: benchmark\n").pairs, []);
    }

    fn pairs(names: &[&str]) -> Listing {
        Listing {
            pairs: texts(names).into_iter().map(Some).collect(),
            others: Vec::new(),
        }
    }

    #[test]
    fn a_benchmark_is_only_here_if_the_other_list_lacks_it() {
        let listing = pairs(&["a", "b", "c"]);
        assert_eq!(listing.only_here(&pairs(&["a", "c"])), Some("b"));
    }

    #[test]
    fn a_benchmark_without_a_verdict_has_the_reason() {
        let ours = Listing {
            others: texts(&["plain", "judged by a baseline", "plain here"]),
            ..pairs(&["judged", "not measured"])
        };
        let theirs = pairs(&["judged", "not measured", "plain here", "theirs"]);
        let found = ours.not_judged(&theirs, |name| name.starts_with("judged"));
        let found: Vec<_> = found
            .iter()
            .map(|(name, reason)| (*name, reason.code))
            .collect();
        let expected = [
            ("plain", ReasonCode::NotOfBenchPairs),
            ("plain here", ReasonCode::NotOfBenchPairs),
            ("not measured", ReasonCode::NotMeasured),
            ("theirs", ReasonCode::OnlyOtherBuild),
        ];
        assert_eq!(found, expected);
    }

    /// Symptom: "it has no such benchmark" of a build that has it by `bench_function`.
    #[test]
    fn a_benchmark_of_another_kind_in_the_other_build_is_not_called_missing() {
        let theirs = Listing {
            others: texts(&["plain"]),
            ..pairs(&["a"])
        };
        for (name, code) in [
            ("a", None),
            ("plain", Some(ReasonCode::NotOfBenchPairs)),
            ("b", Some(ReasonCode::OnlyThisBuild)),
        ] {
            let reason = theirs.why_not_comparable(name);
            assert_eq!(reason.map(|reason| reason.code), code, "{name}");
        }
    }

    /// Another order of objects in the program may give another order of its benchmarks.
    #[test]
    fn the_order_of_two_lists_may_differ() {
        assert_eq!(pairs(&["a", "b"]).only_here(&pairs(&["b", "a"])), None);
    }

    #[test]
    fn a_description_has_the_first_three_benchmarks_that_can_be_compared() {
        let listing = Listing {
            others: texts(&["plain"]),
            ..pairs(&["a", "b", "c", "d", "e"])
        };
        assert_eq!(listing.describe("main"), "main has a, b, c and 2 more");
    }

    #[test]
    fn a_description_has_the_benchmarks_that_cannot_be_compared_if_there_are_no_others() {
        let others = Listing {
            pairs: vec![None],
            others: texts(&["plain"]),
        };
        let text = "main has only benchmarks of bench_function or compare (plain)";
        assert_eq!(others.describe("main"), text);
    }

    #[test]
    fn a_description_says_that_there_is_no_benchmark() {
        let text = "main has no benchmark that fits the filter";
        assert_eq!(Listing::default().describe("main"), text);
    }
}
