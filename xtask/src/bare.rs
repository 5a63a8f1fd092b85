//! `cargo xtask bare`: `examples/bare-x86_64`, built, and booted under QEMU's emulation.

use std::io;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::step;

const QEMU: &str = "qemu-system-x86_64";

/// QEMU's exit code when the program has passed: `End::Passed` in the example's `port.rs`, by the
/// rule named there.
const PASSED: i32 = 33;

/// The program takes 3 s of the machine's own time. This only ends a program that hangs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

const BUILD: &str = "cargo build --release --target x86_64-unknown-none \
    --manifest-path examples/bare-x86_64/Cargo.toml --target-dir target/bare";

const PROGRAM: &str = "target/bare/x86_64-unknown-none/release/tickline-bare";

/// Builds and boots it. What the machine prints on its serial line is shown; the exit code says
/// whether it passed.
pub(crate) fn run() -> ExitCode {
    let built = step::command(BUILD).map(|mut command| command.status());
    if !matches!(built, Some(Ok(status)) if status.success()) {
        eprintln!("xtask bare: `{BUILD}` failed");
        return ExitCode::FAILURE;
    }
    match boot() {
        Ok(status) if status.code() == Some(PASSED) => {
            println!("passed");
            ExitCode::SUCCESS
        }
        Ok(status) => {
            println!("FAILED: {QEMU} ended with {status}, where {PASSED} says that all is well");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("FAILED: {QEMU}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn boot() -> io::Result<ExitStatus> {
    let machine = format!(
        "{QEMU} -accel tcg -nodefaults -no-reboot -display none -cpu max -serial stdio \
         -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel {PROGRAM}"
    );
    let mut command: Command = step::command(&machine).ok_or_else(|| io::Error::other("no command"))?;
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let end = wait(&mut child);
    child.kill().ok();
    child.wait().ok();
    end
}

fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < TIME_LIMIT {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(io::Error::other(format!("not done after {} s", TIME_LIMIT.as_secs())))
}
