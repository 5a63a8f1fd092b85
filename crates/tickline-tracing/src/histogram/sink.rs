//! Counts the spans of one layer.

use core::sync::atomic::{AtomicU64, Ordering};

use tracing_core::Metadata;
use tracing_core::span::{Attributes, Id, Record};

use super::series::{MAX_SERIES, OTHER};
use super::{Histograms, Measure, is_field};
use crate::open_spans::Slots;
use crate::sink::{Hooks, Span};
use crate::timing::SpanTiming;

/// The sink of one layer.
#[derive(Debug)]
pub(super) struct Counting {
    histograms: Histograms,
    /// The series of each open span, if labels are fields ([`note`]). To keep it in the registry's
    /// extensions would cost as much as the layer.
    open: Option<Slots<AtomicU64>>,
}

/// What the slot of a span has: the place of its series, and above it the span's number, which tells
/// it from the slot's other spans. It is not 0. Lost are bits by which the registry counts how often
/// a number was used.
fn note(span: &Id, place: usize) -> u64 {
    (span.into_u64() << NOTED_BITS) | place as u64
}

/// Bits for a place.
const NOTED_BITS: u32 = 10;
const _: () = assert!(MAX_SERIES < 1 << NOTED_BITS);

/// The place that was noted for this span.
fn noted(note: u64, span: &Id) -> Option<usize> {
    let place = usize::try_from(note % (1 << NOTED_BITS)).ok()?;
    (note == self::note(span, place)).then_some(place)
}

impl Counting {
    pub(super) fn new(histograms: Histograms) -> Self {
        let open = histograms.table.labels.iter().any(|label| is_field(label)).then(Slots::new);
        Self { histograms, open }
    }
}

impl Hooks for Counting {
    fn wants_fields(&self, _: &'static Metadata<'static>) -> bool {
        self.open.is_some()
    }

    fn created(&self, span: &Span<'_>, attributes: &Attributes<'_>, _: u64) {
        let (table, Some(open)) = (&self.histograms.table, &self.open) else { return };
        table.with(|local| {
            let place = local.place(table, span.metadata, None, |visit| attributes.record(visit))?;
            let slot = open.get_or_make(span.id.into_u64())?;
            // ORDERING: Relaxed. Who has the span's number has it from here.
            slot.store(note(span.id, place), Ordering::Relaxed);
            Some(())
        });
    }

    fn recorded(&self, span: &Span<'_>, values: &Record<'_>) {
        let table = &self.histograms.table;
        let Some(slot) = self.open.as_ref().and_then(|open| open.get(span.id.into_u64())) else { return };
        // Again, if another thread has recorded a value meanwhile.
        loop {
            // ORDERING: Relaxed, as in `created`.
            let before = slot.load(Ordering::Relaxed);
            // Spans that count with others have lost their values.
            let Some(place) = noted(before, span.id).filter(|place| *place != OTHER) else { return };
            let place = table
                .with(|local| local.place(table, span.metadata, Some(place), |visit| values.record(visit)));
            let Some(after) = place.map(|place| note(span.id, place)) else { return };
            // ORDERING: Relaxed, as in `created`.
            if slot.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    #[inline]
    fn closed(&self, span: &Span<'_>, times: &SpanTiming) {
        let table = &self.histograms.table;
        let noted = |open: &Slots<AtomicU64>| {
            let slot = open.get(span.id.into_u64())?;
            // ORDERING: Relaxed, as in `created`. The span has ended: nobody else writes.
            let place = noted(slot.load(Ordering::Relaxed), span.id)?;
            // ORDERING: as above.
            slot.store(0, Ordering::Relaxed);
            Some(place)
        };
        let ns = match self.histograms.measure {
            Measure::Total => times.closed_ns - times.created_ns,
            Measure::Busy => times.busy_ns,
            Measure::Idle => times.closed_ns - times.created_ns - times.busy_ns,
            #[cfg(all(unix, feature = "running"))]
            Measure::Running => match span.found.with(crate::running::of).flatten() {
                Some(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
                None => return,
            },
        };
        table.with(|local| {
            let place = match &self.open {
                None => local.place(table, span.metadata, None, |_| ()),
                // A span without a slot is not lost: it counts with others.
                Some(open) => noted(open).or_else(|| local.has_fields(table, span.metadata).then_some(OTHER)),
            };
            local.series(table, place?).map(|(_, counts)| counts.record(&table.bounds_ns, ns))
        });
    }
}
