//! `cargo xtask soak`: uses all clocks at once on this machine, and counts errors. Then exchanges
//! readings while lines are replaced, for a tenth of that time.

use clap::Args;

use crate::command::{command, exit_code, must_succeed};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// For so long
    #[arg(long, value_name = "N", default_value_t = 1)]
    minutes: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    let secs = 60 * arguments.minutes;
    // The programs fail if they find an error, or if nothing was compared. A machine that can't run
    // `order` makes it exit with 77.
    let run = || command("cargo run --release -q -p tickline-benches --bin");
    must_succeed(run().args(["soak", "--", "--secs", &secs.to_string()]))?;
    let short = (secs / 10).to_string();
    exit_code(run().args(["order", "--", "--clock-ms", "0", "--secs", &short]))
}
