//! What each clock costs: interleaved rounds, the fastest counts.

use std::time::Instant;

use super::calls::{self, Call};

/// Rounds over all clocks. The fastest of 40 differs from the fastest of 400 by less than 1 % on an idle machine.
const ROUNDS: u32 = 40;

/// How long one clock is called in one round, ns: long against the clock that times it, short against a time slice.
const ROUND_NS: f64 = 100_000.0;

/// The cost of one clock.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cost {
    pub(crate) name: &'static str,
    /// Fastest round, ns a call; `None` where the clock is not to be had.
    pub(crate) ns: Option<f64>,
}

/// Measures every clock. `progress` is told the share that is done.
pub(crate) fn measure(mut progress: impl FnMut(f64)) -> Vec<Cost> {
    let calls = calls::all(may_read_counter());
    let counts: Vec<u32> = calls.iter().map(calls_per_round).collect();
    let mut fastest = vec![f64::INFINITY; calls.len()];
    for round in 0..ROUNDS {
        for ((call, &count), fastest) in calls.iter().zip(&counts).zip(&mut fastest) {
            *fastest = fastest.min(time(call, count) / f64::from(count));
        }
        progress(f64::from(round + 1) / f64::from(ROUNDS));
    }
    let costs = calls
        .iter()
        .zip(fastest)
        .map(|(call, ns)| Cost { name: call.name, ns: Some(ns).filter(|ns| ns.is_finite()) });
    costs.collect()
}

/// Whether the gates found the counter to be there and readable.
pub(crate) fn may_read_counter() -> bool {
    let status = tickline::Clock::global().status();
    status.judged
        && status
            .verdicts
            .iter()
            .filter(|verdict| matches!(verdict.gate, tickline::Gate::Exists | tickline::Gate::Readable))
            .all(|verdict| verdict.closed.is_none())
}

/// So many calls that they take `ROUND_NS`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 16 to 100,000")]
fn calls_per_round(call: &Call) -> u32 {
    const TRIAL: u32 = 16;
    time(call, TRIAL);
    let ns = time(call, TRIAL) / f64::from(TRIAL);
    (ROUND_NS / ns.max(0.1)).clamp(16.0, 100_000.0) as u32
}

/// ns for `count` calls; infinite where the clock is not to be had.
#[expect(clippy::cast_precision_loss, reason = "a round takes far less than 2^53 ns")]
fn time(call: &Call, count: u32) -> f64 {
    let Some(run) = &call.run else { return f64::INFINITY };
    let start = Instant::now();
    run(count);
    start.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_that_is_there_has_a_cost() {
        let mut last = 0.0;
        let costs = measure(|done| {
            assert!(done > last);
            last = done;
        });
        assert!((last - 1.0).abs() < f64::EPSILON);
        for cost in &costs {
            assert!(cost.ns.is_none_or(|ns| ns > 0.0), "{cost:?}");
        }
        assert!(costs.iter().any(|cost| cost.name == "clock_gettime MONOTONIC" && cost.ns.is_some()));
    }
}
