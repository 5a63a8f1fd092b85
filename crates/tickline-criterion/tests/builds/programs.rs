//! Copies of this program, each of which is a build, and what they print.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::benchmarks::LOG;

/// A folder with copies of this program, and with criterion's files. It is removed after the test.
pub(crate) struct Programs(pub(crate) PathBuf);

impl Programs {
    pub(crate) fn new(program: &Path, test: &str) -> Self {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let programs = Self(folder);
        for steps in [1, 2, 8, 100, 130, 300, 3_000, 9_000] {
            let copy = programs.path(steps);
            fs::hard_link(program, &copy)
                .or_else(|_| fs::copy(program, &copy).map(drop))
                .expect("a copy");
        }
        programs
    }

    pub(crate) fn path(&self, steps: u64) -> PathBuf {
        self.0.join(format!("work-{steps}{EXE_SUFFIX}"))
    }

    /// Runs a copy as `cargo bench -- FILTER ARGUMENTS` does.
    pub(crate) fn run(&self, steps: u64, filter: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(steps, filter, arguments);
        command.output().expect("a program")
    }

    pub(crate) fn command(&self, steps: u64, filter: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path(steps));
        command
            .args(["--bench", filter])
            .args(arguments)
            .env("CRITERION_HOME", &self.0)
            .env(LOG, self.0.join("log"));
        command
    }

    pub(crate) fn against(&self, steps: u64, filter: &str, other: u64) -> Output {
        self.run(
            steps,
            filter,
            &["--against", &self.path(other).to_string_lossy()],
        )
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let text = fs::read(self.0.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        serde_json::from_slice(&text).expect("JSON")
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Standard output and error.
pub(crate) fn texts(output: &Output) -> (String, String) {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    (out, err)
}
