//! Tests that run the program as users do.
//!
//! The test programs `exchange` and `run_served` are separate, because they execute themselves.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod arguments;
mod build_script;
mod collector;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod fixes;
mod fleet;
mod harmless;
mod measured;
mod monitoring;
mod recorded;
mod run;
mod serve;
mod standstill;
mod tables;
mod terminal;
#[cfg(target_os = "linux")]
mod units;
mod watch;
