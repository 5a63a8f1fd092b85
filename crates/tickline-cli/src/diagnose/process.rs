//! Findings about the process that runs the program: what stands between it and its clocks. They
//! say nothing about the machine's other processes.

use super::finding::Finding;
use crate::document::Document;

/// The libraries that contain `clock_gettime`, by the beginnings of their file names: glibc (up to
/// 2.16 in librt), musl, and Android's.
const LIBRARIES: [&str; 6] = ["libc.so", "libc-", "libc.musl", "ld-musl", "librt.so", "librt-"];

/// The least difference that shows a faked time, ns. An interruption between the two calls is
/// shorter.
const FAKED_NS: u64 = 1_000_000_000;

/// A library stands in front of libc, such as libfaketime.
pub(super) fn clock_interposed(facts: &Document) -> Option<Finding> {
    let file = facts.machine.clock_gettime_file.as_deref()?;
    let name = file.rsplit('/').next().unwrap_or(file);
    if LIBRARIES.iter().any(|library| name.starts_with(library)) {
        return None;
    }
    let difference_ns = facts.machine.clock_gettime_difference_ns.unwrap_or(0);
    let faked = difference_ns.unsigned_abs() > FAKED_NS;
    let key = if faked { "clock_interposed/faked" } else { "clock_interposed" };
    let difference_s = difference_ns / 1_000_000_000;
    Some(Finding::new(key, &[("name", &name), ("file", &file), ("difference_s", &difference_s)]))
}

/// A debugger or recorder stops the process at system calls or signals.
pub(super) fn traced(facts: &Document) -> Option<Finding> {
    let pid = facts.machine.tracer_pid.filter(|pid| *pid != 0)?;
    Some(Finding::new("traced", &[("pid", &pid)]))
}

/// tickline's clock could not start its thread.
pub(super) fn no_thread(facts: &Document) -> Option<Finding> {
    Some(Finding::new("no_thread", &[("error", facts.clock.thread_error.as_ref()?)]))
}
