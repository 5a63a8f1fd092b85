//! A machine whose facts were recorded, by `--json` there or by hand.

use std::io;
use std::path::Path;

use serde_json::Value;

use super::{check, text};
use crate::args::Doctor;
use crate::diagnose::{Facts, Health, diagnose};
use crate::document::upgrade;
use crate::exit::Exit;
use crate::input;
use crate::output::Outputs;
use crate::wrap::Look;

/// Diagnoses the machine of the file. The JSON output is that of the file, in the present schema,
/// with these findings.
pub(super) fn run(file: &Path, args: &Doctor) -> io::Result<Exit> {
    let (mut document, facts) =
        read(file).map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
    let outputs = Outputs::open(&args.json)?;
    let findings = diagnose(&facts);
    let health = Health::of(&facts, &findings);
    document["health"] = serde_json::to_value(&health)?;
    document["findings"] = serde_json::to_value(&findings)?;
    if args.check {
        let (line, exit) = check::line(&health, &findings, &facts);
        outputs.emit(&document, |out| writeln!(out, "{line}"))?;
        return Ok(exit);
    }
    outputs
        .emit(&document, |out| text::write_recorded(&facts, &health, &findings, Look::of_stdout(), out))?;
    Ok(if health.is_bad() { Exit::Closed } else { Exit::Fast })
}

fn read(file: &Path) -> io::Result<(Value, Facts)> {
    let mut document: Value = serde_json::from_str(&input::read(file)?)?;
    if !document["machine"].is_object() {
        return Err(io::Error::other("it has no object 'machine', which --json writes"));
    }
    upgrade(&mut document).map_err(io::Error::other)?;
    let facts = serde_json::from_value(document.clone())?;
    Ok((document, facts))
}
