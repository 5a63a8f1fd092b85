//! `cargo xtask sim`: runs the simulator's program, with optimisation and overflow checks.

use clap::Args;

use crate::command::{command, exit_code};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What the simulator takes; `help` lists it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(Arguments { arguments }: &Arguments) -> Result<u8, String> {
    exit_code(command("cargo run -q --profile sim -p tickline-sim --").args(arguments))
}
