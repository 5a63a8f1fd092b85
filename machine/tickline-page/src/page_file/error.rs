//! The error of an operation on a page.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tickline_core::gate::Reason;

use super::file_error::{FileError, is_folder};
use crate::layout::PAGE_BYTES;
use crate::lease::PageChanged;
use crate::{AttachError, Header};

/// The error of a process that cannot open, make, read or write a page. The text names the file,
/// the wrong value and its limit, and the system's error. It is complete, so the error has no
/// source. [`cause`](Self::cause) has the same as a value.
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// use tickline_page::page_file::{AttachedFile, PageErrorCause};
/// # use tickline_page::page_file::FileError;
///
/// let error = AttachedFile::open("/no-such-folder/page").unwrap_err();
/// assert!(error.is_not_found());
/// assert!(matches!(error.cause(), PageErrorCause::File(FileError::System { .. })));
/// println!("{error}");
/// # }
/// ```
#[derive(Debug)]
pub struct PageError {
    path: PathBuf,
    cause: PageErrorCause,
}

/// The cause of a [`PageError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageErrorCause {
    /// There are no pages here: this is not Linux, or Miri interprets the program.
    NoPages,
    /// The file cannot be opened, made or mapped, or is not trusted.
    File(FileError),
    /// The page's lock, the file `PATH.lock`, cannot be opened or asked.
    Lock(FileError),
    /// The boot or the time namespace of this process cannot be read.
    Process(FileError),
    /// The page does not count for this process.
    Attach(AttachError),
    /// The page belongs to `owner`, so `user` may not write to it.
    OtherOwner {
        /// The owner.
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// A writer, or a switch, found a file that is not a page. It stays as it is.
    OtherFile {
        /// The file's size, bytes.
        bytes: u64,
    },
    /// Another writer has locked the page.
    Served {
        /// Its process, if that is visible here.
        process: Option<u32>,
    },
    /// The page was made in this boot for another time namespace, counter or layout.
    OtherServer(Header),
    /// The offset of this process's time namespace is not known, and readers in others need it.
    UnknownOffset {
        /// The inode number of the time namespace.
        time_namespace: u64,
    },
    /// Bits of the page's word are set which no writer sets: another process has written to the
    /// page. The file stays as it is.
    UnknownWord {
        /// The word.
        word: u64,
    },
    /// Another process writes to the page against the rules, or has truncated its file.
    Changed(PageChanged),
    /// This process can't read the counter.
    Counter(Reason),
}

impl fmt::Display for PageErrorCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPages => f.write_str("pages need Linux"),
            Self::File(error) | Self::Process(error) => error.fmt(f),
            Self::Lock(error) => write!(f, "its lock: {error}"),
            Self::Attach(error) => error.fmt(f),
            Self::OtherOwner { owner, user } => {
                write!(
                    f,
                    "the page belongs to user {owner}, not to user {user}: \
                     serve it as user {owner}, or name another page"
                )
            }
            Self::OtherFile { bytes } => {
                write!(
                    f,
                    "this file of {bytes} bytes is not a page, and stays as it is: "
                )?;
                if *bytes < PAGE_BYTES as u64 {
                    write!(f, "a page has {PAGE_BYTES} bytes or more")?;
                } else {
                    f.write_str("it does not begin with `tickline`, a version and its size")?;
                }
                f.write_str("; name another file, or move this one away")
            }
            Self::Served { process } => {
                match process {
                    Some(process) => write!(f, "process {process}")?,
                    None => f.write_str("another process")?,
                }
                f.write_str(
                    " serves this page; a page has one server: stop that one, or name another page",
                )
            }
            Self::OtherServer(Header {
                version,
                counter_id,
                time_namespace,
                monotonic_offset_ns,
                ..
            }) => write!(
                f,
                "programs may read this page, which was made in this boot by a server in time \
                 namespace {time_namespace}, offset {monotonic_offset_ns} ns, layout {version}, \
                 counter id {counter_id}: start such a server there (readlink /proc/PID/ns/time), \
                 or name another page"
            ),
            Self::UnknownOffset { time_namespace } => write!(
                f,
                "the offset of this process's time namespace {time_namespace} is not known, and \
                 readers in others need it: serve the page outside of that namespace"
            ),
            Self::UnknownWord { word } => write!(
                f,
                "no server has written its word {word:#x}, so another process has changed the \
                 page: move it away, start its server, which makes a new one, and restart the \
                 programs that read the old one"
            ),
            Self::Changed(error) => error.fmt(f),
            Self::Counter(reason) => reason.fmt(f),
        }
    }
}

impl From<FileError> for PageErrorCause {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<AttachError> for PageErrorCause {
    fn from(error: AttachError) -> Self {
        Self::Attach(error)
    }
}

impl From<PageChanged> for PageErrorCause {
    fn from(error: PageChanged) -> Self {
        Self::Changed(error)
    }
}

impl PageError {
    pub(crate) fn new(path: &Path, cause: impl Into<PageErrorCause>) -> Self {
        Self {
            path: path.into(),
            cause: cause.into(),
        }
    }

    /// The page's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says what to do about a page or a folder with this mode, to which others may write.
    fn say_remedy(&self, f: &mut fmt::Formatter<'_>, mode: u32) -> fmt::Result {
        const STICKY: u32 = 0o1000;
        match self.path.parent() {
            // A folder such as /tmp is meant for all users.
            Some(_) if is_folder(mode) && mode & STICKY != 0 => {
                f.write_str("; name a page in another folder")
            }
            Some(folder) if is_folder(mode) => write!(f, "; chmod go-w {}", folder.display()),
            _ => write!(f, "; chmod go-w {}", self.path.display()),
        }
    }

    /// The cause.
    #[must_use]
    pub const fn cause(&self) -> &PageErrorCause {
        &self.cause
    }

    /// Whether the file, or its lock, does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match self.cause {
            PageErrorCause::File(FileError::System { errno, .. })
            | PageErrorCause::Lock(FileError::System { errno, .. }) => {
                io::Error::from_raw_os_error(errno).kind() == io::ErrorKind::NotFound
            }
            _ => false,
        }
    }
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        if let PageErrorCause::Lock(error) = self.cause {
            return write!(f, "{path}.lock: {error}");
        }
        write!(f, "{path}: {}", self.cause)?;
        match self.cause {
            PageErrorCause::File(FileError::WritableByOthers { mode }) => self.say_remedy(f, mode),
            _ => Ok(()),
        }
    }
}

impl core::error::Error for PageError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> String {
        PageErrorCause::OtherFile {
            bytes: bytes as u64,
        }
        .to_string()
    }

    /// Checks what the error with this cause says after its last colon: what its reader can do.
    #[track_caller]
    fn assert_remedy(cause: PageErrorCause, remedy: &str) {
        let text = cause.to_string();
        let (_, found) = text.rsplit_once(": ").expect("a fact, and what to do");
        assert_eq!(found, remedy, "{text}");
    }

    #[test]
    fn the_server_of_another_users_page_is_told_to_be_that_user() {
        assert_remedy(
            PageErrorCause::OtherOwner { owner: 1, user: 2 },
            "serve it as user 1, or name another page",
        );
    }

    #[test]
    fn the_second_server_of_a_page_is_told_to_stop_the_first() {
        for process in [None, Some(7)] {
            assert_remedy(
                PageErrorCause::Served { process },
                "stop that one, or name another page",
            );
        }
    }

    /// Symptom: programs that read the old page never found the new one.
    #[test]
    fn programs_must_start_again_after_an_unknown_word() {
        assert_remedy(
            PageErrorCause::UnknownWord { word: 7 },
            "move it away, start its server, which makes a new one, and restart the programs that \
             read the old one",
        );
    }

    #[test]
    fn a_page_whose_time_namespace_is_unknown_is_to_be_served_outside_of_it() {
        assert_remedy(
            PageErrorCause::UnknownOffset { time_namespace: 7 },
            "serve the page outside of that namespace",
        );
    }

    #[test]
    fn a_path_that_names_no_regular_file_is_to_be_another_one() {
        for (error, remedy) in [
            (
                FileError::NoFileName,
                "name the page's file, not its folder",
            ),
            (FileError::SymbolicLink, "name the file itself"),
            (
                FileError::NotRegular { mode: 0o10_644 },
                "name another file",
            ),
        ] {
            assert_remedy(PageErrorCause::File(error), remedy);
        }
    }

    #[test]
    fn a_folder_in_place_of_the_file_may_be_dockers() {
        assert_remedy(
            PageErrorCause::File(FileError::NotRegular { mode: 0o40_755 }),
            "name the page's file in it; if Docker's -v made the folder because the page was \
             missing, remove it, start the server, and then the container again",
        );
    }

    #[test]
    fn a_reader_that_does_not_trust_the_owner_may_serve_a_page_itself() {
        assert_remedy(
            PageErrorCause::File(FileError::ForeignOwner {
                owner: 1,
                reader: 2,
            }),
            "use a page that root serves, or serve one as user 2",
        );
    }

    #[test]
    fn a_page_whose_owner_a_container_does_not_see_is_to_be_mounted_by_itself() {
        assert_remedy(
            PageErrorCause::File(FileError::UnmappedOwner),
            "mount the page by itself, read-only, in this container",
        );
    }

    /// Symptom: the advice to mount the page, also on the host.
    #[test]
    fn a_page_of_nobody_on_a_host_lacks_no_mount() {
        assert_remedy(
            PageErrorCause::File(FileError::ForeignOwner {
                owner: 65_534,
                reader: 2,
            }),
            "use a page that root serves, or serve one as another user",
        );
    }

    /// Symptom: "or serve one as user 0", in the folder of user 1.
    #[test]
    fn root_is_told_to_be_the_owner() {
        assert_remedy(
            PageErrorCause::File(FileError::ForeignOwner {
                owner: 1,
                reader: 0,
            }),
            "use a page that root serves, or be user 1",
        );
    }

    /// Symptom: "its lock can't be opened", after the path of the page.
    #[test]
    fn the_error_of_a_lock_begins_with_its_own_path() {
        const EACCES: i32 = 13;
        let error = FileError::System {
            problem: "it can't be opened",
            errno: EACCES,
        };
        let path = Path::new("/run/tickline/page.v1");
        assert_eq!(
            PageError::new(path, PageErrorCause::Lock(error)).to_string(),
            format!(
                "/run/tickline/page.v1.lock: it can't be opened: {}",
                io::Error::from_raw_os_error(EACCES)
            )
        );
    }

    #[test]
    fn a_file_that_is_too_short_for_a_page_is_told_how_long_one_is() {
        let found = text(PAGE_BYTES - 1);
        assert!(found.contains("a page has 4096 bytes or more"), "{found}");
    }

    #[test]
    fn a_file_as_long_as_a_page_is_told_how_one_begins() {
        let found = text(PAGE_BYTES);
        assert!(
            found.contains("it does not begin with `tickline`"),
            "{found}"
        );
    }
}
