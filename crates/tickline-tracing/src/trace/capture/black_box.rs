//! The file with a recorder's rings: its writer, and the reader of the file of another process.
//!
//! The file has a head of 4 KiB, a ring for the process, and a ring for each thread. All contain
//! 64-bit words in the byte order of the machine, in the file as in memory. A record refers to its
//! callsite by an address, which means nothing to another process. The process's ring therefore has
//! a record with address and names for each callsite. This ring has the process's number and name.

use core::cell::RefCell;
use core::ptr;
use core::sync::atomic::Ordering;
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Weak};

use crate::layer::unix_offset::unix_offset_ns;
use crate::trace::readout::snapshot::{Callsites, Snapshot, ThreadSnapshot, program_name};
use crate::trace::rings::encoding;
use crate::trace::rings::memory::{Mapping, Memory};
use crate::trace::rings::record::{BLOCK, Kind, MAX_PAYLOAD, Record, Records, index};
use crate::trace::rings::ring::{self, CONTROL_WORDS, ControlWord, Ring};
use crate::trace::temporary::with_path;

/// `ticklfr4`, as a little-endian machine stores it.
const MAGIC: u64 = u64::from_le_bytes(*b"ticklfr4");

/// The limit of bytes for name, target and source location of a callsite. Each record of the
/// callsite repeats them in the trace. Without a limit, a hostile file could make a trace thousands
/// of times its own length.
const MAX_NAMES: usize = 1_024;

/// The limit of bytes for all names of a callsite, with the names of its fields.
const MAX_ALL_NAMES: usize = 4_096;
const _: () = assert!(MAX_ALL_NAMES <= MAX_PAYLOAD || cfg!(miri));

/// The number of bytes of name, target and source location among the names of a callsite.
fn bytes_without_fields(names: &str) -> usize {
    let fields = names.match_indices('\0').nth(2);
    fields.map_or(names.len(), |(index, _)| index)
}

/// The names within the limits. Names of fields that are beyond the limit are left out, the last
/// ones first; `None` if other names are too long.
fn within_limits(names: &str) -> Option<&str> {
    if bytes_without_fields(names) > MAX_NAMES {
        return None;
    }
    let names = encoding::cut(names, MAX_ALL_NAMES + 1);
    if names.len() <= MAX_ALL_NAMES {
        return Some(names);
    }
    names.rsplit_once('\0').map(|(whole, _)| whole)
}

/// The limit of bytes for a file: 1,024 rings of 64 MiB. The file gets all its blocks at once, so a
/// wrong number would otherwise fill the disk for minutes.
const MAX_FILE_BYTES: u64 = 64 << 30;

/// The length of the file's head, in words.
const FILE_HEAD: usize = 4_096 / 8;

// The indices of the head's words; `MAGIC` is word 0.
/// The number of words for records in a ring.
const CAPACITY: usize = 1;
/// The number of rings for threads.
const THREADS: usize = 2;
/// The number of records in rings that were given to other threads.
const REMOVED_RECORDS: usize = 3;
/// The time, ns of `CLOCK_MONOTONIC`, before which ends may have been in such a ring.
const ENDS_LOST_BEFORE: usize = 4;
/// The number of threads that got no ring.
const THREADS_WITHOUT_RING: usize = 5;
/// The offset of Unix time from `CLOCK_MONOTONIC` when the file was created, ns; 0 if it is
/// unknown.
const UNIX_OFFSET: usize = 6;

thread_local! {
    /// The files that had no ring for this thread.
    /// BOUND: the files that are mapped, and those that were at the last refusal.
    static REFUSED: RefCell<Vec<Weak<Memory>>> = const { RefCell::new(Vec::new()) };
}

/// Fails if the rings of a recorder are in the file `found` at `path`, and its process runs: a
/// trace must not replace them, and a store to a ring that is truncated ends that process.
pub(crate) fn check_has_no_rings(
    found: &Metadata,
    path: &Path,
    kind: io::ErrorKind,
) -> io::Result<()> {
    if !Mapping::is_any_in(found, path, MAGIC)? {
        return Ok(());
    }
    Err(io::Error::new(
        kind,
        "a recorder's rings are in this file: write the trace to another path",
    ))
}

/// The file with the rings of this process.
#[derive(Debug)]
pub(crate) struct RingFile {
    memory: Arc<Memory>,
    names: Ring,
}

impl RingFile {
    /// Creates a file with rings for `threads` threads, of at least `bytes` bytes each.
    pub(crate) fn create(path: &Path, threads: usize, bytes: usize) -> io::Result<Self> {
        let capacity = ring::capacity(bytes);
        let words = CONTROL_WORDS + capacity;
        let named = |error: io::Error| with_path(path, &error);
        // A mapping has less than `isize::MAX` bytes.
        let limit = MAX_FILE_BYTES.min(isize::MAX as u64);
        let too_many = || {
            named(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "rings of {bytes} bytes for {threads} threads take more than {limit} bytes ({} \
                     GiB), the limit of a recorder's file",
                    limit.div_ceil(1 << 30)
                ),
            ))
        };
        let file_words = threads
            .checked_add(1)
            .and_then(|rings| rings.checked_mul(words))
            .and_then(|rings| rings.checked_add(FILE_HEAD))
            .filter(|words| *words as u64 <= limit / 8)
            .ok_or_else(too_many)?;
        // The words 0, `CAPACITY` and `THREADS`.
        let head = [MAGIC, capacity as u64, threads as u64];
        let mapping = Mapping::create(path, file_words, head).map_err(named)?;
        let memory = Arc::new(Memory::Mapped(mapping));
        let unix_offset = unix_offset_ns().cast_unsigned();
        // ORDERING: Relaxed: it orders no other memory.
        memory.words()[UNIX_OFFSET].store(unix_offset, Ordering::Relaxed);
        let names = Ring::within(Arc::clone(&memory), FILE_HEAD..FILE_HEAD + words);
        names.claim(std::process::id().into(), &program_name());
        Ok(Self { memory, names })
    }

    /// Claims a ring for a thread of this number and name; `None` if all are in use.
    pub(crate) fn claim(&self, number: u64, name: &str) -> Option<Ring> {
        let words = CONTROL_WORDS + index(self.names.capacity());
        let starts = (FILE_HEAD + words..self.memory.words().len()).step_by(words);
        let mut rings =
            starts.map(|start| Ring::within(Arc::clone(&self.memory), start..start + words));
        rings.find(|ring| ring.claim(number, name))
    }

    /// Counts this thread, once, as one that got no ring. Its records are not in the file. A thread
    /// that gets no memory for a ring either asks again at each record.
    pub(crate) fn count_this_thread_without_ring(&self) {
        if self.is_first_refusal() {
            // ORDERING: Relaxed: the count orders no other memory.
            self.memory.words()[THREADS_WITHOUT_RING].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_first_refusal(&self) -> bool {
        let is_first = |refused: &RefCell<Vec<Weak<Memory>>>| {
            let mut refused = refused.borrow_mut();
            refused.retain(|memory| memory.strong_count() > 0);
            let mut known = refused.iter().map(Weak::as_ptr);
            let is_first = !known.any(|memory| ptr::eq(memory, &*self.memory));
            if is_first {
                refused.push(Arc::downgrade(&self.memory));
            }
            is_first
        };
        REFUSED.try_with(is_first).unwrap_or(true)
    }

    /// Counts the records of a ring that is given to another thread.
    pub(crate) fn count_removed(&self, records: u64) {
        let head = self.memory.words();
        // ORDERING: Relaxed for both: the count and the time order no other memory.
        head[REMOVED_RECORDS].fetch_add(records, Ordering::Relaxed);
        head[ENDS_LOST_BEFORE].fetch_max(tickline::now_ns(), Ordering::Relaxed);
    }

    /// Adds the names of a callsite, if there is room. The caller holds the lock of the callsites,
    /// so no other thread adds names.
    pub(crate) fn add_names(&self, address: usize, names: &str) {
        let Some(names) = within_limits(names) else {
            return;
        };
        let record = Record {
            callsite: address,
            payload: names.as_bytes(),
            ..Record::new(Kind::Name, 0)
        };
        if record.words() > self.names.left() {
            let next_block = self.names.write_position().next_multiple_of(BLOCK);
            if next_block >= self.names.capacity() {
                return;
            }
            self.names.begin_block(0, 0);
        }
        self.names.push(&record);
    }
}

impl Drop for RingFile {
    /// Unlocks the file. A thread may keep its ring for long, but no longer writes to it.
    fn drop(&mut self) {
        if let Memory::Mapped(mapping) = &*self.memory {
            mapping.unlock();
        }
    }
}

/// Reads the file of a recorder. The file may have any content. If its end is missing, the snapshot
/// has the whole rings of threads that are there.
pub(crate) fn read(mut input: impl Read) -> io::Result<Snapshot> {
    let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut magic = Vec::new();
    input.by_ref().take(8).read_to_end(&mut magic)?;
    let is_cut = magic.len() < 8 && MAGIC.to_ne_bytes().starts_with(&magic);
    if !is_cut && magic != MAGIC.to_ne_bytes() {
        return Err(invalid(&format!(
            "it is not the file of a flight recorder of this version: it begins with \"{}\", not with \
             \"{}\"",
            magic.escape_ascii(),
            MAGIC.to_ne_bytes().escape_ascii()
        )));
    }
    let mut input = Input {
        file: magic.chain(input),
        read_bytes: 0,
        whole_bytes: None,
    };
    let head = input.memory(FILE_HEAD)?;
    // ORDERING: Relaxed: only this thread uses the copy.
    let number = |word: usize| head.words()[word].load(Ordering::Relaxed);
    let capacity = usize::try_from(number(CAPACITY)).unwrap_or(0);
    if !capacity.is_power_of_two() || ring::capacity(capacity.saturating_mul(8)) != capacity {
        return Err(invalid(&format!(
            "no recorder has rings of {capacity} words"
        )));
    }
    let words = CONTROL_WORDS + capacity;
    let rings = number(THREADS).saturating_add(1);
    let whole_words = rings
        .saturating_mul(words as u64)
        .saturating_add(FILE_HEAD as u64);
    let whole_bytes = whole_words.saturating_mul(8);
    if whole_bytes > MAX_FILE_BYTES {
        return Err(invalid(&format!(
            "no recorder has a file of {whole_bytes} bytes, with rings for {} threads: the limit is \
             {MAX_FILE_BYTES} bytes",
            number(THREADS)
        )));
    }
    input.whole_bytes = Some(whole_bytes);
    let mut next_ring =
        || Ok::<_, io::Error>(Ring::within(Arc::new(input.memory(words)?), 0..words));
    let process = next_ring()?;
    let words = process.snapshot();
    let mut callsites = Callsites::new();
    for record in Records::new(&words, 0).filter(|record| record.kind == Kind::Name) {
        // Damaged names count as unknown.
        let Ok(names) = str::from_utf8(record.payload) else {
            continue;
        };
        if within_limits(names) != Some(names) {
            return Err(invalid(&format!(
                "the names of a callsite take {} bytes, and {} with its fields: the limits are \
                 {MAX_NAMES} and {MAX_ALL_NAMES}",
                bytes_without_fields(names),
                names.len()
            )));
        }
        callsites.insert(record.callsite, names.into());
    }
    let (mut threads, mut whole_rings) = (Vec::new(), 0);
    let missing_rings = loop {
        let missing = number(THREADS).saturating_sub(whole_rings);
        if missing == 0 {
            break 0;
        }
        let ring = match next_ring() {
            Ok(ring) => ring,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && whole_rings > 0 => {
                break missing;
            }
            Err(error) => return Err(error),
        };
        whole_rings += 1;
        if ring.get(ControlWord::InUse) == 1 {
            threads.push(ThreadSnapshot::from_ring(&ring));
        }
    };
    // A missing ring may have the end of any request, and so may a thread without a ring.
    let ends_lost_before_ns = if missing_rings > 0 || number(THREADS_WITHOUT_RING) > 0 {
        u64::MAX
    } else {
        number(ENDS_LOST_BEFORE)
    };
    Ok(Snapshot {
        process: u32::try_from(process.get(ControlWord::Number)).unwrap_or(0),
        name: process.name(),
        callsites,
        threads,
        removed_records: number(REMOVED_RECORDS),
        unix_offset_ns: Some(number(UNIX_OFFSET).cast_signed()).filter(|offset| *offset != 0),
        ends_lost_before_ns,
        threads_without_ring: number(THREADS_WITHOUT_RING),
        missing_rings,
        ..Snapshot::default()
    })
}

/// A recorder's file, as far as it has been read.
struct Input<R> {
    file: R,
    read_bytes: u64,
    /// The length of the file by its head; `None` until the head has been read.
    whole_bytes: Option<u64>,
}

impl<R: Read> Input<R> {
    /// The next words of the file, as memory.
    fn memory(&mut self, words: usize) -> io::Result<Memory> {
        let (mut bytes, wanted) = (Vec::new(), words.saturating_mul(8));
        self.file
            .by_ref()
            .take(wanted as u64)
            .read_to_end(&mut bytes)?;
        self.read_bytes = self.read_bytes.saturating_add(bytes.len() as u64);
        if bytes.len() < wanted {
            return Err(self.truncated());
        }
        let memory = Memory::allocate(words).ok_or(io::ErrorKind::OutOfMemory)?;
        for (atomic, word) in memory.words().iter().zip(bytes.as_chunks().0) {
            // ORDERING: Relaxed: no other thread has the memory yet.
            atomic.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        Ok(memory)
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
        (head[0], head[CAPACITY], head[THREADS]) = (MAGIC, capacity, threads);
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

    /// Symptom: a file that could not be opened counted as free, and the trace replaced it.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn a_file_that_cannot_be_looked_at_is_not_free() {
        use nix::sys::resource::{Resource::RLIMIT_NOFILE, setrlimit};

        let file = tempfile::NamedTempFile::new().unwrap();
        let found = file.as_file().metadata().unwrap();
        let is_refused = || {
            setrlimit(RLIMIT_NOFILE, 0, 0).unwrap();
            check_has_no_rings(&found, file.path(), io::ErrorKind::InvalidInput).is_err()
        };
        let code = tickline_observe::fork::code_of_fork(|| (!is_refused()).into());
        assert_eq!(code, 0);
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

    /// The Unix offset of a file whose head has this word for it.
    fn unix_offset_of(word: u64) -> Option<i64> {
        let capacity = ring::capacity(0);
        let mut bytes = head(capacity as u64, 1);
        let offset = UNIX_OFFSET * 8;
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

    #[test]
    fn names_of_fields_beyond_the_limit_are_left_out() {
        let head = "name\0target\0";
        let field = format!("\0{}", "x".repeat(999));
        for (fields, kept) in [(0, 0), (4, 4), (5, 4)] {
            let names = |fields| head.to_owned() + &field.repeat(fields);
            assert_eq!(within_limits(&names(fields)), Some(&*names(kept)));
        }
    }

    #[test]
    fn a_callsite_with_a_name_of_more_than_a_kibibyte_has_no_names() {
        let names = |length| format!("{}\0\0\0field", "x".repeat(length));
        assert!(within_limits(&names(1_022)).is_some());
        assert!(within_limits(&names(1_023)).is_none());
    }

    #[test]
    fn a_capacity_below_four_blocks_is_refused() {
        assert_eq!(error_of(1), "no recorder has rings of 1 words");
    }

    #[test]
    fn a_capacity_that_is_no_power_of_two_is_refused() {
        let capacity = ring::capacity(0) as u64 * 3;
        let expected = format!("no recorder has rings of {capacity} words");
        assert_eq!(error_of(capacity), expected);
    }

    #[test]
    fn a_capacity_of_zero_is_refused() {
        assert_eq!(error_of(0), "no recorder has rings of 0 words");
    }

    /// Symptom: a thread kept a number for each recorder that had no ring in a file for it, also
    /// for those that had ended.
    #[test]
    #[cfg(unix)]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_thread_forgets_the_files_that_have_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["first", "second", "third"] {
            let file = RingFile::create(&folder.path().join(name), 0, 0).expect("a file");
            file.count_this_thread_without_ring();
        }
        assert_eq!(REFUSED.with_borrow(Vec::len), 1);
    }

    #[test]
    #[cfg(unix)]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn names_fill_their_ring_and_overwrite_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("box");
        let file = RingFile::create(&path, 1, 0).expect("a file");
        // Seven of these, and no more, are in each of the four blocks.
        let names = "name\0target\0file\0".to_owned() + &"x".repeat(4_070);
        (1..=40).for_each(|address| file.add_names(address, &names));
        let snapshot = read(std::fs::File::open(&path).expect("the file")).expect("complete");
        let mut kept: Vec<usize> = snapshot.callsites.keys().copied().collect();
        kept.sort_unstable();
        assert_eq!(kept, (1..=4 * 7).collect::<Vec<_>>());
    }
}
