//! Systems other than Linux: nothing is known.

use std::ffi::c_long;

use super::CpuFacts;

pub(super) fn preemptions() -> Option<c_long> {
    None
}

pub(super) fn cpu() -> Option<usize> {
    None
}

pub(super) fn bind(_cpu: usize) -> bool {
    false
}

pub(super) fn cpu_facts(_cpu: Option<usize>) -> CpuFacts {
    CpuFacts::default()
}
