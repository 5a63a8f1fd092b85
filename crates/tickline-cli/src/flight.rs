//! `tickline flight FILE`: converts the file of a process's flight recorder into a trace.

use std::fs::File;
use std::io::{self, Write};

use tickline_tracing::flight;

use crate::args::Flight;
use crate::exit::Exit;
use crate::output::{Destination, to_stdout, with_path};

pub(crate) fn run(args: &Flight) -> io::Result<Exit> {
    let file = File::open(&args.file).map_err(|error| with_path(&args.file, &error))?;
    let mut trace = Vec::new();
    let found = flight::convert(file, &mut trace).map_err(|error| with_path(&args.file, &error))?;
    let text = format!(
        "{} spans, of which {} did not end, {} events; left out: {} spans that may have ended, {} older \
         records that were overwritten, {} that are damaged",
        found.intervals, found.unended, found.events, found.undecided, found.dropped, found.damaged
    );
    let destination = Destination::open(&args.out)?;
    destination.save(&trace)?;
    if destination.is_stdout() {
        // If standard error cannot be written, the program has no way to report that.
        writeln!(io::stderr(), "{text}").ok();
    } else {
        to_stdout(format!("{}: {text}\n", destination.name()))?;
    }
    Ok(if found.damaged == 0 { Exit::Success } else { Exit::Negative })
}
