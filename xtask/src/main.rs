//! The project's own commands: `cargo xtask help` lists them. `repository` has no command, but
//! tests of documents, imports and dependencies.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for developers"
)]

mod api;
mod bare;
mod changes;
mod ci;
mod command;
mod dist;
mod examples;
mod files;
mod host;
mod mutate;
mod outcome;
mod ports;
mod publish;
mod record;
mod report;
#[cfg(test)]
mod repository;
mod sim;
mod size;
mod soak;
mod step;
mod targets;
mod test_output;
mod toolchain;
mod verdicts;
mod vm;

use std::process::ExitCode;

use clap::Parser;

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Command {
    /// Runs the checks of CI: `check` and `deep`, or one lane, or some of its steps; `check` before
    /// each commit, `nightly` before a release
    Ci(ci::Arguments),
    /// Compares the public API of each published library with docs/api/, or stores it there; after
    /// a change of a public item
    Api(api::Arguments),
    /// Boots examples/bare-x86_64, a clock without an operating system, under QEMU's emulation;
    /// after a change of tickline-core
    Bare,
    /// Builds the program as one static file for any Linux on `x86_64`, and the library for
    /// `tickline run`; packs both into a Debian package and a tarball, with their checksums; to
    /// install them on other machines
    Dist,
    /// Runs every example of the crates twice, once with the counter switched off, and checks the
    /// output; after a change of an example, or of a text that examples print
    Examples,
    /// Takes out one rule at a time, or weakens one atomic access, and shows which tests fail;
    /// after a change of a rule, of an ordering or of their tests
    Mutate(mutate::Arguments),
    /// Opens a report in headless Chromium: no errors, no requests, nothing too wide; after a
    /// change of the report
    Report(report::Arguments),
    /// Runs the tests of published programs over tickline, from the sources that cargo fetches;
    /// before a release, or after a change of `Instant`, `UnixTime` or tickline-quanta
    Ports(ports::Arguments),
    /// Packs each published crate, and builds each package by itself; uploads nothing; before a
    /// release, or after a change of a manifest
    Publish,
    /// Measures tickline and its peers in some eight minutes, stores the record, and writes the
    /// tables; before a release
    Record(record::Arguments),
    /// Runs random scenarios on simulated machines (`--steps N`, `--seed S`), or `track`; after a
    /// change of the control loop or of its constants
    Sim(sim::Arguments),
    /// Compares the size of a hello-world with the library with that of one with std; after an
    /// addition to the library
    Size,
    /// Does everything at once on this machine, prints counts, and fails if one is out of its
    /// range, as any step back is; on a new kind of processor, or after a change of a reading's
    /// machine code
    Soak(soak::Arguments),
    /// Checks which parts compile and run on each target; after a change of code for some targets
    /// only
    Targets(targets::Arguments),
    /// Counts how often `--against` and `compare` of tickline-criterion call equal builds and
    /// closures different, and slower ones slower; after a change of their method
    Verdicts(verdicts::Arguments),
    /// Boots real kernels with bad clocks, in guests under QEMU's emulation; after a change of a
    /// gate, or of what the program says of a machine
    Vm(vm::Arguments),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Ci(arguments) => ci::run(&arguments),
        Command::Api(arguments) => api::run(&arguments),
        Command::Bare => bare::run(),
        Command::Dist => dist::run(),
        Command::Examples => examples::run(),
        Command::Mutate(arguments) => mutate::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Ports(arguments) => ports::run(&arguments),
        Command::Publish => publish::run(),
        Command::Record(arguments) => record::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Size => size::run(),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Targets(arguments) => targets::run(&arguments),
        Command::Verdicts(arguments) => verdicts::run(&arguments),
        Command::Vm(arguments) => vm::run(&arguments),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            let command = std::env::args().nth(1).unwrap_or_default();
            eprintln!("xtask {command}: {message}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, ValueEnum as _};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Command::command().debug_assert();
    }

    /// The commands of CI's steps and in CONTRIBUTING must exist.
    #[test]
    fn every_command_that_files_name_is_one() {
        let steps = ci::steps(ci::Lane::value_variants());
        let mut lines: Vec<String> = steps.iter().map(|step| step.command.join(" ")).collect();
        let text = files::read("CONTRIBUTING.md").unwrap();
        lines.extend(text.split('`').skip(1).step_by(2).map(str::to_owned));
        let mut count = 0;
        for line in &lines {
            let Some(command) = line.strip_prefix("cargo xtask ") else {
                continue;
            };
            // The rest of a line is for the shell.
            let (command, _) = command.split_once(" > ").unwrap_or((command, ""));
            let words = ["xtask"].into_iter().chain(command.split_whitespace());
            if let Err(error) = Command::try_parse_from(words) {
                assert!(!error.use_stderr(), "cargo xtask {command}: {error}");
            }
            count += 1;
        }
        assert!(count > 25, "{count} commands were read");
    }

    #[test]
    fn arguments_that_are_unknown_or_contradict_each_other_are_refused() {
        for line in [
            "nothing",
            "ci quick",
            "ci --stored",
            "record --smoke --secs 3",
            "record --secs soon",
            "mutate --sample 3",
            "targets --write x86_64",
            "vm --prepare --write",
            "ports uild",
            "report page.html --screenshot page.png",
            "soak --minutes",
            "verdicts --runs 0",
        ] {
            let words = ["xtask"].into_iter().chain(line.split(' '));
            assert!(Command::try_parse_from(words).is_err(), "{line}");
        }
    }
}
