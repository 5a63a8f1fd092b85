//! Commands that build one program of the repository, and run it.

use clap::Args;

use crate::step::{self, exit_code};

/// `cargo xtask bare`: builds `examples/bare-x86_64`, and boots it under QEMU's emulation. Shows
/// the output of the machine's serial line. The exit code says whether the program passed.
pub(crate) fn bare() -> Result<u8, String> {
    /// QEMU's exit code when the program has passed: `End::Passed` in the example's `port.rs`, by
    /// the rule named there.
    const PASSED: u8 = 33;
    step::must_succeed(
        "cargo build --release --target x86_64-unknown-none --manifest-path examples/bare-x86_64/Cargo.toml \
         --target-dir target",
    )?;
    // The program takes 3 s of the machine's own time. `timeout` only ends a program that hangs.
    let qemu = "timeout 60 qemu-system-x86_64 -accel tcg -nodefaults -no-reboot -display none -cpu max -serial stdio \
                -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel target/x86_64-unknown-none/release/tickline-bare";
    let code = exit_code(qemu)?;
    println!("exit code {code}, where {PASSED} says that all is well");
    Ok(u8::from(code != PASSED))
}

#[derive(Debug, Args)]
pub(crate) struct SimArguments {
    /// What the simulator takes; `help` lists it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// `cargo xtask sim`: runs the simulator's program, with optimisation and overflow checks. It runs
/// random scenarios unless the arguments name another command.
pub(crate) fn sim(SimArguments { arguments }: &SimArguments) -> Result<u8, String> {
    let is_named = arguments
        .first()
        .is_some_and(|first| ["track", "help"].contains(&first.as_str()));
    let run = if is_named { "" } else { "run" };
    let line = format!(
        "cargo run -q --profile sim -p tickline-sim -- {run} {}",
        arguments.join(" ")
    );
    exit_code(&line)
}

#[derive(Debug, Args)]
pub(crate) struct SoakArguments {
    /// For so long
    #[arg(long, value_name = "N", default_value_t = 1)]
    minutes: u64,
}

/// `cargo xtask soak`: uses all clocks at once on this machine, and counts errors. Then exchanges
/// readings while lines are replaced, for a tenth of that time.
pub(crate) fn soak(arguments: &SoakArguments) -> Result<u8, String> {
    let secs = 60 * arguments.minutes;
    // The programs fail if a count is not 0.
    let run = "cargo run --release -q -p tickline-benches --bin";
    step::must_succeed(&format!("{run} soak -- --secs {secs}"))?;
    exit_code(&format!("{run} order -- --secs {} --clock-ms 0", secs / 10))
}
