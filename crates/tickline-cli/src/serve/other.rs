//! `tickline serve`, where there are no pages.

use std::io;

use crate::args;
use crate::exit::Exit;

pub(crate) fn run(args: &args::Serve) -> io::Result<Exit> {
    let what = match args.action {
        None => "serve",
        Some(args::ServeAction::Status) => "status",
        Some(args::ServeAction::Off) => "off",
        Some(args::ServeAction::On) => "on",
    };
    let _ = (&args.page, &args.json);
    Err(io::Error::new(io::ErrorKind::Unsupported, format!("{what}: pages are for Linux only")))
}

pub(crate) fn page_readers() -> Option<usize> {
    None
}
