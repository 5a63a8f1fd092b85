//! Puts the commit into the version that `tickline --version` prints, because two builds from a
//! clone have the same number. In a package of crates.io, or without git, the version is the number
//! alone. The version does not say whether files were changed since the commit, because cargo runs
//! this only after a commit. `tests/it/build_script.rs` runs this file in clones of its own.

use std::path::Path;
use std::process::Command;

/// A file of this package, by its path in the repository.
const MANIFEST: &str = "machine/tickline-cli/Cargo.toml";

/// git's folder of the clone, from this package's folder. In a worktree it is a file, so without
/// git a new commit is not noticed there.
const CLONE: &str = "../../.git";

/// Files and folders of git's folder. Each commit or checkout changes one of them, even a commit on
/// another branch of the clone. A branch is a file of `refs/heads`, or, until its next commit, a
/// line of `packed-refs`; or all branches are in `reftable`.
const REFERENCES: [&str; 4] = ["HEAD", "refs/heads", "packed-refs", "reftable"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let number = env!("CARGO_PKG_VERSION");
    let version = if let Some(commit) = commit() {
        format!("{number} ({commit})")
    } else {
        // There may be a commit later. The whole folder would be too much: `git status` changes the
        // index.
        for name in REFERENCES {
            rerun_if_changed(&format!("{CLONE}/{name}"));
        }
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
    for name in REFERENCES {
        rerun_if_changed(&git(&["rev-parse", "--git-path", name])?);
    }
    Some(commit)
}

/// Has cargo run this again once the file changes, if there is one. A missing one would make cargo
/// run this at each build.
fn rerun_if_changed(path: &str) {
    if Path::new(path).exists() {
        println!("cargo::rerun-if-changed={path}");
    }
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
