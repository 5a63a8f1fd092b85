//! Copies the workspace for the mutation check, applies mutants to the copy, and runs its tests.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::table::{Mutant, Tests};
use crate::command::output_of;
use crate::files::{self, root};

/// The folder of the copy's builds.
const BUILDS: &str = "target/mutate/target";

/// Parts of the names of tests in which threads race. Such tests catch a mutant only by chance, so
/// they do not count.
const BY_CHANCE: [&str; 2] = ["readers_never_see_", "readers_of_the_"];

/// The limit of preemptions in an execution of a model. Three preemptions find every weaker
/// ordering. The step of CI that runs the models without a mutation allows more.
const PREEMPTIONS: (&str, &str) = ("LOOM_MAX_PREEMPTIONS", "3");

/// The most that tests may take.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    /// Tests may wait for each other for ever.
    Time(Duration),
    /// Seconds. Models only compute, so their CPU time is the same on a busy machine.
    CpuTime(u64),
}

/// A copy of the workspace.
#[derive(Debug)]
pub(super) struct Tree(PathBuf);

/// The tests of a crate, built.
#[derive(Debug)]
pub(super) struct Built {
    program: PathBuf,
    output: PathBuf,
}

/// The result of a run of the tests.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) green: Vec<String>,
    pub(super) red: Vec<String>,
    /// Whether the tests exceeded their limit, so that the check ended them.
    pub(super) hangs: bool,
    pub(super) took: Duration,
}

impl Tree {
    /// Copies every file that git tracks or would track.
    pub(super) fn copy() -> Result<Self, String> {
        let tree = Self(root().join("target/mutate/tree"));
        files::remove_folder(&tree.0)?;
        let listing = output_of("git ls-files -z --cached --others --exclude-standard")?;
        for path in listing
            .split_terminator('\0')
            .filter(|path| root().join(path).is_file())
        {
            let to = tree.0.join(path);
            fs::create_dir_all(to.parent().unwrap_or(&tree.0))
                .and_then(|()| fs::copy(root().join(path), &to))
                .map_err(|error| format!("copying {path}: {error}"))?;
        }
        Ok(tree)
    }

    /// Runs `action` while the mutant is in place.
    pub(super) fn with_mutant<T>(
        &self,
        mutant: &Mutant,
        action: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let path = self.0.join(&mutant.file);
        let before = files::read(&path)?;
        files::store(&path, &mutant.mutated)?;
        let result = action().map_err(|message| format!("\"{}\": {message}", mutant.does));
        files::store(&path, &before)?;
        result
    }

    /// Builds the unit tests of a crate, or its models with the flags of CI's step.
    pub(super) fn build(&self, package: &str, tests: Tests) -> Result<Built, String> {
        let mut cargo = Command::new("cargo");
        cargo.args([
            "test",
            "-p",
            package,
            "--lib",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ]);
        // Debug information would double the time of linking.
        cargo
            .env("CARGO_PROFILE_TEST_DEBUG", "0")
            .current_dir(&self.0);
        if tests == Tests::Loom {
            cargo.arg("--release").env("RUSTFLAGS", "--cfg loom");
        }
        // No folder of another step: the sources of the workspace are older than a mutant's build,
        // so cargo would use that build for them.
        let folder = if tests == Tests::Loom {
            "target/mutate/loom"
        } else {
            BUILDS
        };
        let output = cargo.arg("--target-dir").arg(root().join(folder)).output();
        let output = output.map_err(|error| format!("cargo: {error}"))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "it does not compile, which proves nothing:\n{errors}"
            ));
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let messages = messages
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let program = messages
            .filter_map(|one| one["executable"].as_str().map(PathBuf::from))
            .next_back();
        let program = program.ok_or("cargo does not say where the tests are")?;
        Ok(Built {
            program,
            output: self.0.with_file_name("output"),
        })
    }

    /// Runs tests of a library under Miri with this many seeds. Returns whether they pass, or an
    /// error if they do not compile.
    pub(super) fn passes_under_miri(
        &self,
        package: &str,
        names: &[String],
        seeds: u32,
    ) -> Result<bool, String> {
        let cargo = |mode: &str| {
            Command::new("cargo")
                .args(["+nightly", "miri", "test", "-p", package, "--lib", mode])
                .arg("--target-dir")
                .arg(root().join(BUILDS))
                .arg("--")
                .args(names)
                .env("MIRIFLAGS", format!("-Zmiri-many-seeds=0..{seeds}"))
                .env_remove("RUSTUP_TOOLCHAIN")
                .current_dir(&self.0)
                .output()
                .map_err(|error| format!("cargo: {error}"))
        };
        let built = cargo("--no-run")?;
        if !built.status.success() {
            return Err(format!(
                "it does not compile:\n{}",
                String::from_utf8_lossy(&built.stderr)
            ));
        }
        Ok(cargo("--quiet")?.status.success())
    }
}

impl Built {
    /// Runs the tests whose names contain one of `names`, or all tests. Ends them at the limit.
    pub(super) fn run(&self, names: &[String], limit: Limit) -> Result<Ran, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.program.display());
        let output = fs::File::create(&self.output).map_err(failed)?;
        let start = Instant::now();
        let mut command = limited(limit);
        command
            .arg(&self.program)
            .args(names)
            .env(PREEMPTIONS.0, PREEMPTIONS.1)
            .stdout(output)
            .stderr(Stdio::null());
        // A failing property test would store its case in the copy.
        command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
        if names.is_empty() {
            // With many threads, a test that hangs delays few others.
            command
                .arg("--test-threads=16")
                .args(BY_CHANCE.iter().flat_map(|name| ["--skip", name]));
        }
        let status = command.status().map_err(failed)?;
        let took = start.elapsed();
        let text = fs::read(&self.output).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        let hangs = exceeded(limit, status);
        let ran = Ran {
            green: ended(&text, " ... ok"),
            red: ended(&text, " ... FAILED"),
            hangs,
            took,
        };
        if status.success() || hangs || !ran.red.is_empty() {
            return Ok(ran);
        }
        Err(format!(
            "the tests ended with {status}, and none of them failed"
        ))
    }
}

/// The command that ends a program at this limit; the program follows.
fn limited(limit: Limit) -> Command {
    match limit {
        Limit::Time(time) => {
            let mut timeout = Command::new("timeout");
            timeout.arg(time.as_secs_f64().to_string());
            timeout
        }
        Limit::CpuTime(seconds) => {
            // At the second limit the kernel kills a program that survives the signal of the first.
            let mut prlimit = Command::new("prlimit");
            prlimit.arg(format!("--cpu={seconds}:{}", seconds + 10));
            prlimit
        }
    }
}

/// Whether a program ended at the limit.
fn exceeded(limit: Limit, status: ExitStatus) -> bool {
    /// The number of SIGXCPU on Linux.
    const OUT_OF_CPU_TIME: i32 = 24;
    match limit {
        // The exit code of `timeout` for a program that it has ended.
        Limit::Time(_) => status.code() == Some(124),
        Limit::CpuTime(_) => status.signal() == Some(OUT_OF_CPU_TIME),
    }
}

/// The names of the tests that ended like this.
fn ended(output: &str, how: &str) -> Vec<String> {
    let lines = output.lines();
    let tests = lines.filter_map(|line| line.strip_prefix("test ")?.strip_suffix(how));
    tests.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_passed_and_that_failed_are_told_apart() {
        let output = "running 3 tests\ntest a::one ... ok\ntest a::two ... FAILED\n\
                      test a::three ... ignored\ntest result: FAILED. 1 passed; 1 failed\n";
        assert_eq!(ended(output, " ... ok"), ["a::one"]);
        assert_eq!(ended(output, " ... FAILED"), ["a::two"]);
    }

    /// Runs this script of the shell.
    fn exceeds(limit: Limit, script: &str) -> bool {
        let status = limited(limit).args(["sh", "-c", script]).status();
        exceeded(limit, status.unwrap())
    }

    #[test]
    fn a_program_that_waits_exceeds_a_limit_of_time() {
        let limit = Limit::Time(Duration::from_millis(10));
        assert!(exceeds(limit, "sleep 1000"));
    }

    #[test]
    fn a_program_that_computes_exceeds_a_limit_of_cpu_time() {
        assert!(exceeds(Limit::CpuTime(1), "while :; do :; done"));
    }

    #[test]
    fn a_program_that_waits_takes_no_cpu_time() {
        assert!(!exceeds(Limit::CpuTime(1), "sleep 2"));
    }

    #[test]
    fn a_mutant_is_in_place_for_its_tests_alone_even_if_they_can_not_run() {
        let folder = files::target().join(format!("mutated-{}", std::process::id()));
        let tree = Tree(folder.clone());
        files::store(folder.join("a.rs"), "as it is").unwrap();
        let mutant = Mutant {
            rule: "1".to_owned(),
            does: "nothing is checked".to_owned(),
            file: "a.rs".to_owned(),
            mutated: "mutated".to_owned(),
            names: Vec::new(),
        };
        let now = || files::read(folder.join("a.rs"));
        assert_eq!(tree.with_mutant(&mutant, now).unwrap(), "mutated");
        assert_eq!(now().unwrap(), "as it is");
        let failed = tree.with_mutant(&mutant, || Err::<(), _>("it does not compile".to_owned()));
        assert_eq!(
            failed.unwrap_err(),
            "\"nothing is checked\": it does not compile"
        );
        assert_eq!(now().unwrap(), "as it is");
        fs::remove_dir_all(folder).unwrap();
    }
}
