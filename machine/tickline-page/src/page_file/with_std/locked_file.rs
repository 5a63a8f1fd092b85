//! A page's file, for its one writer: makes it, locks it and maps it for writing.

use core::mem::transmute;
use core::ops::Range;
use core::ptr::NonNull;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fchmod, fstat, lstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::mm::{ProtFlags, mlock};

use super::lock::Lock;
use super::restartable;
use crate::layout::PAGE_BYTES;
use crate::lease::PageChanged;
use crate::lease::memory::{
    Field, LeaseMemory, LeaseStore, LeaseWord, SLOT_WORDS, SlotNumber, SwapResult,
};
use crate::page_file::error::{PageError, PageErrorCause};
use crate::page_file::file_error::FileError;
use crate::page_file::mapped::{GUARDED, Mapping, PagePath};
use crate::page_file::trust::{FileFacts, User65534};
use crate::{BootContext, Counter, Header, WritablePage};

/// All users may read the page; only its owner may write to it.
const PAGE_MODE: Mode = Mode::from_raw_mode(0o644);

/// The flags of a page's file that this process makes.
const NEW_PAGE_FLAGS: OFlags = OFlags::RDWR
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(GUARDED);

/// A mapping that this process may write to.
#[derive(Debug)]
pub(super) struct WritableMapping(Mapping);

impl WritableMapping {
    fn new(file: impl AsFd) -> Result<Self, FileError> {
        Mapping::new(file, ProtFlags::READ | ProtFlags::WRITE).map(Self)
    }

    pub(super) const fn page(&self) -> &WritablePage {
        // SAFETY: a mapping begins at a page's start, is readable and writable, and lives as long
        // as `self`. Only atomic stores change it, in this process or another one.
        unsafe { WritablePage::from_ptr(self.0.0.as_ptr()) }
    }

    /// Keeps the page in memory, so that a store never waits for a disk.
    fn lock(&self) -> rustix::io::Result<()> {
        // SAFETY: the range is exactly this mapping.
        unsafe { mlock(self.0.0.as_ptr().cast(), PAGE_BYTES) }
    }
}

/// A page's file, locked by this process and mapped for writing: the memory of a
/// [`Writer`](crate::lease::Writer). A drop releases the lock; the file stays.
///
/// The process must not fork while it has this value, because the child would also hold the lock.
#[derive(Debug)]
pub struct LockedPageFile {
    mapping: WritableMapping,
    file: OwnedFd,
    path: PathBuf,
    is_locked_in_memory: bool,
    _lock: Lock,
}

impl LockedPageFile {
    /// Locks the page, and makes its file if there is none. Replaces a file of another boot,
    /// because no process of this boot reads such a file. The folder must exist. The page's word
    /// stays as it was; a new page is `Off`.
    ///
    /// # Errors
    ///
    /// If one of these holds:
    ///
    /// - A process, possibly this one, holds the lock.
    /// - The file does not belong to this user, is not trusted, is not a page, or cannot be made.
    /// - The file was made in this boot for another time namespace, counter or layout.
    /// - No writer has stored the page's word.
    /// - The offset of this process's namespace is not known.
    ///
    /// A failed call leaves no page or a complete one.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, PageError> {
        let path = path.as_ref();
        Self::try_create(path).map_err(|cause| PageError::new(path, cause))
    }

    fn try_create(path: &Path) -> Result<Self, PageErrorCause> {
        let context = BootContext::current().map_err(PageErrorCause::Process)?;
        let header = header(&context)?;
        let page_path = PagePath::resolve(path.as_os_str().as_bytes())?;
        judge_folder(&page_path)?;
        // This call makes no lock file next to a file that is not a page.
        find_page(&page_path, &header)?;
        let lock = Lock::acquire(&page_path)?;
        if find_page(&page_path, &header)?.is_none() {
            make_file(&page_path, header)?;
        }
        let (mapping, file) = find_page(&page_path, &header)?.ok_or(PageChanged)?;
        let word = mapping.page().cell().word();
        if !word.is_of_writer() {
            let word = word.to_bits();
            return Err(PageErrorCause::UnknownWord { word });
        }
        let is_locked_in_memory = mapping.lock().is_ok();
        Ok(Self {
            mapping,
            file,
            path: path.into(),
            is_locked_in_memory,
            _lock: lock,
        })
    }

    /// The page.
    #[must_use]
    pub const fn page(&self) -> &WritablePage {
        self.mapping.page()
    }

    /// Checks that the page's owner has not truncated the file. Otherwise SIGBUS would end this
    /// process at its next store. Call this before each iteration.
    ///
    /// # Errors
    ///
    /// If the file is too short, or the system does not state its size.
    pub fn check_size(&self) -> Result<(), PageError> {
        let error = match fstat(&self.file).map(|found| u64::try_from(found.st_size).unwrap_or(0)) {
            Ok(size) if size >= PAGE_BYTES as u64 => return Ok(()),
            Ok(size) => FileError::TooShort { bytes: size },
            Err(error) => FileError::system("its size can't be known")(error),
        };
        Err(PageError::new(&self.path, error))
    }

    /// Whether the file at the page's path is still this one; `true` if that can't be known. A file
    /// that was deleted or replaced serves the programs that have it, and no other finds it.
    #[must_use]
    pub fn is_at_its_path(&self) -> bool {
        match (fstat(&self.file), lstat(&self.path)) {
            (Ok(own), Ok(found)) => (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino),
            (_, Err(error)) => !matches!(error, Errno::NOENT | Errno::NOTDIR),
            (Err(_), Ok(_)) => true,
        }
    }

    /// The error of a [`Writer`](crate::lease::Writer) that finds a word which it did not store.
    #[must_use]
    pub fn changed_error(&self) -> PageError {
        PageError::new(&self.path, PageChanged)
    }

    /// Whether the kernel keeps the page in memory (mlock(2)).
    #[must_use]
    pub const fn is_locked_in_memory(&self) -> bool {
        self.is_locked_in_memory
    }

    /// Whether this thread reads the counter and stores in one restartable sequence (rseq(2)). This
    /// needs x86-64, and an rseq area that libc or this crate has registered.
    #[must_use]
    pub fn uses_rseq(&self) -> bool {
        restartable::is_available()
    }
}

impl LeaseMemory for LockedPageFile {
    fn word(&self) -> LeaseWord {
        self.page().cell().word()
    }
    fn field(&self, slot: SlotNumber, field: Field) -> u64 {
        self.page().cell().field(slot, field)
    }
    fn is_still(&self, word: LeaseWord) -> bool {
        self.page().cell().is_still(word)
    }
}

impl LeaseStore for LockedPageFile {
    fn fill(&self, slot: SlotNumber, words: &[u64; SLOT_WORDS]) {
        self.page().cell().fill(slot, words);
    }
    fn try_swap(&self, from: LeaseWord, to: LeaseWord) -> bool {
        self.page().cell().try_swap(from, to)
    }

    /// Uses one restartable sequence where the system supports that. The sequence reads this
    /// target's counter itself, so `counter` must be [`HardwareCounter`](crate::HardwareCounter).
    fn try_swap_between(
        &self,
        from: LeaseWord,
        to: LeaseWord,
        counter: &impl Counter,
        ticks: Range<u64>,
    ) -> SwapResult {
        let (cell, bits) = (self.page().cell(), [from, to].map(LeaseWord::to_bits));
        // SAFETY: the word is first in the cell, which is mapped for writing as long as `self`.
        let swapped =
            unsafe { restartable::try_swap(NonNull::from(cell).cast(), bits, ticks.clone()) };
        swapped.unwrap_or_else(|| cell.try_swap_between(from, to, counter, ticks))
    }
}

/// The header of a page that this process makes. Readers in other time namespaces need the offset.
fn header(context: &BootContext) -> Result<Header, PageErrorCause> {
    let time_namespace = context.time_namespace;
    Header::new(context).ok_or(PageErrorCause::UnknownOffset { time_namespace })
}

/// Judges only the folder, before this process makes a file in it.
fn judge_folder(path: &PagePath<'_>) -> Result<(), FileError> {
    let folder = FileFacts::collect(&path.folder, &path.folder);
    let folder = folder.map_err(FileError::system("its folder's owner can't be known"))?;
    facts_of_new_file(folder).judge()
}

/// The facts of the file that this process would make in a folder with these facts.
fn facts_of_new_file(folder: FileFacts) -> FileFacts {
    FileFacts {
        mode: FileType::RegularFile.as_raw_mode() | PAGE_MODE.as_raw_mode(),
        size: PAGE_BYTES as u64,
        user_65534: match folder.user_65534 {
            User65534::Itself => User65534::Itself,
            // This process can make no file in a mount that is read-only.
            User65534::Outsider | User65534::OutsiderOfReadOnlyMount => User65534::Outsider,
        },
        ..folder
    }
}

/// Maps the page's file for writing. An error if the file is not a page: it stays as it is.
pub(super) fn open_page(
    path: &PagePath<'_>,
) -> Result<(WritableMapping, FileFacts, OwnedFd), PageErrorCause> {
    let (file, facts) = path.open(OFlags::RDWR).map_err(|error| match error {
        FileError::TooShort { bytes } => PageErrorCause::OtherFile { bytes },
        error => error.into(),
    })?;
    let mapping = WritableMapping::new(&file)?;
    let size = facts.size;
    // A page of any version has its size in this field. A text that begins with `tickline` has
    // letters there.
    let is_page = |header: Header| (PAGE_BYTES as u64..=size).contains(&header.size.into());
    if !mapping.page().header().is_some_and(is_page) {
        return Err(PageErrorCause::OtherFile { bytes: size });
    }
    Ok((mapping, facts, file))
}

/// The page's file, if it exists and is of this boot.
fn find_page(
    path: &PagePath<'_>,
    header: &Header,
) -> Result<Option<(WritableMapping, OwnedFd)>, PageErrorCause> {
    if let Err(Errno::NOENT) = statat(&path.folder, path.name, AtFlags::SYMLINK_NOFOLLOW) {
        return Ok(None);
    }
    let (mapping, facts, file) = open_page(path)?;
    if facts.owner != facts.reader {
        return Err(PageErrorCause::OtherOwner {
            owner: facts.owner,
            user: facts.reader,
        });
    }
    match mapping.page().header() {
        Some(found) if found == *header => Ok(Some((mapping, file))),
        Some(found) if found.boot_id == header.boot_id => Err(PageErrorCause::OtherServer(found)),
        _ => Ok(None),
    }
}

/// Makes the page's file, and renames it when it is complete. The caller must hold the lock.
fn make_file(path: &PagePath<'_>, header: Header) -> Result<(), PageErrorCause> {
    let failed = || FileError::system("it can't be made");
    let new_name = [path.name, b".new"].concat();
    let remove = || unlinkat(&path.folder, &new_name, AtFlags::empty());
    match remove() {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(failed()(error).into()),
    }
    let file = openat(&path.folder, &new_name, NEW_PAGE_FLAGS, PAGE_MODE).map_err(failed())?;
    let file = File::from(file);
    let made = (|| {
        // A write, not `ftruncate`: on a full disk it fails here, and not at a later store.
        // SAFETY: a page consists of integers, without padding (asserted in `layout.rs`).
        let page =
            unsafe { transmute::<WritablePage, [u8; PAGE_BYTES]>(WritablePage::new(&header)) };
        let written = (&file).write_all(&page);
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        // The umask may have cleared bits of the mode.
        fchmod(&file, PAGE_MODE)?;
        renameat(&path.folder, &new_name, &path.folder, path.name)
    })();
    made.map_err(|error| {
        remove().ok();
        failed()(error).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_page_is_made_if_the_offset_is_not_known() {
        let context = BootContext {
            boot_id: [1; 16],
            time_namespace: 77,
            monotonic_offset_ns: Some(5),
        };
        assert_eq!(header(&context).unwrap().monotonic_offset_ns, 5);
        let error = header(&BootContext {
            monotonic_offset_ns: None,
            ..context
        })
        .unwrap_err();
        assert_eq!(error, PageErrorCause::UnknownOffset { time_namespace: 77 });
        assert!(
            std::format!("{error}").contains("time namespace 77 is not known"),
            "{error}"
        );
    }

    /// A folder that belongs to this user.
    fn own_folder(user: u32) -> FileFacts {
        FileFacts {
            mode: 0o40_755,
            owner: user,
            size: 0,
            folder_mode: 0o40_755,
            folder_owner: user,
            reader: user,
            user_65534: User65534::Itself,
        }
    }

    #[test]
    fn a_page_may_be_made_in_a_folder_of_the_same_user() {
        assert_eq!(facts_of_new_file(own_folder(1_000)).judge(), Ok(()));
    }

    /// Readers trust such a page. A writer could not make one: the folder is read-only.
    #[test]
    fn no_page_is_made_in_a_folder_of_an_unknown_user_that_is_mounted_read_only() {
        let folder = FileFacts {
            user_65534: User65534::OutsiderOfReadOnlyMount,
            ..own_folder(65_534)
        };
        let judgement = facts_of_new_file(folder).judge();
        assert_eq!(judgement, Err(FileError::UnmappedOwner));
    }
}
