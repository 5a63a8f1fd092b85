//! A clock that is moved by hand, and a place where the times of closed spans are kept.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tickline_tracing::over::TimeSource;
use tickline_tracing::{Callback, SpanTiming};

/// The offset of the hand clock's Unix time from its monotonic time, ns.
pub const UNIX_OFFSET_NS: u64 = 1_767_225_600_000_000_000;

/// Stands still until it is moved.
#[derive(Clone, Default)]
pub struct Hand(Arc<AtomicU64>);

impl Hand {
    pub fn advance_ns(&self, ns: u64) {
        // ORDERING: SeqCst, tests do not care for speed.
        self.0.fetch_add(ns, Ordering::SeqCst);
    }

    pub fn set_ns(&self, ns: u64) {
        // ORDERING: as above.
        self.0.store(ns, Ordering::SeqCst);
    }
}

impl TimeSource for Hand {
    fn now_ns(&self) -> u64 {
        // ORDERING: as above.
        self.0.load(Ordering::SeqCst)
    }

    fn unix_ns(&self) -> u64 {
        UNIX_OFFSET_NS + self.now_ns()
    }
}

/// Name and times of each span that was closed.
#[derive(Clone, Default)]
pub struct Closed(Arc<Mutex<Vec<(&'static str, SpanTiming)>>>);

impl Closed {
    pub fn into_sink(self) -> Callback {
        Callback::new(move |span| {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((span.name(), *span.times()));
        })
    }

    pub fn all(&self) -> Vec<(&'static str, SpanTiming)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The times of the only span of that name.
    pub fn one(&self, name: &str) -> SpanTiming {
        let named: Vec<_> = self.all().into_iter().filter(|(known, _)| *known == name).collect();
        assert_eq!(named.len(), 1, "spans called {name}");
        named[0].1
    }
}

/// Output that is kept.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
