//! The project's own commands: `cargo xtask help` lists them.
//!
//! `ci` is what CI runs and what a developer runs before a commit. `record` takes the
//! measurements whose figures the documentation claims; nothing else should run on the machine
//! meanwhile. `vm` tries tickline on real kernels with bad clocks, `targets` on other targets,
//! `sim` attacks it on simulated machines, `soak` on this one, and `mutate` attacks the tests.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers")]

mod api;
mod bare;
mod ci;
mod dist;
mod examples;
#[cfg(test)]
mod imports;
mod mca;
mod mutate;
mod page;
mod ports;
mod publish;
mod record;
mod sanitize;
mod sim;
mod soak;
mod step;
mod targets;
mod vm;

use std::process::ExitCode;

// Parsed without clap: the arguments are a dozen patterns, fewer lines than their declarations.
const HELP: &str = "\
usage: cargo xtask COMMAND

  ci      format, clippy, docs, tests, bare-metal builds, loom, Miri, other targets; what CI runs
  sim     [--steps N] [--seed S]: random scenarios on simulated machines, from the one with seed S on
          replay FILE, show SEED: one scenario as JSON; plot FILE: offset and bound over time
  mca [PATH]
          micro-operations and cycles of the hot paths by llvm-mca's models of two processors; PATH: a built example hot_path
  nightly the suites that take too long for `ci`: every mutant, every target's tests, ten minutes of soak, what the nightly
          compiler says; stores their results in docs/ and PLATFORM.md
  mutate [FILTER | --sample] [--write]
          takes out one rule at a time, and shows which tests go red for it; weakens one atomic access at a time, and shows
          which model by loom does; FILTER is a rule's number, `ordering`, or a part of a description or of a file name;
          --sample: the first of each ten rules' mutants;
          --write stores what was run in docs/mutants.md
  page [FILE]
          a report of this machine, or FILE, opened in headless Chromium: no errors, no requests, nothing too wide;
          `page trace`: a server's trace in catapult's viewer: no warnings, and as many spans as the server has written;
          --screenshot FILE: the picture for the documentation, of the report or of the trace
  ports [NAME...]
          published programs over tickline, and quanta's examples over tickline-quanta: their own tests, from the sources that
          cargo fetches
  publish whether the crates can be published: packages, licences, dependencies, features
  dependencies
          how many crates tickline and tickline-core bring along
  record [--secs N | --smoke | --readme]
          measures tickline and its peers in some nine minutes; stores that in benches/record/ in the place of the older
          record of this processor, and writes the tables of benches/README.md and of the README; --secs: the length of each
          long measurement in place of 60 s; --smoke: as short as can be, and nothing is written; --readme: the tables alone
  record harnesses [delays | compare | harnesses | --readme]
          known delays, `compare` and other harnesses beside tickline-criterion, alone and with a busy loop on each CPU; stores
          that in benches/record/harnesses/, and writes the tables of tickline-criterion
  sanitize [thread | address | --write]
          the tests of the libraries under a sanitizer, or both; half an hour; needs a nightly compiler with rust-src; --write
          stores what passed under both in docs/sanitizers.md
  soak [--minutes N] [--write]
          handovers between eight threads, storms of maintain and of the switch, starts, drops and forks; ends with counts that must
          be 0; 1 minute; --write stores the table in docs/soak.md
  api [--write]
          compares the public API of each published library with docs/api/, or stores it there; needs cargo-public-api
  bare    boots examples/bare-x86_64, a clock without an operating system, under QEMU's emulation
  dist    the program as one static file, for any Linux on x86_64, the library for `tickline run`, and a Debian package and a
          tarball of both; needs cargo-deb
  examples
          runs every example in examples/, once more with the counter switched off, and checks what they print
  targets [NAME... | --others | --write]
          what compiles and runs on which target; NAME is a part of a target's name; --others leaves out x86_64 Linux, whose
          checks are steps of their own, and what takes minutes; --write stores the table in PLATFORM.md
  vm [NAME...] [--write]
          real kernels with bad clocks, in guests under QEMU's emulation; some seven minutes; --write stores the table in
          docs/guests.md
  vm --programs [GUEST... PROGRAM... | --write]
          unmodified programs on Debian and their own tests for time, in such guests, natively and served; and the package under
          systemd; an hour at most; --write stores the table in docs/programs.md";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => step::run_all(&ci::steps()),
        ["nightly"] => step::run_all(&ci::nightly()),
        ["sim", ..] => sim::run(&arguments[1..]),
        ["mutate", ref rest @ ..] => mutate::run(rest),
        ["mca", ref rest @ ..] => mca::run(rest),
        ["page", ref rest @ ..] => page::run(rest),
        ["ports", ref rest @ ..] => ports::run(rest),
        ["publish"] => step::run_all(&publish::steps()),
        ["dependencies"] => publish::dependencies(),
        ["record", ref rest @ ..] => record::run(rest),
        ["api", ref rest @ ..] => api::run(rest),
        ["bare"] => bare::run(),
        ["dist"] => dist::run(),
        ["examples"] => examples::run(),
        ["sanitize", ref rest @ ..] => sanitize::run(rest),
        ["soak", ref rest @ ..] => soak::run(rest),
        ["targets", ref rest @ ..] => targets::run(rest),
        ["vm", ..] => vm::run(&arguments[1..]),
        ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("xtask: '{}' is no command\n{HELP}", arguments.join(" "));
            ExitCode::from(2)
        }
    }
}
