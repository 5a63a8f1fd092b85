//! The simulated machine, built with optimisation and overflow checks.

use std::process::{Command, ExitCode};

/// What the simulator's program can do beside running random scenarios.
const COMMANDS: [&str; 4] = ["replay", "show", "plot", "help"];

/// Runs the simulator's program with `arguments`; random scenarios unless they say otherwise.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let named = arguments.first().is_some_and(|first| COMMANDS.contains(&first.as_str()));
    let status = Command::new("cargo")
        .args(["run", "-q", "--profile", "sim", "-p", "tickline-sim", "--"])
        .args((!named).then_some("run"))
        .args(arguments)
        .status();
    match status {
        Ok(status) => ExitCode::from(u8::try_from(status.code().unwrap_or(2)).unwrap_or(2)),
        Err(error) => {
            eprintln!("xtask: cargo: {error}");
            ExitCode::from(2)
        }
    }
}
