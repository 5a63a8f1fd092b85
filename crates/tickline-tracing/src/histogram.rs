//! Quantiles of the spans' times, by span name, target, or the value of a field.
//!
//! Each thread counts in histograms of its own, behind a lock. It waits for it only while a reader
//! adds these histograms up, which takes microseconds. A reader finds every span whose end happened
//! before. Not counted are spans that the program's allocator closes while it is called from here,
//! and those that a thread closes when it has lost its thread-local memory. When a thread has
//! ended, the next new thread goes on with its counts.
//!
//! A signal handler must not close spans that are counted here: it may wait for ever. A child of a
//! fork has its parent's counts, and may wait for ever if another thread of the parent was just
//! reading, or counting its first span. When histograms are dropped, a thread keeps its part of
//! their memory until it ends, or counts in other histograms for the first time.
//!
//! Buckets are 1 % wide (two digits). For each callsite and thread they take 1 KiB for each power
//! of two up to the longest time.

use core::fmt;
use core::slice;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

use crate::kept_fields::KeptFields;
use crate::sink::{Hooks, Span};
use crate::timing::SpanTiming;

mod prometheus;
mod shards;

use shards::{Shards, Subject, Times};

/// Digits of a value that are kept: buckets are 1 % wide.
const DIGITS: u8 = 2;

/// Which of a span's times is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Measure {
    /// From creation to end.
    #[default]
    Total,
    /// While it was entered.
    Busy,
    /// While it was not.
    Idle,
    /// Its CPU time. Spans without one do not count
    /// ([`running`](crate::running::RunningTime)).
    #[cfg(all(unix, feature = "running"))]
    Running,
}

/// Which spans are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Key {
    /// Those of one name.
    #[default]
    Name,
    /// Those of one target.
    Target,
    /// Those in which this field has the same value: a route, say, or a status. The value recorded
    /// last counts. Spans without the field do not count. The first 1,000 values of each thread,
    /// together with the ended one whose counts it took over, have histograms of their own. All
    /// further values share the histogram `(other)`.
    Field(&'static str),
}

/// A histogram of the times of each span name (or another [`Key`]), ns. Clones are the same
/// histograms: one is the sink, another shows the table.
///
/// ```
/// use tickline_tracing::SpanTimingLayer;
/// use tickline_tracing::histogram::{Histograms, Measure};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let histograms = Histograms::new(Measure::Total);
/// let subscriber =
///     tracing_subscriber::registry().with(SpanTimingLayer::new().with_sink(histograms.clone()));
/// tracing::subscriber::with_default(subscriber, || {
///     for _ in 0..100 {
///         tracing::info_span!("work").in_scope(|| ());
///     }
/// });
/// let summary = histograms.summaries();
/// assert_eq!((summary[0].name.as_str(), summary[0].count), ("work", 100));
/// println!("{histograms}");
/// ```
#[derive(Debug, Clone)]
pub struct Histograms {
    measure: Measure,
    key: Key,
    shards: Arc<Shards>,
}

impl Histograms {
    /// Empty histograms, by span name.
    #[must_use]
    pub fn new(measure: Measure) -> Self {
        Self::by(Key::Name, measure)
    }

    /// Empty histograms, by `key`.
    #[must_use]
    pub fn by(key: Key, measure: Measure) -> Self {
        Self { measure, key, shards: Shards::new() }
    }

    fn merged(&self) -> BTreeMap<String, Times> {
        let mut merged = BTreeMap::<String, Times>::new();
        self.shards.for_each(|subject, counted| {
            let name = match subject {
                Subject::Callsite(metadata) if self.key == Key::Target => metadata.target(),
                Subject::Callsite(metadata) => metadata.name(),
                Subject::Value(value) => value,
            };
            match merged.get_mut(name) {
                Some(times) => times.add(counted),
                None => merged.entry(name.to_owned()).or_insert_with(Times::new).add(counted),
            }
        });
        merged
    }

    /// The summaries so far, by name (or another [`Key`]) in alphabetical order. Callsites of the
    /// same name count together.
    #[must_use]
    pub fn summaries(&self) -> Vec<Summary> {
        let quantile = |histogram: &Histogram<u64>, q| Duration::from_nanos(histogram.value_at_quantile(q));
        self.merged()
            .into_iter()
            .map(|(name, Times { histogram, .. })| Summary {
                name,
                count: histogram.len(),
                p50: quantile(&histogram, 0.5),
                p90: quantile(&histogram, 0.9),
                p99: quantile(&histogram, 0.99),
                p999: quantile(&histogram, 0.999),
                max: Duration::from_nanos(histogram.max()),
            })
            .collect()
    }

    /// A copy of the histogram of the spans called `name` (or with this target or value), ns;
    /// `None` if no such span was closed yet.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Histogram<u64>> {
        self.merged().remove(name).map(|times| times.histogram)
    }

    /// The histograms in Prometheus' text format (0.0.4), as one metric of type `summary`, in
    /// seconds; its label is `span`, `target`, or the field. A server sends the text with the
    /// content type `text/plain; version=0.0.4`. After a [`reset`](Self::reset) the counts begin
    /// anew.
    ///
    /// This needs no library. The `metrics` facade would record each span in a second histogram,
    /// and `prometheus-client` has no summaries.
    ///
    /// ```
    /// use tickline_tracing::SpanTimingLayer;
    /// use tickline_tracing::histogram::{Histograms, Key, Measure};
    /// use tracing_subscriber::layer::SubscriberExt;
    ///
    /// let histograms = Histograms::by(Key::Field("route"), Measure::Total);
    /// let layer = SpanTimingLayer::new().with_sink(histograms.clone());
    /// tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
    ///     drop(tracing::info_span!("request", route = "/item"));
    /// });
    /// let text = histograms.prometheus("http_request_seconds");
    /// assert!(text.contains("http_request_seconds_count{route=\"/item\"} 1\n"), "{text}");
    /// ```
    ///
    /// # Panics
    ///
    /// If `metric`, or the name of the field, is empty, begins with a digit, or has other
    /// characters than ASCII letters, digits and `_`; or if the field is called `quantile`, or
    /// begins with `__`, which Prometheus keeps for itself.
    #[must_use]
    pub fn prometheus(&self, metric: &str) -> String {
        prometheus::text(metric, self.key, &self.merged())
    }

    /// Forgets what was recorded. A span that another thread is just closing may be forgotten, too.
    pub fn reset(&self) {
        self.shards.reset();
    }
}

/// The table: a line for each span name.
impl fmt::Display for Histograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summaries = self.summaries();
        let width = summaries.iter().map(|summary| summary.name.len()).max().unwrap_or(0).max(4);
        write!(f, "{:<width$} {:>10}", "span", "count")?;
        for head in ["p50", "p90", "p99", "p99.9", "max"] {
            write!(f, " {head:>10}")?;
        }
        for summary in &summaries {
            write!(f, "\n{:<width$} {:>10}", summary.name, summary.count)?;
            for time in [summary.p50, summary.p90, summary.p99, summary.p999, summary.max] {
                write!(f, " {:>10}", format!("{time:.2?}"))?;
            }
        }
        Ok(())
    }
}

impl Hooks for Histograms {
    fn fields(&self) -> &[&'static str] {
        match &self.key {
            Key::Field(field) => slice::from_ref(field),
            _ => &[],
        }
    }

    fn closed(&self, span: &Span<'_>, times: &SpanTiming) {
        let ns = match self.measure {
            Measure::Total => times.closed_ns - times.created_ns,
            Measure::Busy => times.busy_ns,
            Measure::Idle => times.closed_ns - times.created_ns - times.busy_ns,
            #[cfg(all(unix, feature = "running"))]
            Measure::Running => match span.found.with(crate::running::of).flatten() {
                Some(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
                None => return,
            },
        };
        let shards = &self.shards;
        match self.key {
            Key::Name | Key::Target => shards.record(Subject::Callsite(span.metadata), ns),
            Key::Field(field) => {
                _ = span.found.with(|found| {
                    let mut extensions = found.extensions();
                    if let Some(value) = extensions.get_mut::<KeptFields>().and_then(|kept| kept.get(field)) {
                        shards.record(Subject::Value(value), ns);
                    }
                })
            }
        }
    }
}

/// A line of the table. Quantiles and `max` are the upper ends of their buckets, so they are up to
/// 1 % too long.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The spans' name, target, or value of the field.
    pub name: String,
    /// How many were closed.
    pub count: u64,
    /// Half of them took no longer.
    pub p50: Duration,
    /// 90 % of them took no longer.
    pub p90: Duration,
    /// 99 % of them took no longer.
    pub p99: Duration,
    /// 99.9 % of them took no longer.
    pub p999: Duration,
    /// None took longer.
    pub max: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
