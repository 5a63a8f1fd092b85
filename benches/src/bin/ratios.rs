//! The cost of a reading: every clock in interleaved rounds, of which the fastest counts, as
//! ratios to the bare counter in the same run. On two threads the other thread makes the same
//! calls, and the clock's thread recalibrates every millisecond.
//!
//! `cargo run --release -p tickline-benches --bin ratios [-- --rounds 200 --json]`

use std::time::{Duration, Instant};

use serde::Serialize;
use tickline::{Clock, Event};
use tickline_benches::clocks::subjects;
use tickline_benches::subject::{Group, Subject};
use tickline_benches::{args, beside, report};

/// Calls in a round: 20 to 60 us, short against a time slice, so that most rounds are not
/// interrupted.
const CALLS: u32 = 2_000;

type Select = fn(&Subject) -> fn(u32);

#[derive(Debug, Serialize)]
struct Report {
    /// Of which the fastest counts.
    rounds: u32,
    calls_a_round: u32,
    /// What tickline's clock said before the first round.
    state: String,
    clocks: Vec<Cost>,
}

#[derive(Debug, Serialize)]
struct Cost {
    clock: &'static str,
    group: Group,
    /// One call after the other.
    tight_ns: f64,
    /// Each call complete before the next begins.
    awaited_ns: f64,
    /// One after the other, while a thread on another CPU does the same; none with one CPU.
    two_threads_ns: Option<f64>,
    /// To the bare counter in the same column and run; so are those below.
    tight_ratio: f64,
    awaited_ratio: f64,
    two_threads_ratio: Option<f64>,
}

fn main() {
    let rounds = u32::try_from(args::number("rounds", 200)).unwrap_or(u32::MAX);
    let guard = Clock::builder()
        .interval(Duration::from_millis(1))
        .start_global()
        .expect("the global clock's thread");
    std::thread::sleep(Duration::from_millis(1_500));
    let status = Clock::global().status();
    let state = format!("{}; {} recalibrations so far", status.state, status.events.get(Event::Publication));

    let subjects = subjects();
    let tight = one_thread(&subjects, rounds, |subject| subject.tight);
    let awaited = one_thread(&subjects, rounds, |subject| subject.awaited);
    let has_two = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    let both = has_two.then(|| two_threads(&subjects, rounds));
    let cost = |(index, subject): (usize, &Subject)| Cost {
        clock: subject.name,
        group: subject.group,
        tight_ns: tight[index],
        awaited_ns: awaited[index],
        two_threads_ns: both.as_ref().map(|both| both[index]),
        tight_ratio: tight[index] / tight[0],
        awaited_ratio: awaited[index] / awaited[0],
        two_threads_ratio: both.as_ref().map(|both| both[index] / both[0]),
    };
    let clocks = subjects.iter().enumerate().map(cost).collect();
    report::print(&Report { rounds, calls_a_round: CALLS, state, clocks });
    drop(guard);
}

fn time(run: fn(u32)) -> f64 {
    let start = Instant::now();
    run(CALLS);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

/// ns a call for each subject.
fn one_thread(subjects: &[Subject], rounds: u32, select: Select) -> Vec<f64> {
    let mut fastest = vec![f64::INFINITY; subjects.len()];
    for _ in 0..rounds {
        for (subject, fastest) in subjects.iter().zip(&mut fastest) {
            *fastest = fastest.min(time(select(subject)));
        }
    }
    fastest
}

/// ns a call for each subject, while another thread on another CPU calls the same.
fn two_threads(subjects: &[Subject], rounds: u32) -> Vec<f64> {
    let other = || |index: usize| (subjects[index].tight)(200);
    let measured = || {
        |index: usize| {
            (subjects[index].tight)(200); // caches and predictors
            time(subjects[index].tight)
        }
    };
    let times = beside::measure(subjects.len(), rounds, other, measured);
    times.into_iter().map(|times| times.into_iter().fold(f64::INFINITY, f64::min)).collect()
}
