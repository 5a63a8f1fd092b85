//! Systems other than Linux: nothing is known.

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

pub(crate) fn stolen(_cpu: Option<usize>) -> Option<u64> {
    None
}

pub(crate) fn frequency_khz(_cpu: usize) -> Option<u64> {
    None
}
