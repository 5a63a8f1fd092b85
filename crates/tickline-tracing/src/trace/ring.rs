//! The records of one thread: a ring of 64-bit words that its thread fills, and another reads.
//!
//! There is no lock. Only the ring's thread writes records. Every word is an atomic, so a reader
//! may copy the words at any time. It finds out afterwards which words were overwritten meanwhile.
//! No record crosses a block of [`BLOCK`] words. Each block begins with the number of records
//! before it. A reader can therefore begin at any block, and knows how many records are gone.
//!
//! A ring is used in one of two ways. If a reader takes the records ([`Ring::take`]), they stay
//! until then, and new ones may find no room. If no reader does, new records overwrite the oldest.
//!
//! # How a ring grows
//!
//! A thread uses no more of the ring's blocks than it needs to keep what is young enough. The used
//! blocks are a circle: each names the one that is overwritten after it. At the end of a block the
//! thread looks at the next one, which is the oldest. If its records are old enough, it is
//! overwritten. Otherwise the thread puts an unused block before it into the circle. No record
//! moves, and none is lost, until all blocks are used. A ring never becomes smaller.
//!
//! ```text
//! used:          A -> B -> C -> A      the thread is in B, so C is the oldest
//! C is young:    A -> B -> D -> C -> A
//! ```
//!
//! The order of blocks in memory is therefore not that of their records. Each block says where it
//! ends among all words that were ever written, so a reader sorts them. If every record counts as
//! young, the order is that of memory, in each lap.
//!
//! Rejected: a circle that grows only behind its last block in memory. It needs no order, but a
//! thread that becomes busy in the middle of a lap overwrites what is young until the lap ends.

use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::Arc;

use super::memory::Memory;
use super::record::{BLOCK, Kind, Record, Word, index};

/// The words at the beginning of a block.
#[derive(Debug, Clone, Copy)]
enum Header {
    /// [`Kind::Block`].
    Kind,
    /// Records before this block.
    Records,
    /// Where in memory the block begins that is overwritten after this one, in words.
    Next,
    /// Where this block ends among all words that were ever written; 0 if the thread has not used
    /// it yet.
    End,
    /// The time of its first record, ns of `CLOCK_MONOTONIC`.
    Since,
}

/// Words of a block's [`Header`].
pub(super) const BLOCK_HEADER: u64 = Header::Since as u64 + 1;

/// The words before those of the records. The name is behind them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HeadWord {
    /// Where the next record begins, among all words that were ever written. All records below are
    /// whole. Only the thread writes this, and the fields that follow.
    Head,
    /// Where the present block is in memory, less where it is among all words.
    MemoryOffset,
    /// Words of the blocks that are in use, which are the first ones in memory.
    Used,
    /// Records so far, those that are overwritten included. Those that begin a block, or repeat a
    /// beginning in it, do not count.
    Records,
    /// Records that found no room.
    Dropped,
    /// 1 once the thread has ended.
    Ended,
    /// 1 while the ring belongs to a thread, or is kept after its end.
    InUse,
    /// The thread's number.
    Number,
    /// Records below this were taken. The reader writes it, so it is two cache lines behind `Head`.
    Taken = 16,
}

/// The thread's name, and zeros behind it: room for 120 bytes. Longer names are cut.
const NAME: Range<usize> = HeadWord::Taken as usize + 1..HEAD_WORDS;

/// Words before those of the records.
pub(crate) const HEAD_WORDS: usize = 32;

/// The words of a ring of at least `bytes` bytes: at least four blocks, and a power of two.
pub(crate) fn capacity(bytes: usize) -> usize {
    let block = index(BLOCK) * 8;
    let blocks = bytes.div_ceil(block).clamp(4, usize::MAX / block / 4).next_power_of_two();
    blocks * index(BLOCK)
}

/// The records of one thread: words of some memory, in a file as in the program's own.
#[derive(Debug)]
pub(crate) struct Ring {
    variables: &'static [AtomicU64; HEAD_WORDS],
    words: &'static [AtomicU64],
    /// What these are words of.
    memory: Arc<Memory>,
    /// Whether another thread may have the ring after this.
    is_forgotten: AtomicBool,
}

impl Ring {
    /// A ring of at least `bytes` bytes, and at least four blocks, in memory of its own.
    pub(crate) fn new(bytes: usize) -> Self {
        let words = HEAD_WORDS + capacity(bytes);
        Self::within(Arc::new(Memory::own(words)), 0..words)
    }

    /// The ring in this part of the memory: [`HEAD_WORDS`] and a power of two.
    #[allow(unsafe_code, reason = "a ring keeps the memory that it is a view of")]
    pub(crate) fn within(memory: Arc<Memory>, part: Range<usize>) -> Self {
        let words = ptr::from_ref(&memory.words()[part]);
        // SAFETY: the memory stays where it is while the ring keeps it, and no method lends it for
        // longer.
        let words: &'static [AtomicU64] = unsafe { &*words };
        let (variables, words) = words.split_first_chunk().expect("more words than those of the head");
        assert!(words.len().is_power_of_two(), "{} words", words.len());
        Self { variables, words, memory, is_forgotten: AtomicBool::new(false) }
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

    pub(crate) fn capacity(&self) -> u64 {
        self.words.len() as u64
    }

    #[inline]
    fn head_word(&self, head_word: HeadWord) -> &AtomicU64 {
        &self.variables[head_word as usize]
    }

    #[inline]
    pub(crate) fn get(&self, head_word: HeadWord) -> u64 {
        // ORDERING: Relaxed: the thread's own, a count of its own, or of a ring that was found by a
        // lock.
        self.head_word(head_word).load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, head_word: HeadWord, value: u64) {
        // ORDERING: Relaxed, as in `get`.
        self.head_word(head_word).store(value, Ordering::Relaxed);
    }

    #[inline]
    fn word(&self, place: u64) -> &AtomicU64 {
        // BOUND: the length is a power of two.
        &self.words[index(place) & (self.words.len() - 1)]
    }

    /// Takes an unused ring for a thread. Returns whether it was unused.
    pub(crate) fn claim(&self, number: u64, name: &str) -> bool {
        let in_use = self.head_word(HeadWord::InUse);
        // ORDERING: Acquire, pairs with the Release store in `drop`: what the thread before has
        // stored comes before what this one stores. No test sees a weaker one: Miri's stores to one
        // place take effect in the order in which they run.
        if in_use.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        for block in (0..self.get(HeadWord::Used).min(self.capacity())).step_by(index(BLOCK)) {
            self.set_header(block, Header::End, 0);
        }
        self.set_header(0, Header::Next, 0);
        use HeadWord::{Dropped, Ended, Head, MemoryOffset, Records, Taken, Used};
        for head_word in [Head, MemoryOffset, Used, Records, Dropped, Ended, Taken] {
            self.set(head_word, 0);
        }
        self.set(HeadWord::Number, number);
        let words = name.as_bytes().chunks(8).map(packed).chain(core::iter::repeat(0));
        // ORDERING: Relaxed: others find the place by a lock.
        self.variables[NAME].iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        true
    }

    /// The name of the ring's thread.
    pub(crate) fn name(&self) -> String {
        // ORDERING: Relaxed, as in `claim`.
        let bytes = self.variables[NAME].iter().flat_map(|place| place.load(Ordering::Relaxed).to_le_bytes());
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        // It may have been cut inside of a character.
        String::from_utf8_lossy(&bytes).trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned()
    }

    // For the ring's thread.

    /// Where the next record begins.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.get(HeadWord::Head)
    }

    /// The words that are left of the present block; 0 before the first block.
    #[inline]
    pub(crate) fn left(&self) -> u64 {
        self.head().wrapping_neg() & (BLOCK - 1)
    }

    /// A word of the header of the block that begins there in memory.
    fn header_word(&self, block: u64, word: Header) -> &AtomicU64 {
        self.word(block.wrapping_add(word as u64))
    }

    fn set_header(&self, block: u64, word: Header, value: u64) {
        // ORDERING: Relaxed: of what readers use, `End` is stored before the fence in
        // `begin_block`, the rest is published by the head.
        self.header_word(block, word).store(value, Ordering::Relaxed);
    }

    /// Fills the present block up, and begins the next one, for a record of the time `now_ns`.
    /// Loses no record from `since_ns` or later while the ring has unused blocks.
    pub(crate) fn begin_block(&self, now_ns: u64, since_ns: u64) {
        // ORDERING: Relaxed: only this thread stores these.
        let header = |block, word| self.header_word(block, word).load(Ordering::Relaxed);
        let (head, in_use) = (self.head(), self.get(HeadWord::Used));
        let in_memory = |place: u64| place.wrapping_add(self.get(HeadWord::MemoryOffset));
        if self.left() > 0 {
            // ORDERING: Relaxed, published by the head.
            self.word(in_memory(head)).store(0, Ordering::Relaxed);
        }
        let present = in_memory(head.saturating_sub(1)) & !(BLOCK - 1);
        let oldest = header(present, Header::Next);
        let second = header(oldest, Header::Next);
        // The records of the oldest block come before those of the second.
        let is_young = in_use < 2 * BLOCK || header(second, Header::Since) >= since_ns;
        let (block, next) =
            if is_young && in_use < self.capacity() { (in_use, oldest) } else { (oldest, second) };
        let start = head + self.left();
        self.set_header(block, Header::End, start + BLOCK);
        // ORDERING: Release, pairs with the Acquire fence in `snapshot`. A reader may have seen one
        // of the words below, or one of the words of the block's records. It then sees that the
        // block is another one.
        fence(Ordering::Release);
        self.set_header(block, Header::Kind, Kind::Block as u64);
        self.set_header(block, Header::Records, self.get(HeadWord::Records));
        self.set_header(block, Header::Next, next);
        self.set_header(block, Header::Since, now_ns);
        // Readers do not use this word of the present block.
        self.set_header(present, Header::Next, block);
        self.set(HeadWord::Used, in_use.max(block + BLOCK));
        self.set(HeadWord::MemoryOffset, block.wrapping_sub(start));
        self.publish(start + BLOCK_HEADER);
    }

    /// Adds a record, for which there is room in the present block.
    #[inline(always)]
    pub(crate) fn push(&self, record: &Record<'_>) {
        let at = self.head();
        let head = record.kind as u64 | (record.text.len() as u64) << 8;
        let first = index(at.wrapping_add(self.get(HeadWord::MemoryOffset)));
        // A record lies in one block; unless a child by a bare `clone` has moved the head.
        let words = self.words.get(first..first.wrapping_add(index(record.words())));
        let Some(words) = words else { return };
        let heads = [head, record.ns, record.callsite as u64, record.id];
        let (head_words, text_words) = words.split_at(index(record.kind.head_words()));
        for (place, word) in head_words.iter().zip(heads) {
            // ORDERING: Relaxed, published by the store of the head.
            place.store(word, Ordering::Relaxed);
        }
        if !text_words.is_empty() {
            for (place, bytes) in text_words.iter().zip(record.text.as_bytes().chunks(8)) {
                // ORDERING: Relaxed, published by the store of the head.
                place.store(packed(bytes), Ordering::Relaxed);
            }
        }
        let counts = u64::from(record.kind != Kind::Inside);
        self.set(HeadWord::Records, self.get(HeadWord::Records) + counts);
        self.publish(at.wrapping_add(record.words()));
    }

    /// Says that all words below `end` are there.
    #[inline]
    fn publish(&self, end: u64) {
        // ORDERING: Release, pairs with the Acquire load in `end`.
        self.head_word(HeadWord::Head).store(end, Ordering::Release);
    }

    /// The end of the records that were taken.
    pub(crate) fn taken(&self) -> u64 {
        // ORDERING: Acquire, pairs with the Release store in `taken_up_to`: the reader has its
        // copy before the thread overwrites the words.
        self.head_word(HeadWord::Taken).load(Ordering::Acquire)
    }

    /// Counts a record that found no room.
    pub(crate) fn count_dropped(&self) {
        self.set(HeadWord::Dropped, self.get(HeadWord::Dropped) + 1);
    }

    /// Says that the thread writes nothing more.
    pub(crate) fn end_thread(&self) {
        // ORDERING: Release, pairs with the Acquire load in `has_ended`: a reader that sees the end
        // sees the last records.
        self.head_word(HeadWord::Ended).store(1, Ordering::Release);
    }

    // For readers, and the recorder.

    pub(crate) fn has_ended(&self) -> bool {
        // ORDERING: Acquire, see `end_thread`.
        self.head_word(HeadWord::Ended).load(Ordering::Acquire) == 1
    }

    /// Where the records end.
    fn end(&self) -> u64 {
        // ORDERING: Acquire, pairs with the Release store in `publish`.
        self.head_word(HeadWord::Head).load(Ordering::Acquire)
    }

    /// Copies the records that were not taken yet, and lets the thread overwrite them. Returns the
    /// place of the first.
    pub(crate) fn take(&self, words: &mut Vec<Word>) -> u64 {
        let (from, end) = (self.taken(), self.end());
        words.clear();
        words.extend((from..end).map(|place| copy(self.word(place))));
        self.taken_up_to(end);
        from
    }

    /// Lets the thread overwrite what is below `place`.
    fn taken_up_to(&self, place: u64) {
        // ORDERING: Release, pairs with the Acquire load in `taken`.
        self.head_word(HeadWord::Taken).store(place, Ordering::Release);
    }

    /// Copies the records of a ring that overwrites its oldest, from the beginning of a block. The
    /// thread may go on writing meanwhile.
    pub(crate) fn snapshot(&self) -> Vec<Word> {
        let end = self.end();
        // ORDERING: Relaxed: of a block that begins before `end`, all below `end` is published by
        // the head. In a file it may be anything.
        let end_of = |block: &[AtomicU64]| block[Header::End as usize].load(Ordering::Relaxed);
        let blocks = self.words.chunks_exact(index(BLOCK)).map(|block| (end_of(block), block));
        // Not those that the thread has not used, or has begun since.
        let mut blocks: Vec<_> = blocks.filter(|(to, _)| *to > 0 && to.saturating_sub(BLOCK) < end).collect();
        blocks.sort_unstable_by_key(|(to, _)| *to);
        let mut words = Vec::with_capacity(blocks.len() * index(BLOCK));
        for (to, block) in &blocks {
            let written = BLOCK - to.saturating_sub(end);
            words.extend(block[..index(written)].iter().map(copy));
        }
        // ORDERING: Acquire, pairs with the Release fence in `begin_block`.
        fence(Ordering::Acquire);
        // The thread overwrites the oldest first.
        let gone = blocks.iter().rposition(|(to, block)| end_of(block) != *to).map_or(0, |last| last + 1);
        words.drain(..words.len().min(gone * index(BLOCK)));
        words
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if *self.is_forgotten.get_mut() {
            // ORDERING: Release, pairs with the Acquire exchange in `claim`. No test sees a weaker
            // one, as there.
            self.head_word(HeadWord::InUse).store(0, Ordering::Release);
        }
    }
}

fn copy(word: &AtomicU64) -> Word {
    // ORDERING: Relaxed: published by the head, which the reader has loaded by `end`, but for a
    // block that is another one by now.
    word.load(Ordering::Relaxed).to_le_bytes()
}

/// At most eight bytes of a text as a word.
#[inline]
fn packed(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::test_runner::Config;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::trace::record::{MAX_TEXT, Records};

    fn push(ring: &Ring, ns: u64, text: &str, since_ns: u64) {
        let record = Record { kind: Kind::Instant, ns, callsite: 7, id: ns * 3, text };
        if record.words() > ring.left() {
            ring.begin_block(ns, since_ns);
        }
        ring.push(&record);
    }

    /// The times of the instants, all of which must be whole, and the number of records before
    /// them.
    fn check(words: &[Word]) -> (Vec<u64>, u64) {
        let (mut times, mut before) = (Vec::new(), None);
        for record in Records::new(words, 0) {
            if record.kind == Kind::Block {
                before = before.or(Some(record.ns));
                continue;
            }
            assert_eq!((record.kind, record.callsite, record.id), (Kind::Instant, 7, record.ns * 3));
            assert_eq!(record.text, text(record.ns));
            times.push(record.ns);
        }
        (times, before.unwrap_or(0))
    }

    /// At most half a block: rarely the longest that fits.
    fn text(number: u64) -> String {
        match number % 7_919 {
            0 => "x".repeat(MAX_TEXT),
            _ => format!("{number};").repeat(index(number % 50)),
        }
    }

    /// Whatever a reader finds while the thread writes is whole, in order, and without gaps, also
    /// of a ring that grows in the middle. New records overwrite no more than a quarter of the ring
    /// before their time.
    #[test]
    fn ordering_a_reader_finds_whole_records_at_any_time() {
        let last = if cfg!(miri) { 30 } else { 400_000 };
        // The ring grows for the first records of each period, if it may.
        const PERIOD: u64 = if cfg!(miri) { 10 } else { 20_000 };
        let grows = |number| if number % PERIOD < PERIOD / 10 { 0 } else { number - 1 };
        let since: [fn(u64) -> u64; 2] = [|_| 0, grows];
        for (blocks, since) in [4, 16].into_iter().zip(since) {
            let ring = Ring::new(index(BLOCK) * 8 * blocks);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    (1..=last).for_each(|number| push(&ring, number, &text(number), since(number)));
                    ring.end_thread();
                });
                loop {
                    let has_ended = ring.has_ended();
                    let (times, before) = check(&ring.snapshot());
                    let end = before + times.len() as u64;
                    assert!(times.into_iter().eq(before + 1..=end));
                    if has_ended {
                        // At least three blocks are whole. Their records have 25 words on average.
                        assert!(cfg!(miri) || (last - 3_000..last - 400).contains(&before), "{before}");
                        break assert_eq!((end, ring.get(HeadWord::Records)), (last, last));
                    }
                }
            });
        }
    }

    proptest! {
        #![proptest_config(Config::with_cases(100))]

        /// Whatever the rate is and was: what is young is there, unless all blocks are used, and no
        /// more blocks are used than that took. Half of a block may stay empty.
        #[test]
        fn a_ring_grows_while_the_oldest_is_young(bursts in vec((1..500_u64, 0..20_u32), 1..20)) {
            const KEPT_NS: u64 = 100_000;
            let ring = Ring::new(index(BLOCK) * 8 * 16);
            let (mut all, mut young, mut words, mut most) = (vec![0], 1, 0, 0);
            for (count, gap_log2) in bursts {
                for _ in 0..count {
                    let now_ns = all[all.len() - 1] + (1 << gap_log2);
                    all.push(now_ns);
                    push(&ring, now_ns, &text(now_ns), now_ns.saturating_sub(KEPT_NS));
                    words += text(now_ns).len() as u64 / 8 + 5;
                    while all[young] + KEPT_NS < now_ns {
                        words -= text(all[young]).len() as u64 / 8 + 5;
                        young += 1;
                    }
                    most = words.max(most);
                }
                let ((times, before), used) = (check(&ring.snapshot()), ring.get(HeadWord::Used) / BLOCK);
                prop_assert_eq!(&times[..], &all[1 + index(before)..]);
                prop_assert!(index(before) < young || used == 16, "{before} {young} of {used}");
                prop_assert!(used <= 2 * most / BLOCK + 3, "{used} for {most}");
            }
        }
    }

    #[test]
    fn ordering_words_are_copied_before_they_are_overwritten() {
        let (ring, copies) = (Ring::new(0), AtomicU64::new(0));
        for place in 1..=8 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // ORDERING: Relaxed for both, as the copy of a word.
                    copies.store(place, Ordering::Relaxed);
                    ring.taken_up_to(place);
                });
                while ring.taken() < place {
                    std::thread::yield_now();
                }
                // ORDERING: Relaxed: `taken` is to order it behind the reader's store.
                assert_eq!(copies.load(Ordering::Relaxed), place);
            });
        }
    }
}
