//! Whether a page's file is trusted: a user who may write to it sets the clock of its readers.

use rustix::io::Errno;

use crate::PAGE_BYTES;

/// What is wrong with a page's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// The path does not end with a file's name.
    NoName,
    /// The file is a symbolic link.
    Link,
    /// It is not a regular file: the file's mode.
    NotAFile(u32),
    /// It is too short, bytes.
    Short(u64),
    /// It, or its folder, belongs to `owner`, who is neither root nor the `reader`.
    Owner {
        /// The user that it belongs to.
        owner: u32,
        /// The effective user of the process that reads.
        reader: u32,
    },
    /// Its group or others may write to it, or to its folder: the mode.
    Writable(u32),
    /// The system refused what was asked of it.
    System {
        /// What cannot be done, as a clause: `it cannot be opened`.
        problem: &'static str,
        /// The error number (errno(3)).
        errno: i32,
    },
}

/// Says what cannot be done because the system refused.
pub(crate) fn refused(problem: &'static str) -> impl Fn(Errno) -> FileError {
    move |error| FileError::System { problem, errno: error.raw_os_error() }
}

impl core::fmt::Display for FileError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoName => f.write_str("this is not the name of a file"),
            Self::Link => f.write_str("this is a symbolic link, and links are not followed"),
            Self::NotAFile(mode) => write!(f, "the page is not a regular file (mode {mode:o})"),
            Self::Short(size) => write!(
                f,
                "the page has {size} bytes, not {PAGE_BYTES}: it was truncated, or is not a page; once no program reads it, delete it, and `tickline serve` makes a new one"
            ),
            Self::Owner { owner: UNMAPPED, .. } => write!(
                f,
                "the page or its folder belongs to user {UNMAPPED}, which in a user namespace is anybody outside of it: mount the page there by itself, read-only"
            ),
            Self::Owner { owner, reader } => {
                write!(f, "the page or its folder belongs to user {owner}, not to root or to user {reader}")
            }
            Self::Writable(mode) => write!(
                f,
                "others may write to the page or its folder: mode {mode:o}, of which 022 must be clear"
            ),
            Self::System { problem, errno } => write!(f, "{problem}: {}", Errno::from_raw_os_error(*errno)),
        }
    }
}

impl core::error::Error for FileError {}

/// What `fstat` says of a file that was opened with `O_NOFOLLOW`, and of the folder that it is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileFacts {
    pub(crate) mode: u32,
    pub(crate) owner: u32,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) folder_mode: u32,
    pub(crate) folder_owner: u32,
    /// The effective user of the process that reads.
    pub(crate) reader: u32,
    /// Whether this is a user namespace, and the file, or the folder that it is in, is mounted by
    /// itself and read-only. It counts only where an owner is user 65534.
    pub(crate) is_mounted_read_only: bool,
}

const TYPE_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// What `fstat` shows in a user namespace for every owner that is not mapped there
/// (user_namespaces(7), "Unmapped user and group IDs"), and who "nobody" is.
pub(crate) const UNMAPPED: u32 = 65_534;

impl FileFacts {
    /// Whether a file is trusted, by the README's "What a reader must do", 1. A user who may
    /// mount a page by itself in a user namespace may replace the reader's program there as well.
    pub(crate) fn judge(&self) -> Result<(), FileError> {
        if self.mode & TYPE_MASK != REGULAR {
            return Err(FileError::NotAFile(self.mode));
        }
        if self.size < PAGE_BYTES as u64 {
            return Err(FileError::Short(self.size));
        }
        let is_trusted = |owner| match owner {
            0 => true,
            UNMAPPED => self.is_mounted_read_only,
            _ => owner == self.reader,
        };
        let foreign = [self.owner, self.folder_owner].into_iter().find(|owner| !is_trusted(*owner));
        let writable = [self.mode, self.folder_mode].into_iter().find(|mode| mode & WRITABLE_BY_OTHERS != 0);
        match (foreign, writable) {
            (Some(owner), _) => Err(FileError::Owner { owner, reader: self.reader }),
            (None, Some(mode)) => Err(FileError::Writable(mode)),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_trusted_if_nobody_else_may_write_to_it() {
        let facts = FileFacts {
            mode: 0o100_644,
            owner: 0,
            size: 4096,
            folder_mode: 0o40_755,
            folder_owner: 0,
            reader: 1000,
            is_mounted_read_only: false,
        };
        let foreign = |owner, reader| Err(FileError::Owner { owner, reader });
        let unmapped = FileFacts { owner: UNMAPPED, reader: UNMAPPED, ..facts };
        for (facts, expected) in [
            (facts, Ok(())),
            (FileFacts { folder_owner: 1000, ..facts }, Ok(())),
            (FileFacts { owner: 33, ..facts }, foreign(33, 1000)),
            (FileFacts { folder_owner: 33, ..facts }, foreign(33, 1000)),
            (FileFacts { folder_mode: 0o40_775, ..facts }, Err(FileError::Writable(0o40_775))),
            (unmapped, foreign(UNMAPPED, UNMAPPED)),
            (FileFacts { is_mounted_read_only: true, ..unmapped }, Ok(())),
        ] {
            assert_eq!(facts.judge(), expected, "{facts:?}");
        }
    }
}
