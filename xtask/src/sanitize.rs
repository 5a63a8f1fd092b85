//! `cargo xtask sanitize`: the tests of the libraries under ThreadSanitizer and AddressSanitizer.
//! `--write` stores what passed.
//!
//! Both need a standard library that was built with them, so a nightly compiler and its sources of
//! that library. What a sanitizer builds goes into a directory of its own. Left out are doc tests,
//! `tickline-criterion`, which has no unsafe code and no thread of its own, and the tests of
//! `xtask/sanitizers.toml`.
//!
//! What they can't see: accesses in assembly (the reads of the counter); memory that the kernel
//! writes; what no test executes.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::files;
use crate::step::{self, SOME_SKIPPED, said};
use crate::targets::packages;

/// As `-Zsanitizer` calls them, and where their runtimes look for options.
const SANITIZERS: [(&str, &str); 2] = [("thread", "TSAN_OPTIONS"), ("address", "ASAN_OPTIONS")];

/// Crates, which of their tests run, and options of the runtime. Children that are forked make
/// threads; ThreadSanitizer is told to bear that. The tests of core leak their machines on purpose
/// (`testing.rs`).
const RUNS: [(&[&str], &str, &str); 2] = [
    (&["tickline-core", "tickline-page"], "--lib", "die_after_fork=0:detect_leaks=0"),
    (&["tickline", "tickline-tracing"], "--lib --tests", "die_after_fork=0"),
];

/// Tests that cannot pass.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the file is for the test that it has them, the reason for people")
)]
struct LeftOut {
    under: Vec<String>,
    file: String,
    tests: Vec<String>,
    why: String,
}

#[derive(Debug, Deserialize)]
struct Table {
    left_out: Vec<LeftOut>,
}

fn left_out() -> Result<Vec<LeftOut>, String> {
    let table: Result<Table, _> = toml::from_str(&files::read("xtask/sanitizers.toml")?);
    table.map(|table| table.left_out).map_err(|error| format!("sanitizers.toml: {error}"))
}

pub(crate) fn run(arguments: &[&str]) -> Result<u8, String> {
    let sources =
        said("rustc +nightly --print sysroot").map(|root| root + "/lib/rustlib/src/rust/library/Cargo.lock");
    if sources.is_err() || sources.is_ok_and(|file| !std::path::Path::new(&file).is_file()) {
        println!(
            "=== SKIPPED sanitizers: `rustup component add rust-src --toolchain nightly`; nothing was tested"
        );
        return Ok(SOME_SKIPPED);
    }
    let left_out = left_out()?;
    let mut text = format!(
        "With {}:\n\n| sanitizer | crates | tests that passed |\n|---|---|---|\n",
        said("rustc +nightly --version")?
    );
    for (sanitizer, variable) in SANITIZERS {
        for (crates, tests, options) in RUNS {
            let mut line = format!(
                "cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu --target-dir target/sanitize-{sanitizer}{} \
                 {tests} --no-fail-fast --",
                packages(crates)
            );
            for out in left_out.iter().filter(|out| out.under.iter().any(|it| it == sanitizer)) {
                out.tests.iter().for_each(|test| line += &format!(" --skip {test}"));
            }
            println!("\n{line}");
            let mut command = step::command(&line);
            // A little optimisation: the tests take a fifth of the time, and what they do to memory
            // stays.
            command
                .env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"))
                .env(variable, options)
                .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
                .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
                .env("CARGO_INCREMENTAL", "0")
                .env("PROPTEST_CASES", "16");
            let (status, output) =
                step::logged(&mut command, &format!("sanitize-{sanitizer}")).map_err(|it| it.to_string())?;
            println!("{output}");
            let passed = step::passed(&output);
            if !status.success() || passed == 0 {
                println!("FAILED under the {sanitizer} sanitizer:{}", packages(crates));
                return Ok(1);
            }
            writeln!(text, "| {sanitizer} | {} | {passed} |", crates.join(", ")).ok();
        }
    }
    println!("{text}");
    if arguments == ["--write"] {
        files::store_block("docs/sanitizers.md", "sanitizers", &text)?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that is skipped leaves out each test that begins so.
    #[test]
    fn every_test_that_is_left_out_is_there_once() {
        for out in left_out().unwrap() {
            assert!(!out.why.is_empty(), "{:?}", out.tests);
            let source = files::read(&out.file).unwrap();
            for test in &out.tests {
                assert!(source.contains(&format!("fn {test}()")), "{} has no test {test}", out.file);
                assert_eq!(source.matches(&format!("fn {test}")).count(), 1, "{test}");
            }
        }
    }
}
