//! Measures layers that write traces to a file: the CPU time of the program's thread for a span, a
//! span with a field and an event with a field; the CPU time of the whole process for a record; and
//! the size of a record in the file. Each layer has a process of its own, and the layers take
//! turns. The fastest round counts.
//!
//! `cargo run --release -p tickline-benches --bin traces [-- --rounds 3] [--records 100000]`

mod subjects;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use clap::Parser;
use serde::{Deserialize, Serialize};
use tickline_benches::report;
use tickline_observe::clock_ns;

use subjects::{Kind, SUBJECTS, TraceSubject};

/// Measures layers that write traces to a file.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of processes for each layer; the fastest counts.
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// The number of records of each kind, on each thread.
    #[arg(long, default_value_t = 100_000)]
    records: u64,
    /// Measures only this layer, in this process.
    #[arg(long, hide = true)]
    subject: Option<String>,
    /// The number of threads of that process.
    #[arg(long, hide = true, default_value_t = 1)]
    threads: u64,
}

fn main() {
    let Arguments {
        rounds,
        records,
        subject,
        threads,
    } = Arguments::parse();
    if let Some(name) = subject {
        let subject = SUBJECTS.iter().find(|subject| subject.name == name);
        let subject = subject.unwrap_or_else(|| panic!("--subject {name}: there is no such layer"));
        report::print(&measure(subject, records, threads));
        return;
    }
    let mut layers = Vec::new();
    for threads in [1, 2] {
        let mut rows: Vec<Option<Cost>> = vec![None; SUBJECTS.len()];
        for _ in 0..rounds {
            for (subject, row) in SUBJECTS.iter().zip(&mut rows) {
                let cost = measure_in_process(subject.name, records, threads);
                *row = Some(match row.take() {
                    Some(before) => before.faster(cost),
                    None => cost,
                });
            }
        }
        layers.extend(rows.into_iter().flatten());
    }
    report::print(&Report {
        rounds,
        records,
        layers,
    });
}

#[derive(Debug, Serialize)]
struct Report {
    /// The number of processes for each layer. The fastest counts.
    rounds: u64,
    /// The number of records of each kind, on each thread.
    records: u64,
    layers: Vec<Cost>,
}

/// What a layer costs. All times are CPU times.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Cost {
    layer: String,
    /// The number of threads that record at the same time.
    threads: u64,
    /// The time of the recording thread for a span that is created, entered, exited and closed.
    span_ns: f64,
    /// The same with a field, a whole number.
    span_with_field_ns: f64,
    /// The time of the recording thread for an event with a field.
    event_with_field_ns: f64,
    /// The time of the process for a record of any of the three kinds, with the end of the trace.
    process_ns: f64,
    /// The bytes in the file for a record; `None` if the layer writes no file.
    bytes: Option<f64>,
}

impl Cost {
    /// The smaller figure of both processes, each.
    fn faster(self, other: Self) -> Self {
        Self {
            span_ns: self.span_ns.min(other.span_ns),
            span_with_field_ns: self.span_with_field_ns.min(other.span_with_field_ns),
            event_with_field_ns: self.event_with_field_ns.min(other.event_with_field_ns),
            process_ns: self.process_ns.min(other.process_ns),
            ..other
        }
    }
}

/// Measures a layer in a process of its own.
fn measure_in_process(name: &str, records: u64, threads: u64) -> Cost {
    let output = Command::new(env::current_exe().expect("the path of this program"))
        .args(["--subject", name])
        .args(["--records", &records.to_string()])
        .args(["--threads", &threads.to_string()])
        .output()
        .expect("this program starts again");
    if !output.status.success() {
        std::io::stderr()
            .write_all(&output.stderr)
            .expect("standard error");
        panic!("{name}: {}", output.status);
    }
    serde_json::from_slice(&output.stdout).expect("the costs of a layer")
}

/// Records with one layer in this process.
#[expect(clippy::cast_precision_loss, reason = "figures with a few digits")]
fn measure(subject: &TraceSubject, records: u64, threads: u64) -> Cost {
    let path = TracePath::new();
    let trace = (subject.start)(&path.0);
    // The clock has a line by then, and the writers' threads run.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let process_start_ns = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
    let times: Vec<[f64; 3]> = std::thread::scope(|scope| {
        let recorders: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| Kind::ALL.map(|kind| time_record_ns(subject, kind, records))))
            .collect();
        recorders
            .into_iter()
            .map(|recorder| recorder.join().expect("a recording thread"))
            .collect()
    });
    trace.finish();
    let process_ns = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - process_start_ns;
    let all_records = (records * threads * Kind::ALL.len() as u64) as f64;
    let mean_ns = |kind: usize| times.iter().map(|of| of[kind]).sum::<f64>() / times.len() as f64;
    let file_bytes = fs::metadata(&path.0).map(|file| file.len());
    Cost {
        layer: subject.name.to_owned(),
        threads,
        span_ns: mean_ns(0),
        span_with_field_ns: mean_ns(1),
        event_with_field_ns: mean_ns(2),
        process_ns: process_ns as f64 / all_records,
        bytes: file_bytes.ok().map(|bytes| bytes as f64 / all_records),
    }
}

/// The CPU time of this thread for a record, ns.
#[expect(clippy::cast_precision_loss, reason = "figures with a few digits")]
fn time_record_ns(subject: &TraceSubject, kind: Kind, records: u64) -> f64 {
    let start_ns = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    (subject.record)(kind, records);
    (clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - start_ns) as f64 / records as f64
}

/// The path of the trace, which is removed at the end.
struct TracePath(PathBuf);

impl TracePath {
    fn new() -> Self {
        let name = format!("tickline-traces-{}.trace", std::process::id());
        Self(env::temp_dir().join(name))
    }
}

impl AsRef<Path> for TracePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TracePath {
    fn drop(&mut self) {
        // A layer without a file has made none.
        _ = fs::remove_file(&self.0);
    }
}
