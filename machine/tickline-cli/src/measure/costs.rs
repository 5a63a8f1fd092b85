//! Measures the cost of each clock in interleaved rounds, of which the fastest counts.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tickline::{ClockState, Driver, Reason, Status};

use super::calls::{self, Call, MONOTONIC, MONOTONIC_COARSE, REALTIME, REALTIME_COARSE};
use super::served_by::ServedBy;
use super::stopwatch::Stopwatch;

/// The number of rounds over all clocks. On an idle machine, the fastest of 40 rounds differs from
/// the fastest of 400 by less than 1 %.
pub(crate) const ROUNDS: u32 = 40;

/// The time for one clock in one round, ns. It is long compared with a reading of the clock that
/// measures it, and short compared with a time slice of the scheduler.
const ROUND_NS: f64 = 100_000.0;

/// The clocks of the long run: coarse clocks, and the precise clocks that they could replace.
const LONG_RUN: [&str; 4] = [REALTIME, REALTIME_COARSE, MONOTONIC, MONOTONIC_COARSE];

/// The number of calls in a clock's turn in the long run. A turn takes 0.5 ms to 0.2 s.
const TURN_CALLS: u32 = 100_000;

/// The time for some recalibrations, after which a line lasts for seconds.
const SETTLED: Duration = Duration::from_millis(500);

/// The longest wait for the first line, which follows the comparison of the CPUs' counters.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest wait for the comparison of the CPUs' counters. It takes about a second on an idle
/// machine, and longer on a busy one. With two seconds of measurement it ends well before the 10 s
/// after which monitoring systems end a check.
const COMPARISON_PATIENCE: Duration = Duration::from_secs(3);

/// One clock's cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct CostRow {
    /// The clock, or the call.
    pub(crate) clock: String,
    /// The cost of a call in a tight loop, in the fastest round, ns; null if the clock is not
    /// available, or if the process may not read it.
    pub(crate) cost_ns: Option<f64>,
    /// The cost of a call in the median round, ns.
    pub(crate) median_ns: Option<f64>,
    /// The cost of a call that nine of ten rounds do not exceed, ns.
    pub(crate) p90_ns: Option<f64>,
    /// `cost_ns` as a multiple of the cost of a bare read of the counter.
    pub(crate) ratio_to_counter: Option<f64>,
    /// The smallest step between two readings, ns; null if the clock did not move.
    pub(crate) resolution_ns: Option<u64>,
    /// The answerer; null if it is unknown, or if the call is not a clock of the system.
    pub(crate) served_by: Option<ServedBy>,
}

/// The results of `bench` beside the costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct BenchSummary {
    /// Number of rounds over all clocks, for the figures in `costs`.
    pub(crate) rounds: u32,
    /// Number of calls of each clock in the long run.
    pub(crate) calls: u32,
    /// The long run of each clock.
    pub(crate) long_run: Vec<LongRun>,
    /// The share of the time for which a CPU has run the measurement, percent. It is less than 100
    /// if other programs use the CPUs. Null if the system does not report it.
    pub(crate) cpu_percent: Option<f64>,
}

/// Many calls in a row, with all interruptions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LongRun {
    /// The clock.
    pub(crate) clock: &'static str,
    /// The mean cost of a call, ns; null if the clock is not available.
    pub(crate) mean_ns: Option<f64>,
    /// The time of all calls together, s; null if the clock is not available.
    pub(crate) total_s: Option<f64>,
}

/// Waits for the steady state of the clock's thread, for a limited time.
pub(crate) fn settle() {
    let waits =
        |status: &Status| status.state == ClockState::Calibrating || is_comparing(status.state);
    super::status_when(|status| !waits(status), PATIENCE);
    thread::sleep(SETTLED);
}

/// Waits until the clock's thread has compared the CPUs' counters, for a limited time: until then
/// readings come from the OS clock, on a machine that may have good counters.
pub(crate) fn wait_for_comparison() {
    super::status_within(
        |status| !(status.driver == Some(Driver::Thread) && is_comparing(status.state)),
        COMPARISON_PATIENCE,
    );
}

/// Whether the clock waits for the comparison of the CPUs' counters.
fn is_comparing(state: ClockState) -> bool {
    state == ClockState::Fallback(Reason::Untested)
}

/// Measures every call, in at least one round. `progress` receives the finished share.
pub(crate) fn measure(calls: &[Call], rounds: u32, mut progress: impl FnMut(f64)) -> Vec<CostRow> {
    let counts: Vec<u32> = calls.iter().map(calls_per_round).collect();
    let mut samples = vec![Vec::new(); calls.len()];
    for round in 0..rounds {
        for ((call, &count), costs) in calls.iter().zip(&counts).zip(&mut samples) {
            costs.push(time_calls(call, count) / f64::from(count));
        }
        progress(f64::from(round + 1) / f64::from(rounds));
    }
    let mut rows: Vec<_> = calls
        .iter()
        .zip(samples)
        .map(|(call, costs)| CostRow::new(call.name, costs))
        .collect();
    let counter_ns = rows
        .iter()
        .find(|row| row.clock == calls::COUNTER)
        .and_then(|row| row.cost_ns);
    for row in &mut rows {
        row.ratio_to_counter = row
            .cost_ns
            .zip(counter_ns)
            .map(|(ns, counter_ns)| ns / counter_ns);
    }
    rows
}

impl CostRow {
    fn new(name: &str, mut taken_ns: Vec<f64>) -> Self {
        taken_ns.sort_by(f64::total_cmp);
        let last = taken_ns.len().saturating_sub(1);
        let at = |rank: usize| taken_ns.get(rank).copied().filter(|ns| ns.is_finite());
        let p90_ns = at((last * 9).div_ceil(10));
        Self {
            clock: name.to_owned(),
            cost_ns: at(0),
            median_ns: at(last / 2),
            p90_ns,
            ..Self::default()
        }
    }
}

/// Calls each clock of the long run `count` times; the clocks take turns.
pub(crate) fn long_run(calls: &[Call], count: u32, mut progress: impl FnMut(f64)) -> Vec<LongRun> {
    let named = |name: &str| calls.iter().find(|call| call.name == name);
    let mut totals = LONG_RUN.map(|name| (name, named(name), 0.0));
    let mut done = 0;
    while done < count {
        let turn = TURN_CALLS.min(count - done);
        for (_, call, total_ns) in &mut totals {
            *total_ns += call.map_or(f64::INFINITY, |call| time_calls(call, turn));
        }
        done += turn;
        progress(f64::from(done) / f64::from(count));
    }
    let row = |(clock, _, total_ns): (_, _, f64)| {
        let total_ns = Some(total_ns).filter(|ns| ns.is_finite());
        let mean_ns = total_ns.map(|ns| ns / f64::from(count));
        LongRun {
            clock,
            mean_ns,
            total_s: total_ns.map(|ns| ns / 1e9),
        }
    };
    totals.map(row).into()
}

/// The number of calls that take `ROUND_NS`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 16 to 100,000"
)]
fn calls_per_round(call: &Call) -> u32 {
    const TRIAL: u32 = 16;
    time_calls(call, TRIAL);
    let start = Stopwatch::start();
    let ns = time_calls(call, TRIAL) / f64::from(TRIAL);
    // By a clock that stands still, a call seems to take no time, and a round would take seconds.
    // Most of the stopwatch's time may be that of its own system calls.
    let least_ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(8 * TRIAL);
    (ROUND_NS / ns.max(least_ns).max(0.1)).clamp(16.0, 100_000.0) as u32
}

/// The time of `count` calls, ns; infinite if the clock is not available.
fn time_calls(call: &Call, count: u32) -> f64 {
    let Some(run) = &call.run else {
        return f64::INFINITY;
    };
    let start = Instant::now();
    run(count);
    start.elapsed().as_secs_f64() * 1e9
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// A call that counts itself.
    fn counted(name: &'static str, count: &Rc<Cell<u32>>) -> Call {
        let count = Rc::clone(count);
        Call {
            name,
            run: Some(Box::new(move |calls| {
                count.set(count.get() + calls);
                thread::sleep(Duration::from_millis(1));
            })),
            read_ns: None,
        }
    }

    fn missing(name: &'static str) -> Call {
        Call {
            name,
            run: None,
            read_ns: None,
        }
    }

    #[test]
    fn every_clock_that_exists_has_a_cost_and_a_ratio_to_the_counter() {
        let count = Rc::default();
        let calls = [
            counted(calls::COUNTER, &count),
            counted(MONOTONIC, &count),
            missing("no such clock"),
        ];
        let mut shares = Vec::new();
        let rows = measure(&calls, 2, |share| shares.push(share));
        assert_eq!(shares, [0.5, 1.0]);
        let [counter, monotonic, missing] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert_eq!(counter.ratio_to_counter, Some(1.0));
        let ratio = monotonic.cost_ns.unwrap() / counter.cost_ns.unwrap();
        assert_eq!(monotonic.ratio_to_counter, Some(ratio));
        assert_eq!((missing.cost_ns, missing.ratio_to_counter), (None, None));
    }

    #[test]
    fn the_long_run_makes_every_call() {
        let count = Rc::default();
        let mut last_share = 0.0;
        let calls = [counted(MONOTONIC, &count)];
        let runs = long_run(&calls, TURN_CALLS + 7, |share| last_share = share);
        assert_eq!(count.get(), TURN_CALLS + 7);
        assert_eq!(last_share, 1.0);
        assert_eq!(runs.len(), LONG_RUN.len());
        let is_monotonic = |run: &&LongRun| run.clock == MONOTONIC;
        let monotonic = runs.iter().find(is_monotonic).unwrap();
        let total_s = monotonic.mean_ns.unwrap() * f64::from(TURN_CALLS + 7) / 1e9;
        assert!((monotonic.total_s.unwrap() - total_s).abs() < 1e-9);
        // The other clocks are not among the calls.
        for run in runs.iter().filter(|run| !is_monotonic(run)) {
            assert_eq!((run.mean_ns, run.total_s), (None, None), "{run:?}");
        }
    }

    #[test]
    fn a_cost_is_the_least_the_median_and_the_90th_percentile_of_the_rounds() {
        for (taken_ns, expected) in [
            (
                vec![9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 99.0],
                [1.0, 6.0, 10.0].map(Some),
            ),
            (vec![3.0], [Some(3.0); 3]),
            (vec![f64::INFINITY; 3], [None; 3]),
        ] {
            let row = CostRow::new("a", taken_ns);
            assert_eq!([row.cost_ns, row.median_ns, row.p90_ns], expected);
        }
    }

    /// The fastest round takes no longer than the mean round, and the rounds take no longer than
    /// the measurement.
    #[test]
    fn a_cost_is_the_time_of_a_round_by_its_calls() {
        let count = Rc::default();
        let calls = [counted(MONOTONIC, &count)];
        let start = Instant::now();
        let rows = measure(&calls, 2, |_| {});
        let elapsed_ns = start.elapsed().as_secs_f64() * 1e9;
        let cost_ns = rows[0].cost_ns.unwrap();
        // A round is 16 calls, and takes 1 ms or more.
        assert!(cost_ns >= 1e6 / 16.0, "{cost_ns}");
        assert!(cost_ns <= elapsed_ns / 32.0, "{cost_ns} of {elapsed_ns}");
    }

    /// Two trials and two rounds, each of the fewest calls.
    #[test]
    fn a_slow_call_is_made_16_times_a_round() {
        let count = Rc::default();
        measure(&[counted(MONOTONIC, &count)], 2, |_| {});
        assert_eq!(count.get(), 4 * 16);
    }

    #[test]
    fn a_fast_call_is_made_thousands_of_times_a_round() {
        let idle = Call {
            name: MONOTONIC,
            run: Some(Box::new(|_| {})),
            read_ns: None,
        };
        // An interruption makes a trial slow.
        let most = (0..10).map(|_| calls_per_round(&idle)).max().unwrap();
        assert!((1_000..=100_000).contains(&most), "{most}");
    }

    #[test]
    fn the_long_run_adds_the_times_of_its_turns() {
        let calls = [counted(MONOTONIC, &Rc::default())];
        let runs = long_run(&calls, 2 * TURN_CALLS, |_| {});
        let monotonic = runs.iter().find(|run| run.clock == MONOTONIC).unwrap();
        // Each turn takes 1 ms or more.
        let total_s = monotonic.total_s.unwrap();
        assert!(total_s >= 0.002, "{total_s}");
    }
}
