//! An invented document with everything that a report can show. Tests use it, and `cargo xtask
//! report`, which opens the report in a browser.

use tickline::ClockState;

use super::Document;
use crate::measure::calls::{MONOTONIC, NOW_NS};
use crate::measure::costs::CostRow;
use crate::measure::latency::LatencyRow;
use crate::measure::track::{OffsetSample, TrackSummary};
use crate::measure::warp::{Pattern, WarpPair, WarpTest};

/// A text that would run if the report did not escape it.
pub(crate) const HOSTILE: &str = "</script><script>alert(1)</script><!-- & \" ' \u{2028}";

/// A sample with a bound of 25 ns.
pub(crate) const fn offset_sample(at_s: f64, offset_ns: f64) -> OffsetSample {
    OffsetSample {
        at_s,
        offset_ns,
        bracket_ns: 15.0,
        bound_before_ns: 25,
        bound_after_ns: 25,
        inside_bracket: true,
        bound_violated: false,
        state: ClockState::Fast,
        cpu: None,
    }
}

/// 4 s with a bound that grows and shrinks, an outlier, and a violation. The range of the offsets
/// ends just beyond a mark, so that the labels of both axes are close to each other.
fn track() -> TrackSummary {
    let made = |index: u32| {
        let at_s = f64::from(index) * 0.004;
        let bound_ns = u64::from(20 + index % 22);
        let offset_ns = if index == 7 {
            -551.0
        } else {
            f64::from(index % 13) - 6.5
        };
        let bound_before_ns = bound_ns;
        let bound_after_ns = bound_ns;
        let bound_violated = index == 7;
        OffsetSample {
            bound_before_ns,
            bound_after_ns,
            bound_violated,
            ..offset_sample(at_s, offset_ns)
        }
    };
    TrackSummary::new((0..1_000).map(made).collect())
}

const fn latency(clock: &'static str, median_ns: u64) -> LatencyRow {
    let (min_ns, p99_ns, p99_99_ns, max_ns) =
        (0, median_ns + 2, median_ns + 140, median_ns + 20_000);
    LatencyRow {
        clock,
        readings: 1_000_000,
        min_ns,
        median_ns,
        p99_ns,
        p99_99_ns,
        max_ns,
    }
}

/// A comparison of the first CPU with this many others.
pub(crate) fn warp(synchronised: Option<bool>, pairs: u32) -> WarpTest {
    let is_off = synchronised == Some(false);
    let pair = |to_cpu| WarpPair {
        to_cpu,
        largest_warp_ns: if is_off {
            f64::from(to_cpu) * 1_000.0
        } else {
            0.0
        },
        offset_least_ns: synchronised.map(|_| -30.0),
        offset_most_ns: synchronised.map(|_| 40.0),
        synchronised,
        ..WarpPair::default()
    };
    WarpTest {
        cpus: (0..=pairs).collect(),
        pattern: Pattern::Star,
        synchronised,
        largest_warp_ns: if is_off {
            f64::from(pairs) * 1_000.0
        } else {
            0.0
        },
        pairs: (1..=pairs).map(pair).collect(),
        ..WarpTest::default()
    }
}

/// The document: a recorded machine whose clock is slow, with hostile facts.
pub(crate) fn document() -> Document {
    let recorded = include_str!("../../tests/facts/guest-hpet.json");
    let mut recorded: Document = serde_json::from_str(recorded).unwrap();
    recorded.costs.push(CostRow {
        clock: "rdtscp".to_owned(),
        ..CostRow::default()
    });
    recorded.machine.cpu = Some(HOSTILE.to_owned());
    recorded.machine.clock_gettime_file = Some(format!("/{}{HOSTILE}", "long/".repeat(60)));
    recorded.machine.kernel_command_line = Some(format!("a_parameter={}", "0123456789".repeat(40)));
    recorded.machine.kernel_log = Some(vec![HOSTILE.to_owned(), "x".repeat(300)]);
    let mut document = Document::new("report", recorded.costs, Some(track()));
    document.fast = false;
    document.result = format!("A sentence that would run: {HOSTILE}");
    document.machine = recorded.machine;
    document.add_diagnosis();
    document.latencies = vec![latency(NOW_NS, 9), latency(MONOTONIC, 1_509)];
    // A table shows fewer pairs than these.
    document.warp = Some(warp(Some(false), 48));
    document
}
