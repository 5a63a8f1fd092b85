//! Decides whether a page's file is trusted: a user who may write to it sets its readers' clock.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{
    AtFlags, FileType, StatVfsMountFlags, StatxAttributes, StatxFlags, fstat, fstatvfs, statx,
};

use super::boot_context::read;
use super::file_error::{FileError, UNMAPPED};
use crate::PAGE_BYTES;

/// The facts that decide whether a file is trusted: about the file, its folder and the reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileFacts {
    pub(crate) mode: u32,
    pub(crate) owner: u32,
    /// The file's size, bytes.
    pub(crate) size: u64,
    pub(crate) folder_mode: u32,
    pub(crate) folder_owner: u32,
    /// The effective user of the reading process.
    pub(crate) reader: u32,
    pub(crate) user_65534: User65534,
}

/// What user 65534 stands for as the owner of the file or of its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User65534 {
    /// For the user of this number: this is the first user namespace. Also if neither has this
    /// owner, or if `/proc/self/uid_map` can't be read.
    Itself,
    /// For a user outside of this user namespace.
    Outsider,
    /// For a user outside of this user namespace, in which the file or its folder is mounted by
    /// itself, read-only.
    OutsiderOfReadOnlyMount,
}

const WRITABLE_BY_OTHERS: u32 = 0o022;

impl FileFacts {
    /// Collects the facts about an open file and its folder, which may be open with `O_PATH`.
    pub(crate) fn collect(file: impl AsFd, folder: impl AsFd) -> rustix::io::Result<Self> {
        let found = fstat(&file)?;
        let found_folder = fstat(&folder)?;
        let has_unmapped = [found.st_uid, found_folder.st_uid].contains(&UNMAPPED);
        Ok(Self {
            mode: found.st_mode,
            owner: found.st_uid,
            size: u64::try_from(found.st_size).unwrap_or(0),
            folder_mode: found_folder.st_mode,
            folder_owner: found_folder.st_uid,
            reader: rustix::process::geteuid().as_raw(),
            user_65534: if !has_unmapped || !is_in_user_namespace() {
                User65534::Itself
            } else if is_mounted_read_only(file, folder) {
                User65534::OutsiderOfReadOnlyMount
            } else {
                User65534::Outsider
            },
        })
    }

    /// Decides whether the file is trusted, by the README's "What a reader must do", 1. User 65534
    /// is trusted if the file is mounted by itself, because a user who may mount it may replace the
    /// reader's program as well.
    pub(crate) fn judge(&self) -> Result<(), FileError> {
        if !FileType::from_raw_mode(self.mode).is_file() {
            return Err(FileError::NotRegular { mode: self.mode });
        }
        let is_trusted = |owner| match owner {
            0 => true,
            UNMAPPED => self.user_65534 == User65534::OutsiderOfReadOnlyMount,
            _ => owner == self.reader,
        };
        let foreign = [self.owner, self.folder_owner]
            .into_iter()
            .find(|owner| !is_trusted(*owner));
        let writable = [self.mode, self.folder_mode]
            .into_iter()
            .find(|mode| mode & WRITABLE_BY_OTHERS != 0);
        match (foreign, writable) {
            (Some(UNMAPPED), _) if self.user_65534 == User65534::Outsider => {
                Err(FileError::UnmappedOwner)
            }
            (Some(owner), _) => Err(FileError::ForeignOwner {
                owner,
                reader: self.reader,
            }),
            (None, Some(mode)) => Err(FileError::WritableByOthers { mode }),
            (None, None) => Ok(()),
        }
    }

    /// Decides whether the file is trusted, and long enough for a page.
    pub(crate) fn judge_page(&self) -> Result<(), FileError> {
        self.judge()?;
        if self.size < PAGE_BYTES as u64 {
            return Err(FileError::TooShort { bytes: self.size });
        }
        Ok(())
    }
}

/// Whether user 65534 can mean an unmapped owner. It cannot in the first user namespace, which maps
/// all users to themselves (user_namespaces(7)). There an id-mapped mount can show any owner as
/// 65534, so the number proves nothing.
fn is_in_user_namespace() -> bool {
    read(c"/proc/self/uid_map", &mut [0; 64]).is_ok_and(|map| !maps_all(map))
}

/// Whether a `uid_map` is the one of the first user namespace.
fn maps_all(map: &[u8]) -> bool {
    let words = map
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    words.eq([&b"0"[..], b"0", b"4294967295"])
}

/// Whether the file or its folder is the root of a read-only mount. `false` before Linux 5.8, which
/// does not show the root of a mount (statx(2), `STATX_ATTR_MOUNT_ROOT`).
fn is_mounted_read_only(file: impl AsFd, folder: impl AsFd) -> bool {
    let is_mount_root = |file: BorrowedFd<'_>| {
        statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::empty())
            .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    };
    fstatvfs(&file).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
        && (is_mount_root(file.as_fd()) || is_mount_root(folder.as_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_user_namespace_maps_all_users() {
        assert!(maps_all(b"         0          0 4294967295\n"));
        assert!(
            !maps_all(b"") && !maps_all(b"0 100000 65536\n"),
            "no map, and a container's map"
        );
        assert!(!maps_all(b"0 0 65536\n") && !maps_all(b"0 0 4294967295\n1 1 1\n"));
    }

    #[test]
    fn a_file_is_trusted_if_no_other_user_may_write_to_it() {
        let facts = FileFacts {
            mode: 0o100_644,
            owner: 0,
            size: 4096,
            folder_mode: 0o40_755,
            folder_owner: 0,
            reader: 1000,
            user_65534: User65534::Itself,
        };
        let foreign = |owner, reader| Err(FileError::ForeignOwner { owner, reader });
        let writable = |mode| Err(FileError::WritableByOthers { mode });
        let unmapped = FileFacts {
            owner: UNMAPPED,
            reader: UNMAPPED,
            ..facts
        };
        for (facts, expected) in [
            (facts, Ok(())),
            (
                FileFacts {
                    folder_owner: 1000,
                    ..facts
                },
                Ok(()),
            ),
            (FileFacts { owner: 33, ..facts }, foreign(33, 1000)),
            (
                FileFacts {
                    folder_owner: 33,
                    ..facts
                },
                foreign(33, 1000),
            ),
            (
                FileFacts {
                    folder_mode: 0o40_775,
                    ..facts
                },
                writable(0o40_775),
            ),
            (unmapped, foreign(UNMAPPED, UNMAPPED)),
            (
                FileFacts {
                    user_65534: User65534::Outsider,
                    ..unmapped
                },
                Err(FileError::UnmappedOwner),
            ),
            (
                FileFacts {
                    user_65534: User65534::OutsiderOfReadOnlyMount,
                    ..unmapped
                },
                Ok(()),
            ),
        ] {
            assert_eq!(facts.judge(), expected, "{facts:?}");
        }
    }
}
