//! The CPU time of spans: how long a CPU executed their threads, without the time that the threads
//! waited for a CPU, a lock or a device.
//!
//! The kernel measures the CPU time of each thread (`CLOCK_THREAD_CPUTIME_ID`). The sink reads it
//! by a system call at each enter and exit, by far the largest cost of a span. Therefore only
//! programs that add this sink pay for it.
//!
//! ```
//! use tickline_tracing::SpanTimingLayer;
//! use tickline_tracing::cpu_time::CpuTimer;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let layer = SpanTimingLayer::new().with_sink(CpuTimer).with_callback(|span| {
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
use tickline::process_token;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::layer::sink::{Span, SpanSink};
use crate::layer::timing::SpanTimes;

/// A sink that adds up the CPU time of each span, from each enter to its exit. Later sinks can read
/// the sum, by [`ClosedSpan::cpu_time`](crate::ClosedSpan::cpu_time), `Measure::Cpu` of the
/// histograms, and [`CpuTimer::time_of`].
///
/// If several threads are in a span at once, their CPU times are added, so the sum may be longer
/// than [`SpanTimes::busy`](crate::SpanTimes::busy). The time of the sink's system calls is in the
/// span's busy time, but not in its CPU time. In a forked child, the CPU time of a span that a
/// thread was in at the fork is unknown, because the child's clock of CPU time begins at 0.
#[derive(Debug)]
pub struct CpuTimer;

/// A span's extension.
#[derive(Default)]
struct SpanCpuTime {
    /// `None` before the first exit.
    sum: Option<Duration>,
    /// Whether a thread was in the span at a fork. The CPU time of the child's only thread began
    /// again at 0.
    is_unknown: bool,
    /// The threads that are in the span.
    entered: Vec<Entered>,
}

impl SpanCpuTime {
    fn get(&self) -> Option<Duration> {
        // In a forked child, the other threads never exit the span.
        let was_forked = |entered: &Entered| entered.process != process_token();
        let is_unknown = self.is_unknown || self.entered.iter().any(was_forked);
        if is_unknown { None } else { self.sum }
    }
}

struct Entered {
    thread: ThreadId,
    /// The process of the enter.
    process: u64,
    /// The thread's CPU time at the enter.
    at: Option<Duration>,
    /// Enters by this thread without an exit.
    depth: u32,
}

/// The CPU time of this thread; `None` if the system call fails.
fn thread_cpu() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .ok()
        .map(Duration::from)
}

impl CpuTimer {
    /// The CPU time of a span that is being closed; `None` if the span was never exited, if the
    /// layer has no such sink, or in a forked child, if a thread was in the span at the fork.
    pub fn time_of<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Option<Duration> {
        span.extensions().get::<SpanCpuTime>()?.get()
    }
}

/// [`CpuTimer::time_of`] for a sink's span.
pub(crate) fn get(span: &Span<'_>) -> Option<Duration> {
    span.extension(|time: &mut SpanCpuTime| time.get())
        .flatten()
}

impl SpanSink for CpuTimer {
    fn wants_enters(&self) -> bool {
        true
    }

    fn entered(&self, span: &Span<'_>, _: u64) {
        span.extension(|SpanCpuTime { entered, .. }| {
            let thread = thread::current().id();
            match entered.iter_mut().find(|entered| entered.thread == thread) {
                Some(known) => known.depth += 1,
                // The clock is read last, so that the CPU time has little of this sink's own work.
                None => entered.push(Entered {
                    thread,
                    process: process_token(),
                    depth: 1,
                    at: thread_cpu(),
                }),
            }
        });
    }

    fn exited(&self, span: &Span<'_>, _: u64) {
        let now = thread_cpu();
        span.extension(|time: &mut SpanCpuTime| {
            let SpanCpuTime { sum, entered, .. } = time;
            let thread = thread::current().id();
            let index = entered
                .iter()
                .position(|entered| entered.thread == thread)?;
            entered[index].depth -= 1;
            if entered[index].depth == 0 {
                let Entered { at, process, .. } = entered.remove(index);
                if process != process_token() {
                    time.is_unknown = true;
                    return None;
                }
                let ran = now?.saturating_sub(at?);
                *sum = Some(sum.unwrap_or_default() + ran);
            }
            Some(())
        });
    }

    fn closed(&self, _: &Span<'_>, _: &SpanTimes) {}
}
