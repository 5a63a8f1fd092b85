//! A ring of 64-bit words with the records of the thread that writes it. Another thread reads it.
//!
//! There is no lock. Only the ring's thread writes records. Every word is an atomic, so a reader
//! may copy the words at any time. Afterwards the reader determines which words were overwritten
//! meanwhile. No record crosses the end of a block of [`BLOCK`] words. Each block begins with the
//! number of records before it. A reader can therefore begin at any block, and knows how many
//! records are lost.
//!
//! A ring is used in one of two ways. If a reader takes the records ([`Ring::set_taken`]), the
//! thread does not overwrite records that were not taken yet, and may have no room for new ones. If
//! no reader takes records, new records overwrite the oldest.
//!
//! # How a ring grows
//!
//! A thread uses no more blocks of the ring than it needs for records that are young enough. The
//! used blocks form a circle: each block has the index of the block that is overwritten after it.
//! At the end of a block the thread examines the next block of the circle, which is the oldest. If
//! its records are old enough, the thread overwrites that block. Otherwise the thread inserts an
//! unused block before it. No record moves, and none is lost, until all blocks are used. A ring
//! never becomes smaller.
//!
//! ```text
//! used:          A -> B -> C -> A      the thread writes to B, so C is the oldest
//! C is young:    A -> B -> D -> C -> A
//! ```
//!
//! The blocks' order in memory is therefore not the order of their records. Each block has the
//! position of its end among all words that were ever written, by which a reader sorts the blocks.
//! If every record counts as young, the blocks are in order of memory, in each lap.
//!
//! Rejected: a circle that grows only after its last block in memory. It needs no sort, but a
//! thread that becomes busy in the middle of a lap overwrites young records until the lap ends.

use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::Arc;

use super::memory::Memory;
use super::record::{BLOCK, Kind, Record, Word, index};
use crate::trace::sys::cpu_clock::CpuClock;

// The indices of the words at the beginning of a block.
/// [`Kind::Block`].
const KIND: u64 = 0;
/// The number of records before this block.
const RECORDS: u64 = 1;
/// The index in memory, in words, of the block that is overwritten after this block.
const NEXT: u64 = 2;
/// The position of this block's end among all words that were ever written; 0 if the thread has not
/// used the block yet.
const END: u64 = 3;
/// The time of the block's first record, ns of `CLOCK_MONOTONIC`.
const SINCE: u64 = 4;
/// The number of these words.
pub(super) const BLOCK_HEADER: u64 = 5;

/// The control words at the beginning of a ring, which the thread's name follows. A position counts
/// all words that were ever written to the ring.
pub(crate) enum ControlWord {
    /// The position of the next record. All records before it are complete. Only the ring's thread
    /// writes this word and those from here to `Ended`.
    WritePosition,
    /// The index of the present block in memory, minus its position.
    MemoryOffset,
    /// The number of words in used blocks, which are the first blocks in memory.
    Used,
    /// The number of records so far, including overwritten records, but neither beginnings of
    /// blocks nor repeated beginnings of spans.
    Records,
    /// The number of records that found no room.
    Dropped,
    /// 1 once the thread has ended.
    Ended,
    /// 1 while the ring belongs to a thread, or is kept after its end.
    InUse,
    /// The thread's number.
    Number,
    /// The position up to which records were taken. The reader writes it, so it is two cache lines
    /// after `WritePosition`.
    Taken = 16,
}

/// The thread's name and zeros: room for 120 bytes. Longer names are truncated.
const NAME: Range<usize> = ControlWord::Taken as usize + 1..CONTROL_WORDS;

/// The number of words before the blocks.
pub(crate) const CONTROL_WORDS: usize = 32;

/// The limit of words that a reader copies at once, 64 KiB: the copies stay in the CPU's cache.
const COPIED_AT_ONCE: u64 = 2 * BLOCK;

/// The words for a ring of at least `bytes` bytes: at least four blocks, and a power of two.
pub(crate) fn capacity(bytes: usize) -> usize {
    let block = index(BLOCK) * 8;
    let blocks = bytes
        .div_ceil(block)
        .clamp(4, usize::MAX / block / 4)
        .next_power_of_two();
    blocks * index(BLOCK)
}

/// A view of the memory of a ring, which is allocated or in a file.
#[derive(Debug)]
pub(crate) struct Ring {
    control_words: &'static [AtomicU64; CONTROL_WORDS],
    words: &'static [AtomicU64],
    /// The memory that contains the words.
    memory: Arc<Memory>,
    /// Whether another thread may claim the ring once this view is dropped.
    is_released: AtomicBool,
    /// The clock of the thread's CPU time, if the settings ask for it and the system has it.
    pub(crate) cpu_clock: Option<CpuClock>,
}

impl Ring {
    /// Allocates a ring of at least `bytes` bytes, and at least four blocks; `None` if the system
    /// has too little memory.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let words = CONTROL_WORDS + capacity(bytes);
        let memory = Arc::new(Memory::allocate(words)?);
        Some(Self::within(memory, 0..words))
    }

    /// The ring in this part of the memory: [`CONTROL_WORDS`] and a power of two.
    #[allow(unsafe_code, reason = "a ring keeps the memory that it is a view of")]
    pub(crate) fn within(memory: Arc<Memory>, part: Range<usize>) -> Self {
        let words = ptr::from_ref(&memory.words()[part]);
        // SAFETY: the ring keeps the memory, whose address does not change, and no method lends it
        // for longer than the ring lives.
        let words: &'static [AtomicU64] = unsafe { &*words };
        let (control_words, words) = words
            .split_first_chunk()
            .expect("more words than control words");
        assert!(words.len().is_power_of_two(), "{} words", words.len());
        Self {
            control_words,
            words,
            memory,
            is_released: AtomicBool::new(false),
            cpu_clock: None,
        }
    }

    /// Lets another thread claim the ring once the last owner has dropped this view. Until then the
    /// records stay in the file, even if the recorder is gone.
    pub(crate) fn release(&self) {
        // ORDERING: Relaxed: `drop` loads it, and has exclusive access.
        self.is_released.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_mapped(&self) -> bool {
        matches!(*self.memory, Memory::Mapped(_))
    }

    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.words.len() as u64
    }

    #[inline]
    fn control_word(&self, word: ControlWord) -> &AtomicU64 {
        &self.control_words[word as usize]
    }

    #[inline]
    pub(crate) fn get(&self, word: ControlWord) -> u64 {
        // ORDERING: Relaxed. The thread's own words, and counts, order no other memory. A lock
        // publishes the words of `claim` to other threads.
        self.control_word(word).load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, word: ControlWord, value: u64) {
        // ORDERING: Relaxed: see `get`.
        self.control_word(word).store(value, Ordering::Relaxed);
    }

    #[inline]
    fn word(&self, position: u64) -> &AtomicU64 {
        // BOUND: the length is a power of two.
        &self.words[index(position) & (self.words.len() - 1)]
    }

    /// Claims the ring for a thread, if it is unused. Returns whether it was unused.
    pub(crate) fn claim(&self, number: u64, name: &str) -> bool {
        let in_use = self.control_word(ControlWord::InUse);
        // ORDERING: Acquire, pairs with the Release store in `drop`: the stores of the thread
        // before come before this thread's stores. No test sees a weaker ordering: in Miri, stores
        // to one address take effect in the order in which they run.
        if in_use
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        for block in (0..self.get(ControlWord::Used).min(self.capacity())).step_by(index(BLOCK)) {
            self.set_header(block, END, 0);
        }
        self.set_header(0, NEXT, 0);
        use ControlWord::{Dropped, Ended, MemoryOffset, Records, Taken, Used, WritePosition};
        for word in [
            WritePosition,
            MemoryOffset,
            Used,
            Records,
            Dropped,
            Ended,
            Taken,
        ] {
            self.set(word, 0);
        }
        self.set(ControlWord::Number, number);
        let words = name
            .as_bytes()
            .chunks(8)
            .map(packed)
            .chain(core::iter::repeat(0));
        // ORDERING: Relaxed: a lock publishes the name to other threads.
        self.control_words[NAME]
            .iter()
            .zip(words)
            .for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        true
    }

    /// The name of the ring's thread.
    pub(crate) fn name(&self) -> String {
        // ORDERING: Relaxed: a lock publishes the name to this thread.
        let words = self.control_words[NAME]
            .iter()
            .map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        let bytes: Vec<u8> = words.flatten().take_while(|byte| *byte != 0).collect();
        // The name may have been truncated inside a character.
        String::from_utf8_lossy(&bytes)
            .trim_end_matches(char::REPLACEMENT_CHARACTER)
            .to_owned()
    }

    // Methods for the ring's thread.

    /// The position of the next record.
    #[inline]
    pub(crate) fn write_position(&self) -> u64 {
        self.get(ControlWord::WritePosition)
    }

    /// The number of words that are left in the present block; 0 before the first block.
    #[inline]
    pub(crate) fn left(&self) -> u64 {
        self.write_position().wrapping_neg() & (BLOCK - 1)
    }

    /// A word in the header of the block with the index `block` in memory.
    fn header_word(&self, block: u64, word: u64) -> &AtomicU64 {
        self.word(block.wrapping_add(word))
    }

    fn set_header(&self, block: u64, word: u64, value: u64) {
        // ORDERING: Relaxed. `begin_block` stores `END` before its fence; the store of the write
        // position publishes the other words to readers.
        self.header_word(block, word)
            .store(value, Ordering::Relaxed);
    }

    /// Fills the present block up, and begins the next block, for a record of the time `now_ns`.
    /// Overwrites no record from `since_ns` or later while the ring has unused blocks.
    pub(crate) fn begin_block(&self, now_ns: u64, since_ns: u64) {
        // ORDERING: Relaxed: only this thread stores these words.
        let header = |block, word| self.header_word(block, word).load(Ordering::Relaxed);
        let (at, used) = (self.write_position(), self.get(ControlWord::Used));
        let in_memory = |position: u64| position.wrapping_add(self.get(ControlWord::MemoryOffset));
        if self.left() > 0 {
            // ORDERING: Relaxed: the store of the write position publishes it.
            self.word(in_memory(at)).store(0, Ordering::Relaxed);
        }
        let present = in_memory(at.saturating_sub(1)) & !(BLOCK - 1);
        let oldest = header(present, NEXT);
        let second = header(oldest, NEXT);
        // All records of the oldest block are from before the first record of the second.
        let is_young = used < 2 * BLOCK || header(second, SINCE) >= since_ns;
        let (block, next) = if is_young && used < self.capacity() {
            (used, oldest)
        } else {
            (oldest, second)
        };
        let start = at + self.left();
        self.set_header(block, END, start + BLOCK);
        // ORDERING: Release, pairs with the Acquire fence in `snapshot`. A reader that has copied
        // one of the words stored below, or a word of the block's new records, then sees the new
        // `END`.
        fence(Ordering::Release);
        self.set_header(block, KIND, Kind::Block as u64);
        self.set_header(block, RECORDS, self.get(ControlWord::Records));
        self.set_header(block, NEXT, next);
        self.set_header(block, SINCE, now_ns);
        // Readers do not load `NEXT`.
        self.set_header(present, NEXT, block);
        self.set(ControlWord::Used, used.max(block + BLOCK));
        self.set(ControlWord::MemoryOffset, block.wrapping_sub(start));
        self.publish(start + BLOCK_HEADER);
    }

    /// Adds a record. The present block must have room for it.
    #[inline(always)]
    pub(crate) fn push(&self, record: &Record<'_>) {
        let at = self.write_position();
        let kind_and_length = record.kind as u64 | (record.payload.len() as u64) << 8;
        let first = index(at.wrapping_add(self.get(ControlWord::MemoryOffset)));
        // The record is within one block, unless a child by a bare `clone` has moved the write
        // position.
        let words = self
            .words
            .get(first..first.wrapping_add(index(record.words())));
        let Some(words) = words else { return };
        let head = [
            kind_and_length,
            record.ns,
            record.callsite as u64,
            record.id,
            record.parent,
        ];
        let (head_words, payload_words) = words.split_at(index(record.kind.head_words()));
        for (atomic, word) in head_words.iter().zip(head) {
            // ORDERING: Relaxed: the store of the write position publishes it.
            atomic.store(word, Ordering::Relaxed);
        }
        if let Some((last, payload_words)) = payload_words.split_last() {
            // `packed` calls `memcpy` for a slice, but is a load for an array.
            let (whole, _) = record.payload.as_chunks();
            for (atomic, bytes) in payload_words.iter().zip(whole) {
                // ORDERING: Relaxed: the store of the write position publishes it.
                atomic.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
            }
            let rest = &record.payload[payload_words.len() * 8..];
            // ORDERING: Relaxed: the store of the write position publishes it.
            last.store(packed(rest), Ordering::Relaxed);
        }
        let counts = u64::from(!matches!(
            record.kind,
            Kind::RepeatedBegin | Kind::Unrepeated
        ));
        self.set(
            ControlWord::Records,
            self.get(ControlWord::Records) + counts,
        );
        self.publish(at.wrapping_add(record.words()));
    }

    /// Publishes all words before the position `end`.
    #[inline]
    fn publish(&self, end: u64) {
        // ORDERING: Release, pairs with the Acquire load in `end`.
        self.control_word(ControlWord::WritePosition)
            .store(end, Ordering::Release);
    }

    /// The position up to which the reader has taken records.
    #[inline]
    pub(crate) fn taken(&self) -> u64 {
        // ORDERING: Acquire, pairs with the Release store in `set_taken`: the reader has copied the
        // words before the thread overwrites them.
        self.control_word(ControlWord::Taken)
            .load(Ordering::Acquire)
    }

    /// Whether the reader has taken so many records that `words` more words have room.
    #[inline]
    pub(crate) fn has_room(&self, words: u64) -> bool {
        self.write_position() + words <= self.taken() + self.capacity()
    }

    /// Counts a record that found no room.
    pub(crate) fn count_dropped(&self) {
        self.set(ControlWord::Dropped, self.get(ControlWord::Dropped) + 1);
    }

    /// Marks the end of the thread, which writes nothing more.
    pub(crate) fn end_thread(&self) {
        // ORDERING: Release, pairs with the Acquire load in `has_ended`: a reader that sees the end
        // also sees the last records.
        self.control_word(ControlWord::Ended)
            .store(1, Ordering::Release);
    }

    // Methods for readers, and for the recorder.

    pub(crate) fn has_ended(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release store in `end_thread`.
        self.control_word(ControlWord::Ended)
            .load(Ordering::Acquire)
            == 1
    }

    /// The position of the end of the records.
    pub(crate) fn end(&self) -> u64 {
        // ORDERING: Acquire, pairs with the Release store in `publish`.
        self.control_word(ControlWord::WritePosition)
            .load(Ordering::Acquire)
    }

    /// Copies the words at these positions, which were not taken yet, but at most
    /// [`COPIED_AT_ONCE`]. Returns the positions of the copied words. No record crosses their end.
    pub(crate) fn copy(&self, positions: Range<u64>, words: &mut Vec<Word>) -> Range<u64> {
        let Range { start, end } = positions;
        // No record crosses the end of a block.
        let end = end.min((start & !(BLOCK - 1)) + COPIED_AT_ONCE);
        words.clear();
        // The words are in two parts, if the end of the ring is between them.
        let first = index(start) & (self.words.len() - 1);
        let (whole, len) = (self.words.len(), index(end - start));
        let parts = [
            first..whole.min(first + len),
            0..(first + len).saturating_sub(whole),
        ];
        for part in parts {
            words.extend(self.words.get(part).unwrap_or_default().iter().map(copy));
        }
        start..end
    }

    /// Lets the thread overwrite the words before `position`.
    pub(crate) fn set_taken(&self, position: u64) {
        // ORDERING: Release, pairs with the Acquire load in `taken`.
        self.control_word(ControlWord::Taken)
            .store(position, Ordering::Release);
    }

    /// Copies the records of a ring that overwrites its oldest records, from the beginning of a
    /// block. The thread may continue to write meanwhile.
    pub(crate) fn snapshot(&self) -> Vec<Word> {
        let end = self.end();
        // ORDERING: Relaxed. If a block begins before `end`, the load of the write position has
        // published its words up to `end`. In a file the words may be anything.
        let end_of = |block: &[AtomicU64]| block[index(END)].load(Ordering::Relaxed);
        let blocks = self
            .words
            .chunks_exact(index(BLOCK))
            .map(|block| (end_of(block), block));
        // Skips blocks that the thread has not used yet, or has begun after that load.
        let mut blocks: Vec<_> = blocks
            .filter(|(to, _)| *to > 0 && to.saturating_sub(BLOCK) < end)
            .collect();
        blocks.sort_unstable_by_key(|(to, _)| *to);
        let mut words = Vec::with_capacity(blocks.len() * index(BLOCK));
        for (to, block) in &blocks {
            let written = BLOCK - to.saturating_sub(end);
            words.extend(block[..index(written)].iter().map(copy));
        }
        // ORDERING: Acquire, pairs with the Release fence in `begin_block`.
        fence(Ordering::Acquire);
        // The thread overwrites the oldest first: all up to the last changed block are lost.
        let gone = blocks
            .iter()
            .rposition(|(to, block)| end_of(block) != *to)
            .map_or(0, |last| last + 1);
        words.drain(..words.len().min(gone * index(BLOCK)));
        words
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if *self.is_released.get_mut() {
            // ORDERING: Release, pairs with the Acquire exchange in `claim`. No test sees a weaker
            // ordering: in Miri, stores to one address take effect in the order in which they run.
            self.control_word(ControlWord::InUse)
                .store(0, Ordering::Release);
        }
    }
}

fn copy(word: &AtomicU64) -> Word {
    // ORDERING: Relaxed: the reader has loaded the write position by `end`, which publishes the
    // word. In a block that was overwritten since, the word may be newer; `snapshot` then drops the
    // block.
    word.load(Ordering::Relaxed).to_le_bytes()
}

/// Packs at most eight bytes into a word.
#[inline]
fn packed(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests;
