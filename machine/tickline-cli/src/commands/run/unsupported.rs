//! `tickline run` on systems other than Linux on x86_64, where it cannot serve a program.

use std::io;

use crate::args;
use crate::exit::Exit;

pub(crate) fn run(_: &args::Run) -> io::Result<Exit> {
    let message = "run serves programs on Linux on x86_64; this is another system";
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}
