//! What a reading costs: every clock in interleaved rounds, the fastest round counts, ratios to the bare counter in the same
//! run. On two threads the other one makes the same calls, and the clock's thread recalibrates every millisecond.
//!
//! `cargo run --release -p tickline-benches --bin ratios [-- --rounds 200]`
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tickline::Clock;
use tickline_benches::args;
use tickline_benches::clocks::{Subject, subjects};

/// Calls in a round: 20 to 60 us, short against a time slice, so that most rounds are not interrupted.
const CALLS: u32 = 2_000;

type Select = fn(&Subject) -> fn(u32);

fn main() {
    let rounds = u32::try_from(args::number("rounds", 200)).unwrap_or(u32::MAX);
    let guard = Clock::builder()
        .interval(Duration::from_millis(1))
        .start_global()
        .expect("the global clock's thread");
    std::thread::sleep(Duration::from_millis(1_500));
    let status = Clock::global().status();
    println!("{}; {} recalibrations so far", status.state, status.events.get(tickline::Event::Publication));

    let subjects = subjects();
    let tight = one_thread(&subjects, rounds, |subject| subject.tight);
    let awaited = one_thread(&subjects, rounds, |subject| subject.awaited);
    let both = two_threads(&subjects, rounds);
    println!(
        "\n{:<32} {:>8} {:>6} {:>6} {:>8} {:>6} {:>6} {:>9} {:>6} {:>6}",
        "", "tight", "/plain", "/ord.", "awaited", "/plain", "/ord.", "2 threads", "/plain", "/ord."
    );
    for (index, subject) in subjects.iter().enumerate() {
        print!("{:<32}", subject.name);
        for (column, width) in [(&tight, 8), (&awaited, 8), (&both, 9)] {
            let ns = column[index];
            print!(" {ns:>width$.2} {:>6.3} {:>6.3}", ns / column[0], ns / column[1]);
        }
        println!();
    }
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
    let cpus = core_affinity::get_core_ids().unwrap_or_default();
    let pin = |index: usize| {
        if let Some(cpu) = cpus.get(index) {
            core_affinity::set_for_current(*cpu);
        }
    };
    let (current, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            // ORDERING: Relaxed for both, hints about what to do next.
            while !stop.load(Ordering::Relaxed) {
                // ORDERING: as above.
                (subjects[current.load(Ordering::Relaxed)].tight)(200);
            }
        });
        let measured = scope.spawn(|| {
            pin(0);
            let mut fastest = vec![f64::INFINITY; subjects.len()];
            for _ in 0..rounds {
                for (index, (subject, fastest)) in subjects.iter().zip(&mut fastest).enumerate() {
                    // ORDERING: Relaxed, as above.
                    current.store(index, Ordering::Relaxed);
                    (subject.tight)(500); // until the other thread has changed over
                    *fastest = fastest.min(time(subject.tight));
                }
            }
            // ORDERING: Relaxed, as above.
            stop.store(true, Ordering::Relaxed);
            fastest
        });
        measured.join().expect("the measuring thread")
    })
}
