//! A recorder: the buffers of all threads, and the sink that fills them.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use tracing_core::span::{Attributes, Record as Values};
use tracing_core::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::buffer::{Buffer, Kind, Record};
use super::fields::{EventFields, SpanFields};
use super::local;
use super::thread::ThreadName;
use crate::sink::{Hooks, OpenSpan};
use crate::timing::SpanTiming;

/// Numbers the recorders of a process, so that a thread can keep apart what belongs to each.
static NEXT_RECORDER: AtomicU64 = AtomicU64::new(1);

/// Numbers the requests of a process.
static NEXT_REQUEST: AtomicU64 = AtomicU64::new(1);

/// Memory for a thread, by default: 10,000 entered spans without fields.
const DEFAULT_BYTES: usize = 1 << 20;

/// Where viewers draw the spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Tracks {
    /// On a track for each thread: its busy intervals in a span, from enter to exit.
    #[default]
    Threads,
    /// On a track for each request, from creation to end, across every `.await`. A request is a
    /// span without a parent, with all spans below it, on whatever threads they run.
    Requests,
    /// Both.
    ThreadsAndRequests,
}

impl Tracks {
    const fn has_threads(self) -> bool {
        matches!(self, Self::Threads | Self::ThreadsAndRequests)
    }

    const fn has_requests(self) -> bool {
        matches!(self, Self::Requests | Self::ThreadsAndRequests)
    }
}

/// What happens to a record for which a buffer has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It overwrites the oldest.
    Overwrite,
    /// It is dropped.
    Drop,
    /// The thread waits.
    Wait,
}

/// What a recorder records, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) bytes_per_thread: usize,
    pub(crate) when_full: WhenFull,
    pub(crate) tracks: Tracks,
    pub(crate) has_fields: bool,
    pub(crate) has_events: bool,
}

impl Settings {
    /// What both sinks begin with.
    pub(crate) const fn new(when_full: WhenFull) -> Self {
        Self {
            bytes_per_thread: DEFAULT_BYTES,
            when_full,
            tracks: Tracks::Threads,
            has_fields: false,
            has_events: true,
        }
    }
}

/// What a file holds so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Written {
    /// Beginnings: of busy intervals of threads, and of spans of requests.
    pub(crate) begun: u64,
    ended: u64,
    pub(crate) events: u64,
}

impl Written {
    /// Counts a record.
    pub(crate) const fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Begin | Kind::Open => self.begun += 1,
            Kind::End | Kind::Close => self.ended += 1,
            Kind::Instant => self.events += 1,
        }
    }

    /// What has begun and not ended.
    pub(crate) const fn open(&self) -> u64 {
        self.begun.saturating_sub(self.ended)
    }
}

/// A thread's buffer.
#[derive(Debug, Clone)]
pub(crate) struct Track {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) thread: ThreadName,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    number: u64,
    settings: Settings,
    /// Those of threads that have ended are in the order of their ends.
    tracks: Mutex<Vec<Track>>,
    /// Lost records of buffers that were removed: those that a removed buffer held, or that found no
    /// room in it.
    gone: AtomicU64,
    has_ended: AtomicBool,
    /// The thread that takes the records.
    reader: OnceLock<Thread>,
}

/// The extension of a span that belongs to a request, for all recorders.
struct Request {
    id: u64,
    /// Whether its beginning was recorded.
    is_open: bool,
}

/// A recorder that overwrites keeps the buffers of this many threads that have ended: those that ended
/// last.
const KEPT: usize = 8;

impl Recorder {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            // ORDERING: Relaxed, the number alone counts.
            number: NEXT_RECORDER.fetch_add(1, Ordering::Relaxed),
            settings,
            tracks: Mutex::new(Vec::new()),
            gone: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            reader: OnceLock::new(),
        })
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    pub(crate) const fn when_full(&self) -> WhenFull {
        self.settings.when_full
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Track>> {
        self.tracks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a buffer for the present thread.
    pub(crate) fn join(&self) -> Arc<Buffer> {
        let buffer = Arc::new(Buffer::new(self.settings.bytes_per_thread));
        let track = Track { buffer: Arc::clone(&buffer), thread: ThreadName::present() };
        self.lock().push(track);
        buffer
    }

    /// The thread of `buffer` ends. If nobody takes records, more than [`KEPT`] buffers of such threads
    /// would only take memory.
    pub(crate) fn leave(&self, buffer: &Arc<Buffer>) {
        let mut tracks = self.lock();
        // Under the lock, so that buffers are in the order in which their threads end.
        buffer.end_thread();
        let Some(place) = tracks.iter().position(|track| Arc::ptr_eq(&track.buffer, buffer)) else { return };
        let track = tracks.remove(place);
        tracks.push(track);
        if self.settings.when_full != WhenFull::Overwrite {
            return;
        }
        let has_ended = |track: &Track| track.buffer.counts().has_ended;
        if tracks.iter().filter(|track| has_ended(track)).count() > KEPT
            && let Some(first) = tracks.iter().position(has_ended)
        {
            let track = tracks.remove(first);
            self.count_gone(track.buffer.counts().records);
        }
    }

    fn count_gone(&self, records: u64) {
        // ORDERING: Relaxed, a count of its own.
        self.gone.fetch_add(records, Ordering::Relaxed);
    }

    /// The buffers of all threads.
    pub(crate) fn tracks(&self) -> Vec<Track> {
        self.lock().clone()
    }

    /// Forgets a buffer whose thread has ended, and whose records were taken.
    pub(crate) fn forget(&self, buffer: &Arc<Buffer>) {
        self.count_gone(buffer.counts().dropped);
        self.lock().retain(|track| !Arc::ptr_eq(&track.buffer, buffer));
    }

    /// Records that found no room, or were in a buffer that was removed.
    pub(crate) fn dropped(&self) -> u64 {
        let tracks = self.lock();
        // ORDERING: Relaxed, see `count_gone`; under the lock, so that no buffer counts twice.
        tracks.iter().map(|track| track.buffer.counts().dropped).sum::<u64>()
            + self.gone.load(Ordering::Relaxed)
    }

    pub(crate) fn set_reader(&self, reader: Thread) {
        // A recorder has one reader.
        let _ = self.reader.set(reader);
    }

    pub(crate) fn wake_reader(&self) {
        if let Some(reader) = self.reader.get() {
            reader.unpark();
        }
    }

    /// Ends the recording: nobody takes records any more.
    pub(crate) fn end(&self) {
        // ORDERING: Relaxed: a hint; what is recorded meanwhile counts as dropped or is lost.
        self.has_ended.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        // ORDERING: Relaxed, see `end`.
        self.has_ended.load(Ordering::Relaxed)
    }
}

/// A recorder as a sink.
#[derive(Debug, Clone)]
pub struct Recording(pub(crate) Arc<Recorder>);

impl Recording {
    fn text<S>(&self, span: &OpenSpan<'_, S>) -> Option<Arc<str>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        if !self.0.settings.has_fields || span.metadata().fields().is_empty() {
            return None;
        }
        let span = span.find()?;
        let extensions = span.extensions();
        extensions.get::<SpanFields>()?.text()
    }

    /// The values that were recorded after the span was created.
    fn later<S>(span: &OpenSpan<'_, S>) -> Option<Arc<str>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        span.find()?.extensions().get::<SpanFields>()?.later()
    }

    /// Returns whether there was room.
    fn record(&self, record: Record) -> bool {
        local::with(&self.0, |local, recorder| local.write(recorder, record)).unwrap_or(false)
    }
}

fn request<'a, S: LookupSpan<'a>, R>(
    span: &SpanRef<'a, S>,
    of: impl FnOnce(&Request) -> Option<R>,
) -> Option<R> {
    span.extensions().get::<Request>().and_then(of)
}

impl<S> Hooks<S> for Recording
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    const ENTER_AND_EXIT: bool = true;
    const EVENTS: bool = true;

    #[inline]
    fn wants_fields(&self, metadata: &'static Metadata<'static>) -> bool {
        let settings = &self.0.settings;
        settings.tracks.has_requests() || settings.has_fields && !metadata.fields().is_empty()
    }

    fn created(&self, attributes: &Attributes<'_>, span: &SpanRef<'_, S>, ns: u64) {
        let mut text = None;
        if self.0.settings.has_fields && !attributes.metadata().fields().is_empty() {
            let mut extensions = span.extensions_mut();
            if extensions.get_mut::<SpanFields>().is_none() {
                extensions.insert(SpanFields::new(attributes));
            }
            text = extensions.get_mut::<SpanFields>().and_then(|fields| fields.text());
        }
        if self.0.settings.tracks.has_requests() {
            let id_of = |request: &Request| Some(request.id);
            let id = request(span, id_of).or_else(|| request(&span.parent()?, id_of)).unwrap_or_else(|| {
                // ORDERING: Relaxed, the number alone counts.
                NEXT_REQUEST.fetch_add(1, Ordering::Relaxed)
            });
            let record = Record { id, text, ..Record::new(Kind::Open, ns, Some(span.metadata())) };
            let is_open = self.record(record);
            span.extensions_mut().replace(Request { id, is_open });
        }
    }

    fn recorded(&self, values: &Values<'_>, span: &SpanRef<'_, S>) {
        if let Some(fields) = span.extensions_mut().get_mut::<SpanFields>() {
            fields.record(values);
        }
        let _ = local::with(&self.0, |local, _| local.change(&span.id()));
    }

    #[inline]
    fn entered(&self, span: &OpenSpan<'_, S>, ns: u64) {
        if self.0.settings.tracks.has_threads() {
            let text = self.text(span);
            let _ = local::with(&self.0, |local, recorder| {
                local.enter(recorder, span.id(), span.metadata(), ns, text);
            });
        }
    }

    #[inline]
    fn exited(&self, span: &OpenSpan<'_, S>, ns: u64) {
        if self.0.settings.tracks.has_threads() {
            let _ = local::with(&self.0, |local, recorder| {
                local.exit(recorder, span.id(), ns, || Self::later(span));
            });
        }
    }

    fn event(&self, event: &Event<'_>, ctx: &Context<'_, S>, ns: u64) {
        if !self.0.settings.has_events {
            return;
        }
        let mut text = String::new();
        EventFields::default().write(event, &mut text);
        let mut record =
            Record { text: Some(text.into()), ..Record::new(Kind::Instant, ns, Some(event.metadata())) };
        if self.0.settings.tracks.has_requests() {
            let span = ctx.event_span(event);
            record.id = span.and_then(|span| request(&span, |request| Some(request.id))).unwrap_or(0);
        }
        self.record(record);
    }

    fn closed(&self, span: &SpanRef<'_, S>, times: &SpanTiming) {
        if !self.0.settings.tracks.has_requests() {
            return;
        }
        let Some(id) = request(span, |request| request.is_open.then_some(request.id)) else { return };
        let text = span.extensions().get::<SpanFields>().and_then(SpanFields::later);
        let close = Record::new(Kind::Close, times.closed_monotonic_ns(), Some(span.metadata()));
        self.record(Record { id, text, ..close });
    }
}
