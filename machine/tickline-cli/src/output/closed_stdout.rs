//! Finds out whether standard output was closed when this process began.
//!
//! Rust's library opens `/dev/null` in the place of standard descriptors that are closed. Each
//! write then succeeds, and nothing tells such a descriptor from one that the parent has opened so.

#![allow(
    unsafe_code,
    reason = "a function that the C library calls before main"
)]

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output was closed before Rust's library began.
static WAS_STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// The C library calls the functions of this section before `main`, and so before Rust's library
/// begins.
#[used]
// SAFETY: the section has pointers to functions that the C library calls by C's convention, with
// arguments that a function may ignore. This one uses nothing of Rust's library but an atomic.
#[unsafe(link_section = ".init_array")]
static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;

extern "C" fn look_at_stdout() {
    // SAFETY: the call takes no pointer.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    // ORDERING: Relaxed, pairs with the load in `was_stdout_closed`, which this process's first
    // thread, or a later one, executes: this one is before the start of each.
    WAS_STDOUT_CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// Whether standard output was closed when this process began.
pub(crate) fn was_stdout_closed() -> bool {
    // ORDERING: Relaxed, pairs with the store in `look_at_stdout`, which comes before `main`.
    WAS_STDOUT_CLOSED.load(Ordering::Relaxed)
}
