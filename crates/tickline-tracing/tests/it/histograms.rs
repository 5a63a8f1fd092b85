//! Histograms.

use std::cell::Cell;
use std::fs;
use std::thread;
use std::time::Duration;

use crate::common::{Calls, MockHand, on_thread, run_timed, spawn};
use crate::sinks::of_a_configuration;
use tempfile::NamedTempFile;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::histogram::{Histograms, Measure, Summary};
use tracing::field::Empty;
use tracing::info_span;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

#[test]
fn a_configuration_may_name_the_labels() {
    let labels = of_a_configuration("route,status");
    let histograms = Histograms::builder(Measure::Total).labels(&labels).build();
    let span = || drop(info_span!("request", route = "/", status = 200));
    assert_eq!(counted(histograms, span), ["/,200: 1"]);
}

fn labelled(labels: &'static [&'static str]) -> Histograms {
    Histograms::builder(Measure::Total).labels(labels).build()
}

/// A line with the number of spans of `run`, for each combination of the labels' values.
fn counted(histograms: Histograms, run: impl FnOnce()) -> Vec<String> {
    run_timed(histograms.clone(), run);
    let line = |summary: Summary| format!("{}: {}", summary.label_values.join(","), summary.count);
    histograms.summaries().into_iter().map(line).collect()
}

#[test]
fn each_name_has_the_quantiles_of_its_own_spans() {
    let (hand, all) = (
        MockHand::default(),
        [Measure::Busy, Measure::Total, Measure::Idle].map(Histograms::new),
    );
    let _active = hand.0.activate();
    let layer = all
        .iter()
        .fold(SpanTimingLayer::new(), |layer, histograms| {
            layer.with_sink(histograms.clone())
        });
    tracing::subscriber::with_default(registry().with(layer), || {
        for thousand in 1..=1_000 {
            let span = info_span!("even");
            span.in_scope(|| hand.advance_ns(1_000 * thousand));
            hand.advance_ns(5);
        }
        info_span!("once").in_scope(|| hand.advance_ns(77));
        info_span!("once").in_scope(|| hand.advance_ns(77));
    });
    let [busy, total, idle] = all.map(|histograms| histograms.summaries());
    let even = &busy[0];
    let checks = [
        (even.p50, 5e5),
        (even.p90, 9e5),
        (even.p99, 9.9e5),
        (even.p999, 9.99e5),
        (even.max, 1e6),
    ];
    let others = [
        (busy[1].max, 77.0),
        (total[1].p50, 77.0),
        (idle[0].p50, 5.0),
    ];
    for (measured, ns) in checks.into_iter().chain(others) {
        let ratio = measured.as_secs_f64() * 1e9 / ns;
        assert!((0.99..=1.011).contains(&ratio), "{measured:?} for {ns} ns");
    }
    assert_eq!([even.count, busy[1].count], [1_000, 2]);
}

/// Symptom: it was the end of the bucket, 4.0098 s.
#[test]
fn the_maximum_is_exact_also_after_a_reset() {
    let (hand, histograms) = (MockHand::default(), Histograms::new(Measure::Busy));
    let summary_of = |nanos: &[u64]| {
        hand.run_timed(histograms.clone(), || {
            let span = |ns: &u64| info_span!("work").in_scope(|| hand.advance_ns(*ns));
            nanos.iter().for_each(span);
        });
        let summary = histograms.summary(&["work"]).unwrap();
        (summary.p50.as_nanos(), summary.max.as_nanos())
    };
    // The three times are in one bucket.
    assert_eq!(
        summary_of(&[4_003_000_000, 4_000_000_000]),
        (4_003_000_000, 4_003_000_000)
    );
    histograms.reset();
    assert_eq!(summary_of(&[4_001_000_000]), (4_001_000_000, 4_001_000_000));
}

#[test]
fn the_maximum_is_that_of_all_threads() {
    let (hand, histograms) = (MockHand::default(), Histograms::new(Measure::Busy));
    let span = |ns| info_span!("work").in_scope(|| hand.advance_ns(ns));
    hand.run_timed(histograms.clone(), || {
        // The three times are in one bucket.
        span(4_000_000_000);
        on_thread(|| {
            let _active = hand.0.activate();
            span(4_003_000_000);
        });
        span(4_001_000_000);
    });
    let summary = histograms.summary(&["work"]).unwrap();
    assert_eq!(summary.max.as_nanos(), 4_003_000_000);
}

/// Counts spans `work` that are busy for so long.
fn count_busy(hand: &MockHand, histograms: &Histograms, nanos: impl IntoIterator<Item = u64>) {
    hand.run_timed(histograms.clone(), || {
        for ns in nanos {
            info_span!("work").in_scope(|| hand.advance_ns(ns));
        }
    });
}

#[test]
fn a_summary_has_the_exact_sum_of_the_times_since_the_reset() {
    let (hand, histograms) = (MockHand::default(), Histograms::new(Measure::Busy));
    let sum = || histograms.summary(&["work"]).unwrap().sum.as_nanos();
    count_busy(&hand, &histograms, [3, 4_000_000_001]);
    assert_eq!(sum(), 4_000_000_004);
    histograms.reset();
    count_busy(&hand, &histograms, [4_000_000_003]);
    assert_eq!(sum(), 4_000_000_003);
}

#[test]
fn a_quantile_is_the_time_that_its_share_of_the_spans_did_not_exceed() {
    let (hand, histograms) = (MockHand::default(), Histograms::new(Measure::Busy));
    count_busy(&hand, &histograms, 1..=100);
    let quantile_ns = |share| Some(histograms.quantile(&["work"], share)?.as_nanos());
    assert_eq!(
        [0.0, 0.07, 0.5, 0.95, 0.999, 1.0].map(quantile_ns),
        [1, 7, 50, 95, 100, 100].map(Some)
    );
}

#[test]
fn a_series_without_times_has_no_quantile() {
    let histograms = Histograms::new(Measure::Busy);
    assert_eq!(histograms.quantile(&["work"], 0.5), None);
}

#[test]
#[should_panic(expected = "a quantile of 95 is outside 0 to 1")]
fn a_quantile_in_percent_is_refused() {
    _ = Histograms::new(Measure::Busy).quantile(&["work"], 95.0);
}

#[test]
#[should_panic(expected = "a quantile of NaN is outside 0 to 1")]
fn a_quantile_that_is_no_number_is_refused() {
    _ = Histograms::new(Measure::Busy).quantile(&["work"], f64::NAN);
}

#[test]
fn spans_count_by_the_values_of_fields() {
    let spans = || {
        for number in 0..30_u64 {
            let route = if number % 3 == 0 { "/a" } else { "/b" };
            drop(info_span!("request", route, even = number % 2 == 0));
        }
    };
    assert_eq!(
        counted(labelled(&["route", "even"]), spans),
        ["/a,false: 5", "/a,true: 5", "/b,false: 10", "/b,true: 10"]
    );
}

#[test]
fn a_summary_is_found_by_the_values_of_all_labels() {
    let histograms = labelled(&["route", "status"]);
    counted(histograms.clone(), || {
        drop(info_span!("request", route = "/a", status = 200));
        (0..2).for_each(|_| drop(info_span!("request", route = "/a", status = 404)));
    });
    let count = |values: &[&str]| Some(histograms.summary(values)?.count);
    assert_eq!(count(&["/a", "404"]), Some(2));
    assert_eq!(count(&["/b", "404"]), None);
    assert_eq!(count(&["/a"]), None);
}

/// A series stays in the table after a reset.
#[test]
fn a_series_without_times_since_the_reset_has_no_summary() {
    let histograms = labelled(&["route"]);
    counted(histograms.clone(), || {
        drop(info_span!("request", route = "/a"))
    });
    histograms.reset();
    assert_eq!(histograms.summary(&["/a"]), None);
}

#[test]
fn spans_count_by_name_and_target() {
    let spans = || {
        drop(info_span!("request"));
        drop(info_span!(target: "elsewhere", "request"));
        drop(info_span!(target: "elsewhere", "other"));
    };
    assert_eq!(
        counted(labelled(&["span", "target"]), spans),
        [
            "other,elsewhere: 1",
            "request,elsewhere: 1",
            concat!("request,", module_path!(), ": 1"),
        ]
    );
}

#[test]
fn spans_of_different_names_count_together_by_the_values_of_their_fields() {
    let spans = || {
        info_span!("request", route = "/a").in_scope(|| drop(info_span!("query", route = "/a")));
    };
    assert_eq!(counted(labelled(&["route"]), spans), ["/a: 2"]);
}

#[test]
fn without_labels_all_spans_count_together() {
    let spans = || {
        drop(info_span!("request"));
        drop(info_span!(target: "elsewhere", "other"));
    };
    assert_eq!(counted(labelled(&[]), spans), [": 2"]);
}

#[test]
fn a_field_without_a_value_counts_as_an_empty_text() {
    let spans = || drop(info_span!("request", route = "/a", status = Empty));
    assert_eq!(counted(labelled(&["route", "status"]), spans), ["/a,: 1"]);
}

#[test]
fn spans_that_lack_a_labels_field_do_not_count() {
    let spans = || {
        drop(info_span!("request", route = "/a", status = 200));
        drop(info_span!("other", status = 500));
    };
    assert_eq!(
        counted(labelled(&["route", "status"]), spans),
        ["/a,200: 1"]
    );
}

/// Histograms of a span with all fields, one without `route`, and three without `status`, of which
/// another thread closed one.
fn with_spans_that_lack_a_field() -> Histograms {
    let histograms = labelled(&["route", "status"]);
    let without_status = || drop(info_span!("third", route = "/a"));
    counted(histograms.clone(), || {
        drop(info_span!("request", route = "/a", status = 200));
        drop(info_span!("other", status = 500));
        (0..2).for_each(|_| without_status());
        on_thread(without_status);
    });
    histograms
}

#[test]
fn the_spans_that_lack_a_field_are_counted() {
    assert_eq!(with_spans_that_lack_a_field().uncounted_spans(), 4);
}

/// Symptom: a mistyped label gave an empty table without a word.
#[test]
fn the_table_ends_with_the_labels_that_spans_lack() {
    let table = with_spans_that_lack_a_field().to_string();
    assert_eq!(
        table.lines().last(),
        Some("spans not counted: 1 without `route`, 3 without `status`")
    );
}

/// A span that lacks two fields counts at the first.
#[test]
fn a_span_that_lacks_two_fields_is_one_uncounted_span() {
    let histograms = labelled(&["route", "status"]);
    counted(histograms.clone(), || drop(info_span!("work")));
    assert_eq!(histograms.uncounted_spans(), 1);
}

#[test]
fn prometheus_gets_a_comment_with_the_labels_that_spans_lack() {
    let text = with_spans_that_lack_a_field().to_prometheus("request_seconds");
    let comment = "\n# spans not counted: 1 without `route`, 3 without `status`\n";
    assert!(text.ends_with(comment), "{text}");
}

/// Numbers, booleans and values by their `Debug` count by their texts.
#[test]
fn values_of_any_type_count_by_their_texts() {
    let spans = || {
        drop(info_span!("request", route = true));
        drop(info_span!("request", route = 7));
        drop(info_span!("request", route = ?Calls(|| ())));
    };
    assert_eq!(
        counted(labelled(&["route"]), spans),
        ["/c: 1", "7: 1", "true: 1"]
    );
}

#[test]
fn a_span_that_moves_between_threads_counts_once_by_its_last_values() {
    let spans = || {
        let span = info_span!("request", status = Empty);
        on_thread(|| _ = span.record("status", 200));
        on_thread(|| _ = span.record("status", 404));
        on_thread(|| drop(span));
    };
    assert_eq!(counted(labelled(&["status"]), spans), ["404: 1"]);
}

#[test]
fn a_value_recorded_later_changes_no_other_label() {
    let spans = || {
        let span = info_span!("request", route = "/a", status = 1);
        span.record("route", "/d");
    };
    assert_eq!(counted(labelled(&["route", "status"]), spans), ["/d,1: 1"]);
}

/// A value's `Debug` may do anything.
#[test]
fn a_span_may_end_while_another_spans_values_are_formatted() {
    let spans = || {
        let inside = Cell::new(Some(info_span!("request", route = "inside", status = 0)));
        let ends_inside = Calls(|| drop(inside.take()));
        drop(info_span!("request", status = "none", route = ?ends_inside));
    };
    assert_eq!(
        counted(labelled(&["route", "status"]), spans),
        ["/c,none: 1", "inside,0: 1"]
    );
}

/// The text of the failing value is not left over for the next span of its callsite.
#[test]
fn a_span_whose_value_panics_counts_like_the_next() {
    let spans = || {
        for (status, panics) in [(1, false), (2, true), (2, false)] {
            let route = Calls(|| assert!(!panics));
            drop(info_span!("request", status, route = ?route));
        }
    };
    assert_eq!(
        counted(labelled(&["route", "status"]), spans),
        ["(its Debug or Display panicked),2: 1", "/c,1: 1", "/c,2: 1"]
    );
}

/// The thread remembers the series of the callsite's last span.
#[test]
fn the_values_of_the_callsites_last_span_are_not_those_of_the_next() {
    let spans = || {
        for status in [Some(1), Some(2), Some(2), None, Some(2)] {
            drop(info_span!("request", status));
        }
    };
    assert_eq!(
        counted(labelled(&["status"]), spans),
        [": 1", "1: 1", "2: 3"]
    );
}

/// The limit of series holds for all threads together, and no span beyond it is lost.
#[test]
fn values_beyond_the_limit_count_together() {
    let spans = || {
        drop(info_span!("span", thread = "(other)", value = "(other)"));
        thread::scope(|scope| {
            for thread in 0..2 {
                let span =
                    move |value| (0..2).for_each(|_| drop(info_span!("span", thread, value)));
                spawn(scope, "", move || (0..700).for_each(span));
            }
        });
    };
    let histograms = labelled(&["thread", "value"]);
    let lines = counted(histograms.clone(), spans);
    let all: u64 = histograms
        .summaries()
        .iter()
        .map(|summary| summary.count)
        .sum();
    assert_eq!((lines.len(), all), (1_001, 2_801));
    let others = lines
        .iter()
        .filter(|line| line.starts_with("(other),(other): "));
    assert_eq!(others.count(), 1);
}

/// Two threads concurrently change a span's series.
#[test]
fn values_that_two_threads_record_at_once_all_count() {
    let record = || {
        for _ in 0..100 {
            let span = info_span!("request", route = Empty, status = Empty);
            thread::scope(|scope| {
                scope.spawn(|| (0..10).for_each(|route| _ = span.record("route", route)));
                scope.spawn(|| (0..10).for_each(|status| _ = span.record("status", status)));
            });
        }
    };
    assert_eq!(
        counted(labelled(&["route", "status"]), record),
        ["9,9: 100"]
    );
}

/// The spans of two subscribers have the same numbers.
#[test]
fn spans_of_two_subscribers_are_kept_apart() {
    let (histograms, mut first) = (labelled(&["route"]), None);
    counted(histograms.clone(), || {
        first = Some(info_span!("request", route = "/a"))
    });
    let second = || {
        let span = info_span!("request", route = "/b");
        assert_eq!(first.take().unwrap().id(), span.id());
    };
    assert_eq!(counted(histograms, second), ["/a: 1", "/b: 1"]);
}

/// Histograms of requests that took 1 ms, 1 ms and 1 ns, 2 ms, 2 ms and 1 ns; a reset before each.
fn requests_at_bounds() -> Histograms {
    let (hand, builder) = (MockHand::default(), Histograms::builder(Measure::Total));
    let builder = builder.labels(["http.route", "status"]);
    let histograms = builder
        .buckets([2_000, 1_000, 2_000].map(Duration::from_micros))
        .build();
    hand.run_timed(histograms.clone(), || {
        for ns in [1_000_000, 1_000_001, 2_000_000, 2_000_001] {
            histograms.reset();
            let span = info_span!("request", http.route = "a\"b\\c\nd", status = 200);
            span.in_scope(|| hand.advance_ns(ns));
        }
    });
    histograms
}

/// Symptom: of two tables printed below each other, none said which had the busy time.
#[test]
fn the_table_names_the_time_of_its_histograms() {
    let tables = [Measure::Total, Measure::Busy].map(|measure| {
        let histograms = Histograms::new(measure);
        run_timed(histograms.clone(), || drop(info_span!("work")));
        histograms.to_string()
    });
    let second_lines = tables.each_ref().map(|table| {
        let mut words = table.lines().nth(1).unwrap_or_default().split_whitespace();
        (words.next(), words.next())
    });
    assert_eq!(
        second_lines,
        [(Some("work"), Some("total")), (Some("work"), Some("busy"))]
    );
}

/// Symptom: the heading was `span` although the label was a field.
#[test]
fn the_table_has_a_column_for_each_label_and_the_spans_since_the_reset() {
    assert_eq!(
        requests_at_bounds().to_string(),
        "http.route status time       count        p50        p90        p99      p99.9        max\n\
         a\"b\\\\c\\nd  200    total          1     2.00ms     2.00ms     2.00ms     2.00ms     2.00ms"
    );
}

/// Buckets are exact at their bounds, and a reset makes no counter smaller.
#[test]
fn prometheus_gets_buckets_that_only_grow() {
    let text = requests_at_bounds().to_prometheus("http_request_seconds");
    let pairs = r#"http_route="a\"b\\c\nd",status="200""#;
    let lines = [
        "# HELP http_request_seconds The total time of spans, seconds.".to_owned(),
        "# TYPE http_request_seconds histogram".to_owned(),
        format!("http_request_seconds_bucket{{{pairs},le=\"0.001\"}} 1"),
        format!("http_request_seconds_bucket{{{pairs},le=\"0.002\"}} 3"),
        format!("http_request_seconds_bucket{{{pairs},le=\"+Inf\"}} 4"),
        format!("http_request_seconds_sum{{{pairs}}} 0.006000002"),
        format!("http_request_seconds_count{{{pairs}}} 4"),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn prometheus_gets_no_empty_pair_of_braces_without_labels() {
    let unlabelled = labelled(&[]);
    counted(unlabelled.clone(), || drop(info_span!("work")));
    let text = unlabelled.to_prometheus("all_seconds");
    assert!(text.ends_with("\nall_seconds_count 1\n"), "{text}");
}

#[test]
#[cfg(unix)]
fn promtool_accepts_the_text() {
    use std::process::Command;

    use tickline_observe::skip;

    let unlabelled = labelled(&[]);
    counted(unlabelled.clone(), || drop(info_span!("work")));
    let file = NamedTempFile::new().unwrap();
    let text = requests_at_bounds().to_prometheus("http_request_seconds")
        + &unlabelled.to_prometheus("all_seconds");
    fs::write(&file, text).unwrap();
    let stdin = file.reopen().unwrap();
    let Ok(output) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(stdin)
        .output()
    else {
        return skip("there is no promtool (Debian's package prometheus)");
    };
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr)
        ),
        (Some(0), "".into())
    );
}
