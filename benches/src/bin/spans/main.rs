//! Measures the cost of a span that is created, entered, exited and closed: without a layer, with
//! tickline-tracing's layer, and with other layers for the same purpose. The subjects take turns in
//! each round. On one thread the fastest round counts. On two threads the median
//! counts, because in the fastest round the other thread was not running.
//!
//! `cargo run --release -p tickline-benches --bin spans [-- --rounds 200]`

mod otel;
mod subjects;

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use serde::Serialize;
use tickline::Clock;
use tickline_benches::exchange;
use tickline_benches::report::{self, Spread};
use tracing::Dispatch;

use subjects::SpanSubject;

/// The number of spans in a round, which takes about 100 us: much less than a time slice, so that
/// many rounds are not interrupted.
const SPANS: u32 = 500;

/// The number of spans before those of a round, which fill the caches.
const WARM_UP: u32 = SPANS / 10;

/// Measures what a span costs, in each layer.
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of rounds.
    #[arg(long, default_value_t = 200)]
    rounds: u32,
}

fn main() {
    let Arguments { rounds } = Arguments::parse();
    let guard = tickline::start().expect("the global clock's thread");
    // Wait until the first recalibrations are over.
    std::thread::sleep(Duration::from_millis(1_500));
    let (subjects, kept) = subjects::subjects();
    let one_thread_ns = measure_on_one_thread(&subjects, rounds);
    let has_two = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    let two_threads_ns = has_two.then(|| measure_on_two_threads(&subjects, rounds));
    let spans = subjects.iter().enumerate().map(|(index, subject)| Cost {
        subject: subject.name,
        one_thread_ns: one_thread_ns[index],
        two_threads_ns: two_threads_ns.as_ref().map(|costs| costs[index]),
    });
    let state = Clock::global().status().state.to_string();
    report::print(&Report {
        rounds,
        state,
        spans: spans.collect(),
    });
    drop((kept, guard));
}

#[derive(Debug, Serialize)]
struct Report {
    /// The number of rounds. The fastest counts, or the median on two threads.
    rounds: u32,
    /// The state of tickline's clock.
    state: String,
    spans: Vec<Cost>,
}

/// The cost of a span that is created, entered, exited and closed.
#[derive(Debug, Serialize)]
struct Cost {
    subject: &'static str,
    one_thread_ns: f64,
    /// The cost while another CPU does the same; `None` with one CPU.
    two_threads_ns: Option<f64>,
}

/// This thread's own `Dispatch` for each subject.
fn dispatches(subjects: &[SpanSubject]) -> Vec<Dispatch> {
    subjects
        .iter()
        .map(|subject| (subject.dispatch)())
        .collect()
}

/// Makes `count` spans. Returns the cost of one, ns.
fn time_span_ns(subject: &SpanSubject, dispatch: &Dispatch, count: u32) -> f64 {
    tracing::dispatcher::with_default(dispatch, || {
        let start = Instant::now();
        (subject.spans)(count);
        start.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    })
}

/// The cost of a span for each subject, ns.
fn measure_on_one_thread(subjects: &[SpanSubject], rounds: u32) -> Vec<f64> {
    let mut fastest = vec![f64::INFINITY; subjects.len()];
    let dispatches = dispatches(subjects);
    for _ in 0..rounds {
        for ((subject, dispatch), fastest) in subjects.iter().zip(&dispatches).zip(&mut fastest) {
            time_span_ns(subject, dispatch, WARM_UP);
            *fastest = fastest.min(time_span_ns(subject, dispatch, SPANS));
        }
        // Give the traces' writers time, so that their work does not count for other subjects.
        std::thread::sleep(Duration::from_millis(1));
    }
    fastest
}

/// The cost of a span for each subject, ns, while a thread on another CPU does the same. Call this
/// on the thread that made the process's first span.
///
/// tracing-subscriber 0.3 keeps the stack of a thread's open spans in thread_local 1.1, which
/// numbers the threads from 0, in the order of their first spans. It allocates the stacks of
/// threads 1 and 2 side by side, and also those of threads 3 to 6. Two such threads may write to
/// one cache line at each enter and exit, with any layers. This made some rows twice as expensive
/// as others. Therefore the thread with number 0 measures.
fn measure_on_two_threads(subjects: &[SpanSubject], rounds: u32) -> Vec<f64> {
    let stop = AtomicBool::new(false);
    let current = AtomicUsize::new(0);
    let running = AtomicUsize::new(usize::MAX);
    let spans = |dispatches: &[Dispatch], index, count| {
        time_span_ns(&subjects[index], &dispatches[index], count)
    };
    let mut times = vec![Vec::new(); subjects.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            exchange::pin(1);
            let dispatches = dispatches(subjects);
            // ORDERING: Relaxed for `stop`, `current` and `running` throughout: they order no
            // memory.
            while !stop.load(Ordering::Relaxed) {
                // ORDERING: Relaxed: the index orders no memory.
                let subject = current.load(Ordering::Relaxed);
                spans(&dispatches, subject, WARM_UP);
                // ORDERING: Relaxed: the index orders no memory.
                running.store(subject, Ordering::Relaxed);
            }
        });
        let wait_for = |index: usize| {
            // ORDERING: Relaxed: the index orders no memory.
            current.store(index, Ordering::Relaxed);
            // ORDERING: Relaxed: the index orders no memory.
            while running.load(Ordering::Relaxed) != index {
                spin_loop();
            }
        };
        wait_for(0); // The other thread is pinned by now, so it does not inherit this thread's CPU.
        exchange::pin(0);
        let dispatches = dispatches(subjects);
        for _ in 0..rounds {
            for (index, times) in times.iter_mut().enumerate() {
                wait_for(index);
                spans(&dispatches, index, WARM_UP);
                times.push(spans(&dispatches, index, SPANS));
            }
        }
        // ORDERING: Relaxed: the flag orders no memory.
        stop.store(true, Ordering::Relaxed);
    });
    times
        .into_iter()
        .map(|times| Spread::new(times).map_or(f64::NAN, |spread| spread.median))
        .collect()
}
