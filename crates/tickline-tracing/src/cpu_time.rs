//! The CPU time of spans: how long their threads really ran, in contrast to waiting for a CPU, a
//! lock or a device.
//!
//! The kernel counts it for each thread (`CLOCK_THREAD_CPUTIME_ID`). Reading this time takes a
//! system call at each enter and exit, by far the largest cost of a span. So only programs that
//! add this sink pay for it.
//!
//! ```
//! use tickline_tracing::SpanTimingLayer;
//! use tickline_tracing::cpu_time::CpuTimes;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let layer = SpanTimingLayer::new().with_sink(CpuTimes).with_callback(|span| {
//!     let (times, ran) = (span.times(), span.cpu_time().unwrap_or_default());
//!     let waited = times.busy().saturating_sub(ran);
//!     println!("{}: ran {ran:?}, waited {waited:?}, idle {:?}", span.name(), times.idle());
//! });
//! let subscriber = tracing_subscriber::registry().with(layer);
//! # tracing::subscriber::with_default(subscriber, || tracing::info_span!("work").in_scope(|| ()));
//! ```

use core::time::Duration;
use std::thread::{self, ThreadId};

use nix::time::{ClockId, clock_gettime};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::sink::{Sink, Span};
use crate::timing::SpanTimes;

/// A sink that adds up the CPU time of each span, from enters to exits. Sinks that come later find
/// it: [`ClosedSpan::cpu_time`](crate::ClosedSpan::cpu_time), `Measure::Cpu` of the histograms,
/// and [`CpuTimes::of`].
///
/// If several threads are in a span at once, the CPU time of all counts, so it may be longer than
/// [`SpanTimes::busy`](crate::SpanTimes::busy). The system calls are in the busy time, but not in
/// the CPU time of their own span.
#[derive(Debug)]
pub struct CpuTimes;

/// The extension of a span.
#[derive(Default)]
struct CpuTime {
    /// `None` before the first exit.
    sum: Option<Duration>,
    /// The threads that are in the span.
    entered: Vec<Entered>,
}

struct Entered {
    thread: ThreadId,
    /// The thread's CPU time at the enter.
    at: Option<Duration>,
    /// Enters by this thread without an exit.
    depth: u32,
}

/// The CPU time of this thread; `None` if the kernel does not tell.
fn thread_cpu() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

impl CpuTimes {
    /// The CPU time of a span that is being closed; `None` if it was never exited, or if the sink
    /// is not there.
    pub fn of<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Option<Duration> {
        span.extensions().get::<CpuTime>()?.sum
    }
}

/// The CPU time of a span that is being closed, as [`CpuTimes::of`].
pub(crate) fn of(span: &Span<'_>) -> Option<Duration> {
    span.extension(|time: &mut CpuTime, _| time.sum).flatten()
}

impl Sink for CpuTimes {
    fn wants_enters(&self) -> bool {
        true
    }

    fn entered(&self, span: &Span<'_>, _: u64) {
        span.extension(|CpuTime { entered, .. }, _| {
            let thread = thread::current().id();
            match entered.iter_mut().find(|entered| entered.thread == thread) {
                Some(known) => known.depth += 1,
                // The clock is read last, so that little of this sink's own work counts.
                None => entered.push(Entered { thread, depth: 1, at: thread_cpu() }),
            }
        });
    }

    fn exited(&self, span: &Span<'_>, _: u64) {
        let now = thread_cpu();
        span.extension(|CpuTime { sum, entered }, _| {
            let thread = thread::current().id();
            let index = entered.iter().position(|entered| entered.thread == thread)?;
            entered[index].depth -= 1;
            if entered[index].depth == 0 {
                let time = now?.saturating_sub(entered.remove(index).at?);
                *sum = Some(sum.unwrap_or_default() + time);
            }
            Some(())
        });
    }

    fn closed(&self, _: &Span<'_>, _: &SpanTimes) {}
}
