//! The one writer of a page's file.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, fchmod, fcntl_lock, flock, linkat, openat, statat, unlinkat,
};
use rustix::io::{Errno, write};
use rustix::process::{Flock, FlockType, fcntl_getlk, geteuid};

use super::error::{PageError, Why};
use super::mapping::{Place, WritableMapping};
use super::restartable;
use crate::layout::PAGE_BYTES;
use crate::{ClaimError, Counter, Header, Machine, WritablePage};
use tickline_core::unstable::lease::{
    Field, LeaseMemory, LeasePhase, LeaseStore, LeaseWord, SLOT_WORDS, SlotNumber, Swapped,
};

/// All may read the page, and its owner may write to it.
const PAGE_MODE: Mode = Mode::from_raw_mode(0o644);
/// Nobody but the owner may lock.
const LOCK_MODE: Mode = Mode::from_raw_mode(0o600);

/// A page's file, locked by this process and mapped for writing. It is memory for a
/// [`Writer`](tickline_core::unstable::lease::Writer). Dropping it gives up the lock; the file
/// stays, with what it says.
///
/// The process must not fork while it has this: the child would hold the lock, too.
#[derive(Debug)]
pub struct PageWriter {
    mapping: WritableMapping,
    path: PathBuf,
    in_memory: bool,
    _lock: OwnedFd,
}

impl PageWriter {
    /// Locks the page, makes its file if there is none, and claims it for this boot
    /// ([`WritablePage::claim`]). The folder must exist. The page's word stays as it was found, and as
    /// `Off` in a new file.
    ///
    /// # Errors
    ///
    /// If another process has the lock, or the file is not this user's own, not trusted, or cannot
    /// be made. Then there is no new file, or a whole one.
    pub fn create(path: &Path) -> Result<Self, PageError> {
        let machine = Machine::find().map_err(|error| PageError::machine(path, error))?;
        let header = Header::of(&machine);
        let place = Place::of(path)?;
        place.judge_folder()?;
        let lock = lock(&place)?;
        if let Err(Errno::NOENT) = statat(&place.folder, place.name, AtFlags::SYMLINK_NOFOLLOW) {
            make(&place, &header)?;
        }
        let (file, facts) = place.open(OFlags::RDWR)?;
        if facts.owner != facts.reader {
            return Err(PageError::new(path, Why::Foreign(facts.owner, facts.reader)));
        }
        let mapping =
            WritableMapping::of(&file).map_err(|error| place.failed("it cannot be mapped", error))?;
        let in_memory = mapping.lock().is_ok();
        mapping.page().claim(&header).map_err(|error| PageError::claim(path, error))?;
        Ok(Self { mapping, path: path.into(), in_memory, _lock: lock })
    }

    /// The page.
    #[must_use]
    pub const fn page(&self) -> &WritablePage {
        self.mapping.page()
    }

    /// The file's name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The error of a [`Writer`](tickline_core::unstable::lease::Writer) that finds the page
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

/// Takes the lock of a page. Held until the descriptor is closed, which exec does, too.
///
/// Two kinds of lock at once: `flock` also keeps out another writer in this process, and `fcntl`
/// tells others the process's number.
fn lock(place: &Place<'_>) -> Result<OwnedFd, PageError> {
    let failed = |error| place.failed("its lock cannot be opened", error);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let lock = openat(&place.folder, beside(place, ".lock"), flags, LOCK_MODE).map_err(failed)?;
    // Before the lock counts: no other user has opened it, and nobody will.
    let found = rustix::fs::fstat(&lock).map_err(failed)?;
    if found.st_uid != geteuid().as_raw() {
        return Err(PageError::new(place.path, Why::Foreign(found.st_uid, geteuid().as_raw())));
    }
    fchmod(&lock, LOCK_MODE).map_err(failed)?;
    let taken = flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .and_then(|()| fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive));
    match taken {
        Ok(()) => Ok(lock),
        Err(Errno::WOULDBLOCK | Errno::ACCESS) => Err(PageError::new(place.path, Why::Taken(holder(&lock)))),
        Err(error) => Err(place.failed("it cannot be locked", error)),
    }
}

/// The process that holds a lock, if it is in this process's pid namespace.
fn holder(lock: impl AsFd) -> Option<u32> {
    let found = fcntl_getlk(lock, &Flock::from(FlockType::WriteLock)).ok()??;
    u32::try_from(found.pid?.as_raw_nonzero().get()).ok()
}

/// The name of a file beside the page's.
fn beside(place: &Place<'_>, ending: &str) -> OsString {
    let mut name = OsString::from(place.name);
    name.push(ending);
    name
}

/// Makes the page's file, by the holder of the lock: under another name, until it is complete.
fn make(place: &Place<'_>, header: &Header) -> Result<(), PageError> {
    let failed = |error| place.failed("it cannot be made", error);
    let fresh = beside(place, ".new");
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
/// step back by the lead of the page's line at most. A writer that lives ends at its next step.
/// Returns what the page was.
///
/// # Errors
///
/// If the file cannot be opened for writing, or is not trusted.
pub fn switch_off(path: &Path) -> Result<LeasePhase, PageError> {
    let place = Place::of(path)?;
    let (file, _) = place.open(OFlags::RDWR)?;
    let mapping = WritableMapping::of(&file).map_err(|error| place.failed("it cannot be mapped", error))?;
    if mapping.page().header().is_none() {
        return Err(PageError::new(path, Why::Page(crate::Refusal::NotAPage)));
    }
    let words = mapping.page().words();
    loop {
        let word = words.word();
        if word.phase() == LeasePhase::Off {
            return Ok(LeasePhase::Off);
        }
        // The slot is one that the word names already, and holds nothing from now on.
        if words.swap(word, word.next(LeasePhase::Off, word.first(), None)) {
            return Ok(word.phase());
        }
    }
}

/// The process that has the lock of a page; `None` if no process has, or if it is in a pid
/// namespace that this one does not see. Only the page's owner may ask.
///
/// # Errors
///
/// If the lock cannot be opened.
pub fn writer_of(path: &Path) -> Result<Option<u32>, PageError> {
    let place = Place::of(path)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    match openat(&place.folder, beside(&place, ".lock"), flags, Mode::empty()) {
        Ok(lock) => Ok(holder(&lock)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(place.failed("its lock cannot be opened", error)),
    }
}
