//! Compares the reader in C with the reader in Rust. On plausible, random and hostile pages both
//! must make the same steps, and return the same result.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tickline_observe::skip;

use super::cases::{Case, Output};

/// The number of cases. A second is enough for a few hundred thousand.
const CASES: u64 = 60_000;

/// The limit of words in one reading, in either reader (`MAX_STARTS` in `lease/reader.rs`).
const MAX_STARTS: u64 = 64;

/// Compiles the header's test program. Without a compiler, says so and returns `None`.
fn compile(standard: &str) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("compare{standard}"));
    let mut command = Command::new(&compiler);
    command.args([
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-O2",
        standard,
        "-I",
    ]);
    command
        .arg(here.join("include"))
        .arg("-o")
        .arg(&program)
        .arg(here.join("tests/c/compare.c"));
    match command.output() {
        Ok(output) => {
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            Some(program)
        }
        Err(error) => {
            skip(format_args!("{compiler} does not run: {error}"));
            None
        }
    }
}

/// Runs the cases with the reader in C. `None` without a compiler.
fn run_in_c(cases: &[Case]) -> Option<Vec<Output>> {
    let mut child = Command::new(compile("-std=c99")?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("piped");
    let bytes: Vec<u8> = cases.iter().flat_map(Case::to_bytes).collect();
    let feeder = std::thread::spawn(move || input.write_all(&bytes));
    let found = child.wait_with_output().expect("it ends");
    feeder
        .join()
        .expect("no panic")
        .expect("the program reads all cases");
    assert!(found.status.success());
    Some(
        found
            .stdout
            .chunks_exact(Output::BYTES)
            .map(Output::from_bytes)
            .collect(),
    )
}

#[test]
#[cfg_attr(
    target_arch = "x86",
    ignore = "no page counts on a target without a counter"
)]
fn a_reading_of_any_page_ends_and_is_the_same_in_c() {
    let cases: Vec<Case> = (0..CASES).map(Case::random).collect();
    let outputs: Vec<Output> = cases.iter().map(Case::run).collect();
    let (mut attached, mut by_line, mut waited, mut gave_up) = (0_u32, 0_u32, 0_u32, 0_u32);
    for (case, output) in cases.iter().zip(&outputs) {
        output.judge(case);
        attached += u32::from(output.refusal == 0);
        by_line += u32::from(output.refusal == 0 && output.source == 0);
        waited += u32::from(output.counter_reads > 3);
        // Rule R1: a reading that gives up reads a clock once for each word, and the OS clock at
        // the end. The first attempt reads no clock if the word names no line.
        let reads = output.counter_reads + output.os_reads;
        gave_up +=
            u32::from(case.changes_always != 0 && (MAX_STARTS..=MAX_STARTS + 1).contains(&reads));
    }
    println!(
        "{CASES} cases: {attached} attached, {by_line} by a line, {waited} waited, {gave_up} gave up"
    );
    assert!(
        attached > 10_000 && by_line > 1_000 && waited > 100,
        "{attached}, {by_line}, {waited}"
    );
    assert!(gave_up > 500, "{gave_up} readings found {MAX_STARTS} words");
    let Some(in_c) = run_in_c(&cases) else { return };
    assert_eq!(in_c.len(), outputs.len());
    for ((case, output), in_c) in cases.iter().zip(outputs).zip(in_c) {
        assert_eq!(in_c, output, "{case:?}");
    }
}

#[test]
fn the_header_is_also_c11_and_gnu_c() {
    for standard in ["-std=c11", "-std=gnu17"] {
        compile(standard);
    }
}
