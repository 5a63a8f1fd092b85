//! Systems other than Linux, which say nothing about a thread's waits.

use std::ffi::c_long;

use crate::measurement::lost_time::NotSubtracted;

/// The reason why the times are missing.
pub(super) const MISSING: NotSubtracted = NotSubtracted::System;

pub(super) const SCHEDSTAT: &str = "";

#[derive(Debug)]
pub(super) enum ThreadFile {}

impl ThreadFile {
    pub(super) fn open(_path: &str) -> Option<Self> {
        None
    }

    pub(super) fn run_delay_ns(&self) -> Option<u64> {
        match *self {}
    }
}

pub(super) fn cpu_ns() -> Option<u64> {
    None
}

pub(super) fn process_cpu_ns() -> Option<u64> {
    None
}

pub(super) fn blocked() -> Option<c_long> {
    None
}

pub(crate) fn preemptions() -> Option<c_long> {
    None
}
