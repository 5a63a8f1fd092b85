//! Whether the published crates can be published: packages, licences, dependencies, oldest
//! versions, features.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::step::{Step, command};
use crate::targets::{PUBLISHED, packages};

/// `rust-version` in `Cargo.toml`.
const OLDEST_COMPILER: &[&str] =
    &["rustup toolchain install 1.88 --profile minimal", "cargo +1.88 --version"];

const HACK: &[&str] = &["cargo hack --version"];

/// The crates that come with `tickline` on Linux by default: `tickline-core` and `libc`. With
/// `tickline-core` comes none.
const MOST_DEPENDENCIES: usize = 2;

/// A lock file of its own, with the oldest version of each dependency that `Cargo.toml` admits.
const OLDEST_VERSIONS: &str = "--config resolver.lockfile-path=\"target/minimal-versions/Cargo.lock\"";

/// Every check, in the order of their cost.
pub(crate) fn steps() -> Vec<Step> {
    let published = packages(PUBLISHED);
    let without =
        |name: &str| -> Vec<&str> { PUBLISHED.iter().copied().filter(|other| *other != name).collect() };
    vec![
        Step::new("few dependencies", "cargo xtask dependencies"),
        Step::new(
            "oldest supported compiler",
            format!("cargo +1.88 check --all-features --target-dir target/msrv{published}"),
        )
        .needs(OLDEST_COMPILER)
        .beside(),
        Step::new(
            "tests by the oldest supported compiler",
            "cargo +1.88 test --target-dir target/msrv -p tickline-core -p tickline-page -p tickline --lib --tests",
        )
        .needs(OLDEST_COMPILER)
        .beside(),
        // Packs each crate, and builds it from what was packed. Cargo unpacks them into the
        // user's folder by name and version, and does not unpack the same version twice. So each
        // commit has a name of its own; otherwise cargo would build the first one packed.
        Step::new(
            "packages",
            format!("cargo package --allow-dirty --target-dir target/package-check/{}{published}", commit()),
        )
        .beside(),
        Step::new(
            "licences, sources, duplicates",
            "cargo deny --workspace check --hide-inclusion-graph licenses sources bans",
        )
        .needs(&["cargo deny --version"]),
        Step::new("advisories", "cargo deny --workspace check --disable-fetch advisories")
            .needs(&["cargo deny --version", "cargo deny --workspace fetch db"]),
        Step::new(
            "oldest versions of dependencies",
            format!(
                "cargo +nightly check {OLDEST_VERSIONS} --all-features --target-dir target/minimal-versions{published}"
            ),
        )
        .needs(&[
            "mkdir -p target/minimal-versions",
            "cargo +nightly update --config resolver.lockfile-path=\"target/minimal-versions/Cargo.lock\" -Z direct-minimal-versions",
        ])
        .beside(),
        Step::new(
            "every two features",
            format!("cargo hack check --feature-powerset --depth 2 --quiet{}", packages(&without("tickline-criterion"))),
        )
        .needs(HACK),
        // It is made for one version of criterion at least.
        Step::new(
            "every two features of tickline-criterion",
            "cargo hack check --feature-powerset --depth 2 --quiet -p tickline-criterion --at-least-one-of \
             criterion-0-5,criterion-0-6,criterion-0-7,criterion-0-8",
        )
        .needs(HACK),
    ]
}

/// The commit that is checked out, as short as git has it.
fn commit() -> String {
    let output = command("git rev-parse --short HEAD").and_then(|mut command| command.output().ok());
    let name = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "no-commit".to_owned())
}

/// `cargo xtask dependencies`: the crates that come with those that promise few dependencies.
pub(crate) fn dependencies() -> ExitCode {
    let mut is_good = true;
    for (name, most) in [("tickline-core", 0), ("tickline", MOST_DEPENDENCIES)] {
        let Some(brought) = brought_by(name) else {
            println!("cargo tree does not tell what {name} depends on");
            return ExitCode::FAILURE;
        };
        let list = brought.iter().cloned().collect::<Vec<_>>().join(", ");
        println!("{name}: {} of {most} at most: {list}", brought.len());
        is_good &= brought.len() <= most;
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The crates that come with `name` on Linux by default.
fn brought_by(name: &str) -> Option<BTreeSet<String>> {
    let line = format!(
        "cargo tree -p {name} -e normal --prefix none --target x86_64-unknown-linux-gnu --format {{p}}"
    );
    let output = command(&line)?.output().ok().filter(|output| output.status.success())?;
    let names = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .filter(|brought| brought != name)
        .collect();
    Some(names)
}
