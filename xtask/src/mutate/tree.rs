//! The copy of the workspace that is mutated, and its tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::table::{self, Mutant};

/// The names of tests in which threads race contain one of these. They catch a mutant only by
/// chance, so they do not count.
const BY_CHANCE: [&str; 2] = ["readers_never_see_", "readers_of_the_"];

/// A copy of the workspace, beside the target directory of its own.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    target: PathBuf,
}

/// The unit tests of a crate, built.
#[derive(Debug)]
pub(crate) struct Tests {
    program: PathBuf,
    output: PathBuf,
}

/// What a run of the tests has shown.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Tests that passed.
    pub(crate) green: Vec<String>,
    /// Tests that failed.
    pub(crate) red: Vec<String>,
    /// Whether it had to be ended.
    pub(crate) hangs: bool,
    pub(crate) took: Duration,
}

impl Ran {
    pub(crate) fn is_red(&self) -> bool {
        self.hangs || !self.red.is_empty()
    }
}

/// The root of the real workspace.
pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// The text of a file of the real workspace.
pub(crate) fn stored(path: &str) -> Result<String, String> {
    read(&workspace().join(path))
}

/// Writes a file of the real workspace, whole or not at all.
pub(crate) fn store(path: &str, text: &str) -> Result<(), String> {
    let new = workspace().join(format!("{path}.new"));
    write(&new, text)?;
    fs::rename(new, workspace().join(path)).map_err(|error| format!("{path}: {error}"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

impl Tree {
    /// Copies every file that git tracks or would track.
    pub(crate) fn copy() -> Result<Self, String> {
        let base = workspace().join("target/mutate");
        let tree = Self { root: base.join("tree"), target: base.join("target") };
        if tree.root.exists() {
            fs::remove_dir_all(&tree.root).map_err(|error| format!("{}: {error}", tree.root.display()))?;
        }
        let listing = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(workspace())
            .output()
            .ok()
            .filter(|output| output.status.success())
            .ok_or("git ls-files does not work here")?;
        let listing = String::from_utf8(listing.stdout).map_err(|_| "a file name that is not UTF-8")?;
        for path in listing.split_terminator('\0') {
            let (from, to) = (workspace().join(path), tree.root.join(path));
            if !from.is_file() {
                continue; // deleted, but not yet from the index
            }
            fs::create_dir_all(to.parent().unwrap_or(&tree.root))
                .and_then(|()| fs::copy(&from, &to))
                .map_err(|error| format!("copying {path}: {error}"))?;
        }
        Ok(tree)
    }

    fn path(&self, mutant: &Mutant) -> PathBuf {
        self.root.join(table::path(mutant.file))
    }

    /// Changes a file of a crate for good.
    pub(crate) fn change(
        &self,
        package: &str,
        file: &str,
        change: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<(), String> {
        let named = if file.starts_with("tickline") {
            table::path(file)
        } else {
            table::path_of(package, file).into()
        };
        let path = self.root.join(named);
        write(&path, &change(&read(&path)?)?)
    }

    /// The mutant's file as it is, and mutated.
    pub(crate) fn mutated(&self, mutant: &Mutant) -> Result<(String, String), String> {
        let before = read(&self.path(mutant))?;
        match before.matches(mutant.text).count() {
            1 => {
                let after = before.replacen(mutant.text, mutant.instead, 1);
                Ok((before, after))
            }
            found => Err(format!(
                "the table of mutants is out of date: \"{}\" replaces a text that occurs {found} times in {}, not once:\n{}",
                mutant.does, mutant.file, mutant.text
            )),
        }
    }

    /// Runs `action` while the mutant is in place.
    pub(crate) fn with<T>(
        &self,
        mutant: &Mutant,
        action: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let (before, after) = self.mutated(mutant)?;
        write(&self.path(mutant), &after)?;
        let result = action().map_err(|message| format!("\"{}\": {message}", mutant.does));
        write(&self.path(mutant), &before)?;
        result
    }

    /// Builds the tests of a crate.
    pub(crate) fn build(&self, package: &str) -> Result<Tests, String> {
        // Without debug information, which doubles the time of linking.
        self.build_with(package, |cargo| {
            cargo.arg("--target-dir").arg(&self.target).env("CARGO_PROFILE_TEST_DEBUG", "0");
        })
    }

    /// Builds a crate's models for loom, with the flags and the directory of the check in `ci.rs`, so
    /// that loom is not built again.
    pub(crate) fn build_models(&self, package: &str) -> Result<Tests, String> {
        self.build_with(package, |cargo| {
            cargo.arg("--release").arg("--target-dir").arg(workspace().join("target/loom"));
            cargo.env("RUSTFLAGS", "--cfg loom");
        })
    }

    /// Runs a test of a library under Miri with so many seeds. Whether it passes; an error if it does
    /// not compile.
    pub(crate) fn passes_under_miri(&self, package: &str, test: &str, seeds: u32) -> Result<bool, String> {
        let cargo = |last: &str| {
            Command::new("cargo")
                .args(["+nightly", "miri", "test", "-p", package, "--lib", test, last, "--target-dir"])
                .arg(workspace().join("target"))
                .env("MIRIFLAGS", format!("-Zmiri-many-seeds=0..{seeds}"))
                .current_dir(&self.root)
                .output()
                .map_err(|error| format!("cargo: {error}"))
        };
        let built = cargo("--no-run")?;
        if !built.status.success() {
            return Err(format!("it does not compile:\n{}", String::from_utf8_lossy(&built.stderr)));
        }
        Ok(cargo("--quiet")?.status.success())
    }

    fn build_with(&self, package: &str, options: impl FnOnce(&mut Command)) -> Result<Tests, String> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "-p", package, "--lib", "--no-run", "--message-format=json"]);
        options(&mut cargo);
        let output = cargo.current_dir(&self.root).output().map_err(|error| format!("cargo: {error}"))?;
        let messages = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            // The compiler's own rendering of an error, with its line breaks escaped.
            let error =
                messages.split("\"rendered\":\"error").nth(1).and_then(|text| text.split("\\n").next());
            return Err(format!(
                "it does not compile, which proves nothing: error{}\n{}",
                error.unwrap_or(""),
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        let program = messages
            .split("\"executable\":\"")
            .nth(1)
            .and_then(|text| text.split('"').next())
            .ok_or("cargo does not say where the tests are")?;
        Ok(Tests { program: program.into(), output: self.root.with_file_name("output") })
    }
}

impl Tests {
    /// Runs the tests; ends them if they take longer than `patience`.
    pub(crate) fn run(&self, patience: Duration) -> Result<Ran, String> {
        // Many threads, so that a test that hangs delays few others.
        let skipped = BY_CHANCE.iter().flat_map(|name| ["--skip", name]);
        self.run_by(Command::new(&self.program).arg("--test-threads=16").args(skipped), patience)
    }

    /// Runs those tests whose names have one of `names`.
    pub(crate) fn run_some(
        &self,
        names: &[&str],
        environment: &[(&str, &str)],
        patience: Duration,
    ) -> Result<Ran, String> {
        let environment = environment.iter().copied();
        self.run_by(Command::new(&self.program).args(names).envs(environment), patience)
    }

    fn run_by(&self, command: &mut Command, patience: Duration) -> Result<Ran, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.program.display());
        let output = fs::File::create(&self.output).map_err(failed)?;
        let start = Instant::now();
        let mut child = command.stdout(output).stderr(Stdio::null()).spawn().map_err(failed)?;
        let (hangs, status) = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break (false, Some(status));
            }
            if start.elapsed() > patience {
                child.kill().map_err(failed)?;
                child.wait().map_err(failed)?;
                break (true, None);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let took = start.elapsed();
        let text = fs::read(&self.output).map_err(failed)?;
        let ended = |how: &str| {
            String::from_utf8_lossy(&text)
                .lines()
                .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(how))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let ran = Ran { green: ended(" ... ok"), red: ended(" ... FAILED"), hangs, took };
        if status.is_some_and(|status| !status.success()) && ran.red.is_empty() {
            return Err(format!(
                "the tests ended with {}, and none of them failed",
                status.unwrap_or_default()
            ));
        }
        Ok(ran)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_stored_whole() {
        let path = format!("target/stored-{}/file", std::process::id());
        for text in ["long text", "short"] {
            store(&path, text).unwrap();
            assert_eq!(stored(&path).unwrap(), text);
        }
        assert!(stored(&format!("{path}.new")).is_err());
        fs::remove_dir_all(workspace().join(path).parent().unwrap()).unwrap();
    }
}
