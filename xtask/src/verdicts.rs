//! `cargo xtask verdicts`: counts how often `--against` and `compare` of `tickline-criterion` say
//! that two builds or closures differ, if they do and if they don't. The verdict is `is_different`,
//! which compares medians. The programs are copies of
//! `crates/tickline-criterion/benches/equal_builds.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use clap::{Args, value_parser};
use serde_json::Value;

use crate::command::{command, command_of, output};
use crate::files::{make_folder, remove_folder, root, table_head, target};
use crate::host::host_description;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The number of runs for each row
    #[arg(
        long,
        value_name = "N",
        default_value_t = 40,
        value_parser = value_parser!(u32).range(1..)
    )]
    runs: u32,
    /// criterion's measurement time of a benchmark; a comparison takes two to three times as long
    #[arg(long, value_name = "S", default_value_t = 0.1)]
    secs: f64,
    /// Only the rows whose name has this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// The compiler's flags for the build with an unrelated function.
const UNRELATED: &str = "--cfg tickline_unrelated";

/// A filter for the six routines that are benchmarks of pairs.
const ROUTINES: &str = "^(chain|hash|walk|boxes|texts|lists)$";

/// The number of benchmarks `pair/N` of the program (`pairs` there).
const PAIRS: u32 = 8;

/// The number of layouts of a build, for the row that compares several.
const LAYOUTS: u32 = 8;

/// The name of a copy of the program that is built in one of [`LAYOUTS`].
fn in_layout(program: &str, layout: u32) -> String {
    format!("layout{layout}-{program}")
}

/// What a row of the table measures.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    /// The program that runs, and the one that it is compared with; `None` for `compare`.
    program: &'static str,
    against: Option<&'static str>,
    builds: Builds,
    load: Load,
    goal: &'static str,
}

/// In how many layouts each program of a row is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Builds {
    One,
    Layouts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    None,
    /// Two busy loops a CPU.
    Busy,
}

const ROWS: [Row; 7] = [
    Row {
        name: "identical builds",
        program: "equal-100",
        against: Some("copy-100"),
        builds: Builds::One,
        load: Load::None,
        goal: "at most 5 % different",
    },
    Row {
        name: "identical builds, busy CPUs",
        program: "equal-100",
        against: Some("copy-100"),
        builds: Builds::One,
        load: Load::Busy,
        goal: "at most 5 % different",
    },
    Row {
        name: "a build with an unrelated function",
        program: "unrelated-100",
        against: Some("copy-100"),
        builds: Builds::One,
        load: Load::None,
        goal: "at most 5 % different by 2 % or more",
    },
    Row {
        name: "the same, both in 8 layouts",
        program: "unrelated-100",
        against: Some("copy-100"),
        builds: Builds::Layouts,
        load: Load::None,
        goal: "at most 5 % different by 2 % or more",
    },
    Row {
        name: "+3 % of work",
        program: "equal-103",
        against: Some("copy-100"),
        builds: Builds::One,
        load: Load::None,
        goal: "90 % slower",
    },
    Row {
        name: "+10 % of work",
        program: "equal-110",
        against: Some("copy-100"),
        builds: Builds::One,
        load: Load::None,
        goal: "100 % slower",
    },
    Row {
        name: "two closures of equal text",
        program: "equal-100",
        against: None,
        builds: Builds::One,
        load: Load::None,
        goal: "at most 5 % different",
    },
];

/// The difference that a comparison found, and whether it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Found {
    percent: f64,
    is_different: bool,
}

impl Found {
    /// What a verdict of `--against`, or a file of `compare`, says.
    fn from_json(comparison: &Value) -> Result<Self, String> {
        let percent = comparison["difference_percent"]["estimate"].as_f64();
        Ok(Self {
            percent: percent.ok_or_else(|| format!("not compared: {comparison}"))?,
            is_different: comparison["is_different"] == true,
        })
    }
}

/// The rows whose names have this text. Fails if there is none.
fn chosen(only: &str) -> Result<Vec<Row>, String> {
    let mut chosen = ROWS.to_vec();
    chosen.retain(|row| row.name.contains(only));
    if chosen.is_empty() {
        let all = ROWS.map(|row| row.name).join("\n  ");
        return Err(format!(
            "--only: '{only}' is in no row's name; there are\n  {all}"
        ));
    }
    Ok(chosen)
}

/// Measures the chosen rows, and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    let chosen = chosen(&arguments.only)?;
    let folder = target().join("verdicts");
    make_folder(&folder)?;
    if chosen.iter().any(|row| row.builds == Builds::Layouts) {
        for (flags, name) in [("", "copy-100"), (UNRELATED, "unrelated-100")] {
            for layout in 1..=LAYOUTS {
                let flags = format!("{flags} -C link-arg=-Wl,--shuffle-sections=.text*={layout}");
                build(&folder, &flags, &[&in_layout(name, layout)])?;
            }
        }
    }
    build(&folder, UNRELATED, &["unrelated-100"])?;
    build(
        &folder,
        "",
        &["equal-100", "copy-100", "equal-103", "equal-110"],
    )?;
    println!(
        "{}; {} runs of {} s for each row\n",
        host_description(),
        arguments.runs,
        arguments.secs
    );
    print!("{}", table_head(&TITLES));
    for row in &chosen {
        let begin = Instant::now();
        let mut found = Vec::new();
        with_load(row.load, || {
            for _ in 0..arguments.runs {
                found.extend(row.measure(&folder, arguments.secs)?);
            }
            Ok(())
        })?;
        println!("{}", row.line(&found, begin.elapsed().as_secs()));
    }
    Ok(0)
}

const TITLES: [&str; 8] = [
    "",
    "comparisons",
    "different",
    "by 2 % or more",
    "slower",
    "largest, %",
    "goal",
    "took, s",
];

/// Builds the program with these flags for the compiler, and copies it under these names.
fn build(folder: &Path, flags: &str, names: &[&str]) -> Result<(), String> {
    let mut cargo = command(
        "cargo rustc --release -q -p tickline-criterion --bench equal_builds --message-format=json --",
    );
    let messages = output(cargo.args(flags.split_whitespace()))?;
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    let program = messages.lines().find_map(executable);
    let program = program.ok_or("cargo names no program")?;
    for name in names {
        let copy = folder.join(name);
        fs::copy(&program, &copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    }
    Ok(())
}

/// Calls `body` while the load runs.
fn with_load(load: Load, body: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let loops = match load {
        Load::None => 0,
        Load::Busy => 2 * cpus,
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..loops {
            scope.spawn(|| {
                // ORDERING: Relaxed, pairs with the store below. The loops share no other data, so
                // nothing can be seen too early.
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::black_box(0);
                }
            });
        }
        let result = body();
        // ORDERING: Relaxed, pairs with the load above.
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

impl Row {
    /// Runs the program once. Returns what its comparisons found.
    fn measure(&self, folder: &Path, secs: f64) -> Result<Vec<Found>, String> {
        let copy = |name: &str, layout: u32| match self.builds {
            Builds::One => folder.join(name),
            Builds::Layouts => folder.join(in_layout(name, layout)),
        };
        let mut program = command_of([copy(self.program, 1)]);
        let files = folder.join("criterion");
        remove_folder(&files)?;
        program
            .env("CRITERION_HOME", &files)
            .args(["--bench", "--noplot"]);
        program.args([
            "--warm-up-time",
            "0.05",
            "--sample-size",
            "10",
            "--nresamples",
            "1000",
        ]);
        program.args(["--measurement-time", &secs.to_string()]);
        let Some(other) = self.against else {
            output(program.arg("^pair/"))?;
            return (0..PAIRS)
                .map(|pair| {
                    let file = files.join(format!("pair_{pair}/new/comparison.json"));
                    Found::from_json(&read(&file)?)
                })
                .collect();
        };
        let verdicts = folder.join("verdicts.json");
        program.arg("--verdicts").arg(&verdicts);
        program.arg("--against").arg(copy(other, 1));
        if self.builds == Builds::Layouts {
            for layout in 2..=LAYOUTS {
                program.arg("--against").arg(copy(other, layout));
                program.arg("--layout").arg(copy(self.program, layout));
            }
        }
        output(program.arg(ROUTINES))?;
        let verdicts = read(&verdicts)?;
        let benchmarks = verdicts["benchmarks"].as_array().ok_or("no benchmarks")?;
        benchmarks.iter().map(Found::from_json).collect()
    }

    /// The line of the table.
    fn line(&self, found: &[Found], took_s: u64) -> String {
        let percent = |is: &dyn Fn(&Found) -> bool| {
            let count = found.iter().filter(|found| is(found)).count();
            format!("{count} ({} %)", (100 * count).div_ceil(found.len().max(1)))
        };
        let largest = found.iter().map(|found| found.percent);
        let largest = largest.fold(
            0.0_f64,
            |one, other| {
                if other.abs() > one.abs() { other } else { one }
            },
        );
        format!(
            "| {} | {} | {} | {} | {} | {largest:+.2} | {} | {took_s} |",
            self.name,
            found.len(),
            percent(&|found| found.is_different),
            percent(&|found| found.is_different && found.percent.abs() >= 2.0),
            percent(&|found| found.is_different && found.percent > 0.0),
            self.goal
        )
    }
}

fn read(file: &Path) -> Result<Value, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read(root().join(file)).map_err(|error| failed(&error))?;
    serde_json::from_slice(&text).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_what_is_different_and_rounds_up() {
        let found = |percent: f64, is_different| Found {
            percent,
            is_different,
        };
        let all = [
            found(0.1, false),
            found(-0.7, true),
            found(2.5, true),
            found(-9.0, false),
        ];
        let line = ROWS[0].line(&[all[..3].to_vec(), all.to_vec()].concat(), 12);
        assert_eq!(
            line,
            "| identical builds | 7 | 4 (58 %) | 2 (29 %) | 2 (29 %) | -9.00 | at most 5 % different | 12 |"
        );
    }

    #[test]
    fn the_rows_are_chosen_by_a_part_of_their_names() {
        let rows = chosen("% of work").unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names, ["+3 % of work", "+10 % of work"]);
    }

    /// A pair that is not read is measured in vain.
    #[test]
    fn the_program_has_as_many_pairs_as_are_read() {
        let program = "crates/tickline-criterion/benches/equal_builds.rs";
        let source = crate::files::read(program).unwrap();
        let numbers: Vec<String> = (0..PAIRS).map(|pair| pair.to_string()).collect();
        let pairs = format!("pairs!(criterion: {});", numbers.join(" "));
        assert!(source.contains(&pairs), "{program} has no '{pairs}'");
    }

    /// Symptom: with a wrong name the command measured nothing, and passed.
    #[test]
    fn a_text_that_is_in_no_rows_name_is_refused_with_the_names() {
        let error = chosen("indentical").unwrap_err();
        assert!(error.starts_with("--only: 'indentical'"), "{error}");
        for row in ROWS {
            assert!(error.contains(row.name), "{error}");
        }
    }

    #[test]
    fn the_load_ends_with_the_measurement() {
        assert_eq!(with_load(Load::Busy, || Ok(())), Ok(()));
        let failed = || Err("no program".to_owned());
        assert_eq!(with_load(Load::Busy, failed), failed());
    }
}
