//! The state of a thread for each recorder: its ring, and the spans that it is in.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::sync::{Arc, Weak};
use std::thread;

use tracing_core::span::Id;

use super::WhenFull;
use super::fields::BEHIND_NAME;
use super::record::{BLOCK, Kind, MAX_TEXT, Record};
use super::recorder::Recorder;
use super::ring::Ring;
use crate::sink::{Span, StaticMetadata};

/// The most spans that a new block repeats: the outermost ones that the thread is in.
const REPEATED: usize = 64;

/// Words kept free for the end of each entered span: the record, and its share of the records that
/// begin blocks.
const END_WORDS: u64 = 4;

/// How long a thread sleeps before it asks for room again.
const WAIT: Duration = Duration::from_micros(50);

/// A span that the thread is in.
struct Entered {
    span: Id,
    callsite: usize,
    ns: u64,
    /// Enters by this thread without an exit. They are one busy interval.
    depth: u32,
    /// Whether its beginning is in the ring.
    is_begun: bool,
    /// Whether values of its fields were recorded since.
    is_changed: bool,
    text: Option<Arc<str>>,
}

pub(crate) struct ThreadRecorder {
    recorder: Weak<Recorder>,
    ring: Arc<Ring>,
    /// The callsites that this thread has recorded lately, so that it rarely takes the lock.
    known: [usize; 64],
    entered: Vec<Entered>,
}

impl Drop for ThreadRecorder {
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder.upgrade() {
            recorder.leave(&self.ring);
        }
    }
}

thread_local! {
    /// This thread's state for each recorder. It ends with the thread.
    static RECORDERS: RefCell<Vec<ThreadRecorder>> = const { RefCell::new(Vec::new()) };
    /// Whether this thread is a reader, which takes the records of others and records nothing itself.
    pub(crate) static IS_READER: Cell<bool> = const { Cell::new(false) };
}

/// Runs `run` with this thread's state. A thread that is ending has lost its thread-local memory;
/// its last spans are not recorded.
#[inline]
pub(crate) fn with<R>(recorder: &Arc<Recorder>, run: impl FnOnce(&mut ThreadRecorder) -> R) -> Option<R> {
    RECORDERS
        .try_with(|recorders| {
            let mut recorders = recorders.try_borrow_mut().ok()?;
            let known = recorders.iter().position(|own| own.recorder.as_ptr() == Arc::as_ptr(recorder));
            let index = match known {
                Some(index) => index,
                None => join(&mut recorders, recorder)?,
            };
            recorders.get_mut(index).map(run)
        })
        .ok()?
}

/// Records an event, or the beginning or the end of a span of a request. Returns whether there was
/// room.
pub(crate) fn record(recorder: &Arc<Recorder>, metadata: StaticMetadata, mut record: Record<'_>) -> bool {
    let recorded = with(recorder, |own| {
        record.callsite = own.callsite(recorder, metadata);
        own.write(recorder, &record)
    });
    recorded.unwrap_or(false)
}

#[cold]
fn join(recorders: &mut Vec<ThreadRecorder>, recorder: &Arc<Recorder>) -> Option<usize> {
    if IS_READER.get() {
        return None;
    }
    recorders.retain(|own| own.recorder.strong_count() > 0);
    recorders.push(ThreadRecorder {
        recorder: Arc::downgrade(recorder),
        ring: recorder.join()?,
        known: [0; 64],
        entered: Vec::new(),
    });
    Some(recorders.len() - 1)
}

impl ThreadRecorder {
    /// Returns the address that a record stores, and makes sure that the recorder knows the
    /// callsite.
    #[inline]
    fn callsite(&mut self, recorder: &Recorder, metadata: StaticMetadata) -> usize {
        let address = core::ptr::from_ref(metadata).addr();
        // The program has its callsites' metadata in one section, some 100 bytes each.
        let known = &mut self.known[address / 32 % 64];
        if *known != address {
            *known = address;
            recorder.add_callsite(address, metadata);
        }
        address
    }

    pub(crate) fn enter(&mut self, recorder: &Recorder, span: &Span<'_>, ns: u64, text: Option<Arc<str>>) {
        if let Some(index) = self.find(span.id) {
            self.entered[index].depth += 1;
            return;
        }
        let callsite = self.callsite(recorder, span.metadata);
        let record = Record { callsite, ..Record::new(Kind::Begin, ns) };
        let is_begun = self.write(recorder, &Record { text: text.as_deref().unwrap_or_default(), ..record });
        let span = span.id.clone();
        self.entered.push(Entered { span, callsite, ns, depth: 1, is_begun, is_changed: false, text });
    }

    /// Calls `text` only if values of the span's fields were recorded since the enter.
    pub(crate) fn exit(&mut self, recorder: &Recorder, span: &Id, ns: u64, text: impl FnOnce() -> String) {
        let Some(index) = self.find(span) else { return };
        let entered = &mut self.entered[index];
        entered.depth -= 1;
        if entered.depth > 0 {
            return;
        }
        let text = if entered.is_changed { text() } else { String::new() };
        // In the file an end belongs to the latest beginning. If the thread is still in spans that
        // it entered later, these end here and begin again.
        for later in (index + 1..self.entered.len()).rev() {
            self.end(recorder, later, ns, "");
        }
        self.end(recorder, index, ns, &text);
        // Not by `remove`, which cost 30 instructions a span, by callgrind.
        for later in index..self.entered.len() - 1 {
            self.entered.swap(later, later + 1);
            let record = Record { callsite: self.entered[later].callsite, ..Record::new(Kind::Begin, ns) };
            self.entered[later].is_begun = self.write(recorder, &record);
        }
        self.entered.pop();
    }

    /// Records the end of the span at `index` of the list. The span must still count as begun: if
    /// this record begins a block, the block repeats the span's beginning.
    #[inline]
    fn end(&mut self, recorder: &Recorder, index: usize, ns: u64, text: &str) {
        if self.entered[index].is_begun {
            self.write(recorder, &Record { text, ..Record::new(Kind::End, ns) });
            self.entered[index].is_begun = false;
        }
    }

    /// Remembers that values of a span's fields changed.
    pub(crate) fn change(&mut self, span: &Id) {
        if let Some(index) = self.find(span) {
            self.entered[index].is_changed = true;
        }
    }

    #[inline]
    fn find(&self, span: &Id) -> Option<usize> {
        self.entered.iter().rposition(|entered| entered.span == *span)
    }

    /// Writes a record, or counts it as dropped if there is no room. Returns whether it was
    /// written. An end without text always has room: `has_room` kept that free when the span began.
    #[inline]
    fn write(&mut self, recorder: &Recorder, record: &Record<'_>) -> bool {
        if recorder.has_ended() {
            self.ring.count_dropped();
            return false;
        }
        if record.text.len() > MAX_TEXT {
            return self.write_shortened(recorder, *record);
        }
        let mut record = *record;
        if recorder.settings.when_full != WhenFull::Overwrite && !self.has_room(recorder, record.words()) {
            if record.kind == Kind::End {
                record.text = "";
            } else {
                self.ring.count_dropped();
                return false;
            }
        }
        if record.words() > self.ring.left() {
            self.begin_block(recorder, record.ns);
        }
        self.ring.push(&record);
        true
    }

    #[cold]
    fn write_shortened(&mut self, recorder: &Recorder, record: Record<'_>) -> bool {
        let name =
            if record.kind == Kind::Instant { format!("\"long event\"{BEHIND_NAME}") } else { String::new() };
        let text = format!("{name}\"bytes left out\":{}", record.text.len());
        self.write(recorder, &Record { text: &text, ..record })
    }

    #[cold]
    fn begin_block(&mut self, recorder: &Recorder, now_ns: u64) {
        self.ring.begin_block(now_ns, now_ns.saturating_sub(recorder.settings.kept_ns));
        if recorder.settings.when_full != WhenFull::Overwrite {
            if self.ring.head() - self.ring.taken() > self.ring.capacity() / 4 {
                recorder.wake_reader();
            }
            return;
        }
        // A reader that begins at this block needs the spans that the thread is in.
        let mut words = 0;
        for entered in self.entered.iter().take(REPEATED).filter(|entered| entered.is_begun) {
            let text = entered.text.as_deref().unwrap_or_default();
            let callsite = entered.callsite;
            let mut record = Record { callsite, text, ..Record::new(Kind::Inside, entered.ns) };
            if words + record.words() > BLOCK / 4 {
                record.text = "";
            }
            words += record.words();
            self.ring.push(&record);
        }
    }

    /// Whether `words` fit. Room is kept for the ends of the spans that the thread is in, and for
    /// two blocks whose rest may stay unused.
    #[inline]
    fn has_room(&self, recorder: &Recorder, words: u64) -> bool {
        let kept = (self.entered.len() as u64 + 1) * END_WORDS + 2 * BLOCK;
        while self.ring.head() + words + kept > self.ring.taken() + self.ring.capacity() {
            if recorder.settings.when_full != WhenFull::Wait || recorder.has_ended() || recorder.is_in_child()
            {
                return false;
            }
            recorder.wake_reader();
            thread::sleep(WAIT);
        }
        true
    }
}
