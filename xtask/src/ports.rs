//! `cargo xtask ports`: runs the tests of published programs over this project's clock.
//!
//! Programs that depend on quanta are built as published, with one patched dependency
//! (`crates/tickline-quanta/patch/`). In other programs, this command replaces lines. Cargo fetches
//! all sources, and none is part of this repository. The command runs unit tests, integration tests
//! and doc tests.

use std::path::Path;

use serde_json::Value;

use crate::files::{self, read, root, store};
use crate::step::{self, SOME_SKIPPED, command, output_of};

/// Texts in a program's sources, each with its replacement.
type Edits = &'static [(&'static str, &'static str)];

/// A published crate.
struct Port {
    name: &'static str,
    version: &'static str,
    /// The features with which the crate is tested.
    features: &'static str,
    /// Empty if the crate's dependency `quanta` is patched.
    edits: Edits,
}

/// The edits of a program that names `Instant` in one import.
const INSTANT: Edits = &[("use std::time::Instant;", "use tickline::Instant;")];

/// The programs, in the newest version at the time of choice. moka compares times of different
/// threads, so it gets `now_ordered`.
const PORTS: [Port; 6] = [
    Port {
        name: "governor",
        version: "0.10.4",
        features: "",
        edits: &[],
    },
    Port {
        name: "metrics-util",
        version: "0.20.4",
        features: "",
        edits: &[],
    },
    Port {
        name: "indicatif",
        version: "0.18.6",
        features: "",
        edits: INSTANT,
    },
    Port {
        name: "timed-map",
        version: "1.7.0",
        features: "",
        edits: INSTANT,
    },
    Port {
        name: "prometheus",
        version: "0.14.0",
        features: "",
        edits: &[(
            "use std::time::{Duration, Instant",
            "use std::time::Duration;\nuse tickline::{Instant",
        )],
    },
    Port {
        name: "moka",
        version: "0.12.16",
        features: "sync",
        edits: &[
            (
                "Standard { origin: StdInstant }",
                "Standard { origin: tickline::Instant }",
            ),
            (
                " origin: StdInstant::now()",
                " origin: tickline::Instant::now_ordered()",
            ),
            (
                "start(origin.elapsed())",
                "start(tickline::Instant::now_ordered() - *origin)",
            ),
            (
                " *origin + duration",
                " tickline::Anchor::std().to_std(*origin + duration)",
            ),
        ],
    },
];

/// The version of quanta in the lock files of the patched programs.
const PATCHED: &str = "\"0.12.6+tickline\"";

/// The most runs of a program's tests until they pass. governor's `tests/future.rs` asserts that a
/// call takes at most 200 us, and that a wait that began before a reading takes 100 ms after that
/// reading. If the thread is preempted in between, the test fails with any clock.
const TRIES: usize = 3;

pub(crate) fn run() -> Result<u8, String> {
    let sources = files::target().join("ports/sources");
    let mut manifest =
        "[package]\nname = \"sources\"\nedition = \"2024\"\n\n[dependencies]\n".to_owned();
    for Port { name, version, .. } in PORTS {
        manifest += &format!("{name} = {{ version = \"={version}\", default-features = false }}\n");
    }
    store(sources.join("Cargo.toml"), &manifest)?;
    store(sources.join("src/lib.rs"), "")?;
    let metadata = step::output(command("cargo metadata --format-version 1").current_dir(&sources));
    let metadata: Value = match metadata {
        Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string())?,
        Err(why) => {
            println!(
                "=== SKIPPED all ports: cargo can't fetch the sources; nothing was checked\n{why}"
            );
            return Ok(SOME_SKIPPED);
        }
    };
    let mut code = 0;
    for port in PORTS {
        let Port { name, version, .. } = port;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let mut found =
            packages.filter(|package| package["name"] == name && package["version"] == version);
        let path = found.find_map(|package| Path::new(package["manifest_path"].as_str()?).parent());
        match test(port, path.ok_or("cargo has no such source")?) {
            Ok(passed) => println!("{name} {version}: {passed} tests passed"),
            Err(why) => {
                println!("=== FAILED {name} {version}: {why}");
                code = 1;
            }
        }
    }
    Ok(code)
}

/// Copies a crate, gives it this project's clock, and runs its tests. Returns the number of passes.
fn test(
    Port {
        name,
        version,
        features,
        edits,
    }: Port,
    source: &Path,
) -> Result<u64, String> {
    let folder = files::target()
        .join("ports")
        .join(format!("{name}-{version}"));
    let from = source.display();
    let to = folder.display();
    // The files that cargo unpacks may be read-only.
    output_of(&format!("rm -rf {to}"))?;
    output_of(&format!("cp -r --no-preserve=mode,ownership {from} {to}"))?;
    for (text, instead) in edits {
        // `grep` fails if no file has the text.
        let files = step::output(command("grep -rlF").args([*text, &format!("{to}/src")]))?;
        for file in files.lines() {
            store(file, &read(file)?.replace(text, instead))?;
        }
    }
    let (config, lock_text) = if edits.is_empty() {
        let patch = root().join("crates/tickline-quanta/patch/0.12");
        (
            vec![
                "--config".to_owned(),
                format!("patch.crates-io.quanta.path={patch:?}"),
            ],
            PATCHED,
        )
    } else {
        let dependency = format!(
            "\n[dependencies.tickline]\npath = {:?}\n",
            root().join("crates/tickline")
        );
        let manifest = folder.join("Cargo.toml");
        store(&manifest, &(read(&manifest)? + &dependency))?;
        (Vec::new(), "name = \"tickline\"")
    };
    let cargo = |line: &str| {
        let mut cargo = command(&format!("timeout 600 cargo {line}"));
        cargo
            .current_dir(&folder)
            .args(&config)
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.env("CARGO_TARGET_DIR", files::target().join("ports/build"));
        cargo
    };
    if edits.is_empty() {
        step::output(&mut cargo("update --package quanta"))?;
    }
    let mut tests = cargo(&format!("test --no-fail-fast --features={features}"));
    let mut last = String::new();
    for _ in 0..TRIES {
        let (status, output) = step::logged(&mut tests, name).map_err(|error| error.to_string())?;
        // If a patch does not apply, cargo only warns.
        let lock = read(folder.join("Cargo.lock"))?;
        if !lock.contains(lock_text) || lock.contains("[[patch.unused]]") {
            return Err("its lock file does not have this project".into());
        }
        let passed = step::passed(&output);
        // A crate without tests would prove nothing.
        if status.success() && passed > 0 {
            return Ok(passed);
        }
        last = output;
    }
    Err(last)
}
