//! The page's memory: layout version 1. The README has it byte by byte.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::Machine;
use crate::lease::{LeaseMemory, LeasePhase, LeaseStore, LeaseWords};

/// The size of a page, bytes.
pub const PAGE_BYTES: usize = 4096;

/// The version of this layout.
pub const LAYOUT_VERSION: u32 = 1;

/// `tickline`, in the order of the bytes in memory.
const MAGIC: u64 = u64::from_ne_bytes(*b"tickline");

/// The number of this target's counter: 1 for x86-64, 2 for aarch64, 3 for riscv64, 0 for none.
pub const COUNTER: u64 = if cfg!(target_arch = "x86_64") {
    1
} else if cfg!(target_arch = "aarch64") {
    2
} else if cfg!(target_arch = "riscv64") {
    3
} else {
    0
};

const TAIL_WORDS: usize = (PAGE_BYTES - 640) / 8;

/// A page as its readers have it: mapped read-only, perhaps, so it has relaxed loads alone.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Page {
    magic: AtomicU64,
    version: AtomicU32,
    size: AtomicU32,
    boot_id: [AtomicU64; 2],
    time_namespace: AtomicU64,
    counter: AtomicU64,
    monotonic_offset_ns: AtomicU64,
    _reserved: AtomicU64,
    words: LeaseWords,
    _tail: [AtomicU64; TAIL_WORDS],
}

const _: () = assert!(size_of::<Page>() == PAGE_BYTES || cfg!(loom));
const _: () = assert!(size_of::<LeaseWords>() == 640 - 64 || cfg!(loom));
const _: () = assert!(offset_of!(Page, boot_id) == 16 && offset_of!(Page, time_namespace) == 32);
const _: () = assert!(offset_of!(Page, counter) == 40 && offset_of!(Page, monotonic_offset_ns) == 48);
const _: () = assert!(offset_of!(Page, version) == 8 && offset_of!(Page, size) == 12);
const _: () = assert!(offset_of!(Page, words) == 64);
const _: () = assert!(offset_of!(Page, _tail) == 640 || cfg!(loom));

/// Where the word is in a page.
#[cfg(all(feature = "file", target_os = "linux"))]
pub(crate) const WORD_OFFSET: usize = offset_of!(Page, words);

/// What a page says about where it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The layout's version.
    pub version: u32,
    /// The page's size, bytes.
    pub size: u32,
    /// The boot, as `/proc/sys/kernel/random/boot_id` spells it.
    pub boot_id: [u8; 16],
    /// The inode number of the writer's time namespace; 0 where there are none.
    pub time_namespace: u64,
    /// The writer's counter.
    pub counter: u64,
    /// By how much the writer's `CLOCK_MONOTONIC` is ahead of the initial namespace's, ns.
    pub monotonic_offset_ns: i64,
}

impl Header {
    /// The header of a page that is written on this machine. An offset that is not known counts as
    /// that of the initial namespace, 0: readers in other namespaces would be wrong, and
    /// `PageWriter::create` makes no such page.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        Self {
            version: LAYOUT_VERSION,
            size: 4096,
            boot_id: machine.boot_id,
            time_namespace: machine.time_namespace,
            counter: COUNTER,
            monotonic_offset_ns: machine.monotonic_offset_ns.unwrap_or(0),
        }
    }
}

/// Why a page is not claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimError {
    /// Somebody else writes to it.
    Lost,
    /// It is a page of this boot, with this header, whether or not it has a server. Readers that are
    /// attached keep to what it says.
    InUse(Header),
}

impl core::fmt::Display for ClaimError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Lost => f.write_str("another writer has changed the page"),
            Self::InUse(Header { version, counter, time_namespace, monotonic_offset_ns, .. }) => write!(
                f,
                "the page was made in this boot by a server in time namespace {time_namespace}, offset {monotonic_offset_ns} ns, for layout {version} and counter {counter}, and programs may read it: start such a server there (readlink /proc/PID/ns/time), or name another page"
            ),
        }
    }
}

impl core::error::Error for ClaimError {}

impl Page {
    /// The page that is mapped at `start`, for a reader.
    ///
    /// # Safety
    ///
    /// `start` must be a multiple of 64 (any mapping's start is). The 4096 bytes from there must be
    /// readable for all of `'a`; what changes them must do so by atomic stores of up to 8 bytes, or
    /// in another process.
    #[must_use]
    pub const unsafe fn at<'a>(start: *const u8) -> &'a Self {
        // SAFETY: aligned, readable and alive, by the caller's promise. `Page` is of atomics alone,
        // for which any bytes are valid, and which others may change.
        unsafe { &*start.cast::<Self>() }
    }

    /// What readings load.
    pub(crate) const fn words(&self) -> &LeaseWords {
        &self.words
    }

    /// Whether a file of `file_bytes` that begins so is a page of any version, or one of this version
    /// whose claim was interrupted: that has no magic, but still version and size. Many files begin with
    /// zeros. A text that begins with `tickline` has letters at the size's place.
    #[cfg(all(feature = "file", target_os = "linux"))]
    pub(crate) fn is_of_file(&self, file_bytes: u64) -> bool {
        // ORDERING: Relaxed: what is no page has no writer, and a page keeps its size.
        let order = Ordering::Relaxed;
        let (version, size) = (self.version.load(order), u64::from(self.size.load(order)));
        match self.magic.load(order) {
            MAGIC => (PAGE_BYTES as u64..=file_bytes).contains(&size),
            0 => (version, size) == (LAYOUT_VERSION, PAGE_BYTES as u64),
            _ => false,
        }
    }

    /// The header; `None` if this is no page, or one that is just being claimed.
    #[must_use]
    pub fn header(&self) -> Option<Header> {
        // Twice: a claim that begins and ends between two looks at the magic leaves that as it was.
        // Whoever has a value of such a claim in the first copy takes the second behind its end.
        let header = self.copy()?;
        (self.copy()? == header).then_some(header)
    }

    fn copy(&self) -> Option<Header> {
        // ORDERING: Relaxed for all, the only one that read-only memory allows.
        let order = Ordering::Relaxed;
        if self.magic.load(order) != MAGIC {
            return None;
        }
        // ORDERING: Acquire, pairs with the Release store of the magic in `claim`: the fields below
        // are those of that header, or of a later one.
        fence(Ordering::Acquire);
        let [first, second] = &self.boot_id;
        let header = Header {
            version: self.version.load(order),
            size: self.size.load(order),
            boot_id: joined(first.load(order), second.load(order)),
            time_namespace: self.time_namespace.load(order),
            counter: self.counter.load(order),
            monotonic_offset_ns: i64::from_ne_bytes(self.monotonic_offset_ns.load(order).to_ne_bytes()),
        };
        // ORDERING: Acquire, pairs with the Release fence in `claim`: whoever has seen a field of a
        // later header sees that the magic was taken away. No test sees a weaker one: `header` takes a
        // second copy, so it takes a claim that ends between the copy's last two loads.
        fence(Ordering::Acquire);
        (self.magic.load(order) == MAGIC).then_some(header)
    }
}

/// A page that may be stored to, and that readers may read. A writer has one; there is no way from a
/// [`Page`] to it, because that may be mapped read-only.
#[derive(Debug)]
#[repr(transparent)]
pub struct WritablePage(Page);

impl Default for WritablePage {
    fn default() -> Self {
        Self::new()
    }
}

impl core::ops::Deref for WritablePage {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.0
    }
}

impl WritablePage {
    /// A page of zeros, in the program's own memory: nobody's, and off.
    #[must_use]
    pub const fn new() -> Self {
        Self(Page {
            magic: AtomicU64::new(0),
            version: AtomicU32::new(0),
            size: AtomicU32::new(0),
            boot_id: [AtomicU64::new(0), AtomicU64::new(0)],
            time_namespace: AtomicU64::new(0),
            counter: AtomicU64::new(0),
            monotonic_offset_ns: AtomicU64::new(0),
            _reserved: AtomicU64::new(0),
            words: LeaseWords::new(),
            _tail: [const { AtomicU64::new(0) }; TAIL_WORDS],
        })
    }

    /// The page that is mapped at `start`, for its writer.
    ///
    /// # Safety
    ///
    /// As for [`Page::at`]; and the bytes must be writable for all of `'a`.
    #[must_use]
    pub const unsafe fn at<'a>(start: *mut u8) -> &'a Self {
        // SAFETY: as in `Page::at`, whose representation this type has.
        unsafe { &*start.cast::<Self>() }
    }

    /// What a [`Writer`](crate::lease::Writer) stores to.
    #[must_use]
    pub const fn words(&self) -> &LeaseWords {
        &self.0.words
    }

    /// Makes the page one of this boot, for a writer that holds the file's lock. If it is already,
    /// nothing changes. A page of another boot is switched off before its header changes, so that no
    /// reader finds an old line under a new header.
    ///
    /// # Errors
    ///
    /// [`ClaimError::InUse`] if it is a page of this boot with another header, say, by a writer in
    /// another time namespace; [`ClaimError::Lost`] if somebody else writes to the page.
    pub fn claim(&self, header: &Header) -> Result<(), ClaimError> {
        match self.header() {
            Some(found) if found == *header => return Ok(()),
            Some(found) if found.boot_id == header.boot_id => return Err(ClaimError::InUse(found)),
            _ => {}
        }
        let page = &self.0;
        let word = page.words.word();
        if !page.words.swap(word, word.next(LeasePhase::Off, word.first(), None)) {
            return Err(ClaimError::Lost);
        }
        let [first, second] = &page.boot_id;
        let (first_half, second_half) = halves(header.boot_id);
        let offset = u64::from_ne_bytes(header.monotonic_offset_ns.to_ne_bytes());
        // ORDERING: Relaxed, before the fence.
        page.magic.store(0, Ordering::Relaxed);
        // ORDERING: Release, pairs with the second Acquire fence in `header`, and with the fence of
        // a reader's first look: one that has seen a value of this header sees that the magic was
        // taken away, and the word that was swapped in before.
        fence(Ordering::Release);
        // ORDERING: Relaxed, between the fence and the store of the magic.
        let order = Ordering::Relaxed;
        page.version.store(header.version, order);
        page.size.store(header.size, order);
        first.store(first_half, order);
        second.store(second_half, order);
        page.time_namespace.store(header.time_namespace, order);
        page.counter.store(header.counter, order);
        page.monotonic_offset_ns.store(offset, order);
        // ORDERING: Release, pairs with the first Acquire fence in `header`.
        page.magic.store(MAGIC, Ordering::Release);
        Ok(())
    }
}

/// Sixteen bytes as the two words that hold them in memory.
const fn halves(bytes: [u8; 16]) -> (u64, u64) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
    (u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes([i, j, k, l, m, n, o, p]))
}

/// The reverse of [`halves`].
const fn joined(first: u64, second: u64) -> [u8; 16] {
    let ([a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]) = (first.to_ne_bytes(), second.to_ne_bytes());
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a writer of this boot.
    fn header(boot: u8) -> Header {
        let number = u64::from(boot);
        Header {
            version: u32::from(boot),
            size: u32::from(boot),
            boot_id: [boot; 16],
            time_namespace: number,
            counter: number,
            monotonic_offset_ns: i64::from(boot),
        }
    }

    #[test]
    fn ordering_a_header_is_that_of_one_claim() {
        const BOOTS: u8 = if cfg!(miri) { 40 } else { 200 };
        let page = WritablePage::new();
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=BOOTS).for_each(|boot| page.claim(&header(boot)).unwrap()));
            scope.spawn(|| {
                for _ in 0..if cfg!(miri) { 150 } else { 100_000 } {
                    let found = page.header();
                    assert!(found.is_none_or(|found| found == header(found.boot_id[0])), "{found:?}");
                }
            });
        });
        assert_eq!(page.header(), Some(header(BOOTS)));
    }
}
