//! `tickline flight FILE`: converts the file of a process's flight recorder into a trace.

use std::fs::File;
use std::io;

use tickline_tracing::flight;
use tickline_tracing::trace_file::TraceFormat;

use crate::args::Flight;
use crate::exit::Exit;
use crate::output::{Destination, line_to_stderr, out_or_stdout, to_stdout};
use crate::words::with_path;

pub(crate) fn run(args: &Flight) -> io::Result<Exit> {
    let out = out_or_stdout(args.out.as_deref(), "trace", "trace.json")?;
    let destination = Destination::find(out)?;
    if destination.is_at(&args.file) {
        let error =
            io::Error::other("the trace would replace the recorder's file: choose another --out");
        return Err(with_path(out, &error));
    }
    let file = File::open(&args.file).map_err(|error| with_path(&args.file, &error))?;
    let mut trace = Vec::new();
    let format = TraceFormat::from_path(out);
    let found =
        flight::convert(file, &mut trace, format).map_err(|error| with_path(&args.file, &error))?;
    let end = match found.unix_end {
        Some(end) => format!(
            "; the last record is of {end} (wrong if the clock was set or the machine slept since \
             the file was made)"
        ),
        None => String::new(),
    };
    let text = format!("{found}{end}; open it at https://ui.perfetto.dev");
    destination.save(&trace)?;
    if destination.is_stdout() {
        line_to_stderr(&text);
    } else {
        to_stdout(format!("{}: {text}\n", destination.name()))?;
    }
    Ok(if found.damaged_records == 0 && found.missing_rings == 0 {
        Exit::Success
    } else {
        Exit::Negative
    })
}
