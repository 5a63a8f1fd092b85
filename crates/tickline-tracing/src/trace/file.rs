//! The rings of a recorder in a file, and what a process has left in one.
//!
//! The file is a head of 4 KiB, the process's ring, and a ring for each thread. All are 64-bit words
//! of the machine that wrote them, in the file as in memory. A record names its callsite by an
//! address, which means nothing to another process. So the process's ring has a record for each
//! callsite, with its address and its names. Its number and name are those of the process.

use core::sync::atomic::Ordering;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::memory::{Mapping, Memory};
use super::record::{BLOCK, Kind, MAX_TEXT, Record, Records, index};
use super::recorder::{Snapshot, ThreadSnapshot, own_name};
use super::ring::{self, HEAD_WORDS, HeadWord, Ring};

/// `ticklfr2`, as a little-endian machine stores it.
const MAGIC: u64 = u64::from_le_bytes(*b"ticklfr2");

/// The most bytes that a callsite's names may take together. Each record repeats them in the trace,
/// so those of a hostile file could make it thousands of times as long as the file.
const MAX_NAMES: usize = 1_024;
const _: () = assert!(MAX_NAMES <= MAX_TEXT || cfg!(miri));

/// Words of the file's head.
const FILE_HEAD: usize = 4_096 / 8;

// The words at the head's beginning, behind `MAGIC`.
/// Words for the records of a ring.
const CAPACITY: usize = 1;
/// Rings of threads.
const THREADS: usize = 2;
/// Records that were in rings that other threads have now.
const GONE: usize = 3;
/// Ends before this time, ns of `CLOCK_MONOTONIC`, may have been in such a ring.
const ENDS_GONE_BEFORE: usize = 4;
/// Threads for which there was no ring.
const OUTSIDE: usize = 5;

/// The rings of a running process.
#[derive(Debug)]
pub(crate) struct RingFile {
    memory: Arc<Memory>,
    names: Ring,
}

impl RingFile {
    /// A file with rings for `threads` threads, of at least `bytes` each.
    pub(crate) fn create(path: &Path, threads: usize, bytes: usize) -> io::Result<Self> {
        let capacity = ring::capacity(bytes);
        let words = HEAD_WORDS + capacity;
        let rings = threads.checked_add(1).and_then(|rings| rings.checked_mul(words));
        // A mapping has less than `isize::MAX` bytes.
        let Some(rings) = rings.filter(|rings| *rings < usize::MAX / 64) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{threads} rings are too many")));
        };
        // In the order of their places.
        let head = [MAGIC, capacity as u64, threads as u64];
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mapping = Mapping::create(path, FILE_HEAD + rings, head).map_err(named)?;
        let memory = Arc::new(Memory::Mapped(mapping));
        let names = Ring::within(Arc::clone(&memory), FILE_HEAD..FILE_HEAD + words);
        names.claim(std::process::id().into(), &own_name());
        Ok(Self { memory, names })
    }

    /// A ring for a thread of this number and name, if there is one.
    pub(crate) fn claim(&self, number: u64, name: &str) -> Option<Ring> {
        let words = HEAD_WORDS + index(self.names.capacity());
        let starts = (FILE_HEAD + words..self.memory.words().len()).step_by(words);
        let mut rings = starts.map(|start| Ring::within(Arc::clone(&self.memory), start..start + words));
        rings.find(|ring| ring.claim(number, name))
    }

    /// Counts a thread that got no ring. Its records are not in the file.
    pub(crate) fn count_outside(&self) {
        // ORDERING: Relaxed, a count of its own.
        self.memory.words()[OUTSIDE].fetch_add(1, Ordering::Relaxed);
    }

    /// Says that a ring with so many records was given to another thread.
    pub(crate) fn count_gone(&self, records: u64) {
        let head = self.memory.words();
        // ORDERING: Relaxed for both, a count and a time of their own.
        head[GONE].fetch_add(records, Ordering::Relaxed);
        head[ENDS_GONE_BEFORE].fetch_max(tickline::now_ns(), Ordering::Relaxed);
    }

    /// Adds the names of a callsite, if there is room. The caller's lock keeps others out.
    pub(crate) fn add_names(&self, address: usize, names: &str) {
        if names.len() > MAX_NAMES {
            return;
        }
        let record = Record { callsite: address, text: names, ..Record::new(Kind::Name, 0) };
        if record.words() > self.names.left() {
            if self.names.head() + 2 * BLOCK > self.names.capacity() {
                return;
            }
            self.names.begin_block(0, 0);
        }
        self.names.push(&record);
    }
}

impl Drop for RingFile {
    /// Lets another recorder have the file. Threads of the past may keep their rings for long, but
    /// nobody writes to them.
    fn drop(&mut self) {
        if let Memory::Mapped(mapping) = &*self.memory {
            mapping.unlock();
        }
    }
}

/// Reads a file. It may have any content.
pub(crate) fn read(mut input: impl Read) -> io::Result<Snapshot> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut magic = [0; 8];
    let is_ours = input.read_exact(&mut magic).is_ok() && u64::from_ne_bytes(magic) == MAGIC;
    if !is_ours {
        return Err(wrong("it is not the file of a flight recorder of this version"));
    }
    let head = memory(&mut magic.chain(&mut input), FILE_HEAD)?;
    // ORDERING: Relaxed, this process's copy.
    let number = |word: usize| head.words()[word].load(Ordering::Relaxed);
    let capacity = usize::try_from(number(CAPACITY)).unwrap_or(0);
    if !capacity.is_power_of_two() || ring::capacity(capacity.saturating_mul(8)) != capacity {
        return Err(wrong("the size of its rings is wrong"));
    }
    let mut next_ring = || {
        let words = HEAD_WORDS + capacity;
        Ok::<_, io::Error>(Ring::within(Arc::new(memory(&mut input, words)?), 0..words))
    };
    let process = next_ring()?;
    let words = process.snapshot();
    let names = || Records::new(&words, 0).filter(|record| record.kind == Kind::Name);
    if names().any(|record| record.text.len() > MAX_NAMES) {
        return Err(wrong("the names of a callsite take more than 1,024 bytes"));
    }
    let callsites = names().map(|record| (record.callsite, record.text.into())).collect();
    let mut threads = Vec::new();
    for _ in 0..number(THREADS) {
        let ring = next_ring()?;
        if ring.get(HeadWord::InUse) == 1 {
            threads.push(ThreadSnapshot::of(&ring));
        }
    }
    Ok(Snapshot {
        process: u32::try_from(process.get(HeadWord::Number)).unwrap_or(0),
        name: process.name(),
        callsites,
        threads,
        gone: number(GONE),
        ends_gone_before_ns: number(ENDS_GONE_BEFORE),
        outside: number(OUTSIDE),
        ..Snapshot::default()
    })
}

/// The next words of a file, as memory.
fn memory(input: &mut impl Read, words: usize) -> io::Result<Memory> {
    let (mut bytes, wanted) = (Vec::new(), words.saturating_mul(8));
    input.take(wanted as u64).read_to_end(&mut bytes)?;
    if bytes.len() < wanted {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its end is missing"));
    }
    let memory = Memory::own(words);
    for (atomic, word) in memory.words().iter().zip(bytes.as_chunks().0) {
        // ORDERING: Relaxed, nobody else knows the memory yet.
        atomic.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
    }
    Ok(memory)
}
