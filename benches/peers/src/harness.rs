//! The harnesses: the command of a comparison, and what the harness answers.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use peers::ROUTINES;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Different,
    Equal,
    /// The harness refuses an answer, or can't tell.
    None,
}

/// The answer about one routine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// The difference, if the harness states one.
    pub(crate) percent: Option<f64>,
    pub(crate) verdict: Verdict,
    /// Why there is no answer.
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harness {
    Divan,
    Tango,
    ZenbenchClosures,
    ZenbenchBuilds,
    Gungraun,
}

pub(crate) const HARNESSES: [Harness; 5] = [
    Harness::Divan,
    Harness::Tango,
    Harness::ZenbenchClosures,
    Harness::ZenbenchBuilds,
    Harness::Gungraun,
];

/// What is compared with the other program.
const COPY: &str = "copy-100";

/// Builds the programs, and copies them under the names that say how much work they do.
pub(crate) fn prepare(steps: &[u64]) -> Result<PathBuf, Box<dyn Error>> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let build = ["build", "--release", "--bins", "--manifest-path", manifest];
    if !Command::new("cargo").args(build).status()?.success() {
        return Err("the programs can't be built".into());
    }
    let own = std::env::current_exe()?;
    let built = own.parent().ok_or("a program without a folder")?;
    let folder = built.join("peers-programs");
    fs::create_dir_all(&folder)?;
    for program in HARNESSES.map(Harness::program) {
        let names = steps.iter().map(u64::to_string).chain([COPY.to_owned()]);
        for name in names {
            fs::copy(
                built.join(program),
                folder.join(format!("{program}-{name}")),
            )?;
        }
    }
    Ok(folder)
}

impl Harness {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Divan => "divan",
            Self::Tango => "tango-bench",
            Self::ZenbenchClosures | Self::ZenbenchBuilds => "zenbench",
            Self::Gungraun => "gungraun",
        }
    }

    /// The version in `Cargo.toml`.
    pub(crate) fn version(self) -> &'static str {
        let manifest = include_str!("../Cargo.toml");
        let start = format!("{} = \"=", self.name());
        let version = manifest.lines().find_map(|line| line.strip_prefix(&start));
        version.map_or("", |version| version.trim_end_matches('"'))
    }

    /// The program in `src/bin`.
    fn program(self) -> &'static str {
        match self {
            Self::Divan => "with_divan",
            Self::Tango => "with_tango",
            Self::ZenbenchClosures => "with_zenbench",
            Self::ZenbenchBuilds => "with_zenbench_builds",
            Self::Gungraun => "with_gungraun",
        }
    }

    pub(crate) fn compares(self) -> &'static str {
        match self {
            Self::Divan => "two runs, one after the other",
            Self::Tango => "two builds in turns, one process of each build",
            Self::ZenbenchClosures => "two closures in turns, one process",
            Self::ZenbenchBuilds => "a build with the stored run of another, five processes each",
            Self::Gungraun => "the instructions of two builds under valgrind",
        }
    }

    pub(crate) fn rule(self) -> &'static str {
        match self {
            Self::Divan => "our rule: the medians differ by 1 % or more; divan states no verdict",
            Self::Tango => "its `*`",
            Self::ZenbenchClosures => "its `significant`",
            Self::ZenbenchBuilds => "exit code 1, \"regression\": slower by 1 % or more",
            Self::Gungraun => "its percentage in place of \"No change\"",
        }
    }

    /// This harness compares once while the others compare this many times, because it takes long.
    pub(crate) fn share(self) -> u64 {
        match self {
            Self::ZenbenchBuilds => 10,
            Self::Gungraun => 5,
            _ => 1,
        }
    }

    /// The command of a comparison, for a reader.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Divan => "COPY --bench; THIS --bench",
            Self::Tango => "THIS compare COPY",
            Self::ZenbenchClosures => "THIS --format=json",
            Self::ZenbenchBuilds => {
                "COPY --mode=confirm --workload-id=peers --group=ROUTINE --save-baseline=copy; \
                 THIS --mode=confirm --workload-id=peers --group=ROUTINE --baseline=copy"
            }
            Self::Gungraun => "COPY --bench --save-baseline=copy; THIS --bench --baseline=copy",
        }
    }

    /// Compares the six routines of the program that makes these steps with those that make 100.
    pub(crate) fn compare(self, folder: &Path, steps: u64) -> Result<Vec<Found>, String> {
        let this = || self.command_of(folder, &steps.to_string());
        let copy = || self.command_of(folder, COPY);
        match self {
            Self::Divan => {
                let text =
                    |mut command: Command| run(command.args(["--bench", "--color", "never"]));
                let old = text(copy())?;
                let new = text(this())?;
                each(|routine| {
                    let percent =
                        (median_ns(&new, routine)? / median_ns(&old, routine)? - 1.0) * 100.0;
                    let verdict = if percent.abs() >= 1.0 {
                        Verdict::Different
                    } else {
                        Verdict::Equal
                    };
                    Some(found(percent, verdict))
                })
            }
            Self::Tango => {
                let copy = folder.join(format!("{}-{COPY}", self.program()));
                let mut command = this();
                command.args(["--color", "never", "compare"]).arg(copy);
                // 1: it calls a routine slower.
                let text = run_with_codes(&mut command, &[0, 1])?;
                each(|routine| {
                    let last = row(&text, routine)?.split_whitespace().last()?;
                    let percent = last.trim_end_matches('*').strip_suffix('%')?.parse().ok()?;
                    let verdict = if last.ends_with('*') {
                        Verdict::Different
                    } else {
                        Verdict::Equal
                    };
                    Some(found(percent, verdict))
                })
            }
            Self::ZenbenchClosures => {
                let text = run(this().arg("--format=json").env("ZENBENCH_NO_SAVE", "1"))?;
                let json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
                let groups = json["comparisons"].as_array().ok_or("no comparisons")?;
                each(|routine| {
                    let group = groups.iter().find(|group| group["group_name"] == routine)?;
                    let analysis = &group["analyses"][0][2];
                    let verdict = if analysis["significant"].as_bool()? {
                        Verdict::Different
                    } else {
                        Verdict::Equal
                    };
                    Some(found(analysis["pct_change"].as_f64()?, verdict))
                })
            }
            Self::ZenbenchBuilds => ROUTINES
                .into_iter()
                .map(|routine| confirm(copy(), this(), folder, routine))
                .collect(),
            Self::Gungraun => {
                let home = folder.join("gungraun");
                run(copy()
                    .arg("--bench")
                    .arg("--save-baseline=copy")
                    .env("GUNGRAUN_HOME", &home))?;

                let text = run(this()
                    .arg("--bench")
                    .arg("--baseline=copy")
                    .env("GUNGRAUN_HOME", &home))?;
                each(|routine| {
                    let mut lines = text.lines();
                    lines.find(|line| line.contains(&format!("::{routine} ")))?;
                    let counts =
                        lines.find_map(|line| line.trim().strip_prefix("Instructions:"))?;
                    let (now, rest) = counts.trim().split_once('|')?;
                    let then = rest.split_whitespace().next()?;
                    let count = |text: &str| text.parse::<f64>().ok();
                    let percent = (count(now)? / count(then)? - 1.0) * 100.0;
                    let verdict = if counts.contains("No change") {
                        Verdict::Equal
                    } else {
                        Verdict::Different
                    };
                    Some(found(percent, verdict))
                })
            }
        }
    }

    fn command_of(self, folder: &Path, name: &str) -> Command {
        let mut command = Command::new(folder.join(format!("{}-{name}", self.program())));
        // Where the README of the benches has gungraun's second program installed.
        let runner = concat!(env!("CARGO_MANIFEST_DIR"), "/target/runner/bin");
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .current_dir(folder)
            .env("PATH", format!("{runner}:{path}"));
        command
    }
}

fn found(percent: f64, verdict: Verdict) -> Found {
    Found {
        percent: Some(percent),
        verdict,
        reason: None,
    }
}

/// The answers about all routines.
fn each(find: impl Fn(&'static str) -> Option<Found>) -> Result<Vec<Found>, String> {
    let find = |routine| find(routine).ok_or_else(|| format!("no figures of {routine}"));
    ROUTINES.into_iter().map(find).collect()
}

/// zenbench's confirmation of one routine, by its exit codes.
fn confirm(
    mut copy: Command,
    mut this: Command,
    folder: &Path,
    routine: &str,
) -> Result<Found, String> {
    let data = folder.join("zenbench");
    // If zenbench refuses to store this baseline, it would compare with one of an earlier run.
    for stored in [folder.join(".zenbench"), data.clone()] {
        if let Err(error) = fs::remove_dir_all(stored)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error.to_string());
        }
    }
    let code = |command: &mut Command, baseline: &str| {
        let output = command
            .args(["--mode=confirm", "--workload-id=peers", baseline])
            .arg(format!("--group={routine}"))
            .env("ZENBENCH_DATA_DIR", &data)
            .output()
            .map_err(|error| error.to_string())?;
        Ok::<_, String>((output.status.code(), last_line(&output)))
    };
    let none = |reason| Found {
        percent: None,
        verdict: Verdict::None,
        reason: Some(reason),
    };
    let (stored, reason) = code(&mut copy, "--save-baseline=copy")?;
    if stored != Some(0) {
        return Ok(none(reason));
    }
    let (compared, reason) = code(&mut this, "--baseline=copy")?;
    let answer = |verdict| Found {
        percent: None,
        verdict,
        reason: None,
    };
    Ok(match compared {
        Some(0) => answer(Verdict::Equal),
        Some(1) => answer(Verdict::Different),
        _ => none(reason),
    })
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .to_owned()
}

/// What the command prints on its standard output, if it succeeds.
fn run(command: &mut Command) -> Result<String, String> {
    run_with_codes(command, &[0])
}

/// The same, if it ends with one of these exit codes.
fn run_with_codes(command: &mut Command, codes: &[i32]) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let code = output.status.code();
    if !code.is_some_and(|code| codes.contains(&code)) {
        return Err(format!(
            "{}: {}: {}",
            command.get_program().display(),
            output.status,
            last_line(&output)
        ));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// The row of a table that has this word.
fn row<'a>(table: &'a str, name: &str) -> Option<&'a str> {
    table
        .lines()
        .find(|line| line.split_whitespace().any(|word| word == name))
}

/// The median in divan's table: after the name, `│` separates fastest, slowest, median and mean.
fn median_ns(table: &str, name: &str) -> Option<f64> {
    let mut words = row(table, name)?.split('│').nth(2)?.split_whitespace();
    let value: f64 = words.next()?.parse().ok()?;
    let unit_ns = match words.next()? {
        "ps" => 1e-3,
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        _ => return None,
    };
    Some(value * unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_divans_third_column() {
        let table = "├─ boxes    1.001 µs      │ 1.051 µs      │ 1.031 µs      │ 1.033 µs      │ 100     │ 200\n\
                     ├─ chain    91.72 ns      │ 92.38 ns      │ 92.04 ns      │ 92.01 ns      │ 100     │ 3200";
        assert_eq!(median_ns(table, "chain"), Some(92.04));
        assert!((median_ns(table, "boxes").unwrap_or(0.0) - 1_031.0).abs() < 0.01);
    }

    #[test]
    fn each_harness_has_a_version() {
        assert!(
            HARNESSES
                .iter()
                .all(|harness| !harness.version().is_empty())
        );
    }
}
