//! A trace file for <https://ui.perfetto.dev>, `chrome://tracing` and their relatives, written
//! while the program runs.
//!
//! The format is the JSON Array Format of "Trace Event Format" (Google, 2016): an array of
//! events. Each busy interval of a thread in a span is one event, of phase `X`, with its start
//! and its duration. No end can therefore lack its beginning, whatever is dropped. Busy intervals
//! of one thread nest if its guards do; viewers draw others as well as they can.
//!
//! # If the program is killed
//!
//! Viewers open the file as it is: "the `]` at the end of the JSON Array Format is optional"
//! (ibid.). Only that bracket is missing, and the events of the last moments. The file begins
//! with `[` and an event, and each further event has its comma before it. Each write has whole
//! events and does not cross a 4 KiB page of the file; blanks fill the rest of a page if the next
//! event does not fit. Linux checks for a `SIGKILL` between pages (`generic_perform_write` in its
//! `mm/filemap.c`), so it writes the part that is on one page whole or not at all. An event
//! longer than a page, which takes span fields of that length, is the exception. A loss of power
//! may damage the file.
//!
//! # What it costs the program
//!
//! The program's threads convert two readings and put some 64 bytes into a bounded queue; the
//! writer's thread makes text of them. The program never waits for the writer. But on a machine
//! whose CPUs are all busy the writer takes time from the others: with two threads on two CPUs a
//! span costs 456 ns in place of 260 (AMD EPYC, family 26, record of the benches). Events that do
//! not fit into the queue are dropped and counted, and the file says how many are missing, and
//! where.

use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use tracing_core::span::{Attributes, Id};
use tracing_core::{Metadata, Subscriber};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::sink::{OpenSpan, Sink};
use crate::timing::SpanTiming;

mod fields;
mod writer;

use fields::Fields;

/// Events that may wait for the writer, by default: 64 bytes each, 4 MiB, and a tenth of a second
/// of a program that enters 650,000 spans a second.
const DEFAULT_CAPACITY: usize = 65_536;

/// How long an event may wait before it is written, by default: a compromise between losing
/// events to a kill and a system call for every few events.
const DEFAULT_FLUSH_EVERY: Duration = Duration::from_millis(100);

/// Numbers the traces of a process, so that a thread can keep apart what belongs to each.
static NEXT_TRACE: AtomicU64 = AtomicU64::new(1);

/// A sink that writes the trace file. Made by [`Chrome::create`] or [`Chrome::builder`].
///
/// ```
/// use tickline_tracing::SpanTimingLayer;
/// use tickline_tracing::chrome::Chrome;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// # fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join("tickline-doc-trace.json");
/// let (chrome, guard) = Chrome::create(&path)?;
/// let subscriber = tracing_subscriber::registry().with(SpanTimingLayer::new().with_sink(chrome));
/// tracing::subscriber::with_default(subscriber, || {
///     tracing::info_span!("outer").in_scope(|| tracing::info_span!("inner").in_scope(|| ()));
/// });
/// let summary = guard.finish()?;
/// assert_eq!((summary.written, summary.dropped), (2, 0));
/// # std::fs::remove_file(path)
/// # }
/// ```
#[derive(Debug)]
pub struct Chrome {
    trace: u64,
    with_fields: bool,
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

/// Messages to the writer.
#[derive(Debug)]
enum Message {
    Slice(Slice),
    Thread { number: u64, name: String },
    Finish,
}

/// A busy interval of a thread in a span.
#[derive(Debug)]
struct Slice {
    metadata: &'static Metadata<'static>,
    thread: u64,
    entered_ns: u64,
    exited_ns: u64,
    fields: Option<Arc<str>>,
}

/// Settings for a trace file.
#[derive(Debug, Clone, Copy)]
pub struct Builder {
    capacity: usize,
    flush_every: Duration,
    with_fields: bool,
}

impl Builder {
    /// How many events may wait for the writer, 65,536 by default; at least 1. About 64 bytes
    /// each, taken at once.
    #[must_use]
    pub fn capacity(self, events: usize) -> Self {
        Self { capacity: events.max(1), ..self }
    }

    /// How long an event may wait in the program before it is written, 100 ms by default.
    #[must_use]
    pub fn flush_every(self, flush_every: Duration) -> Self {
        Self { flush_every, ..self }
    }

    /// Writes the fields that a span was created with as the arguments of its events. They are
    /// formatted when it is created, on the program's threads. Values recorded later are left
    /// out.
    #[must_use]
    pub fn with_fields(self) -> Self {
        Self { with_fields: true, ..self }
    }

    /// Creates the file, or empties it, and starts the thread that writes it. Links are followed. `/dev/stdout` is emptied too
    /// if it is a file: to append to that, pass [`std::io::stdout`] to [`write_to`](Self::write_to).
    ///
    /// # Errors
    ///
    /// If the file cannot be created, or the thread cannot be started.
    pub fn create(self, path: impl AsRef<Path>) -> io::Result<(Chrome, Guard)> {
        self.write_to(File::create(path)?)
    }

    /// Starts the thread that writes to `output`.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn write_to(self, output: impl Write + Send + 'static) -> io::Result<(Chrome, Guard)> {
        // std's bounded channel is crossbeam's, without the dependency.
        let (queue, messages) = sync_channel(self.capacity);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = writer::Writer::new(output, Arc::clone(&dropped), self);
        let thread =
            thread::Builder::new().name("tickline-trace".to_owned()).spawn(move || writer.run(&messages))?;
        // ORDERING: Relaxed, the number alone counts.
        let trace = NEXT_TRACE.fetch_add(1, Ordering::Relaxed);
        let guard = Guard { queue: queue.clone(), thread: Some(thread) };
        Ok((Chrome { trace, with_fields: self.with_fields, queue, dropped }, guard))
    }
}

impl Chrome {
    /// Settings for a trace file.
    #[must_use]
    pub fn builder() -> Builder {
        Builder { capacity: DEFAULT_CAPACITY, flush_every: DEFAULT_FLUSH_EVERY, with_fields: false }
    }

    /// A trace file with the default settings.
    ///
    /// # Errors
    ///
    /// If the file cannot be created, or the thread cannot be started.
    pub fn create(path: impl AsRef<Path>) -> io::Result<(Self, Guard)> {
        Self::builder().create(path)
    }

    /// Events that were dropped so far, because the queue was full or the writer gone.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        // ORDERING: Relaxed, a count of its own.
        self.dropped.load(Ordering::Relaxed)
    }

    fn send(&self, message: Message) {
        match self.queue.try_send(message) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                // ORDERING: Relaxed, as in `dropped`.
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Ends the file when it is dropped. [`Chrome::dropped`] counts spans that are exited later,
/// except those that are exited while the file ends.
///
/// Keep it until the end of `main`: a program that ends without dropping it leaves the same file
/// as one that was killed.
#[derive(Debug)]
#[must_use = "the file ends when the guard is dropped"]
pub struct Guard {
    queue: SyncSender<Message>,
    thread: Option<JoinHandle<io::Result<Summary>>>,
}

impl Guard {
    /// Writes the waiting events, ends the file, and says what it contains.
    ///
    /// # Errors
    ///
    /// The first error of a write. Nothing was written after it.
    pub fn finish(mut self) -> io::Result<Summary> {
        self.stop().unwrap_or_else(|| Err(io::Error::other("the trace was ended before")))
    }

    fn stop(&mut self) -> Option<io::Result<Summary>> {
        let thread = self.thread.take()?;
        // This waits for room; an error means that the writer has ended.
        let _ = self.queue.send(Message::Finish);
        Some(
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread that writes the trace panicked"))),
        )
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// What a finished file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Busy intervals that are in the file.
    pub written: u64,
    /// Those that are not, because the queue was full.
    pub dropped: u64,
}

/// A span that this thread is in.
#[derive(Debug)]
struct Open {
    trace: u64,
    span: Id,
    entered_ns: u64,
    /// Re-entries by the same thread: one busy interval.
    depth: u64,
}

/// What a thread keeps.
#[derive(Debug)]
struct Local {
    thread: u64,
    /// The traces that have this thread's name.
    named_in: Vec<u64>,
    open: Vec<Open>,
}

thread_local! {
    static LOCAL: RefCell<Local> = RefCell::new(Local::new());
}

impl Local {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // ORDERING: Relaxed, the number alone counts.
        Self { thread: NEXT.fetch_add(1, Ordering::Relaxed), named_in: Vec::new(), open: Vec::new() }
    }

    fn find(&mut self, trace: u64, span: &Id) -> Option<usize> {
        self.open.iter().rposition(|open| open.trace == trace && open.span == *span)
    }

    fn enter(&mut self, trace: u64, span: Id, entered_ns: u64) {
        match self.find(trace, &span).and_then(|place| self.open.get_mut(place)) {
            Some(open) => open.depth += 1,
            None => self.open.push(Open { trace, span, entered_ns, depth: 1 }),
        }
    }

    /// When the busy interval that ends with this exit began.
    fn exit(&mut self, trace: u64, span: &Id) -> Option<u64> {
        let place = self.find(trace, span)?;
        let open = self.open.get_mut(place)?;
        open.depth -= 1;
        (open.depth == 0).then(|| self.open.remove(place).entered_ns)
    }
}

impl Chrome {
    /// Sends the thread's name before its first event; later, if there is no room now.
    fn introduce(&self, local: &mut Local) {
        if !local.named_in.contains(&self.trace) {
            let current = thread::current();
            let name = current.name().map_or_else(|| format!("thread {}", local.thread), str::to_owned);
            if self.queue.try_send(Message::Thread { number: local.thread, name }).is_ok() {
                local.named_in.push(self.trace);
            }
        }
    }
}

impl<S> Sink<S> for Chrome
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    const ENTER_AND_EXIT: bool = true;

    fn wants_fields(&self, _: &'static Metadata<'static>) -> bool {
        self.with_fields
    }

    fn created(&self, attributes: &Attributes<'_>, span: &SpanRef<'_, S>, _: u64) {
        if let Some(fields) = Fields::of(self.trace, attributes) {
            span.extensions_mut().replace(fields);
        }
    }

    fn entered(&self, span: &OpenSpan<'_, S>, ns: u64) {
        // A thread that is ending has no thread-local memory any more; its last spans are not in
        // the file.
        let _ = LOCAL.try_with(|local| local.borrow_mut().enter(self.trace, span.id().clone(), ns));
    }

    fn exited(&self, span: &OpenSpan<'_, S>, ns: u64) {
        let _ = LOCAL.try_with(|local| {
            let mut local = local.borrow_mut();
            let Some(entered_ns) = local.exit(self.trace, span.id()) else { return };
            self.introduce(&mut local);
            let fields = if self.with_fields {
                span.find().and_then(|span| {
                    span.extensions().get::<Fields>().and_then(|fields| fields.of_trace(self.trace))
                })
            } else {
                None
            };
            let metadata = span.metadata();
            let slice = Slice { metadata, thread: local.thread, entered_ns, exited_ns: ns, fields };
            self.send(Message::Slice(slice));
        });
    }

    fn closed(&self, _: &SpanRef<'_, S>, _: &SpanTiming) {}
}
