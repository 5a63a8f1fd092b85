//! `tickline serve` on systems other than Linux, which have no pages.

use std::io;

use crate::args;
use crate::exit::Exit;

pub(crate) fn run(args: &args::Serve) -> io::Result<Exit> {
    let _ = (args.action, &args.page, &args.json, &args.openmetrics);
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "pages are for Linux only",
    ))
}
