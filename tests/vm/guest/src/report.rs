//! Sends reports to `cargo xtask vm` as lines of JSON over the second serial port, and reads its
//! answers.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::Output;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::agreed::{Message, Request};
use crate::phase::{Phase, ProgramRun};

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

/// Sends a phase of the report to the host.
pub(crate) fn send(phase: Phase) {
    send_message(&Message::Phase(Box::new(phase)));
}

fn send_message(message: &Message) {
    let line = line_of(message);
    // This is a single write, so that lines do not mix. A failure can't be reported.
    if let Some(mut port) = OPEN.get() {
        port.write_all(format!("{line}\n").as_bytes()).ok();
    }
}

/// A message as JSON, without the parts and figures that a phase lacks, and without nulls in the
/// output of its program. Objects in lists keep their nulls.
fn line_of(message: &Message) -> Value {
    let mut line = json!(message);
    leave_out_nulls(&mut line);
    line
}

fn leave_out_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(leave_out_nulls);
    }
}

/// A phase with the end of a program, and what it wrote.
pub(crate) fn output(name: &str, output: io::Result<Output>) -> Phase {
    let program = match output {
        Ok(output) => ProgramRun {
            exit_code: output.status.code(),
            output: serde_json::from_slice(&output.stdout).ok(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        },
        Err(error) => ProgramRun {
            errors: error.to_string(),
            ..ProgramRun::default()
        },
    };
    Phase {
        program: Some(program),
        ..Phase::named(name)
    }
}

/// The output of a phase's program, if it is JSON of this kind.
pub(crate) fn parsed<T: DeserializeOwned>(phase: &Phase) -> Option<T> {
    let output = phase.program.as_ref()?.output.clone()?;
    serde_json::from_value(output).ok()
}

/// Sends a request to the host, and waits until the host has carried it out.
pub(crate) fn ask_host(request: Request) -> io::Result<()> {
    send_message(&Message::Request(request));
    let mut byte = [0];
    while byte != *b"\n" {
        OPEN.get()
            .ok_or_else(|| io::Error::other("no port"))?
            .read_exact(&mut byte)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::Waited;

    #[test]
    fn a_line_has_only_what_the_phase_has() {
        let phase = Phase {
            waited: Some(Waited {
                reached: true,
                after_us: 5,
            }),
            program: Some(ProgramRun::default()),
            ..Phase::named("again")
        };
        let line = json!({ "phase": {
            "name": "again",
            "waited": { "reached": true, "after_us": 5 },
            "program": { "errors": "" },
        } });
        assert_eq!(line_of(&Message::Phase(Box::new(phase))), line);
    }
}
