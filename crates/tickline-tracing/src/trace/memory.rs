//! The memory of rings: the program's own, or a mapped file.
#![allow(unsafe_code, reason = "memory that is zero from the start, and mappings")]

#[cfg_attr(not(unix), path = "memory/other.rs")]
mod mapping;

use core::sync::atomic::AtomicU64;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

pub(crate) use mapping::Mapping;

/// Rings begin at multiples of 128 bytes: two cache lines.
const ALIGN: usize = 128;

/// Memory that stays at its place.
#[derive(Debug)]
pub(crate) enum Memory {
    /// The program's own, with 128 bytes more, as it is aligned only to a word.
    Own(Vec<AtomicU64>),
    Mapped(Mapping),
}

impl Memory {
    /// Zeros of the program's own. Nothing writes them: an allocator takes so much memory from the
    /// system, where it is committed page by page, as it is first written.
    pub(crate) fn own(words: usize) -> Self {
        let words = words + ALIGN / 8;
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

    pub(crate) fn words(&self) -> &[AtomicU64] {
        match self {
            Self::Own(words) => &words[words.as_ptr().align_offset(ALIGN)..],
            Self::Mapped(mapping) => mapping.words(),
        }
    }
}
