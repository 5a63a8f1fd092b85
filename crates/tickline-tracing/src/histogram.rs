//! Quantiles of the spans' times, per span name.
//!
//! Each thread records into one of a few shards, behind a lock for which threads rarely compete.
//! A reader of the histograms adds the shards up. A histogram has buckets 1 % wide (two digits).
//! For each span and shard in use it takes about 1 KiB for each doubling from its smallest to its
//! largest value.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;
use tracing_core::Subscriber;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::sink::Sink;
use crate::timing::SpanTiming;

/// Shards of a set of histograms: this many threads or fewer rarely wait for each other. A power
/// of two.
const SHARDS: usize = 16;

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
}

/// A histogram of the times of each span name, ns. Clones are the same histograms: one is the
/// sink, another shows the table.
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
/// assert_eq!((summary[0].name, summary[0].count), ("work", 100));
/// println!("{histograms}");
/// ```
#[derive(Clone)]
pub struct Histograms(Arc<Inner>);

struct Inner {
    measure: Measure,
    shards: [Shard; SHARDS],
    /// Where the table goes when the last clone is dropped.
    at_drop: Mutex<Option<Box<dyn Write + Send>>>,
}

/// On a cache line of its own, so that threads do not slow each other down.
type Shard = CachePadded<Mutex<Recorded>>;

/// By the address of the span's metadata: callsites differ by that, without a comparison of names.
type Recorded = FxHashMap<usize, (&'static str, Histogram<u64>)>;

impl Histograms {
    /// Empty histograms.
    #[must_use]
    pub fn new(measure: Measure) -> Self {
        let shards = core::array::from_fn(|_| Shard::default());
        Self(Arc::new(Inner { measure, shards, at_drop: Mutex::new(None) }))
    }

    /// Writes the table to `output` when the last clone is dropped. If a global subscriber holds
    /// a clone, that does not happen at the end of the program. Errors of writing are lost.
    #[must_use]
    pub fn table_at_drop(self, output: impl Write + Send + 'static) -> Self {
        *lock(&self.0.at_drop) = Some(Box::new(output));
        self
    }

    /// The summaries so far, by span name in alphabetical order. Callsites of the same name count
    /// together.
    #[must_use]
    pub fn summaries(&self) -> Vec<Summary> {
        self.0.summaries()
    }

    /// A copy of the histogram of the spans called `name`, ns; `None` if no such span was closed
    /// yet.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Histogram<u64>> {
        self.0.merged().remove(name)
    }

    /// Forgets what was recorded.
    pub fn reset(&self) {
        for shard in &self.0.shards {
            lock(shard).clear();
        }
    }
}

impl Inner {
    fn record(&self, name: &'static str, callsite: usize, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let Some(shard) = self.shards.get(shard_of_this_thread()) else { return };
        let mut recorded = lock(shard);
        let (_, histogram) = recorded.entry(callsite).or_insert_with(|| (name, empty()));
        // Grows as it needs to, up to 64-bit values; `saturating_record` would not.
        let _ = histogram.record(ns);
    }

    fn merged(&self) -> BTreeMap<&'static str, Histogram<u64>> {
        let mut merged = BTreeMap::new();
        for shard in &self.shards {
            for (name, histogram) in lock(shard).values() {
                // Cannot fail: both grow as they need to.
                let _ = merged.entry(*name).or_insert_with(empty).add(histogram);
            }
        }
        merged
    }

    fn summaries(&self) -> Vec<Summary> {
        let quantile = |histogram: &Histogram<u64>, q| Duration::from_nanos(histogram.value_at_quantile(q));
        self.merged()
            .iter()
            .map(|(name, histogram)| Summary {
                name,
                count: histogram.len(),
                p50: quantile(histogram, 0.5),
                p90: quantile(histogram, 0.9),
                p99: quantile(histogram, 0.99),
                p999: quantile(histogram, 0.999),
                max: Duration::from_nanos(histogram.max()),
            })
            .collect()
    }

    fn table(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let summaries = self.summaries();
        let width = summaries.iter().map(|summary| summary.name.len()).max().unwrap_or(0).max(4);
        let heads = ["p50", "p90", "p99", "p99.9", "max"];
        write!(out, "{:<width$} {:>10}", "span", "count")?;
        for head in heads {
            write!(out, " {head:>10}")?;
        }
        for summary in &summaries {
            write!(out, "\n{:<width$} {:>10}", summary.name, summary.count)?;
            for time in [summary.p50, summary.p90, summary.p99, summary.p999, summary.max] {
                write!(out, " {:>10}", format!("{time:.2?}"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let output = self.at_drop.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut output) = output {
            let mut text = String::new();
            if self.table(&mut text).is_ok() {
                let _ = writeln!(output, "{text}").and_then(|()| output.flush());
            }
        }
    }
}

/// The table: a line for each span name.
impl fmt::Display for Histograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.table(f)
    }
}

impl fmt::Debug for Histograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histograms").field("measure", &self.0.measure).finish_non_exhaustive()
    }
}

impl<S> Sink<S> for Histograms
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    #[inline]
    fn closed(&self, span: &SpanRef<'_, S>, times: &SpanTiming) {
        let duration = match self.0.measure {
            Measure::Total => times.total(),
            Measure::Busy => times.busy(),
            Measure::Idle => times.idle(),
        };
        let metadata = span.metadata();
        self.0.record(metadata.name(), core::ptr::from_ref(metadata).addr(), duration);
    }
}

/// A line of the table. Quantiles and `max` are the upper ends of their buckets, so up to 1 % too
/// long.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The spans' name.
    pub name: &'static str,
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

fn empty() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("0 to 5 digits are allowed")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shard_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // ORDERING: Relaxed, the number alone counts.
        static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) & (SHARDS - 1);
    }
    SHARD.try_with(|shard| *shard).unwrap_or(0)
}
