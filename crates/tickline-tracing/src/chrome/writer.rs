//! The thread that takes records out of the rings, and writes them as text.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io::{self, Write};
use std::process;
use std::thread;
use std::time::Instant;

use super::TraceSummary;
use crate::trace::json::Trace;
use crate::trace::record::{Records, Word};
use crate::trace::recorder::{Recorder, own_name};
use crate::trace::ring::HeadWord;
use crate::trace::thread_recorder;

/// What the program asks of the writer. These are atomics, so a signal's handler may ask, too.
#[derive(Debug, Default)]
pub(super) struct FlushRequests {
    /// Counts requests to write all that was recorded before.
    asked: AtomicU64,
    /// The last request that was carried out; [`ENDED`] once the writer has ended, by itself or
    /// because of an error.
    done: AtomicU64,
}

const ENDED: u64 = u64::MAX;

impl FlushRequests {
    /// Asks to write what was recorded before. Returns the request's number.
    pub(super) fn ask(&self) -> u64 {
        // ORDERING: Release, pairs with the Acquire load in `asked`: the writer sees what the
        // asking thread has recorded.
        self.asked.fetch_add(1, Ordering::Release) + 1
    }

    pub(super) fn is_done(&self, number: u64) -> bool {
        // ORDERING: Acquire, pairs with the Release store in `set_done`: the records are written.
        self.done.load(Ordering::Acquire) >= number
    }

    /// For the writer: the number of the last request.
    fn asked(&self) -> u64 {
        // ORDERING: Acquire, pairs with the Release change in `ask`: what was recorded before is
        // taken next.
        self.asked.load(Ordering::Acquire)
    }

    /// For the writer: requests up to this number are carried out.
    fn set_done(&self, number: u64) {
        // ORDERING: Release, pairs with the Acquire load in `is_done`.
        self.done.store(number, Ordering::Release);
    }
}

/// Writes what is recorded, until the program ends the recorder, or a write fails.
pub(super) fn run(
    output: impl Write,
    recorder: &Recorder,
    requests: &FlushRequests,
    flush_every: Duration,
) -> io::Result<TraceSummary> {
    thread_recorder::IS_READER.set(true);
    // A recorder has one reader.
    let _ = recorder.reader.set(thread::current());
    let result = Trace::begin(output, process::id(), &own_name()).and_then(|trace| {
        let writer = Writer { trace, recorder, words: Vec::new() };
        writer.write_all(requests, flush_every)
    });
    recorder.end();
    requests.set_done(ENDED);
    result
}

struct Writer<'a, W: Write> {
    /// Its summary counts the records that are missing before a mark.
    trace: Trace<W>,
    recorder: &'a Recorder,
    words: Vec<Word>,
}

impl<W: Write> Writer<'_, W> {
    fn write_all(mut self, requests: &FlushRequests, flush_every: Duration) -> io::Result<TraceSummary> {
        self.trace.output.flush()?;
        let (mut flushed, mut done) = (Instant::now(), 0);
        loop {
            let (asked, finish) = (requests.asked(), self.recorder.has_ended());
            let took_much = self.take()?;
            if finish || asked != done || flushed.elapsed() >= flush_every {
                self.write_missing()?;
                self.trace.output.flush()?;
                flushed = Instant::now();
                requests.set_done(asked);
                done = asked;
            }
            if finish {
                return self.trace.finish();
            }
            if !took_much {
                thread::park_timeout(flush_every);
            }
        }
    }

    /// Takes what is in the rings now. Returns whether that was so much that more may have come
    /// already.
    fn take(&mut self) -> io::Result<bool> {
        let mut is_much = false;
        for ring in self.recorder.rings().unwrap_or_default() {
            // Loaded before the end of the records is, so that no record can come after that end.
            let has_ended = ring.has_ended();
            let from = ring.take(&mut self.words);
            is_much |= self.words.len() as u64 > ring.capacity() / 4;
            let thread = ring.get(HeadWord::Number);
            if from == 0 && !self.words.is_empty() {
                self.trace.write_name(thread, &ring.name())?;
            }
            for record in Records::new(&self.words, from) {
                self.trace.write(thread, &record, |address| self.recorder.callsite(address))?;
            }
            if has_ended {
                self.recorder.forget(&ring);
            }
        }
        Ok(is_much)
    }

    /// Writes a mark that says how many events are missing before it.
    fn write_missing(&mut self) -> io::Result<()> {
        let missing = self.recorder.dropped() - self.trace.summary.dropped;
        if missing == 0 {
            return Ok(());
        }
        self.trace.summary.dropped += missing;
        self.trace.write_mark(0, self.trace.last_ns, missing, ["events missing", "dropped"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Settings, WhenFull};

    /// The writer finds what was recorded before a request, and who asked finds it written.
    #[test]
    fn ordering_a_request_comes_with_what_was_recorded() {
        for finish in [false, true].repeat(8) {
            let (requests, recorder) =
                (FlushRequests::default(), Recorder::new(Settings::new(WhenFull::Drop)));
            let (recorded, written) = (AtomicU64::new(0), AtomicU64::new(0));
            thread::scope(|scope| {
                scope.spawn(|| {
                    while requests.asked() == 0 && !recorder.has_ended() {
                        thread::yield_now();
                    }
                    // ORDERING: Relaxed for all: the requests order them.
                    written.store(recorded.load(Ordering::Relaxed), Ordering::Relaxed);
                    requests.set_done(ENDED);
                });
                recorded.store(7, Ordering::Relaxed);
                if finish {
                    recorder.end();
                } else {
                    assert_eq!(requests.ask(), 1);
                }
                while !requests.is_done(1) {
                    thread::yield_now();
                }
                // ORDERING: Relaxed: `is_done` is to order it behind the writer's store.
                assert_eq!(written.load(Ordering::Relaxed), 7);
            });
        }
    }
}
