//! `tickline doctor`: explains the clocks of this machine, or of a machine whose facts were
//! recorded.

mod recorded;
mod text;
mod wrap;

use std::io;

use crate::args::Doctor;
use crate::exit::Exit;
use crate::output::Outputs;
use crate::progress::Progress;
use crate::setup::Setup;

pub(crate) fn run(args: &Doctor) -> io::Result<Exit> {
    if let Some(file) = &args.facts {
        return recorded::run(file, &args.json);
    }
    let setup = Setup::start()?;
    let outputs = Outputs::open(&args.json)?;
    let progress = Progress::new();
    let mut document = setup.measure("doctor", args.time, &progress, 1.0);
    document.diagnose()?;
    progress.finish();
    outputs.emit(&document, |out| text::write(&document, out))?;
    Ok(document.exit())
}
