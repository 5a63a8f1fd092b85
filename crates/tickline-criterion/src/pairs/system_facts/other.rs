//! Systems other than Linux, which provide none of these facts.

use std::fs::File;

pub(crate) fn cpu() -> Option<usize> {
    None
}

/// A thread that is bound to a CPU.
#[derive(Debug)]
pub(crate) struct Bound;

/// Binds nothing: the processes of a comparison may run on several CPUs.
pub(crate) fn bind_to_present_cpu() -> Result<Bound, String> {
    Ok(Bound)
}

pub(crate) fn take_standard_streams() -> Option<[File; 2]> {
    None
}
