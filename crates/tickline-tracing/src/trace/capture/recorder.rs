//! A recorder: what its sinks, the threads that record, and its reader share. Its rings are in
//! `ring_list.rs`. `trace_sink.rs` is the sink; `thread_recorder.rs` fills the ring of a thread.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};
use std::{fs, process, thread};

use tickline::process_token;
use tracing_core::Metadata;

use super::black_box::RingFile;
use super::kept_ends::KeptEnds;
use super::recorded_spans::RecordedSpans;
use super::ring_list::RingList;
use crate::layer::open_spans::OpenSpans;
use crate::layer::process_mutex::ProcessMutex;
use crate::layer::timing::StaticMetadata;
use crate::layer::unix_offset::unix_offset_ns;
use crate::trace::readout::reader::Reader;
use crate::trace::readout::snapshot::{
    Callsites, OpenRequests, Snapshot, ThreadSnapshot, names_of, program_name,
};
use crate::trace::rings::record::Record;
use crate::trace::rings::ring::Ring;
use crate::trace::settings::{Settings, Tracks};
use crate::trace::sys::cpu_clock::CpuClock;
use crate::trace::unique_number::next_number;

#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) settings: Settings,
    /// Unique in the process, and not 0.
    pub(crate) number: u64,
    /// The rings of all threads.
    pub(crate) rings: RingList,
    pub(crate) kept_ends: KeptEnds,
    /// The number of recorded panics.
    panics: AtomicU64,
    has_ended: AtomicBool,
    pub(crate) reader: Arc<Reader>,
    /// The names for the addresses in records.
    callsites: ProcessMutex<Callsites>,
    /// The open spans of the layers that have this recorder as a sink.
    open_spans: ProcessMutex<Vec<Weak<OpenSpans>>>,
    /// What each of them keeps for its open spans; empty if requests are not recorded.
    recorded_spans: ProcessMutex<Vec<Weak<RecordedSpans>>>,
    /// Whether there have been several such layers at once.
    is_in_several_layers: AtomicBool,
    /// The process that made the recorder. A forked child has no reader.
    process: u64,
    /// The file with the rings; `None` if they are only in memory.
    pub(crate) file: Option<RingFile>,
    /// The process with a thread that writes in the background, or 0. In a child that was forked
    /// meanwhile it is the parent; the child has no such thread.
    pub(crate) writing_process: AtomicU64,
}

impl Recorder {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            number: next_number(),
            rings: RingList::default(),
            kept_ends: KeptEnds::default(),
            panics: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            reader: Arc::default(),
            callsites: ProcessMutex::default(),
            open_spans: ProcessMutex::default(),
            recorded_spans: ProcessMutex::default(),
            is_in_several_layers: AtomicBool::new(false),
            process: process_token(),
            file: None,
            writing_process: AtomicU64::new(0),
        }
    }

    pub(crate) fn has_requests(&self) -> bool {
        self.settings.tracks != Tracks::Threads
    }

    pub(crate) fn has_fields(&self, metadata: &Metadata<'_>) -> bool {
        self.settings.has_fields && !metadata.fields().is_empty()
    }

    /// Adds a layer that has this recorder as a sink, by its open spans.
    pub(crate) fn add_layer(&self, open_spans: &Arc<OpenSpans>) {
        let mut is_second = true;
        if let Some(mut tables) = self.open_spans.lock() {
            tables.retain(|table| table.strong_count() > 0);
            is_second = !tables.is_empty();
            tables.push(Arc::downgrade(open_spans));
        }
        if is_second {
            // ORDERING: Relaxed: whoever makes the layer part of a subscriber publishes it.
            self.is_in_several_layers.store(true, Ordering::Relaxed);
        }
    }

    /// Whether several layers may have the recorder as a sink. It then has each of their spans
    /// once. Nothing tells whether two layers get the same event: it has the events of both.
    pub(crate) fn is_in_several_layers(&self) -> bool {
        // ORDERING: Relaxed: see `add_layer`. A layer that does not see another one yet is about to
        // be replaced; its spans of that moment are recorded by both.
        self.is_in_several_layers.load(Ordering::Relaxed)
    }

    /// Adds what the sink in a layer keeps for its open spans.
    pub(crate) fn add_recorded_spans(&self, recorded_spans: &Arc<RecordedSpans>) {
        if let Some(mut all) = self.recorded_spans.lock() {
            all.retain(|known| known.strong_count() > 0);
            all.push(Arc::downgrade(recorded_spans));
        }
    }

    /// The number of the innermost span of a request that this thread is in; 0 if it is in none, or
    /// if requests are not recorded.
    pub(crate) fn number_around_this_thread(&self) -> u64 {
        // The lock is released first: a subscriber may end with the last reference to it.
        let all = self.recorded_spans.lock().map(|all| all.clone());
        let mut all = all.iter().flatten().filter_map(Weak::upgrade);
        let number = all.find_map(|spans| spans.number_around_this_thread());
        number.unwrap_or(0)
    }

    /// Adds the names of a callsite, unless [`callsite`](Self::callsite) already finds them.
    #[cold]
    pub(crate) fn add_callsite(&self, address: usize, metadata: StaticMetadata) {
        if let Some(mut callsites) = self.callsites.lock()
            && let Entry::Vacant(entry) = callsites.entry(address)
        {
            let location = match (metadata.file(), metadata.line()) {
                (Some(file), Some(line)) if self.settings.has_locations => {
                    format!("{file}:{line}")
                }
                _ => String::new(),
            };
            let names = entry.insert(names_of(metadata, &location));
            if let Some(file) = &self.file {
                file.add_names(address, names);
            }
        }
    }

    /// The names of the callsite whose metadata is at this address.
    pub(crate) fn callsite(&self, address: usize) -> Option<Arc<str>> {
        self.callsites.lock()?.get(&address).cloned()
    }

    /// Adds a ring for the present thread. `None` if the system has no memory for it; this counts
    /// as a dropped record. `None` also if the lock on the rings is lost ([`ProcessMutex::lock`]).
    pub(crate) fn add_ring(&self) -> Option<Arc<Ring>> {
        let (number, name) = present_thread();
        let ring = self
            .claim_ring_in_file(number, &name)
            .or_else(|| self.allocate_ring(number, &name));
        let Some(mut ring) = ring else {
            self.rings.count_record_without_ring();
            return None;
        };
        if self.settings.has_cpu_time {
            ring.cpu_clock = CpuClock::of_this_thread();
        }
        self.rings.add(ring)
    }

    fn allocate_ring(&self, number: u64, name: &str) -> Option<Ring> {
        let ring = Ring::new(self.settings.bytes_in_memory())?;
        ring.claim(number, name);
        Some(ring)
    }

    /// Claims a ring in the file, if there is a file.
    fn claim_ring_in_file(&self, number: u64, name: &str) -> Option<Ring> {
        // In a forked child, zeros have replaced the file, so the rings there look unused although
        // the child may use some.
        if self.is_in_child() {
            return None;
        }
        self.rings.claim_in_file(self.file.as_ref()?, number, name)
    }

    /// A copy of the present content; `None` if the lock is lost ([`ProcessMutex::lock`]).
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        let (rings, removed_records) = self.rings.all_with_removed_records()?;
        let threads = rings
            .iter()
            .map(|ring| ThreadSnapshot::from_ring(ring))
            .collect();
        let callsites = self.callsites.lock().map(|callsites| callsites.clone());
        Some(Snapshot {
            process: process::id(),
            name: program_name(),
            callsites: callsites.unwrap_or_default(),
            threads,
            removed_records,
            dropped_records: self.rings.dropped_records(),
            end_ns: tickline::now_ns(),
            unix_offset_ns: Some(unix_offset_ns()),
            // These are read after the records: a request that ends meanwhile is left out.
            open_requests: self.open_requests(),
            ..Snapshot::default()
        })
    }

    /// Counts a recorded panic.
    pub(crate) fn count_panic(&self) {
        // ORDERING: Relaxed: the count orders no other memory.
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of recorded panics.
    pub(crate) fn panics(&self) -> u64 {
        // ORDERING: Relaxed: see `count_panic`. A panic of this moment counts as an event.
        self.panics.load(Ordering::Relaxed)
    }

    /// Keeps the end of a request's span, without its fields, if the ring of `thread` has no room
    /// for it. Returns false if no reader will take it.
    #[cold]
    pub(crate) fn keep_end(&self, thread: u64, end: &Record<'_>) -> bool {
        !self.is_in_child() && self.kept_ends.keep(thread, end)
    }

    pub(crate) fn wake_reader(&self) {
        self.reader.wake();
    }

    /// Ends the recording. The reader takes no later records; they might never end.
    pub(crate) fn end(&self) {
        // ORDERING: Release, pairs with the Acquire load in `has_ended`: the reader sees the
        // earlier records.
        self.has_ended.store(true, Ordering::Release);
    }

    /// Whether nobody takes records any more. Ends the recording if the reader's thread was killed,
    /// by a seccomp filter for example; a system call tells.
    #[cold]
    pub(crate) fn has_no_reader_left(&self) -> bool {
        if !self.has_ended() && !self.is_in_child() && self.reader.has_ended() {
            self.end();
        }
        self.has_ended()
    }

    /// Whether this is a child of the process that made the recorder.
    pub(crate) fn is_in_child(&self) -> bool {
        process_token() != self.process
    }

    /// The open requests; `None` if requests are not recorded, or not all are known. The spans of a
    /// dropped layer do not count, because the recorder would not learn of their ends.
    fn open_requests(&self) -> Option<OpenRequests> {
        if !self.has_requests() {
            return None;
        }
        let tables: Vec<_> = self
            .open_spans
            .lock()?
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let mut open = OpenRequests::new();
        for table in tables {
            for open_span in table.all()? {
                let callsite = core::ptr::from_ref(open_span.metadata).addr();
                *open.entry((open_span.created_ns, callsite)).or_default() += 1;
            }
        }
        Some(open)
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release store in `end`.
        self.has_ended.load(Ordering::Acquire)
    }
}

/// Number and name of the present thread for viewers. The number is the system's, as in `ps` and
/// `perf`; without `/proc`, it is a number of [`next_number`].
fn present_thread() -> (u64, String) {
    // The target on Linux is `PROCESS/task/THREAD`.
    let link = fs::read_link("/proc/thread-self").ok();
    let number = link
        .and_then(|link| link.file_name()?.to_str()?.parse().ok())
        .unwrap_or_else(next_number);
    let name = thread::current().name().map(str::to_owned);
    // A thread that Rust did not start may have a name by pthread_setname_np.
    let comm = || {
        Some(
            fs::read_to_string("/proc/thread-self/comm")
                .ok()?
                .trim_end()
                .to_owned(),
        )
    };
    (
        number,
        name.or_else(comm)
            .unwrap_or_else(|| format!("thread {number}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use crate::trace::capture::black_box;
    use crate::trace::capture::thread_recorder;
    use crate::trace::settings::WhenFull;

    /// Symptom: process 1 of a container forked into a new pid namespace. The child, which is
    /// process 1 there, waited for ever for a writer that only its parent has.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_child_with_its_parents_process_id_is_a_child() {
        let make = || Recorder::new(Settings::new(WhenFull::Wait));
        tickline_observe::fork::assert_in_namesake(make, |recorder| recorder.is_in_child());
    }

    /// The output of a trace may create spans while it writes. Their records would be written, too,
    /// by this trace, or by another trace whose output writes to this one, without end.
    #[test]
    fn a_reader_records_nothing_anywhere() {
        for is_reader in [false, true] {
            thread_recorder::IS_READER.set(is_reader);
            let recorder = Arc::new(Recorder::new(Settings::new(WhenFull::Drop)));
            assert_eq!(
                thread_recorder::with(&recorder, |_| ()).is_none(),
                is_reader
            );
        }
    }

    /// Symptom: a thread that got no memory for a ring either was counted at each of its records.
    #[test]
    #[cfg(unix)]
    fn a_thread_without_a_ring_is_counted_once_for_each_recorder() {
        for _ in 0..2 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("box");
            let mut recorder = Recorder::new(Settings::new(WhenFull::Overwrite));
            recorder.file = Some(RingFile::create(&path, 0, 1).unwrap());
            for _ in 0..3 {
                assert!(recorder.claim_ring_in_file(7, "a thread").is_none());
            }
            let snapshot = black_box::read(fs::File::open(&path).unwrap()).unwrap();
            assert_eq!(snapshot.threads_without_ring, 1);
        }
    }

    /// Symptom: a forked child hung when it recorded its first span, or wrote a flight recorder's
    /// file. Cause: another thread of its parent held a lock at the fork.
    #[test]
    fn a_child_waits_for_no_thread_of_its_parent() {
        let settings = Settings {
            tracks: Tracks::Requests,
            ..Settings::new(WhenFull::Overwrite)
        };
        let mut recorder = Recorder::new(settings);
        recorder.rings.hold_for_ever_in_parent();
        recorder.callsites.hold_for_ever_in_parent();
        recorder.open_spans.hold_for_ever_in_parent();
        assert!(recorder.add_ring().is_none() && recorder.snapshot().is_none());
        assert!(recorder.callsite(7).is_none() && recorder.open_requests().is_none());
    }
}
