//! criterion with `WallTime`, and what `tickline-criterion` adds, on the routines A and B: `cargo
//! bench -p tickline-benches --bench harness_criterion`. Its last line is JSON.
#![expect(clippy::print_stdout, reason = "a program that prints its result")]

#[path = "../../../examples/known_delays/delays.rs"]
#[allow(dead_code, reason = "another program needs the rest")]
mod delays;
mod routine;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use criterion::Criterion;
use criterion::measurement::{Measurement, WallTime};
use serde_json::{Value, json};
use tickline_criterion::{BenchPairs, CounterTime, compare};

use delays::{long, multiplications, run_ns};

/// Of routine A.
const DELAY_NS: f64 = 50.0;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("tickline-harness-{}", std::process::id()));
    let found = measure(&directory);
    fs::remove_dir_all(&directory)?;
    println!("{}", found?);
    Ok(())
}

fn measure(directory: &Path) -> Result<Value, Box<dyn Error>> {
    // The same number for all harnesses, with load and without.
    let count = match std::env::var(routine::VARIABLE) {
        Ok(text) => text.parse()?,
        Err(_) => multiplications(DELAY_NS),
    };
    let during = Duration::from_millis(300);
    let truth = || (long(during, || run_ns(routine::a(count))), long(during, || run_ns(routine::b(count))));
    let before_ns = truth();
    let by_wall = by_criterion(directory, "WallTime", &|| WallTime, count)?;
    let time = CounterTime::builder().quiet().output_directory(directory).start()?;
    let by_counter = by_criterion(directory, "CounterTime", &|| time.clone(), count)?;
    let pairs = |name: &str, p50: &dyn Fn(&mut Criterion<CounterTime>, &str)| {
        p50(&mut criterion(directory, time.clone()), name);
        stored(&directory.join(name).join("new/pairs.json"))
    };
    let of_a = pairs("pairs, A", &|criterion, name| {
        criterion.bench_pairs(name, |bencher| bencher.iter(routine::a(count)));
    })?;
    let of_b = pairs("pairs, B", &|criterion, name| {
        criterion.bench_pairs(name, |bencher| bencher.iter(routine::b(count)));
    })?;
    let compared = compare(&mut criterion(directory, time), "compare", routine::a(count), routine::b(count))
        .ok_or("no comparison")?;
    let after_ns = truth();
    Ok(json!({
        "multiplications": count,
        "truth": {
            "a_ns": f64::midpoint(before_ns.0, after_ns.0),
            "b_ns": f64::midpoint(before_ns.1, after_ns.1),
        },
        "wall_time": by_wall,
        "counter_time": by_counter,
        "pairs": {
            "a_ns": of_a["quantiles_ns"]["p50"],
            "b_ns": of_b["quantiles_ns"]["p50"],
            "a_p99_ns": of_a["quantiles_ns"]["p99"],
            "pairs": of_a["pairs"],
            "disturbed": of_a["disturbed"],
        },
        "compare": {
            "a_ns": compared.a_ns,
            "b_ns": compared.b_ns,
            "difference_percent": compared.percent(),
            "low_percent": compared.low_ns / compared.a_ns * 100.0,
            "high_percent": compared.high_ns / compared.a_ns * 100.0,
            "couples": compared.couples,
            "disturbed": compared.disturbed,
        },
    }))
}

/// The medians of criterion's samples, by `iter`.
fn by_criterion<M: Measurement + 'static>(
    directory: &Path,
    clock: &str,
    time: &dyn Fn() -> M,
    count: u32,
) -> Result<Value, Box<dyn Error>> {
    let (of_a, of_b) = (format!("{clock}, A"), format!("{clock}, B"));
    criterion(directory, time()).bench_function(&of_a, |bencher| bencher.iter(routine::a(count)));
    criterion(directory, time()).bench_function(&of_b, |bencher| bencher.iter(routine::b(count)));
    let median = |id: &str| -> Result<Value, Box<dyn Error>> {
        Ok(stored(&directory.join(id).join("new/estimates.json"))?["median"]["point_estimate"].clone())
    };
    Ok(json!({ "a_ns": median(&of_a)?, "b_ns": median(&of_b)? }))
}

fn stored(path: &Path) -> Result<Value, Box<dyn Error>> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

fn criterion<M: Measurement>(directory: &Path, time: M) -> Criterion<M> {
    Criterion::default()
        .with_measurement(time)
        .without_plots()
        .output_directory(directory)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}
