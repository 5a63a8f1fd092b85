//! Traces: they stand on the layer, and write its spans and events to trace files.
//!
//! | file | has |
//! |---|---|
//! | `trace_file.rs` | a sink that takes records out of the rings while the program runs |
//! | `flight.rs` | a sink that keeps the last records in rings, and copies them on request; its black box keeps them in a file |
//! | `recorder.rs`, `thread_recorder.rs`, `reader.rs` | the rings of all threads; the rest of a thread's state; the thread that takes the records |
//! | `trace_sink.rs`, `recorded_spans.rs` | the sink that fills a recorder; what it keeps for each open span |
//! | `record.rs`, `ring.rs`, `memory.rs` | a record in words; the ring that a thread writes without a lock; the ring's memory |
//! | `file.rs`, `snapshot.rs` | the black box's file; the content of a recorder or of such a file |
//! | `merge.rs`, `held_ends.rs` | the records of all rings in order of time; ends that must wait |
//! | `span_tracks.rs` | a track for each span of a request |
//! | `fields.rs`, `encoding.rs` | the fields of spans and events, and their format in records |
//! | `cpu_clock.rs`, `cpu_times.rs` | the clock of a thread's CPU time; the times that a trace gets |
//! | `trace_output.rs`, `summary.rs`, `mark.rs` | the file of a trace, and what it contains; what the sink itself says in it |
//! | `json.rs`, `perfetto.rs` | its formats |
//! | `flusher.rs` | how a program makes the writer of a trace write at once |
//! | `settings.rs`, `temporary.rs`, `panic_hook.rs`, `writer_thread.rs` | what both sinks share |

pub(crate) mod cpu_clock;
pub(crate) mod cpu_times;
pub(crate) mod encoding;
pub(crate) mod fields;
pub(crate) mod file;
pub mod flight;
pub(crate) mod flusher;
pub(crate) mod held_ends;
pub(crate) mod json;
pub(crate) mod keyed_hash;
pub(crate) mod mark;
pub(crate) mod memory;
pub(crate) mod merge;
pub(crate) mod panic_hook;
pub(crate) mod perfetto;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod recorded_spans;
pub(crate) mod recorder;
pub(crate) mod ring;
pub(crate) mod settings;
pub(crate) mod snapshot;
pub(crate) mod span_tracks;
pub(crate) mod summary;
pub(crate) mod temporary;
pub(crate) mod thread_recorder;
pub mod trace_file;
pub(crate) mod trace_output;
pub(crate) mod trace_sink;
pub(crate) mod writer_thread;

#[cfg(all(test, unix, not(miri)))]
#[allow(unsafe_code, reason = "forks")]
#[path = "../../tickline/tests/common/fork.rs"]
pub(crate) mod fork;
