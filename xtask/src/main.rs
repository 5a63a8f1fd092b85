//! The project's own commands: `cargo xtask help` lists them.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for developers"
)]

mod api;
mod ci;
mod dist;
#[cfg(test)]
mod docs;
mod examples;
mod files;
#[cfg(test)]
mod imports;
mod mutate;
mod ports;
mod record;
mod report;
mod step;
mod targets;
mod vm;
#[cfg(test)]
mod wings;

use std::process::ExitCode;

// Patterns instead of clap, whose declarations would need more lines.
const HELP: &str = include_str!("../help.txt");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["ci"] => ci::run(&["check", "deep"], &[]),
        ["ci", lane, ref names @ ..] => ci::run(&[lane], names),
        ["api", ref rest @ ..] => api::run(rest),
        ["bare"] => ci::bare(),
        ["dist"] => dist::run(),
        ["examples"] => examples::run(),
        ["mutate", ref rest @ ..] => mutate::run(rest),
        ["report", ref rest @ ..] => report::run(rest),
        ["ports"] => ports::run(),
        ["record", ref rest @ ..] => record::run(rest),
        ["sim", ref rest @ ..] => ci::sim(rest),
        ["soak", ref rest @ ..] => ci::soak(rest),
        ["targets", ref rest @ ..] => targets::run(rest),
        ["vm", ref rest @ ..] => vm::run(rest),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(0)
        }
        [] => Err(format!("name a command\n{HELP}")),
        _ => Err(format!("'{}' is not a command\n{HELP}", words.join(" "))),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("xtask {}: {message}", words.first().unwrap_or(&""));
            ExitCode::from(2)
        }
    }
}
