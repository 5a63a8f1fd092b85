//! Records: what they say, and how they are read from words, which may be from a file.

use core::str;

use super::ring::BLOCK_HEADER;

/// A word of a ring, copied: the bytes of a text are in order. A number is little-endian.
pub(crate) type Word = [u8; 8];

/// Words of a block, 32 KiB. Miri runs this crate's tests with 512 bytes, so that a ring is filled
/// within seconds.
pub(crate) const BLOCK: u64 = if cfg!(all(test, miri)) { 64 } else { 4_096 };

/// The longest text of a record, bytes: half a block, so that no more than about half of a block
/// stays unused.
pub(crate) const MAX_TEXT: usize = index(BLOCK) * 4;

/// Numbers of words, and addresses, fit into a `usize`. Only the lower bits of a place matter.
#[expect(clippy::cast_possible_truncation, reason = "see above")]
pub(super) const fn index(number: u64) -> usize {
    number as usize
}

/// What a record says. The numbers are those in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Nothing: the rest of a block.
    Rest = 0,
    /// The beginning of a block. Its time is the count of the records before it.
    Block = 1,
    /// The thread entered a span.
    Begin = 2,
    /// It exited the span that it entered last.
    End = 3,
    /// A repetition of `Begin` in a new block: the span is still entered.
    Inside = 4,
    /// An event.
    Instant = 5,
    /// A span was created that belongs to the request `id`.
    AsyncBegin = 6,
    /// It was closed.
    AsyncEnd = 7,
    /// Only in a file's ring of names: what a callsite is called.
    Name = 8,
}

impl Kind {
    /// The kind of this number. Other numbers, which only a damaged file has, are a block's rest.
    fn of(number: u64) -> Self {
        use Kind::{AsyncBegin, AsyncEnd, Begin, Block, End, Inside, Instant, Name, Rest};
        let kinds = [Rest, Block, Begin, End, Inside, Instant, AsyncBegin, AsyncEnd, Name];
        kinds.into_iter().find(|kind| *kind as u64 == number).unwrap_or(Rest)
    }

    /// Words before the text: the head and the time; the callsite; the request.
    pub(super) const fn head_words(self) -> u64 {
        match self {
            Self::Rest => 1,
            Self::Block => BLOCK_HEADER,
            Self::End => 2,
            Self::Begin | Self::Inside => 3,
            Self::Instant | Self::AsyncBegin | Self::AsyncEnd | Self::Name => 4,
        }
    }
}

/// A record, as it is written and read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    /// `CLOCK_MONOTONIC`, ns.
    pub(crate) ns: u64,
    /// The address of the callsite's metadata; 0 where the kind has none.
    pub(crate) callsite: usize,
    /// The number of the request; 0 for none.
    pub(crate) id: u64,
    /// Members of a JSON object; of an event, its name before them
    /// ([`BEHIND_NAME`](super::fields::BEHIND_NAME)).
    pub(crate) text: &'a str,
}

impl Record<'_> {
    pub(crate) const fn new(kind: Kind, ns: u64) -> Self {
        Self { kind, ns, callsite: 0, id: 0, text: "" }
    }

    /// BOUND: at most 4 + `MAX_TEXT` / 8, which is below `BLOCK`; `ThreadRecorder` shortens longer texts.
    pub(crate) const fn words(&self) -> u64 {
        self.kind.head_words() + (self.text.len() as u64).div_ceil(8)
    }
}

/// The records in `words`. The words may come from a file, and may be anything.
pub(crate) struct Records<'a> {
    words: &'a [Word],
    /// Words of the present block that were read.
    in_block: u64,
    /// Records that were skipped, because they are none. Without a bound for its records, the rest
    /// of a block counts as one.
    pub(crate) damaged: u64,
}

impl<'a> Records<'a> {
    /// `from` is the place of the first word.
    pub(crate) fn new(words: &'a [Word], from: u64) -> Self {
        Self { words, in_block: from % BLOCK, damaged: 0 }
    }

    /// The next words, at most so many.
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
    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            let head = u64::from_le_bytes(*self.words.first()?);
            let kind = Kind::of(head & 0xFF);
            let (head_words, text_len) = (kind.head_words(), head >> 8);
            let words = head_words + text_len.div_ceil(8);
            let in_block = BLOCK - self.in_block;
            if kind == Kind::Rest || words > in_block.min(self.words.len() as u64) {
                self.damaged += u64::from(head != 0);
                self.take(in_block);
                continue;
            }
            let (heads, text) = self.take(words).split_at(index(head_words));
            let Ok(text) = str::from_utf8(&text.as_flattened()[..index(text_len)]) else {
                self.damaged += 1;
                continue;
            };
            let word = |number: usize| heads.get(number).map_or(0, |word| u64::from_le_bytes(*word));
            return Some(Record { kind, ns: word(1), callsite: index(word(2)), id: word(3), text });
        }
    }
}
