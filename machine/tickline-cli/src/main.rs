//! The program `tickline`: measures and explains the clocks of the machine on which it runs.
//!
//! `args` parses the command line. A command (`commands`) measures (`measure`), collects facts
//! (`machine`), and stores both in a document (`document`). `diagnose` adds findings to the
//! document, and `output` writes it as text, JSON or HTML.
//!
//! | module | contents |
//! |---|---|
//! | `args` | the command line, and its help |
//! | `commands` | a module for each command |
//! | `setup`, `measure` | the process before a measurement; the measurements |
//! | `machine`, `machine_rows` | the facts of the machine; their rows in texts and the report |
//! | `document`, `schema`, `input` | the document; its JSON Schemas; a recorded document |
//! | `diagnose` | the findings and fixes |
//! | `output`, `screen`, `progress`, `openmetrics` | files; texts; the progress bar; metrics |
//! | `words`, `float`, `cpu_list` | figures and names in words; conversions; lists of CPUs |
//! | `clocksources`, `utc_unknown` | what clocksources' names say; why UTC is unknown |
//! | `glossary` | the codes that commands show, each with a sentence |
//! | `exit`, `signal` | exit codes; signal handlers |
//! | `sudo` | the name by which `sudo` finds this program |

#![deny(unsafe_code)]

mod args;
mod clocksources;
mod commands;
mod cpu_list;
mod diagnose;
mod document;
mod exit;
mod float;
mod glossary;
mod input;
mod machine;
mod machine_rows;
mod measure;
mod openmetrics;
mod output;
mod progress;
#[cfg(test)]
mod schema;
mod screen;
mod setup;
mod signal;
mod sudo;
mod utc_unknown;
mod words;

use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::commands::{
    bench, compare, doctor, explain, flight, manual, report, run, serve, wait, warp, watch, who,
};
use crate::exit::Exit;

fn main() -> ExitCode {
    let arguments = || std::env::args_os().skip(1);
    // `run` has a parser of its own. The parser of all commands takes as long to build as the rest
    // of `run`, and needs more stack than some programs have. Only the message for a wrong command
    // line needs it.
    if arguments().next().is_some_and(|command| command == "run")
        && let Ok(args) = args::Run::try_parse_from(arguments())
    {
        run::run(&args);
    }
    // `served_by` has started this process, under a seccomp filter, to find out who answers each
    // clock.
    if let Some(first_clock) = measure::served_by::first_filtered_clock(arguments()) {
        return finish(measure::served_by::run_filtered(first_clock));
    }
    let args = match Args::try_of_process() {
        Ok(args) => args,
        Err(error) => return refused(&error),
    };
    let command = args.command.unwrap_or(Command::Doctor(args.doctor));
    // A program that `run` executes would inherit an ignored signal.
    #[cfg(unix)]
    if !matches!(command, Command::Run(_)) {
        signal::ignore_file_size_limit();
    }
    let result = match command {
        Command::Doctor(args) => doctor::run(&args),
        Command::Wait(args) => wait::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Flight(args) => flight::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Warp(args) => warp::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Who(args) => who::run(&args),
    };
    finish(result)
}

/// Prints help, or an error of the command line. Two commands have a code of their own for such an
/// error, because the usual 2 would mislead: of `doctor --check` it means critical to a monitoring
/// system, and of `serve`, that another start may help.
fn refused(error: &clap::Error) -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let first = arguments.first().cloned().unwrap_or_default();
    let is_check = || arguments.iter().any(|argument| argument == "--check");
    #[cfg(target_os = "linux")]
    if error.use_stderr() && first == "serve" {
        error.print().ok();
        return ExitCode::from(Exit::Permanent.code());
    }
    if error.use_stderr() && is_check() && may_be_doctor(&first) {
        return ExitCode::from(doctor::unknown(error).code());
    }
    if error.use_stderr() {
        error.exit();
    }
    // Help and version: clap's own `exit` does not notice that they could not be written.
    let printed = output::text_to_stdout(&error.render().ansi().to_string());
    finish(printed.map(|()| Exit::Success))
}

/// Whether a command line with this first word may be meant for the doctor: it is no other command.
/// It may be an option, if the command was left out, or a misspelt `doctor`.
fn may_be_doctor(first: &OsStr) -> bool {
    let mut program = Args::parser();
    program.build();
    first == "doctor" || program.find_subcommand(first).is_none()
}

/// Prints the message of an error. Returns the exit code.
fn finish(result: io::Result<Exit>) -> ExitCode {
    let exit = result.unwrap_or_else(|error| {
        output::error_to_stderr(&error);
        Exit::Error
    });
    ExitCode::from(exit.code())
}
