//! The descriptors that the process was started with, as places to write to. Only the descriptor
//! knows its position and its append mode. To open its name (`/dev/stdout`) or its file again gives
//! another descriptor, at the file's beginning.

#![cfg(unix)]
#![allow(unsafe_code, reason = "a descriptor is known by its number alone")]

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fstat};

/// The most links that the kernel follows for one name (`MAXSYMLINKS`, `include/linux/namei.h`).
const MOST_LINKS: u32 = 40;

/// A copy of the descriptor that `path` names: `/dev/stdout`, `/dev/fd/3`, `/proc/self/fd/3`, or a
/// link to one. `None` if it names none.
///
/// # Errors
///
/// If the descriptor cannot be written to.
pub(super) fn named_by(path: &Path) -> io::Result<Option<File>> {
    number(path).map(copy).transpose()
}

/// A copy of standard output or standard error, whichever is this file and can be written to. If
/// the file were replaced, the program's own output would go to the old file, which has no name any
/// more.
pub(super) fn of_the_same_file(found: &Metadata) -> Option<File> {
    [1, 2]
        .into_iter()
        .filter_map(|number| copy(number).ok())
        .find(|file| file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino())))
}

fn number(path: &Path) -> Option<RawFd> {
    let folders: Vec<PathBuf> = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"]
        .into_iter()
        .filter_map(|name| fs::canonicalize(name).ok())
        .collect();
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let folder = path.parent().map(super::destination::named_folder)?;
        if fs::canonicalize(folder).is_ok_and(|folder| folders.contains(&folder)) {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = folder.join(fs::read_link(&path).ok()?);
    }
    None
}

/// A copy of a descriptor, with its position and its modes.
fn copy(number: RawFd) -> io::Result<File> {
    if number < 0 {
        return Err(rustix::io::Errno::BADF.into());
    }
    // SAFETY: the descriptor must stay open while it is borrowed. Nothing here closes the
    // descriptors that the process was started with. For a number that is not open, `fstat` fails,
    // and the function returns.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    fstat(given)?;
    if fcntl_getfl(given)? & OFlags::ACCMODE == OFlags::RDONLY {
        return Err(rustix::io::Errno::BADF.into());
    }
    Ok(given.try_clone_to_owned()?.into())
}
