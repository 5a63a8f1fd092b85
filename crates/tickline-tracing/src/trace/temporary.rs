//! Temporary files, errors that name their file, and numbers that are unique in this process.

use core::sync::atomic::{AtomicU64, Ordering};
use std::path::{Path, PathBuf};
use std::{fs, io, process};

/// A number that is unique in this process: for a block of spans' numbers, a file, or a thread.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // ORDERING: Relaxed: the number orders no memory.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// `path` with a suffix.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// An error about the file `path`: its text begins with the path.
pub(crate) fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Calls `make` with the path of a temporary file beside `path`. Once the file is complete, `make`
/// moves or links it to `path`. Each call has a path of its own, because two threads may panic at
/// once. Finally the temporary file is removed.
pub(crate) fn with_temporary<T>(
    path: &Path,
    make: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let temporary = with_suffix(path, &format!(".{}.{}.part", process::id(), next_number()));
    // An earlier process with the same number may have left a file of this name.
    _ = fs::remove_file(&temporary);
    let result = make(&temporary);
    _ = fs::remove_file(&temporary);
    result
}
