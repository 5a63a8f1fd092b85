//! Shifts heap and stack, so that a measurement does not depend on where they happen to be.
//!
//! The same code takes another time at other addresses: caches and the store buffer compare some
//! bits of an address, and so does the branch predictor. Two byte-identical programs differ by up
//! to 7 % for as long as each stays where it is. Measurements of only one placement are therefore
//! biased (Mytkowicz and others, Producing Wrong Data Without Doing Anything Obviously Wrong,
//! 2009), and placement must be part of what is sampled (Curtsinger and Berger, Stabilizer, 2013).
//!
//! | shifted | by | when |
//! |---|---|---|
//! | pages of the program's file | a copy of the program (`program_copy.rs`) | each process of `--against` |
//! | start of the stack | the length of an environment variable | each process of `--against` |
//! | start of the heap | blocks of random sizes that stay allocated | each process of `--against`, before its benchmarks make anything |
//! | free blocks of the heap | blocks of random sizes, half of them freed | each slice of `--against`; each stretch of [`compare`](crate::compare) |
//! | present end of the stack | a random number of frames | as above |
//!
//! Address randomisation moves heap, stack and code by whole pages; these shifts are smaller than a
//! page, and also work without it (`setarch -R`). The place of code within its page is the linker's
//! choice, and stays.

use std::hint::black_box;

use crate::number::{index, random_below};

/// A page, bytes: the shifts cover all places within it.
const PAGE: u64 = 4_096;

/// The unit of a shift, bytes: what allocators and stacks align to.
const UNIT: u64 = 16;

/// The number and the largest size of the blocks that change the allocator's lists of free blocks.
/// 256 blocks of all sizes up to half a KiB are what small objects come from.
const BLOCKS: u64 = 256;
const MAX_BLOCK: u64 = 512;

/// The largest number of frames of [`on_shifted_stack`]: they cover a page.
const MAX_FRAMES: u64 = PAGE / UNIT;

/// A value for an environment variable, whose length shifts the stack of a new process.
pub(crate) fn padding() -> String {
    "x".repeat(index(UNIT * random_below(PAGE / UNIT)))
}

/// Allocates a block that stays until the process ends. Later blocks are therefore elsewhere.
pub(crate) fn shift_heap_start() {
    let bytes = index(UNIT * (1 + random_below(PAGE / UNIT)));
    black_box(vec![0_u8; bytes].leak());
}

/// Blocks that change which addresses the allocator gives out next.
#[derive(Debug, Default)]
pub(crate) struct HeapShift(Vec<Vec<u8>>);

impl HeapShift {
    /// Allocates blocks of random sizes, then frees half of them, and the blocks of the last shift.
    pub(crate) fn shift(&mut self) {
        let block = |_| vec![0_u8; index(UNIT * (1 + random_below(MAX_BLOCK / UNIT)))];
        let mut blocks: Vec<Vec<u8>> = black_box((0..BLOCKS).map(block).collect());
        blocks.retain(|_| random_below(2) == 0);
        self.0 = blocks;
    }
}

/// Calls `body` below a random number of frames.
pub(crate) fn on_shifted_stack<R>(body: &mut dyn FnMut() -> R) -> R {
    below_frames(random_below(MAX_FRAMES), body)
}

#[inline(never)]
fn below_frames<R>(frames: u64, body: &mut dyn FnMut() -> R) -> R {
    if frames == 0 {
        return body();
    }
    // The frame is used after the call. Otherwise the call would be a jump, without a frame.
    let frame = black_box(frames);
    let result = below_frames(frames - 1, body);
    black_box(frame);
    result
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// How many places of `unit` bytes within a page the addresses are at.
    fn places(addresses: impl Iterator<Item = usize>) -> usize {
        let places: BTreeSet<usize> = addresses
            .map(|address| address % index(PAGE) / index(UNIT))
            .collect();
        places.len()
    }

    #[test]
    fn the_stack_is_at_many_places_of_a_page() {
        let local = |_| {
            on_shifted_stack(&mut || {
                let local = 0_u8;
                std::ptr::from_ref(black_box(&local)).addr()
            })
        };
        let places = places((0..400).map(local));
        assert!(places > 40, "{places}");
    }

    #[test]
    fn small_blocks_of_one_size_are_at_many_places_of_a_page() {
        let mut shift = HeapShift::default();
        let block = |_| {
            shift.shift();
            let block = vec![0_u8; 64];
            black_box(&block).as_ptr().addr()
        };
        let places = places((0..100).map(block));
        assert!(places > 10, "{places}");
    }

    #[test]
    fn the_padding_has_many_lengths_below_a_page() {
        let lengths: BTreeSet<usize> = (0..100).map(|_| padding().len()).collect();
        assert!(lengths.len() > 20, "{lengths:?}");
        assert!(lengths.iter().all(|length| *length < index(PAGE)));
    }
}
