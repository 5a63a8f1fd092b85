//! The program as users run it.
//!
//! Apart from these stand tests that execute themselves again: `hand_over` and `run_served`.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails where it cannot go on, and says what it skips"
)]

mod arguments;
mod collector;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod harmless;
mod measured;
mod recorded;
mod run;
mod serve;
mod terminal;
mod watch;
