//! The state of a thread for each recorder: its ring, and the spans that the thread is in.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::sync::{Arc, Weak};
use std::thread;

use tracing_core::span::Id;

use super::recorder::Recorder;
use crate::layer::sink::Span;
use crate::layer::timing::StaticMetadata;
use crate::trace::rings::encoding;
use crate::trace::rings::fields::SpanFields;
use crate::trace::rings::record::{BLOCK, Kind, Record, index};
use crate::trace::rings::ring::{ControlWord, Ring};
use crate::trace::settings::WhenFull;
use crate::trace::unique_number::next_number;
use crate::trace::waited::Waited;

/// The limit of spans that a new block repeats: the outermost spans that the thread is in.
const REPEATED: usize = 64;

/// The length of a repeated beginning without its payload.
const HEAD_WORDS: u64 = Record::new(Kind::RepeatedBegin, 0).words();

/// The number of words kept free for the end of each entered span: the record, and its share of the
/// records that begin blocks.
const END_WORDS: u64 = 4;

/// The pause between two checks for room in a full ring.
const PAUSE: Duration = Duration::from_micros(50);

/// The longest time for which a panicking thread waits for room, to within a pause: the program's
/// panic hook and the unwinding come later.
const LIMIT_IN_PANIC: Duration = Duration::from_millis(10);

/// A span that the thread is in.
struct Entered {
    span: Id,
    callsite: usize,
    ns: u64,
    /// The number of enters by this thread without an exit. Together they are one busy interval.
    depth: u32,
    /// Whether the span's beginning is in the ring.
    is_begun: bool,
    /// The span's fields at the enter.
    fields: Option<SpanFields>,
}

impl Entered {
    /// The repetition of the span's beginning in a new block.
    fn repeated(&self) -> Record<'_> {
        Record {
            callsite: self.callsite,
            payload: bytes_of(self.fields.as_ref()),
            ..Record::new(Kind::RepeatedBegin, self.ns)
        }
    }
}

pub(crate) struct ThreadRecorder {
    recorder: Weak<Recorder>,
    ring: Arc<Ring>,
    /// A cache of the callsites that this thread has added, so that it rarely takes their lock.
    known: [usize; 64],
    entered: Vec<Entered>,
    /// The time for which this thread has waited for room while it panicked, since it last began a
    /// block without panicking.
    waited_in_panic: Duration,
}

impl Drop for ThreadRecorder {
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder.upgrade() {
            recorder
                .rings
                .thread_ended(&self.ring, recorder.settings.when_full);
        }
    }
}

/// The address of a callsite's metadata, which is the callsite's number in records.
#[inline]
fn address_of(metadata: StaticMetadata) -> usize {
    core::ptr::from_ref(metadata).addr()
}

/// The bytes of a span's fields.
#[inline]
fn bytes_of(fields: Option<&SpanFields>) -> &[u8] {
    fields.map_or(&[], SpanFields::bytes)
}

/// The length to which a new block cuts the longest texts of all repeated beginnings together, so
/// that these records take at most a quarter of the block, and no span takes the fields of another.
/// `None` if the records are not too long.
fn longest_repeated_text<'a>(repeated: impl Iterator<Item = Record<'a>> + Clone) -> Option<usize> {
    let words: u64 = repeated.clone().map(|record| record.words()).sum();
    if words <= BLOCK / 4 {
        return None;
    }
    // A payload may leave a part of its last word unused.
    let heads = repeated.clone().count() as u64 * (HEAD_WORDS + 1);
    let room = (BLOCK / 4).saturating_sub(heads) * 8;
    let payloads = repeated.map(|record| record.payload);
    Some(encoding::longest_text_within(payloads, index(room)))
}

thread_local! {
    /// This thread's state for each recorder.
    static RECORDERS: RefCell<Vec<ThreadRecorder>> = const { RefCell::new(Vec::new()) };
    /// Whether this thread is a reader. A reader records nothing itself.
    pub(crate) static IS_READER: Cell<bool> = const { Cell::new(false) };
}

/// The number of spans' numbers that a thread takes at once, so that threads rarely write to the
/// memory that they share.
const NUMBERS: u64 = 256;

/// A number for a span of this thread, which is unique in the process, and at least 1. Small
/// numbers take few bytes in a trace.
#[inline]
pub(crate) fn next_span() -> u64 {
    thread_local! {
        static NEXT: Cell<u64> = const { Cell::new(0) };
    }
    let next = NEXT.get();
    let span = if next.is_multiple_of(NUMBERS) {
        next_number() * NUMBERS
    } else {
        next
    };
    NEXT.set(span + 1);
    span
}

/// Calls `run` with this thread's state. A thread that is ending has lost its thread-local memory,
/// so its last spans are not recorded.
#[inline]
pub(crate) fn with<R>(
    recorder: &Arc<Recorder>,
    run: impl FnOnce(&mut ThreadRecorder) -> R,
) -> Option<R> {
    RECORDERS
        .try_with(|recorders| {
            let mut recorders = recorders.try_borrow_mut().ok()?;
            let known = recorders
                .iter()
                .position(|state| state.recorder.as_ptr() == Arc::as_ptr(recorder));
            let index = known.or_else(|| add_state(&mut recorders, recorder))?;
            recorders.get_mut(index).map(run)
        })
        .ok()?
}

/// Records an event, or the beginning or end of a request's span. Waits for room, if the settings
/// say so. Returns whether it was written.
pub(crate) fn record(
    recorder: &Arc<Recorder>,
    metadata: StaticMetadata,
    mut record: Record<'_>,
) -> bool {
    let recorded = with(recorder, |state| {
        record.callsite = state.callsite(recorder, metadata);
        state.write(recorder, &record)
    });
    recorded.unwrap_or(false)
}

/// Adds this thread's state for a recorder, and returns its index. `None` for a reader, and if the
/// recorder has ended or has no ring to give.
#[cold]
fn add_state(recorders: &mut Vec<ThreadRecorder>, recorder: &Arc<Recorder>) -> Option<usize> {
    // Without a reader nobody removes the ring after the end of this thread.
    if IS_READER.get() || recorder.has_no_reader_left() {
        return None;
    }
    recorders.retain(|state| state.recorder.strong_count() > 0);
    recorders.push(ThreadRecorder {
        recorder: Arc::downgrade(recorder),
        ring: recorder.add_ring()?,
        known: [0; 64],
        entered: Vec::new(),
        waited_in_panic: Duration::ZERO,
    });
    Some(recorders.len() - 1)
}

impl ThreadRecorder {
    /// Adds the callsite to the recorder, and returns the address for records.
    #[inline]
    fn callsite(&mut self, recorder: &Recorder, metadata: StaticMetadata) -> usize {
        let address = address_of(metadata);
        // The metadata of the callsites are in one section of the program, about 100 bytes each, so
        // different callsites rarely share an entry.
        let known = &mut self.known[address / 32 % 64];
        if *known != address {
            *known = address;
            recorder.add_callsite(address, metadata);
        }
        address
    }

    pub(crate) fn enter(
        &mut self,
        recorder: &Recorder,
        span: &Span<'_>,
        ns: u64,
        fields: Option<SpanFields>,
    ) {
        if let Some(index) = self.find(span) {
            self.entered[index].depth += 1;
            return;
        }
        let callsite = self.callsite(recorder, span.metadata);
        let record = Record {
            callsite,
            payload: bytes_of(fields.as_ref()),
            ..Record::new(Kind::Begin, ns)
        };
        let is_begun = self.write(recorder, &record);
        let span = span.id.clone();
        self.entered.push(Entered {
            span,
            callsite,
            ns,
            depth: 1,
            is_begun,
            fields,
        });
    }

    /// `newer` finds the fields if any thread has recorded values since they were as at the enter.
    pub(crate) fn exit(
        &mut self,
        recorder: &Recorder,
        span: &Span<'_>,
        ns: u64,
        newer: impl FnOnce(&SpanFields) -> Option<SpanFields>,
    ) {
        let Some(index) = self.find(span) else { return };
        let entered = &mut self.entered[index];
        entered.depth -= 1;
        if entered.depth > 0 {
            return;
        }
        let newest = entered.fields.as_ref().and_then(newer);
        let payload = newest.as_ref().map_or(&[][..], SpanFields::later);
        // In the file an end belongs to the last beginning. If the thread is still in spans that it
        // entered later, these end here and begin again.
        for later in (index + 1..self.entered.len()).rev() {
            self.end(recorder, later, ns, &[]);
        }
        self.end(recorder, index, ns, payload);
        // `Vec::remove` cost 30 instructions a span more than these swaps, by callgrind.
        for later in index..self.entered.len() - 1 {
            self.entered.swap(later, later + 1);
            let Entered {
                callsite,
                ref fields,
                ..
            } = self.entered[later];
            let fields = fields.clone();
            let record = Record {
                callsite,
                payload: bytes_of(fields.as_ref()),
                ..Record::new(Kind::Begin, ns)
            };
            self.entered[later].is_begun = self.write(recorder, &record);
        }
        self.entered.pop();
    }

    /// Records the end of the entered span at `index`. The span counts as begun until the record is
    /// written: if the record begins a block, that block repeats the span's beginning.
    #[inline]
    fn end(&mut self, recorder: &Recorder, index: usize, ns: u64, payload: &[u8]) {
        if self.entered[index].is_begun {
            let record = Record {
                payload,
                ..Record::new(Kind::End, ns)
            };
            self.write(recorder, &record);
            self.entered[index].is_begun = false;
        }
    }

    /// The index of an entered span. The thread may be in spans of two subscribers that both have
    /// the recorder. These may have one number, but are nearly always of two callsites.
    #[inline]
    fn find(&self, span: &Span<'_>) -> Option<usize> {
        let callsite = address_of(span.metadata);
        self.entered
            .iter()
            .rposition(|entered| entered.span == *span.id && entered.callsite == callsite)
    }

    /// Writes a record, or counts it as dropped if there is no room. Does neither once the recorder
    /// has ended. Returns whether it was written.
    // Inlined, because the caller knows the kind of the record. As a function it copies the record,
    // and waits for the parts of the copy.
    #[inline(always)]
    fn write(&mut self, recorder: &Recorder, record: &Record<'_>) -> bool {
        let words = record.words();
        let has_room =
            recorder.settings.when_full == WhenFull::Overwrite || self.has_room(recorder, words);
        if recorder.has_ended() || !has_room {
            return self.write_without_room(recorder, record);
        }
        self.push(recorder, record);
        true
    }

    #[inline(always)]
    fn push(&mut self, recorder: &Recorder, record: &Record<'_>) {
        if record.words() > self.ring.left() {
            self.begin_block(recorder, record.ns);
        }
        self.ring.push(record);
    }

    /// Writes an end if there is no room for other records. An end without fields always has room,
    /// because `has_room` has kept the words free since the span began. The end of a request's
    /// span has none, because the span may end on another thread; the recorder then keeps it
    /// ([`Recorder::keep_end`]).
    #[cold]
    fn write_without_room(&mut self, recorder: &Recorder, record: &Record<'_>) -> bool {
        // The file has ended: a larger ring would not help.
        if recorder.has_ended() {
            return false;
        }
        if record.kind == Kind::End {
            let record = Record {
                payload: &[],
                ..*record
            };
            self.push(recorder, &record);
            return true;
        }
        let thread = self.ring.get(ControlWord::Number);
        if record.kind == Kind::AsyncEnd && recorder.keep_end(thread, record) {
            return true;
        }
        self.ring.count_dropped();
        false
    }

    #[cold]
    fn begin_block(&mut self, recorder: &Recorder, now_ns: u64) {
        self.ring
            .begin_block(now_ns, now_ns.saturating_sub(recorder.settings.keep_ns));
        if recorder.settings.when_full != WhenFull::Overwrite {
            // There is room again: a later panic may wait anew.
            if !thread::panicking() {
                self.waited_in_panic = Duration::ZERO;
            }
            if self.ring.write_position() - self.ring.taken() > self.ring.capacity() / 4 {
                recorder.wake_reader();
            }
            return;
        }
        // A reader that begins at this block needs the beginnings of the entered spans, or at least
        // their number, by which it finds the beginning for each end.
        let mut begun = self.entered.iter().filter(|entered| entered.is_begun);
        let repeated = begun.clone().take(REPEATED).map(Entered::repeated);
        let longest = longest_repeated_text(repeated);
        let (mut words, mut shortened) = (0, Vec::new());
        for entered in begun.by_ref().take(REPEATED) {
            let mut record = entered.repeated();
            if let Some(longest) = longest {
                let room = (BLOCK / 4).saturating_sub(words + HEAD_WORDS) * 8;
                shortened.clear();
                encoding::push_cut(&mut shortened, record.payload, longest, index(room));
                record.payload = &shortened;
            }
            words += record.words();
            self.ring.push(&record);
        }
        let id = begun.count() as u64;
        if id > 0 {
            self.ring.push(&Record {
                id,
                ..Record::new(Kind::Unrepeated, now_ns)
            });
        }
    }

    /// Whether the ring has room for `words` words, besides the words that are kept.
    #[inline]
    fn has_room(&mut self, recorder: &Recorder, words: u64) -> bool {
        // The rests of two blocks may stay unused.
        let words = words + (self.entered.len() as u64 + 1) * END_WORDS + 2 * BLOCK;
        self.ring.has_room(words) || self.wait_for_room(recorder, words)
    }

    /// Waits until the ring has room for `words` words, if the settings say so. While the thread
    /// panics, at most for about [`LIMIT_IN_PANIC`], for all its records together.
    #[cold]
    fn wait_for_room(&mut self, recorder: &Recorder, words: u64) -> bool {
        while !self.ring.has_room(words) {
            let may_wait = recorder.settings.when_full == WhenFull::Wait && !recorder.is_in_child();
            // In this order: the last question is a system call.
            if !may_wait || words > self.ring.capacity() || recorder.has_no_reader_left() {
                return false;
            }
            let is_panicking = thread::panicking();
            if is_panicking && self.waited_in_panic >= LIMIT_IN_PANIC {
                return false;
            }
            let mut waited = Waited::since_now();
            recorder.wake_reader();
            waited.sleep(PAUSE);
            if is_panicking {
                self.waited_in_panic += waited.time();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;

    use super::*;
    use crate::trace::settings::Settings;

    /// A recorder with the smallest rings, of four blocks.
    fn small_recorder() -> Arc<Recorder> {
        Arc::new(Recorder::new(Settings {
            bytes_per_thread: Some(1),
            ..Settings::new(WhenFull::Drop)
        }))
    }

    fn write(recorder: &Arc<Recorder>, words: u64) {
        let record = Record::new(Kind::Instant, 1);
        for _ in 0..words / record.words() {
            let write = |state: &mut ThreadRecorder| state.write(recorder, &record);
            assert_eq!(with(recorder, write), Some(true));
        }
    }

    /// What has become of a record.
    #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
    struct Recorded {
        had_room: bool,
        /// How often the reader was woken for it.
        wakes: u32,
    }

    /// Records two events at its drop.
    struct RecordsAtDrop<'a> {
        recorder: &'a Arc<Recorder>,
        results: &'a mut [Recorded; 2],
    }

    impl Drop for RecordsAtDrop<'_> {
        fn drop(&mut self) {
            let metadata =
                tracing::subscriber::with_default(tracing_subscriber::registry(), || {
                    tracing::info_span!("event").metadata().unwrap()
                });
            for result in &mut *self.results {
                let before = self.recorder.reader.wakes();
                let record = Record::new(Kind::Instant, 1);
                result.had_room = super::record(self.recorder, metadata, record);
                result.wakes = self.recorder.reader.wakes() - before;
            }
        }
    }

    /// Records two events while a panic unwinds, in a recorder whose ring was written once over.
    fn record_in_full_while_panicking(when_full: WhenFull) -> [Recorded; 2] {
        let recorder = &Arc::new(Recorder::new(Settings {
            bytes_per_thread: Some(1),
            ..Settings::new(when_full)
        }));
        let record = Record::new(Kind::Instant, 1);
        let fill = |state: &mut ThreadRecorder| {
            while state.ring.write_position() < state.ring.capacity() {
                state.push(recorder, &record);
            }
        };
        with(recorder, fill).unwrap();
        let mut results = [Recorded::default(); 2];
        let at_drop = RecordsAtDrop {
            recorder,
            results: &mut results,
        };
        let panics = AssertUnwindSafe(|| {
            let _at_drop = at_drop;
            panic!("with a full ring");
        });
        catch_unwind(panics).unwrap_err();
        results
    }

    /// Symptom: only the event of the panic itself had a limit, so a panic with a stuck writer
    /// never ended.
    #[test]
    fn a_panicking_thread_waits_for_room_but_not_for_ever() {
        let [first, _] = record_in_full_while_panicking(WhenFull::Wait);
        assert!(!first.had_room);
        assert!(first.wakes > 0);
    }

    /// Symptom: a panic whose unwinding sent many events took 10 ms longer for each of them.
    #[test]
    fn a_panicking_thread_waits_once_for_all_its_records() {
        let [_, second] = record_in_full_while_panicking(WhenFull::Wait);
        assert_eq!(second, Recorded::default());
    }

    #[test]
    fn a_panicking_thread_waits_for_nothing_if_records_are_dropped() {
        let recorded = record_in_full_while_panicking(WhenFull::Drop);
        assert_eq!(recorded, [Recorded::default(); 2]);
    }

    /// Symptom: once a ring had been written over, a flight recorder dropped the panic's event.
    #[test]
    fn a_panicking_thread_overwrites_the_oldest_records() {
        let overwritten = Recorded {
            had_room: true,
            wakes: 0,
        };
        let recorded = record_in_full_while_panicking(WhenFull::Overwrite);
        assert_eq!(recorded, [overwritten; 2]);
    }

    /// Symptom: a program whose trace had ended, as on a full disk, kept a ring for each thread
    /// that began later.
    #[test]
    fn a_recorder_that_has_ended_gives_no_ring() {
        let recorder = small_recorder();
        recorder.end();
        assert!(with(&recorder, |_| ()).is_none());
        assert!(recorder.rings.all().unwrap().is_empty());
    }

    /// Otherwise a busy thread's records would be dropped until the writer's next round.
    #[test]
    fn the_reader_is_woken_when_a_quarter_of_the_ring_is_full() {
        let recorder = small_recorder();
        let (woken, is_woken) = mpsc::channel();
        let reader = thread::spawn(move || {
            thread::park();
            woken.send(()).unwrap();
        });
        recorder.reader.set(reader.thread().clone(), None);
        write(&recorder, BLOCK + BLOCK / 2);
        is_woken
            .recv_timeout(Duration::from_secs(30))
            .expect("a wake");
        assert_eq!(
            recorder.reader.wakes(),
            1,
            "a thread may also wake by itself"
        );
    }

    #[test]
    fn the_reader_is_not_woken_before_a_quarter_of_the_ring_is_full() {
        let recorder = small_recorder();
        write(&recorder, BLOCK / 2);
        assert_eq!(recorder.reader.wakes(), 0);
    }

    #[test]
    fn the_reader_is_not_woken_for_records_that_it_has_taken() {
        let recorder = small_recorder();
        write(&recorder, BLOCK / 2);
        for ring in recorder.rings.all().unwrap() {
            ring.set_taken(ring.end());
        }
        write(&recorder, BLOCK);
        assert_eq!(recorder.reader.wakes(), 0);
    }
}
