//! The event by which a trace shows a panic.

use core::ptr;
use std::panic::PanicHookInfo;
use std::sync::Arc;

use tracing_core::callsite::Callsite;
use tracing_core::field::{FieldSet, Visit};
use tracing_core::metadata::Kind as CallsiteKind;
use tracing_core::{Interest, Level, Metadata, identify_callsite};

use super::recorder::Recorder;
use super::thread_recorder;
use crate::trace::rings::fields;
use crate::trace::rings::record::{Kind, Record};

/// The callsite of the event by which a trace shows a panic. It is registered nowhere: only a
/// recorder records it.
struct PanicCallsite;

static CALLSITE: PanicCallsite = PanicCallsite;

/// The event has no source location: that of the panic is a field.
static METADATA: Metadata<'static> = Metadata::new(
    "panic",
    "panic",
    Level::ERROR,
    None,
    None,
    None,
    FieldSet::new(
        &["panic.payload", "panic.location"],
        identify_callsite!(&CALLSITE),
    ),
    CallsiteKind::EVENT,
);

impl Callsite for PanicCallsite {
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        &METADATA
    }
}

/// Adds the names of the panic's event to a recorder. In a file they then have room, whatever
/// names follow.
pub(crate) fn add_names(recorder: &Recorder) {
    recorder.add_callsite(ptr::from_ref(&METADATA).addr(), &METADATA);
}

/// Records the panic of this thread, in the span of a request that the thread is in, or counts it
/// as dropped if its ring has no room. Does nothing once the recorder has ended, and if the thread
/// is writing a record or has lost its thread-local memory.
pub(crate) fn record(recorder: &Arc<Recorder>, panic: &PanicHookInfo<'_>) {
    let now_ns = tickline::now_ns();
    if recorder.has_ended() {
        return;
    }
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let location = panic.location().map(ToString::to_string);
    let values = [text, location.as_deref()];
    let record = |visit: &mut dyn Visit| {
        for (field, value) in METADATA.fields().iter().zip(values) {
            if let Some(value) = value {
                visit.record_str(&field, value);
            }
        }
    };
    let id = recorder.number_around_this_thread();
    fields::collect(&METADATA, record, |payload| {
        let record = Record {
            id,
            payload,
            ..Record::new(Kind::Instant, now_ns)
        };
        if thread_recorder::record(recorder, &METADATA, record) {
            recorder.count_panic();
        }
    });
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Symptom: once the file's ring of names was full, a panic had the name `?`.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_new_file_has_the_names_of_the_panics_event() {
        use crate::trace::capture::black_box;
        use crate::trace::flight::FlightRecorder;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box");
        let builder = FlightRecorder::builder().bytes_per_thread(1);
        let _recorder = builder.in_file(&path).threads(1).build().unwrap();
        let snapshot = black_box::read(std::fs::File::open(&path).unwrap()).unwrap();
        let names = snapshot.callsites.get(&ptr::from_ref(&METADATA).addr());
        assert!(names.is_some_and(|names| names.starts_with("panic\0")));
    }
}
