//! `tickline doctor`: explains the clocks of this machine, or of a machine whose facts were
//! recorded.

mod check;
mod mend;
mod recorded;
mod text;

use std::io;

use crate::args::Doctor;
use crate::diagnose::{Facts, Health};
use crate::exit::Exit;
use crate::openmetrics::Metrics;
use crate::output::Outputs;
use crate::progress::Progress;
use crate::setup::Setup;
use crate::wrap::Look;

use mend::Consent;

pub(crate) use check::unknown;

pub(crate) fn run(args: &Doctor) -> io::Result<Exit> {
    match diagnose(args) {
        Err(error) if args.check => Ok(unknown(&error)),
        result => result,
    }
}

fn diagnose(args: &Doctor) -> io::Result<Exit> {
    if let Some(file) = &args.facts {
        return recorded::run(file, args);
    }
    let setup = Setup::start();
    let outputs = Outputs::open(&args.json)?;
    let metrics = Metrics::open(args.openmetrics.as_ref(), &outputs)?;
    let progress = Progress::new();
    let mut document = setup.measure("doctor", args.time, &progress, 1.0);
    document.diagnose()?;
    progress.finish();
    if args.check {
        let facts = Facts::of(&document)?;
        let health = Health::of(&facts, document.findings());
        let (line, exit) = check::line(&health, document.findings(), &facts);
        metrics.emit(&document, outputs, |out| writeln!(out, "{line}"))?;
        return Ok(exit);
    }
    metrics.emit(&document, outputs, |out| text::write(&document, Look::of_stdout(), out))?;
    if args.fix {
        let consent = if args.yes { Consent::Given } else { Consent::Asked };
        return mend::mend(document.findings(), &document.machine, consent);
    }
    Ok(document.exit())
}
