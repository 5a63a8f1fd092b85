//! `tickline doctor`: explains the clocks of this machine, or of a machine whose facts were
//! recorded.

mod check;
mod switch_clocksource;
mod text;

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::args::Doctor;
use crate::document::Document;
use crate::exit::Exit;
use crate::input;
use crate::openmetrics;
use crate::output::{Outputs, Place};
use crate::progress::Progress;
use crate::setup::Setup;
use crate::wrap::Layout;

use switch_clocksource::Consent;

pub(crate) use check::unknown;

pub(crate) fn run(args: &Doctor) -> io::Result<Exit> {
    match diagnose(args) {
        Err(error) if args.check => Ok(unknown(&error)),
        result => result,
    }
}

fn diagnose(args: &Doctor) -> io::Result<Exit> {
    if let Some(file) = &args.facts {
        return diagnose_recorded(file, args);
    }
    let setup = Setup::start();
    let places = open(args)?;
    let progress = Progress::new();
    let mut document = setup.measure("doctor", args.time, &progress, 1.0);
    document.max_error_ns = args.max_error_ns;
    document.diagnose();
    progress.finish();
    if let Some(exit) = write(places, args, &document, &document, text::write)? {
        return Ok(exit);
    }
    if args.fix {
        let consent = if args.yes { Consent::Given } else { Consent::Asked };
        return switch_clocksource::fix(document.findings(), &document.machine, consent);
    }
    Ok(document.exit())
}

/// Diagnoses the machine of the file. The JSON output is that of the file, with these findings.
fn diagnose_recorded(file: &Path, args: &Doctor) -> io::Result<Exit> {
    let (mut json, mut document) = input::document(file)?;
    let places = open(args)?;
    document.max_error_ns = args.max_error_ns;
    document.diagnose();
    json["max_error_ns"] = document.max_error_ns.into();
    json["health"] = serde_json::to_value(&document.health)?;
    json["findings"] = serde_json::to_value(document.findings())?;
    let exit = if document.is_bad() { Exit::Negative } else { Exit::Success };
    Ok(write(places, args, &document, &json, text::write_recorded)?.unwrap_or(exit))
}

/// Where the document goes, and where its figures for a collector go.
type Places = (Outputs, Option<Place>);

fn open(args: &Doctor) -> io::Result<Places> {
    let outputs = Outputs::open(&args.json)?;
    let metrics = args.openmetrics.as_ref();
    let metrics = metrics.map(|target| outputs.open_beside("--openmetrics", target)).transpose()?;
    Ok((outputs, metrics))
}

/// Writes everything; `write_text` writes the text. Returns the exit code of `--check`, if that is
/// asked for.
fn write(
    (outputs, metrics): Places,
    args: &Doctor,
    document: &Document,
    json: &impl Serialize,
    write_text: fn(&Document, Layout, &mut dyn Write) -> io::Result<()>,
) -> io::Result<Option<Exit>> {
    let check = args.check.then(|| check::line(document));
    let takes_stdout = matches!(metrics, Some(Place::Stdout));
    if let Some(Place::File(file)) = metrics {
        file.save(|out| openmetrics::write(document, out))?;
    }
    outputs.emit(json, |out| match &check {
        _ if takes_stdout => openmetrics::write(document, out),
        Some((line, _)) => writeln!(out, "{line}"),
        None => write_text(document, Layout::of_stdout(), out),
    })?;
    Ok(check.map(|(_, exit)| exit))
}
