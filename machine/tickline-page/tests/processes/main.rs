//! Tests that need other processes. They are apart from `tests/file.rs`, which locks many pages: a
//! forked child holds its parent's locks until its exec.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a role prints what it has found; a test may panic"
)]

mod c_header;
mod cases;
#[cfg(all(
    feature = "clock",
    target_os = "linux",
    target_arch = "x86_64",
    target_env = "gnu"
))]
mod denied;
#[cfg(all(feature = "file", target_os = "linux"))]
mod locked;
#[cfg(all(feature = "file", target_os = "linux"))]
mod namespaces;
#[cfg(all(feature = "file", target_os = "linux"))]
mod truncated;
#[cfg(all(feature = "file", target_os = "linux"))]
mod writer;
