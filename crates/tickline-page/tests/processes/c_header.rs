//! The reader in C against the reader in Rust. On plausible, random and hostile pages both make the
//! same steps, and come to the same result.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cases::{Case, Output};

/// Cases; some hundred thousand a second.
const CASES: u64 = 60_000;

/// How often a reading begins again, in either reader.
const MAX_STARTS: u64 = 64;

/// Compiles the header's test program. `None` without a compiler, which is said aloud.
fn compiled(standard: &str) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("compare{standard}"));
    let mut command = Command::new(&compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", standard, "-I"]);
    command.arg(here.join("include")).arg("-o").arg(&program).arg(here.join("tests/c/compare.c"));
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(error) => {
            println!("SKIPPED: {compiler} does not run: {error}");
            None
        }
    }
}

/// What the reader in C makes of the cases, if there is a compiler.
fn in_c(cases: &[Case]) -> Option<Vec<Output>> {
    let mut child = Command::new(compiled("-std=c99")?)
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
    Some(found.stdout.chunks_exact(Output::BYTES).map(Output::from_bytes).collect())
}

#[test]
#[cfg_attr(target_arch = "x86", ignore = "no page counts where no counter is read")]
fn any_page_is_read_to_an_end_and_alike_in_c() {
    let cases: Vec<Case> = (0..CASES).map(Case::random).collect();
    let outputs: Vec<Output> = cases.iter().map(Case::run).collect();
    let (mut attached, mut by_line, mut waited, mut gave_up) = (0_u32, 0_u32, 0_u32, 0_u32);
    for (case, output) in cases.iter().zip(&outputs) {
        output.judge(case);
        attached += u32::from(output.refusal == 0);
        by_line += u32::from(output.refusal == 0 && output.source == 0);
        waited += u32::from(output.counter_reads > 3);
        // Rule R1: this many words that change, and one answer of the OS clock. The first look
        // reads nothing besides if the word names no line.
        let reads = output.counter_reads + output.os_reads;
        gave_up += u32::from(case.changes_always != 0 && (MAX_STARTS..=MAX_STARTS + 1).contains(&reads));
    }
    println!("{CASES} cases: {attached} attached, {by_line} by a line, {waited} waited, {gave_up} gave up");
    assert!(attached > 10_000 && by_line > 1_000 && waited > 100, "{attached}, {by_line}, {waited}");
    assert!(gave_up > 500, "{gave_up} readings found {MAX_STARTS} words");
    let Some(in_c) = in_c(&cases) else { return };
    assert_eq!(in_c.len(), outputs.len());
    for ((case, output), in_c) in cases.iter().zip(outputs).zip(in_c) {
        assert_eq!(in_c, output, "{case:?}");
    }
}

#[test]
fn the_header_is_c11_and_gnu_c_too() {
    for standard in ["-std=c11", "-std=gnu17"] {
        compiled(standard);
    }
}
