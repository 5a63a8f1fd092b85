//! Reads the file of a recorder, of whose process nothing else may be left.

use core::sync::atomic::{AtomicU64, Ordering};
use std::io::{self, Read};
use std::sync::Arc;

use super::{
    FILE_HEAD, HeadWord, MAGIC, MAX_ALL_NAMES, MAX_FILE_BYTES, MAX_NAMES, bytes_without_fields,
    within_limits,
};
use crate::trace::readout::snapshot::{Callsites, Snapshot, ThreadSnapshot};
use crate::trace::rings::memory::Memory;
use crate::trace::rings::record::{Kind, Records};
use crate::trace::rings::ring::{self, CONTROL_WORDS, ControlWord, Ring};
use crate::trace::settings::DEFAULT_BYTES_IN_FILE;

/// Reads the file of a recorder. The file may have any content. If its end is missing, the snapshot
/// has the whole rings of threads that are there.
pub(crate) fn read(input: impl Read) -> io::Result<Snapshot> {
    let input = check_magic(input)?;
    let mut input = Input {
        file: input,
        read_bytes: 0,
        whole_bytes: None,
    };
    let head = Head::read(&mut input)?;
    let Process {
        number,
        name,
        callsites,
    } = Process::in_ring(&head.read_ring(&mut input)?)?;
    let (threads, missing_rings) = read_threads(&head, &mut input)?;
    let threads_without_ring = head.get(HeadWord::ThreadsWithoutRing);
    // A missing ring may have the end of any request, and so may a thread without a ring.
    let ends_lost_before_ns = if missing_rings > 0 || threads_without_ring > 0 {
        u64::MAX
    } else {
        head.get(HeadWord::EndsLostBefore)
    };
    let unix_offset_ns = head.get(HeadWord::UnixOffset).cast_signed();
    Ok(Snapshot {
        process: number,
        name,
        callsites,
        threads,
        removed_records: head.get(HeadWord::RemovedRecords),
        unix_offset_ns: Some(unix_offset_ns).filter(|offset| *offset != 0),
        ends_lost_before_ns,
        threads_without_ring,
        missing_rings,
        ..Snapshot::default()
    })
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The whole file again, if it begins with [`MAGIC`], or ends within it.
fn check_magic(mut input: impl Read) -> io::Result<impl Read> {
    let mut magic = Vec::new();
    input.by_ref().take(8).read_to_end(&mut magic)?;
    let is_cut = magic.len() < 8 && MAGIC.to_ne_bytes().starts_with(&magic);
    if !is_cut && magic != MAGIC.to_ne_bytes() {
        return Err(invalid(format!(
            "it is not the file of a flight recorder of this version: it begins with \"{}\", not with \
             \"{}\"",
            magic.escape_ascii(),
            MAGIC.to_ne_bytes().escape_ascii()
        )));
    }
    Ok(io::Cursor::new(magic).chain(input))
}

/// The head of a file, whose numbers of words and rings a recorder may have written.
struct Head {
    memory: Memory,
    /// The number of words in a ring, with its control words.
    ring_words: usize,
}

impl Head {
    /// Reads the head, and tells `input` the length of the whole file.
    fn read(input: &mut Input<impl Read>) -> io::Result<Self> {
        let memory = input.memory(FILE_HEAD)?;
        let mut head = Self {
            memory,
            ring_words: CONTROL_WORDS,
        };
        head.ring_words += head.capacity()?;
        input.whole_bytes = Some(head.whole_bytes()?);
        Ok(head)
    }

    fn get(&self, word: HeadWord) -> u64 {
        // ORDERING: Relaxed: only this thread uses the copy.
        word.of(&self.memory).load(Ordering::Relaxed)
    }

    /// The number of words for records in a ring.
    fn capacity(&self) -> io::Result<usize> {
        let words = self.get(HeadWord::Capacity);
        let capacity = usize::try_from(words).unwrap_or(0);
        if capacity.is_power_of_two() && ring::capacity(capacity.saturating_mul(8)) == capacity {
            return Ok(capacity);
        }
        Err(invalid(format!(
            "no recorder has rings of {words} words: their number is a power of two, from {} to {}",
            ring::capacity(0),
            ring::capacity(usize::MAX)
        )))
    }

    /// The length of the file that has the rings of all threads, and one more.
    fn whole_bytes(&self) -> io::Result<u64> {
        let threads = self.get(HeadWord::Threads);
        let rings = threads.saturating_add(1);
        let whole_words = rings
            .saturating_mul(self.ring_words as u64)
            .saturating_add(FILE_HEAD as u64);
        let whole_bytes = whole_words.saturating_mul(8);
        if whole_bytes > MAX_FILE_BYTES {
            return Err(invalid(format!(
                "no recorder has a file of {whole_bytes} bytes, with rings for {threads} threads: the limit is \
                 {MAX_FILE_BYTES} bytes"
            )));
        }
        Ok(whole_bytes)
    }

    fn read_ring(&self, input: &mut Input<impl Read>) -> io::Result<Ring> {
        let memory = Arc::new(input.memory(self.ring_words)?);
        Ok(Ring::within(memory, 0..self.ring_words))
    }
}

/// What the ring of the process has.
struct Process {
    /// 0 if the number is damaged.
    number: u32,
    name: String,
    callsites: Callsites,
}

impl Process {
    fn in_ring(ring: &Ring) -> io::Result<Self> {
        Ok(Self {
            number: u32::try_from(ring.get(ControlWord::Number)).unwrap_or(0),
            name: ring.name(),
            callsites: callsites_in(ring)?,
        })
    }
}

/// The names in the ring of the process.
fn callsites_in(process: &Ring) -> io::Result<Callsites> {
    let words = process.snapshot();
    let mut callsites = Callsites::new();
    for record in Records::new(&words, 0).filter(|record| record.kind == Kind::Name) {
        // Damaged names count as unknown.
        let Ok(names) = str::from_utf8(record.payload) else {
            continue;
        };
        if within_limits(names) != Some(names) {
            return Err(invalid(format!(
                "the names of a callsite take {} bytes, and {} with its fields: the limits are \
                 {MAX_NAMES} and {MAX_ALL_NAMES}",
                bytes_without_fields(names),
                names.len()
            )));
        }
        callsites.insert(record.callsite, names.into());
    }
    Ok(callsites)
}

/// What the rings of threads contain, and the number of rings that a truncated file lacks. The
/// first ring must be whole.
fn read_threads(
    head: &Head,
    input: &mut Input<impl Read>,
) -> io::Result<(Vec<ThreadSnapshot>, u64)> {
    let rings = head.get(HeadWord::Threads);
    let mut threads = Vec::new();
    for whole_rings in 0..rings {
        let ring = match head.read_ring(input) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && whole_rings > 0 => {
                return Ok((threads, rings - whole_rings));
            }
            ring => ring?,
        };
        if ring.get(ControlWord::InUse) == 1 {
            threads.push(ThreadSnapshot::from_ring(&ring));
        }
    }
    Ok((threads, 0))
}

/// The number of words that are read from a file at once: 64 KiB.
const WORDS_AT_ONCE: usize = 1 << 13;

/// The limit of words that a reader allocates before it has read any: a ring of the default size.
const FIRST_WORDS: usize = CONTROL_WORDS + DEFAULT_BYTES_IN_FILE / 8;

/// The factor by which the memory of a ring grows while the ring is read.
const GROWTH: usize = 8;

/// Allocates memory for so many words of a ring.
fn allocate(words: usize) -> io::Result<Memory> {
    Memory::allocate(words).ok_or_else(|| {
        let bytes = words * size_of::<u64>();
        let text = format!("there is too little memory for {bytes} bytes of a ring");
        io::Error::new(io::ErrorKind::OutOfMemory, text)
    })
}

/// Copies words to zeroed memory. Zeros are not stored, so that they take no memory.
fn fill(zeros: &[AtomicU64], words: impl Iterator<Item = u64>) {
    for (atomic, word) in zeros.iter().zip(words) {
        if word != 0 {
            // ORDERING: Relaxed: no other thread has the memory yet.
            atomic.store(word, Ordering::Relaxed);
        }
    }
}

/// A recorder's file, as far as it has been read.
struct Input<R> {
    file: R,
    read_bytes: u64,
    /// The length of the file by its head; `None` until the head has been read.
    whole_bytes: Option<u64>,
}

impl<R: Read> Input<R> {
    /// The next words of the file, as memory. Zeros, of which a sparse file of any length may
    /// consist, take none. The memory grows with what has been read: a file that ends early takes
    /// little, whatever its head says. The last growth leaves an eighth of the words twice in
    /// memory for a moment.
    fn memory(&mut self, words: usize) -> io::Result<Memory> {
        let mut allocated = words;
        while allocated > FIRST_WORDS {
            allocated = allocated.div_ceil(GROWTH);
        }
        let mut memory = allocate(allocated)?;
        let (mut read, mut part) = (0, Vec::new());
        while read < words {
            self.read_part(words - read, &mut part)?;
            let end = read + part.len() / 8;
            if end > allocated {
                allocated = words.min(allocated * GROWTH);
                let larger = allocate(allocated)?;
                // ORDERING: Relaxed: no other thread has the memory yet.
                let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
                fill(larger.words(), memory.words()[..read].iter().map(load));
                memory = larger;
            }
            let chunks = part.as_chunks().0.iter();
            let values = chunks.map(|word| u64::from_ne_bytes(*word));
            fill(&memory.words()[read..end], values);
            read = end;
        }
        Ok(memory)
    }

    /// Reads the next of so many words into `part`: 64 KiB, or all if they are fewer.
    fn read_part(&mut self, words: usize, part: &mut Vec<u8>) -> io::Result<()> {
        part.clear();
        let wanted = words.min(WORDS_AT_ONCE) as u64 * 8;
        self.read_bytes += self.file.by_ref().take(wanted).read_to_end(part)? as u64;
        if (part.len() as u64) < wanted {
            return Err(self.truncated());
        }
        Ok(())
    }

    /// The error of a file that ends where it was read.
    fn truncated(&self) -> io::Error {
        let read = self.read_bytes;
        let text = match self.whole_bytes {
            Some(whole) => format!("it ends after {read} of {whole} bytes"),
            None => format!(
                "it ends after {read} bytes, in its head of {}",
                FILE_HEAD * 8
            ),
        };
        io::Error::new(io::ErrorKind::UnexpectedEof, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a file with rings of `capacity` words for this number of threads.
    fn head(capacity: u64, threads: u64) -> Vec<u8> {
        let mut head = vec![0; FILE_HEAD];
        (
            head[0],
            head[HeadWord::Capacity as usize],
            head[HeadWord::Threads as usize],
        ) = (MAGIC, capacity, threads);
        head.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    fn error_of_bytes(bytes: &[u8]) -> io::Error {
        let result = read(bytes).map(drop);
        result.expect_err("no file of a recorder")
    }

    /// The error of a file whose head says that its rings have `capacity` words.
    fn error_of(capacity: u64) -> String {
        error_of_bytes(&head(capacity, 0)).to_string()
    }

    #[test]
    fn the_error_of_another_kind_of_file_has_its_first_bytes_and_the_expected_ones() {
        let magic = MAGIC.to_ne_bytes();
        for found in ["text", "another text"] {
            let error = error_of_bytes(found.as_bytes());
            let expected = format!(
                "it is not the file of a flight recorder of this version: it begins with \"{}\", not with \
                 \"{}\"",
                &found[..found.len().min(8)],
                magic.escape_ascii()
            );
            assert_eq!(error.to_string(), expected);
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn the_error_of_a_truncated_head_has_the_number_of_its_bytes() {
        for bytes in [0, 1, 7, 8, 100] {
            let error = error_of_bytes(&head(0, 0)[..bytes]);
            let expected = format!("it ends after {bytes} bytes, in its head of 4096");
            assert_eq!(error.to_string(), expected);
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn the_error_of_a_truncated_ring_has_the_lengths_that_are_there_and_that_should_be() {
        let capacity = ring::capacity(0);
        let mut bytes = head(capacity as u64, 2);
        bytes.push(0);
        let whole = 4_096 + 3 * 8 * (CONTROL_WORDS + capacity);
        let expected = format!("it ends after 4097 of {whole} bytes");
        assert_eq!(error_of_bytes(&bytes).to_string(), expected);
    }

    #[test]
    #[cfg_attr(miri, ignore = "four million words take long there")]
    fn memory_that_has_grown_three_times_has_all_words_of_the_file() {
        let words = FIRST_WORDS * GROWTH * GROWTH + 1;
        let mut bytes = Vec::new();
        for word in 0..words as u64 {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        let mut input = Input {
            file: &bytes[..],
            read_bytes: 0,
            whole_bytes: None,
        };
        let memory = input.memory(words).unwrap();
        // ORDERING: Relaxed: only this thread uses the memory.
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        assert!(memory.words()[..words].iter().map(load).eq(0..words as u64));
    }

    /// Symptom: the error was "out of memory", and nothing more.
    #[test]
    #[cfg(target_pointer_width = "64")]
    #[cfg_attr(miri, ignore = "Miri ends at such an allocation")]
    fn the_error_of_a_ring_without_memory_has_its_length() {
        let words = usize::MAX / 32;
        let error = allocate(words).map(drop).unwrap_err();
        let expected = format!(
            "there is too little memory for {} bytes of a ring",
            words * 8
        );
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }

    /// The Unix offset of a file whose head has this word for it.
    fn unix_offset_of(word: u64) -> Option<i64> {
        let capacity = ring::capacity(0);
        let mut bytes = head(capacity as u64, 1);
        let offset = HeadWord::UnixOffset as usize * 8;
        bytes[offset..offset + 8].copy_from_slice(&word.to_ne_bytes());
        bytes.resize(4_096 + 2 * 8 * (CONTROL_WORDS + capacity), 0);
        read(&bytes[..]).unwrap().unix_offset_ns
    }

    #[test]
    fn a_file_of_a_version_without_unix_time_has_none() {
        assert_eq!(unix_offset_of(0), None);
    }

    #[test]
    fn the_monotonic_clock_may_be_ahead_of_unix_time() {
        assert_eq!(unix_offset_of((-5_i64).cast_unsigned()), Some(-5));
    }

    /// Symptom: a file with a damaged number of threads claimed to lack 18446744073709551600 rings.
    #[test]
    fn a_file_larger_than_a_recorder_makes_is_refused() {
        let capacity = ring::capacity(0);
        let ring = 8 * (CONTROL_WORDS + capacity) as u64;
        let threads = (MAX_FILE_BYTES - 4_096) / ring;
        for (threads, whole) in [
            (threads, (threads + 1) * ring + 4_096),
            (u64::MAX, u64::MAX),
        ] {
            let error = error_of_bytes(&head(capacity as u64, threads));
            let expected = format!(
                "no recorder has a file of {whole} bytes, with rings for {threads} threads: the limit is \
                 68719476736 bytes"
            );
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_file_of_the_limit_is_not_refused_for_its_size() {
        let capacity = ring::capacity(0);
        let threads = (MAX_FILE_BYTES - 4_096) / (8 * (CONTROL_WORDS + capacity) as u64) - 1;
        let error = error_of_bytes(&head(capacity as u64, threads));
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
    }

    fn refusal_of_rings(words: u64) -> String {
        let [least, most] = [0, usize::MAX].map(ring::capacity);
        format!(
            "no recorder has rings of {words} words: their number is a power of two, from {least} to {most}"
        )
    }

    #[test]
    fn a_capacity_below_four_blocks_is_refused() {
        assert_eq!(error_of(1), refusal_of_rings(1));
    }

    #[test]
    fn a_capacity_that_is_no_power_of_two_is_refused() {
        let capacity = ring::capacity(0) as u64 * 3;
        assert_eq!(error_of(capacity), refusal_of_rings(capacity));
    }

    /// Symptom: the error said that a number must be a power of two, which this is.
    #[test]
    fn the_error_of_a_power_of_two_that_is_too_large_has_the_limit() {
        assert_eq!(error_of(1 << 63), refusal_of_rings(1 << 63));
    }

    #[test]
    fn a_capacity_of_zero_is_refused() {
        assert_eq!(error_of(0), refusal_of_rings(0));
    }
}
