//! Puts the commit into the version that `tickline --version` prints, because two builds from a clone
//! have the same number. In a package of crates.io, or without git, the version is the number alone.
//! Whether files were changed since the commit is not said: cargo runs this only after a commit.

use std::path::Path;
use std::process::Command;

/// A file of this package, by its path in the repository.
const MANIFEST: &str = "machine/tickline-cli/Cargo.toml";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let number = env!("CARGO_PKG_VERSION");
    let version = commit().map_or_else(
        || number.to_owned(),
        |commit| format!("{number} ({commit})"),
    );
    println!("cargo::rustc-env=TICKLINE_VERSION={version}");
}

/// The commit of this clone; `None` outside of one, also in a copy inside of another repository.
fn commit() -> Option<String> {
    if git(&["ls-files", "--full-name", "Cargo.toml"])? != MANIFEST {
        return None;
    }
    // A commit or a checkout appends to the second, which a clone without reflogs does not have. cargo
    // takes a file that is missing for one that has changed.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short", "HEAD"])
}

/// What git prints in this package's folder; `None` if it fails, or is missing.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
