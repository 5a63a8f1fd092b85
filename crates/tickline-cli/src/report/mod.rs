//! `tickline report`
use crate::args::Report;
use crate::exit::Exit;
use std::io;
pub(crate) fn run(_args: &Report) -> io::Result<Exit> {
    Err(io::Error::other("later"))
}
