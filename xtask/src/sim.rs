//! `cargo xtask sim`: runs the simulator's program, with optimisation and overflow checks. It runs
//! random scenarios unless the arguments name another command.

use clap::Args;

use crate::step::exit_code;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What the simulator takes; `help` lists it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(Arguments { arguments }: &Arguments) -> Result<u8, String> {
    let is_named = arguments
        .first()
        .is_some_and(|first| ["track", "help"].contains(&first.as_str()));
    let command = if is_named { "" } else { "run" };
    let line = format!(
        "cargo run -q --profile sim -p tickline-sim -- {command} {}",
        arguments.join(" ")
    );
    exit_code(&line)
}
