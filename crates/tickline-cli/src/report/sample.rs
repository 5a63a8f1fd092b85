//! A made-up document with everything that a report can show, for tests, and for
//! `cargo xtask report`, which opens the report in a browser.

use crate::diagnose::{Finding, Place, Severity, Steps};
use crate::document::{CostRow, Document, LatencyRow, TrackSummary};
use crate::measure::calls::MONOTONIC;
use crate::measure::served::ServedBy;
use crate::measure::track::Point;
use crate::measure::warp::{Warp, WarpPair};

/// A text that would run if the report did not escape it.
pub(super) const HOSTILE: &str = "</script><script>alert(1)</script><!-- & \" ' \u{2028}";

pub(super) fn cost(clock: &'static str, cost_ns: Option<f64>, served_by: Option<ServedBy>) -> CostRow {
    CostRow { clock: clock.into(), cost_ns, served_by, ..CostRow::default() }
}

/// With a bound of 25 ns.
pub(crate) const fn point(at_s: f64, offset_ns: f64) -> Point {
    let (before_ns, after_ns) = (25, 25);
    Point { at_s, offset_ns, bracket_ns: 15.0, before_ns, after_ns, inside: true, violated: false }
}

/// 20 s with a bound that grows and shrinks, an outlier, and a violation.
pub(super) fn track() -> TrackSummary {
    let made = |index: u32| {
        let bound_ns = u64::from(20 + index % 25);
        let offset_ns = if index == 7 { -551.0 } else { f64::from(index % 13) - 6.0 };
        let (before_ns, after_ns, violated) = (bound_ns, bound_ns, index == 7);
        Point { before_ns, after_ns, violated, ..point(f64::from(index) * 0.02, offset_ns) }
    };
    TrackSummary::of((0..1_000).map(made).collect())
}

const fn latency(clock: &'static str, median_ns: u64) -> LatencyRow {
    let (min_ns, p99_ns, p99_99_ns, max_ns) = (0, median_ns + 2, median_ns + 140, median_ns + 20_000);
    LatencyRow { clock, readings: 1_000_000, min_ns, median_ns, p99_ns, p99_99_ns, max_ns, bins: Vec::new() }
}

/// More pairs than a table shows: one is unsynchronised, one could not be compared.
fn warp() -> Warp {
    let offset = |least_ns, most_ns| WarpPair {
        exchanges: 5_000,
        offset_least_ns: Some(least_ns),
        offset_most_ns: Some(most_ns),
        synchronised: Some(true),
        ..WarpPair::default()
    };
    let unsynchronised = WarpPair {
        to_cpu: 48,
        warps: 2_000,
        largest_warp_ns: 3_900.0,
        synchronised: Some(false),
        ..offset(-4_000.0, -3_900.0)
    };
    let unknown = WarpPair { to_cpu: 47, ..WarpPair::default() };
    let others = (1..47).map(|to_cpu| WarpPair { to_cpu, ..offset(-40.0, 30.0) });
    let pairs = [unsynchronised, unknown].into_iter().chain(others).collect();
    Warp {
        cpus: (0..49).collect(),
        synchronised: Some(false),
        largest_warp_ns: 3_900.0,
        pairs,
        ..Warp::default()
    }
}

/// The document.
pub(super) fn document() -> Document {
    let mut document = Document::new("report", Vec::new(), None);
    document.fast = false;
    document.verdict = format!("A sentence that would run: {HOSTILE}");
    (document.machine.ntp, document.machine.ntp_daemon) = (None, None);
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
    document.latencies = vec![latency("tickline::now_ns", 9), latency(MONOTONIC, 1_509)];
    document.warp = Some(warp());
    document
}
