//! Tests of clocks and times, for any machine. Tests that change a whole process are in
//! `tests/process/`.

#[path = "../common/mod.rs"]
mod common;

mod backend;
mod clock;
#[cfg(not(target_family = "wasm"))]
mod conversions;
#[cfg(feature = "mock")]
mod mock;
#[cfg(not(target_family = "wasm"))]
mod parse;
#[cfg(target_os = "linux")]
mod per_cpu;
mod readings;
#[cfg(not(target_family = "wasm"))]
mod wait;
