//! What needs other processes. Apart from `tests/file.rs`, which locks pages again and again: a
//! child of a fork has its parent's locks until its exec.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "what was skipped; a test that cannot go on")]

mod c_header;
mod cases;
#[cfg(all(feature = "file", target_os = "linux"))]
mod namespaces;
#[cfg(all(feature = "file", target_os = "linux"))]
mod writer;
