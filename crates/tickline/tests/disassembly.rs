//! The machine code of the hot paths in an optimised build for the target of this test.
//!
//! The test reads each function from its entry to its first `ret`: the path on which no branch is
//! taken. `disassembly.toml` has the rules for this path.
#![cfg(target_os = "linux")]
#![cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]

mod common;

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::Command;

use toml::{Table, Value};

/// The functions, and the key of the expected counts: whether the read of the counter is ordered.
const FUNCTIONS: [(&str, &str); 3] = [
    ("tickline_hot_now_ns", "plain"),
    ("tickline_hot_now_ordered_ns", "ordered"),
    ("tickline_hot_unix_ns", "plain"),
];

/// Whether an instruction is one of this list: `disassembly.toml` says how that is written.
fn is_one(instruction: &str, kind: &Value) -> bool {
    let fits = |pattern: &str| match pattern.strip_prefix('*') {
        Some(part) => instruction.contains(part),
        None => instruction.starts_with(pattern),
    };
    let patterns = || {
        kind.as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
    };
    let mut exceptions = patterns().filter_map(|pattern| pattern.strip_prefix("not "));
    patterns().any(fits) && !exceptions.any(fits)
}

fn number(value: &Value) -> usize {
    value
        .as_integer()
        .and_then(|number| number.try_into().ok())
        .expect("a count")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// The optimised example. It is built into a folder of its own, so that it does not disturb the
/// build that runs this test. It keeps its symbols; settings in the environment may otherwise take
/// them from a release.
fn example(target: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("disassembly");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = format!(
        "{target}{}",
        if cfg!(target_env = "musl") {
            "musl"
        } else {
            "gnu"
        }
    );
    let output = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--release",
            "--config",
            "profile.release.strip=false",
        ])
        .args(["--example", "hot_path", "--target", &target])
        .args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .arg("--target-dir")
        .arg(&folder)
        .output()
        .expect("cargo");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    folder.join(target).join("release/examples/hot_path")
}

/// The listing, by the first disassembler that knows this target.
fn listing(example: &Path, objdump: &str) -> Option<String> {
    [objdump, "objdump"].iter().find_map(|program| {
        let output = Command::new(program)
            .args(["-d", "--no-show-raw-insn"])
            .arg(example)
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    })
}

/// The instructions of `function` from its entry to its first return, with single spaces: the path
/// on which no branch is taken.
fn straight_path(listing: &str, function: &str) -> Vec<String> {
    let start = format!("<{function}>:");
    let mut path = Vec::new();
    for line in listing
        .lines()
        .skip_while(|line| !line.contains(&start))
        .skip(1)
    {
        let Some((_, instruction)) = line.split_once(":\t") else {
            break;
        };
        path.push(instruction.split_whitespace().collect::<Vec<_>>().join(" "));
        if instruction.starts_with("ret") {
            return path;
        }
    }
    panic!("no {function} with a return in the listing: {path:#?}");
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "builds an optimised example: `cargo test --release -p tickline`"
)]
fn the_hot_paths_keep_their_instructions() {
    let table: Table = include_str!("disassembly.toml").parse().expect("a table");
    let expected = &table[ARCH];
    let Some(listing) = listing(
        &example(text(&expected["target"])),
        text(&expected["objdump"]),
    ) else {
        return common::skip(
            "no installed objdump knows this target, the machine code of the hot path was NOT checked",
        );
    };
    let rules = expected["rules"].as_array().expect("a list");
    let most_instructions = expected["most_instructions"].as_array().expect("a list");
    for ((name, read), most) in FUNCTIONS
        .into_iter()
        .zip(most_instructions.iter().map(number))
    {
        let path = straight_path(&listing, name);
        let shown = format!("{name}:\n{}", path.join("\n"));
        let count = |path: &[String], kind| path.iter().filter(|line| is_one(line, kind)).count();
        for rule in rules {
            let (rule_name, expected) = (text(&rule["what"]), number(&rule[read]));
            assert_eq!(
                count(&path, &rule["is"]),
                expected,
                "{rule_name} in {shown}"
            );
        }
        if let Some(order) = expected.get("order").and_then(Value::as_array) {
            let rule_for = |name| {
                rules
                    .iter()
                    .find(|rule| &rule["what"] == name)
                    .expect("a rule")
            };
            let position = |name| {
                path.iter()
                    .position(|line| is_one(line, &rule_for(name)["is"]))
            };
            assert!(
                order.iter().filter_map(position).is_sorted(),
                "not in the order {order:?}: {shown}"
            );
        }
        let counter = &rules[0]["is"];
        let at = path
            .iter()
            .position(|instruction| is_one(instruction, counter))
            .expect("the first rule");
        let behind = number(&expected["loads_behind_the_counter"][read]);
        assert_eq!(
            count(&path[at + 1..], &expected["loads"]),
            behind,
            "loads behind the counter in {shown}"
        );
        if let Some(kind) = expected.get("wide_loads") {
            assert_eq!(
                count(&path[..at], kind),
                1,
                "loads of 16 bytes before the counter in {shown}"
            );
        }
        assert!(
            path.len() <= most,
            "{} instructions, {most} allowed, in {shown}",
            path.len()
        );
    }
}
