//! A machine whose facts were recorded, by `--json` there or by hand.

use std::io;
use std::path::Path;

use super::{check, text};
use crate::args::Doctor;
use crate::exit::Exit;
use crate::input;
use crate::output::Outputs;
use crate::wrap::Look;

/// Diagnoses the machine of the file. The JSON output is that of the file, with these findings.
pub(super) fn run(file: &Path, args: &Doctor) -> io::Result<Exit> {
    let (mut json, mut document) = input::document(file)?;
    let outputs = Outputs::open(&args.json)?;
    document.diagnose();
    json["health"] = serde_json::to_value(&document.health)?;
    json["findings"] = serde_json::to_value(document.findings())?;
    if args.check {
        let (line, exit) = check::line(&document);
        outputs.emit(&json, |out| writeln!(out, "{line}"))?;
        return Ok(exit);
    }
    outputs.emit(&json, |out| text::write_recorded(&document, Look::of_stdout(), out))?;
    Ok(if document.is_bad() { Exit::Closed } else { Exit::Fast })
}
