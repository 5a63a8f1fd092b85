//! The cost of a span that is created, entered, exited and closed: without a layer, with one that
//! does nothing, with tickline-tracing's, and with others for the same purpose. The subjects take
//! turns in each round. Ratios are to the bare counter in the same run. On one thread the fastest
//! round counts. On two threads the median counts, because in the fastest round the other thread
//! was not running.
//!
//! `cargo run --release -p tickline-benches --bin spans [-- --rounds 200 --only 'SpanTiming, h' --json]`
//!
//! `--only` leaves out all but `SpanTiming` and the subjects whose names begin with that text.
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

mod cpu_time;
mod otel;
mod subjects;

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tickline::Clock;
use tickline_benches::subject::counter;
use tickline_benches::{args, beside, report};
use tracing::Dispatch;

use subjects::{Subject, TIMING, empty_spans};

/// Spans in a round. They take 100 us or so, which is short against a time slice, so many rounds
/// are not interrupted.
const SPANS: u32 = 500;

fn main() {
    let rounds = u32::try_from(args::number("rounds", 200)).unwrap_or(u32::MAX);
    let guard = tickline::start().expect("the global clock's thread");
    // Wait until the first recalibrations are over.
    std::thread::sleep(Duration::from_millis(1_500));
    let (mut subjects, trace) = subjects::subjects();
    let only = args::text("only");
    if let Some(only) = &only {
        subjects.retain(|subject| subject.name == TIMING || subject.name.starts_with(only.as_str()));
    }
    let (bare, std_now) = (rdtsc(rounds), std_now(rounds));
    let one = one_thread(&subjects, rounds);
    let has_two = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    let two = has_two.then(|| two_threads(&subjects, rounds));
    let trace_cpu = if only.is_none() { cpu_time::of_traces(rounds) } else { Vec::new() };
    let spans = subjects.iter().enumerate().map(|(index, subject)| Cost {
        subject: subject.name,
        one_thread_ns: one[index],
        two_threads_ns: two.as_ref().map(|two| two[index]),
        one_thread_ratio: one[index] / bare,
        two_threads_ratio: two.as_ref().map(|two| two[index] / bare),
    });
    let report = Report {
        rounds,
        state: Clock::global().status().state.to_string(),
        bare_counter_ns: bare,
        std_instant_ns: std_now,
        spans: spans.collect(),
        trace_cpu,
        trace: format!("{:?}", trace.finish().expect("the trace's writer")),
    };
    report::print(&report, text);
    drop(guard);
}

#[derive(Debug, Serialize)]
struct Report {
    /// Of so many, the fastest counts; on two threads, the median.
    rounds: u32,
    /// The state of tickline's clock.
    state: String,
    bare_counter_ns: f64,
    std_instant_ns: f64,
    spans: Vec<Cost>,
    /// The CPU time that traces take on all threads of the process.
    trace_cpu: Vec<cpu_time::CpuTime>,
    /// The summary of the trace that was written.
    trace: String,
}

/// A span that is created, entered, exited and closed.
#[derive(Debug, Serialize)]
struct Cost {
    subject: &'static str,
    one_thread_ns: f64,
    /// The cost while another CPU does the same; `None` with one CPU.
    two_threads_ns: Option<f64>,
    /// The cost divided by that of a reading of the bare counter; so is the next field.
    one_thread_ratio: f64,
    two_threads_ratio: Option<f64>,
}

fn text(report: &Report) {
    println!("{}", report.state);
    println!(
        "bare counter {:.2} ns, std Instant::now {:.2} ns\n",
        report.bare_counter_ns, report.std_instant_ns
    );
    println!("{:<44} {:>9} {:>7} {:>9} {:>7}", "ns a span", "1 thread", "/bare", "2 threads", "/bare");
    for span in &report.spans {
        println!(
            "{:<44} {:>9.1} {:>7.2} {:>9} {:>7}",
            span.subject,
            span.one_thread_ns,
            span.one_thread_ratio,
            report::or_dash(span.two_threads_ns, 1),
            report::or_dash(span.two_threads_ratio, 2)
        );
    }
    println!("\n{:<44} {:>9} {:>9}", "CPU time a span, ns, writer included", "1 thread", "2 threads");
    for cpu in &report.trace_cpu {
        println!("{:<44} {:>9.1} {:>9.1}", cpu.subject, cpu.one_thread_ns, cpu.two_threads_ns);
    }
    println!("the trace: {}", report.trace);
}

/// This thread's own `Dispatch` for each subject.
fn dispatches(subjects: &[Subject]) -> Vec<Dispatch> {
    subjects.iter().map(|subject| (subject.dispatch)()).collect()
}

fn per_call(calls: u32, run: impl FnOnce(u32)) -> f64 {
    let start = Instant::now();
    run(calls);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

fn fastest(rounds: u32, mut round: impl FnMut() -> f64) -> f64 {
    (0..rounds).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn rdtsc(rounds: u32) -> f64 {
    let counter = counter();
    let run = |calls| (0..calls).for_each(|_| _ = black_box(tickline_core::counter::Counter::now(&counter)));
    fastest(rounds, || per_call(2_000, run))
}

fn std_now(rounds: u32) -> f64 {
    fastest(rounds, || per_call(2_000, |calls| (0..calls).for_each(|_| _ = black_box(Instant::now()))))
}

/// ns a span for each subject.
fn one_thread(subjects: &[Subject], rounds: u32) -> Vec<f64> {
    let mut fastest = vec![f64::INFINITY; subjects.len()];
    let dispatches = dispatches(subjects);
    for _ in 0..rounds {
        for (dispatch, fastest) in dispatches.iter().zip(&mut fastest) {
            tracing::dispatcher::with_default(dispatch, || {
                empty_spans(50);
                *fastest = fastest.min(per_call(SPANS, empty_spans));
            });
        }
        // Give the traces' writers time, so that their work does not count for other subjects.
        std::thread::sleep(Duration::from_millis(1));
    }
    fastest
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Takes a number of the registry's for a thread, and keeps it as long as `stop` is false.
///
/// tracing-subscriber 0.3 keeps the stack of a thread's open spans in thread_local 1.1, which puts the
/// stacks of threads 1 and 2 side by side, as those of 3 to 6. So two threads may write to one cache
/// line at each enter and exit, whatever the layers: by chance of the allocation, for which some rows
/// had twice the cost of others. With one more thread, number 1, the two that are compared are 2 and 3.
fn hold_a_number(stop: &AtomicBool, is_held: &AtomicBool) {
    tracing::subscriber::with_default(tracing_subscriber::registry(), || {
        let _inside = tracing::info_span!("number").entered();
        // ORDERING: Relaxed for both: hints about what to do next.
        is_held.store(true, Ordering::Relaxed);
        // ORDERING: as above.
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// ns a span for each subject, while another thread on another CPU does the same.
fn two_threads(subjects: &[Subject], rounds: u32) -> Vec<f64> {
    let (stop, is_held) = (AtomicBool::new(false), AtomicBool::new(false));
    let spans = |dispatch: &Dispatch, count| {
        tracing::dispatcher::with_default(dispatch, || per_call(count, empty_spans))
    };
    std::thread::scope(|scope| {
        scope.spawn(|| hold_a_number(&stop, &is_held));
        // ORDERING: Relaxed, as in that thread.
        while !is_held.load(Ordering::Relaxed) {
            spin_loop();
        }
        let other = || {
            let dispatches = dispatches(subjects);
            move |index: usize| _ = spans(&dispatches[index], 50)
        };
        let measured = || {
            let dispatches = dispatches(subjects);
            move |index: usize| {
                spans(&dispatches[index], 50);
                spans(&dispatches[index], SPANS)
            }
        };
        let times = beside::measure(subjects.len(), rounds, other, measured);
        // ORDERING: Relaxed, as above.
        stop.store(true, Ordering::Relaxed);
        times.into_iter().map(median).collect()
    })
}
