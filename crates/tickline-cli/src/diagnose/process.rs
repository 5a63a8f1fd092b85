//! Findings about the process that runs the program: what stands between it and its clocks. They
//! say nothing about the machine's other processes.

use super::finding::{Finding, Severity};
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
    let (severity, what) = match faked {
        true => {
            (Severity::Wrong, format!("{name} stands in front of libc, and gives this process another time"))
        }
        false => (Severity::Note, format!("{name} stands in front of libc's clock_gettime in this process")),
    };
    let seen = faked.then(|| {
        format!(
            "Unix time by clock_gettime minus that by the system call: {} s",
            difference_ns / 1_000_000_000
        )
    });
    Some(
        Finding::new("clock_interposed", severity, what)
            .seen(format!("the dynamic linker has clock_gettime from {file}"))
            .seen_if(seen)
            .fix("start the program without that library: see LD_PRELOAD and /etc/ld.so.preload"),
    )
}

/// A debugger or recorder stops the process at system calls or signals.
pub(super) fn traced(facts: &Document) -> Option<Finding> {
    let pid = facts.machine.tracer_pid.filter(|pid| *pid != 0)?;
    let what = "another process traces this one, so its system calls may take many times as long as usual";
    Some(
        Finding::new("traced", Severity::Note, what)
            .seen(format!("/proc/self/status: TracerPid is {pid}"))
            .fix(format!("measure without strace, gdb or other tracers: ps -p {pid} names this one")),
    )
}

/// tickline's clock could not start its thread.
pub(super) fn no_thread(facts: &Document) -> Option<Finding> {
    let error = facts.clock.thread_error.as_ref()?;
    let what = "tickline's clock has no thread, so the readers renew its lines, and the CPUs' counters are not compared";
    Some(Finding::new("no_thread", Severity::Note, what).seen(format!("starting it failed: {error}")).fix(
        "allow the user more processes (ulimit -u, prlimit --nproc), or the container more tasks (pids.max)",
    ))
}
