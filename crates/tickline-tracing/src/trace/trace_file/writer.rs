//! The writer of a trace file: the thread that takes records out of the rings, and writes them in
//! the file's format.

use core::time::Duration;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process;
use std::thread;

use crate::layer::unix_offset::unix_now;
use crate::layer::user_value;
use crate::trace::capture::recorder::Recorder;
use crate::trace::capture::thread_recorder;
use crate::trace::flusher::{ENDED, FAILED, FlushRequests};
use crate::trace::format::mark::Mark;
use crate::trace::format::perfetto::clocks::ClockReadings;
use crate::trace::format::summary::TraceSummary;
use crate::trace::format::trace_output::{TraceFormat, TraceOutput};
use crate::trace::readout::cpu_times::CpuTimes;
use crate::trace::readout::held_ends::HeldEnds;
use crate::trace::readout::merge::Pass;
use crate::trace::readout::snapshot::program_name;
use crate::trace::readout::span_tracks::Attempt;
use crate::trace::rings::ring::ControlWord;
use crate::trace::sys::thread_life::ThreadLife;
use crate::trace::waited::Waited;

/// The error of a trace whose writer has panicked.
pub(super) const PANICKED: &str = "the thread that writes the trace panicked";

/// Writes records until the program ends the recorder, or a write fails or panics. Says such an
/// error on standard error, because the program may ask for it only at its end, or never. If the
/// program has ended the recorder, the guard has the error and says it.
pub(super) fn write(
    output: impl Write,
    format: TraceFormat,
    recorder: &Recorder,
    requests: &FlushRequests,
    flush_every: Duration,
) -> io::Result<TraceSummary> {
    thread_recorder::IS_READER.set(true);
    // This is the only `set`, because a recorder has one reader.
    let life = ThreadLife::of_this_thread();
    recorder.reader.set(thread::current(), life);
    // If the output panics, threads must not wait for the writer any longer.
    let result = catch_unwind(AssertUnwindSafe(|| {
        let trace = TraceOutput::begin(
            output,
            format,
            process::id(),
            &program_name(),
            Some(unix_now()),
            ClockReadings::now,
        )?;
        Writer {
            trace,
            recorder,
            held: HeldEnds::default(),
            cpu_times: CpuTimes::default(),
        }
        .write_all(requests, flush_every)
    }));
    let is_ended_by_program = recorder.has_ended();
    recorder.end();
    let error = match &result {
        Ok(Ok(_)) => None,
        // It may be an error of the program's output.
        Ok(Err(error)) => Some(user_value::text(&format_args!("{error}"))),
        Err(_) => Some(PANICKED.to_owned()),
    };
    if let Some(error) = error {
        requests.set_error(error);
        if !is_ended_by_program {
            // Before a flush gets its answer: a program that ends after it has the line, too.
            requests.say_error();
        }
        requests.set_done(FAILED);
    } else {
        requests.set_done(ENDED);
    }
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The records that have probably come while the writer took others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// They may wait for the next flush.
    Few,
    /// The next pass should begin at once.
    Many,
}

struct Writer<'a, W: Write> {
    /// The `dropped_records` of its summary is the number of records that the marks state so
    /// far.
    trace: TraceOutput<W>,
    recorder: &'a Recorder,
    held: HeldEnds,
    cpu_times: CpuTimes,
}

impl<W: Write> Writer<'_, W> {
    fn write_all(
        mut self,
        requests: &FlushRequests,
        flush_every: Duration,
    ) -> io::Result<TraceSummary> {
        self.trace.flush()?;
        // The beginning of the last pass that ended with a flush. The time to the next flush counts
        // from there, not from its end: the records since then are not in the file.
        let (mut flushed, mut done) = (Waited::since_now(), 0);
        while !self.recorder.has_ended() {
            let (requested, begun) = (requests.requested(), Waited::since_now());
            let meanwhile = self.take_present_records()?;
            if requested != done || flushed.time() >= flush_every {
                self.flush()?;
                flushed = begun;
                requests.set_done(requested);
                done = requested;
            }
            if meanwhile == Meanwhile::Few {
                flushed.park(flush_every.saturating_sub(flushed.time()));
            }
        }
        let requested = requests.requested();
        self.take_last_records()?;
        self.flush()?;
        requests.set_done(requested);
        self.write_mark_if_empty()?;
        self.trace.finish()
    }

    /// Writes all that a flush adds to the records, and flushes the output.
    fn flush(&mut self) -> io::Result<()> {
        self.write_dropped()?;
        self.write_cpu_times()?;
        self.trace.flush()
    }

    /// Takes and writes the records that are in the rings now.
    fn take_present_records(&mut self) -> io::Result<Meanwhile> {
        self.take_records(tickline::now_ordered_ns)
    }

    /// Takes and writes all records of a recorder that has ended, of whatever time.
    fn take_last_records(&mut self) -> io::Result<()> {
        self.take_records(|| u64::MAX).map(drop)
    }

    /// Takes and writes the records of all rings. `now_ns` is for [`Pass::begin`].
    fn take_records(&mut self, now_ns: impl Fn() -> u64) -> io::Result<Meanwhile> {
        let Self {
            trace,
            recorder,
            held,
            ..
        } = self;
        // They are taken first: the beginnings of their spans are then in the rings or were taken.
        for kept in recorder.kept_ends.take() {
            held.add(kept.thread, &kept.end);
        }
        let mut pass = Pass::begin(|| recorder.rings.all().unwrap_or_default(), now_ns);
        for ring in pass.new_rings() {
            trace.write_name(ring.get(ControlWord::Number), &ring.name())?;
        }
        let meanwhile = if pass.is_long() {
            Meanwhile::Many
        } else {
            Meanwhile::Few
        };
        let names = |address| recorder.callsite(address);
        pass.write(|thread, record| {
            if !trace.write(thread, record, names, Attempt::First)? {
                held.add(thread, record);
            }
            Ok(())
        })?;
        held.take(|thread, record, attempt| trace.write(thread, record, names, attempt))?;
        for ring in pass.ended_rings() {
            recorder.rings.remove(ring);
        }
        Ok(meanwhile)
    }

    /// Writes the CPU times of the threads that have records in the trace.
    fn write_cpu_times(&mut self) -> io::Result<()> {
        if !self.recorder.settings.has_cpu_time {
            return Ok(());
        }
        let mut rings = self.recorder.rings.all().unwrap_or_default();
        rings.retain(|ring| ring.taken() > 0);
        let Self {
            trace, cpu_times, ..
        } = self;
        cpu_times.read(&rings, |ring, time| {
            trace.write_cpu_time(ring.get(ControlWord::Number), time)
        })
    }

    /// Says in a trace without spans why there may be none.
    fn write_mark_if_empty(&mut self) -> io::Result<()> {
        let panics = self.recorder.panics();
        if !self.trace.summary.is_of_nothing_but(panics) {
            return Ok(());
        }
        self.trace.write_mark(Mark {
            thread: 0,
            ns: tickline::now_ns(),
            count: 0,
            label: "spans: guard dropped too early, layer not installed, all filtered out, or none \
                    entered",
            argument: "spans",
        })
    }

    /// Writes a mark that states how many records were dropped since the last mark.
    fn write_dropped(&mut self) -> io::Result<()> {
        let dropped = self.recorder.rings.dropped_records() - self.trace.summary.dropped_records;
        if dropped == 0 {
            return Ok(());
        }
        self.trace.summary.dropped_records += dropped;
        self.trace.write_mark(Mark {
            thread: 0,
            ns: self.trace.last_ns,
            count: dropped,
            label: "records dropped",
            argument: "dropped",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::SpanTimingLayer;
    use crate::trace::capture::trace_sink::TraceSink;
    use crate::trace::settings::{Settings, WhenFull};
    use crate::trace::trace_file::{Flushed, TraceFile};

    /// An output, and its error, whose text is an error itself.
    #[derive(Debug)]
    struct Unspeakable;

    impl Write for Unspeakable {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other(Self))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl core::fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            Err(core::fmt::Error)
        }
    }

    impl core::error::Error for Unspeakable {}

    /// Otherwise a flush would wait for ever.
    #[test]
    fn a_writer_ends_although_the_text_of_its_error_is_an_error() {
        let requests = FlushRequests::default();
        let recorder = Recorder::new(Settings::new(WhenFull::Drop));
        recorder.end();
        let format = TraceFormat::Json;
        write(Unspeakable, format, &recorder, &requests, Duration::ZERO).unwrap_err();
        assert_eq!(
            requests.take_error().as_deref(),
            Some(user_value::RETURNED_ERROR)
        );
    }

    /// Symptom: the trace's last line advised a larger ring.
    #[test]
    fn a_record_after_the_end_is_not_dropped_for_want_of_room() {
        let (trace, guard) = TraceFile::builder().build(io::sink()).unwrap();
        let recorder = Arc::clone(trace.recorder());
        let layer = SpanTimingLayer::new().with_sink(trace);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!("before");
            assert_eq!(guard.finish().unwrap().events, 1);
            tracing::info!("after");
        });
        assert_eq!(recorder.rings.dropped_records(), 0);
    }

    #[test]
    fn the_rings_of_ended_threads_are_removed() {
        let (trace, guard) = TraceFile::builder().build(io::sink()).unwrap();
        let recorder = Arc::clone(trace.recorder());
        let layer = SpanTimingLayer::new().with_sink(trace);
        let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
        let work = || tracing::info_span!("work").in_scope(|| ());
        for _ in 0..3 {
            let dispatch = dispatch.clone();
            thread::spawn(move || tracing::dispatcher::with_default(&dispatch, work))
                .join()
                .unwrap();
        }
        let start = Instant::now();
        // A thread's memory may be dropped after its join.
        while !recorder.rings.all().unwrap().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(30), "{recorder:?}");
            let flushed = guard.flusher().flush(Duration::from_secs(30));
            assert_eq!(flushed, Flushed::Written);
        }
        assert_eq!(guard.finish().unwrap().intervals, 3);
    }
}
