//! A recorder: the rings of all threads, and the sink that fills them.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::thread::{self, Thread};
use std::{fs, process};

use tracing_core::span::{Attributes, Record as Values};
use tracing_core::{Event, Metadata};

use super::fields::{Fields, SpanFields, event_text};
use super::file::RingFile;
use super::record::{Kind, Record, Word};
use super::ring::{HeadWord, Ring};
use super::thread_recorder;
use super::{Settings, Tracks, WhenFull, next_number};
use crate::open_spans::{OpenSpans, lock_with_retries};
use crate::sink::{Lookup, Sink, Span, StaticMetadata, Which};
use crate::timing::SpanTimes;

/// The names of callsites, by the address of their metadata. An entry has the name and the target.
/// If the trace is to have it, there is also the place in the source, such as `src/main.rs:7`. A
/// NUL is between them.
pub(crate) type Callsites = HashMap<usize, Arc<str>>;

/// The number of open spans of requests, by time of creation and address of the callsite.
pub(crate) type OpenRequests = HashMap<(u64, usize), u64>;

/// What a recorder had at one moment, or what a process has left in a file.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) process: u32,
    pub(crate) name: String,
    pub(crate) callsites: Callsites,
    pub(crate) threads: Vec<ThreadSnapshot>,
    /// Records that were in rings that are gone.
    pub(crate) gone: u64,
    /// When the rings were copied, ns of `CLOCK_MONOTONIC`; 0 for what a process has left.
    pub(crate) end_ns: u64,
    /// `None` if there are no requests, or not all are known.
    pub(crate) open_requests: Option<OpenRequests>,
    /// Ends before this time, ns of `CLOCK_MONOTONIC`, may be gone, beside those that a ring says
    /// that it lost.
    pub(crate) ends_gone_before_ns: u64,
    /// Threads for which there was no ring in the file.
    pub(crate) outside: u64,
}

pub(crate) struct ThreadSnapshot {
    pub(crate) number: u64,
    pub(crate) name: String,
    /// Records that were written before the ring was copied, those that are overwritten included.
    pub(crate) written: u64,
    pub(crate) words: Vec<Word>,
}

impl ThreadSnapshot {
    pub(crate) fn of(ring: &Ring) -> Self {
        let [number, written] = [HeadWord::Number, HeadWord::Records].map(|word| ring.get(word));
        Self { number, name: ring.name(), written, words: ring.snapshot() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) settings: Settings,
    /// The rings of all threads. Those of threads that have ended are in the order of their ends.
    rings: Mutex<Vec<Arc<Ring>>>,
    /// Lost records of rings that were removed: those that a removed ring held, or that found no
    /// room in it.
    gone: AtomicU64,
    has_ended: AtomicBool,
    /// The thread that takes the records, and records nothing itself.
    pub(crate) reader: OnceLock<Thread>,
    /// Records store the addresses.
    callsites: Mutex<Callsites>,
    /// The open spans of the layers that this is a sink of.
    open_spans: Mutex<Vec<Weak<OpenSpans>>>,
    /// The process that made this. A forked child has no reader.
    process: u32,
    /// Where the rings are, unless they are only in memory.
    pub(crate) file: Option<RingFile>,
    /// The process that writes in the background, or 0. It is the parent's in a child that was
    /// forked meanwhile, which has no such thread.
    pub(crate) writing: AtomicU32,
}

/// The extension of a span, for all recorders.
#[derive(Debug, Default)]
struct Recorded {
    /// The number of its request; 0 for none.
    request: u64,
    /// Whether its beginning in the request was recorded.
    is_begun: bool,
    fields: SpanFields,
}

/// A recorder that overwrites keeps the rings of this many threads that have ended: those that
/// ended last.
const KEPT: usize = 8;

impl Recorder {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, process: process::id(), ..Self::default() }
    }

    fn has_requests(&self) -> bool {
        self.settings.tracks != Tracks::Threads
    }

    fn has_fields(&self, metadata: &Metadata<'_>) -> bool {
        self.settings.has_fields && !metadata.fields().is_empty()
    }

    /// Locks one of the lists; `None` in a forked child, if a thread of the parent holds the lock,
    /// as it may for ever.
    fn lock<'a, T>(&self, list: &'a Mutex<T>) -> Option<MutexGuard<'a, T>> {
        lock_with_retries(|| match list.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::WouldBlock) if self.is_in_child() => None,
            Err(_) => Some(list.lock().unwrap_or_else(PoisonError::into_inner)),
        })
    }

    /// Makes sure that [`callsite`](Self::callsite) knows it.
    #[cold]
    pub(crate) fn add_callsite(&self, address: usize, metadata: StaticMetadata) {
        if let Some(mut callsites) = self.lock(&self.callsites)
            && let Entry::Vacant(entry) = callsites.entry(address)
        {
            let location = metadata.file().zip(metadata.line()).filter(|_| self.settings.has_locations);
            let location = location.map(|(file, line)| format!("{file}:{line}")).unwrap_or_default();
            let names = entry.insert([metadata.name(), metadata.target(), &location].join("\0").into());
            if let Some(file) = &self.file {
                file.add_names(address, names);
            }
        }
    }

    /// The names of the callsite whose metadata is at this address.
    pub(crate) fn callsite(&self, address: usize) -> Option<Arc<str>> {
        self.lock(&self.callsites)?.get(&address).cloned()
    }

    /// Makes a ring for the present thread.
    pub(crate) fn join(&self) -> Option<Arc<Ring>> {
        let (number, name) = present_thread();
        let ring = self.ring_in_file(number, &name).unwrap_or_else(|| {
            let ring = Ring::new(self.settings.bytes_per_thread);
            ring.claim(number, &name);
            ring
        });
        let ring = Arc::new(ring);
        self.lock(&self.rings)?.push(Arc::clone(&ring));
        Some(ring)
    }

    /// A ring of the file, if there is one. If none is free, the thread that ended first gives its
    /// ring away.
    fn ring_in_file(&self, number: u64, name: &str) -> Option<Ring> {
        // What a forked child has in the file's place may be in use, but does not say so.
        let file = self.file.as_ref().filter(|_| !self.is_in_child())?;
        file.claim(number, name).or_else(|| {
            self.forget_first(&mut *self.lock(&self.rings)?, Ring::is_mapped);
            let ring = file.claim(number, name);
            if ring.is_none() {
                file.count_outside();
            }
            ring
        })
    }

    /// The thread of `ring` ends. If nobody takes records, more than [`KEPT`] rings of such threads
    /// would only take memory.
    pub(crate) fn leave(&self, ring: &Arc<Ring>) {
        let Some(mut rings) = self.lock(&self.rings) else { return };
        // Under the lock, so that rings are in the order in which their threads end.
        ring.end_thread();
        let Some(index) = rings.iter().position(|known| Arc::ptr_eq(known, ring)) else { return };
        rings[index..].rotate_left(1);
        // The file has room for its rings, and a thread that needs one forgets another.
        let takes_memory = |ring: &Ring| !ring.is_mapped();
        let ended = rings.iter().filter(|ring| ring.has_ended() && takes_memory(ring)).count();
        if self.settings.when_full == WhenFull::Overwrite && ended > KEPT {
            self.forget_first(&mut rings, takes_memory);
        }
    }

    /// Forgets the ring of the thread that ended first, of those that are meant.
    fn forget_first(&self, rings: &mut Vec<Arc<Ring>>, is_meant: impl Fn(&Ring) -> bool) {
        if let Some(first) = rings.iter().position(|ring| ring.has_ended() && is_meant(ring)) {
            let first = rings.remove(first);
            first.forget();
            let records = first.get(HeadWord::Records);
            // ORDERING: Relaxed, a count of its own.
            self.gone.fetch_add(records, Ordering::Relaxed);
            if let Some(file) = self.file.as_ref().filter(|_| first.is_mapped()) {
                file.count_gone(records);
            }
        }
    }

    /// The rings of all threads; `None` only in a forked child, if a thread of the parent has them
    /// locked.
    pub(crate) fn rings(&self) -> Option<Vec<Arc<Ring>>> {
        self.lock(&self.rings).map(|rings| rings.clone())
    }

    /// What all rings have now; `None` as for [`rings`](Self::rings).
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        let (rings, gone) = {
            let rings = self.lock(&self.rings)?;
            // ORDERING: Relaxed, a count of its own; under the lock, so that no ring counts twice.
            (rings.clone(), self.gone.load(Ordering::Relaxed))
        };
        let threads = rings.iter().map(|ring| ThreadSnapshot::of(ring)).collect();
        let callsites = self.lock(&self.callsites).map(|callsites| callsites.clone());
        Some(Snapshot {
            process: process::id(),
            name: own_name(),
            callsites: callsites.unwrap_or_default(),
            threads,
            gone,
            end_ns: tickline::now_ns(),
            // Later than the records: a request that ends meanwhile is left out, not shown as open.
            open_requests: self.open_requests(),
            ..Snapshot::default()
        })
    }

    /// Forgets a ring whose thread has ended, and whose records were taken.
    pub(crate) fn forget(&self, ring: &Arc<Ring>) {
        // ORDERING: Relaxed, a count of its own.
        self.gone.fetch_add(ring.get(HeadWord::Dropped), Ordering::Relaxed);
        if let Some(mut rings) = self.lock(&self.rings) {
            rings.retain(|known| !Arc::ptr_eq(known, ring));
        }
    }

    /// Records that found no room, or were in a ring that was removed.
    pub(crate) fn dropped(&self) -> u64 {
        let rings = self.lock(&self.rings);
        let dropped = rings.iter().flat_map(|rings| rings.iter()).map(|ring| ring.get(HeadWord::Dropped));
        // ORDERING: Relaxed, a count of its own; under the lock, so that no ring counts twice.
        dropped.fold(self.gone.load(Ordering::Relaxed), u64::saturating_add)
    }

    pub(crate) fn wake_reader(&self) {
        if let Some(reader) = self.reader.get() {
            reader.unpark();
        }
    }

    /// Ends the recording: nobody takes what is recorded from now on, as it may never stop.
    pub(crate) fn end(&self) {
        // ORDERING: Release, pairs with the Acquire load in `has_ended`: the reader sees what was
        // recorded before.
        self.has_ended.store(true, Ordering::Release);
    }

    /// Whether this is a child of the process that made the recorder.
    pub(crate) fn is_in_child(&self) -> bool {
        process::id() != self.process
    }

    /// `None` if there are no requests, or not all are known. The spans of a layer that is gone end
    /// unseen, so they do not count.
    fn open_requests(&self) -> Option<OpenRequests> {
        if !self.has_requests() {
            return None;
        }
        let tables: Vec<_> = self.lock(&self.open_spans)?.iter().filter_map(Weak::upgrade).collect();
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
        // ORDERING: Acquire, see `end`.
        self.has_ended.load(Ordering::Acquire)
    }
}

/// The name of this process: that of its program.
pub(crate) fn own_name() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Number and name of the present thread, as viewers show it. The number is the system's, which
/// `ps` and `perf` show; the process's own, where `/proc` does not have it.
fn present_thread() -> (u64, String) {
    // The target on Linux is `PROCESS/task/THREAD`.
    let link = fs::read_link("/proc/thread-self").ok();
    let number = link.and_then(|link| link.file_name()?.to_str()?.parse().ok()).unwrap_or_else(next_number);
    let name = thread::current().name().map(str::to_owned);
    // A thread that Rust did not start may have a name by pthread_setname_np.
    let comm = || Some(fs::read_to_string("/proc/thread-self/comm").ok()?.trim_end().to_owned());
    (number, name.or_else(comm).unwrap_or_else(|| format!("thread {number}")))
}

/// A sink that fills a recorder.
pub(crate) trait TraceSink: fmt::Debug + Send + Sync + 'static {
    fn recorder(&self) -> &Arc<Recorder>;
}

impl<S: TraceSink> Sink for S {
    fn joined(&mut self, open_spans: &Arc<OpenSpans>) {
        let recorder = self.recorder();
        if let Some(mut tables) = recorder.lock(&recorder.open_spans) {
            tables.retain(|table| table.strong_count() > 0);
            tables.push(Arc::downgrade(open_spans));
        }
    }

    fn wants_enters(&self) -> bool {
        self.recorder().settings.tracks != Tracks::Requests
    }

    fn wants_events(&self) -> bool {
        true
    }

    fn created(&self, span: &Span<'_>, attributes: &Attributes<'_>, ns: u64) {
        let recorder = self.recorder();
        let (has_requests, has_fields) = (recorder.has_requests(), recorder.has_fields(span.metadata));
        if !has_requests && !has_fields {
            return;
        }
        // The extensions are not locked while values are formatted: a value's `Debug` may use them.
        let fields = has_fields.then(|| Fields::of(|visit| attributes.record(visit)));
        span.extension(|recorded: &mut Recorded, found| {
            if let Some(fields) = fields {
                recorded.fields = SpanFields::new(fields);
            }
            if has_requests {
                // Another recorder may have numbered the request.
                if recorded.request == 0 {
                    let parent = Which::ParentOf(span.id);
                    let parents = found.extension(parent, |parent: &mut Recorded, _| parent.request);
                    recorded.request = parents.filter(|id| *id != 0).unwrap_or_else(next_number);
                }
                let text = recorded.fields.text.as_deref().filter(|_| has_fields).unwrap_or_default();
                let record = Record { id: recorded.request, text, ..Record::new(Kind::AsyncBegin, ns) };
                recorded.is_begun = thread_recorder::record(recorder, span.metadata, record);
            }
        });
    }

    fn recorded(&self, span: &Span<'_>, values: &Values<'_>) {
        let recorder = self.recorder();
        if !recorder.has_fields(span.metadata) {
            return;
        }
        let values = Fields::of(|visit| values.record(visit));
        span.extension(|recorded: &mut Recorded, _| recorded.fields.add(values));
        let _ = thread_recorder::with(recorder, |own| own.change(span.id));
    }

    fn entered(&self, span: &Span<'_>, ns: u64) {
        if !self.wants_enters() {
            return; // another sink does
        }
        let recorder = self.recorder();
        let text = || span.extension(|recorded: &mut Recorded, _| recorded.fields.text.clone());
        let text = if recorder.has_fields(span.metadata) { text().flatten() } else { None };
        let _ = thread_recorder::with(recorder, |own| own.enter(recorder, span, ns, text));
    }

    fn exited(&self, span: &Span<'_>, ns: u64) {
        if self.wants_enters() {
            let later = || span.extension(|recorded: &mut Recorded, _| recorded.fields.later.text());
            let later = || later().unwrap_or_default();
            let recorder = self.recorder();
            let _ = thread_recorder::with(recorder, |own| own.exit(recorder, span.id, ns, later));
        }
    }

    fn event(&self, event: &Event<'_>, lookup: &dyn Lookup, ns: u64) {
        let recorder = self.recorder();
        let text = &event_text(event);
        let request = || lookup.extension(Which::Around(event), |around: &mut Recorded, _| around.request);
        let id = if recorder.has_requests() { request().unwrap_or(0) } else { 0 };
        let record = Record { id, text, ..Record::new(Kind::Instant, ns) };
        thread_recorder::record(recorder, event.metadata(), record);
    }

    fn closed(&self, span: &Span<'_>, times: &SpanTimes) {
        let recorder = self.recorder();
        if !recorder.has_requests() {
            return;
        }
        let has_fields = recorder.has_fields(span.metadata);
        let begun = span.extension(|recorded: &mut Recorded, _| {
            let later = if has_fields { recorded.fields.later.text() } else { String::new() };
            recorded.is_begun.then_some((recorded.request, later))
        });
        if let Some((id, text)) = begun.flatten() {
            let record = Record { id, text: &text, ..Record::new(Kind::AsyncEnd, times.closed_ns) };
            thread_recorder::record(recorder, span.metadata, record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of a trace may make spans as it is written. Their records would be written, too:
    /// by this trace, or by another one, whose output writes to this one.
    #[test]
    fn a_reader_records_nothing_anywhere() {
        for is_reader in [false, true] {
            thread_recorder::IS_READER.set(is_reader);
            let recorder = Arc::new(Recorder::new(Settings::new(WhenFull::Drop)));
            assert_eq!(thread_recorder::with(&recorder, |_| ()).is_none(), is_reader);
        }
    }

    /// Symptom: a forked child hung when it recorded its first span, or wrote a flight recorder's
    /// file. Cause: another thread of its parent had a lock.
    #[test]
    fn a_child_waits_for_no_thread_of_its_parent() {
        let settings = Settings { tracks: Tracks::Requests, ..Settings::new(WhenFull::Overwrite) };
        let recorder = Recorder { process: 0, ..Recorder::new(settings) };
        core::mem::forget((recorder.rings.lock(), recorder.callsites.lock(), recorder.open_spans.lock()));
        assert!(recorder.join().is_none() && recorder.snapshot().is_none());
        assert!(recorder.callsite(7).is_none() && recorder.open_requests().is_none());
    }
}
