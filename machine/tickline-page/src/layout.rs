//! The page's memory: layout version 1. The README describes each byte.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tickline_core::clocksource::Clocksource;
use tickline_core::counter::HardwareCounter;

use crate::BootContext;
use crate::lease::memory::LeaseCell;

/// The size of a page, bytes.
pub const PAGE_BYTES: usize = 4096;

/// The version of this layout.
pub const LAYOUT_VERSION: u32 = 1;

/// The first 8 bytes of a page: `tickline`, in the byte order of the machine.
const MAGIC: u64 = u64::from_ne_bytes(*b"tickline");

/// The id of this target's counter: 1 for x86-64, 2 for aarch64, 3 for riscv64, 0 for none.
pub const COUNTER_ID: u64 = counter_id(HardwareCounter::CLOCKSOURCE);

/// The id of the counter with which the kernel keeps time as this clocksource; 0 if no page can be
/// for it.
const fn counter_id(clocksource: Clocksource) -> u64 {
    match clocksource {
        Clocksource::Tsc => 1,
        Clocksource::ArchSysCounter => 2,
        Clocksource::Riscv => 3,
        _ => 0,
    }
}

const TAIL_WORDS: usize = (PAGE_BYTES - 640) / 8;

/// A page, for its readers. It may be mapped read-only, so all accesses are relaxed loads.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Page {
    magic: AtomicU64,
    version: AtomicU32,
    size: AtomicU32,
    boot_id: [AtomicU64; 2],
    time_namespace: AtomicU64,
    counter_id: AtomicU64,
    monotonic_offset_ns: AtomicU64,
    _reserved: AtomicU64,
    cell: LeaseCell,
    _tail: [AtomicU64; TAIL_WORDS],
}

const _: () = assert!(size_of::<Page>() == PAGE_BYTES || cfg!(loom));
const _: () = assert!(size_of::<LeaseCell>() == 640 - 64 || cfg!(loom));
const _: () = assert!(offset_of!(Page, boot_id) == 16 && offset_of!(Page, time_namespace) == 32);
const _: () =
    assert!(offset_of!(Page, counter_id) == 40 && offset_of!(Page, monotonic_offset_ns) == 48);
const _: () = assert!(offset_of!(Page, version) == 8 && offset_of!(Page, size) == 12);
const _: () = assert!(offset_of!(Page, cell) == 64);
const _: () = assert!(offset_of!(Page, _tail) == 640 || cfg!(loom));

/// The header of a page. Readers compare it with their own boot, counter and time namespace
/// ([`Page::attach`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The layout's version.
    pub version: u32,
    /// The page's size, bytes.
    pub size: u32,
    /// The id of the writer's boot ([`BootContext::boot_id`]).
    pub boot_id: [u8; 16],
    /// The inode number of the writer's time namespace; 0 if the kernel has none.
    pub time_namespace: u64,
    /// The id of the writer's counter ([`COUNTER_ID`]).
    pub counter_id: u64,
    /// `CLOCK_MONOTONIC` in the writer's time namespace minus that in the initial one, ns.
    pub monotonic_offset_ns: i64,
}

impl Header {
    /// The header of a page whose writer runs in `context`. `None` if the offset of the writer's
    /// time namespace is not known: readers in other namespaces need it.
    #[must_use]
    pub fn new(context: &BootContext) -> Option<Self> {
        Some(Self {
            version: LAYOUT_VERSION,
            size: u32::try_from(PAGE_BYTES).unwrap_or(u32::MAX),
            boot_id: context.boot_id,
            time_namespace: context.time_namespace,
            counter_id: COUNTER_ID,
            monotonic_offset_ns: context.monotonic_offset_ns?,
        })
    }
}

impl Page {
    /// The page at `start`, for a reader.
    ///
    /// # Safety
    ///
    /// `start` must be a multiple of 64 (any mapping's start is). The 4096 bytes from there must be
    /// readable for all of `'a`. Every change of these bytes must be by atomic stores of up to 8
    /// bytes, or by another process.
    #[must_use]
    pub const unsafe fn from_ptr<'a>(start: *const u8) -> &'a Self {
        // SAFETY: the caller promises that the bytes are aligned, readable and alive. `Page` has
        // only atomics, for which any bytes are valid, and which the writer may change.
        unsafe { &*start.cast::<Self>() }
    }

    /// The word and the slots, for readings.
    pub(crate) const fn cell(&self) -> &LeaseCell {
        &self.cell
    }

    /// The header; `None` if this is not a page.
    #[must_use]
    pub fn header(&self) -> Option<Header> {
        // ORDERING: Relaxed for all, because read-only memory allows no other. It suffices: the
        // page's file gets its name only when the header is complete, and the header never changes.
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
            counter_id: self.counter_id.load(order),
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
            boot_id: [
                half([a, b, c, d, e, f, g, h]),
                half([i, j, k, l, m, n, o, p]),
            ],
            time_namespace: AtomicU64::new(header.time_namespace),
            counter_id: AtomicU64::new(header.counter_id),
            monotonic_offset_ns: AtomicU64::new(header.monotonic_offset_ns.cast_unsigned()),
            _reserved: AtomicU64::new(0),
            cell: LeaseCell::new(),
            _tail: [const { AtomicU64::new(0) }; TAIL_WORDS],
        })
    }

    /// The page at `start`, for its writer.
    ///
    /// # Safety
    ///
    /// The conditions of [`Page::from_ptr`]; and the bytes must be writable for all of `'a`.
    #[must_use]
    pub const unsafe fn from_ptr<'a>(start: *mut u8) -> &'a Self {
        // SAFETY: the caller promises that the bytes are aligned, readable, writable and alive. The
        // type has the representation of `Page`, which has only atomics.
        unsafe { &*start.cast::<Self>() }
    }

    /// The word and the slots, for a [`Writer`](crate::lease::Writer).
    #[must_use]
    pub const fn cell(&self) -> &LeaseCell {
        &self.0.cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages outlive a release.
    #[test]
    fn each_counter_keeps_its_id() {
        let counters = [
            Clocksource::Tsc,
            Clocksource::ArchSysCounter,
            Clocksource::Riscv,
        ];
        assert_eq!(counters.map(counter_id), [1, 2, 3]);
    }

    #[test]
    fn a_timer_is_no_pages_counter() {
        assert_eq!(counter_id(Clocksource::Hpet), 0);
    }
}
