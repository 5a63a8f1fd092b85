//! The identity of a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The number of a file in its file system, and the number of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileNumber {
    device: u64,
    inode: u64,
}

impl FileNumber {
    pub(crate) fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
        }
    }
}
