//! The file with a recorder's rings: its writer, and the reader of the file of another process.
//!
//! The file has a head of 4 KiB, a ring for the process, and a ring for each thread. All contain
//! 64-bit words in the byte order of the machine, in the file as in memory. A record refers to its
//! callsite by an address, which means nothing to another process. The process's ring therefore has
//! a record with address and names for each callsite. This ring has the process's number and name.

mod read;

use core::cell::RefCell;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};

pub(crate) use read::read;

use crate::layer::unix_offset::unix_offset_ns;
use crate::trace::readout::snapshot::program_name;
use crate::trace::rings::encoding;
use crate::trace::rings::memory::{Mapping, Memory};
use crate::trace::rings::record::{BLOCK, Kind, MAX_PAYLOAD, Record, index};
use crate::trace::rings::ring::{self, CONTROL_WORDS, Ring};
use crate::trace::sys::temporary::with_path;

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

/// The words of the file's head after [`MAGIC`]. Zeros follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadWord {
    /// The number of words for records in a ring.
    Capacity = 1,
    /// The number of rings for threads.
    Threads,
    /// The number of records in rings that were given to other threads.
    RemovedRecords,
    /// The time, ns of `CLOCK_MONOTONIC`, before which ends may have been in such a ring.
    EndsLostBefore,
    /// The number of threads that got no ring.
    ThreadsWithoutRing,
    /// The offset of Unix time from `CLOCK_MONOTONIC` when the file was created, ns; 0 if it is
    /// unknown.
    UnixOffset,
}

impl HeadWord {
    /// The word in the memory of a file.
    fn of(self, memory: &Memory) -> &AtomicU64 {
        &memory.words()[self as usize]
    }
}

thread_local! {
    /// The files that had no ring for this thread. Each refusal removes those that have ended, so
    /// the list has at most the files that were mapped at once.
    static REFUSED: RefCell<Vec<Weak<Memory>>> = const { RefCell::new(Vec::new()) };
}

/// Fails if the rings of a recorder are in the file `found` at `path`, and its process runs: a
/// trace must not replace them, and a store to a ring that is truncated ends that process.
pub(crate) fn check_has_no_rings(found: &Metadata, path: &Path) -> io::Result<()> {
    if !Mapping::is_any_in(found, path, MAGIC)? {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
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
                     GiB), the limit of a recorder's file; choose fewer threads() or a smaller \
                     bytes_per_thread()",
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
        // `MAGIC`, and the words `Capacity` and `Threads`.
        let head = [MAGIC, capacity as u64, threads as u64];
        let mapping = Mapping::create(path, file_words, head).map_err(named)?;
        let memory = Arc::new(Memory::Mapped(mapping));
        let unix_offset = unix_offset_ns().cast_unsigned();
        // ORDERING: Relaxed: it orders no other memory.
        HeadWord::UnixOffset
            .of(&memory)
            .store(unix_offset, Ordering::Relaxed);
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
            HeadWord::ThreadsWithoutRing
                .of(&self.memory)
                .fetch_add(1, Ordering::Relaxed);
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
        let (removed, lost) = (HeadWord::RemovedRecords, HeadWord::EndsLostBefore);
        // ORDERING: Relaxed for both: the count and the time order no other memory.
        removed
            .of(&self.memory)
            .fetch_add(records, Ordering::Relaxed);
        lost.of(&self.memory)
            .fetch_max(tickline::now_ns(), Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: a file that could not be opened counted as free, and the trace replaced it.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn a_file_that_cannot_be_looked_at_is_not_free() {
        use nix::sys::resource::{Resource::RLIMIT_NOFILE, setrlimit};

        let file = tempfile::NamedTempFile::new().unwrap();
        let found = file.as_file().metadata().unwrap();
        let is_refused = || {
            setrlimit(RLIMIT_NOFILE, 0, 0).unwrap();
            check_has_no_rings(&found, file.path()).is_err()
        };
        let code = tickline_observe::fork::code_of_fork(|| (!is_refused()).into());
        assert_eq!(code, 0);
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
