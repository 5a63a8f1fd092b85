//! Systems other than Linux, and Miri: there is nobody to ask.

use core::ptr::NonNull;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::sys::KernelClock;

/// Unknown.
pub(crate) fn kernel_clock() -> Option<KernelClock> {
    None
}

/// Unknown.
pub(crate) fn user() -> Option<u32> {
    None
}

/// Unknown.
pub(crate) fn owner(_: &Path) -> io::Result<(u32, u32)> {
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

/// Maps nothing: no such device is known on these systems.
pub(crate) fn map_beginning(_: &Path, _: impl FnOnce(NonNull<u8>) -> bool) {}

/// Reads nothing: no daemon writes such a file on these systems.
pub(crate) fn read_beginning(_: &Path, _: &mut [u8]) -> Option<()> {
    None
}
