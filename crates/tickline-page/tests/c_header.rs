//! The reader in C against the reader in Rust: on plausible, random and hostile pages both make the
//! same steps and come to the same result.

#![expect(clippy::print_stdout, reason = "what was skipped, and what was compared")]

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};

use common::{Case, Output};

/// Cases; some hundred thousand a second.
const CASES: u64 = 60_000;

/// How often a reading begins again, in either reader.
const MAX_STARTS: u64 = 64;

fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "cc".to_owned())
}

/// Compiles the header's test program. `None` without a compiler, which is said aloud.
fn compiled(flags: &[&str], name: &str) -> Option<std::path::PathBuf> {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let built = Command::new(compiler())
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"])
        .args(flags)
        .arg("-I")
        .arg(here.join("include"))
        .arg("-o")
        .arg(&program)
        .arg(here.join("tests/c/compare.c"))
        .output();
    match built {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(error) => {
            println!("SKIPPED: {} does not run: {error}", compiler());
            None
        }
    }
}

#[test]
fn both_readers_agree_on_any_page() {
    let Some(program) = compiled(&["-std=c99"], "compare-c99") else { return };
    let cases: Vec<Case> = (0..CASES).map(Case::random).collect();
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("piped");
    let bytes: Vec<u8> = cases.iter().flat_map(Case::to_bytes).collect();
    let feeder = std::thread::spawn(move || input.write_all(&bytes));
    let found = child.wait_with_output().expect("it ends");
    feeder.join().expect("no panic").expect("it reads all");
    assert!(found.status.success());
    let mut outputs = found.stdout.chunks_exact(Output::BYTES);
    let (mut attached, mut by_line, mut waited, mut gave_up) = (0_u32, 0_u32, 0_u32, 0_u32);
    for (number, case) in cases.iter().enumerate() {
        let expected = case.run();
        let c = Output::from_bytes(outputs.next().expect("an output for each case"));
        assert_eq!(c, expected, "case {number}: {case:?}");
        attached += u32::from(expected.refusal == 0);
        by_line += u32::from(expected.refusal == 0 && expected.source == 0);
        waited += u32::from(expected.counter_reads > 3);
        // Rule R1: so many words that change, and one answer of the OS clock. The first look reads
        // nothing besides if the word names no line.
        let reads = expected.counter_reads + expected.os_reads;
        gave_up += u32::from(case.changes_always && (MAX_STARTS..=MAX_STARTS + 1).contains(&reads));
    }
    assert!(outputs.next().is_none());
    println!("{CASES} cases: {attached} attached, {by_line} by a line, {waited} waited, {gave_up} gave up");
    assert!(attached > 10_000 && by_line > 1_000 && waited > 100, "{attached}, {by_line}, {waited}");
    assert!(gave_up > 500, "{gave_up} readings found {MAX_STARTS} words");
}

#[test]
fn the_header_is_c11_and_gnu_c_too() {
    for flags in [["-std=c11"], ["-std=gnu17"]] {
        if compiled(&flags, flags[0].trim_start_matches('-')).is_none() {
            return;
        }
    }
}
