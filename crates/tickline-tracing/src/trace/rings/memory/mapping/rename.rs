//! A rename that replaces no other file.

#[cfg(target_os = "linux")]
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
#[cfg(target_os = "linux")]
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::trace::sys::file_number::FileNumber;

/// Whether the open file still has this path.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(found)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    FileNumber::of(&open) == FileNumber::of(&found)
}

/// Renames a file, unless another one has the new name.
pub(super) fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    // A file system may be unable to do it, and so may a kernel. If the system refuses every
    // rename, the second attempt fails, too.
    #[cfg(target_os = "linux")]
    match rename_without_replacing(from, to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {}
        renamed => return renamed,
    }
    rename_after_check(from, to)
}

/// renameat2(2), by its number: not every libc has the function.
#[cfg(target_os = "linux")]
fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    let from = CString::new(from.as_os_str().as_bytes())?;
    let to = CString::new(to.as_os_str().as_bytes())?;
    // SAFETY: both paths end with a NUL and live until after the call, which only reads them.
    let refused = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if refused == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A file that gets the name between the two calls is lost.
fn rename_after_check(from: &Path, to: &Path) -> io::Result<()> {
    match fs::symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(from, to),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both must leave the other file: not every system has the first.
    #[test]
    fn no_rename_replaces_another_file() {
        for rename in [rename_to_new, rename_after_check] {
            let folder = tempfile::tempdir().unwrap();
            let (from, to) = (folder.path().join("from"), folder.path().join("to"));
            fs::write(&from, "before").unwrap();
            rename(&from, &to).unwrap();
            fs::write(&from, "after").unwrap();
            let error = rename(&from, &to).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&to).unwrap(), b"before");
        }
    }
}
