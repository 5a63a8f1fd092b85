//! The program's own process, and its settings.

use super::super::process::Code;
use super::given::{Given, assert_each_found, good_machine};
use crate::document::Severity;
use crate::machine::is_libc;
use crate::measure::served_by::{NO_FILTER, ServedBy};

#[path = "../../../../tickline-preload/src/libc_name.rs"]
mod preloaded;

const FAKETIME: &str = "/usr/lib/faketime/libfaketime.so.1";

#[test]
fn a_denied_counter_is_a_note_while_clocks_work() {
    let machine = good_machine().with(|document| document.machine.counter_readable = Some(false));
    let finding = machine.only("counter_denied");
    assert_eq!(finding.severity, Severity::Note);
}

#[test]
fn a_denied_counter_that_kills_is_wrong() {
    let machine = good_machine().with(|document| document.machine.counter_readable = Some(false));
    let finding = machine
        .answered_by(Some(ServedBy::Nobody))
        .first("counter_denied");
    assert_eq!(finding.severity, Severity::Wrong);
    finding.shows("killed the calling process: 1");
}

#[test]
fn a_tracer_is_reported_with_its_process_id() {
    let machine = good_machine().with(|document| document.machine.tracer_pid = Some(4711));
    let finding = machine.only("traced");
    finding.shows("TracerPid is 4711");
}

#[test]
fn a_tracer_is_worth_only_a_note() {
    let machine = good_machine().with(|document| document.machine.tracer_pid = Some(4711));
    assert_eq!(machine.only("traced").severity, Severity::Note);
}

#[test]
fn an_unrecognised_value_of_the_variable_is_a_note() {
    let machine = good_machine().with(|document| {
        document.clock.environment_unrecognised = true;
        document.clock.environment_value = Some("of".to_owned());
    });
    let finding = machine.only("environment_unrecognised");
    finding
        .shows("TICKLINE=of is neither on nor off")
        .fix_has("unset TICKLINE");
}

#[test]
fn a_counter_that_the_user_has_switched_off_is_a_note() {
    let machine = good_machine().with(|document| {
        document.reason = Some("disabled_by_environment".to_owned());
    });
    let finding = machine.only("switched_off");
    finding.fix_has("unset TICKLINE");
}

#[test]
fn a_thread_that_did_not_start_is_a_note() {
    let error = "Resource temporarily unavailable (os error 11)";
    let machine =
        good_machine().with(|document| document.clock.thread_error = Some(error.to_owned()));
    machine.only("no_thread").shows(error);
}

/// A library that measures calls does not change their results.
#[test]
fn a_library_in_place_of_libc_is_a_note_if_its_time_is_right() {
    let machine = good_machine().with(|document| {
        document.machine.clock_gettime_file = Some(FAKETIME.to_owned());
    });
    let finding = machine.only("clock_interposed");
    assert_eq!(finding.severity, Severity::Note);
    finding.says("libfaketime.so.1").shows(FAKETIME);
}

#[test]
fn a_library_that_fakes_the_time_is_wrong() {
    let machine = good_machine().with(|document| {
        document.machine.clock_gettime_file = Some(FAKETIME.to_owned());
        document.machine.clock_gettime_difference_ns = Some(-86_400_000_000_000);
    });
    let finding = machine.first("clock_interposed");
    assert_eq!(finding.severity, Severity::Wrong);
    finding.shows("-86400 s");
}

/// Symptom: under `faketime -f '+0 x1.2'` the doctor advised a calibration of the kernel's clock.
#[test]
fn a_library_that_fakes_the_pace_is_wrong_and_the_kernel_is_not() {
    for skew_ppb in [200_000_000, -1_000_001] {
        let machine = good_machine().with(|document| {
            document.machine.clock_gettime_file = Some(FAKETIME.to_owned());
            document.machine.clock_gettime_skew_ppb = Some(skew_ppb);
            document.clock.frequency_hz = Some(2_400_000_000);
        });
        let finding = machine.only("clock_interposed");
        assert_eq!(finding.severity, Severity::Wrong, "{skew_ppb}");
        finding.shows("from that by the system call");
    }
}

#[test]
fn a_pace_within_1000_ppm_is_no_faked_time() {
    let machine = good_machine().with(|document| {
        document.machine.clock_gettime_file = Some(FAKETIME.to_owned());
        document.machine.clock_gettime_skew_ppb = Some(1_000_000);
    });
    assert_eq!(machine.only("clock_interposed").severity, Severity::Note);
}

#[test]
fn every_libc_is_known() {
    for library in [
        "/lib64/libc-2.17.so",
        "/lib/ld-musl-x86_64.so.1",
        "/system/lib64/libc.so",
    ] {
        let machine = good_machine().with(|document| {
            document.machine.clock_gettime_file = Some(library.to_owned());
        });
        assert_eq!(machine.codes(), [""; 0], "{library}");
    }
}

/// The good machine in a container without /proc.
fn answerers_unknown() -> Given {
    unknown_because("the program can't find itself: no /proc/self/exe available")
}

fn unknown_because(reason: &str) -> Given {
    let machine = good_machine().answered_by(None);
    machine.with(|document| document.served_unknown = Some(reason.to_owned()))
}

/// Symptom: without /dev/null, the fix asked for file descriptors and processes as well.
#[test]
fn the_fix_names_what_is_missing_alone() {
    let names = [
        "/proc",
        "/dev/null",
        "ulimit -n",
        "ulimit -u",
        "fs.file-max",
    ];
    for (reason, needed) in [
        (
            "can't find itself: no /proc/self/exe available",
            &names[..1],
        ),
        (
            "can't run itself: /dev/null: No such file or directory (os error 2)",
            &names[1..2],
        ),
        (
            "can't run itself: /dev/null: Too many open files (os error 24)",
            &names[2..3],
        ),
        (
            "can't run itself: /dev/null: Too many open files in system (os error 23)",
            &names[4..],
        ),
        (
            "can't run itself: /tickline: Resource temporarily unavailable (os error 11)",
            &names[..4],
        ),
    ] {
        let finding = unknown_because(&format!("the program {reason}")).only("answerers_unknown");
        let fix = finding.fix.text();
        let named: Vec<_> = names.iter().filter(|name| fix.contains(**name)).collect();
        assert!(named.into_iter().eq(needed), "{reason}: {fix}");
    }
}

/// Symptom: without /proc, "Fix below" led to a fix for Unix time.
#[test]
fn unknown_answerers_are_a_finding_with_a_fix() {
    let finding = answerers_unknown().only("answerers_unknown");
    finding
        .fix_has("/proc")
        .shows("no /proc/self/exe available");
    let sentence = answerers_unknown().sentence();
    let is_hint = sentence.starts_with("UNKNOWN: ") && sentence.ends_with("Fix below.");
    assert!(is_hint, "{sentence}");
}

/// No container can change the target.
#[test]
fn a_target_without_a_filter_is_no_finding() {
    let machine = good_machine().answered_by(None).with(|document| {
        document.served_unknown = Some(NO_FILTER.to_owned());
    });
    assert_eq!(machine.codes(), [""; 0]);
}

#[test]
fn each_code_about_the_process_has_a_machine() {
    assert_each_found(Code::ALL, |code| match code {
        Code::AnswerersUnknown => answerers_unknown(),
        Code::ClockInterposed => good_machine().with(|document| {
            document.machine.clock_gettime_file = Some("/usr/lib/libfaketime.so.1".to_owned());
        }),
        Code::CounterDenied => {
            good_machine()
                .answered_by(Some(ServedBy::Nobody))
                .with(|document| {
                    document.machine.counter_readable = Some(false);
                })
        }
        Code::EnvironmentUnrecognised => good_machine().with(|document| {
            document.clock.environment_unrecognised = true;
        }),
        Code::NoThread => good_machine().with(|document| {
            document.clock.thread_error = Some("out of processes".to_owned());
        }),
        Code::SwitchedOff => good_machine().with(|document| {
            document.reason = Some("disabled_by_environment".to_owned());
        }),
        Code::Traced => good_machine().with(|document| document.machine.tracer_pid = Some(4711)),
    });
}

/// Symptom: a library called libc-fast.so gave a time an hour off, and the verdict was OK.
#[test]
fn a_faked_time_is_wrong_whatever_the_file_is_called() {
    for file in [
        Some("/opt/libc-fast.so"),
        Some("a library without a name"),
        None,
    ] {
        let machine = good_machine().with(|document| {
            document.machine.clock_gettime_file = file.map(str::to_owned);
            document.machine.clock_gettime_difference_ns = Some(3_600_000_000_000);
        });
        let finding = machine.first("clock_interposed");
        assert_eq!(finding.severity, Severity::Wrong, "{file:?}");
        finding.shows("3600 s");
    }
}

/// Symptom: without a proof of who answers, a low cost alone made a wrong clock OK.
#[test]
fn a_low_cost_does_not_prove_who_answers() {
    let sentence = answerers_unknown().costs_ns(1.0).sentence();
    assert!(sentence.starts_with("UNKNOWN: "), "{sentence}");
}

/// Less may be a pause before each of the calls.
#[test]
fn a_difference_of_up_to_a_second_is_no_faked_time() {
    for (difference_ns, severity) in [
        (1_000_000_000, Severity::Note),
        (-1_000_000_000, Severity::Note),
        (1_000_000_001, Severity::Wrong),
    ] {
        let machine = good_machine().with(|document| {
            document.machine.clock_gettime_file = Some(FAKETIME.to_owned());
            document.machine.clock_gettime_difference_ns = Some(difference_ns);
        });
        let finding = machine.first("clock_interposed");
        assert_eq!(finding.severity, severity, "{difference_ns}");
    }
}

/// Otherwise the library could stand back where `doctor` sees nothing but libc.
#[test]
fn the_preloaded_library_takes_the_same_files_for_libc() {
    for (name, is_one) in [
        ("libc.so.6", true),
        ("libc-2.31.so", true),
        ("librt.so.1", true),
        ("librt-2.5.so", true),
        ("libc.musl-x86_64.so.1", true),
        ("ld-musl-x86_64.so.1", true),
        ("libc-offset.so", false),
        ("librt-fake.so", false),
        ("librtfake.so", false),
        ("libcfaketime.so.1", false),
        ("libfaketime.so.1", false),
    ] {
        assert_eq!(is_libc(name), is_one, "{name}");
        assert_eq!(preloaded::is_of_libc(name.as_bytes()), is_one, "{name}");
    }
}
