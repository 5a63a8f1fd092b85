//! A recorder: the rings of all threads, and the sink that fills them.

use core::mem;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};
use std::{fs, process, thread};

use tickline::process_token;
use tracing_core::Metadata;

use super::black_box::RingFile;
use super::recorded_spans::RecordedSpans;
use crate::layer::open_spans::OpenSpans;
use crate::layer::process_mutex::ProcessMutex;
use crate::layer::timing::StaticMetadata;
use crate::layer::unix_offset::unix_offset_ns;
use crate::trace::readout::reader::Reader;
use crate::trace::readout::snapshot::{
    Callsites, OpenRequests, Snapshot, ThreadSnapshot, names_of, program_name,
};
use crate::trace::rings::record::Record;
use crate::trace::rings::ring::{ControlWord, Ring};
use crate::trace::settings::{Settings, Tracks, WhenFull};
use crate::trace::sys::cpu_clock::CpuClock;
use crate::trace::unique_number::next_number;

/// The end of a request's span for which the ring of its thread had no room.
#[derive(Debug)]
pub(crate) struct KeptEnd {
    /// The number of the thread.
    pub(crate) thread: u64,
    pub(crate) end: Record<'static>,
}

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) settings: Settings,
    /// Unique in the process, and not 0.
    pub(crate) number: u64,
    /// The rings of all threads. The rings of ended threads are in the order of the threads' ends.
    rings: ProcessMutex<Vec<Arc<Ring>>>,
    /// The number of records in rings that were removed to keep fewer of them.
    removed_records: AtomicU64,
    /// The number of dropped records that no ring counts: those of rings that were removed after
    /// the reader had taken their records, and those for whose ring the system had no memory.
    other_dropped_records: AtomicU64,
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
    /// The ends of requests' spans that found no room in a ring, with the numbers of their threads.
    /// There is at most one for each span that was open at the reader's last pass, or has begun
    /// since. If the reader is slow, the rings become full, and get no more beginnings.
    ends_without_room: ProcessMutex<Vec<KeptEnd>>,
    /// The process that made the recorder. A forked child has no reader.
    process: u64,
    /// The file with the rings; `None` if they are only in memory.
    pub(crate) file: Option<RingFile>,
    /// The process with a thread that writes in the background, or 0. In a child that was forked
    /// meanwhile it is the parent; the child has no such thread.
    pub(crate) writing_process: AtomicU64,
}

/// The number of rings of ended threads that a recorder keeps if it overwrites: the rings of the
/// threads that ended last.
const ENDED_RINGS_KEPT: usize = 8;

impl Recorder {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            number: next_number(),
            process: process_token(),
            ..Self::default()
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
            // ORDERING: Relaxed: the count orders no other memory.
            self.other_dropped_records.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if self.settings.has_cpu_time {
            ring.cpu_clock = CpuClock::of_this_thread();
        }
        let ring = Arc::new(ring);
        self.rings.lock()?.push(Arc::clone(&ring));
        Some(ring)
    }

    fn allocate_ring(&self, number: u64, name: &str) -> Option<Ring> {
        let ring = Ring::new(self.settings.bytes_in_memory())?;
        ring.claim(number, name);
        Some(ring)
    }

    /// Claims a ring in the file, if there is a file. If no ring is free, reuses the ring of the
    /// thread that ended first.
    fn claim_ring_in_file(&self, number: u64, name: &str) -> Option<Ring> {
        // In a forked child, zeros have replaced the file, so the rings there look unused although
        // the child may use some.
        if self.is_in_child() {
            return None;
        }
        let file = self.file.as_ref()?;
        let ring = file.claim(number, name);
        if ring.is_some() {
            return ring;
        }
        let mut rings = self.rings.lock()?;
        // A ring that only the list has is free as soon as it is removed. Another thread may claim
        // it first, because a claim needs no lock.
        let is_free = |ring: &Arc<Ring>| ring.is_mapped() && Arc::strong_count(ring) == 1;
        let mut ring = None;
        while ring.is_none() && self.remove_first_ended(&mut rings, is_free) {
            ring = file.claim(number, name);
        }
        if ring.is_none() {
            file.count_this_thread_without_ring();
        }
        ring
    }

    /// Marks the end of the thread of `ring`. If no reader takes the records, at most
    /// [`ENDED_RINGS_KEPT`] rings of ended threads stay in memory.
    pub(crate) fn thread_ended(&self, ring: &Arc<Ring>) {
        let Some(mut rings) = self.rings.lock() else {
            return;
        };
        // This happens under the lock, so that rings are in the order in which their threads end.
        ring.end_thread();
        let Some(index) = rings.iter().position(|known| Arc::ptr_eq(known, ring)) else {
            return;
        };
        rings[index..].rotate_left(1);
        // Rings in the file stay until another thread needs one.
        let takes_memory = |ring: &Arc<Ring>| !ring.is_mapped();
        let ended = rings
            .iter()
            .filter(|ring| ring.has_ended() && takes_memory(ring))
            .count();
        if self.settings.when_full == WhenFull::Overwrite && ended > ENDED_RINGS_KEPT {
            self.remove_first_ended(&mut rings, takes_memory);
        }
    }

    /// Removes, among the rings that `may_remove` accepts, the ring of the thread that ended first.
    /// Returns whether there is one.
    fn remove_first_ended(
        &self,
        rings: &mut Vec<Arc<Ring>>,
        may_remove: impl Fn(&Arc<Ring>) -> bool,
    ) -> bool {
        let is_first = |ring: &Arc<Ring>| ring.has_ended() && may_remove(ring);
        let Some(first) = rings.iter().position(is_first) else {
            return false;
        };
        let first = rings.remove(first);
        first.release();
        let records = first.get(ControlWord::Records);
        // ORDERING: Relaxed: the count orders no other memory.
        self.removed_records.fetch_add(records, Ordering::Relaxed);
        if first.is_mapped()
            && let Some(file) = &self.file
        {
            file.count_removed(records);
        }
        true
    }

    /// The rings of all threads; `None` if the lock is lost in a forked child
    /// ([`ProcessMutex::lock`]).
    pub(crate) fn rings(&self) -> Option<Vec<Arc<Ring>>> {
        self.rings.lock().map(|rings| rings.clone())
    }

    /// A copy of the present content; `None` if the lock is lost ([`ProcessMutex::lock`]).
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        let (rings, removed_records) = {
            let rings = self.rings.lock()?;
            // ORDERING: Relaxed: under the lock, so no ring counts twice.
            (rings.clone(), self.removed_records.load(Ordering::Relaxed))
        };
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
            dropped_records: self.dropped_records(),
            end_ns: tickline::now_ns(),
            unix_offset_ns: Some(unix_offset_ns()),
            // These are read after the records: a request that ends meanwhile is left out.
            open_requests: self.open_requests(),
            ..Snapshot::default()
        })
    }

    /// Removes a ring whose thread has ended, and whose records were taken.
    pub(crate) fn remove(&self, ring: &Arc<Ring>) {
        if let Some(mut rings) = self.rings.lock() {
            rings.retain(|known| !Arc::ptr_eq(known, ring));
            // ORDERING: Relaxed: under the lock, so the ring counts once.
            self.other_dropped_records
                .fetch_add(ring.get(ControlWord::Dropped), Ordering::Relaxed);
        }
    }

    /// The number of records that no ring has taken.
    pub(crate) fn dropped_records(&self) -> u64 {
        let rings = self.rings.lock();
        let dropped = rings
            .iter()
            .flat_map(|rings| rings.iter())
            .map(|ring| ring.get(ControlWord::Dropped));
        // ORDERING: Relaxed: under the lock, so no ring counts twice.
        let others = self.other_dropped_records.load(Ordering::Relaxed);
        dropped.fold(others, u64::saturating_add)
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
        let ends = if self.is_in_child() {
            None
        } else {
            self.ends_without_room.lock()
        };
        let Some(mut ends) = ends else { return false };
        let end = Record {
            payload: &[],
            ..*end
        };
        ends.push(KeptEnd { thread, end });
        true
    }

    /// The ends of spans that [`keep_end`](Self::keep_end) has kept since the last call.
    pub(crate) fn take_kept_ends(&self) -> Vec<KeptEnd> {
        let ends = self.ends_without_room.lock();
        ends.map(|mut ends| mem::take(&mut *ends))
            .unwrap_or_default()
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
