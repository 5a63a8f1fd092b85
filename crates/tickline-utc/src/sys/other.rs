//! Systems other than Linux, and Miri: there is nobody to ask.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::sys::{FileOwner, KernelClock};

/// Unknown.
pub(crate) fn kernel_clock() -> Option<KernelClock> {
    None
}

/// Unknown.
pub(crate) fn adjtime_left_us() -> Option<i64> {
    None
}

/// Unknown.
pub(crate) fn user() -> Option<u32> {
    None
}

/// Unknown.
pub(crate) fn owner(_: &Path) -> io::Result<FileOwner> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nobody is asked.
pub(crate) fn ask_by_socket(
    _: &Path,
    _: &str,
    _: &[u8],
    _: Duration,
    _: &mut [u8],
) -> io::Result<Option<usize>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Reads nothing: no daemon writes such a file on these systems.
pub(crate) fn read_beginning(_: &Path, _: &mut [u8]) -> Option<()> {
    None
}

/// No device has a clock here.
pub(crate) enum ClockDevice {}

impl ClockDevice {
    pub(crate) fn open(_: &Path) -> Option<Self> {
        None
    }

    pub(crate) fn now_ns(&self) -> Option<i64> {
        match *self {}
    }
}

/// No daemon has a socket here.
pub(crate) enum ManagementSocket {}

impl ManagementSocket {
    pub(crate) fn connect(_: &Path, _: Deadline) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn send(&self, _: &[u8]) -> Option<()> {
        match *self {}
    }

    pub(crate) fn receive(&self) -> Option<Vec<u8>> {
        match *self {}
    }
}
