//! The memory of rings: the program's own, or a mapped file.
#![allow(unsafe_code, reason = "a ring is a view of memory, which may be a mapping")]

#[cfg_attr(not(unix), path = "memory/other.rs")]
mod mapping;

use core::ops::{Deref, Range};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::{ptr, slice};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::sync::Arc;

use super::ring::{HEAD_WORDS, Ring, capacity};
pub(crate) use mapping::Mapping;

/// Words of a [`Chunk`].
pub(crate) const CHUNK: usize = 16;

/// 128 bytes, aligned to as many: two cache lines.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Chunk(pub(crate) [AtomicU64; CHUNK]);

/// Memory that stays at its place.
#[derive(Debug)]
pub(crate) enum Memory {
    /// The program's own, with room for one chunk more, as it is aligned to a word only.
    Own(Vec<AtomicU64>),
    Mapped(Mapping),
}

impl Memory {
    /// Zeros of the program's own. Nothing writes them: an allocator takes so much memory from the
    /// system, where it is committed page by page, as it is first written.
    pub(crate) fn own(chunks: usize) -> Self {
        let words = (chunks + 1) * CHUNK;
        // BOUND: `capacity` is at most a quarter of the address space.
        let layout = Layout::array::<AtomicU64>(words).expect("less than the address space");
        // SAFETY: the layout has a size.
        let start = unsafe { alloc_zeroed(layout) }.cast::<AtomicU64>();
        if start.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: it was allocated with the layout of so many atomics, which are 0.
        Self::Own(unsafe { Vec::from_raw_parts(start, words, words) })
    }

    pub(crate) fn chunks(&self) -> &[Chunk] {
        match self {
            Self::Own(words) => {
                let aligned = &words[words.as_ptr().align_offset(align_of::<Chunk>())..];
                // SAFETY: chunks are atomics, aligned as this, and all but one fit in there.
                unsafe { slice::from_raw_parts(aligned.as_ptr().cast(), words.len() / CHUNK - 1) }
            }
            Self::Mapped(mapping) => mapping.chunks(),
        }
    }

    /// Lets another recorder have the file, though rings may still be there.
    pub(crate) fn unlock(&self) {
        if let Self::Mapped(mapping) = self {
            mapping.unlock();
        }
    }
}

/// A ring, and its memory.
#[derive(Debug)]
pub(crate) struct RingBox {
    /// Lives as long as the memory.
    ring: &'static Ring,
    memory: Arc<Memory>,
    /// Whether another thread may have the ring after this.
    is_forgotten: AtomicBool,
}

impl RingBox {
    /// Chunks of a ring with as many words for records.
    pub(crate) const fn chunks(capacity: usize) -> usize {
        (HEAD_WORDS + capacity) / CHUNK
    }

    /// A ring of at least `bytes` bytes, and at least four blocks, in memory of its own.
    pub(crate) fn new(bytes: usize) -> Self {
        let chunks = Self::chunks(capacity(bytes));
        Self::within(Arc::new(Memory::own(chunks)), 0..chunks)
    }

    /// The ring in this part of the memory for a thread, if none has it.
    pub(crate) fn claimed(memory: &Arc<Memory>, part: Range<usize>, number: u64, name: &str) -> Option<Self> {
        let is_free = ring(&memory.chunks()[part.clone()]).claim(number, name);
        is_free.then(|| Self::within(Arc::clone(memory), part))
    }

    /// The ring in this part of the memory, which has [`chunks`](Self::chunks).
    pub(crate) fn within(memory: Arc<Memory>, part: Range<usize>) -> Self {
        let ring = ptr::from_ref(ring(&memory.chunks()[part]));
        // SAFETY: the memory stays where it is while this holds it, and `deref` lends no longer.
        Self { ring: unsafe { &*ring }, memory, is_forgotten: AtomicBool::new(false) }
    }

    /// Lets another thread have the ring once nobody has this. Until then its records are in the
    /// file, even if the recorder is gone.
    pub(crate) fn forget(&self) {
        // ORDERING: Relaxed, read by the last owner.
        self.is_forgotten.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_mapped(&self) -> bool {
        matches!(*self.memory, Memory::Mapped(_))
    }
}

/// These chunks as a ring.
fn ring(chunks: &[Chunk]) -> &Ring {
    let words = chunks.len() * CHUNK - HEAD_WORDS;
    assert!(words.is_power_of_two(), "{words} words");
    let ring = ptr::slice_from_raw_parts(chunks.as_ptr().cast::<AtomicU64>(), words) as *const Ring;
    // SAFETY: a ring is the atomics of its head, and `words` more, aligned as chunks are.
    unsafe { &*ring }
}

impl Deref for RingBox {
    type Target = Ring;

    #[inline]
    fn deref(&self) -> &Ring {
        self.ring
    }
}

impl Drop for RingBox {
    fn drop(&mut self) {
        if *self.is_forgotten.get_mut() {
            self.ring.release();
        }
    }
}
