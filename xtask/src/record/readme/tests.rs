use serde_json::json;

use super::*;

/// Records in small, of two processors: of the second one only what differs is another one.
pub(in super::super) fn samples() -> [Record; 2] {
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

/// One, with a peer that does better in places and one that is not there.
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
        json!({ "watched_s": 60, "settled_s": 10, "looks": 3_000, "clocks": [
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
    let counts = |backward: u64, handovers: u64| json!({ "backward": backward, "handovers": handovers });
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
            { "subject": "SpanTiming", "one_thread_ns": 220.0 },
            { "subject": "SpanTiming over std", "one_thread_ns": 321.0 },
            { "subject": "fmt with FmtSpan::CLOSE, to a sink", "one_thread_ns": 1_051.0 },
        ]},
    })
}

fn readme() -> String {
    let blocks: String = BLOCKS
        .map(|block| format!("<!-- record:{block} -->\nold\n<!-- /record:{block} -->\nkept {block}\n"))
        .concat();
    format!("# head\n{blocks}tail\n")
}

#[test]
fn the_table_of_clocks_shows_the_best_of_each_processor_whoever_it_is() {
    let rows = "\
| *bare instructions* | | | | | | | | | |
| rdtsc | 8.0 (1.00) | 16.0 (1.00) | 8.0 (1.00) | 16.0 (1.00) |  |  |  |  |  |
| *time in ns* | | | | | | | | | |
| tickline now_ns | 9.0 (1.12) | 17.0 (1.06) | 12.0 (1.29) | 17.0 (1.06) | 3.0 us | 0.7 ms | **-0.2** | **11 ns** | 3,000 |
| peer now | **8.6 (1.07)** | **16.6 (1.04)** | **8.6 (1.07)** | **16.6 (1.04)** |  |  | 1,702 | 3.2 ms | **< 0.1** |
";
    let table = clocks_block(&samples()).unwrap();
    assert!(table.ends_with(rows), "{table}");
    let head = "|  | AMD EPYC: tight loop, ns | AMD EPYC: awaited, ns | Intel Xeon: tight loop, ns |";
    assert!(table.starts_with(head) && table.contains("offset changed in 60 s"), "{table}");
}

#[test]
fn processors_of_one_name_are_told_by_family_and_model() {
    let mut records = samples();
    records[1].json["processor"] = "AMD EPYC, family 25, model 1".into();
    let table = clocks_block(&records).unwrap();
    for part in ["| AMD EPYC, family 26, model 2: awaited", "| AMD EPYC, family 25, model 1: awaited"] {
        assert!(table.contains(part), "{part} in {table}");
    }
}

#[test]
fn the_other_blocks_say_what_the_records_say() {
    let [(_, machines), _, (_, tickline)] = blocks(&samples()).unwrap();
    for part in [
        "- AMD EPYC, family 26, model 2: 2 CPUs, hypervisor kvm, Linux 6.18,",
        "rustc 1.95.0;",
        "commit 0123456789:",
        "(benches/record/2026-11-20-amd.json)",
        "- Intel Xeon, family 6, model 207, **taken before**: 2 CPUs",
        "(benches/record/2026-11-21-intel.json)",
    ] {
        assert!(machines.contains(part), "{part} in {machines}");
    }
    for part in [
        "| 60 s each | AMD EPYC: thread driver | AMD EPYC: reader driver | Intel Xeon: thread driver |",
        "| offset from the bracket's middle, ns | -10 to +13, mean +0.4 | -10 to +13, mean +0.4 |",
        "| largest claimed bound to either side, ns | 25 | 25 | 35 | 25 |",
        "| CPU of the thread | 0.04 % of a core | no thread |",
        "|  | AMD EPYC | Intel Xeon |",
        "| 0 in 2.5 billion handovers (bare counter: 678 thousand in 120 million) |",
        "| 190 us of steady use; the slowest call on the way takes 57 us |",
        "| 5.0 us (of 800 us) | 5.0 us (of 800 us) |",
        "| 220 ns / 321 / 1,051 |",
    ] {
        assert!(tickline.contains(part), "{part} in {tickline}");
    }
}

#[test]
fn only_what_is_between_markers_changes_and_once_more_changes_nothing() {
    let once = rewritten(&readme(), &samples()).unwrap();
    assert!(!once.contains("old"), "{once}");
    assert!(once.starts_with("# head\n<!-- record:machine -->\n- AMD") && once.ends_with("tail\n"), "{once}");
    for block in BLOCKS {
        assert!(once.contains(&format!("\n<!-- /record:{block} -->\nkept {block}\n")), "{once}");
    }
    assert_eq!(rewritten(&once, &samples()).unwrap(), once);
}

#[test]
fn a_marker_that_is_missing_twice_there_or_astray_is_an_error_that_names_it() {
    for block in BLOCKS {
        for marker in [format!("<!-- record:{block} -->"), format!("<!-- /record:{block} -->")] {
            let without = readme().replace(&marker, "");
            let twice = format!("{}{marker}", readme());
            for (text, times) in [(without, "0 times"), (twice, "2 times")] {
                for error in [check_markers(&text), rewritten(&text, &samples()).map(drop)] {
                    let message = error.unwrap_err();
                    let named = ["README.md", &marker, times].iter().all(|part| message.contains(part));
                    assert!(named, "{message}");
                }
            }
        }
    }
    let astray = readme()
        .replace("<!-- /record:clocks -->", "swap")
        .replace("<!-- record:clocks -->", "<!-- /record:clocks -->")
        .replace("swap", "<!-- record:clocks -->");
    let message = check_markers(&astray).unwrap_err();
    assert!(message.contains("<!-- /record:clocks --> comes before"), "{message}");
}

#[test]
fn what_the_record_lacks_is_an_error_that_names_it() {
    let without = |section: &str, field: &str| {
        let mut records = samples();
        records[1].json[section].as_object_mut().unwrap().remove(field);
        rewritten(&readme(), &records).unwrap_err()
    };
    assert!(without("machine", "cpus").contains("cpus"));
    assert!(without("drift", "watched_s").contains("drift.watched_s"));
    assert!(without("order", "plain").contains("plain.backward"));
    assert!(without("spans", "spans").contains("spans.spans"));
    assert!(without("accuracy_reader", "outside").contains("outside"));
}

#[test]
fn a_machine_without_a_usable_counter_says_why_nothing_was_tried() {
    let mut records = samples();
    let record = &mut records[0].json;
    record["order"]["skipped"] = "no usable counter: not invariant".into();
    record["order"]["ordered"] = Value::Null;
    record["startup"]["clocks"][0]["counter_us"] = Value::Null;
    let tickline = tickline_block(&records).unwrap();
    assert!(tickline.contains("not tried: no usable counter: not invariant"), "{tickline}");
    assert!(tickline.contains("| not on this machine |"), "{tickline}");
}
