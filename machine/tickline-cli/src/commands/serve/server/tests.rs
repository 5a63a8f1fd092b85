//! Tests of the server's log, and of the errors after which another start may help.

use tickline_page::lease::PageChanged;

use super::*;

/// The log's text about this state, after a line was published.
fn log_text(phase: LeasePhase, clock: ClockState) -> Option<String> {
    let state = ServerState {
        phase,
        clock,
        waits_for_slew: false,
    };
    state.log_text(Some(LeasePhase::Published))
}

#[test]
fn a_published_line_is_logged_whatever_the_clock() {
    for clock in [ClockState::Fast, ClockState::Calibrating] {
        let found = log_text(LeasePhase::Published, clock);
        assert_eq!(found.as_deref(), Some("published"));
    }
}

#[test]
fn the_first_publication_is_not_logged_before_its_end() {
    assert_eq!(
        log_text(LeasePhase::FirstPublication, ClockState::Fast),
        None
    );
}

/// Symptom: a server on one CPU logged "no_line: the counters of the CPUs are being compared",
/// and then "no_line: the clock is calibrating".
#[test]
fn a_clock_that_calibrates_is_not_logged_while_there_is_no_line() {
    for clock in [ClockState::Calibrating, ClockState::Fast] {
        let state = ServerState {
            phase: LeasePhase::NoLine,
            clock,
            waits_for_slew: false,
        };
        for last_phase in [None, Some(LeasePhase::NoLine)] {
            assert_eq!(state.log_text(last_phase), None);
        }
    }
}

#[test]
fn a_page_without_a_line_says_why() {
    let fallback = ClockState::Fallback(Reason::KernelRejected);
    for (clock, expected) in [
        (
            ClockState::Fast,
            "no_line: the leases have run out".to_owned(),
        ),
        (
            ClockState::Calibrating,
            format!("no_line: the clock is {}", ClockState::Calibrating),
        ),
        (fallback, format!("no_line: {}", Reason::KernelRejected)),
    ] {
        assert_eq!(log_text(LeasePhase::NoLine, clock), Some(expected));
    }
}

/// An operator can't call a library. Symptom: the log named `tickline::start()`.
#[test]
fn a_clock_whose_counters_are_being_compared_is_described_for_an_operator() {
    for phase in [LeasePhase::NoLine, LeasePhase::Doubted] {
        let found = log_text(phase, ClockState::Fallback(Reason::Untested)).unwrap();
        let expected = "the counters of the CPUs are being compared; programs ask the OS clock";
        assert_eq!(found, format!("{}: {expected}", phase.code()));
    }
}

/// Symptom: a server on a busy machine logged that the counters could not be compared, and nobody
/// knew whether it would try again.
#[test]
fn a_comparison_that_failed_is_logged_with_its_cause_and_the_next_try() {
    let found = log_text(LeasePhase::NoLine, ClockState::Fallback(Reason::Untestable)).unwrap();
    assert!(found.contains(WHY_NOT_COMPARED), "{found}");
    assert!(found.contains(TRIES_AGAIN), "{found}");
}

#[test]
fn a_doubted_line_says_why() {
    for (clock, expected) in [
        (
            ClockState::Fast,
            "doubted: the OS clock is not where the line is".to_owned(),
        ),
        (
            ClockState::Fallback(Reason::KernelRejected),
            format!("doubted: {}", Reason::KernelRejected),
        ),
    ] {
        assert_eq!(log_text(LeasePhase::Doubted, clock), Some(expected));
    }
}

const SHORTAGES: [Errno; 8] = [
    Errno::ENOSPC,
    Errno::EDQUOT,
    Errno::ENOMEM,
    Errno::EMFILE,
    Errno::ENFILE,
    Errno::EAGAIN,
    Errno::EINTR,
    Errno::EIO,
];

/// Symptom: exit code 2, after which a unit started its server for ever, 6 s at each start.
#[test]
fn an_error_that_somebody_has_to_fix_does_not_pass() {
    for cause in [
        FileError::WritableByOthers { mode: 0o777 }.into(),
        FileError::TooShort { bytes: 0 }.into(),
        PageErrorCause::OtherFile { bytes: 5 },
        PageErrorCause::UnknownWord { word: u64::MAX },
        PageErrorCause::OtherOwner { owner: 1, user: 0 },
        PageErrorCause::UnknownOffset { time_namespace: 7 },
        PageErrorCause::Counter(Reason::NoCounter),
        PageErrorCause::Process(failed_call(Errno::ENOENT)),
    ] {
        assert!(!cause_may_pass(cause, None), "{cause}");
    }
}

/// A directory at the path of the page's lock or of its new file; a name that is too long; a
/// file system without locks or mappings.
#[test]
fn an_errno_that_is_not_known_to_pass_does_not_pass() {
    for errno in [
        Errno::EISDIR,
        Errno::ENAMETOOLONG,
        Errno::ENOLCK,
        Errno::ENODEV,
        Errno::EOPNOTSUPP,
        Errno::EINVAL,
        Errno::EROFS,
        Errno::EACCES,
        Errno::EPERM,
        Errno::ENOTDIR,
        Errno::ELOOP,
    ] {
        let cause = PageErrorCause::File(failed_call(errno));
        assert!(!cause_may_pass(cause, None), "{errno}");
    }
}

#[test]
fn a_shortage_counts_as_a_cause_that_may_pass() {
    for errno in SHORTAGES {
        for cause in [
            PageErrorCause::File,
            PageErrorCause::Lock,
            PageErrorCause::Process,
        ] {
            assert!(cause_may_pass(cause(failed_call(errno)), None), "{errno}");
        }
    }
}

fn folder_error(errno: Errno) -> StartError {
    StartError::Folder(io::Error::from_raw_os_error(errno as i32))
}

/// Symptom: 78 at once for a folder of a default page on a full disk.
#[test]
fn a_shortage_at_the_making_of_the_folder_may_pass() {
    for errno in SHORTAGES {
        assert!(folder_error(errno).may_pass(), "{errno}");
    }
}

#[test]
fn another_error_at_the_making_of_the_folder_does_not_pass() {
    for errno in [
        Errno::ENOENT,
        Errno::EROFS,
        Errno::EACCES,
        Errno::ENAMETOOLONG,
    ] {
        assert!(!folder_error(errno).may_pass(), "{errno}");
    }
}

#[test]
fn another_process_that_serves_or_changes_the_page_may_end() {
    assert!(cause_may_pass(PageErrorCause::Changed(PageChanged), None));
    let process = Some(42);
    assert!(cause_may_pass(PageErrorCause::Served { process }, None));
}

#[test]
fn a_file_that_is_missing_may_be_back_unless_its_folder_is_missing_too() {
    let missing = PageErrorCause::File(failed_call(Errno::ENOENT));
    assert!(cause_may_pass(missing, None));
    let folder = Some(Path::new("/run/tickline"));
    assert!(!cause_may_pass(missing, folder));
}

const fn failed_call(errno: Errno) -> FileError {
    FileError::System {
        problem: "it can't be made",
        errno: errno as i32,
    }
}

/// Symptom: a slew was logged once for each phase.
#[test]
fn a_slew_is_the_same_text_in_each_phase() {
    let slews = |phase| {
        let state = ServerState {
            phase,
            clock: ClockState::Fast,
            waits_for_slew: true,
        };
        state.log_text(None)
    };
    let found = slews(LeasePhase::NoLine).unwrap();
    assert!(found.starts_with("not served: the kernel slews"), "{found}");
    assert_eq!(slews(LeasePhase::Doubted), Some(found));
}
