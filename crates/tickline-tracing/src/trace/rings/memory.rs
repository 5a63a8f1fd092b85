//! The memory of rings: allocated, or a mapped file.
#![allow(unsafe_code, reason = "zeroed allocations, and mappings")]

#[cfg_attr(not(unix), path = "memory/other.rs")]
mod mapping;

use core::sync::atomic::AtomicU64;
use std::alloc::{Layout, alloc_zeroed};

pub(crate) use mapping::Mapping;

/// Rings begin at multiples of 128 bytes: two cache lines.
const ALIGN: usize = 128;

/// Memory whose address does not change.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Allocated memory: 128 bytes more than needed, because it is aligned only to a word.
    Allocated(Vec<AtomicU64>),
    Mapped(Mapping),
}

impl Memory {
    /// Allocates zeroed memory; `None` if the system has too little. The allocator takes so large a
    /// block directly from the system, which commits each page at the first write to it.
    pub(crate) fn allocate(words: usize) -> Option<Self> {
        let words = words + ALIGN / 8;
        // BOUND: `capacity` is at most a quarter of the address space.
        let layout = Layout::array::<AtomicU64>(words).expect("less than the address space");
        // SAFETY: the size of the layout is not 0.
        let start = unsafe { alloc_zeroed(layout) }.cast::<AtomicU64>();
        if start.is_null() {
            return None;
        }
        // SAFETY: it was allocated with the layout of `words` atomics; zeros are valid atomics.
        Some(Self::Allocated(unsafe {
            Vec::from_raw_parts(start, words, words)
        }))
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        match self {
            Self::Allocated(words) => &words[words.as_ptr().align_offset(ALIGN)..],
            Self::Mapped(mapping) => mapping.words(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: the first span of a program ended it ("memory allocation of ... bytes failed").
    #[test]
    #[cfg(target_pointer_width = "64")]
    #[cfg_attr(miri, ignore = "Miri ends at such an allocation")]
    fn too_little_memory_ends_no_program() {
        assert!(Memory::allocate(usize::MAX / 32).is_none());
    }
}
