//! `build.rs` puts the commit into the version, here in clones of the tests' own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::common::{skip, text};

/// A clone of the package alone, and the compiled build script.
struct Repository {
    folder: TempDir,
    script: &'static Path,
}

impl Repository {
    /// A clone with one commit and these settings of git; `None`, with a message, if git or rustc
    /// is missing.
    fn new(settings: &[&str]) -> Option<Self> {
        let repository = Self::without_commit(settings)?;
        repository.commit();
        Some(repository)
    }

    /// As [`new`](Self::new), before the first commit.
    fn without_commit(settings: &[&str]) -> Option<Self> {
        let repository = Self {
            folder: tempfile::tempdir().unwrap(),
            script: compiled_script()?,
        };
        fs::create_dir_all(repository.package()).unwrap();
        fs::write(repository.package().join("Cargo.toml"), "").unwrap();
        let mut init = clean("git");
        let init = init.args(["init", "--quiet"]).arg(repository.folder.path());
        if init.status().is_err() {
            skip("there is no git");
            return None;
        }
        for setting in settings {
            let (name, value) = setting.split_once('=').unwrap();
            repository.git(&["config", name, value]);
        }
        Some(repository)
    }

    fn package(&self) -> PathBuf {
        self.folder.path().join("machine/tickline-cli")
    }

    fn commit(&self) {
        self.git(&["add", "Cargo.toml"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "x"]);
    }

    /// What git prints in the package's folder.
    fn git(&self, arguments: &[&str]) -> String {
        let mut git = clean("git");
        let output = git.args(arguments).current_dir(self.package()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        text(&output.stdout).trim_end().to_owned()
    }

    /// The build script, to be run in the package's folder.
    fn script(&self) -> Command {
        let mut script = clean(self.script);
        script.current_dir(self.package());
        script
    }

    /// The contents of the watched files, except of the build script.
    fn state(&self, watched: &[String]) -> Vec<Vec<u8>> {
        let files = watched.iter().filter(|path| *path != "build.rs");
        let states = files.map(|path| contents(&self.package().join(path)));
        states.collect()
    }

    /// The version in which the commit has this many digits.
    fn version_of_commit(&self, digits: usize) -> String {
        let commit = self.git(&["rev-parse", "HEAD"]);
        format!("{} ({})", env!("CARGO_PKG_VERSION"), &commit[..digits])
    }
}

/// The compiled build script; `None`, with a message, if there is no compiler.
fn compiled_script() -> Option<&'static Path> {
    static SCRIPT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let script = SCRIPT.get_or_init(compile).as_deref();
    if script.is_none() {
        skip("there is no rustc");
    }
    script
}

fn compile() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Another process of the tests may execute the script that is there, so it is replaced whole.
    let new = folder.join(format!("build_script-{}", std::process::id()));
    let script = folder.join("build_script");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc
        .args(["--edition", "2024", "-o"])
        .arg(&new)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs"))
        .env("CARGO_PKG_VERSION", env!("CARGO_PKG_VERSION"));
    let output = rustc.output().ok()?;
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::rename(&new, &script).unwrap();
    Some(script)
}

/// A program that does not see the settings of this user, nor those of a hook that runs the tests.
fn clean(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "tickline");
        command.env(format!("GIT_{role}_EMAIL"), "tickline@localhost");
    }
    command
}

/// What the build script tells cargo.
struct Told {
    version: String,
    /// The files after whose change cargo runs the script again.
    watched: Vec<String>,
}

fn run(script: &mut Command) -> Told {
    let output = script.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let output = text(&output.stdout);
    let values = |key: &str| {
        let values = output.lines().filter_map(|line| line.strip_prefix(key));
        values.map(str::to_owned).collect::<Vec<_>>()
    };
    let version = values("cargo::rustc-env=TICKLINE_VERSION=");
    assert_eq!(version.len(), 1, "{output}");
    Told {
        version: version.concat(),
        watched: values("cargo::rerun-if-changed="),
    }
}

/// Symptom: all builds from a clone said 0.1.0.
#[test]
fn the_version_of_a_build_from_a_clone_has_the_commit() {
    let Some(repository) = Repository::new(&[]) else {
        return;
    };
    let version = run(&mut repository.script()).version;
    assert_eq!(version, repository.version_of_commit(9));
}

/// Symptom: `core.abbrev` or a larger clone gave one commit another version.
#[test]
fn the_commit_has_nine_digits_whatever_the_settings() {
    let Some(repository) = Repository::new(&["core.abbrev=4"]) else {
        return;
    };
    let version = run(&mut repository.script()).version;
    assert_eq!(version, repository.version_of_commit(9));
}

/// Symptom: a build in a hook of git said 0.1.0.
#[test]
fn the_version_of_a_build_in_a_hook_has_the_commit() {
    let Some(repository) = Repository::new(&[]) else {
        return;
    };
    let mut script = repository.script();
    let git_dir = repository.folder.path().join(".git");
    let version = run(script
        .env("GIT_INDEX_FILE", git_dir.join("index"))
        .env("GIT_DIR", git_dir))
    .version;
    assert_eq!(version, repository.version_of_commit(9));
}

/// Symptom: the build after the first commit said 0.1.0.
#[test]
fn a_build_without_a_commit_is_made_again_once_there_may_be_one() {
    let Some(repository) = Repository::without_commit(&[]) else {
        return;
    };
    let told = run(&mut repository.script());
    assert_eq!(told.version, env!("CARGO_PKG_VERSION"));
    let before = repository.state(&told.watched);
    repository.commit();
    assert!(
        repository.state(&told.watched) != before,
        "{:?}",
        told.watched
    );
}

/// Symptom: in a clone without a commit, or where git fails, `git status` led to another build.
#[test]
fn a_build_without_a_commit_is_not_made_again_because_the_index_changes() {
    let Some(repository) = Repository::without_commit(&[]) else {
        return;
    };
    let watched = run(&mut repository.script()).watched;
    let before = repository.state(&watched);
    repository.git(&["add", "Cargo.toml"]);
    assert!(repository.state(&watched) == before, "{watched:?}");
}

/// cargo takes a file that is missing for one that has changed, and would build at each call.
#[test]
fn a_build_outside_of_a_clone_waits_for_no_commit() {
    let Some(repository) = Repository::without_commit(&[]) else {
        return;
    };
    fs::remove_dir_all(repository.folder.path().join(".git")).unwrap();
    let told = run(&mut repository.script());
    assert_eq!(told.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(told.watched, ["build.rs"]);
}

/// The contents of a file, or of the files in a folder.
fn contents(path: &Path) -> Vec<u8> {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::read(path).unwrap();
    };
    let contents = entries.map(|entry| contents(&entry.unwrap().path()));
    contents.collect::<Vec<_>>().concat()
}

#[test]
fn the_next_commit_changes_what_the_build_watches() {
    for prepare in [&["status"][..], &["pack-refs", "--all"]] {
        let Some(repository) = Repository::new(&[]) else {
            return;
        };
        repository.git(prepare);
        let watched = run(&mut repository.script()).watched;
        let before = repository.state(&watched);
        repository.commit();
        let after = repository.state(&watched);
        assert!(after != before, "{prepare:?}: {watched:?}");
    }
}
