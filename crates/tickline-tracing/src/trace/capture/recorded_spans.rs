//! What a sink keeps for each open span: the span's number in its request, and its fields.
//!
//! The sink keeps these in a table of its own, not in the registry's extensions: an extension takes
//! an allocation, and its lookup costs more than the work with the fields.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tracing_core::dispatcher::{self, WeakDispatch};
use tracing_core::span::Id;
use tracing_core::{Dispatch, Metadata};
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan;

use crate::layer::open_spans::{OpenSpans, SpanTable};
use crate::trace::rings::fields::SpanFields;

/// An open span.
#[derive(Debug, Default)]
pub(crate) struct RecordedSpan {
    /// The span's number in records; 0 if the recorder does not have its beginning in the request.
    pub(crate) number: u64,
    /// Whether the recorder is also a sink of other layers. [`SharedSpan`] then has the number.
    pub(crate) is_shared: bool,
    /// The fields for the tracks of threads, and those that were recorded after the span's
    /// creation; `None` if there are none.
    pub(crate) fields: Option<SpanFields>,
}

/// A span's extension: its numbers in the recorders that are sinks of several layers.
#[derive(Debug, Default)]
pub(crate) struct SharedSpan {
    numbers: Vec<(u64, u64)>,
    /// For each recorder, the number of the last span from which it follows.
    causes: Vec<(u64, u64)>,
}

impl SharedSpan {
    pub(crate) fn add(&mut self, recorder: u64, number: u64) {
        self.numbers.push((recorder, number));
    }

    /// Adds a span from which this one follows. Returns whether it is new, so that one layer alone
    /// records it. The other layers of the recorder get the same call before the next one, so the
    /// last span is enough.
    pub(crate) fn add_cause(&mut self, recorder: u64, number: u64) -> bool {
        let mut causes = self.causes.iter_mut();
        let Some(last) = causes.find(|(known, _)| *known == recorder) else {
            self.causes.push((recorder, number));
            return true;
        };
        let is_new = last.1 != number;
        last.1 = number;
        is_new
    }

    /// The span's number, if this recorder has the span's beginning.
    pub(crate) fn get(&self, recorder: u64) -> Option<u64> {
        let mut numbers = self.numbers.iter();
        let found = numbers.find(|(known, _)| *known == recorder)?;
        Some(found.1)
    }

    /// Removes the span's number, so that one layer alone records the end.
    pub(crate) fn take(&mut self, recorder: u64) -> Option<u64> {
        let mut numbers = self.numbers.iter();
        let index = numbers.position(|(known, _)| *known == recorder)?;
        Some(self.numbers.swap_remove(index).1)
    }
}

/// The open spans of a sink. Each layer has its own, because two subscribers may give two spans the
/// same number.
#[derive(Debug, Default)]
pub(crate) struct RecordedSpans {
    table: SpanTable<RecordedSpan>,
    /// Whether a span has ever got values after its creation. As long as none has, the end of a
    /// busy interval needs no lock to look for them.
    has_later_values: AtomicBool,
    /// The subscriber of the layer; unknown if a reload has added the layer, or if the subscriber
    /// is in a `Box` or an `Arc`.
    dispatch: OnceLock<WeakDispatch>,
    /// The open spans of the layer, with their times.
    open_spans: Weak<OpenSpans>,
}

impl RecordedSpans {
    pub(crate) fn of(open_spans: &Arc<OpenSpans>) -> Self {
        Self {
            open_spans: Arc::downgrade(open_spans),
            ..Self::default()
        }
    }

    pub(crate) fn insert(&self, span: &Id, recorded: RecordedSpan) {
        self.table.insert(span.into_u64(), recorded);
    }

    /// Removes a span. [`SpanFields::Few`] stay in the slot: they have no memory to free and no
    /// later values for the end, so they need not be copied.
    pub(crate) fn remove(&self, span: &Id) -> Option<RecordedSpan> {
        self.table.remove(span.into_u64(), |recorded| {
            let are_many = matches!(recorded.fields, Some(SpanFields::Many(_)));
            RecordedSpan {
                number: recorded.number,
                is_shared: recorded.is_shared,
                fields: if are_many {
                    recorded.fields.take()
                } else {
                    None
                },
            }
        })
    }

    /// The number of an open span in records, if its beginning is among them.
    pub(crate) fn number(&self, span: &Id) -> Option<u64> {
        let number = self
            .table
            .change(span.into_u64(), |recorded| recorded.number)?;
        (number != 0).then_some(number)
    }

    pub(crate) fn layer_registered(&self, dispatch: &Dispatch) {
        // Later calls change nothing: a layer belongs to one subscriber.
        _ = self.dispatch.set(dispatch.downgrade());
    }

    /// The number of the innermost span that this thread is in, of those that have a number. A
    /// panic hook asks this, which the layer does not call. The thread may be in a call to its
    /// subscriber, where it has no default one.
    pub(crate) fn number_around_this_thread(&self) -> Option<u64> {
        let number = |dispatch: &Dispatch| {
            let (innermost, metadata) = dispatch.current_span().into_inner()?;
            // A filter may hide it from the layer.
            let above = || {
                let registry = dispatch.downcast_ref::<Registry>()?;
                let mut scope = registry.span(&innermost)?.scope();
                scope.find_map(|span| self.number_if_of_layer(&span.id(), span.metadata()))
            };
            self.number_if_of_layer(&innermost, metadata).or_else(above)
        };
        match self.dispatch.get() {
            Some(dispatch) => number(&dispatch.upgrade()?),
            None => dispatcher::get_default(number),
        }
    }

    /// The number of a span of the thread's subscriber. If that is not the layer's, the layer may
    /// have another span of this id, which is nearly always of another callsite.
    fn number_if_of_layer(&self, span: &Id, metadata: &Metadata<'_>) -> Option<u64> {
        let open_spans = self.open_spans.upgrade()?;
        let known = open_spans.change(span.into_u64(), |open_span| open_span.metadata)?;
        if known == metadata {
            self.number(span)
        } else {
            None
        }
    }

    pub(crate) fn fields(&self, span: &Id) -> Option<SpanFields> {
        let fields = |recorded: &mut RecordedSpan| recorded.fields.clone();
        self.table.change(span.into_u64(), fields).flatten()
    }

    /// The fields of a span, if any thread has recorded values since they were `before`.
    pub(crate) fn newer_fields(&self, span: &Id, before: &SpanFields) -> Option<SpanFields> {
        // ORDERING: Relaxed. If another thread has recorded values before, and this thread knows
        // it, it sees the store in `add_values`. The lock orders the values.
        if !self.has_later_values.load(Ordering::Relaxed) {
            return None;
        }
        let newer = |recorded: &mut RecordedSpan| {
            let fields = recorded.fields.as_ref()?;
            (!fields.are_the_same(before)).then(|| fields.clone())
        };
        self.table.change(span.into_u64(), newer).flatten()
    }

    /// Adds values that were recorded after the span was created.
    pub(crate) fn add_values(&self, span: &Id, metadata: &Metadata<'_>, values: &[u8]) {
        // Only the first call writes, so that threads keep the flag in their caches.
        // ORDERING: Relaxed for both: see `newer_fields`.
        if !self.has_later_values.load(Ordering::Relaxed) {
            self.has_later_values.store(true, Ordering::Relaxed);
        }
        loop {
            let before = self.fields(span);
            // The slot is not locked here, because the allocator may create spans.
            let with_values = match &before {
                Some(before) => before.with(metadata, values),
                None => SpanFields::new(&[]).with(metadata, values),
            };
            let mut fields = Some(with_values);
            let is_added = self.table.change(span.into_u64(), |recorded| {
                let is_same = match (&recorded.fields, &before) {
                    (Some(present), Some(before)) => present.are_the_same(before),
                    (present, before) => present.is_none() && before.is_none(),
                };
                if is_same {
                    core::mem::swap(&mut recorded.fields, &mut fields);
                }
                is_same
            });
            // Otherwise another thread has recorded values meanwhile.
            if is_added != Some(false) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::rings::encoding::{self, Field, FieldName, Fields, Value};

    #[test]
    fn any_number_of_recorders_may_have_a_shared_span() {
        let mut shared = SharedSpan::default();
        (1..=4).for_each(|recorder| shared.add(recorder, recorder * 10));
        assert!((1..=4).all(|recorder| shared.get(recorder) == Some(recorder * 10)));
        assert_eq!(shared.get(5), None);
        for recorder in 1..=4 {
            assert_eq!(shared.take(recorder), Some(recorder * 10));
            assert_eq!(shared.take(recorder), None, "once");
        }
    }

    #[test]
    fn values_that_two_threads_record_at_once_are_all_kept() {
        let metadata = tracing::subscriber::with_default(tracing_subscriber::registry(), || {
            let span = tracing::info_span!("span", first = 0, second = 0);
            span.metadata().expect("a registry enables all")
        });
        let (spans, id) = (RecordedSpans::default(), Id::from_u64(1));
        spans.insert(&id, RecordedSpan::default());
        let record = |index| {
            let values = if cfg!(miri) { 50 } else { 10_000 };
            for number in 0..values {
                let (name, value) = (FieldName::Index(index), Value::U64(number));
                let (field, mut bytes) = (Field { name, value }, Vec::new());
                encoding::push(&mut bytes, field);
                spans.add_values(&id, metadata, &bytes);
                let fields = spans.fields(&id).expect("fields");
                let mut all = Fields {
                    bytes: fields.bytes(),
                };
                assert!(all.any(|known| known == field), "{field:?}");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| record(0));
            scope.spawn(|| record(1));
        });
    }
}
