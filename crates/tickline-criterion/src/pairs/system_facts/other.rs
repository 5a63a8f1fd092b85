//! Systems other than Linux, which provide none of these facts.

use std::ffi::c_long;

pub(crate) fn preemptions() -> Option<c_long> {
    None
}

pub(crate) fn cpu() -> Option<usize> {
    None
}

pub(crate) fn bind(_cpu: usize) -> bool {
    false
}
