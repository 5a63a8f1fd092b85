//! Measures the cost of a span that is created, entered, exited and closed: without a layer, with
//! tickline-tracing's layer, and with other layers for the same purpose. The subjects take turns in
//! each round. On one thread the fastest round counts. On two threads the median counts, because in
//! the fastest round the other thread was not running.
//!
//! `cargo run --release -p tickline-benches --bin spans [-- --rounds 200]`

mod otel;
mod subjects;

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tickline::Clock;
use tickline_benches::report::{self, Spread};
use tickline_benches::{args, exchange};
use tracing::Dispatch;

use subjects::Subject;

/// Spans in a round. They take about 100 us, much less than a time slice, so that many rounds are
/// not interrupted.
const SPANS: u32 = 500;

fn main() {
    let rounds = u32::try_from(args::number("rounds", 200)).unwrap_or(u32::MAX);
    let guard = tickline::start().expect("the global clock's thread");
    // Wait until the first recalibrations are over.
    std::thread::sleep(Duration::from_millis(1_500));
    let (subjects, kept) = subjects::subjects();
    let one = one_thread(&subjects, rounds);
    let has_two = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    let two = has_two.then(|| two_threads(&subjects, rounds));
    let spans = subjects.iter().enumerate().map(|(index, subject)| Cost {
        subject: subject.name,
        one_thread_ns: one[index],
        two_threads_ns: two.as_ref().map(|two| two[index]),
    });
    let state = Clock::global().status().state.to_string();
    report::print(&Report { rounds, state, spans: spans.collect() });
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
fn dispatches(subjects: &[Subject]) -> Vec<Dispatch> {
    subjects.iter().map(|subject| (subject.dispatch)()).collect()
}

/// Makes `count` spans. Returns the cost of one, ns.
fn span_ns(subject: &Subject, dispatch: &Dispatch, count: u32) -> f64 {
    tracing::dispatcher::with_default(dispatch, || {
        let start = Instant::now();
        (subject.spans)(count);
        start.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    })
}

/// The cost of a span for each subject, ns.
fn one_thread(subjects: &[Subject], rounds: u32) -> Vec<f64> {
    let mut fastest = vec![f64::INFINITY; subjects.len()];
    let dispatches = dispatches(subjects);
    for _ in 0..rounds {
        for ((subject, dispatch), fastest) in subjects.iter().zip(&dispatches).zip(&mut fastest) {
            span_ns(subject, dispatch, 50);
            *fastest = fastest.min(span_ns(subject, dispatch, SPANS));
        }
        // Give the traces' writers time, so that their work does not count for other subjects.
        std::thread::sleep(Duration::from_millis(1));
    }
    fastest
}

/// Takes one of the registry's thread numbers, and keeps it until `stop` is true.
///
/// tracing-subscriber 0.3 keeps the stack of a thread's open spans in thread_local 1.1, which puts
/// the stacks of threads 1 and 2 side by side, and those of 3 to 6. Two threads may then write to
/// one cache line at each enter and exit, whatever the layers. It depends on the allocation, and
/// made some rows twice as expensive as others. An additional thread takes number 1, so that the
/// measured threads have the numbers 2 and 3.
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

/// The cost of a span for each subject, ns, while another thread on another CPU does the same.
fn two_threads(subjects: &[Subject], rounds: u32) -> Vec<f64> {
    let (stop, is_held) = (AtomicBool::new(false), AtomicBool::new(false));
    let (current, running) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let start = |index: usize| {
        exchange::pin(index);
        dispatches(subjects)
    };
    let spans = |dispatches: &[Dispatch], index, count| span_ns(&subjects[index], &dispatches[index], count);
    std::thread::scope(|scope| {
        scope.spawn(|| hold_a_number(&stop, &is_held));
        // ORDERING: Relaxed for all below: hints about what to do next.
        while !is_held.load(Ordering::Relaxed) {
            spin_loop();
        }
        scope.spawn(|| {
            let dispatches = start(1);
            // ORDERING: as above.
            while !stop.load(Ordering::Relaxed) {
                // ORDERING: as above.
                let subject = current.load(Ordering::Relaxed);
                spans(&dispatches, subject, 50);
                // ORDERING: as above.
                running.store(subject, Ordering::Relaxed);
            }
        });
        let measured = scope.spawn(|| {
            let dispatches = start(0);
            let mut times = vec![Vec::new(); subjects.len()];
            for _ in 0..rounds {
                for (index, times) in times.iter_mut().enumerate() {
                    // ORDERING: as above.
                    current.store(index, Ordering::Relaxed);
                    // ORDERING: as above.
                    while running.load(Ordering::Relaxed) != index {
                        spin_loop();
                    }
                    spans(&dispatches, index, 50);
                    times.push(spans(&dispatches, index, SPANS));
                }
            }
            // ORDERING: as above.
            stop.store(true, Ordering::Relaxed);
            times
        });
        let times = measured.join().expect("the measuring thread").into_iter();
        times.map(|times| Spread::of(times).map_or(f64::NAN, |spread| spread.median)).collect()
    })
}
