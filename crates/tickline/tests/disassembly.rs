//! The machine code of the hot paths in an optimised build.
//!
//! From the function's entry to its first `ret` (the way that is taken when no branch is): one `rdtsc`, the state read
//! twice by 16-byte loads, no lock prefix, no call.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod common;

use std::path::PathBuf;
use std::process::Command;

fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    assert!(output.status.success(), "{program} {arguments:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The optimised example, built into a folder of its own so that it does not disturb the build that runs this test.
fn example() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("disassembly");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let folder = target.to_str().expect("a path in UTF-8");
    run(
        &cargo,
        &[
            "build",
            "--quiet",
            "--release",
            "--example",
            "hot_path",
            "--manifest-path",
            manifest,
            "--target-dir",
            folder,
        ],
    )
    .expect("cargo");
    target.join("release/examples/hot_path")
}

/// The instructions of `function` up to its first return.
fn straight_way(listing: &str, function: &str) -> Vec<String> {
    let start = format!("<{function}>:");
    let body = listing.lines().skip_while(|line| !line.contains(&start)).skip(1);
    let instructions = body.filter_map(|line| Some(line.split_once(":\t")?.1.trim().to_owned()));
    let mut way = Vec::new();
    for instruction in instructions {
        let end = instruction.starts_with("ret");
        way.push(instruction);
        if end {
            break;
        }
    }
    way
}

#[test]
fn the_hot_paths_are_what_they_should_be() {
    if Command::new("objdump").arg("--version").output().is_err() {
        common::skip("objdump is not installed, the machine code of the hot path was NOT checked");
        return;
    }
    let path = example();
    let listing = run("objdump", &["-d", "--no-show-raw-insn", path.to_str().unwrap()]).unwrap();
    for (function, ordered) in
        [("tickline_hot_now_ns", 0), ("tickline_hot_now_ordered_ns", 1), ("tickline_hot_unix_ns", 0)]
    {
        let way = straight_way(&listing, function);
        let count = |wanted: fn(&str) -> bool| way.iter().filter(|instruction| wanted(instruction)).count();
        let shown = way.join("\n");
        assert!(
            way.last().is_some_and(|last| last.starts_with("ret")),
            "{function} has no straight way:\n{shown}"
        );
        assert_eq!(count(|i| i.starts_with("rdtsc")), 1, "{function}:\n{shown}");
        assert_eq!(
            count(|i| i.starts_with("movdqa") && i.contains('(')),
            2,
            "{function}: 16-byte loads\n{shown}"
        );
        assert_eq!(count(|i| i.starts_with("lfence")), ordered, "{function}:\n{shown}");
        assert_eq!(count(|i| i.contains("lock ") || i.starts_with("xchg")), 0, "{function}:\n{shown}");
        assert_eq!(count(|i| i.starts_with("call")), 0, "{function}:\n{shown}");
        assert_eq!(count(|i| i.starts_with("div")), 0, "{function}:\n{shown}");
        assert!(way.len() <= 40, "{function} has {} instructions:\n{shown}", way.len());
    }
}
