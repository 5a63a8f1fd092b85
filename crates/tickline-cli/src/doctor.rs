//! `tickline doctor`: explains the clocks of this machine, or of a machine whose facts were
//! recorded.

mod check;
mod switch_clocksource;
mod text;

use std::io;
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
    if let Some(exit) = write(places, args, &document, &document, text::text)? {
        return Ok(exit);
    }
    if args.fix {
        return switch_clocksource::fix(&document, args);
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
    Ok(write(places, args, &document, &json, text::recorded)?.unwrap_or(exit))
}

/// Where the document goes, and where its figures for a collector go.
type Places = (Outputs, Option<Place>);

fn open(args: &Doctor) -> io::Result<Places> {
    let outputs = Outputs::open(&args.json)?;
    let metrics = args.openmetrics.as_ref();
    let metrics = metrics.map(|target| outputs.open_beside("--openmetrics", target)).transpose()?;
    Ok((outputs, metrics))
}

/// Writes everything. Returns the exit code of `--check`, if that is asked for.
fn write(
    (outputs, metrics): Places,
    args: &Doctor,
    document: &Document,
    json: &impl Serialize,
    text: fn(&Document) -> String,
) -> io::Result<Option<Exit>> {
    let (line, exit) = check::line(document);
    let mut said = if args.check { line + "\n" } else { text(document) };
    if let Some(place) = metrics {
        let figures = openmetrics::text(document);
        match place.is_stdout() {
            true => said = figures,
            false => place.save(figures.as_bytes())?,
        }
    }
    outputs.emit(json, &said)?;
    Ok(args.check.then_some(exit))
}
