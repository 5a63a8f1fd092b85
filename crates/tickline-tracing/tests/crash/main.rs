//! Traces of programs that abort, segfault, exit, panic, are killed, leak their guard or fork. Each
//! program has a trace file, a recorder in memory that writes when the program panics, and a
//! recorder in a file.
//!
//! This program contains the tests and the programs that end (`victim.rs`). It runs itself once for
//! each end, because a harness runs tests on threads beside `main`, and these programs must end in
//! their `main`.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

/// A list of functions of one type, each with its name.
#[cfg(unix)]
macro_rules! named {
    ($type:ty: $($(#[$attribute:meta])* $function:ident),+ $(,)?) => {
        [$($(#[$attribute])* (stringify!($function), $function as $type)),+]
    };
}

#[cfg(unix)]
mod files;
#[cfg(unix)]
mod killed;
#[cfg(unix)]
mod last_moment;
#[cfg(unix)]
mod messages;
#[cfg(unix)]
#[path = "../perfetto/mod.rs"]
mod perfetto_view;
#[cfg(unix)]
mod trials;
#[cfg(unix)]
mod victim;

#[cfg(unix)]
fn main() {
    if let Some((way, folder)) = victim::end_of_this_program() {
        return victim::end(way, &folder);
    }
    let mut arguments = libtest_mimic::Arguments::from_args();
    // One after the other: a program that panics waits for its writer for only 2 s, and programs
    // that work until they are killed keep the CPUs busy.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let trials = [last_moment::trials(), killed::trials(), messages::trials()];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_if_failed();
}

/// The programs end by signals, or need the file of a recorder, which other systems lack.
#[cfg(not(unix))]
fn main() {}
