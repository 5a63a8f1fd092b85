//! `tickline run` on systems other than Linux on x86_64, where it cannot serve a program.

use crate::args;
use crate::exit::Exit;
use crate::output::line_to_stderr;

pub(crate) fn run(_: &args::Run) -> ! {
    line_to_stderr("tickline: run serves programs on Linux on x86_64; this is another system");
    std::process::exit(Exit::Error.code().into())
}
