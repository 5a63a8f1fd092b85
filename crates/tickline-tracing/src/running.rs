//! The CPU time of spans: how long their threads really ran, in contrast to waiting for a CPU, a
//! lock or a device.
//!
//! The kernel counts it for each thread (`CLOCK_THREAD_CPUTIME_ID`). To read that takes a system
//! call at each enter and exit. It is by far the largest cost of a span
//! ([the table](crate#what-it-costs)), so it is a sink of its own.
//!
//! ```
//! use tickline_tracing::SpanTimingLayer;
//! use tickline_tracing::running::RunningTime;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let layer = SpanTimingLayer::new().with_sink(RunningTime::new()).with_callback(|span| {
//!     let (times, running) = (span.times(), span.running().unwrap_or_default());
//!     let waited = times.busy().saturating_sub(running);
//!     println!("{}: ran {running:?}, waited {waited:?}, idle {:?}", span.name(), times.idle());
//! });
//! let subscriber = tracing_subscriber::registry().with(layer);
//! # tracing::subscriber::with_default(subscriber, || tracing::info_span!("work").in_scope(|| ()));
//! ```

use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tracing_core::span::Id;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::sink::{Found, Hooks, Span};

/// Numbers the sinks, so that a thread keeps apart what belongs to each.
static NEXT_SINK: AtomicU64 = AtomicU64::new(1);

/// A sink that adds up the CPU time of each span, from enters to exits. Sinks that come later find
/// it: [`ClosedSpan::running`](crate::ClosedSpan::running), `Measure::Running` of the histograms,
/// and [`RunningTime::of`].
///
/// If several threads are in a span at once, the CPU time of all counts, so it may be longer than
/// [`SpanTiming::busy`](crate::SpanTiming::busy). The system calls are in the busy time, but not in
/// the CPU time of their own span.
#[derive(Debug)]
pub struct RunningTime {
    number: u64,
}

/// The extension of a span.
struct Ran(Duration);

/// A span that the thread is in.
struct Entered {
    sink: u64,
    span: Id,
    /// The thread's CPU time at the enter.
    at: Duration,
    /// Enters by this thread without an exit.
    depth: u32,
}

thread_local! {
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// The CPU time of this thread; `None` if the kernel does not tell.
fn thread_cpu() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

impl RunningTime {
    /// Adds up the CPU time of every span that the layer times.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each sink is another one")]
    pub fn new() -> Self {
        // ORDERING: Relaxed, the number alone counts.
        Self { number: NEXT_SINK.fetch_add(1, Ordering::Relaxed) }
    }

    /// The CPU time of a span that is being closed; `None` if it was never exited, or if the sink
    /// is not there.
    #[must_use]
    pub fn of<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Option<Duration> {
        span.extensions().get::<Ran>().map(|ran| ran.0)
    }

    /// Runs `run` with the spans that this thread is in. A thread that is ending has lost them.
    fn with<R>(run: impl FnOnce(&mut Vec<Entered>) -> Option<R>) -> Option<R> {
        ENTERED.try_with(|entered| run(&mut *entered.try_borrow_mut().ok()?)).ok().flatten()
    }

    fn place(&self, entered: &[Entered], span: &Id) -> Option<usize> {
        entered.iter().rposition(|known| known.sink == self.number && known.span == *span)
    }
}

/// The CPU time of a span that is being closed, as [`RunningTime::of`].
pub(crate) fn of(span: &dyn Found) -> Option<Duration> {
    span.extensions().get_mut::<Ran>().map(|ran| ran.0)
}

impl Hooks for RunningTime {
    fn wants_enters(&self) -> bool {
        true
    }

    fn entered(&self, span: &Span<'_>, _: u64) {
        Self::with(|entered| {
            if let Some(known) = self.place(entered, span.id).and_then(|place| entered.get_mut(place)) {
                known.depth += 1;
                return Some(());
            }
            let new = Entered { sink: self.number, span: span.id.clone(), at: Duration::ZERO, depth: 1 };
            entered.push(new);
            // Last, so that this sink's own work does not count.
            entered.last_mut()?.at = thread_cpu()?;
            Some(())
        });
    }

    fn exited(&self, span: &Span<'_>, _: u64) {
        let now = thread_cpu();
        let ran = Self::with(|entered| {
            let place = self.place(entered, span.id)?;
            let known = entered.get_mut(place)?;
            known.depth -= 1;
            (known.depth == 0).then(|| entered.remove(place))
        });
        let Some((now, known)) = now.zip(ran) else { return };
        let ran = now.saturating_sub(known.at);
        span.found.with(|found| {
            let mut extensions = found.extensions();
            match extensions.get_mut::<Ran>() {
                Some(Ran(sum)) => *sum = sum.saturating_add(ran),
                None => extensions.insert(Ran(ran)),
            }
        });
    }
}
