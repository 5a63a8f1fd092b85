//! The reason why a page's file cannot be used: for readers with `std` and without it.

use core::fmt;

use crate::layout::PAGE_BYTES;

/// The owner that `fstat` shows in a user namespace in place of an owner that is not mapped there
/// (user_namespaces(7), "Unmapped user and group IDs"). Elsewhere this id is the user "nobody".
pub(super) const UNMAPPED: u32 = 65_534;

/// The reason why a page's file cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// The path does not end with a file's name.
    NoFileName,
    /// The file is a symbolic link.
    SymbolicLink,
    /// The file is not a regular file.
    NotRegular {
        /// The file's mode.
        mode: u32,
    },
    /// The file is too short.
    TooShort {
        /// The file's size, bytes.
        bytes: u64,
    },
    /// The file or its folder belongs to `owner`, who is neither root nor the `reader`.
    ForeignOwner {
        /// The owner.
        owner: u32,
        /// The effective user of the reading process.
        reader: u32,
    },
    /// The file or its folder belongs to user 65534, which stands for every user outside of the
    /// reader's user namespace.
    UnmappedOwner,
    /// The group or other users may write to the file or its folder.
    WritableByOthers {
        /// The mode.
        mode: u32,
    },
    /// A system call failed.
    System {
        /// The consequence, as a clause: `it can't be opened`.
        problem: &'static str,
        /// The error number (errno(3)).
        errno: i32,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFileName => {
                f.write_str("this is not the name of a file: name the page's file, not its folder")
            }
            Self::SymbolicLink => f.write_str(
                "this is a symbolic link, and links are not followed: name the file itself",
            ),
            Self::NotRegular { mode } if is_folder(*mode) => f.write_str(
                "this is a folder, not a file: name the page's file in it; if Docker's -v made the \
                 folder because the page was missing, remove it, start the server, and then the \
                 container again",
            ),
            Self::NotRegular { mode } => {
                write!(
                    f,
                    "the page is not a regular file (mode {mode:o}): name another file"
                )
            }
            // Unlike the text of `PageErrorCause::UnknownWord`, this asks for no restart: a program
            // that reads a truncated page ends by SIGBUS. So the readers are to end first.
            Self::TooShort { bytes } => write!(
                f,
                "the page has {bytes} bytes, not {PAGE_BYTES}: it was truncated, or is not a page; \
                 once no program reads it, move it away, and start its server, which makes a new \
                 one"
            ),
            Self::UnmappedOwner => write!(
                f,
                "the page or its folder belongs to user {UNMAPPED}, which stands for every user \
                 outside of this user namespace: mount the page by itself, read-only, in this \
                 container"
            ),
            Self::ForeignOwner {
                owner: UNMAPPED, ..
            } => write!(
                f,
                "the page or its folder belongs to user {UNMAPPED} (nobody), whose pages are not \
                 trusted: use a page that root serves, or serve one as another user"
            ),
            Self::ForeignOwner { owner, reader: 0 } => {
                write!(
                    f,
                    "the page or its folder belongs to user {owner}, not to root: \
                     use a page that root serves, or be user {owner}"
                )
            }
            Self::ForeignOwner { owner, reader } => {
                write!(
                    f,
                    "the page or its folder belongs to user {owner}, not to root or to user \
                     {reader}: use a page that root serves, or serve one as user {reader}"
                )
            }
            Self::WritableByOthers { mode } => {
                let folder = if is_folder(*mode) { "'s folder" } else { "" };
                write!(
                    f,
                    "others may write to the page{folder}: mode {mode:o}, of which 022 must be \
                     clear"
                )
            }
            // Without `std` no text of the system is known.
            #[cfg(not(feature = "file"))]
            Self::System { problem, errno } => write!(f, "{problem}: os error {errno}"),
            #[cfg(feature = "file")]
            Self::System { problem, errno } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(f, "{problem}: {error}")
            }
        }
    }
}

impl core::error::Error for FileError {}

/// Whether the mode is a folder's (inode(7)).
pub(super) const fn is_folder(mode: u32) -> bool {
    const S_IFMT: u32 = 0o170_000;
    const S_IFDIR: u32 = 0o040_000;
    mode & S_IFMT == S_IFDIR
}
