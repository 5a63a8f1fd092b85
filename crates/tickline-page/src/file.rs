//! Whether a page's file is trusted: whoever may write to it sets the clock of its readers.

/// What `fstat` says of a file that was opened with `O_NOFOLLOW`, and of the folder that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFacts {
    /// `st_mode` of the file.
    pub mode: u32,
    /// `st_uid` of the file.
    pub owner: u32,
    /// `st_size` of the file, bytes.
    pub size: u64,
    /// `st_mode` of the folder.
    pub folder_mode: u32,
    /// `st_uid` of the folder.
    pub folder_owner: u32,
    /// The effective user of the process that reads.
    pub reader: u32,
    /// Whether this is a user namespace, and the file, or the folder that it is in, is mounted by itself
    /// and read-only. It counts only where an owner is user 65534.
    pub is_mounted_read_only: bool,
}

/// Why a file is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileRefusal {
    /// It is no regular file: the file's mode.
    NotAFile(u32),
    /// It is too short, bytes.
    Short(u64),
    /// It, or its folder, belongs to this user, who is neither root nor the reader.
    Owner(u32),
    /// Its group or others may write to it, or to its folder: the mode.
    Writable(u32),
}

impl core::fmt::Display for FileRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotAFile(mode) => write!(f, "the page is no regular file: mode {mode:o}"),
            Self::Short(size) => write!(f, "the page has {size} bytes, not {}", crate::PAGE_BYTES),
            Self::Owner(owner) => write!(f, "the page or its folder belongs to user {owner}"),
            Self::Writable(mode) => write!(f, "others may write to the page or its folder: mode {mode:o}"),
        }
    }
}

impl core::error::Error for FileRefusal {}

const TYPE_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// What `fstat` shows in a user namespace for every owner that is not mapped there
/// (user_namespaces(7), "Unmapped user and group IDs"), and who "nobody" is.
pub(crate) const UNMAPPED: u32 = 65_534;

const fn is_trusted(owner: u32, facts: &FileFacts) -> bool {
    match owner {
        0 => true,
        UNMAPPED => facts.is_mounted_read_only,
        _ => owner == facts.reader,
    }
}

/// Whether a file is trusted: it is regular and long enough; it and its folder belong to root or to
/// the reader, and nobody else may write to either. In a user namespace, user 65534 stands for any
/// foreign owner, among them root. There a page counts if it, or its folder, is mounted by itself and
/// read-only: whoever may mount it there may replace the reader's program as well.
///
/// # Errors
///
/// The first reason why it is not.
///
/// ```
/// use tickline_page::{FileFacts, FileRefusal, judge_file};
/// let facts = FileFacts {
///     mode: 0o100_644, owner: 0, size: 4096,
///     folder_mode: 0o40_755, folder_owner: 0,
///     reader: 1000, is_mounted_read_only: false,
/// };
/// assert_eq!(judge_file(&facts), Ok(()));
/// assert_eq!(judge_file(&FileFacts { owner: 33, ..facts }), Err(FileRefusal::Owner(33)));
/// let unmapped = FileFacts { owner: 65_534, reader: 65_534, ..facts };
/// assert_eq!(judge_file(&unmapped), Err(FileRefusal::Owner(65_534)));
/// assert_eq!(judge_file(&FileFacts { is_mounted_read_only: true, ..unmapped }), Ok(()));
/// ```
pub const fn judge_file(facts: &FileFacts) -> Result<(), FileRefusal> {
    if facts.mode & TYPE_MASK != REGULAR {
        return Err(FileRefusal::NotAFile(facts.mode));
    }
    if facts.size < crate::PAGE_BYTES as u64 {
        return Err(FileRefusal::Short(facts.size));
    }
    if !is_trusted(facts.owner, facts) {
        return Err(FileRefusal::Owner(facts.owner));
    }
    if !is_trusted(facts.folder_owner, facts) {
        return Err(FileRefusal::Owner(facts.folder_owner));
    }
    if facts.mode & WRITABLE_BY_OTHERS != 0 {
        return Err(FileRefusal::Writable(facts.mode));
    }
    if facts.folder_mode & WRITABLE_BY_OTHERS != 0 {
        return Err(FileRefusal::Writable(facts.folder_mode));
    }
    Ok(())
}
