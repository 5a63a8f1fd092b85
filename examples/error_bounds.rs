//! Certainty: readings with bounds, the least and the most that something took, and which of two
//! threads was first.
//!
//! `cargo run --release --example error_bounds`
//!
//! Its output has: "took between", "before", "cannot be told", "UTC", "serves".
//!
//! The bounds contain `CLOCK_MONOTONIC` as long as its rate stays within `Status::max_drift_ppb`,
//! and nothing has jumped since the last recalibration.
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::iter;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tickline::{Clock, Instant, Reading, UnixTime};

/// Which of two was first, as far as their bounds say.
#[derive(Default)]
struct Order {
    before: u64,
    after: u64,
    unknown: u64,
}

impl Order {
    fn note(&mut self, one: &Reading<Instant>, other: &Reading<Instant>) {
        if one.latest() < other.earliest() {
            self.before += 1;
        } else if other.latest() < one.earliest() {
            self.after += 1;
        } else {
            self.unknown += 1;
        }
    }
}

/// All readings that one thread can make in 20 ms.
fn readings(start: &Barrier) -> Vec<Reading<Instant>> {
    start.wait();
    let end = Instant::now() + Duration::from_millis(20);
    iter::repeat_with(|| Clock::global().reading()).take_while(|_| Instant::now() < end).collect()
}

fn main() -> Result<(), tickline::Error> {
    let _clock = tickline::start()?;
    let clock = Clock::global();

    // The bound is narrow once the reference has been watched for a while.
    for _ in 0..3 {
        let start = clock.reading();
        thread::sleep(Duration::from_millis(100));
        let end = clock.reading();
        println!(
            "a sleep of 100 ms took between {:?} and {:?}",
            end.earliest() - start.latest(),
            end.latest() - start.earliest(),
        );
    }

    let start = Barrier::new(2);
    let (mine, theirs) = thread::scope(|scope| {
        let other = scope.spawn(|| readings(&start));
        (readings(&start), other.join().expect("nothing panics there"))
    });
    let mut order = Order::default();
    // Compares each reading of this thread with the neighbouring ones of the other.
    for one in &mine {
        let place = theirs.partition_point(|other| other.at() < one.at());
        if let [before, after] = theirs.get(place.saturating_sub(1)..=place).unwrap_or_default() {
            order.note(one, before);
            order.note(one, after);
        }
    }
    println!(
        "of the readings of two threads, {} were before their neighbours, {} after them, and of {} it cannot be told",
        order.before, order.after, order.unknown
    );

    let (unix, status) = (clock.unix_reading(), clock.status());
    let [earliest_ns, latest_ns] = [unix.earliest(), unix.latest()].map(UnixTime::as_nanos);
    match status.utc_error_ns {
        Some(error_ns) => println!(
            "Unix time is between {earliest_ns} and {latest_ns} ns, and the time daemon claims that UTC is within {error_ns} ns of it"
        ),
        None => println!(
            "Unix time is between {earliest_ns} and {latest_ns} ns; there is no claim how far that is from UTC"
        ),
    }
    println!("the maximum drift is {} ppb; {}", status.max_drift_ppb, status.state);
    Ok(())
}
