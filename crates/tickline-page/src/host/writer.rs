//! The one writer of a page's file.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fchmod, fstat, linkat, openat, statat, unlinkat};
use rustix::io::{Errno, write};

use super::error::{PageError, Why};
use super::lock::Lock;
use super::mapping::{Place, WritableMapping};
use super::restartable;
use crate::layout::PAGE_BYTES;
use crate::lease::{Field, LeaseMemory, LeasePhase, LeaseStore, LeaseWord, SLOT_WORDS, SlotNumber, Swapped};
use crate::{ClaimError, Counter, FileFacts, FileRefusal, Header, Machine, WritablePage};

/// All may read the page, and its owner may write to it.
const PAGE_MODE: Mode = Mode::from_raw_mode(0o644);

/// A page's file, locked by this process and mapped for writing. It is memory for a
/// [`Writer`](crate::lease::Writer). Dropping it gives up the lock; the file
/// stays, with what it says.
///
/// The process must not fork while it has this: the child would hold the lock, too.
#[derive(Debug)]
pub struct PageWriter {
    mapping: WritableMapping,
    file: OwnedFd,
    path: PathBuf,
    in_memory: bool,
    _lock: Lock,
}

impl PageWriter {
    /// Locks the page, makes its file if there is none, and claims it for this boot
    /// ([`WritablePage::claim`]). The folder must exist. The page's word stays as it was found, and as
    /// `Off` in a new file.
    ///
    /// # Errors
    ///
    /// If a process, perhaps this one, has the lock; if the file is not this user's own, not trusted,
    /// no page, or cannot be made; or if the offset of this process's time namespace is not known.
    /// Then there is no new file, or a whole one.
    pub fn create(path: &Path) -> Result<Self, PageError> {
        let machine = Machine::find().map_err(|error| PageError::machine(path, error))?;
        if machine.monotonic_offset_ns.is_none() {
            return Err(PageError::new(path, Why::Offset(machine.time_namespace)));
        }
        let header = Header::of(&machine);
        let place = Place::of(path)?;
        place.judge_folder()?;
        let is_missing =
            || matches!(statat(&place.folder, place.name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT));
        if !is_missing() {
            // No lock is made beside a file that is no page.
            map(&place)?;
        }
        let lock = Lock::take(&place)?;
        if is_missing() {
            make(&place, &header)?;
        }
        let (mapping, facts, file) = map(&place)?;
        if facts.owner != facts.reader {
            return Err(PageError::new(path, Why::Foreign(facts.owner, facts.reader)));
        }
        let in_memory = mapping.lock().is_ok();
        mapping.page().claim(&header).map_err(|error| PageError::claim(path, error))?;
        Ok(Self { mapping, file, path: path.into(), in_memory, _lock: lock })
    }

    /// The page.
    #[must_use]
    pub const fn page(&self) -> &WritablePage {
        self.mapping.page()
    }

    /// Whether the file still has all of the page: a store behind its end would end this process by
    /// SIGBUS. To be asked before each step; nobody but the page's owner can truncate it.
    ///
    /// # Errors
    ///
    /// If the file is shorter, or the system does not say.
    pub fn check(&self) -> Result<(), PageError> {
        let found = fstat(&self.file)
            .map_err(|error| PageError::system(&self.path, "its size cannot be known", error))?;
        let size = u64::try_from(found.st_size).unwrap_or(0);
        match size < PAGE_BYTES as u64 {
            true => Err(PageError::new(&self.path, Why::File(FileRefusal::Short(size), found.st_uid))),
            false => Ok(()),
        }
    }

    /// The error of a [`Writer`](crate::lease::Writer) that finds the page
    /// changed.
    #[must_use]
    pub fn lost(&self) -> PageError {
        PageError::lost(&self.path)
    }

    /// Whether the kernel keeps the page in memory (mlock(2)).
    #[must_use]
    pub const fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// Whether this thread looks at the counter and stores in one restartable sequence (rseq(2)):
    /// on x86-64, where libc or this crate could register one.
    #[must_use]
    pub fn is_restartable(&self) -> bool {
        restartable::is_available()
    }
}

impl LeaseMemory for PageWriter {
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

impl LeaseStore for PageWriter {
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
    ) -> Swapped {
        let times = least_ticks..limit_ticks;
        // SAFETY: the word of a page that is mapped for writing as long as `self` lives.
        match unsafe { restartable::swap(self.mapping.word(), from.to_bits(), to.to_bits(), times) } {
            Some(swapped) => swapped,
            None => self.page().words().swap_between(from, to, counter, least_ticks, limit_ticks),
        }
    }
}

/// Maps the page's file for writing, if it is a page: nothing is stored in any other file.
fn map(place: &Place<'_>) -> Result<(WritableMapping, FileFacts, OwnedFd), PageError> {
    let (file, facts) = place.open(OFlags::RDWR)?;
    let mapping = WritableMapping::of(&file).map_err(|error| place.failed("it cannot be mapped", error))?;
    if !mapping.page().is_of_file(facts.size) {
        return Err(PageError::new(place.path, Why::NotAPage(facts.size)));
    }
    Ok((mapping, facts, file))
}

/// Makes the page's file, by the holder of the lock: under another name, until it is complete.
fn make(place: &Place<'_>, header: &Header) -> Result<(), PageError> {
    let failed = |error| place.failed("it cannot be made", error);
    let fresh = place.beside(".new");
    let remove = || unlinkat(&place.folder, &fresh, AtFlags::empty());
    match remove() {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(failed(error)),
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&place.folder, &fresh, flags, PAGE_MODE).map_err(failed)?;
    let made = (|| {
        // Not `ftruncate`: the file has its memory or is refused, rather than that a later store
        // finds a full disk.
        let mut left: &[u8] = &[0; PAGE_BYTES];
        while !left.is_empty() {
            let written = write(&file, left)?;
            left = left.get(written..).unwrap_or_default();
        }
        // Whatever the umask.
        fchmod(&file, PAGE_MODE)?;
        let mapping = WritableMapping::of(&file)?;
        // Nobody else has this file.
        mapping.page().claim(header).map_err(|_: ClaimError| Errno::BUSY)?;
        linkat(&place.folder, &fresh, &place.folder, place.name, AtFlags::empty())
    })();
    remove().ok();
    made.map_err(failed)
}

/// Switches a page off at once, for all readers, also if its writer is dead or stopped. Readings
/// step back by the lead of the page's line at most. A writer that lives ends at its next step, and
/// one that starts leaves the page off, until [`switch_on`] or the next boot. Returns what the page
/// was.
///
/// # Errors
///
/// If the file cannot be opened for writing, is not trusted, or is no page.
pub fn switch_off(path: &Path) -> Result<LeasePhase, PageError> {
    let off = |word: LeaseWord| word.next(LeasePhase::Off, word.first(), Some(word.first()));
    let found = exchange(path, |word| (!word.stays_off()).then(|| off(word)))?;
    Ok(found.phase())
}

/// Lets writers open a page again that [`switch_off`] has switched off. Returns whether it was.
///
/// # Errors
///
/// As those of [`switch_off`].
pub fn switch_on(path: &Path) -> Result<bool, PageError> {
    let on = |word: LeaseWord| word.next(LeasePhase::Off, word.first(), None);
    let found = exchange(path, |word| word.stays_off().then(|| on(word)))?;
    Ok(found.stays_off())
}

/// Stores the word that comes after the one that is found, if any does. Returns the one that was found.
fn exchange(path: &Path, next: impl Fn(LeaseWord) -> Option<LeaseWord>) -> Result<LeaseWord, PageError> {
    let (mapping, ..) = map(&Place::of(path)?)?;
    let words = mapping.page().words();
    loop {
        // A slot that is named was named before, and is not filled by anybody.
        let word = words.word();
        match next(word) {
            Some(to) if !words.swap(word, to) => {}
            _ => return Ok(word),
        }
    }
}
