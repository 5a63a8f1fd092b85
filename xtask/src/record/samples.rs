//! Records in small, for tests.

use serde_json::{Value, json};

use super::stored::Record;

/// Small records of two processors. The second is the first with a few changes.
pub(super) fn samples() -> [Record; 2] {
    let record = |name: &str, json: Value| Record { name: name.into(), json };
    let mut second = sample();
    second["processor"] = "Intel Xeon, family 6, model 207".into();
    second["note"] = "taken before".into();
    second["cost"]["clocks"][1]["tight_ns"] = 12.0.into();
    second["cost"]["clocks"][1]["tight_ratio"] = 1.29.into();
    second["startup"]["clocks"][0]["first_call_us"]["median"] = 3.0.into();
    second["drift"]["clocks"][0]["offset_change_ns"] = 7.0.into();
    second["accuracy_thread"]["most_before_ns"] = 35.into();
    second["order"]["clocks"].as_array_mut().unwrap().truncate(1);
    [record("2026-11-20-amd.json", sample()), record("2026-11-21-intel.json", second)]
}

/// A record with a peer that is better in places, and one that is missing.
fn sample() -> Value {
    let spread = |median: f64| json!({ "median": median, "largest": median * 2.0 });
    let cost = |clock: &str, group: &str, tight_ns: f64, two_threads: Option<f64>| {
        json!({
            "clock": clock, "group": group, "tight_ns": tight_ns, "tight_ratio": tight_ns / 8.0,
            "awaited_ns": tight_ns + 8.0, "awaited_ratio": (tight_ns + 8.0) / 16.0,
            "two_threads_ns": two_threads, "two_threads_ratio": two_threads.map(|ns| ns / 8.0),
        })
    };
    let drift = |tickline_ppb: f64, peer_ppb: f64| {
        json!({ "watched_s": 60, "settled_s": 10, "samples": 3_000, "clocks": [
            { "clock": "tickline now_ns", "group": "time", "drift_ppb": tickline_ppb, "offset_change_ns": 11.0,
              "scatter_rms_ns": 3.5 },
            { "clock": "peer now", "group": "time", "drift_ppb": peer_ppb, "offset_change_ns": 3.2e6,
              "scatter_rms_ns": 2.0 },
        ]})
    };
    let accuracy = |driver: &str, thread_cpu_percent: Option<f64>| {
        json!({
            "driver": driver, "watched_s": 60, "readings": 500_000_000, "outside": 0, "bound_violated": 0,
            "least_offset_ns": -10.4, "most_offset_ns": 13.1, "mean_offset_ns": 0.4, "most_before_ns": 25,
            "most_after_ns": 20, "thread_cpu_percent": thread_cpu_percent,
        })
    };
    let counts = |backward: u64, exchanges: u64| json!({ "backward": backward, "exchanges": exchanges });
    json!({
        "date": "2026-11-20", "command": "cargo xtask record", "commit": "0123456789abcdef", "tree_clean": true,
        "processor": "AMD EPYC, family 26, model 2",
        "rustc": "rustc 1.95.0 (59807616e 2026-04-14)", "took_s": 500,
        "machine": { "cpu": "AMD EPYC", "cpus": 2, "kernel": "6.18", "clocksource": "tsc", "hypervisor": "kvm" },
        "cost": { "rounds": 200, "calls_a_round": 2_000, "clocks": [
            cost("rdtsc", "counter", 8.0, Some(8.0)),
            cost("tickline now_ns", "time", 9.0, Some(9.5)),
            cost("peer now", "time", 8.6, None),
            cost("core inside", "internal", 1.0, None),
            // For the short table; of a group that the full one leaves out.
            cost("tickline Instant::now", "internal", 9.0, None),
            cost("std Instant::now", "internal", 25.0, None),
            cost("quanta Instant::now", "internal", 9.5, None),
            cost("tickline now_ordered_ns", "internal", 18.0, None),
        ]},
        "startup": {
            "clocks": [
                { "clock": "tickline now_ns", "first_call_us": spread(0.9), "first_reading_us": spread(700.0),
                  "counter_us": spread(190.0), "slowest_call_us": spread(57.0) },
                { "clock": "peer now", "first_call_us": null, "first_reading_us": null, "counter_us": null,
                  "slowest_call_us": null },
            ],
            "hello": { "with_std_us": spread(800.0), "difference_us": spread(5.0) },
        },
        "drift": drift(0.1, -464.3),
        "drift_in_other_processes": [drift(-0.2, 1_702.0)],
        "order": {
            "skipped": null, "plain": counts(678_000, 120_000_000),
            "ordered": { "lasted_s": 60, "count": counts(0, 2_500_000_000) },
            "clocks": [
                { "clock": "tickline now_ns", "unit": "ns", "count": counts(3_000, 1_000_000) },
                { "clock": "peer now", "unit": "ns", "count": counts(1, 100_000_000) },
            ],
        },
        "accuracy_thread": accuracy("thread", Some(0.041)),
        "accuracy_reader": accuracy("reader", None),
        "spans": { "rounds": 600, "spans": [
            { "subject": "SpanTiming", "one_thread_ns": 220.0, "two_threads_ns": null },
            { "subject": "SpanTiming over std", "one_thread_ns": 321.0, "two_threads_ns": null },
            { "subject": "fmt with FmtSpan::CLOSE, to a sink", "one_thread_ns": 1_051.0, "two_threads_ns": null },
        ]},
    })
}
