//! A made-up document with everything that a report can show, for tests, and for `cargo xtask page`,
//! which opens the report in a browser.

use crate::diagnose::{Finding, Place, Severity, Steps};
use crate::document::{CostRow, Document, LatencyBin, LatencyRow, TrackSummary};
use crate::measure::calls::MONOTONIC;
use crate::measure::pattern::Pattern;
use crate::measure::served_by::ServedBy;
use crate::measure::track::Point;
use crate::measure::warp::{Warp, WarpPair};

/// A text that would run if the report did not escape it.
pub(super) const HOSTILE: &str = "</script><script>alert(1)</script><!-- & \" ' \u{2028}";

fn cost(clock: &'static str, cost_ns: Option<f64>, served_by: Option<ServedBy>) -> CostRow {
    CostRow {
        clock: clock.into(),
        cost_ns,
        median_ns: cost_ns,
        p90_ns: cost_ns,
        ratio_to_counter: None,
        resolution_ns: None,
        served_by,
    }
}

/// 20 s with a bound that grows and shrinks, an outlier, and a violation.
fn track() -> TrackSummary {
    let point = |index: u32| {
        let at_s = f64::from(index) * 0.02;
        let bound_ns = u64::from(20 + index % 25);
        Point {
            at_s,
            offset_ns: if index == 7 { -551.0 } else { f64::from(index % 13) - 6.0 },
            bracket_ns: 15.0,
            before_ns: bound_ns,
            after_ns: bound_ns,
            inside: true,
            violated: index == 7,
        }
    };
    TrackSummary {
        largest_offset_ns: 551.0,
        largest_bound_ns: 44,
        outside_bracket: 0,
        bound_violated: 1,
        points: (0..1_000).map(point).collect(),
    }
}

fn latency(clock: &'static str, shift: u64) -> LatencyRow {
    let bins =
        [(0, 0, 10), (9, 9, 900_000), (10, 10, 90_000), (11, 11, 5_000), (150, 150, 70), (20_000, 20_223, 3)];
    let moved = |ns: u64| if ns == 0 { 0 } else { ns + shift };
    let bins = bins.map(|(from, to, count)| LatencyBin { from_ns: moved(from), to_ns: moved(to), count });
    LatencyRow {
        clock,
        readings: bins.iter().map(|bin| bin.count).sum(),
        min_ns: 0,
        median_ns: moved(9),
        p99_ns: moved(11),
        p99_99_ns: moved(150),
        max_ns: moved(20_223),
        bins: bins.to_vec(),
    }
}

/// 96 CPUs of two sockets with unsynchronised counters; one CPU could not be compared.
fn warp() -> Warp {
    const CPUS: u32 = 96;
    let pair = |from_cpu: u32, to_cpu: u32| {
        let unsynchronised = from_cpu < CPUS / 2 && to_cpu >= CPUS / 2;
        let known = to_cpu != 30;
        let far_ns = if unsynchronised { 4_000.0 } else { 40.0 + f64::from(to_cpu - from_cpu) * 4.0 };
        WarpPair {
            from_cpu,
            to_cpu,
            exchanges: 5_000,
            warps: if unsynchronised { 2_000 } else { 0 },
            largest_warp_ns: if unsynchronised { 3_900.0 } else { 0.0 },
            offset_least_ns: known.then_some(-far_ns),
            offset_most_ns: known.then_some(if unsynchronised { -3_900.0 } else { 30.0 }),
            synchronised: known.then_some(!unsynchronised),
        }
    };
    let pairs = (0..CPUS).flat_map(|from| (from + 1..CPUS).map(move |to| (from, to)));
    Warp {
        cpus: (0..CPUS).collect(),
        pattern: Pattern::All,
        frequency_hz: Some(2e9),
        resolution_ns: Some(0.5),
        untested_cpus: None,
        synchronised: Some(false),
        unknown: None,
        largest_warp_ns: 3_900.0,
        pairs: pairs.map(|(from, to)| pair(from, to)).collect(),
    }
}

/// The document.
pub(super) fn document() -> Document {
    let mut document = Document::new("report");
    document.fast = false;
    document.verdict = format!("A sentence that would run: {HOSTILE}");
    document.machine.cpu = Some(HOSTILE.to_owned());
    document.machine.kernel_command_line = Some(format!("a_parameter={}", "0123456789".repeat(40)));
    document.machine.kernel_log = Some(vec![HOSTILE.to_owned(), "x".repeat(300)]);
    document.findings = Some(
        [Severity::Wrong, Severity::Slow, Severity::Note]
            .map(|severity| Finding {
                steps: (severity == Severity::Slow).then(|| Steps {
                    place: Place::Host,
                    now: Some("echo a_clock | sudo tee /a/place".to_owned()),
                    keep: Some(format!("sed -i {}", "long".repeat(60))),
                    undo: Some("echo another | sudo tee /a/place".to_owned()),
                    ..Steps::default()
                }),
                code: "a_code",
                severity,
                what: "something is as it should not be".to_owned(),
                evidence: vec![HOSTILE.to_owned(), format!("/sys/{}", "long/".repeat(60))],
                fix: "something else".to_owned(),
                gain_ratio: (severity == Severity::Slow).then_some(52.5),
                who: (severity == Severity::Slow).then_some("sudo tickline who"),
            })
            .into(),
    );
    document.costs = vec![
        cost("tickline::now_ns", Some(8.8), None),
        cost("rdtscp", None, None),
        cost("std::time::Instant", Some(1_540.0), Some(ServedBy::SystemCall)),
        cost(MONOTONIC, Some(1_530.0), Some(ServedBy::SystemCall)),
        cost("clock_gettime MONOTONIC_COARSE", Some(2.5), Some(ServedBy::Vdso)),
        cost("clock_gettime PROCESS_CPUTIME", Some(18_000.0), Some(ServedBy::SystemCall)),
    ];
    document.track = Some(track());
    document.latencies = vec![latency("tickline::now_ns", 0), latency(MONOTONIC, 1_500)];
    document.warp = Some(warp());
    document
}
