//! Where output goes: to files, and to standard output, whose reader may leave early.

mod descriptor;
mod destination;

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::args::{Json, Target};

pub(crate) use destination::Destination;

/// The name of standard output.
pub(crate) const STDOUT: &str = "/dev/stdout";

/// Where a command's document goes. It is opened before the measurement begins.
#[derive(Debug)]
pub(crate) enum Outputs {
    /// As text to standard output, and as JSON to a file if the user names one.
    Text(Option<Destination>),
    /// As JSON to standard output.
    Json,
}

impl Outputs {
    pub(crate) fn open(json: &Json) -> io::Result<Self> {
        Ok(match &json.target {
            Some(Target::Stdout) => Self::Json,
            Some(Target::File(path)) => Self::Text(Some(Destination::open(path)?)),
            None => Self::Text(None),
        })
    }

    /// Whether the JSON goes to standard output instead of the text.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self, Self::Json)
    }

    /// Whether the JSON goes to standard output, under whatever name.
    pub(crate) fn take_stdout(&self) -> bool {
        self.is_json() || self.goes_to(Path::new(STDOUT))
    }

    /// Whether the JSON goes to the file of this name.
    pub(crate) fn goes_to(&self, path: &Path) -> bool {
        matches!(self, Self::Text(Some(json)) if json.is_at(path))
    }

    /// Writes the document to all outputs; `write_text` writes it as text.
    pub(crate) fn emit(
        self,
        document: &impl Serialize,
        write_text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::Json => to_stdout(|out| write_json(document, out)),
            Self::Text(file) => {
                if let Some(file) = file {
                    file.save(|out| write_json(document, out))?;
                }
                to_stdout(write_text)
            }
        }
    }
}

/// Writes to standard output. A reader that leaves early is no error.
pub(crate) fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes the document and a line break.
fn write_json(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

/// The error with its path and the system's text. The text of `tempfile` would name the temporary
/// file.
fn naming(path: &Path, error: &io::Error) -> io::Error {
    let plain = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
    io::Error::new(error.kind(), format!("{}: {plain}", path.display()))
}
