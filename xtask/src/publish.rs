//! `cargo xtask publish`: does all that `cargo publish` does, except for the upload.
//!
//! Cargo packs each published crate, and builds each package from its own files, with the other
//! packages in place of those that crates.io does not have yet. It needs no token, and the builds
//! share one folder. A warning of a package fails the command: cargo warns of files that the
//! package lacks, and of missing descriptions.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::command::{command, must_succeed, run_logged, words};
use crate::files::root;
use crate::outcome::SOME_SKIPPED;
use crate::targets::{PUBLISHED, package_options};

/// The registry is named because cargo would stop at a configuration that replaces crates.io by a
/// mirror. Changes that are not committed are allowed, because this check publishes nothing.
const DRY_RUN: &str = "cargo publish --workspace --dry-run --allow-dirty --registry crates-io";

/// Where a dry run builds.
const TARGET: &str = "target/publish";

/// Cargo's warning about each package in a dry run.
const OF_EACH_DRY_RUN: &str = "aborting upload due to dry run";

/// Parts of cargo's messages if it can't reach a registry.
const UNREACHABLE: [&str; 3] = [
    "spurious network error",
    "--offline was specified",
    "net.offline",
];

/// The beginnings of lines that say that a package was downloaded, and does not compile.
const NOT_COMPILED: [&str; 2] = ["error[", "error: could not compile"];

/// Packs and builds every published crate.
pub(crate) fn run() -> Result<u8, String> {
    if let Some(home) = cargo_home() {
        forget_unpacked(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    }
    forget_built()?;
    let mut dry_run = command(DRY_RUN);
    dry_run.args(["--target-dir", TARGET]);
    let (status, output) = run_logged(&mut dry_run, "publish")?;
    println!("{output}");
    let verdict = if status.success() {
        verdict_of_success(&output)
    } else {
        verdict_of_failure(&output)
    };
    match verdict {
        Verdict::Passed => Ok(0),
        Verdict::Unreachable => {
            println!("SKIPPED: the registry can't be reached, so no package was built");
            Ok(SOME_SKIPPED)
        }
        Verdict::Warned(warnings) => {
            println!("=== FAILED: cargo has warned\n{warnings}");
            Ok(1)
        }
        Verdict::PackedNothing => {
            println!("=== FAILED: `{}` has packed nothing", words(&dry_run));
            Ok(1)
        }
        Verdict::Failed => {
            println!("=== FAILED: `{}`: {status}", words(&dry_run));
            Ok(1)
        }
    }
}

/// Removes what earlier dry runs have built of the packages. Cargo takes a package of a registry
/// for unchanged if its version is.
fn forget_built() -> Result<(), String> {
    if !root().join(TARGET).exists() {
        return Ok(());
    }
    let mut clean = command("cargo clean --quiet --target-dir");
    must_succeed(clean.arg(TARGET).args(package_options(PUBLISHED)))
}

/// cargo's folder; `None` if there is none.
fn cargo_home() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| Some(env::home_dir()?.join(".cargo")))
}

/// Removes what earlier dry runs have unpacked. Cargo unpacks a version of a package once, and
/// would build a package with the other packages of an earlier run, which have the same version.
///
/// The registry of a dry run is a folder of this machine, so its name begins with `-`, where other
/// registries have their host.
fn forget_unpacked(home: &Path) -> io::Result<()> {
    let registries = match fs::read_dir(home.join("registry/src")) {
        Ok(registries) => registries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for registry in registries {
        let registry = registry?;
        if !registry.file_name().as_encoded_bytes().starts_with(b"-") {
            continue;
        }
        for package in fs::read_dir(registry.path())? {
            let package = package?;
            let name = package.file_name();
            if name.as_encoded_bytes().starts_with(b"tickline-") {
                fs::remove_dir_all(package.path())?;
            }
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// Nothing was checked.
    Unreachable,
    /// The lines with warnings.
    Warned(String),
    /// It ended without an error.
    PackedNothing,
    Failed,
}

/// What a dry run that ended with an error has shown.
fn verdict_of_failure(output: &str) -> Verdict {
    let is_fault = |line: &str| NOT_COMPILED.iter().any(|sign| line.starts_with(sign));
    // A download that was tried again may have gone well.
    if output.lines().any(is_fault) {
        Verdict::Failed
    } else if UNREACHABLE.iter().any(|sign| output.contains(sign)) {
        Verdict::Unreachable
    } else {
        Verdict::Failed
    }
}

/// What a dry run that ended without an error has shown.
fn verdict_of_success(output: &str) -> Verdict {
    let warnings: Vec<&str> = output
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .filter(|line| !line.contains(OF_EACH_DRY_RUN))
        // A retry that went well.
        .filter(|line| !line.contains(UNREACHABLE[0]))
        .collect();
    if !warnings.is_empty() {
        Verdict::Warned(warnings.join("\n"))
    } else if output.contains(OF_EACH_DRY_RUN) {
        Verdict::Passed
    } else {
        Verdict::PackedNothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::output;
    use crate::files::root;

    /// Symptom: a package was built with the core of an earlier dry run, and failed.
    #[test]
    fn packages_of_earlier_dry_runs_are_removed_and_no_others() {
        let home = env::temp_dir().join(format!("tickline-xtask-publish-{}", std::process::id()));
        let unpacked = home.join("registry/src");
        let others = [
            "-1f2e/serde-1.0.0",
            "index.crates.io-1949/tickline-core-0.1.0",
        ];
        for package in ["-1f2e/tickline-core-0.1.0", others[0], others[1]] {
            fs::create_dir_all(unpacked.join(package)).expect("a folder");
        }
        forget_unpacked(&home).expect("a readable folder");
        let is_left = |package: &str| unpacked.join(package).exists();
        let left = (is_left("-1f2e/tickline-core-0.1.0"), others.map(is_left));
        fs::remove_dir_all(&home).ok();
        assert_eq!(left, (false, [true, true]));
    }

    /// The files of a package, with their sizes in bytes, without those that cargo makes.
    fn packed(name: &str) -> Vec<(String, u64)> {
        let list = output(command("cargo package --list --allow-dirty -p").arg(name)).unwrap();
        let folder = ["crates", "machine"].map(|wing| root().join(wing).join(name));
        let folder = folder.into_iter().find(|folder| folder.is_dir()).unwrap();
        let size =
            |file: &str| Some((file.to_owned(), fs::metadata(folder.join(file)).ok()?.len()));
        list.lines().filter_map(size).collect()
    }

    #[test]
    fn each_package_has_its_licences_and_its_readme() {
        for name in PUBLISHED {
            let files = packed(name);
            for wanted in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
                assert!(
                    files.iter().any(|(file, _)| file == wanted),
                    "{name} lacks {wanted}"
                );
            }
        }
    }

    #[test]
    fn no_package_has_more_tests_and_data_than_code() {
        for name in PUBLISHED {
            let files = packed(name);
            let bytes_in = |folder: &str| -> u64 {
                let inside = files.iter().filter(|(file, _)| file.starts_with(folder));
                inside.map(|(_, bytes)| bytes).sum()
            };
            let (code, tests) = (bytes_in("src/"), bytes_in("tests/"));
            assert!(
                code > tests,
                "{name}: {code} bytes of code, {tests} bytes of tests"
            );
        }
    }

    #[test]
    fn nothing_is_removed_where_cargo_has_unpacked_nothing() {
        let home = env::temp_dir().join(format!("tickline-xtask-no-home-{}", std::process::id()));
        forget_unpacked(&home).expect("no error");
    }

    #[test]
    fn a_dry_run_passes_if_it_packs_and_warns_of_nothing() {
        let dry_run = "   Uploading a v0.1.0\nwarning: aborting upload due to dry run\n";
        let retried = "warning: spurious network error (3 tries remaining)\n";
        let missing = "warning: ignoring test `it` as `tests/it.rs` is not included";
        for (output, expected) in [
            (dry_run.to_owned(), Verdict::Passed),
            (format!("{retried}{dry_run}"), Verdict::Passed),
            (
                format!("{missing}\n{dry_run}"),
                Verdict::Warned(missing.into()),
            ),
            (String::new(), Verdict::PackedNothing),
        ] {
            assert_eq!(verdict_of_success(&output), expected, "{output}");
        }
    }

    #[test]
    fn a_dry_run_that_cannot_reach_the_registry_has_not_failed() {
        let without_host =
            "warning: spurious network error (1 try remaining)\nerror: download failed";
        assert_eq!(verdict_of_failure(without_host), Verdict::Unreachable);
    }

    /// Symptom: such a run was skipped.
    #[test]
    fn a_package_that_does_not_compile_has_failed_also_after_a_download_that_was_tried_again() {
        let retried = "warning: spurious network error (3 tries remaining)\n";
        for fault in [
            "error[E0425]: cannot find value `a` in this scope",
            "error: could not compile `tickline-core` (lib) due to 1 previous error",
        ] {
            assert_eq!(verdict_of_failure(fault), Verdict::Failed);
            let output = format!("{retried}{fault}");
            assert_eq!(verdict_of_failure(&output), Verdict::Failed, "{output}");
        }
    }
}
