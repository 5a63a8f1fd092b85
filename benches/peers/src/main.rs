//! How often other harnesses say that two routines differ, if they do and if they don't: the
//! questions of `cargo xtask verdicts`, put to divan, tango-bench, zenbench and gungraun.
//!
//! Each harness has a program of its own in `src/bin`, with the same six routines. A copy of a
//! program whose name ends in `-103` does 3 % more work; `-copy-100` is byte-identical to `-100`.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml [-- --runs 10 --only TEXT]`
//!
//! Let nothing else run. Two comparisons take longest: zenbench's with a stored run is made once
//! for ten runs of the others, gungraun's once for five.

mod harness;

use std::error::Error;
use std::fs;
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::{Parser, value_parser};
use harness::{Found, HARNESSES, Harness, Verdict};

/// The steps of the routines that are compared with 100 steps.
const STEPS: [u64; 3] = [100, 103, 110];

/// Counts how often other harnesses say that two routines differ.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of runs of most harnesses.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u64).range(1..))]
    runs: u64,
    /// Runs only harnesses whose names contain this text.
    #[arg(long, default_value = "")]
    only: String,
}

/// The harnesses whose names contain this text. Fails if there is none.
fn chosen(only: &str) -> Result<Vec<Harness>, String> {
    let mut chosen = HARNESSES.to_vec();
    chosen.retain(|harness| harness.name().contains(only));
    if chosen.is_empty() {
        // A harness that makes two comparisons is there twice, one after the other.
        let mut all = HARNESSES.map(Harness::name).to_vec();
        all.dedup();
        return Err(format!(
            "--only: '{only}' is in no harness's name; there are {}",
            all.join(", ")
        ));
    }
    Ok(chosen)
}

/// Counts of one kind of answer, as `3 of 60`.
fn count(found: &[Found], is: impl Fn(&Found) -> bool) -> String {
    format!(
        "{} of {}",
        found.iter().filter(|found| is(found)).count(),
        found.len()
    )
}

/// The line of the table, for the answers about 100, 103 and 110 steps.
fn line(harness: Harness, found: &[Vec<Found>; 3], took_s: u64) -> String {
    let [equal, slower_3, slower_10] = found;
    let is_different = |found: &Found| found.verdict == Verdict::Different;
    let is_slower = |found: &Found| is_different(found) && found.percent.is_none_or(|by| by > 0.0);
    let none = found.concat();
    let largest = equal
        .iter()
        .filter_map(|found| found.percent)
        .max_by(|one, other| one.abs().total_cmp(&other.abs()));
    format!(
        "| {} {} | {} | {} | {} | {} | {} | {} | {} | {took_s} |",
        harness.name(),
        harness.version(),
        harness.compares(),
        harness.rule(),
        count(equal, is_different),
        largest.map_or_else(|| "-".to_owned(), |percent| format!("{percent:+.2}")),
        count(slower_3, is_slower),
        count(slower_10, is_slower),
        count(&none, |found| found.verdict == Verdict::None),
    )
}

/// The machine and the compilers, for the line above the table.
fn description() -> String {
    let first_line = |program: &str| {
        let output = Command::new(program).arg("--version").output().ok()?;
        String::from_utf8(output.stdout)
            .ok()?
            .lines()
            .next()
            .map(str::to_owned)
    };
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    [
        model.map_or("unknown CPU", |(_, model)| model).to_owned(),
        format!(
            "{} CPUs",
            std::thread::available_parallelism().map_or(0, usize::from)
        ),
        format!("Linux {}", kernel.trim()),
        first_line("rustc").unwrap_or_default(),
        first_line("valgrind").unwrap_or_else(|| "no valgrind".to_owned()),
    ]
    .join(", ")
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the harnesses, and prints the table.
fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { runs, only } = arguments;
    let chosen = chosen(only)?;
    let folder = harness::prepare(&STEPS)?;
    println!("{}; {runs} runs\n", description());
    println!(
        "| harness | compares | \"different\" means | identical: different | largest, % | +3 %: slower | +10 %: slower | no answer | took, s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut notes = Vec::new();
    for harness in chosen {
        let begin = Instant::now();
        let mut found: [Vec<Found>; 3] = Default::default();
        let mut failed = None;
        for _ in 0..runs.div_ceil(harness.share()) {
            for (found, steps) in found.iter_mut().zip(STEPS) {
                match harness.compare(&folder, steps) {
                    Ok(answers) => found.extend(answers),
                    Err(error) => failed = Some(error),
                }
            }
        }
        println!("{}", line(harness, &found, begin.elapsed().as_secs()));
        notes.push(format!("- {}: `{}`", harness.name(), harness.command()));
        let reason = found
            .concat()
            .into_iter()
            .rev()
            .find_map(|found| found.reason);
        if let Some(reason) = reason.or(failed) {
            notes.push(format!("  no answer: {reason}"));
        }
    }
    println!("\n{}", notes.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_argument_is_refused() {
        let error = Arguments::try_parse_from(["peers", "--run", "1"]).expect_err("a wrong name");
        assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument);
    }

    /// Symptom: with a wrong name the program measured nothing, and exited with 0.
    #[test]
    fn a_text_that_is_in_no_harnesss_name_is_refused_with_the_names() {
        let error = chosen("criterion").expect_err("no such harness");
        let expected = "--only: 'criterion' is in no harness's name; \
                        there are divan, tango-bench, zenbench, gungraun";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_line_counts_slower_ones_only_where_there_is_more_work() {
        let found = |percent, verdict| Found {
            percent: Some(percent),
            verdict,
            reason: None,
        };
        let answers = [
            vec![found(0.3, Verdict::Equal), found(-1.5, Verdict::Different)],
            vec![
                found(3.1, Verdict::Different),
                found(-2.0, Verdict::Different),
            ],
            vec![found(9.0, Verdict::Different), found(8.0, Verdict::None)],
        ];
        let line = line(Harness::Tango, &answers, 3);
        assert!(
            line.ends_with("| 1 of 2 | -1.50 | 1 of 2 | 1 of 2 | 1 of 6 | 3 |"),
            "{line}"
        );
    }
}
