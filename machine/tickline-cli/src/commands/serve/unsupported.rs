//! `tickline serve` on systems other than Linux, which have no pages.

use std::io;

use crate::args::{Serve, ServeAction, ServeStatus};
use crate::exit::Exit;

pub(crate) fn run(Serve { action, page }: &Serve) -> io::Result<Exit> {
    let _ = page;
    if let Some(ServeAction::Status(ServeStatus { json, openmetrics })) = action {
        let _ = (json, openmetrics);
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "pages are for Linux only",
    ))
}
