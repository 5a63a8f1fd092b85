//! The workspaces beside the main one, which cargo formats and checks each by a step of its own.

use super::Lane;
use super::results::{LIBRARY_TESTS, PROGRAM};
use crate::step::Step;

struct Workspace {
    folder: &'static str,
    /// The names of its steps.
    format: &'static str,
    clippy: &'static str,
    /// The lane of clippy: `deep` where it takes less than a minute.
    lane: Lane,
    /// A tool that a dependency is built with, and that a machine may lack.
    tool: Option<&'static str>,
    /// The target of a program that does not run on this machine's system.
    target: Option<&'static str>,
}

const WORKSPACES: [Workspace; 5] = [
    Workspace {
        folder: "examples/bare-x86_64",
        format: "format of the bare machine",
        clippy: "clippy of the bare machine",
        lane: Lane::Deep,
        tool: None,
        target: Some("x86_64-unknown-none"),
    },
    Workspace {
        folder: "fuzz",
        format: "format of the fuzz targets",
        clippy: "clippy of the fuzz targets",
        lane: Lane::Deep,
        tool: Some("c++"),
        target: None,
    },
    Workspace {
        folder: "tests/vm/limiter",
        format: "format of the limiter",
        clippy: "clippy of the limiter",
        lane: Lane::Deep,
        tool: None,
        target: None,
    },
    // Perfetto's generated types take a minute.
    Workspace {
        folder: "tests/traced-server",
        format: "format of the traced server",
        clippy: "clippy of the traced server",
        lane: Lane::Nightly,
        tool: None,
        target: None,
    },
    // Their dependencies take minutes on a slow processor.
    Workspace {
        folder: "benches/peers",
        format: "format of the peers",
        clippy: "clippy of the peers",
        lane: Lane::Nightly,
        tool: None,
        target: None,
    },
];

impl Workspace {
    fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

/// rustfmt would change no file of these workspaces.
pub(super) fn format() -> Vec<Step> {
    let step = |one: &Workspace| {
        Step::new(one.format, ["cargo", "fmt", "--check"])
            .args(["--manifest-path", &one.manifest()])
    };
    WORKSPACES.iter().map(step).collect()
}

/// clippy warns of nothing in the workspaces of this lane. They share a directory, in which cargo
/// keeps their builds apart.
pub(super) fn clippy(lane: Lane) -> Vec<Step> {
    let step = |one: &Workspace| {
        let step = Step::new(one.clippy, ["cargo", "clippy"])
            .args(["--manifest-path", &one.manifest()])
            .args(["--all-targets", "--target-dir", "target/beside"])
            .prepare_by(["cargo", "fetch", "--manifest-path", &one.manifest()])
            .without(PROGRAM)
            .without(LIBRARY_TESTS);
        let step = match one.tool {
            None => step,
            Some(tool) => step.needs([tool, "--version"]),
        };
        let step = match one.target {
            None => step,
            Some(target) => step
                .args(["--release", "--target", target])
                .prepare_by(["rustup", "target", "add", target]),
        };
        step.args(["--", "-D", "warnings"])
    };
    let of_lane = WORKSPACES.iter().filter(|one| one.lane == lane);
    of_lane.map(step).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::command::output_of;
    use crate::files::read;

    fn folders() -> BTreeSet<String> {
        let folders = WORKSPACES.iter().map(|one| one.folder.to_owned());
        folders.collect()
    }

    #[test]
    fn each_manifest_with_a_workspace_of_its_own_is_in_the_list() {
        let files = output_of("git ls-files --cached --others --exclude-standard *Cargo.toml");
        let files = files.unwrap();
        let is_own = |file: &&str| {
            read(file)
                .unwrap()
                .lines()
                .any(|line| line == "[workspace]")
        };
        let found = files.lines().filter(is_own);
        let found = found.filter_map(|file| file.strip_suffix("/Cargo.toml"));
        let found: BTreeSet<String> = found.map(str::to_owned).collect();
        assert_eq!(found, folders());
    }

    /// Of the other two, one has the names of published crates, the other is no part of the
    /// repository.
    #[test]
    fn the_main_workspace_leaves_out_those_of_the_list() {
        let manifest: toml::Value = toml::from_str(&read("Cargo.toml").unwrap()).unwrap();
        let excluded = manifest["workspace"]["exclude"].as_array().unwrap();
        let excluded = excluded.iter().map(|one| one.as_str().unwrap().to_owned());
        let mut excluded: BTreeSet<String> = excluded.collect();
        for other in ["crates/tickline-quanta/patch", "target"] {
            assert!(excluded.remove(other), "{other}");
        }
        assert_eq!(excluded, folders());
    }
}
