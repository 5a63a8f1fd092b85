//! Checks the two wings: `crates/` is what a program links, `machine/` is what an operator runs.
//! What a program links knows nothing of what an operator runs.

use serde::Deserialize;

use crate::command::output_of;
use crate::files::root;
use crate::targets::PUBLISHED;

/// The output of `cargo metadata`, as far as it is needed.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or `None` for a normal dependency.
    kind: Option<String>,
}

/// What `tickline` must not depend on, though one of them is in its own wing.
const NOT_OF_TICKLINE: [&str; 2] = ["tickline-page", "tickline-utc"];

/// The dependencies that the wings forbid, in words. Optional ones are among them, and tests may
/// depend on anything.
fn forbidden(packages: &[Package]) -> Vec<String> {
    let is_in = |package: &Package, wing: &str| {
        let path = package
            .manifest_path
            .strip_prefix(&format!("{}/", root().display()));
        path.is_some_and(|path| path.starts_with(wing))
    };
    let of_operators: Vec<&str> = packages
        .iter()
        .filter(|package| is_in(package, "machine/"))
        .map(|package| package.name.as_str())
        .collect();
    let mut found = Vec::new();
    for package in packages.iter().filter(|package| is_in(package, "crates/")) {
        for dependency in &package.dependencies {
            let other = dependency.name.as_str();
            let is_of_tickline = package.name == "tickline" && NOT_OF_TICKLINE.contains(&other);
            let is_forbidden = of_operators.contains(&other) || is_of_tickline;
            if is_forbidden && dependency.kind.as_deref() != Some("dev") {
                found.push(format!("{} depends on {other}", package.name));
            }
        }
    }
    found
}

fn packages() -> Vec<Package> {
    let text = output_of("cargo metadata --no-deps --format-version 1").unwrap();
    let Metadata { packages } = serde_json::from_str(&text).unwrap();
    assert!(packages.len() > 10, "{} packages were read", packages.len());
    packages
}

#[test]
fn no_crate_that_programs_link_depends_on_one_that_operators_run() {
    assert_eq!(forbidden(&packages()), [""; 0]);
}

/// The names of the crates that depend on this one.
fn dependents(name: &str) -> Vec<String> {
    let depends = |package: &Package| package.dependencies.iter().any(|one| one.name == name);
    packages()
        .into_iter()
        .filter(depends)
        .map(|package| package.name)
        .collect()
}

/// Results of steps that do not compile the benches hold when tickline-criterion has changed
/// (`ci/results.rs`).
#[test]
fn only_the_benches_depend_on_tickline_criterion() {
    assert_eq!(dependents("tickline-criterion"), ["tickline-benches"]);
}

/// Results of steps that do not compile the program hold when it has changed (`ci/results.rs`).
#[test]
fn no_crate_depends_on_the_program() {
    assert_eq!(dependents("tickline-cli"), [""; 0]);
}

/// A crate can be published only after those on which it depends.
#[test]
fn the_list_of_published_crates_has_each_after_its_dependencies() {
    let packages = packages();
    for (index, name) in PUBLISHED.iter().enumerate() {
        let package = packages.iter().find(|package| package.name == *name);
        let dependencies = &package.unwrap().dependencies;
        for dependency in dependencies
            .iter()
            .filter(|one| one.kind.as_deref() != Some("dev"))
        {
            let place = PUBLISHED.iter().position(|other| *other == dependency.name);
            assert!(
                place.is_none_or(|place| place < index),
                "{name}: {}",
                dependency.name
            );
        }
    }
}

#[test]
fn normal_and_build_dependencies_count_and_those_of_tests_do_not() {
    let package = |name: &str, wing: &str, dependencies: &[(&str, Option<&str>)]| Package {
        name: name.to_owned(),
        manifest_path: format!("{}/{wing}/{name}/Cargo.toml", root().display()),
        dependencies: dependencies
            .iter()
            .map(|(name, kind)| Dependency {
                name: (*name).to_owned(),
                kind: kind.map(str::to_owned),
            })
            .collect(),
    };
    let packages = [
        package(
            "tickline",
            "crates",
            &[("tickline-utc", None), ("libc", None)],
        ),
        package(
            "tickline-utc",
            "crates",
            &[("tickline", None), ("tickline-page", Some("dev"))],
        ),
        package(
            "tickline-quanta",
            "crates",
            &[("tickline-preload", Some("build"))],
        ),
        package("tickline-page", "machine", &[("tickline-core", None)]),
        package("tickline-preload", "machine", &[("tickline-page", None)]),
        package("sim", "tests", &[("tickline-page", None)]),
    ];
    assert_eq!(
        forbidden(&packages),
        [
            "tickline depends on tickline-utc",
            "tickline-quanta depends on tickline-preload"
        ]
    );
}
