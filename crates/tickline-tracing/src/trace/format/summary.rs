//! What a trace file contains.

use core::fmt;

use tickline::{Instant, UnixTime};

/// A summary of the content of a trace file.
///
/// Its text is a sentence with the counts, also of losses if there are any:
///
/// ```
/// use tickline_tracing::SpanTimingLayer;
/// use tickline_tracing::flight::FlightRecorder;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// # fn main() -> std::io::Result<()> {
/// let recorder = FlightRecorder::builder().build()?;
/// let layer = SpanTimingLayer::new().with_sink(recorder.clone());
/// let subscriber = tracing_subscriber::registry().with(layer);
/// tracing::subscriber::with_default(subscriber, || {
///     tracing::info_span!("request").in_scope(|| tracing::info!("read"));
/// });
/// let summary = recorder.write_to(std::io::sink())?;
/// assert_eq!(summary.to_string(), "1 interval and 1 event");
/// # Ok(())
/// # }
/// ```
///
/// With `Tracks::ThreadsAndRequests` a span counts, and each of its busy intervals: "3 intervals (2
/// of threads, 1 of requests) and 1 event". With losses it is, for example, "9 intervals, of which
/// 1 did not end, and 0 events; incomplete: 12 records dropped, 1 value cut". What a flight
/// recorder has overwritten is no loss: "9 intervals and 0 events; 12 older records overwritten". A
/// trace without content, losses or overwritten records has the possible causes: "0 intervals and 0
/// events: none entered yet, layer not installed, or all filtered out". The text does not have
/// [`complete_since`](Self::complete_since) and [`unix_end`](Self::unix_end).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TraceSummary {
    /// The number of busy intervals of threads, and of spans of requests.
    pub intervals: u64,
    /// The number of `intervals` that are spans of requests: see
    /// [`Tracks`](crate::trace_file::Tracks).
    pub request_intervals: u64,
    /// The number of `intervals` that had not ended when the trace was written.
    pub unended_intervals: u64,
    /// The number of events.
    pub events: u64,
    /// The number of records that no ring has taken, because the thread's ring had no room, or the
    /// system no memory for a ring. These are beginnings, events, and ends of spans of requests. A
    /// flight recorder's ring always has room, as it overwrites older records
    /// ([`overwritten_records`](Self::overwritten_records)). Records that come after the end of the
    /// trace file are not in it, and do not count. Always 0 for a recorder's file.
    pub dropped_records: u64,
    /// The number of records that newer ones have overwritten in a flight recorder: two for a span,
    /// one for an event. Always 0 for a trace file.
    pub overwritten_records: u64,
    /// In the trace of a flight recorder: the instant since when no thread's records are missing;
    /// `None` if no record was overwritten. It is of `CLOCK_MONOTONIC` as the recording process
    /// read it. Threads that have ended, and whose rings are gone, do not count here. Nor do
    /// [`dropped_records`](Self::dropped_records), [`missing_rings`](Self::missing_rings) and
    /// [`threads_without_ring`](Self::threads_without_ring).
    pub complete_since: Option<Instant>,
    /// The number of damaged records in a recorder's file, which the trace leaves out. Always 0 for
    /// the recorder itself.
    pub damaged_records: u64,
    /// The number of values of fields that are cut, because the fields of one span or event take at
    /// most 16 KiB: the longest values are cut, and end with `… (cut)`. A span's value counts at
    /// each of its intervals.
    pub cut_values: u64,
    /// The number of spans of requests that the trace of an ended process leaves out, because they
    /// may have ended. The record of such an end may be among the overwritten ones of another
    /// thread, in a missing ring, or of a thread without a ring.
    pub undecided_spans: u64,
    /// The number of threads' rings that are missing, at least in part, at the end of a recorder's
    /// file that was truncated. The trace has nothing of these. Always 0 for the recorder itself.
    pub missing_rings: u64,
    /// The number of threads that got no ring in a recorder's file, because more threads ran at
    /// once than the file has rings ([`threads`](crate::flight::FlightFileBuilder::threads)); a
    /// ring is also in use while the recorder copies it to write a trace. The trace has nothing of
    /// these threads. Always 0 for the recorder itself. A damaged file may state any number.
    pub threads_without_ring: u64,
    /// The number of callsites in the trace whose names a recorder's file does not have: their
    /// spans and events have the name `?`. The ring of names was full, or the names were [too
    /// long](crate::flight#the-black-box), or they are damaged. Also counts callsites of a forked
    /// child's own trace, if a thread of the parent had the list of names locked at the fork.
    pub callsites_without_names: u64,
    /// In the trace of a flight recorder: the Unix time when it was written. In that of a
    /// recorder's file: the Unix time of its last record, by the clock as it was when the file was
    /// created; `None` if the file has no record, or does not say it. Always `None` for a trace
    /// file.
    pub unix_end: Option<UnixTime>,
}

impl TraceSummary {
    /// Whether no span and no event came, besides this number of panics, not even one that was
    /// lost.
    pub(crate) const fn is_of_nothing_but(&self, panics: u64) -> bool {
        let found = self.intervals > 0 || self.events > panics;
        !found && self.dropped_records == 0 && self.overwritten_records == 0
    }
}

/// A sentence for people, whose words may change.
impl fmt::Display for TraceSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All fields are named, so that a new one is not forgotten.
        let Self {
            intervals,
            request_intervals,
            unended_intervals,
            events,
            dropped_records,
            overwritten_records,
            complete_since: _,
            damaged_records,
            cut_values,
            undecided_spans,
            missing_rings,
            threads_without_ring,
            callsites_without_names,
            unix_end: _,
        } = self;
        write!(f, "{}", Count(*intervals, "interval"))?;
        let of_threads = intervals.saturating_sub(*request_intervals);
        if of_threads > 0 && *request_intervals > 0 {
            write!(
                f,
                " ({of_threads} of threads, {request_intervals} of requests)"
            )?;
        }
        if *unended_intervals > 0 {
            write!(f, ", of which {unended_intervals} did not end,")?;
        }
        write!(f, " and {}", Count(*events, "event"))?;
        if *overwritten_records > 0 {
            write!(
                f,
                "; {} overwritten",
                Count(*overwritten_records, "older record")
            )?;
        }
        let losses = [
            (dropped_records, "record", "dropped"),
            (damaged_records, "record", "damaged"),
            (cut_values, "value", "cut"),
            (undecided_spans, "span", "undecided"),
            (missing_rings, "ring", "missing"),
            (threads_without_ring, "thread", "without a ring"),
            (callsites_without_names, "callsite", "without names"),
        ];
        let mut separator = "; incomplete: ";
        for (count, unit, loss) in losses.into_iter().filter(|(count, ..)| **count > 0) {
            write!(f, "{separator}{} {loss}", Count(*count, unit))?;
            separator = ", ";
        }
        if self.is_of_nothing_but(0) && losses.iter().all(|(count, ..)| **count == 0) {
            f.write_str(": none entered yet, layer not installed, or all filtered out")?;
        }
        Ok(())
    }
}

/// A number of things of this unit.
struct Count(u64, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, unit) = self;
        let plural = if *count == 1 { "" } else { "s" };
        write!(f, "{count} {unit}{plural}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_of_a_complete_trace_has_its_intervals_and_events() {
        let summary = TraceSummary {
            intervals: 1,
            events: 2,
            ..TraceSummary::default()
        };
        assert_eq!(summary.to_string(), "1 interval and 2 events");
    }

    /// Symptom: nothing said why 1,801 spans were 3,602 intervals.
    #[test]
    fn the_sentence_of_a_trace_of_threads_and_requests_counts_the_intervals_of_each() {
        let summary = TraceSummary {
            intervals: 3_602,
            request_intervals: 1_801,
            unended_intervals: 2,
            ..TraceSummary::default()
        };
        assert_eq!(
            summary.to_string(),
            "3602 intervals (1801 of threads, 1801 of requests), of which 2 did not end, and 0 \
             events"
        );
    }

    /// Symptom: the sentence was "0 intervals, of which 0 did not end, and 0 events".
    #[test]
    fn the_sentence_of_an_empty_trace_has_the_possible_causes() {
        assert_eq!(
            TraceSummary::default().to_string(),
            "0 intervals and 0 events: none entered yet, layer not installed, or all filtered out"
        );
    }

    #[test]
    fn the_sentence_has_the_intervals_that_did_not_end() {
        let summary = TraceSummary {
            intervals: 1,
            unended_intervals: 1,
            events: 2,
            ..TraceSummary::default()
        };
        assert_eq!(
            summary.to_string(),
            "1 interval, of which 1 did not end, and 2 events"
        );
    }

    /// Symptom: a recorder that did what it is for had an incomplete trace.
    #[test]
    fn the_sentence_does_not_count_overwritten_records_as_a_loss() {
        let summary = TraceSummary {
            overwritten_records: 12,
            ..TraceSummary::default()
        };
        assert_eq!(
            summary.to_string(),
            "0 intervals and 0 events; 12 older records overwritten"
        );
    }

    #[test]
    fn the_sentence_of_an_incomplete_trace_has_each_loss() {
        let summary = TraceSummary {
            dropped_records: 2,
            damaged_records: 3,
            cut_values: 1,
            undecided_spans: 4,
            missing_rings: 5,
            threads_without_ring: 6,
            callsites_without_names: 7,
            ..TraceSummary::default()
        };
        assert_eq!(
            summary.to_string(),
            "0 intervals and 0 events; incomplete: 2 records dropped, 3 \
             records damaged, 1 value cut, 4 spans undecided, 5 rings missing, 6 threads without a \
             ring, 7 callsites without names"
        );
    }
}
