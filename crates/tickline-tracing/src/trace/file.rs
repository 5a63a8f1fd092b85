//! The rings of a recorder in a file, and what a process has left in one.
//!
//! The file is a head of 4 KiB, a ring of names, and a ring for each thread. All are 64-bit words
//! of the machine that wrote them, in the file as in memory. A record names its callsite by an
//! address, which means nothing to another process. So the ring of names has a record for each
//! callsite, with its address and its names.

use core::sync::atomic::{AtomicU64, Ordering};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::memory::{CHUNK, Chunk, Mapping, Memory, RingBox};
use super::record::{BLOCK, Kind, MAX_TEXT, Record, Records};
use super::recorder::{Callsite, Callsites};
use super::ring;

/// `ticklfr1`, as a little-endian machine stores it.
const MAGIC: u64 = u64::from_le_bytes(*b"ticklfr1");

/// The most bytes that a callsite's names may take together. Each record repeats them in the trace,
/// so those of a hostile file could make it thousands of times as long as the file.
const MAX_NAMES: usize = 1_024;
const _: () = assert!(MAX_NAMES <= MAX_TEXT || cfg!(miri));

const HEAD_CHUNKS: usize = 4_096 / (8 * CHUNK);

/// The words at the head's beginning. The name of the process has the second chunk.
#[derive(Debug, Clone, Copy)]
enum Word {
    /// [`MAGIC`].
    Magic,
    /// Words for the records of a ring.
    Capacity,
    /// Rings of threads.
    Threads,
    /// The number of the process.
    Process,
    /// 1 if the trace is to have the places in the source.
    HasLocations,
    /// Records that were in rings that other threads have now.
    Gone,
    /// Ends before this time, ns of `CLOCK_MONOTONIC`, may have been in such a ring.
    EndsGoneBefore,
    /// Threads for which there was no ring.
    Outside,
}

fn word(head: &[Chunk], word: Word) -> &AtomicU64 {
    &head[0].0[word as usize]
}

/// The rings of a running process.
#[derive(Debug)]
pub(crate) struct RingFile {
    memory: Arc<Memory>,
    /// Chunks of a ring.
    chunks: usize,
    threads: usize,
    names: RingBox,
}

impl RingFile {
    /// A file with rings for `threads` threads, of at least `bytes` each.
    pub(crate) fn create(
        path: &Path,
        [threads, bytes]: [usize; 2],
        has_locations: bool,
        process: &str,
    ) -> io::Result<Self> {
        let capacity = ring::capacity(bytes);
        let chunks = RingBox::chunks(capacity);
        let rings = threads.checked_add(1).and_then(|rings| rings.checked_mul(chunks));
        // A mapping has less than `isize::MAX` bytes.
        let Some(rings) = rings.filter(|rings| *rings < usize::MAX / 1_024) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{threads} rings are too many")));
        };
        let fill = |head: &[Chunk]| {
            let words = [
                (Word::Capacity, capacity as u64),
                (Word::Threads, threads as u64),
                (Word::Process, std::process::id().into()),
                (Word::HasLocations, has_locations.into()),
                (Word::Magic, MAGIC),
            ];
            for (place, value) in words {
                // ORDERING: Relaxed: nobody knows the file yet.
                word(head, place).store(value, Ordering::Relaxed);
            }
            ring::store_text(&head[1].0, process);
        };
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mapping = Mapping::create(path, HEAD_CHUNKS + rings, MAGIC, fill).map_err(named)?;
        let memory = Arc::new(Memory::Mapped(mapping));
        let names = RingBox::within(Arc::clone(&memory), HEAD_CHUNKS..HEAD_CHUNKS + chunks);
        Ok(Self { memory, chunks, threads, names })
    }

    /// A ring for a thread of this number and name, if there is one.
    pub(crate) fn claim(&self, number: u64, name: &str) -> Option<RingBox> {
        (1..=self.threads).find_map(|place| {
            let start = HEAD_CHUNKS + place * self.chunks;
            RingBox::claimed(&self.memory, start..start + self.chunks, number, name)
        })
    }

    /// Counts a thread that got no ring. Its records are not in the file.
    pub(crate) fn count_outside(&self) {
        // ORDERING: Relaxed, a count of its own.
        word(self.memory.chunks(), Word::Outside).fetch_add(1, Ordering::Relaxed);
    }

    /// Says that a ring with so many records was given to another thread.
    pub(crate) fn count_gone(&self, records: u64) {
        let head = self.memory.chunks();
        // ORDERING: Relaxed for both, a count and a time of their own.
        word(head, Word::Gone).fetch_add(records, Ordering::Relaxed);
        word(head, Word::EndsGoneBefore).fetch_max(tickline::now_ns(), Ordering::Relaxed);
    }

    /// Adds the names of a callsite, if there is room. The caller's lock keeps others out.
    pub(crate) fn add_name(&self, address: usize, callsite: &Callsite) {
        let text = callsite.to_text();
        if text.len() > MAX_NAMES {
            return self.names.count_dropped();
        }
        let record = Record { callsite: address, text: &text, ..Record::new(Kind::Name, 0) };
        if record.words() > self.names.left() {
            if self.names.head() + 2 * BLOCK > self.names.capacity() {
                return self.names.count_dropped();
            }
            self.names.begin_block(0, 0);
        }
        self.names.push(&record);
    }
}

impl Drop for RingFile {
    /// Threads of the past may keep their rings for long, but nobody writes to them.
    fn drop(&mut self) {
        self.memory.unlock();
    }
}

/// What a process has left in a file.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) process: u32,
    pub(crate) name: String,
    pub(crate) has_locations: bool,
    pub(crate) gone: u64,
    /// Ends before this time, ns of `CLOCK_MONOTONIC`, may be gone, beside those that a ring says
    /// that it lost.
    pub(crate) ends_gone_before_ns: u64,
    /// Threads for which there was no ring.
    pub(crate) outside: u64,
}

/// Reads a file. It may have any content.
pub(crate) fn read(mut input: impl Read) -> io::Result<(Left, Vec<Arc<RingBox>>, Callsites)> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut magic = [0; 8];
    let is_ours = input.read_exact(&mut magic).is_ok() && u64::from_ne_bytes(magic) == MAGIC;
    if !is_ours {
        return Err(wrong("it is not the file of a flight recorder of this version"));
    }
    let head = chunks(&mut magic.chain(&mut input), HEAD_CHUNKS)?;
    // ORDERING: Relaxed, this process's copy.
    let number = |place| word(head.chunks(), place).load(Ordering::Relaxed);
    let capacity = usize::try_from(number(Word::Capacity)).unwrap_or(0);
    if !capacity.is_power_of_two() || ring::capacity(capacity.saturating_mul(8)) != capacity {
        return Err(wrong("the size of its rings is wrong"));
    }
    let mut next_ring = || {
        let count = RingBox::chunks(capacity);
        let memory = Arc::new(chunks(&mut input, count)?);
        Ok::<_, io::Error>(RingBox::within(memory, 0..count))
    };
    let mut callsites = Callsites::new();
    let words = next_ring()?.snapshot();
    let mut records = Records::new(&words, 0);
    while let Some(record) = records.next() {
        if record.kind == Kind::Name {
            if record.text.len() > MAX_NAMES {
                return Err(wrong("the names of a callsite take more than 1,024 bytes"));
            }
            callsites.insert(record.callsite, Arc::new(Callsite::from_text(record.text)));
        }
    }
    let mut rings = Vec::new();
    for _ in 0..number(Word::Threads) {
        let ring = next_ring()?;
        if ring.is_in_use() {
            rings.push(Arc::new(ring));
        }
    }
    let left = Left {
        process: u32::try_from(number(Word::Process)).unwrap_or(0),
        name: ring::load_text(&head.chunks()[1].0),
        has_locations: number(Word::HasLocations) == 1,
        gone: number(Word::Gone),
        ends_gone_before_ns: number(Word::EndsGoneBefore),
        outside: number(Word::Outside),
    };
    Ok((left, rings, callsites))
}

/// The next chunks of a file, as memory.
fn chunks(input: &mut impl Read, count: usize) -> io::Result<Memory> {
    let (mut bytes, wanted) = (Vec::new(), count.saturating_mul(8 * CHUNK));
    input.take(wanted as u64).read_to_end(&mut bytes)?;
    if bytes.len() < wanted {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its end is missing"));
    }
    let memory = Memory::own(count);
    let places = memory.chunks().iter().flat_map(|chunk| &chunk.0);
    for (place, word) in places.zip(bytes.chunks_exact(8)) {
        // ORDERING: Relaxed, nobody else knows the memory yet.
        place.store(word.try_into().map_or(0, u64::from_ne_bytes), Ordering::Relaxed);
    }
    Ok(memory)
}
