//! Traces: they stand on the layer, and write its spans and events to trace files.
//!
//! | file | has |
//! |---|---|
//! | `trace_file.rs` | a sink that writes a file while the program runs: its settings, its thread, its end |
//! | `trace_file/writer.rs` | that thread, which takes the records out of the rings |
//! | `flight.rs` | a sink that keeps the last records in rings, and copies them on request; its black box keeps them in a file |
//! | `own_file.rs` | the file of a `TraceFile`, to which no other sink of the process writes |
//! | `flusher.rs` | how a program makes the writer of a trace write at once |
//! | `settings.rs`, `panic_hook.rs`, `writer_thread.rs` | what both sinks share |
//! | `keyed_hash.rs`, `unique_number.rs` | a hash, and numbers, which know nothing of traces |
//!
//! `trace_file` also exports the public types that both sinks share, from where they are used:
//! `Tracks` (`settings.rs`), `TraceFormat` and `TraceSummary` (`format/`).
//!
//! The folders, in order: each imports only from the folders above it. `settings.rs` is between the
//! last two.
//!
//! | folder | file | has |
//! |---|---|---|
//! | `sys` | `clocks.rs`, `cpu_clock.rs` | the system's clocks |
//! | | `thread_life.rs` | whether a thread has ended, also by a kill |
//! | | `file_number.rs`, `temporary.rs`, `stderr.rs` | names and numbers of files; lines on standard error |
//! | `rings` | `record.rs`, `ring.rs`, `memory.rs` | a record in words; the ring that a thread writes without a lock; the ring's memory |
//! | | `fields.rs`, `encoding.rs` | the fields of spans and events, and their format in records |
//! | `readout` | `reader.rs`, `snapshot.rs` | the thread that takes the records; the content of a recorder or of a black box's file |
//! | | `merge.rs`, `held_ends.rs` | the records of all rings in order of time; ends that must wait |
//! | | `span_tracks.rs`, `cpu_times.rs` | a track for each span of a request; the CPU times that a trace gets |
//! | `format` | `trace_output.rs`, `summary.rs`, `mark.rs` | the file of a trace, and what it contains; what the sink itself says in it |
//! | | `json.rs`, `perfetto.rs` | its formats |
//! | | `callsite_names.rs` | the names of a callsite and of its fields, for both formats |
//! | `capture` | `recorder.rs`, `thread_recorder.rs` | what all threads share; what a thread has for itself |
//! | | `ring_list.rs`, `kept_ends.rs` | the rings of all threads; ends of spans that found no room in them |
//! | | `trace_sink.rs`, `recorded_spans.rs` | the sink that fills a recorder; what it keeps for each open span |
//! | | `panic_event.rs` | the event by which a trace shows a panic |
//! | | `black_box.rs`, `black_box/read.rs` | the black box's file; its reader |
//!
//! To add a setting of a sink:
//!
//! 1. Its field goes into `settings.rs` if both sinks have it, else into the builder. Its method
//!    goes into the builder of each sink that has it (`trace_file.rs`, `flight/builder.rs`).
//! 2. What a trace's file then has goes into `json.rs` and `perfetto.rs` of `format/`.
//!    `TraceOutput` (`trace_output.rs` there) joins the two: what only one of them writes is an arm
//!    there. New records are made in `capture/trace_sink.rs` or `capture/thread_recorder.rs`.
//! 3. The setting has a test in `tests/it/` of the crate: `both_formats.rs` for what both formats
//!    show; `trace_file.rs` for JSON alone (`trace_file_requests.rs` if the tracks are requests),
//!    `perfetto.rs` for Perfetto alone (`perfetto_size.rs` if it is about the size of a trace).
//! 4. `cargo xtask api --write` stores the new method.

pub(crate) mod capture;
pub mod flight;
pub(crate) mod flusher;
pub(crate) mod format;
pub(crate) mod keyed_hash;
#[cfg(unix)]
pub(crate) mod own_file;
/// Other systems open any file.
#[cfg(not(unix))]
pub(crate) mod own_file {
    pub(crate) use std::fs::File as OwnFile;
    use std::{fs::Metadata, io};

    pub(crate) fn check_has_no_trace(_: &Metadata) -> io::Result<()> {
        Ok(())
    }
}
pub(crate) mod panic_hook;
pub(crate) mod readout;
pub(crate) mod rings;
pub(crate) mod settings;
pub(crate) mod sys;
pub mod trace_file;
pub(crate) mod unique_number;
pub(crate) mod waited;
pub(crate) mod writer_thread;
