//! Sends reports to `cargo xtask vm` as lines of JSON over the second serial port, and reads its
//! answers.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::Output;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::agreed::Request;

/// The second serial port. The first one is the kernel's console, whose messages would split lines.
const PORT: &str = "/dev/ttyS1";

static OPEN: OnceLock<File> = OnceLock::new();

/// Opens the port in raw mode, without echo and without a change of line ends.
///
/// # Errors
///
/// If there is no such port.
pub(crate) fn open() -> io::Result<()> {
    let port = File::options().read(true).write(true).open(PORT)?;
    crate::system::make_raw(&port)?;
    OPEN.set(port).map_err(|_| io::Error::other("opened twice"))
}

/// Sends a line to the host.
pub(crate) fn send_line(value: &Value) {
    // This is a single write, so that lines do not mix. A failure can't be reported.
    if let Some(mut port) = OPEN.get() {
        port.write_all(format!("{value}\n").as_bytes()).ok();
    }
}

/// A report of a program's output: its JSON, its messages, and its exit code.
pub(crate) fn output(phase: &str, output: io::Result<Output>) -> Value {
    match output {
        Ok(output) => json!({
            "phase": phase,
            "exit_code": output.status.code(),
            "output": serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default(),
            "errors": String::from_utf8_lossy(&output.stderr),
        }),
        Err(error) => json!({ "phase": phase, "errors": error.to_string() }),
    }
}

/// Sends a request to the host, and waits until the host has carried it out.
pub(crate) fn ask_host(request: Request) -> io::Result<()> {
    send_line(&json!(request));
    let mut byte = [0];
    while byte != *b"\n" {
        OPEN.get()
            .ok_or_else(|| io::Error::other("no port"))?
            .read_exact(&mut byte)?;
    }
    Ok(())
}
