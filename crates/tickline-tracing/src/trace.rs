//! Records of spans and events, for trace files and flight recorders.
//!
//! Each thread writes its records ([`record`]) to a [`ring`] of its own, without a lock. [`local`]
//! has the rest of a thread's state. A [`Recorder`](recorder::Recorder) knows the rings of all
//! threads. [`crate::chrome`] takes records out while the program runs. [`crate::flight`] copies
//! them on request, or reads what another process has left in a [`file`]. [`json`] makes the text.

pub(crate) mod fields;
pub(crate) mod file;
pub(crate) mod json;
pub(crate) mod local;
pub(crate) mod memory;
pub(crate) mod record;
pub(crate) mod recorder;
pub(crate) mod ring;

use core::sync::atomic::{AtomicU32, Ordering};
use std::path::{Path, PathBuf};
use std::{fs, process};

/// Calls `call` when a thread panics, after the present panic hook has run.
pub(crate) fn after_panics(call: impl Fn() + Send + Sync + 'static) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        call();
    }));
}

/// `path` with something behind its name.
pub(crate) fn with(path: &Path, behind: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(behind);
    name.into()
}

/// A name beside `path`, for a file that is to come there once it is complete. Nobody else has it:
/// two threads that panic write at once.
pub(crate) fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // ORDERING: Relaxed, only the number counts.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let beside = with(path, &format!(".{}.{number}.part", process::id()));
    // A file of this name was left by a process of the same number.
    let _ = fs::remove_file(&beside);
    beside
}
