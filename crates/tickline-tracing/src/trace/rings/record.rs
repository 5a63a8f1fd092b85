//! Records: their content, and how a reader decodes them from words, which may come from a file.

use super::encoding::Fields;
use super::ring::BLOCK_HEADER;

/// A copy of a ring's word. It has the bytes of a payload in order, or a little-endian number.
pub(crate) type Word = [u8; 8];

/// The length of a block, in words: 32 KiB; 512 bytes under Miri, so that tests take seconds.
pub(crate) const BLOCK: u64 = if cfg!(all(test, miri)) { 64 } else { 4_096 };

/// The limit of a record's payload, bytes: 16 KiB. At most about half of a block then stays unused.
pub(crate) const MAX_PAYLOAD: usize = index(BLOCK) * 4;

/// Converts a number of words, an address, or a position in a ring. The first two fit into a
/// `usize`; of a position, only the lower bits matter.
#[expect(clippy::cast_possible_truncation, reason = "see above")]
pub(crate) const fn index(number: u64) -> usize {
    number as usize
}

/// The kind of a record. The numbers are part of the file's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// No record: the rest of the block is unused.
    Rest = 0,
    /// The beginning of a block. Its time is the number of records before it.
    Block = 1,
    /// The thread entered a span.
    Begin = 2,
    /// The thread exited the span that it entered last.
    End = 3,
    /// A repetition of `Begin` in a new block: the thread is still in the span.
    RepeatedBegin = 4,
    /// An event.
    Instant = 5,
    /// The span `id` was created, below the span `parent`.
    AsyncBegin = 6,
    /// The span `id` was closed.
    AsyncEnd = 7,
    /// The names of a callsite; only in a file's ring of names.
    Name = 8,
    /// The thread is in `id` more spans, whose beginnings a new block does not repeat. The time is
    /// the time of the block's first record.
    Unrepeated = 9,
    /// The span `id` follows from the span `parent`.
    Follows = 10,
}

impl Kind {
    /// The kind with this number. Other numbers, which only a damaged file has, give `Rest`.
    fn from_number(number: u64) -> Self {
        use Kind::{
            AsyncBegin, AsyncEnd, Begin, Block, End, Follows, Instant, Name, RepeatedBegin, Rest,
            Unrepeated,
        };
        let kinds = [
            Rest,
            Block,
            Begin,
            End,
            RepeatedBegin,
            Instant,
            AsyncBegin,
            AsyncEnd,
            Name,
            Unrepeated,
            Follows,
        ];
        kinds.get(index(number)).copied().unwrap_or(Rest)
    }

    /// The number of words before the payload, the record's head: kind and length, the time, the
    /// callsite, the span, its parent.
    pub(super) const fn head_words(self) -> u64 {
        match self {
            Self::Rest => 1,
            Self::Block => BLOCK_HEADER,
            Self::End => 2,
            Self::Begin | Self::RepeatedBegin => 3,
            Self::Instant | Self::AsyncEnd | Self::Name | Self::Unrepeated => 4,
            Self::AsyncBegin | Self::Follows => 5,
        }
    }
}

/// The largest number of words in a record's head.
const MAX_HEAD: usize = 5;

/// A record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    /// `CLOCK_MONOTONIC`, ns.
    pub(crate) ns: u64,
    /// The address of the callsite's metadata; 0 if the kind has no callsite.
    pub(crate) callsite: usize,
    /// The number of the span, which is unique in its process. For [`Kind::Instant`]: the span
    /// around the event; 0 without one. For [`Kind::Unrepeated`]: a number of spans.
    pub(crate) id: u64,
    /// The number of another span: the parent, or the span from which this one follows; 0 without
    /// one.
    pub(crate) parent: u64,
    /// The fields as bytes ([`encoding`](super::encoding)). For [`Kind::Name`]: the names of a
    /// callsite, as UTF-8.
    pub(crate) payload: &'a [u8],
}

impl<'a> Record<'a> {
    pub(crate) const fn new(kind: Kind, ns: u64) -> Self {
        Self {
            kind,
            ns,
            callsite: 0,
            id: 0,
            parent: 0,
            payload: &[],
        }
    }

    /// The length in words.
    /// BOUND: at most 5 + `MAX_PAYLOAD` / 8 < `BLOCK`: `fields.rs` cuts longer values.
    pub(crate) const fn words(&self) -> u64 {
        self.kind.head_words() + (self.payload.len() as u64).div_ceil(8)
    }

    /// The fields. They end at the first invalid one.
    pub(crate) const fn fields(&self) -> Fields<'a> {
        Fields {
            bytes: self.payload,
        }
    }
}

/// An iterator over the records in `words`. The words may come from a file, and may be anything.
pub(crate) struct Records<'a> {
    words: &'a [Word],
    /// The number of words of the present block that were read.
    in_block: u64,
    /// The number of skipped records, whose length is invalid. The rest of the block counts as one
    /// record.
    pub(crate) damaged: u64,
}

impl<'a> Records<'a> {
    /// `from` is the position of the first word.
    pub(crate) fn new(words: &'a [Word], from: u64) -> Self {
        Self {
            words,
            in_block: from % BLOCK,
            damaged: 0,
        }
    }

    /// The number of words that are left.
    #[inline]
    pub(crate) const fn left(&self) -> u64 {
        self.words.len() as u64
    }

    /// The next words, as many as the largest head has. Zeros follow the last word.
    #[inline]
    fn next_words(&self) -> [u64; MAX_HEAD] {
        let copy = |words: &[Word]| {
            let mut copied = [[0; 8]; MAX_HEAD];
            copied[..words.len()].copy_from_slice(words);
            copied
        };
        let words = self.words.first_chunk().copied();
        words
            .unwrap_or_else(|| copy(self.words))
            .map(u64::from_le_bytes)
    }

    /// Takes the next `words` words, or those that are left.
    #[inline]
    fn take(&mut self, words: u64) -> &'a [Word] {
        let taken;
        (taken, self.words) = self.words.split_at(self.words.len().min(index(words)));
        self.in_block = (self.in_block + words) % BLOCK;
        taken
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    /// The next record. Skips the unused rest of a block.
    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            let kind_and_length = u64::from_le_bytes(*self.words.first()?);
            let kind = Kind::from_number(kind_and_length & 0xFF);
            let (head_words, payload_len) = (kind.head_words(), kind_and_length >> 8);
            let words = head_words + payload_len.div_ceil(8);
            let in_block = BLOCK - self.in_block;
            if kind == Kind::Rest || words > in_block.min(self.words.len() as u64) {
                self.damaged += u64::from(kind_and_length != 0);
                self.take(in_block);
                continue;
            }
            let [_, ns, callsite, id, parent] = self.next_words();
            // The last words may be beyond the head.
            let in_head = |number: u64, word: u64| if number < head_words { word } else { 0 };
            let payload = &self.take(words)[index(head_words)..];
            return Some(Record {
                kind,
                ns,
                callsite: index(in_head(2, callsite)),
                id: in_head(3, id),
                parent: in_head(4, parent),
                payload: &payload.as_flattened()[..index(payload_len)],
            });
        }
    }
}
