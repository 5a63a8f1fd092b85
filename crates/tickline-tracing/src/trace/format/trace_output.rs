//! The file of a trace, in the format that the program chose.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use tickline::{Instant, UnixTime};

use super::json;
use super::mark::Mark;
use super::perfetto::clocks::ClockReadings;
use super::perfetto::{self, Packing};
use super::summary::TraceSummary;
use crate::trace::readout::cpu_times::ThreadCpuTime;
use crate::trace::readout::span_tracks::Attempt;
use crate::trace::rings::record::{Kind, Record};

/// The format of a trace file. <https://ui.perfetto.dev> opens all.
///
/// ```
/// use tickline_tracing::trace_file::TraceFormat;
///
/// assert_eq!(TraceFormat::from_path("server.pftrace"), TraceFormat::Perfetto);
/// assert_eq!(TraceFormat::from_path("SERVER.PFTRACE"), TraceFormat::Perfetto);
/// assert_eq!(TraceFormat::from_path("server.json"), TraceFormat::Json);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TraceFormat {
    /// JSON in "Trace Event Format", for `chrome://tracing`, speedscope and scripts too.
    #[default]
    Json,
    /// Perfetto's own format, in Protocol Buffers: a quarter of the size, and less work for the
    /// writer. It keeps the types of values. Only this format has the tracks of a request below one
    /// another, arrows for `follows_from`, and the clocks by which traces merge.
    Perfetto,
    /// [`Perfetto`](Self::Perfetto), compressed in blocks of at most about 256 KiB. Each flush of a
    /// trace file ends a block, so the file of a killed program has all records up to the last
    /// flush. Of later ones, up to 256 KiB of packets more may be missing than without compression.
    /// No file name chooses this format. It needs the feature `compression`.
    #[cfg(feature = "compression")]
    CompressedPerfetto,
}

impl TraceFormat {
    /// The format of a file of this name: Perfetto's for the extensions `pftrace` and
    /// `perfetto-trace`, in letters of any case, JSON for all others.
    pub fn from_path(path: impl AsRef<Path>) -> Self {
        let extension = path.as_ref().extension().unwrap_or_default();
        let is = |known: &str| extension.eq_ignore_ascii_case(known);
        if is("pftrace") || is("perfetto-trace") {
            Self::Perfetto
        } else {
            Self::Json
        }
    }
}

/// Writes a trace.
pub(crate) struct TraceOutput<W: Write> {
    text: TraceText<W>,
    /// The summary of the file so far.
    pub(crate) summary: TraceSummary,
    /// The number of ends in the file so far.
    ended_intervals: u64,
    /// The latest time in the file.
    pub(crate) last_ns: u64,
}

enum TraceText<W: Write> {
    Json(Box<json::Trace<W>>),
    Perfetto(Box<perfetto::Trace<W>>),
}

impl<W: Write> TraceOutput<W> {
    /// Begins the trace of a process. `unix` is the Unix time of a moment, if it is known, and
    /// `readings` reads the clocks: each format takes one of both.
    pub(crate) fn begin(
        output: W,
        format: TraceFormat,
        process: u32,
        name: &str,
        unix: Option<(Instant, UnixTime)>,
        readings: impl FnOnce() -> ClockReadings,
    ) -> io::Result<Self> {
        let perfetto = |output, packing| {
            perfetto::Trace::begin(output, process, name, &readings(), packing)
                .map(|trace| TraceText::Perfetto(Box::new(trace)))
        };
        let text = match format {
            TraceFormat::Json => {
                TraceText::Json(Box::new(json::Trace::begin(output, process, name, unix)?))
            }
            TraceFormat::Perfetto => perfetto(output, Packing::Plain)?,
            #[cfg(feature = "compression")]
            TraceFormat::CompressedPerfetto => perfetto(output, Packing::Compressed)?,
        };
        Ok(Self {
            text,
            summary: TraceSummary::default(),
            ended_intervals: 0,
            last_ns: 0,
        })
    }

    /// Writes the name of a thread.
    pub(crate) fn write_name(&mut self, thread: u64, name: &str) -> io::Result<()> {
        match &mut self.text {
            TraceText::Json(trace) => trace.write_name(thread, name),
            TraceText::Perfetto(trace) => trace.write_name(thread, name),
        }
    }

    /// Writes a `record`, unless viewers do not need its kind. `names` finds a callsite's names.
    /// Returns false for the end of a span that must wait for another record: see
    /// [`SpanTracks::end`](crate::trace::readout::span_tracks::SpanTracks::end).
    #[inline]
    pub(crate) fn write(
        &mut self,
        thread: u64,
        record: &Record<'_>,
        names: impl Fn(usize) -> Option<Arc<str>>,
        attempt: Attempt,
    ) -> io::Result<bool> {
        let cut_values = match &mut self.text {
            TraceText::Json(trace) => trace.write(thread, record, names, attempt)?,
            TraceText::Perfetto(trace) => trace.write(thread, record, names, attempt)?,
        };
        let Some(cut_values) = cut_values else {
            return Ok(false);
        };
        self.summary.cut_values += cut_values;
        self.count(record.kind);
        self.last_ns = self.last_ns.max(record.ns);
        Ok(true)
    }

    /// Counts a record, unless it repeats another record, or begins a block.
    #[inline]
    fn count(&mut self, kind: Kind) {
        let summary = &mut self.summary;
        match kind {
            Kind::Begin => summary.intervals += 1,
            Kind::AsyncBegin => {
                summary.intervals += 1;
                summary.request_intervals += 1;
            }
            Kind::End | Kind::AsyncEnd => self.ended_intervals += 1,
            Kind::Instant => summary.events += 1,
            Kind::Rest
            | Kind::Block
            | Kind::RepeatedBegin
            | Kind::Unrepeated
            | Kind::Name
            | Kind::Follows => {}
        }
        // If a request's span ended on another thread, its end may be counted before its beginning.
        summary.unended_intervals = summary.intervals.saturating_sub(self.ended_intervals);
    }

    /// Writes a mark.
    pub(crate) fn write_mark(&mut self, mark: Mark) -> io::Result<()> {
        match &mut self.text {
            TraceText::Json(trace) => trace.write_mark(mark),
            TraceText::Perfetto(trace) => trace.write_mark(mark),
        }
    }

    /// Writes a value of a thread's CPU time.
    pub(crate) fn write_cpu_time(&mut self, thread: u64, time: ThreadCpuTime) -> io::Result<()> {
        self.last_ns = self.last_ns.max(time.ns);
        match &mut self.text {
            TraceText::Json(trace) => trace.write_cpu_time(thread, time),
            TraceText::Perfetto(trace) => trace.write_cpu_time(thread, time),
        }
    }

    /// Passes everything so far to the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.text {
            TraceText::Json(trace) => trace.output.flush(),
            TraceText::Perfetto(trace) => trace.flush(),
        }
    }

    /// Ends the file.
    pub(crate) fn finish(self) -> io::Result<TraceSummary> {
        match self.text {
            TraceText::Json(trace) => trace.finish()?,
            TraceText::Perfetto(mut trace) => trace.flush()?,
        }
        Ok(self.summary)
    }
}
