//! The project's own commands: `cargo xtask ci`, `cargo xtask vm`, `cargo xtask prove`.
//!
//! `ci` is what CI runs and what a developer runs before a commit. `prove` takes the measurements whose figures the
//! documentation claims; nothing else should run on the machine meanwhile. `vm` tries tickline on real kernels with bad
//! clocks.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers")]

mod ci;
mod prove;
mod step;
mod vm;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND

  ci      format, clippy, docs, tests, bare-metal builds, Miri, other targets; what CI runs
  vm [NAME...]
          real kernels with bad clocks, in guests under QEMU's emulation; some four minutes
  prove   the measurements behind the documentation's figures, some five minutes";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => step::run_all(&ci::steps()),
        ["prove"] => step::run_all(&prove::steps()),
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
