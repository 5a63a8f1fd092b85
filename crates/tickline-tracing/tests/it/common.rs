//! A mock clock that tests move by hand, and a list of the times of closed spans.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use tickline::mock::MockClock;
use tickline_tracing::{Callback, Sink, SpanTimes, SpanTimingLayer};
use tracing::{Dispatch, dispatcher};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::{Registry, registry};

/// The monotonic time and the Unix time at which a mock clock starts, ns.
pub const START_NS: u64 = 1_000_000_000;
pub const UNIX_START_NS: u64 = 1_767_225_600_000_000_000;

/// tickline's mock clock, moved by hand.
#[derive(Clone, Debug, Default)]
pub struct MockHand(pub MockClock);

impl MockHand {
    pub fn advance_ns(&self, ns: u64) {
        self.0.advance(Duration::from_nanos(ns));
    }

    /// Moves the clock to `ns` after its start.
    pub fn set_ns(&self, ns: u64) {
        self.advance_ns(START_NS + ns - self.0.clock().now().as_nanos());
    }

    /// Runs `run` with a layer of one sink. On this thread, the layer uses this clock.
    pub fn run_timed(&self, sink: impl Sink, run: impl FnOnce()) {
        let _active = self.0.activate();
        run_timed(sink, run);
    }
}

/// Runs `run` with only one layer.
pub fn run_with(layer: impl Layer<Registry> + Send + Sync, run: impl FnOnce()) {
    tracing::subscriber::with_default(registry().with(layer), run);
}

/// Runs `run` with a layer of one sink.
pub fn run_timed(sink: impl Sink, run: impl FnOnce()) {
    run_with(SpanTimingLayer::new().with_sink(sink), run);
}

/// The name and the times of each closed span.
#[derive(Clone, Default)]
pub struct Closed(Arc<Mutex<Vec<(&'static str, SpanTimes)>>>);

impl Closed {
    pub fn sink(&self) -> Callback {
        let all = Arc::clone(&self.0);
        Callback::new(move |span| all.lock().unwrap().push((span.name(), *span.times())))
    }

    pub fn all(&self) -> Vec<(&'static str, SpanTimes)> {
        self.0.lock().unwrap().clone()
    }

    /// The times of the only span with this name.
    pub fn one(&self, name: &str) -> SpanTimes {
        let named: Vec<_> = self
            .all()
            .into_iter()
            .filter(|(known, _)| *known == name)
            .collect();
        assert_eq!(named.len(), 1, "spans called {name}");
        named[0].1
    }
}

/// Starts a thread that runs `run` with this thread's subscriber.
pub fn spawn<'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    run: impl FnOnce() -> R + Send + 'scope,
) -> ScopedJoinHandle<'scope, R> {
    let dispatch = dispatcher::get_default(Dispatch::clone);
    let run = move || dispatcher::with_default(&dispatch, run);
    thread::Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, run)
        .unwrap()
}

/// Runs `run` on a thread named "a thread", with this thread's subscriber, and waits for it.
pub fn on_thread<R: Send>(run: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| spawn(scope, "a thread", run).join().unwrap())
}

/// A value whose `Debug` calls this closure.
pub struct Calls<F>(pub F);

impl<F: Fn()> fmt::Debug for Calls<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)();
        f.write_str("/c")
    }
}
