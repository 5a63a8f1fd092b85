//! Counts the spans of one layer.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use tracing_core::field::Visit;
use tracing_core::span::{Attributes, Id, Record};

use super::table::SLOTS;
use super::{Histograms, Measure, NAME, TARGET};
use crate::open_spans::{OpenSpans, Slots};
use crate::sink::{Sink, Span};
use crate::timing::SpanTimes;

/// What the slot of a span has: the index of its series, and above it the span's number, which
/// tells it from the slot's other spans. It is not 0. Lost are bits by which the registry counts
/// how often a number was used.
fn pack(span: &Id, index: usize) -> u64 {
    (span.into_u64() << INDEX_BITS) | index as u64
}

const INDEX_BITS: u32 = SLOTS.ilog2();

/// The index in it, if it is this span's.
#[inline]
fn unpack(packed: u64, span: &Id) -> Option<usize> {
    usize::try_from(packed ^ pack(span, 0)).ok().filter(|index| *index < SLOTS)
}

impl Sink for Histograms {
    fn joined(&mut self, _: &Arc<OpenSpans>) {
        self.open = self.table.labels.iter().any(|label| !matches!(*label, NAME | TARGET)).then(Arc::default);
    }

    fn created(&self, span: &Span<'_>, attributes: &Attributes<'_>, _: u64) {
        let (table, Some(open)) = (&self.table, &self.open) else { return };
        table.with(|local| {
            let index = local.index(table, span.metadata, None, |visit| attributes.record(visit))?;
            let slot = open.get_or_make(span.id.into_u64())?;
            // ORDERING: Relaxed. Who has the span's number has it from here.
            slot.store(pack(span.id, index), Ordering::Relaxed);
            Some(())
        });
    }

    fn recorded(&self, span: &Span<'_>, values: &Record<'_>) {
        let table = &self.table;
        let Some(slot) = self.open.as_ref().and_then(|open| open.get(span.id.into_u64())) else { return };
        let with_values = |before| {
            // Spans that count with others have lost their values.
            let before = unpack(before, span.id).filter(|index| *index != table.other)?;
            let record = |visit: &mut dyn Visit| values.record(visit);
            let index = table.with(|local| local.index(table, span.metadata, Some(before), record))?;
            Some(pack(span.id, index))
        };
        // Again, if another thread has recorded a value meanwhile.
        // ORDERING: Relaxed for both, as in `created`.
        _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_values);
    }

    #[inline]
    fn closed(&self, span: &Span<'_>, times: &SpanTimes) {
        let table = &self.table;
        let index_of = |open: &Slots<AtomicU64>| {
            let slot = open.get(span.id.into_u64())?;
            // ORDERING: Relaxed, as in `created`. The span has ended: nobody else writes.
            let index = unpack(slot.load(Ordering::Relaxed), span.id)?;
            // ORDERING: as above.
            slot.store(0, Ordering::Relaxed);
            Some(index)
        };
        let ns = match self.measure {
            Measure::Total => times.closed_ns - times.created_ns,
            Measure::Busy => times.busy_ns,
            Measure::Idle => times.closed_ns - times.created_ns - times.busy_ns,
            #[cfg(all(unix, feature = "running"))]
            Measure::Running => match crate::running::of(span) {
                Some(time) => crate::timing::as_ns(time),
                None => return,
            },
        };
        table.with(|local| {
            let index = match &self.open {
                None => local.index(table, span.metadata, None, |_| ())?,
                // A span without a slot is not lost: it counts with others, if it has all fields.
                Some(open) => {
                    index_of(open).or_else(|| local.callsite(table, span.metadata).map(|_| table.other))?
                }
            };
            local.count(table, index, ns)
        });
    }
}
