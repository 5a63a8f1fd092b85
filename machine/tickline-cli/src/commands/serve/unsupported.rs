//! `tickline serve` on systems other than Linux, which have no pages.

use std::io;

use crate::args::Serve;
use crate::exit::Exit;

pub(crate) fn run(args: &Serve) -> io::Result<Exit> {
    args.named_page()?;
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "pages are for Linux only",
    ))
}
