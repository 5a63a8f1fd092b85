//! `tickline flight FILE`: makes a trace of what a process has left in its flight recorder's file.

use std::fs::File;
use std::io::{self, Write};

use tickline_tracing::flight;

use crate::args::Flight;
use crate::exit::Exit;
use crate::output::{Place, to_stdout};
use crate::terminal::plain_path;

pub(crate) fn run(args: &Flight) -> io::Result<Exit> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", args.file.display()));
    let file = File::open(&args.file).map_err(named)?;
    let mut trace = Vec::new();
    let found = flight::convert(file, &mut trace).map_err(named)?;
    let text = format!(
        "{} spans, of which {} did not end, {} events; left out: {} spans that may have ended, {} older \
         records that were overwritten, {} that are damaged",
        found.written, found.open, found.events, found.undecided, found.dropped, found.damaged
    );
    match Place::open(&args.out)? {
        Place::Stdout => {
            to_stdout(|out| out.write_all(&trace))?;
            // A failure here cannot be reported.
            writeln!(io::stderr(), "{text}").ok();
        }
        Place::File(file) => {
            let name = plain_path(file.path());
            file.save(|out| out.write_all(&trace))?;
            to_stdout(|out| writeln!(out, "{name}: {text}"))?;
        }
    }
    Ok(if found.damaged == 0 { Exit::Success } else { Exit::Negative })
}
