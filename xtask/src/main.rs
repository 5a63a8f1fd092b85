//! The project's own commands: `cargo xtask help` lists them.
//!
//! `ci` is what CI runs and what a developer runs before a commit. `prove` takes the measurements whose figures the
//! documentation claims; nothing else should run on the machine meanwhile. `vm` tries tickline on real kernels with bad
//! clocks, `targets` on other targets, `sim` attacks it on simulated machines, `stress` on this one, and `mutate` attacks the tests.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers")]

mod ci;
mod mutate;
mod prove;
mod sim;
mod step;
mod stress;
mod targets;
mod vm;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND

  ci      format, clippy, docs, tests, bare-metal builds, loom, Miri, other targets; what CI runs
  sim     [--steps N] [--seed S]: random scenarios on simulated machines, from the one with seed S on
          replay FILE, show SEED: one scenario as JSON; plot FILE: offset and bound over time
  mutate [FILTER | --write]
          takes out one rule at a time, and shows which tests go red for it; FILTER is a rule's number, or a part of a
          description or of a file name; --write stores the table in docs/mutants.md
  prove   the measurements behind the documentation's figures, some five minutes
  stress [--secs N]
          backward steps between threads pinned to all CPUs, while the line changes every millisecond; 60 s
  targets [NAME... | --others | --write]
          what compiles and runs on which target; NAME is a part of a target's name; --others leaves out x86_64 Linux, whose
          checks are steps of their own; --write stores the table in PLATFORM.md
  vm [NAME... | --write]
          real kernels with bad clocks, in guests under QEMU's emulation; some seven minutes; --write stores the table in
          docs/guests.md";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => step::run_all(&ci::steps()),
        ["sim", ..] => sim::run(&arguments[1..]),
        ["mutate", ref rest @ ..] => mutate::run(rest),
        ["prove"] => step::run_all(&prove::steps()),
        ["stress", ref rest @ ..] => stress::run(rest),
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
