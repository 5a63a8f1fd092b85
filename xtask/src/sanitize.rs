//! `cargo xtask sanitize`: the tests of the libraries under ThreadSanitizer and AddressSanitizer.
//!
//! Both need a standard library that was built with them, so a nightly compiler and its sources of
//! that library. What a sanitizer builds goes into a directory of its own. Left out are doc tests,
//! and `tickline-criterion`, which has no unsafe code and no thread of its own.
//!
//! It takes half an hour, so it is for `nightly`; `--write` stores what passed.
//!
//! What they can't see: accesses in assembly (the reads of the counter); memory that the kernel
//! writes; what no test executes.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::mutate::tree;
use crate::step::{self, SOME_SKIPPED};
use crate::targets::packages;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A sanitizer.
struct Sanitizer {
    /// As `-Zsanitizer` calls it.
    name: &'static str,
    /// Where its runtime looks for options.
    variable: &'static str,
}

const SANITIZERS: [Sanitizer; 2] = [
    Sanitizer { name: THREAD, variable: "TSAN_OPTIONS" },
    Sanitizer { name: ADDRESS, variable: "ASAN_OPTIONS" },
];
const THREAD: &str = "thread";
const ADDRESS: &str = "address";

/// What one command tests.
struct Run {
    crates: &'static [&'static str],
    tests: &'static str,
    /// For the runtime. Children that are forked make threads; ThreadSanitizer is told to bear
    /// that.
    options: &'static str,
}

const RUNS: [Run; 2] = [
    // Its tests leak their machines on purpose (`testing.rs`).
    Run {
        crates: &["tickline-core", "tickline-page"],
        tests: "--lib",
        options: "die_after_fork=0:detect_leaks=0",
    },
    Run { crates: &["tickline", "tickline-tracing"], tests: "--lib --tests", options: "die_after_fork=0" },
];

/// As everywhere where integers were tested by the thousand natively.
const CASES: &str = "16";

/// Tests that cannot pass.
struct LeftOut {
    under: &'static [&'static str],
    /// Seen from the workspace's root.
    file: &'static str,
    tests: &'static [&'static str],
    why: &'static str,
}

const SECCOMP: &str = "crates/tickline/tests/seccomp.rs";
const FILTER: &str = "the filter kills the process for the runtime's own system calls";

const SHARED: &str =
    "its two processes share one memory, and so the runtime's own state, which has no lock for that";

const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        under: &[THREAD, ADDRESS],
        file: "crates/tickline-tracing/tests/crash.rs",
        tests: &["the_last_moment_is_in_the_file"],
        why: "the runtime has handlers of its own for a program that crashes or leaks",
    },
    LeftOut {
        under: &[THREAD, ADDRESS],
        file: "crates/tickline/tests/disassembly.rs",
        tests: &["the_hot_paths_keep_their_instructions"],
        why: "it looks at an optimised example, whose instructions would be the sanitizer's",
    },
    LeftOut {
        under: &[THREAD],
        file: "crates/tickline/src/sys/linux/mark.rs",
        tests: &["the_kernel_marks_a_thread_that_ends_without_returning"],
        why: "the runtime does not see a thread end that ends by a bare system call",
    },
    LeftOut {
        under: &[THREAD, ADDRESS],
        file: "crates/tickline/tests/plugin.rs",
        tests: &["an_unloaded_library_leaves_no_memory"],
        why: "it measures memory, of which the runtime keeps some for each library",
    },
    LeftOut {
        under: &[THREAD, ADDRESS],
        file: "crates/tickline/tests/shared_memory.rs",
        tests: &["two_processes_in_one_memory_do_not_iterate_at_once"],
        why: SHARED,
    },
    LeftOut {
        under: &[THREAD, ADDRESS],
        file: "crates/tickline/tests/start.rs",
        tests: &["the_coarse_time_goes_on_in_a_process_that_outlives_its_memory"],
        why: SHARED,
    },
    LeftOut {
        under: &[THREAD, ADDRESS],
        file: "crates/tickline/tests/stack.rs",
        tests: &["readings_need_little_stack", "maintaining_needs_little_stack"],
        why: "it measures frames, which are the sanitizer's",
    },
    LeftOut {
        under: &[THREAD, ADDRESS],
        file: "crates/tickline/tests/life.rs",
        tests: &["a_process_without_the_right_to_the_counter_has_a_clock"],
        why: "the runtime asks the vDSO for the time when a thread is made, and the vDSO reads the counter",
    },
    LeftOut {
        under: &[THREAD, ADDRESS],
        file: SECCOMP,
        tests: &["minimal_probes_live_under_a_filter_that_kills"],
        why: FILTER,
    },
    LeftOut {
        under: &[ADDRESS],
        file: SECCOMP,
        tests: &[
            "a_thread_from_before_the_filter_goes_on_and_ends",
            "the_global_clock_may_be_calibrated_before_the_filter",
            "without_a_thread_the_list_is_two_calls",
        ],
        why: FILTER,
    },
    LeftOut {
        under: &[ADDRESS],
        file: "crates/tickline/tests/process.rs",
        tests: &["errno_survives_a_reading"],
        why: "without descriptors the search for leaks cannot open procfs at the end",
    },
];

/// Where the results are kept, seen from the workspace's root.
const STORED: &str = "docs/sanitizers.md";

/// Runs the tests under the sanitizers that the arguments name, or both. With `--write`, runs both,
/// and stores the results if all have passed.
pub(crate) fn run(names: &[&str]) -> ExitCode {
    let is_write = names == ["--write"];
    let names = if is_write { &[] } else { names };
    if let Some(unknown) = names.iter().find(|name| !SANITIZERS.iter().any(|one| one.name == **name)) {
        eprintln!("xtask sanitize: '{unknown}' is none; there are thread and address");
        return ExitCode::from(2);
    }
    if let Some(missing) = missing() {
        println!("=== SKIPPED sanitizers: {missing}; nothing was tested under them");
        return ExitCode::from(SOME_SKIPPED);
    }
    let mut results = Vec::new();
    for sanitizer in SANITIZERS.iter().filter(|one| names.is_empty() || names.contains(&one.name)) {
        for out in left_out(sanitizer.name) {
            println!(
                "left out under the {} sanitizer: {} of {}: {}",
                sanitizer.name,
                out.tests.join(", "),
                out.file,
                out.why
            );
        }
        for run in &RUNS {
            results.push((sanitizer, run, tested(sanitizer, run)));
        }
    }
    let results = results.into_iter().map(|(sanitizer, run, passed)| Some((sanitizer, run, passed?)));
    let Some(results) = results.collect::<Option<Vec<_>>>() else { return ExitCode::FAILURE };
    match if is_write { tree::store(STORED, &document(&results)) } else { Ok(()) } {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask sanitize: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What is stored: how many tests passed in each run, with which compiler, and what was left out.
fn document(results: &[(&Sanitizer, &Run, u64)]) -> String {
    let compiler = step::command("rustc +nightly --version").and_then(|mut command| command.output().ok());
    let compiler = compiler
        .map_or_else(|| "unknown".to_owned(), |out| String::from_utf8_lossy(&out.stdout).into_owned());
    let mut text = format!(
        "# Sanitizers\n\nThe last run of `cargo xtask sanitize --write`, which writes this file, with {}.\n\n\
         | sanitizer | crates | tests that passed |\n|---|---|---|\n",
        compiler.trim()
    );
    for (sanitizer, run, passed) in results {
        writeln!(text, "| {} | {} | {passed} |", sanitizer.name, run.crates.join(", ")).ok();
    }
    text.push_str("\nLeft out, because they cannot pass:\n\n| under | test | why |\n|---|---|---|\n");
    for out in LEFT_OUT {
        let tests = out.tests.iter().map(|test| format!("`{test}`")).collect::<Vec<_>>().join(", ");
        writeln!(text, "| {} | {tests} | {} |", out.under.join(", "), out.why).ok();
    }
    text
}

/// What a sanitizer needs and this machine does not have.
fn missing() -> Option<&'static str> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Some("this is not x86_64 Linux");
    }
    let output =
        step::command("rustc +nightly --print sysroot").and_then(|mut command| command.output().ok());
    let Some(output) = output.filter(|output| output.status.success()) else {
        return Some("there is no nightly compiler (rustup toolchain install nightly)");
    };
    let sysroot = String::from_utf8_lossy(&output.stdout);
    let sources = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/Cargo.lock");
    (!sources.is_file())
        .then_some("the nightly compiler has no rust-src (rustup component add rust-src --toolchain nightly)")
}

fn left_out(sanitizer: &str) -> impl Iterator<Item = &'static LeftOut> {
    LEFT_OUT.iter().filter(move |out| out.under.contains(&sanitizer))
}

/// The command's arguments.
fn line(sanitizer: &Sanitizer, run: &Run) -> String {
    let mut line = format!(
        "cargo +nightly test -Zbuild-std --target {TARGET} --target-dir target/sanitize-{}{} {} --no-fail-fast --",
        sanitizer.name,
        packages(run.crates),
        run.tests
    );
    for test in left_out(sanitizer.name).flat_map(|out| out.tests) {
        write!(line, " --skip {test}").ok();
    }
    line
}

/// How many tests passed; `None` if one failed, or none ran.
fn tested(sanitizer: &Sanitizer, run: &Run) -> Option<u64> {
    let line = line(sanitizer, run);
    println!("\n{line}");
    let start = Instant::now();
    let passed = step::command(&line)
        .and_then(|mut command| step::shown(with_sanitizer(&mut command, sanitizer, run)).ok())
        .filter(|(status, _)| status.success())
        .map(|(_, output)| passed_in(&output))
        .filter(|passed| *passed > 0);
    let verdict = passed.map_or_else(|| "FAILED".to_owned(), |passed| format!("{passed} passed"));
    println!(
        "{verdict} under the {} sanitizer after {:.0} s:{}",
        sanitizer.name,
        start.elapsed().as_secs_f64(),
        packages(run.crates)
    );
    passed
}

/// The sum over the test harness's closing lines.
fn passed_in(output: &str) -> u64 {
    let of_line =
        |line: &str| line.strip_prefix("test result: ok. ")?.split_once(" passed")?.0.parse::<u64>().ok();
    output.lines().filter_map(of_line).sum()
}

/// A little optimisation: the tests take a fifth of the time, and what they do to memory stays.
fn with_sanitizer<'a>(command: &'a mut Command, sanitizer: &Sanitizer, run: &Run) -> &'a mut Command {
    command
        .env("RUSTFLAGS", format!("-Zsanitizer={}", sanitizer.name))
        .env(sanitizer.variable, run.options)
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .env("CARGO_INCREMENTAL", "0")
        .env("PROPTEST_CASES", CASES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_that_is_left_out_is_there() {
        for out in LEFT_OUT {
            let source = tree::stored(out.file).unwrap();
            for test in out.tests {
                assert!(source.contains(&format!("fn {test}()")), "{} has no test {test}", out.file);
            }
        }
    }

    #[test]
    fn a_name_leaves_out_one_test_alone() {
        let others = ["tickline/src/sys/linux/mark.rs", "tickline-tracing/tests/crash.rs"];
        let others = others.map(|file| tree::workspace().join("crates").join(file));
        for name in LEFT_OUT.iter().flat_map(|out| out.tests) {
            let folder = tree::workspace().join("crates/tickline/tests");
            let files = std::fs::read_dir(folder).unwrap().flatten().map(|file| file.path());
            let files = files.chain(others.clone());
            let sources = files.filter_map(|file| std::fs::read_to_string(file).ok());
            let count: usize = sources.map(|source| source.matches(&format!("fn {name}")).count()).sum();
            assert_eq!(count, 1, "{name}");
        }
    }

    #[test]
    fn the_tests_of_all_files_are_counted() {
        let output =
            "test result: ok. 7 passed; 0 failed\nx\ntest result: ok. 12 passed; 0 failed; 1 ignored\n";
        assert_eq!(passed_in(output), 19);
        let text = document(&[(&SANITIZERS[0], &RUNS[0], 7)]);
        assert!(text.contains("| thread | tickline-core, tickline-page | 7 |"), "{text}");
    }

    #[test]
    fn a_sanitizer_leaves_out_its_own_tests_only() {
        let has_errno = |sanitizer: &Sanitizer| line(sanitizer, &RUNS[1]).contains("errno");
        assert_eq!(SANITIZERS.each_ref().map(has_errno), [false, true]);
    }
}
