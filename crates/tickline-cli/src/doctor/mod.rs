//! `tickline doctor`: explains this machine's clocks.

mod text;

use std::io;

use crate::args::Doctor;
use crate::document::Document;
use crate::exit::Exit;
use crate::measure::{costs, track};
use crate::output::Outputs;
use crate::progress::Progress;

/// The tracking goes first: it gives the clock's thread the time to settle, and the costs are then those of a clock in its
/// steady state.
pub(crate) fn run(args: &Doctor) -> io::Result<Exit> {
    let outputs = Outputs::open(&args.json)?;
    let progress = Progress::new();
    let guard = tickline::start().map_err(io::Error::other)?;
    let track = track::track(args.time, progress.part("offset and bound", 0.0, 0.6));
    let costs = costs::measure(progress.part("costs", 0.6, 1.0));
    let document = Document::new("doctor").measured(&costs, track);
    drop(guard);
    progress.finish();
    outputs.emit(&document, |out| text::write(&document, out))?;
    Ok(Exit::of(&document))
}
