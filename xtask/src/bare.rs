//! `cargo xtask bare`: builds `examples/bare-x86_64`, and boots it under QEMU's emulation. Shows
//! the output of the machine's serial line. The exit code says whether the program passed.

use crate::command::{command, exit_code, must_succeed};

pub(crate) fn run() -> Result<u8, String> {
    /// QEMU's exit code when the program has passed: `End::Passed` in the example's `port.rs`, by
    /// the rule named there.
    const PASSED: u8 = 33;
    must_succeed(&mut command(
        "cargo build --release --target x86_64-unknown-none --manifest-path examples/bare-x86_64/Cargo.toml \
         --target-dir target",
    ))?;
    // The program takes 3 s of the machine's own time. `timeout` only ends a program that hangs.
    let qemu = "timeout 60 qemu-system-x86_64 -accel tcg -nodefaults -no-reboot -display none -cpu max -serial stdio \
                -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel target/x86_64-unknown-none/release/tickline-bare";
    let code = exit_code(&mut command(qemu))?;
    println!("exit code {code}, where {PASSED} says that all is well");
    Ok(u8::from(code != PASSED))
}
