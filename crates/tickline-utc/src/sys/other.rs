//! Systems other than Linux, and Miri: there is nobody to ask.

use core::ptr::NonNull;
use std::path::Path;

use crate::sys::KernelClock;

/// Unknown.
pub(crate) fn kernel_clock() -> Option<KernelClock> {
    None
}

/// Maps nothing: no such device is known on these systems.
pub(crate) fn map_beginning(_: &Path, _: impl FnOnce(NonNull<u8>) -> bool) {}

/// Reads nothing: no daemon writes such a file on these systems.
pub(crate) fn read_beginning(_: &Path, _: &mut [u8]) -> Option<()> {
    None
}
