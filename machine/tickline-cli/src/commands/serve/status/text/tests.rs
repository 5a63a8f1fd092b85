//! Tests of the text about a page.

use tickline::Reason;

use super::super::testing::{report, served, unserved};
use super::*;

/// The text, with one space between two words.
fn text_of(report: &PageReport) -> String {
    let text = report.text();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn assert_says(report: &PageReport, part: &str) {
    let text = text_of(report);
    assert!(text.contains(part), "no {part} in {text}");
}

#[test]
fn the_text_of_a_served_page_has_its_server_lease_and_lead() {
    assert_eq!(
        text_of(&report()),
        "page /run/tickline/page.v1, of user 7 \
         server process 42 \
         phase published: programs take the time from the page \
         lease 2.000 s; in use for 1.500 s; all leases end in 0.500 s \
         lead at most 120 ns above the OS clock; Unix time at most 140 ns \
         now 15 ns above the OS clock \
         readers 0"
    );
}

#[test]
fn leases_that_ended_say_how_long_ago() {
    let ended = PageReport {
        serving: false,
        lease_left_ns: Some(-250_000_000),
        ..report()
    };
    assert_says(&ended, "lease 2.000 s; all leases ended 0.250 s ago");
}

#[test]
fn a_page_that_is_not_served_has_no_lead() {
    let ended = PageReport {
        serving: false,
        ..report()
    };
    assert!(!text_of(&ended).contains("at most"), "{}", text_of(&ended));
}

#[test]
fn unix_time_without_a_lead_comes_from_the_os() {
    let without = PageReport {
        unix_lead_limit_ns: None,
        ..report()
    };
    assert_says(
        &without,
        "at most 120 ns above the OS clock; Unix time comes from the OS",
    );
}

#[test]
fn a_line_is_below_or_above_the_os_clock_now() {
    for (now_ns, expected) in [
        (-15, "now 15 ns below the OS clock"),
        (0, "now 0 ns above the OS clock"),
        (15, "now 15 ns above the OS clock"),
    ] {
        let report = PageReport {
            lead_now_ns: Some(now_ns),
            ..report()
        };
        assert_says(&report, expected);
    }
}

#[test]
fn a_fast_correction_of_the_rate_keeps_the_line_from_being_published() {
    const PART: &str = "no line is published while that is above 1000 ppm";
    for (rate_ppb, is_fast) in [
        (1_000_000, false),
        (-1_000_000, false),
        (1_000_001, true),
        (-1_000_001, true),
    ] {
        let report = PageReport {
            rate_ppb: Some(rate_ppb),
            ..report()
        };
        assert_eq!(text_of(&report).contains(PART), is_fast, "{rate_ppb}");
    }
}

/// Symptom: -262842 ppb, where the doctor says -262.8 ppm.
#[test]
fn a_correction_of_the_rate_has_the_unit_that_the_doctor_uses() {
    let report = PageReport {
        rate_ppb: Some(-262_842),
        ..report()
    };
    assert_says(&report, "the rate of its clock by -262.8 ppm");
}

#[test]
fn a_server_may_be_unknown_or_invisible() {
    for (server, expected) in [
        (
            PageServer::Unknown("no right".to_owned()),
            "server unknown: no right",
        ),
        (
            PageServer::Invisible,
            "server unknown: its process is not visible here",
        ),
        (PageServer::None, "server none runs"),
    ] {
        let report = PageReport { server, ..report() };
        assert_says(&report, expected);
    }
}

#[test]
fn a_page_that_serves_nothing_says_what_to_look_at() {
    for (serving, switched_off, is_said) in [
        (true, false, false),
        (false, false, true),
        (false, true, false),
    ] {
        let report = PageReport {
            serving,
            switched_off,
            ..report()
        };
        let text = text_of(&report);
        assert_eq!(text.contains("next systemctl status"), is_said, "{text}");
    }
}

/// Symptom: "there is no line", and the reason in the server's log alone.
#[test]
fn a_page_without_a_line_says_why() {
    let rejected = PageReport {
        phase: PagePhase::Stored(LeasePhase::NoLine),
        why_no_line: Some(WhyNoLine::Machine(Reason::KernelRejected)),
        serving: false,
        ..report()
    };
    assert_says(
        &rejected,
        "reason kernel_rejected: the kernel does not accept the counter as a clocksource;",
    );
}

fn processes(pids: impl IntoIterator<Item = u32>) -> Vec<Process> {
    let process = |pid| Process {
        pid,
        name: "program".to_owned(),
    };
    pids.into_iter().map(process).collect()
}

#[test]
fn processes_that_may_not_be_read_are_counted() {
    for (readers_unknown, expected) in [
        (
            1,
            "readers 0; 1 process is unknown: this user may not trace it",
        ),
        (
            2,
            "readers 0; 2 processes are unknown: this user may not trace them",
        ),
    ] {
        let report = PageReport {
            readers_unknown: processes(1..=readers_unknown),
            ..report()
        };
        assert_says(&report, expected);
    }
}

/// Symptom: "root needs CAP_SYS_PTRACE", which root had, and no number.
#[test]
fn processes_that_the_kernel_refuses_to_show_are_named() {
    let report = PageReport {
        readers_unknown: processes([1, 7]),
        may_examine_others: true,
        ..report()
    };
    assert_says(
        &report,
        "readers 0; 2 processes are unknown, which the kernel refuses to show though this \
         user has CAP_SYS_PTRACE: 1 program, 7 program",
    );
    assert!(!text_of(&report).contains(NEEDED));
}

/// Symptom: a server that SIGSTOP had stopped looked like any other.
#[test]
fn a_server_that_is_stopped_says_so() {
    let with = |server_halt| PageReport {
        server_halt,
        ..report()
    };
    let expected = "server process 42, which a signal has stopped (state T): `kill -CONT 42`";
    assert_says(&with(Some(Halt::Signal)), expected);
    let expected = "server process 42, which a debugger has stopped (state t) phase";
    assert_says(&with(Some(Halt::Debugger)), expected);
    assert_says(&with(None), "server process 42 phase");
}

/// A page with this many readers, and as many processes with the library only.
fn with_readers(count: u32) -> PageReport {
    let reader = |pid| Reader {
        pid,
        name: "program".to_owned(),
        by_library: pid != 1,
    };
    PageReport {
        readers: (1..=count).map(reader).collect(),
        library_only: processes(101..=100 + count),
        ..report()
    }
}

#[test]
fn a_reader_has_a_line_with_its_way_of_reading() {
    assert_says(
        &with_readers(2),
        "readers 2 1 program, which reads the page itself 2 program with the library, but \
         not with this page: 101 program, 102 program",
    );
}

/// Symptom: a static program that had started before the page was in no list.
#[test]
fn programs_that_run_did_not_serve_are_listed() {
    let report = PageReport {
        run_only: processes([7, 9]),
        ..report()
    };
    assert_says(
        &report,
        "started by tickline run, but without the page and the library: 7 program, 9 program",
    );
}

/// A program chooses its name.
#[test]
fn the_name_of_a_reader_does_not_steer_the_terminal() {
    let mut report = with_readers(1);
    report.readers[0].name = "\u{1b}[2J".to_owned();
    let text = text_of(&report);
    assert!(text.contains("1 \u{fffd}[2J"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_reader_without_a_name_is_shown_by_its_number() {
    let mut two = processes([7, 9]);
    two[0].name.clear();
    assert_eq!(listed(&two), "7, 9 program");
}

#[test]
fn twelve_readers_are_shown_and_more_are_counted() {
    let text = text_of(&with_readers(12));
    assert!(!text.contains("more"), "{text}");
    assert!(
        text.contains("12 program") && text.contains("112"),
        "{text}"
    );
    let text = text_of(&with_readers(14));
    assert!(text.contains("12 program and 2 more with"), "{text}");
    assert!(text.ends_with("112 program and 2 more"), "{text}");
}

#[test]
fn the_meaning_of_a_phase_is_what_programs_do() {
    for (snapshot, expected) in [
        (unserved(LeasePhase::Off), "no server publishes a line"),
        (unserved(LeasePhase::NoLine), "there is no line"),
        (unserved(LeasePhase::FirstPublication), "there is no line"),
        (unserved(LeasePhase::Published), "the leases have run out"),
        (unserved(LeasePhase::Doubted), "the leases have run out"),
        (served(LeasePhase::Doubted), "the line may be wrong"),
        (served(LeasePhase::Published), "programs take the time"),
    ] {
        let report = PageReport {
            phase: PagePhase::of(&snapshot),
            serving: snapshot.is_served,
            ..report()
        };
        let meaning = report.meaning();
        assert!(meaning.starts_with(expected), "{meaning}");
    }
}

#[test]
fn a_page_that_is_switched_off_says_so() {
    let report = PageReport {
        phase: PagePhase::Stored(LeasePhase::Off),
        serving: false,
        switched_off: true,
        ..report()
    };
    let meaning = report.meaning();
    assert!(meaning.starts_with("switched off: run "), "{meaning}");
}

/// Symptom: "until `tickline serve on`", after which the page stayed off without a server.
#[test]
fn a_page_that_is_switched_off_needs_a_server_to_serve_again() {
    let report = PageReport {
        phase: PagePhase::Stored(LeasePhase::Off),
        serving: false,
        switched_off: true,
        ..report()
    };
    let meaning = report.meaning();
    assert!(meaning.contains("`, then start a server; "), "{meaning}");
}

/// Symptom: "switched off, until `tickline serve on`" of a page at another path.
#[test]
fn a_page_that_is_switched_off_is_named_in_the_command_that_ends_this() {
    let report = PageReport {
        on: "`tickline serve on --page /srv/page`".to_owned(),
        phase: PagePhase::Stored(LeasePhase::Off),
        serving: false,
        switched_off: true,
        ..report()
    };
    let expected = "switched off: run `tickline serve on --page /srv/page`, then";
    assert!(
        report.meaning().starts_with(expected),
        "{}",
        report.meaning()
    );
}
