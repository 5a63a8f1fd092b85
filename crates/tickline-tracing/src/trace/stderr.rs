//! Lines on standard error, for errors that no call can return.

use core::fmt;
use std::io::{self, Write};

/// Writes a line to standard error, by one call of the system. Does nothing if standard error is
/// closed.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    _ = write(format!("tickline: {text}\n").as_bytes());
}

/// Writes without std's lock, which a thread of the parent may have held when this process was
/// forked.
#[cfg(unix)]
fn write(line: &[u8]) -> io::Result<()> {
    use std::os::fd::AsFd;

    let descriptor = io::stderr().as_fd().try_clone_to_owned()?;
    std::fs::File::from(descriptor).write_all(line)
}

#[cfg(not(unix))]
fn write(line: &[u8]) -> io::Result<()> {
    io::stderr().write_all(line)
}
