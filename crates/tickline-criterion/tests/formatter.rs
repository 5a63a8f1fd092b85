//! Units and throughputs, as reports show them.

use criterion::Throughput;
use criterion::measurement::{Measurement, WallTime};
use tickline_criterion::CounterTime;

fn time() -> CounterTime {
    CounterTime::builder().quiet().start_or_wall_time()
}

/// Values in ns, and the text that reports show for them.
const VALUES: [(f64, &str); 8] = [
    (1e-9, "0.0000 ps"),
    (0.25, "250.00 ps"),
    (1.0, "1.0000 ns"),
    (987.0, "987.00 ns"),
    (4_321.0, "4.3210 µs"),
    (1.5e6, "1.5000 ms"),
    (2.5e9, "2.5000 s"),
    (3.6e12, "3600.0 s"),
];

#[test]
fn values_are_ns_shown_from_ps_to_s() {
    let time = time();
    for (ns, text) in VALUES {
        assert_eq!(time.formatter().format_value(ns).trim_start(), text);
        assert_eq!(time.formatter().format_value(ns), WallTime.formatter().format_value(ns));
    }
}

#[test]
fn every_kind_of_throughput_is_per_second() {
    let time = time();
    // In 2 us: 500,000 times a second.
    let expected = [
        (Throughput::Bytes(1 << 20), "488.28 GiB/s"),
        (Throughput::BytesDecimal(1_000_000), "500.00 GB/s"),
        (Throughput::Elements(1), "500.00 Kelem/s"),
        (Throughput::ElementsAndBytes { elements: 6, bytes: 64 }, "3.0000 Melem/s"),
        (Throughput::Bits(8), "4.0000 Mb/s"),
    ];
    for (throughput, text) in expected {
        let shown = time.formatter().format_throughput(&throughput, 2_000.0);
        assert_eq!(shown.trim_start(), text, "{throughput:?}");
        assert_eq!(shown, WallTime.formatter().format_throughput(&throughput, 2_000.0));
    }
}

#[test]
fn one_unit_for_a_whole_plot() {
    let time = time();
    let mut values = [500.0, 2_000.0];
    assert_eq!(time.formatter().scale_values(2_000.0, &mut values), "µs");
    assert_eq!(values, [0.5, 2.0]);
    let mut rates = [1_000.0, 2_000.0];
    assert_eq!(time.formatter().scale_throughputs(1_000.0, &Throughput::Elements(3), &mut rates), "Melem/s");
    assert_eq!(rates, [3.0, 1.5]);
}

#[test]
fn machines_get_ns() {
    let mut values = [0.5, 2.5e9];
    assert_eq!(time().formatter().scale_for_machines(&mut values), "ns");
    assert_eq!(values, [0.5, 2.5e9]);
}

#[test]
fn the_least_that_a_sample_can_take_is_not_zero() {
    // Symptom: criterion gives up on a benchmark if one sample took 0 ("This should not be
    // possible").
    let time = time();
    let nothing = time.to_f64(&time.zero());
    assert!(nothing > 0.0 && nothing < 1e-3, "{nothing}");
    let throughput = time.formatter().format_throughput(&Throughput::Bytes(1), nothing);
    assert!(!throughput.contains("NaN"), "{throughput}");
}
