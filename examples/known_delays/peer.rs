//! [divan](https://docs.rs/divan) on one delay, with the counter for its timer and one iteration a
//! sample. It runs in a child process, because divan prints its results and returns none.

use std::error::Error;
use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

use crate::delays::chain;

/// The child's delay: a count of multiplications, or `empty`.
const VARIABLE: &str = "TICKLINE_KNOWN_DELAYS_PEER";

/// More samples than fit into the time, so that the time decides.
const SAMPLES: &str = "10000000";

/// Whether this process is the child.
pub(crate) fn is_child() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Measures and prints, in the child.
pub(crate) fn run_child() {
    divan::main();
}

#[divan::bench]
fn delay(bencher: divan::Bencher) {
    let count = std::env::var(VARIABLE).unwrap_or_default().parse::<u32>();
    let inputs = bencher.with_inputs(|| 3_u64);
    match count {
        Ok(count) => inputs.bench_local_values(|input| {
            black_box(chain(input, count));
        }),
        Err(_) => inputs.bench_local_values(|_| ()),
    }
}

/// divan's median and mean, ns. `None` as the count is the empty closure.
pub(crate) fn median_and_mean_ns(count: Option<u32>, during: Duration) -> Result<[f64; 2], Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--bench", "--color", "never", "--sample-size", "1", "--sample-count", SAMPLES])
        .args(["--max-time", &during.as_secs_f64().to_string()])
        .env("DIVAN_TIMER", "tsc")
        .env(VARIABLE, count.map_or_else(|| "empty".to_owned(), |count| count.to_string()))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // fastest, slowest, median, mean, samples, iterations
    let row = text.lines().find(|line| line.contains(" delay ") && line.contains('│'));
    let columns: Vec<&str> = row.ok_or_else(|| format!("divan printed {text:?}"))?.split('│').collect();
    let figure = |column: usize| columns.get(column).and_then(|text| ns(text));
    match (figure(2), figure(3)) {
        (Some(median), Some(mean)) => Ok([median, mean]),
        _ => Err(format!("divan printed {columns:?}").into()),
    }
}

/// A time as divan prints it: `48.2 ns`.
fn ns(text: &str) -> Option<f64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let factor = match unit {
        "ps" => 1e-3,
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_divan_prints_them() {
        assert_eq!(ns(" 48.2 ns "), Some(48.2));
        assert_eq!(ns("1.5 µs"), Some(1_500.0));
        assert_eq!((ns("100"), ns("x ns"), ns("1 parsec")), (None, None, None));
    }
}
