//! The printed messages. Each test runs itself in a child process, and checks the child's output.

use std::hint::black_box;
use std::io::Write;
use std::process::{Command, Output};
use std::time::Duration;

use crate::directory::Directory;
use criterion::measurement::Measurement;
use tickline_criterion::measurement::ErrorKind;
use tickline_criterion::{BenchPairs, CounterTime};
use tickline_observe::skip;

/// The variable that is set in the child.
const CHILD: &str = "TICKLINE_CRITERION_TEST_CHILD";

/// The beginnings of the first line.
const BY_COUNTER: &str = "tickline: counter at ";
const BY_WALL_TIME: &str = "tickline: measuring with WallTime: ";
/// The line of systems that don't say what a thread loses.
const NOT_SUBTRACTED: &str = "tickline: time that samples lose to others is not subtracted: ";

/// This test as a child. The test harness treats the arguments as names of other tests.
fn child(test: &str, tickline: &str, arguments: &[&str]) -> Command {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child
        .args(["--exact", &format!("messages::{test}"), "--nocapture", "--"])
        .args(arguments)
        .env(CHILD, "1")
        .env("TICKLINE", tickline);
    child
}

/// tickline's lines on the child's standard error stream.
fn lines_of(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text.lines()
        .filter(|line| line.starts_with("tickline: "))
        .map(str::to_owned)
        .collect()
}

/// tickline's lines on the standard error stream of this test as a child.
fn lines(test: &str, tickline: &str, arguments: &[&str]) -> Vec<String> {
    let output = child(test, tickline, arguments).output();
    lines_of(&output.expect("a child"))
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Symptom: if only criterion knew its output directory, this crate silently stored nothing.
#[test]
fn a_directory_that_is_not_found_is_reported_once() {
    if is_child() {
        let directory = Directory::new("unknown");
        let mut criterion = directory.criterion(CounterTime::builder().build_or_wall_time());
        for name in ["one", "another"] {
            criterion.bench_pairs(name, |bencher| bencher.iter(|| std::hint::black_box(3)));
            assert!(directory.0.join(name).join("new/sample.json").exists());
            assert!(!directory.0.join(name).join("new/pairs.json").exists());
        }
        return;
    }
    let lines = lines("a_directory_that_is_not_found_is_reported_once", "on", &[]);
    let reported: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("tickline: not stored: "))
        .collect();
    assert_eq!(reported.len(), 1, "{lines:?}");
    let expected = "; or the program may call Criterion::output_directory, which it then must pass \
                    to CounterTime::builder().output_directory as well";
    assert!(reported[0].ends_with(expected), "{lines:?}");
}

/// Symptom: the text was only about a line `Criterion.rs ERROR`, and there was none.
#[test]
fn a_program_that_leaves_the_arguments_unread_is_told_to_read_them() {
    const TEST: &str = "a_program_that_leaves_the_arguments_unread_is_told_to_read_them";
    if is_child() {
        let directory = Directory::new("unread");
        let time = CounterTime::builder().output_directory(&directory.0);
        directory
            .criterion(time.build_or_wall_time())
            .bench_pairs("work", |bencher| bencher.iter(|| black_box(3)));
        return;
    }
    let lines = lines(TEST, "on", &["--save-baseline", "main"]);
    let is_told = |line: &String| {
        line.starts_with("tickline: not stored: ")
            && line.ends_with("; without one, the program must call configure_from_args() last")
    };
    assert!(lines.iter().any(is_told), "{lines:?}");
}

/// Each `criterion_group!` may start a clock.
#[test]
fn the_counter_is_reported_once_for_several_clocks() {
    if is_child() {
        drop(CounterTime::new_or_wall_time());
        drop(CounterTime::new_or_wall_time());
        return;
    }
    let mut lines = lines("the_counter_is_reported_once_for_several_clocks", "on", &[]);
    lines.retain(|line| !line.starts_with(NOT_SUBTRACTED));
    if lines.iter().all(|line| line.starts_with(BY_WALL_TIME)) {
        return skip("no usable counter");
    }
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with(BY_COUNTER), "{lines:?}");
}

/// Symptom: the second group found no rate, and silently measured with WallTime, because only the
/// first group printed.
#[test]
fn wall_time_is_reported_each_time() {
    if is_child() {
        for _ in 0..2 {
            let refused = CounterTime::builder().settle(Duration::from_secs(90));
            drop(refused.build_or_wall_time());
        }
        return;
    }
    let lines = lines("wall_time_is_reported_each_time", "on", &[]);
    let reported = |line: &String| line.starts_with(BY_WALL_TIME);
    assert!(lines.len() == 2 && lines.iter().all(reported), "{lines:?}");
}

/// Runs a test's `body` in a child whose counter is switched off. Returns the child's lines; in the
/// child itself, none.
fn run_with_closed_gate(test: &str, body: impl FnOnce(CounterTime)) -> Vec<String> {
    if is_child() {
        body(CounterTime::new_or_wall_time());
        return Vec::new();
    }
    lines(test, "off", &[])
}

#[test]
fn a_closed_gate_is_an_error_with_its_reason() {
    run_with_closed_gate("a_closed_gate_is_an_error_with_its_reason", |_| {
        let error = CounterTime::new().expect_err("switched off");
        assert!(
            matches!(error.kind(), ErrorKind::GateClosed(_)),
            "{error:?}"
        );
    });
}

#[test]
fn wall_time_keeps_the_error_of_the_counter() {
    run_with_closed_gate("wall_time_keeps_the_error_of_the_counter", |time| {
        let error = CounterTime::new().expect_err("switched off");
        let kept = time.fallback_error().expect("switched off");
        assert_eq!(kept.kind(), error.kind());
    });
}

#[test]
fn wall_time_has_no_calibration() {
    run_with_closed_gate("wall_time_has_no_calibration", |time| {
        assert_eq!(time.calibration(), None);
    });
}

/// Symptom: the first sample began with the sample inside of it.
#[test]
fn wall_time_measures_all_of_a_sample_that_has_another_in_it() {
    run_with_closed_gate(
        "wall_time_measures_all_of_a_sample_that_has_another_in_it",
        |time| {
            let start = time.start();
            std::thread::sleep(Duration::from_millis(3));
            time.end(time.start());
            let sample = time.end(start);
            assert!(time.to_f64(&sample) >= 3e6);
        },
    );
}

#[test]
fn samples_by_wall_time_add_up() {
    run_with_closed_gate("samples_by_wall_time_add_up", |time| {
        let start = time.start();
        std::thread::sleep(Duration::from_millis(3));
        let sample = time.end(start);
        assert!(time.to_f64(&sample) < time.to_f64(&(sample + sample)));
    });
}

#[test]
fn samples_by_wall_time_are_no_incidents() {
    run_with_closed_gate("samples_by_wall_time_are_no_incidents", |time| {
        time.to_f64(&time.end(time.start()));
        assert_eq!(time.incidents().to_string(), "");
    });
}

#[test]
fn the_only_line_about_wall_time_has_the_closed_gate() {
    let lines = run_with_closed_gate(
        "the_only_line_about_wall_time_has_the_closed_gate",
        |time| {
            time.to_f64(&time.end(time.start()));
        },
    );
    if is_child() {
        return;
    }
    assert_eq!(lines.len(), 1, "{lines:?}");
    let expected = format!("{BY_WALL_TIME}the counter can't be used: ");
    assert!(lines[0].starts_with(&expected), "{lines:?}");
}

#[test]
fn quiet_prints_nothing() {
    if is_child() {
        drop(CounterTime::builder().quiet().build_or_wall_time());
        return;
    }
    let all = ["on", "off"].map(|tickline| lines("quiet_prints_nothing", tickline, &[]));
    assert_eq!(all, [const { Vec::<String>::new() }; 2]);
}

/// Moves the thread within the first of two pairs of a sample, after a sample without a move.
/// Prints a line. `None` if a move can't be made or seen.
fn move_in_a_sample() -> Option<CounterTime> {
    let time = CounterTime::new_or_wall_time();
    let cpus = core_affinity::get_core_ids().unwrap_or_default();
    let [from, to, ..] = cpus[..] else {
        return None;
    };
    if time.fallback_error().is_some()
        || cfg!(not(target_arch = "x86_64"))
        || !core_affinity::set_for_current(from)
    {
        return None;
    }
    time.to_f64(&time.end(time.start()));
    assert_eq!(time.incidents().moved_samples, 0);
    let start = time.start();
    assert!(
        core_affinity::set_for_current(to),
        "bound once, but not twice"
    );
    let moved = time.end(start);
    time.to_f64(&(moved + moved));
    writeln!(std::io::stderr(), "{MOVED}").ok();
    Some(time)
}

/// The line of a child that has moved.
const MOVED: &str = "tickline: the thread has moved";

/// The lines after [`MOVED`]; `None`, with the reason, if the child could not move.
fn lines_after_move(test: &str) -> Option<Vec<String>> {
    let mut lines = lines(test, "on", &[]);
    let Some(at) = lines.iter().position(|line| line == MOVED) else {
        skip("no second CPU, no usable counter, or no CPU's id with it");
        return None;
    };
    Some(lines.split_off(at + 1))
}

#[test]
fn a_move_is_counted_once_a_sample() {
    if is_child() {
        if let Some(time) = move_in_a_sample() {
            let incidents = time.incidents();
            assert_eq!((incidents.samples, incidents.moved_samples), (2, 1));
        }
        return;
    }
    lines_after_move("a_move_is_counted_once_a_sample");
}

#[test]
fn a_move_is_reported_when_the_last_clone_is_dropped() {
    if is_child() {
        if let Some(time) = move_in_a_sample() {
            let last = time.clone();
            drop(time);
            eprintln!("tickline: the last clone");
            drop(last);
        }
        return;
    }
    let test = "a_move_is_reported_when_the_last_clone_is_dropped";
    let Some(lines) = lines_after_move(test) else {
        return;
    };
    assert_eq!(lines[0], "tickline: the last clone", "{lines:?}");
    let moves = lines
        .iter()
        .filter(|line| line.starts_with("tickline: 1 of 2 samples contain a move"));
    assert_eq!(moves.count(), 1, "{lines:?}");
}

#[test]
fn nothing_is_calibrated_to_list_benchmarks() {
    if is_child() {
        let time = CounterTime::new().expect("no error: nothing is wrong");
        assert_eq!(time.calibration(), None);
        assert_eq!(
            time.fallback_error().expect("a reason").kind(),
            ErrorKind::NotMeasuring
        );
        drop(CounterTime::new_or_wall_time());
        return;
    }
    let lines = lines(
        "nothing_is_calibrated_to_list_benchmarks",
        "on",
        &["--list"],
    );
    assert!(lines.is_empty(), "{lines:?}");
}

/// Symptom: with `--noplot` there was a folder with a plot.
#[test]
fn nothing_is_drawn_where_criterion_draws_nothing() {
    const TEST: &str = "nothing_is_drawn_where_criterion_draws_nothing";
    if is_child() {
        let directory = Directory::new("noplot");
        directory
            .by_counter()
            .bench_pairs("work", |bencher| bencher.iter(|| black_box(3)));
        let is_there = |path: &str| directory.0.join("work").join(path).exists();
        eprintln!(
            "tickline: {} {}",
            is_there("new/pairs.json"),
            is_there("report/pairs.svg")
        );
        return;
    }
    assert_eq!(lines(TEST, "on", &["--noplot"]), ["tickline: true false"]);
    assert_eq!(lines(TEST, "on", &[]), ["tickline: true true"]);
}

/// Symptom: making a clock ended the process, and the program could not catch that.
#[test]
fn an_option_without_run_in_main_is_reported_once_and_the_program_goes_on() {
    const TEST: &str = "an_option_without_run_in_main_is_reported_once_and_the_program_goes_on";
    if is_child() {
        drop(CounterTime::new_or_wall_time());
        drop(CounterTime::new_or_wall_time());
        return;
    }
    let lines = lines(TEST, "on", &["--bench", "--against=/tmp/main"]);
    let expected = "tickline: --against needs tickline_criterion::run in the program's main, around all that makes a \
                    CounterTime";
    let reported = lines.iter().filter(|line| *line == expected).count();
    assert_eq!((lines[0].as_str(), reported), (expected, 1), "{lines:?}");
}

#[test]
fn a_quiet_time_does_not_report_an_option_without_run_in_main() {
    const TEST: &str = "a_quiet_time_does_not_report_an_option_without_run_in_main";
    if is_child() {
        drop(CounterTime::builder().quiet().build_or_wall_time());
        return;
    }
    let output = child(TEST, "on", &["--bench", "--against=/tmp/main"]).output();
    let output = output.expect("a child");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_variable_lets_disturbed_pairs_count() {
    const TEST: &str = "the_variable_lets_disturbed_pairs_count";
    if is_child() {
        let directory = Directory::new("include");
        directory
            .by_counter()
            .bench_pairs("work", |bencher| bencher.iter(|| black_box(3)));
        let json = directory.json("work/new/pairs.json");
        eprintln!("tickline: {}", json["disturbed_are"]);
        return;
    }
    assert_eq!(lines(TEST, "on", &[]), ["tickline: \"excluded\""]);
    let included = child(TEST, "on", &[])
        .env("TICKLINE_CRITERION", "include-disturbed")
        .output();
    assert_eq!(
        lines_of(&included.expect("a child")),
        ["tickline: \"included\""]
    );
}
