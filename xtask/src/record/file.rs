//! A record: the figures of one processor, and a description of its machine. The programs of
//! `benches/` print the parts as JSON, and say what each figure is.
//!
//! The fields that tables show have names here. `others` keeps the rest of what a program printed,
//! so that a record is stored whole.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The fields that no table shows.
type Others = Map<String, Value>;

/// The version of the record's fields. It changes when a field gets another name or another
/// meaning, but not when a field that no table shows comes or goes.
pub(super) const SCHEMA: &str = "tickline-record/3";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) schema: String,
    pub(super) date: String,
    pub(super) command: String,
    pub(super) commit: String,
    /// Whether the code that decides the figures had no uncommitted changes.
    pub(super) tree_clean: bool,
    pub(super) rustc: String,
    /// The key of a record: the name, and on x86 family and model, because guests see names that
    /// many processors share.
    pub(super) processor: String,
    pub(super) took_s: u64,
    pub(super) machine: Machine,
    /// A call in a tight loop, and awaited: `Report` in `benches/src/bin/ratios.rs`.
    pub(super) cost: Costs,
    /// Fresh processes: `Report` in `benches/src/bin/startup/main.rs`.
    pub(super) startup: Startup,
    /// Offsets from `CLOCK_MONOTONIC` over time, of all clocks in one process: `Report` in
    /// `benches/src/bin/drift.rs`.
    pub(super) drift: Drift,
    /// Shorter measurements of the same.
    pub(super) drift_in_other_processes: Vec<Drift>,
    /// Backward steps between threads: `Report` in `benches/src/bin/order.rs`.
    pub(super) order: Order,
    /// tickline's offset and bound with each driver: `Report` in `benches/src/bin/accuracy.rs`.
    pub(super) accuracy_thread: Accuracy,
    pub(super) accuracy_reader: Accuracy,
    /// A `tracing` span: `Report` in `benches/src/bin/spans/main.rs`.
    pub(super) spans: Spans,
    /// `None` in a record from before `traces` was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) traces: Option<Traces>,
}

impl Record {
    /// The name of the record's file: the day and the processor, in small letters and digits, with
    /// one hyphen for any run of other characters.
    pub(super) fn file_name(&self) -> String {
        let words: Vec<&str> = self
            .processor
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        format!(
            "{}-{}.json",
            self.date,
            words.join("-").to_ascii_lowercase()
        )
    }
}

/// What the program `tickline` prints, as far as the record has it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Found {
    pub(super) machine: Machine,
    pub(super) result: Value,
    pub(super) gates: Vec<Gate>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Gate {
    pub(super) gate: String,
    pub(super) open: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) cpu: Option<String>,
    /// The CPUs that the process may use.
    #[serde(default)]
    pub(super) cpus: usize,
    pub(super) hypervisor: Option<String>,
    pub(super) kernel: Option<String>,
    pub(super) clocksource: Option<String>,
    /// The result of the program `tickline`. Older records have none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) result: Value,
    #[serde(flatten)]
    others: Others,
}

/// `ratios`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Costs {
    pub(super) clocks: Vec<Cost>,
    #[serde(flatten)]
    others: Others,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Cost {
    pub(super) clock: String,
    pub(super) group: Group,
    pub(super) tight_ns: f64,
    pub(super) awaited_ns: f64,
    /// The ratios to the bare counter.
    pub(super) tight_ratio: f64,
    pub(super) awaited_ratio: f64,
}

/// The groups of clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Group {
    Counter,
    Time,
    Coarse,
}

/// `startup`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Startup {
    pub(super) clocks: Vec<StartupOfClock>,
    pub(super) hello: Hello,
    #[serde(flatten)]
    others: Others,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StartupOfClock {
    pub(super) clock: String,
    pub(super) first_call_us: Option<Spread>,
    pub(super) first_reading_us: Option<Spread>,
    pub(super) counter_us: Option<Spread>,
    pub(super) slowest_call_us: Option<Spread>,
}

/// A process that says hello.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) with_std_us: Option<Spread>,
    pub(super) difference_us: Option<Spread>,
    #[serde(flatten)]
    others: Others,
}

/// Of many runs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    largest: f64,
}

/// `drift`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Drift {
    pub(super) watched_s: u64,
    pub(super) clocks: Vec<DriftOfClock>,
    #[serde(flatten)]
    others: Others,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DriftOfClock {
    pub(super) clock: String,
    pub(super) drift_ppb: Option<f64>,
    pub(super) offset_change_ns: f64,
    #[serde(flatten)]
    others: Others,
}

/// `order`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    /// The reason why readings were not exchanged while lines are replaced.
    pub(super) skipped: Option<String>,
    pub(super) ordered: Option<Ordered>,
    /// The bare counter.
    pub(super) plain: Option<Count>,
    pub(super) clocks: Vec<OrderOfClock>,
    #[serde(flatten)]
    others: Others,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Ordered {
    pub(super) count: Count,
    #[serde(flatten)]
    others: Others,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OrderOfClock {
    pub(super) clock: String,
    pub(super) count: Count,
    #[serde(flatten)]
    others: Others,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Count {
    pub(super) backward: u64,
    pub(super) comparisons: u64,
    largest: u64,
}

/// `accuracy`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Accuracy {
    pub(super) watched_s: u64,
    pub(super) readings: u64,
    pub(super) outside: u64,
    pub(super) bound_violated: u64,
    pub(super) least_offset_ns: Option<f64>,
    pub(super) most_offset_ns: Option<f64>,
    pub(super) mean_offset_ns: Option<f64>,
    pub(super) most_before_ns: u64,
    pub(super) most_after_ns: u64,
    pub(super) thread_cpu_percent: Option<f64>,
    /// `None` without a thread, and in records that are older than the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thread_wake_ups_per_s: Option<f64>,
    #[serde(flatten)]
    others: Others,
}

/// `spans`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Spans {
    pub(super) spans: Vec<Span>,
    #[serde(flatten)]
    others: Others,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Span {
    pub(super) subject: String,
    pub(super) one_thread_ns: f64,
    pub(super) two_threads_ns: Option<f64>,
}

/// `traces`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Traces {
    pub(super) layers: Vec<TracingLayer>,
    #[serde(flatten)]
    others: Others,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TracingLayer {
    pub(super) layer: String,
    pub(super) threads: u64,
    pub(super) span_ns: f64,
    pub(super) span_with_field_ns: f64,
    pub(super) event_with_field_ns: f64,
    pub(super) process_ns: f64,
    pub(super) bytes: Option<f64>,
}
