//! The state of a thread for each recorder: its buffer, and the spans that it is in.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::sync::{Arc, Weak};
use std::thread;

use tracing_core::Metadata;
use tracing_core::span::Id;

use super::buffer::{Added, Buffer, Kind, MAX_TEXT, RECORD_BYTES, Record};
use super::recorder::{Recorder, WhenFull};

/// How long a thread sleeps before it asks for room again.
const WAIT: Duration = Duration::from_micros(50);

/// A span that the thread is in.
#[derive(Debug)]
struct Entered {
    span: Id,
    metadata: &'static Metadata<'static>,
    /// Enters by this thread without an exit. They are one busy interval.
    depth: u32,
    /// Whether its beginning was recorded.
    is_begun: bool,
    /// Whether values of its fields were recorded since.
    is_changed: bool,
}

#[derive(Debug)]
pub(crate) struct Local {
    recorder: Weak<Recorder>,
    number: u64,
    buffer: Arc<Buffer>,
    entered: Vec<Entered>,
}

/// This thread's state for each recorder. It ends with the thread.
struct Locals(Vec<Local>);

impl Drop for Locals {
    fn drop(&mut self) {
        for local in &self.0 {
            if let Some(recorder) = local.recorder.upgrade() {
                recorder.leave(&local.buffer);
            }
        }
    }
}

thread_local! {
    static LOCALS: RefCell<Locals> = const { RefCell::new(Locals(Vec::new())) };
    static IS_READER: Cell<bool> = const { Cell::new(false) };
}

/// Makes this thread a reader, which takes the records of others and records nothing itself.
pub(crate) fn this_thread_reads() {
    IS_READER.set(true);
}

/// Runs `run` with this thread's state. A thread that is ending has lost its thread-local memory;
/// its last spans are not recorded.
#[inline]
pub(crate) fn with<R>(recorder: &Arc<Recorder>, run: impl FnOnce(&mut Local, &Recorder) -> R) -> Option<R> {
    LOCALS
        .try_with(|locals| {
            let mut locals = locals.try_borrow_mut().ok()?;
            let known = locals.0.iter().position(|local| local.number == recorder.number());
            let place = match known {
                Some(place) => place,
                None => join(&mut locals, recorder)?,
            };
            locals.0.get_mut(place).map(|local| run(local, recorder))
        })
        .ok()
        .flatten()
}

#[cold]
fn join(locals: &mut Locals, recorder: &Arc<Recorder>) -> Option<usize> {
    if IS_READER.get() {
        return None;
    }
    locals.0.retain(|local| local.recorder.strong_count() > 0);
    locals.0.push(Local {
        recorder: Arc::downgrade(recorder),
        number: recorder.number(),
        buffer: recorder.join(),
        entered: Vec::new(),
    });
    Some(locals.0.len() - 1)
}

impl Local {
    pub(crate) fn enter(
        &mut self,
        recorder: &Recorder,
        span: &Id,
        metadata: &'static Metadata<'static>,
        ns: u64,
        text: Option<Arc<str>>,
    ) {
        if let Some(entered) = self.find(span).and_then(|place| self.entered.get_mut(place)) {
            entered.depth += 1;
            return;
        }
        let is_begun = self.write(recorder, Record { text, ..Record::new(Kind::Begin, ns, Some(metadata)) });
        self.entered.push(Entered { span: span.clone(), metadata, depth: 1, is_begun, is_changed: false });
    }

    /// Calls `text` only if values of the span's fields were recorded since the enter.
    pub(crate) fn exit(
        &mut self,
        recorder: &Recorder,
        span: &Id,
        ns: u64,
        text: impl FnOnce() -> Option<Arc<str>>,
    ) {
        let Some(place) = self.find(span) else { return };
        let Some(entered) = self.entered.get_mut(place) else { return };
        entered.depth -= 1;
        if entered.depth > 0 {
            return;
        }
        let text = if entered.is_changed { text() } else { None };
        // In the file an end belongs to the latest beginning. If the thread is still in spans that
        // it entered later, these end here and begin again.
        let mut later = Vec::new();
        while self.entered.len() > place + 1 {
            self.end_last(recorder, ns, None);
            later.extend(self.entered.pop());
        }
        self.end_last(recorder, ns, text);
        self.entered.pop();
        for mut entered in later.into_iter().rev() {
            entered.is_begun = self.write(recorder, Record::new(Kind::Begin, ns, Some(entered.metadata)));
            self.entered.push(entered);
        }
    }

    /// Records the end of the span that was entered last, if its beginning was.
    #[inline]
    fn end_last(&mut self, recorder: &Recorder, ns: u64, text: Option<Arc<str>>) {
        if self.entered.last().is_some_and(|entered| entered.is_begun) {
            self.write(recorder, Record { text, ..Record::new(Kind::End, ns, None) });
        }
    }

    /// Remembers that values of a span's fields changed.
    pub(crate) fn change(&mut self, span: &Id) {
        if let Some(entered) = self.find(span).and_then(|place| self.entered.get_mut(place)) {
            entered.is_changed = true;
        }
    }

    #[inline]
    fn find(&self, span: &Id) -> Option<usize> {
        self.entered.iter().rposition(|entered| entered.span == *span)
    }

    /// Writes a record, or counts it as dropped if there is no room. Returns whether it was written.
    #[inline]
    pub(crate) fn write(&self, recorder: &Recorder, mut record: Record) -> bool {
        if recorder.has_ended() {
            self.buffer.count_dropped();
            return false;
        }
        if record.text().len() > MAX_TEXT {
            shorten(&mut record);
        }
        if recorder.when_full() == WhenFull::Overwrite {
            self.buffer.overwrite(record);
            return true;
        }
        // For the ends of the spans that the thread is in.
        let kept_bytes = (self.entered.len() + 1) * RECORD_BYTES;
        loop {
            record = match self.buffer.add(record, kept_bytes) {
                Ok(Added::Plainly) => return true,
                Ok(Added::ReaderIsDue) => {
                    recorder.wake_reader();
                    return true;
                }
                Err(record) => record,
            };
            if recorder.when_full() != WhenFull::Wait || recorder.has_ended() {
                self.buffer.count_dropped();
                return false;
            }
            recorder.wake_reader();
            thread::sleep(WAIT);
        }
    }
}

#[cold]
fn shorten(record: &mut Record) {
    // An event needs a `name`, and nothing else.
    let name = if record.kind == Kind::Instant { "\"name\":\"long event\"," } else { "" };
    let text = format!("{name}\"args\":{{\"bytes left out\":{}}}", record.text().len());
    record.text = Some(text.into());
}
