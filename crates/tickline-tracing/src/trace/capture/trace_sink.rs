//! The sink that fills a recorder.

use core::fmt;
use std::sync::Arc;

use tracing_core::field::Visit;
use tracing_core::span::{Attributes, Id, Record as Values};
use tracing_core::{Dispatch, Event};

use super::recorded_spans::{RecordedSpan, RecordedSpans, SharedSpan};
use super::recorder::Recorder;
use super::thread_recorder::{self, next_span};
use crate::layer::open_spans::OpenSpans;
use crate::layer::sink::{Lookup, Span, SpanSink};
use crate::layer::timing::SpanTimes;
use crate::trace::rings::fields::{self, SpanFields};
use crate::trace::rings::record::{Kind, Record};
use crate::trace::settings::Tracks;

/// A recorder as the sink of one layer.
#[derive(Debug, Clone)]
pub(crate) struct RecorderInLayer {
    pub(crate) recorder: Arc<Recorder>,
    /// The open spans of the layer; `None` before the sink is in a layer, and if it need not know
    /// them.
    spans: Option<Arc<RecordedSpans>>,
}

impl RecorderInLayer {
    /// A recorder that is not in a layer yet.
    pub(crate) const fn new(recorder: Arc<Recorder>) -> Self {
        Self {
            recorder,
            spans: None,
        }
    }
}

/// A sink that fills a recorder.
pub(crate) trait TraceSink: fmt::Debug + Send + Sync + 'static {
    fn in_layer(&self) -> &RecorderInLayer;

    fn in_layer_mut(&mut self) -> &mut RecorderInLayer;

    fn recorder(&self) -> &Arc<Recorder> {
        &self.in_layer().recorder
    }

    fn spans(&self) -> Option<&RecordedSpans> {
        self.in_layer().spans.as_deref()
    }
}

impl<S: TraceSink> SpanSink for S {
    fn added_to_layer(&mut self, open_spans: &Arc<OpenSpans>) {
        let RecorderInLayer { recorder, spans } = self.in_layer_mut();
        recorder.add_layer(open_spans);
        if recorder.settings.has_fields || recorder.has_requests() {
            let spans = spans.get_or_insert_with(|| Arc::new(RecordedSpans::of(open_spans)));
            if recorder.has_requests() {
                recorder.add_recorded_spans(spans);
            }
        }
    }

    fn layer_registered(&self, dispatch: &Dispatch) {
        if let Some(spans) = self.spans() {
            spans.layer_registered(dispatch);
        }
    }

    fn wants_enters(&self) -> bool {
        self.recorder().settings.tracks != Tracks::Requests
    }

    fn wants_times(&self) -> bool {
        self.recorder().has_requests()
    }

    fn wants_busy(&self) -> bool {
        false
    }

    fn wants_events(&self) -> bool {
        true
    }

    fn created(&self, span: &Span<'_>, attributes: &Attributes<'_>, lookup: &dyn Lookup, ns: u64) {
        let recorder = self.recorder();
        let Some(spans) = self.spans() else { return };
        let insert = |fields: &[u8], kept| {
            let InRequest { number, is_shared } = if recorder.has_requests() {
                let parent = parent_number(spans, span, attributes, lookup);
                begin_in_request(recorder, span, parent, fields, ns)
            } else {
                InRequest::default()
            };
            let recorded = RecordedSpan {
                number,
                is_shared,
                fields: kept,
            };
            spans.insert(span.id, recorded);
        };
        if recorder.has_fields(span.metadata) {
            let record = |visit: &mut dyn Visit| attributes.record(visit);
            fields::collect(span.metadata, record, |fields| {
                let kept = self.wants_enters().then(|| SpanFields::new(fields));
                insert(fields, kept);
            });
        } else if recorder.has_requests() {
            insert(&[], None);
        }
    }

    fn recorded(&self, span: &Span<'_>, values: &Values<'_>) {
        if let Some(spans) = self.spans()
            && self.recorder().has_fields(span.metadata)
        {
            let record = |visit: &mut dyn Visit| values.record(visit);
            fields::collect(span.metadata, record, |values| {
                spans.add_values(span.id, span.metadata, values);
            });
        }
    }

    fn followed(&self, span: &Span<'_>, other: &Id) {
        let (recorder, Some(spans)) = (self.recorder(), self.spans()) else {
            return;
        };
        let (Some(id), Some(parent)) = (spans.number(span.id), spans.number(other)) else {
            return;
        };
        let add = |shared: &mut SharedSpan| shared.add_cause(recorder.number, parent);
        if recorder.is_in_several_layers() && span.extension(add) == Some(false) {
            return; // Another layer has recorded it.
        }
        let record = Record {
            id,
            parent,
            ..Record::new(Kind::Follows, tickline::now_ns())
        };
        thread_recorder::record(recorder, span.metadata, record);
    }

    fn entered(&self, span: &Span<'_>, ns: u64) {
        // Otherwise another sink of the layer wants enters.
        if self.wants_enters() {
            let recorder = self.recorder();
            let fields = if recorder.has_fields(span.metadata) {
                self.spans().and_then(|spans| spans.fields(span.id))
            } else {
                None
            };
            thread_recorder::with(recorder, |thread| thread.enter(recorder, span, ns, fields));
        }
    }

    fn exited(&self, span: &Span<'_>, ns: u64) {
        if self.wants_enters() {
            let newer = |before: &SpanFields| self.spans()?.newer_fields(span.id, before);
            let recorder = self.recorder();
            thread_recorder::with(recorder, |thread| thread.exit(recorder, span, ns, newer));
        }
    }

    fn event(&self, event: &Event<'_>, lookup: &dyn Lookup, ns: u64) {
        let recorder = self.recorder();
        let around = || self.spans()?.number(&lookup.around(event)?);
        let id = if recorder.has_requests() {
            around().unwrap_or(0)
        } else {
            0
        };
        let record = |visit: &mut dyn Visit| event.record(visit);
        fields::collect(event.metadata(), record, |payload| {
            let record = Record {
                id,
                payload,
                ..Record::new(Kind::Instant, ns)
            };
            thread_recorder::record(recorder, event.metadata(), record)
        });
    }

    fn closed(&self, span: &Span<'_>, times: &SpanTimes) {
        let recorder = self.recorder();
        let Some(spans) = self.spans() else { return };
        if !recorder.has_requests() && !recorder.has_fields(span.metadata) {
            return;
        }
        let Some(recorded) = spans.remove(span.id) else {
            return;
        };
        let take = |shared: &mut SharedSpan| shared.take(recorder.number);
        let is_ours = || !recorded.is_shared || span.extension(take).flatten().is_some();
        if recorded.number != 0 && is_ours() {
            let fields = recorded.fields.as_ref();
            let record = Record {
                id: recorded.number,
                payload: fields.map_or(&[], SpanFields::later),
                ..Record::new(Kind::AsyncEnd, times.closed_ns)
            };
            thread_recorder::record(recorder, span.metadata, record);
        }
    }
}

/// The number of the parent of a span that is being created; 0 without one in the records.
fn parent_number(
    spans: &RecordedSpans,
    span: &Span<'_>,
    attributes: &Attributes<'_>,
    lookup: &dyn Lookup,
) -> u64 {
    let Some(parent) = lookup.direct_parent(attributes) else {
        return 0;
    };
    // A filter may hide the parent from the layer.
    let nearest = || spans.number(&lookup.parent(span.id)?);
    spans.number(&parent).or_else(nearest).unwrap_or(0)
}

/// A span in its request.
#[derive(Default)]
struct InRequest {
    /// 0 if there was no room for the span.
    number: u64,
    /// Whether other sinks have the number, too: only the first one of them records the span.
    is_shared: bool,
}

/// Records the beginning of a span in its request.
fn begin_in_request(
    recorder: &Arc<Recorder>,
    span: &Span<'_>,
    parent: u64,
    fields: &[u8],
    ns: u64,
) -> InRequest {
    let is_shared = recorder.is_in_several_layers();
    if is_shared {
        let number = span.extension(|shared: &mut SharedSpan| shared.get(recorder.number));
        if let Some(number) = number.flatten() {
            return InRequest { number, is_shared };
        }
    }
    let record = Record {
        id: next_span(),
        parent,
        payload: fields,
        ..Record::new(Kind::AsyncBegin, ns)
    };
    if !thread_recorder::record(recorder, span.metadata, record) {
        let number = 0;
        return InRequest { number, is_shared };
    }
    if is_shared {
        span.extension(|shared: &mut SharedSpan| shared.add(recorder.number, record.id));
    }
    let number = record.id;
    InRequest { number, is_shared }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::{registry, reload};

    use super::*;
    use crate::SpanTimingLayer;
    use crate::trace::rings::encoding::Value;
    use crate::trace::rings::record::Records;
    use crate::trace::settings::{Settings, WhenFull};

    #[derive(Debug)]
    struct TestSink(RecorderInLayer);

    impl TestSink {
        fn new(recorder: &Arc<Recorder>) -> Self {
            Self(RecorderInLayer::new(Arc::clone(recorder)))
        }
    }

    impl TraceSink for TestSink {
        fn in_layer(&self) -> &RecorderInLayer {
            &self.0
        }

        fn in_layer_mut(&mut self) -> &mut RecorderInLayer {
            &mut self.0
        }
    }

    /// The kinds of the records in a recorder.
    fn written(recorder: &Recorder) -> Vec<Kind> {
        let records = recorder.snapshot().unwrap().threads;
        let records = records
            .iter()
            .flat_map(|thread| Records::new(&thread.words, 0));
        let kinds = records.map(|record| record.kind);
        kinds.filter(|kind| *kind != Kind::Block).collect()
    }

    /// Symptom: with two layers, a recorder whose layer was reloaded while a span was open wrote
    /// the span's end, which the other layer has timed, without its beginning.
    #[test]
    fn a_recorder_writes_no_end_of_a_span_that_began_before_its_layer_was_reloaded() {
        let recorder = || {
            let tracks = Tracks::Requests;
            let settings = Settings::new(WhenFull::Overwrite);
            Arc::new(Recorder::new(Settings { tracks, ..settings }))
        };
        let layer =
            |recorder: &Arc<Recorder>| SpanTimingLayer::new().with_sink(TestSink::new(recorder));
        let [other, before, after] = [recorder(), recorder(), recorder()];
        let (reloaded, handle) = reload::Layer::new(layer(&before));
        let subscriber = registry().with(layer(&other)).with(reloaded);
        tracing::subscriber::with_default(subscriber, || {
            let _across = tracing::info_span!("across");
            handle.reload(layer(&after)).unwrap();
        });
        assert_eq!(written(&other), [Kind::AsyncBegin, Kind::AsyncEnd]);
        assert_eq!(written(&before), [Kind::AsyncBegin]);
        assert_eq!(written(&after), []);
    }

    /// Symptom: a recorder that was a sink of two layers wrote each span of a request twice. The
    /// second end found no span, and waited in the writer's memory for ever.
    #[test]
    fn a_recorder_of_two_layers_writes_a_span_once() {
        let recorder = Arc::new(Recorder::new(Settings {
            tracks: Tracks::Requests,
            ..Settings::new(WhenFull::Overwrite)
        }));
        let layer = || SpanTimingLayer::new().with_sink(TestSink::new(&recorder));
        let subscriber = registry().with(layer()).with(layer());
        tracing::subscriber::with_default(subscriber, || drop(tracing::info_span!("span")));
        assert_eq!(written(&recorder), [Kind::AsyncBegin, Kind::AsyncEnd]);
    }

    /// Symptom: a trace had two arrows.
    #[test]
    fn a_recorder_of_two_layers_writes_once_that_a_span_follows_from_another() {
        let recorder = Arc::new(Recorder::new(Settings {
            tracks: Tracks::Requests,
            ..Settings::new(WhenFull::Overwrite)
        }));
        let layer = || SpanTimingLayer::new().with_sink(TestSink::new(&recorder));
        let subscriber = registry().with(layer()).with(layer());
        tracing::subscriber::with_default(subscriber, || {
            let [cause, span] = [(); 2].map(|()| tracing::info_span!("span"));
            span.follows_from(&cause);
        });
        let kinds = written(&recorder);
        let begins_and_follows = [Kind::AsyncBegin, Kind::AsyncBegin, Kind::Follows];
        assert_eq!(kinds[..3], begins_and_follows);
        assert_eq!(kinds[3..], [Kind::AsyncEnd; 2]);
    }

    /// A recorder of two layers, the first of which has no room for the beginning of a span.
    #[test]
    fn a_layer_that_lost_a_spans_beginning_leaves_the_end_to_the_other_layer() {
        let recorder = Arc::new(Recorder::new(Settings {
            tracks: Tracks::Requests,
            ..Settings::new(WhenFull::Overwrite)
        }));
        let sinks = [0; 2].map(|_| {
            let mut sink = TestSink::new(&recorder);
            sink.0.spans = Some(Arc::default());
            sink
        });
        let spans = sinks.each_ref().map(|sink| sink.0.spans.clone().unwrap());
        let [first, second] = sinks.map(|sink| SpanTimingLayer::new().with_sink(sink));
        let subscriber = registry().with(first).with(second);
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("span");
            let lost = RecordedSpan {
                is_shared: true,
                ..RecordedSpan::default()
            };
            spans[0].insert(&span.id().unwrap(), lost);
        });
        assert_eq!(written(&recorder), [Kind::AsyncBegin, Kind::AsyncEnd]);
    }

    /// Clones of a flight recorder may be in the layers of two subscribers, whose spans have the
    /// same numbers.
    #[test]
    fn the_spans_of_two_subscribers_have_their_own_fields() {
        let settings = Settings {
            has_fields: true,
            ..Settings::new(WhenFull::Overwrite)
        };
        let recorder = Arc::new(Recorder::new(settings));
        let [first, second] = [1, 2].map(|value| {
            let sink = TestSink::new(&recorder);
            let subscriber = registry().with(SpanTimingLayer::new().with_sink(sink));
            let make = || tracing::info_span!("span", value);
            tracing::subscriber::with_default(subscriber, make)
        });
        assert_eq!(first.id(), second.id());
        first.in_scope(|| ());
        second.in_scope(|| ());
        let threads = recorder.snapshot().unwrap().threads;
        let records = threads
            .iter()
            .flat_map(|thread| Records::new(&thread.words, 0));
        let values = records.flat_map(|record| record.fields().map(|field| field.value));
        assert!(values.eq([Value::I64(1), Value::I64(2)]));
    }
}
