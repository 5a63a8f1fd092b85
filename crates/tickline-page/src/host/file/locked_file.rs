//! The one writer of a page's file.

use core::mem::transmute;
use core::ptr::NonNull;
use std::format;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fchmod, fstat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::mm::{ProtFlags, mlock};

use super::error::{PageError, Why, foreign};
use super::lock::Lock;
use super::restartable;
use crate::host::mapped::{Mapping, Place};
use crate::host::trust::{FileError, FileFacts, refused};
use crate::layout::PAGE_BYTES;
use crate::lease::{
    Field, LeaseMemory, LeasePhase, LeaseStore, LeaseWord, PageTaken, SLOT_WORDS, SlotNumber, SwapResult,
};
use crate::{BootContext, Counter, Header, WritablePage};

/// All may read the page, and its owner may write to it.
const PAGE_MODE: Mode = Mode::from_raw_mode(0o644);

/// A mapping that may be written to.
#[derive(Debug)]
struct WritableMapping(Mapping);

impl WritableMapping {
    fn of(file: impl AsFd) -> Result<Self, FileError> {
        Mapping::of(file, ProtFlags::READ | ProtFlags::WRITE).map(Self)
    }

    const fn page(&self) -> &WritablePage {
        // SAFETY: a mapping begins at a page's start, is readable and writable, and lives as long
        // as `self`. What changes it are atomic stores, in this process or another one.
        unsafe { WritablePage::at(self.0.0.as_ptr()) }
    }

    /// Keeps the page in memory, so that a store never waits for a disk.
    fn lock(&self) -> rustix::io::Result<()> {
        // SAFETY: the range is this mapping.
        unsafe { mlock(self.0.0.as_ptr().cast(), PAGE_BYTES) }
    }
}

/// A page's file, locked by this process and mapped for writing: the memory of a
/// [`Writer`](crate::protocol::Writer). A drop gives up the lock; the file stays, with its
/// contents.
///
/// The process must not fork while it has this: the child would hold the lock, too.
#[derive(Debug)]
pub struct LockedPageFile {
    mapping: WritableMapping,
    file: OwnedFd,
    path: PathBuf,
    is_locked_in_memory: bool,
    _lock: Lock,
}

impl LockedPageFile {
    /// Locks the page. Makes its file if there is none, or if it is of another boot, since no
    /// process of this boot reads such a file. The folder must exist. The page's word stays as it
    /// was; a new file says `Off`.
    ///
    /// # Errors
    ///
    /// If one of these holds:
    ///
    /// - A process, perhaps this one, has the lock.
    /// - The file is not this user's own, not trusted, not a page, or cannot be made.
    /// - The file was made in this boot for another time namespace.
    /// - The offset of this process's namespace is not known.
    ///
    /// A call that fails leaves no new file, or a complete one.
    pub fn create(path: &Path) -> Result<Self, PageError> {
        Self::try_create(path).map_err(|why| PageError::new(path, why))
    }

    fn try_create(path: &Path) -> Result<Self, Why> {
        let header = header(&BootContext::find()?)?;
        let place = Place::of(path.as_os_str().as_bytes())?;
        judge_folder(&place)?;
        // No lock is made next to a file that is not a page.
        find_page(&place, &header)?;
        let lock = Lock::take(&place)?;
        if find_page(&place, &header)?.is_none() {
            make_file(&place, header)?;
        }
        let (mapping, file) = find_page(&place, &header)?.ok_or(PageTaken)?;
        let is_locked_in_memory = mapping.lock().is_ok();
        Ok(Self { mapping, file, path: path.into(), is_locked_in_memory, _lock: lock })
    }

    /// The page.
    #[must_use]
    pub const fn page(&self) -> &WritablePage {
        self.mapping.page()
    }

    /// Whether the file still has all of the page: a store behind its end would end this process by
    /// SIGBUS. Call this before each step. Only the page's owner can truncate the file.
    ///
    /// # Errors
    ///
    /// If the file is shorter, or the system does not say.
    pub fn check_size(&self) -> Result<(), PageError> {
        let error = match fstat(&self.file).map(|found| u64::try_from(found.st_size).unwrap_or(0)) {
            Ok(size) if size >= PAGE_BYTES as u64 => return Ok(()),
            Ok(size) => FileError::Short(size),
            Err(error) => refused("its size cannot be known")(error),
        };
        Err(PageError::new(&self.path, error))
    }

    /// The error of a [`Writer`](crate::protocol::Writer) that finds the page
    /// changed.
    #[must_use]
    pub fn taken_error(&self) -> PageError {
        PageError::new(&self.path, PageTaken)
    }

    /// Whether the kernel keeps the page in memory (mlock(2)).
    #[must_use]
    pub const fn is_locked_in_memory(&self) -> bool {
        self.is_locked_in_memory
    }

    /// Whether this thread reads the counter and stores in one restartable sequence (rseq(2)):
    /// on x86-64, where libc or this crate could register one.
    #[must_use]
    pub fn is_restartable(&self) -> bool {
        restartable::is_available()
    }
}

impl LeaseMemory for LockedPageFile {
    fn word(&self) -> LeaseWord {
        self.page().words().word()
    }
    fn field(&self, slot: SlotNumber, field: Field) -> u64 {
        self.page().words().field(slot, field)
    }
    fn is_still(&self, word: LeaseWord) -> bool {
        self.page().words().is_still(word)
    }
}

impl LeaseStore for LockedPageFile {
    fn fill(&self, slot: SlotNumber, words: &[u64; SLOT_WORDS]) {
        self.page().words().fill(slot, words);
    }
    fn swap(&self, from: LeaseWord, to: LeaseWord) -> bool {
        self.page().words().swap(from, to)
    }

    /// In one restartable sequence, where there is one. It reads this target's counter itself, so
    /// `counter` must be [`HardwareCounter`](crate::HardwareCounter).
    fn swap_between(
        &self,
        from: LeaseWord,
        to: LeaseWord,
        counter: &impl Counter,
        least_ticks: u64,
        limit_ticks: u64,
    ) -> SwapResult {
        let (words, bits) = (self.page().words(), [from, to].map(LeaseWord::to_bits));
        // SAFETY: the word, which is first, of a page that is mapped for writing as long as `self`
        // lives.
        let swapped =
            unsafe { restartable::swap(NonNull::from(words).cast(), bits, least_ticks..limit_ticks) };
        swapped.unwrap_or_else(|| words.swap_between(from, to, counter, least_ticks, limit_ticks))
    }
}

/// The header of a page that is made here. Readers in other time namespaces need its offset.
fn header(context: &BootContext) -> Result<Header, Why> {
    match context {
        BootContext { time_namespace, monotonic_offset_ns: None, .. } => Err(format!(
            "the offset of this process's time namespace {time_namespace} is not known, and readers in others need it"
        )
        .into()),
        known => Ok(Header::of(known)),
    }
}

/// Judges the folder alone, before anything is made there.
fn judge_folder(place: &Place<'_>) -> Result<(), FileError> {
    let folder = FileFacts::of(&place.folder, &place.folder);
    let folder = folder.map_err(refused("its folder's owner cannot be known"))?;
    // Those of the file that would be made.
    let file = FileFacts { mode: 0o100_644, size: PAGE_BYTES as u64, is_mounted_read_only: false, ..folder };
    file.judge()
}

/// Maps the page's file for writing, if it is a page: nothing is stored in any other file.
fn open_page(place: &Place<'_>) -> Result<(WritableMapping, FileFacts, OwnedFd), Why> {
    let (file, facts) = place.open(OFlags::RDWR)?;
    let mapping = WritableMapping::of(&file)?;
    let size = facts.size;
    // A page of any version. A text that begins with `tickline` has letters in place of the size.
    let is_page = |header: Header| (PAGE_BYTES as u64..=size).contains(&header.size.into());
    if !mapping.page().header().is_some_and(is_page) {
        return Err(format!(
            "this file of {size} bytes is not a page, and stays as it is: it does not begin with `tickline`, a version and a size of {PAGE_BYTES} to {size}; name another file, or move this one away"
        )
        .into());
    }
    Ok((mapping, facts, file))
}

/// The page's file, if there is one of this boot.
fn find_page(place: &Place<'_>, header: &Header) -> Result<Option<(WritableMapping, OwnedFd)>, Why> {
    if let Err(Errno::NOENT) = statat(&place.folder, place.name, AtFlags::SYMLINK_NOFOLLOW) {
        return Ok(None);
    }
    let (mapping, facts, file) = open_page(place)?;
    if facts.owner != facts.reader {
        return Err(foreign(facts.owner, facts.reader));
    }
    match mapping.page().header() {
        Some(found) if found == *header => Ok(Some((mapping, file))),
        Some(found) if found.boot_id == header.boot_id => {
            let Header { version, counter, time_namespace, monotonic_offset_ns, .. } = found;
            Err(format!(
                "the page was made in this boot by a server in time namespace {time_namespace}, offset {monotonic_offset_ns} ns, for layout {version} and counter {counter}, and programs may read it: start such a server there (readlink /proc/PID/ns/time), or name another page"
            )
            .into())
        }
        _ => Ok(None),
    }
}

/// Makes the page's file, by the holder of the lock: under another name, until it is complete.
fn make_file(place: &Place<'_>, header: Header) -> Result<(), Why> {
    let failed = || refused("it cannot be made");
    let fresh = [place.name, b".new"].concat();
    let remove = || unlinkat(&place.folder, &fresh, AtFlags::empty());
    match remove() {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(failed()(error).into()),
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(&place.folder, &fresh, flags, PAGE_MODE).map_err(failed())?);
    let made = (|| {
        // Not `ftruncate`: the file has its memory or is refused, rather than that a later store
        // finds a full disk.
        // SAFETY: a page is of integers of these bytes altogether (asserted in `layout.rs`), so
        // without padding.
        let page = unsafe { transmute::<WritablePage, [u8; PAGE_BYTES]>(WritablePage::new(&header)) };
        let written = (&file).write_all(&page);
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        // For any umask.
        fchmod(&file, PAGE_MODE)?;
        renameat(&place.folder, &fresh, &place.folder, place.name)
    })();
    made.map_err(|error| {
        remove().ok();
        failed()(error).into()
    })
}

/// Switches a page off at once, for all readers, even if its writer is dead or stopped. Readings
/// step back by at most the lead of the page's line. A running writer ends at its next step. A
/// writer that starts leaves the page off, until [`switch_on`] or the next boot. Returns the phase
/// from before.
///
/// # Errors
///
/// If the file cannot be opened for writing, is not trusted, or is not a page.
pub fn switch_off(path: &Path) -> Result<LeasePhase, PageError> {
    let found = change_word(path, |word| (!word.stays_off()).then(|| word.switched_off()))?;
    Ok(found.phase())
}

/// Lets writers open a page again that [`switch_off`] has switched off. Returns whether it was off.
///
/// # Errors
///
/// As those of [`switch_off`].
pub fn switch_on(path: &Path) -> Result<bool, PageError> {
    let on = |word: LeaseWord| word.next(LeasePhase::Off, word.first(), None);
    let found = change_word(path, |word| word.stays_off().then(|| on(word)))?;
    Ok(found.stays_off())
}

/// Stores the word that comes after the one that is found, if any does. Returns the one that was
/// found.
fn change_word(path: &Path, next: impl Fn(LeaseWord) -> Option<LeaseWord>) -> Result<LeaseWord, PageError> {
    let place = || Ok(open_page(&Place::of(path.as_os_str().as_bytes())?)?.0);
    let mapping = place().map_err(|why: Why| PageError::new(path, why))?;
    let words = mapping.page().words();
    loop {
        let word = words.word();
        match next(word) {
            Some(to) if !words.swap(word, to) => {}
            _ => return Ok(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_page_is_made_where_the_offset_is_not_known() {
        let context = BootContext { boot_id: [1; 16], time_namespace: 77, monotonic_offset_ns: Some(5) };
        assert_eq!(header(&context).unwrap().monotonic_offset_ns, 5);
        let error = header(&BootContext { monotonic_offset_ns: None, ..context }).unwrap_err().to_string();
        assert!(error.contains("time namespace 77 is not known"), "{error}");
    }
}
