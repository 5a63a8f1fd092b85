//! The project's own commands: `cargo xtask help` lists them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers")]

mod api;
mod ci;
mod dist;
#[cfg(test)]
mod docs;
mod examples;
mod files;
mod mutate;
mod page;
mod ports;
mod record;
mod sanitize;
mod step;
mod targets;
mod vm;

use std::process::ExitCode;

// Parsed without clap: the arguments are a dozen patterns, fewer lines than their declarations.
const HELP: &str = "\
usage: cargo xtask COMMAND

  ci [check | deep | nightly]
          check: format, clippy, docs, tests, stored API; deep: loom, Miri, simulator, guests, fuzzing, other targets; both
          without a name; nightly: what takes too long for every change; stores its results in docs/ and PLATFORM.md
  api [--write]
          compares the public API of each published library with docs/api/, or stores it there
  bare    boots examples/bare-x86_64, a clock without an operating system, under QEMU's emulation
  dependencies
          how many crates tickline and tickline-core bring along
  dist    the program as one static file, for any Linux on x86_64, the library for `tickline run`, and a Debian package and a
          tarball of both
  examples
          runs every example in examples/, once more with the counter switched off, and checks what they print
  mutate [FILTER | --sample] [--write]
          takes out one rule at a time, or weakens one atomic access, and shows which tests fail; FILTER is a rule's number,
          `ordering`, or a part of a description or of a file name; --write stores what was run
  page [FILE | --screenshot FILE]
          a report of this machine, or FILE, opened in headless Chromium: no errors, no requests, nothing too wide
  ports   published programs over tickline: their own tests, from the sources that cargo fetches
  record [--secs N | --smoke | --readme]
          measures tickline and its peers in some nine minutes, stores that, and writes the tables; --smoke: as short as can
          be, and nothing is written; --readme: the tables alone
  sanitize [--write]
          the tests of the libraries under ThreadSanitizer and AddressSanitizer; half an hour
  sim     [--steps N] [--seed S]: random scenarios on simulated machines; replay FILE, show SEED, track
  soak [--minutes N] [--write]
          everything at once on this machine; ends with counts that must be 0
  targets [NAME... | --others | --write]
          what compiles and runs on which target; --others leaves out x86_64 Linux, and what takes minutes
  vm [NAME...] [--write]
          real kernels with bad clocks, in guests under QEMU's emulation; --write stores their rows
  vm --programs [GUEST... | --write]
          unmodified programs on Debian and their own tests for time, in such guests; and the package under systemd";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["ci"] => ci::run(&["check", "deep"]),
        ["ci", lane] => ci::run(&[lane]),
        ["api", ref rest @ ..] => api::run(rest),
        ["bare"] => ci::bare(),
        ["dependencies"] => ci::dependencies(),
        ["dist"] => dist::run(),
        ["examples"] => examples::run(),
        ["mutate", ref rest @ ..] => mutate::run(rest),
        ["page", ref rest @ ..] => page::run(rest),
        ["ports"] => ports::run(),
        ["record", ref rest @ ..] => record::run(rest),
        ["sanitize", ref rest @ ..] => sanitize::run(rest),
        ["sim", ref rest @ ..] => ci::sim(rest),
        ["soak", ref rest @ ..] => ci::soak(rest),
        ["targets", ref rest @ ..] => targets::run(rest),
        ["vm", ref rest @ ..] => vm::run(rest),
        ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(0)
        }
        _ => Err(format!("'{}' is no command\n{HELP}", words.join(" "))),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("xtask {}: {message}", words.first().unwrap_or(&""));
            ExitCode::from(2)
        }
    }
}
