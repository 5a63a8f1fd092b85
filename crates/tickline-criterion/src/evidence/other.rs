//! Systems other than Linux: nothing is known.

use std::ffi::c_long;

use super::CpuFacts;

pub(crate) fn preemptions() -> Option<c_long> {
    None
}

pub(crate) fn cpu() -> Option<usize> {
    None
}

pub(crate) fn bind(_cpu: usize) -> bool {
    false
}

pub(crate) fn cpu_facts(_cpu: Option<usize>) -> CpuFacts {
    CpuFacts::default()
}
