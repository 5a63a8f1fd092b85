//! The page's memory: layout version 1. The README has it byte by byte.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::BootContext;
use crate::lease::LeaseWords;

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

/// A page as its readers have it. It may be mapped read-only, so all accesses are relaxed loads.
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
    /// The header of a page that is written on this machine. An unknown offset counts as that of
    /// the initial namespace, 0. Readers in other namespaces would then be wrong, so
    /// `LockedPageFile::create` makes no such page.
    #[must_use]
    pub fn of(context: &BootContext) -> Self {
        Self {
            version: LAYOUT_VERSION,
            size: 4096,
            boot_id: context.boot_id,
            time_namespace: context.time_namespace,
            counter: COUNTER,
            monotonic_offset_ns: context.monotonic_offset_ns.unwrap_or(0),
        }
    }
}

impl Page {
    /// The page that is mapped at `start`, for a reader.
    ///
    /// # Safety
    ///
    /// `start` must be a multiple of 64 (any mapping's start is). The 4096 bytes from there must be
    /// readable for all of `'a`. Every change of these bytes must be by atomic stores of up to 8
    /// bytes, or by another process.
    #[must_use]
    pub const unsafe fn at<'a>(start: *const u8) -> &'a Self {
        // SAFETY: aligned, readable and alive, by the caller's promise. `Page` has only atomics.
        // Any bytes are valid for them, and others may change them.
        unsafe { &*start.cast::<Self>() }
    }

    /// What readings load.
    pub(crate) const fn words(&self) -> &LeaseWords {
        &self.words
    }

    /// The header; `None` if this is not a page.
    #[must_use]
    pub fn header(&self) -> Option<Header> {
        // ORDERING: Relaxed for all, the only one that read-only memory allows: a page gets its
        // file's name when its header is complete, and keeps that header.
        let order = Ordering::Relaxed;
        if self.magic.load(order) != MAGIC {
            return None;
        }
        let mut boot_id = [0; 16];
        for (bytes, half) in boot_id.chunks_exact_mut(8).zip(&self.boot_id) {
            bytes.copy_from_slice(&half.load(order).to_ne_bytes());
        }
        Some(Header {
            version: self.version.load(order),
            size: self.size.load(order),
            boot_id,
            time_namespace: self.time_namespace.load(order),
            counter: self.counter.load(order),
            monotonic_offset_ns: self.monotonic_offset_ns.load(order).cast_signed(),
        })
    }
}

/// A page to which its writer may store while readers read it. A [`Page`] can't become one, because
/// it may be mapped read-only.
#[derive(Debug)]
#[repr(transparent)]
pub struct WritablePage(Page);

impl core::ops::Deref for WritablePage {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.0
    }
}

impl WritablePage {
    /// A page that is off, in the program's own memory.
    #[must_use]
    pub fn new(header: &Header) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = header.boot_id;
        let half = |bytes| AtomicU64::new(u64::from_ne_bytes(bytes));
        Self(Page {
            magic: AtomicU64::new(MAGIC),
            version: AtomicU32::new(header.version),
            size: AtomicU32::new(header.size),
            boot_id: [half([a, b, c, d, e, f, g, h]), half([i, j, k, l, m, n, o, p])],
            time_namespace: AtomicU64::new(header.time_namespace),
            counter: AtomicU64::new(header.counter),
            monotonic_offset_ns: AtomicU64::new(header.monotonic_offset_ns.cast_unsigned()),
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

    /// What a [`Writer`](crate::protocol::Writer) stores to.
    #[doc(hidden)]
    #[must_use]
    pub const fn words(&self) -> &LeaseWords {
        &self.0.words
    }
}
