//! How long the iterations of a loop take: a histogram, and what measuring adds to it.
//!
//! `cargo run --release --example latency_histogram`
//!
//! Its output has: "insert and remove", "nothing, by tickline", "nothing, by std", "p99.9", "serves".
//!
//! `Instant::now` is a plain read of the counter, which the CPU may do before older loads have
//! their values. For single calls that take some ns and wait for memory, `Instant::now_ordered`
//! at the end includes that wait.
#![expect(clippy::print_stdout, reason = "an example that prints a table")]

use std::collections::BTreeMap;
use std::hint::black_box;

use hdrhistogram::Histogram;
use tickline::{Clock, Instant};

const TURNS: u64 = 100_000;

/// Three digits, whatever the size: the slowest turn counts, too.
fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("1 to 5 digits are allowed")
}

fn show(what: &str, histogram: &Histogram<u64>) {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| histogram.value_at_quantile(quantile));
    println!("{what:<24} {p50:>8} {p99:>8} {p999:>8} {:>10}", histogram.max());
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _clock = tickline::start()?;

    let mut map = BTreeMap::new();
    let (mut work, mut nothing, mut nothing_by_std) = (histogram(), histogram(), histogram());
    for turn in 0..TURNS {
        let key = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;

        let start = Instant::now();
        map.insert(key, turn);
        black_box(map.remove(&(key / 2)));
        work.record(start.elapsed().as_nanos().try_into()?)?;

        let start = Instant::now();
        nothing.record(start.elapsed().as_nanos().try_into()?)?;

        let start = std::time::Instant::now();
        nothing_by_std.record(start.elapsed().as_nanos().try_into()?)?;
    }

    println!("{:<24} {:>8} {:>8} {:>8} {:>10}", "ns", "p50", "p99", "p99.9", "max");
    show("insert and remove", &work);
    show("nothing, by tickline", &nothing);
    show("nothing, by std", &nothing_by_std);
    println!("{}", Clock::global().status().state);
    Ok(())
}
