//! Puts the commit into the version that `tickline --version` prints, because two builds from a clone
//! have the same number. In a package of crates.io, or without git, the version is the number alone.
//! Whether files were changed since the commit is not said: cargo runs this only after a commit.
//! `tests/it/build_script.rs` runs this file in clones of its own.

use std::path::Path;
use std::process::Command;

/// A file of this package, by its path in the repository.
const MANIFEST: &str = "machine/tickline-cli/Cargo.toml";

/// The clone's folder, or a file that names it, from this package's folder.
const CLONE: &str = "../../.git";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let number = env!("CARGO_PKG_VERSION");
    let version = if let Some(commit) = commit() {
        format!("{number} ({commit})")
    } else {
        // There may be a commit later. A missing file would make cargo run this at each build.
        rerun_if_changed(CLONE);
        number.to_owned()
    };
    println!("cargo::rustc-env=TICKLINE_VERSION={version}");
}

/// The commit of this clone; `None` outside of one, also in a copy inside of another repository.
fn commit() -> Option<String> {
    if git(&["ls-files", "--full-name", "Cargo.toml"])? != MANIFEST {
        return None;
    }
    let commit = git(&["rev-parse", "--short=9", "HEAD"])?;
    // A commit or a checkout appends to this log. Without it, a branch is a file of a folder, or a line
    // of `packed-refs`, until a commit makes the file; or all are in `reftable`.
    let log = git_path("logs/HEAD")?;
    if Path::new(&log).exists() {
        rerun_if_changed(&log);
    } else {
        for name in ["HEAD", "refs/heads", "packed-refs", "reftable"] {
            rerun_if_changed(&git_path(name)?);
        }
    }
    Some(commit)
}

/// Has cargo run this again once the file changes, if there is one.
fn rerun_if_changed(path: &str) {
    if Path::new(path).exists() {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// The path of a file of the clone.
fn git_path(name: &str) -> Option<String> {
    git(&["rev-parse", "--git-path", name])
}

/// What git prints in this package's folder; `None` if it fails, or is missing.
fn git(arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    // git sets these for a hook. With the first, it takes the present folder for the clone's root.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(variable);
    }
    let output = git.args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
