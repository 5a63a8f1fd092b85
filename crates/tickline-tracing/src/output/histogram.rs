//! Histograms of the spans' times, by the spans' names or by the values of their fields: quantiles
//! for people, and histograms for Prometheus.
//!
//! ```
//! use tickline_tracing::SpanTimingLayer;
//! use tickline_tracing::histogram::{Histograms, Measure};
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let histograms = Histograms::builder(Measure::Total).labels(["route", "status"]).build();
//! let layer = SpanTimingLayer::new().with_sink(histograms.clone());
//! tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
//!     let span = tracing::info_span!("request", route = "/item", status = tracing::field::Empty);
//!     span.in_scope(|| { /* ... */ });
//!     span.record("status", 200);
//! });
//!
//! // The handler of `/metrics` returns this text, as `text/plain; version=0.0.4`:
//! let text = histograms.to_prometheus("http_request_seconds");
//! let count = "http_request_seconds_count{route=\"/item\",status=\"200\"} 1\n";
//! assert!(text.contains(count), "{text}");
//! ```
//! The spans with the same values of all labels form a series. There are at most 1,000 series. A
//! span that gets further values moves to another series; the series that it leaves still counts
//! towards the limit. Beyond the limit, spans count in one more series, whose values are all
//! `(other)`. With more than 1,024 threads, or 2,097,120 open spans of one thread, some other spans
//! may also count there.
//!
//! Each thread has counts of its own, and needs a lock only for its first span of a series. When
//! the thread has ended, the next thread that counts in the series takes over these counts. A
//! reader sees every span whose end happened before the read. The histograms do not count spans
//! that a thread closes after it has lost its thread-local memory. After the program drops
//! histograms, a thread keeps its part of their memory until the thread ends, or until it first
//! counts in other histograms.
//!
//! A signal handler must not create, record or close spans that are counted here: it may allocate,
//! or deadlock.
//!
//! A forked child has its parent's counts. It waits at most 50 ms for a lock that another thread of
//! the parent held at the fork, and then gives the lock up. The child alone loses this:
//!
//! | the other thread was | in the child |
//! |---|---|
//! | reading or resetting a series, or counting its first span there | the series has no times; or its summary has the times from before its last reset, too |
//! | adding a series | spans whose series does not exist yet count in `(other)` |
//! | making slots for more open spans, for labels that are fields | spans without a slot count in `(other)` |
//!
//! Histograms take 32 KiB, and 16 KiB for each thread. The counts of a series take 1.3 KiB for each
//! thread, and 1 KiB for each power of two that contains times. A label that spans lack takes as
//! much as a series.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use tracing_core::field::Visit;
use tracing_core::span::{Attributes, Id, Record};

use crate::layer::open_spans::OpenSpans;
use crate::layer::sink::{Lookup, Span, SpanSink};
use crate::layer::slots::Slots;
use crate::layer::timing::{SpanTimes, as_ns};

mod prometheus;
mod series;
mod table;

use series::{Recorded, Series, Times};
use table::{SLOTS, Table};

/// The labels that are not fields.
const NAME: &str = "span";
const TARGET: &str = "target";

/// The default bounds of the buckets, ms, as in Prometheus' own libraries (`DefBuckets` in
/// client_golang's `prometheus/histogram.go`).
const BOUNDS_MS: [u64; 11] = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/// The limit of labels: a set of labels has a bit for each label (`table::Callsite`).
const MAX_LABELS: usize = u64::BITS as usize;

/// The time of a span that the histograms record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Measure {
    /// The time from the span's creation to its end.
    #[default]
    Total,
    /// The time during which the span was entered.
    Busy,
    /// The time during which the span was not entered.
    Idle,
    /// The span's CPU time. Spans without a CPU time do not count
    /// ([`cpu_time`](crate::cpu_time::CpuTimer)).
    #[cfg(all(unix, feature = "cpu-time"))]
    Cpu,
}

impl Measure {
    /// The name for tables and for Prometheus.
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Histograms of the spans' times, one for each name, or for each combination of the labels'
/// values. Clones share the histograms: use one clone as the sink, and read another.
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
/// let summary = histograms.summary(&["work"]).expect("spans of this name");
/// assert_eq!(summary.count, 100);
/// println!("{histograms}");
/// ```
///
/// Printed histograms are a table with a line for each [`Summary`]. Its column `time` says which
/// time of the spans the histograms have, so that tables of several measures may follow each other,
/// each by `println!`: it ends without a line feed.
///
/// ```text
/// span      time       count        p50        p90        p99      p99.9        max
/// GET /item total       2000    10.55ms    17.83ms    18.61ms    18.87ms    18.87ms
/// ```
///
/// Quantiles are the ends of buckets ([`Summary`]), so equal ones are no mistake. `max` is exact.
#[derive(Debug, Clone)]
#[must_use]
pub struct Histograms {
    measure: Measure,
    table: Arc<Table>,
    /// The series of each open span, if labels are fields ([`pack`]). The registry's extensions in
    /// place of this table would cost as much as the layer.
    open: Option<Arc<Slots<AtomicU64>>>,
}

/// Settings for histograms, made by [`Histograms::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct HistogramsBuilder {
    measure: Measure,
    labels: Box<[String]>,
    /// The upper bounds of the buckets.
    bounds_ns: BTreeSet<u64>,
}

impl HistogramsBuilder {
    /// The labels of the times: names of fields, or `span` for the span's name, or `target` for its
    /// target. The default is `span` alone. Spans that lack any of the fields do not count in a
    /// series, but in [`uncounted_spans`](Histograms::uncounted_spans). A field
    /// without a value (`tracing::field::Empty`) has the value "". If a field is recorded several
    /// times, the last value counts. A value's text of more than 16 KiB is cut, and ends with
    /// `… (cut)`. Prometheus' names have no dots: `http.route` becomes `http_route` there.
    ///
    /// Spans with the same values count in one series, whatever their names are, a child beside its
    /// parent. The label `span` tells them apart: `.labels(["span", "route"])`.
    /// The names may come from a configuration: `.labels(names)` with `names: Vec<String>`.
    ///
    /// # Panics
    ///
    /// If there are more than 64 labels, or if a label
    ///
    /// - is empty,
    /// - begins with a digit,
    /// - has other characters than ASCII letters, digits, `_` and `.`,
    /// - occurs twice,
    /// - is `le`, or begins with `__`: Prometheus reserves these names.
    #[track_caller]
    pub fn labels(mut self, labels: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let labels = labels.into_iter().map(|label| label.as_ref().to_owned());
        self.labels = labels.collect();
        prometheus::check(&self.labels);
        self
    }

    /// The upper bounds of the buckets for [`to_prometheus`](Histograms::to_prometheus), in any
    /// order. A bucket for longer times is added. The default bounds are 5, 10, 25, 50, 100, 250,
    /// 500 ms, 1, 2.5, 5 and 10 s. They do not tell times below 5 ms apart: choose others for spans
    /// of microseconds.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline_tracing::histogram::{Histograms, Measure};
    ///
    /// let chosen = [100, 200, 500, 1_000].map(Duration::from_micros);
    /// let histograms = Histograms::builder(Measure::Busy).buckets(chosen).build();
    /// // Powers of two, 1 us to 1 s.
    /// let powers = (0..=20).map(|power| Duration::from_micros(1 << power));
    /// let histograms = Histograms::builder(Measure::Busy).buckets(powers).build();
    /// ```
    pub fn buckets(mut self, bounds: impl IntoIterator<Item = Duration>) -> Self {
        self.bounds_ns = bounds.into_iter().map(as_ns).collect();
        self
    }

    /// Makes empty histograms.
    pub fn build(self) -> Histograms {
        let Self {
            measure,
            labels,
            bounds_ns,
        } = self;
        Histograms {
            measure,
            table: Table::new(labels, bounds_ns.into_iter().collect()),
            open: None,
        }
    }
}

impl Histograms {
    /// Makes empty histograms, by the spans' names.
    pub fn new(measure: Measure) -> Self {
        Self::builder(measure).build()
    }

    /// Settings for histograms of this time of the spans.
    pub fn builder(measure: Measure) -> HistogramsBuilder {
        let bounds_ns = BOUNDS_MS.map(|ms| ms * 1_000_000).into();
        HistogramsBuilder {
            measure,
            labels: Box::new([NAME.to_owned()]),
            bounds_ns,
        }
    }

    /// A summary for each series that has times, by the labels' values in alphabetical order.
    /// Callsites of the same name count together.
    pub fn summaries(&self) -> Vec<Summary> {
        self.table
            .all_series()
            .into_iter()
            .filter_map(summary)
            .collect()
    }

    /// The summary of the series with these values, in the order of the labels: by default, only
    /// the spans' name. `None` if the series has no times since the last reset, or if there are
    /// more or fewer values than labels.
    pub fn summary(&self, label_values: &[&str]) -> Option<Summary> {
        self.series(label_values).and_then(summary)
    }

    /// The time that this share of a series' spans did not exceed: p95 for 0.95. The series is that
    /// of [`summary`](Self::summary), and the time is as exact as a quantile of a [`Summary`].
    /// `None` if there is no summary.
    ///
    /// # Panics
    ///
    /// If `quantile` is not in 0 to 1.
    #[track_caller]
    pub fn quantile(&self, label_values: &[&str], quantile: f64) -> Option<Duration> {
        assert!(
            (0.0..=1.0).contains(&quantile),
            "a quantile of {quantile} is outside 0 to 1"
        );
        let series = self.series(label_values)?;
        let times = series.recorded_since_reset().times;
        let max_ns = series.max_ns(quantile_ns(&times, BILLION)?);
        let ns = quantile_ns(&times, billionths(quantile))?;
        Some(Duration::from_nanos(ns.min(max_ns)))
    }

    fn series(&self, label_values: &[&str]) -> Option<&Series> {
        let mut all = self.table.all_series().into_iter();
        all.find(|series| series.values == label_values)
    }

    /// The number of closed spans that do not count, because they lack the field of a
    /// [label](HistogramsBuilder::labels). A label whose field no span has is probably mistyped.
    /// The number grows also after a [`reset`](Self::reset). The printed table ends with it, and
    /// with the labels.
    ///
    /// ```
    /// use tickline_tracing::SpanTimingLayer;
    /// use tickline_tracing::histogram::{Histograms, Measure};
    /// use tracing_subscriber::prelude::*;
    ///
    /// let histograms = Histograms::builder(Measure::Total).labels(["outcom"]).build();
    /// let timing = SpanTimingLayer::new().with_sink(histograms.clone());
    /// tracing::subscriber::with_default(tracing_subscriber::registry().with(timing), || {
    ///     tracing::info_span!("job", outcome = "done").in_scope(|| ());
    /// });
    /// assert_eq!(histograms.uncounted_spans(), 1);
    /// let last_line = "spans not counted: 1 without `outcom`";
    /// assert!(histograms.to_string().ends_with(last_line), "{histograms}");
    /// ```
    pub fn uncounted_spans(&self) -> u64 {
        let by_label = self.table.uncounted_spans();
        by_label.into_iter().map(|(_, count)| count).sum()
    }

    /// The number of spans that do not count, and why; `None` if all count.
    fn uncounted_line(&self) -> Option<String> {
        let by_label = self.table.uncounted_spans();
        let text = |(label, count): &(&str, u64)| format!("{count} without `{label}`");
        let texts: Vec<_> = by_label.iter().map(text).collect();
        (!texts.is_empty()).then(|| format!("spans not counted: {}", texts.join(", ")))
    }

    /// Removes the recorded times from [`summaries`](Self::summaries) and from the printed table,
    /// but not from [`to_prometheus`](Self::to_prometheus). A span that another thread is just
    /// closing may be removed, too.
    pub fn reset(&self) {
        self.table.all_series().into_iter().for_each(Series::reset);
    }
}

/// `None` if the series has no times since the last reset.
fn summary(series: &Series) -> Option<Summary> {
    Summary::new(series, &series.recorded_since_reset())
}

/// The whole, in billionths. A rank that is computed from whole numbers is exact.
const BILLION: u64 = 1_000_000_000;

/// A share from 0 to 1, in billionths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to a billion"
)]
fn billionths(share: f64) -> u64 {
    (share * 1e9).round() as u64
}

/// The longest time of the bucket that contains this quantile, ns. `None` without times.
fn quantile_ns(times: &Times, billionths: u64) -> Option<u64> {
    let count: u64 = times.values().sum();
    let rank = (u128::from(count) * u128::from(billionths)).div_ceil(u128::from(BILLION));
    let mut up_to = 0;
    let (bucket_max_ns, _) = times.iter().find(|(_, count)| {
        up_to += u128::from(**count);
        up_to >= rank.max(1)
    })?;
    Some(*bucket_max_ns)
}

/// The content of a span's slot: the index of the span's series, and above it the span's number,
/// which distinguishes the span from other open spans with this slot. The shift drops the number's
/// highest bits, with which the registry counts the uses of the slot: a span that has ended must
/// leave 0 behind.
fn pack(span: &Id, index: usize) -> u64 {
    (span.into_u64() << INDEX_BITS) | index as u64
}

const INDEX_BITS: u32 = SLOTS.ilog2();

/// The index of the series, if the slot's content belongs to this span.
#[inline]
fn unpack(packed: u64, span: &Id) -> Option<usize> {
    usize::try_from(packed ^ pack(span, 0))
        .ok()
        .filter(|index| *index < SLOTS)
}

impl SpanSink for Histograms {
    fn added_to_layer(&mut self, _: &Arc<OpenSpans>) {
        self.open = self
            .table
            .labels
            .iter()
            .any(|label| !matches!(label.as_str(), NAME | TARGET))
            .then(Arc::default);
    }

    fn created(&self, span: &Span<'_>, attributes: &Attributes<'_>, _: &dyn Lookup, _: u64) {
        let (table, Some(open)) = (&self.table, &self.open) else {
            return;
        };
        table.with_thread_counts(|thread| {
            let index = thread
                .series_index(table, span.metadata, None, |visit| attributes.record(visit))?;
            let slot = open.get_or_make(span.id.into_u64())?;
            // ORDERING: Relaxed. Another thread gets the span's number only after this store.
            slot.store(pack(span.id, index), Ordering::Relaxed);
            Some(())
        });
    }

    fn recorded(&self, span: &Span<'_>, values: &Record<'_>) {
        let table = &self.table;
        let Some(slot) = self
            .open
            .as_ref()
            .and_then(|open| open.get(span.id.into_u64()))
        else {
            return;
        };
        let with_values = |before| {
            // The series `(other)` does not have the span's own values.
            let before = unpack(before, span.id).filter(|index| *index != table.other_index)?;
            let record = |visit: &mut dyn Visit| values.record(visit);
            let index = table.with_thread_counts(|thread| {
                thread.series_index(table, span.metadata, Some(before), record)
            })?;
            Some(pack(span.id, index))
        };
        // The update starts again if another thread has recorded a value meanwhile.
        // ORDERING: Relaxed for both: only the slot's own content counts.
        _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_values);
    }

    #[inline]
    fn closed(&self, span: &Span<'_>, times: &SpanTimes) {
        let table = &self.table;
        let index_of = |open: &Slots<AtomicU64>| {
            let slot = open.get(span.id.into_u64())?;
            // ORDERING: Relaxed: only the slot's own content counts. The span has ended, so no
            // other thread writes.
            let index = unpack(slot.load(Ordering::Relaxed), span.id)?;
            // ORDERING: Relaxed: the slot orders no other memory.
            slot.store(0, Ordering::Relaxed);
            Some(index)
        };
        // First: on every path, a later span with this slot must not find this span's series.
        let open_index = self.open.as_deref().map(index_of);
        let ns = match self.measure {
            Measure::Total => times.closed_ns - times.created_ns,
            Measure::Busy => times.busy_ns,
            Measure::Idle => times.closed_ns - times.created_ns - times.busy_ns,
            #[cfg(all(unix, feature = "cpu-time"))]
            Measure::Cpu => match crate::layer::cpu_time::get(span) {
                Some(time) => as_ns(time),
                None => return,
            },
        };
        table.with_thread_counts(|thread| {
            let index = match open_index {
                None => thread.series_index(table, span.metadata, None, |_| ())?,
                Some(Some(index)) => index,
                Some(None) => match thread.callsite(table, span.metadata) {
                    // The span has all fields, but no slot.
                    Ok(_) => table.other_index,
                    Err(lacks_field) => lacks_field.index,
                },
            };
            thread.count(table, index, ns)
        });
    }
}

/// Prints a table with a line for each combination of the labels' values, and with the name of the
/// [`Measure`]. Quantiles are the ends of their buckets ([`Summary`]). If spans lack the
/// field of a label, a last line says how many, by the first such label of each span.
impl fmt::Display for Histograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.table.labels.iter().map(String::as_str).chain(["time"]);
        let heads =
            ["count", "p50", "p90", "p99", "p99.9", "max"].map(|head| format!("{head:>10}"));
        let mut lines = vec![labels.map(str::to_owned).chain(heads).collect::<Vec<_>>()];
        for summary in self.summaries() {
            let Summary {
                label_values,
                count,
                sum: _,
                p50,
                p90,
                p99,
                p999,
                max,
            } = summary;
            let mut cells: Vec<_> = label_values.iter().map(|value| escaped(value)).collect();
            cells.push(self.measure.name());
            cells.push(format!("{count:>10}"));
            cells.extend([p50, p90, p99, p999, max].map(|time| format!("{time:>10.2?}")));
            lines.push(cells);
        }
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
        let widths: Vec<_> = (0..lines[0].len()).filter_map(width).collect();
        let line = |line: &Vec<String>| {
            let cells = line
                .iter()
                .zip(&widths)
                .map(|(text, width)| format!("{text:width$}"));
            cells.collect::<Vec<_>>().join(" ")
        };
        let lines = lines.iter().map(line).chain(self.uncounted_line());
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

/// A label's value in a table: control characters would break its row, or change the terminal.
/// A backslash is escaped, too, so that different values look different.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for character in value.chars() {
        if character.is_control() || character == '\\' {
            text.extend(character.escape_debug());
        } else {
            text.push(character);
        }
    }
    text
}

/// The summary of a series. A quantile is not interpolated: it is the upper end of the bucket in
/// which the span of that rank is, or `max` if that is less, and so up to 1 % too long. Times in
/// one bucket therefore give equal quantiles. `max` is exact, unless a thread closes a span while
/// another one reads or [resets](Histograms::reset) the times: then it may be up to 1 % wrong,
/// after a reset until the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The labels' values, in the order of the labels: by default, only the spans' name.
    pub label_values: Vec<String>,
    /// The number of closed spans.
    pub count: u64,
    /// The sum of the spans' times, exact to the ns. For a span that another thread closes during
    /// the reading or a reset, it may lack or have a time that the other fields don't.
    pub sum: Duration,
    /// Half of the spans took no longer.
    pub p50: Duration,
    /// 90 % of the spans took no longer.
    pub p90: Duration,
    /// 99 % of the spans took no longer.
    pub p99: Duration,
    /// 99.9 % of the spans took no longer.
    pub p999: Duration,
    /// No span took longer.
    pub max: Duration,
}

impl Summary {
    /// `None` without times.
    fn new(series: &Series, recorded: &Recorded) -> Option<Self> {
        let Recorded { times, sum_ns } = recorded;
        let max_ns = series.max_ns(quantile_ns(times, BILLION)?);
        let per_mille = |share: u64| {
            let ns = quantile_ns(times, share * (BILLION / 1_000))?;
            Some(Duration::from_nanos(ns.min(max_ns)))
        };
        Some(Self {
            label_values: series.values.clone(),
            count: times.values().sum(),
            sum: Duration::from_nanos(*sum_ns),
            p50: per_mille(500)?,
            p90: per_mille(900)?,
            p99: per_mille(990)?,
            p999: per_mille(999)?,
            max: Duration::from_nanos(max_ns),
        })
    }
}
