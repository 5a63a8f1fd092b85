//! Finds the answerer of each clock: the vDSO, in the process itself, or the kernel, by a system
//! call. The result is a proof, not a guess from the cost.
//!
//! The program starts itself again under a seccomp(2) filter. The filter makes the system calls for
//! the time fail with an error that they never return otherwise. A clock that fails with this error
//! has entered the kernel. A clock that still returns the time has not. This needs no privileges:
//! every process may filter itself, and the filter ends with the process. After `PR_SET_TSC` a call
//! that reads the counter ends the process. The number of lines that the process has printed tells
//! which call that was, and another process continues with the next clock.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::calls::{self, Call};
use crate::exit::Exit;
use crate::words::with_path;

/// The answerer of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServedBy {
    /// The vDSO: code that the kernel has mapped into the process.
    Vdso,
    /// The kernel, by a system call.
    SystemCall,
    /// No code: the call ends the process (SIGSEGV).
    Nobody,
}

impl ServedBy {
    /// The answerer in a table.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Vdso => "vDSO",
            Self::SystemCall => "system call",
            Self::Nobody => "SIGSEGV",
        }
    }
}

/// The answerer of each clock for which there is a proof.
pub(crate) type ServedByClock = BTreeMap<&'static str, ServedBy>;

/// The reason on targets where no process can prove anything.
pub(crate) const NO_FILTER: &str = "no filter is known for this target";

/// The command by which the program runs itself. No help names it, as users never need it.
const FILTERED_COMMAND: &str = "__served";

/// The index of the first clock to call, if the command line makes this process the filtered one.
pub(crate) fn first_filtered_clock(mut arguments: impl Iterator<Item = OsString>) -> Option<usize> {
    arguments
        .next()
        .filter(|command| command == FILTERED_COMMAND)?;
    arguments.next()?.to_str()?.parse().ok()
}

/// The clocks under test: the clocks of the C library and of std.
fn tested_clocks() -> Vec<Call> {
    let is_tested = |call: &Call| {
        call.read_ns.is_some() && !call.name.starts_with("tickline::")
            || call.name.starts_with("std::")
    };
    calls::all(None).into_iter().filter(is_tested).collect()
}

/// Finds the answerer of each clock.
///
/// # Errors
///
/// Why there is no proof, in words.
pub(crate) fn find() -> Result<ServedByClock, String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("the program can't find itself: {error}"))?;
    let clocks = tested_clocks();
    let mut served = ServedByClock::new();
    let mut from = 0;
    while from < clocks.len() {
        let output = Command::new(&program)
            .args([FILTERED_COMMAND, &from.to_string()])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| cannot_run(&program, NULL_DEVICE, &error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        for line in text.lines() {
            let Some(clock) = clocks.get(from) else {
                return Err(format!("the filtered process answered '{line}'"));
            };
            let answer: Option<ServedBy> =
                serde_json::from_str(line).map_err(|_| line.to_owned())?;
            served.extend(answer.map(|served_by| (clock.name, served_by)));
            from += 1;
        }
        if output.status.success() {
            break;
        }
        match clocks.get(from) {
            Some(clock) if was_killed_by_its_call(output.status) => {
                served.insert(clock.name, ServedBy::Nobody);
                from += 1;
            }
            _ => return Err(format!("the filtered process ended: {}", output.status)),
        }
    }
    Ok(served)
}

/// The device that is the standard input of the program which runs itself.
const NULL_DEVICE: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// Why the program cannot run itself, in words. The system's error does not name the file, which is
/// either the program or the null device.
fn cannot_run(program: &Path, null_device: &str, error: &io::Error) -> String {
    let device = File::open(null_device)
        .err()
        .map(|error| with_path(Path::new(null_device), &error));
    let error = device.unwrap_or_else(|| with_path(program, error));
    format!("the program can't run itself: {error}")
}

/// Whether SIGSEGV has ended the process.
#[cfg(unix)]
fn was_killed_by_its_call(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGSEGV)
}

/// Other systems have no signals.
#[cfg(not(unix))]
fn was_killed_by_its_call(_: ExitStatus) -> bool {
    false
}

/// The answerer of a clock, from the result of a filtered call: its error, `None` if it panicked,
/// and the time that it returned, ns. `None` if there is no such clock.
fn served_by(errno: Option<i32>, reading_ns: Option<u64>) -> Option<ServedBy> {
    match (errno, reading_ns) {
        (None | Some(filter::BLOCKED_ERRNO), _) | (Some(0), Some(0)) => Some(ServedBy::SystemCall),
        (Some(0), _) => Some(ServedBy::Vdso),
        _ => None,
    }
}

/// Runs the filtered process: calls the clocks, beginning with index `from`, and prints the
/// answerer of each as a line of JSON. Any other line is the reason for a failure.
pub(crate) fn run_filtered(from: usize) -> io::Result<Exit> {
    let mut out = io::stdout().lock();
    let mut say = |line: &str| writeln!(out, "{line}").and_then(|()| out.flush());
    if let Err(reason) = filter::install() {
        say(&reason)?;
        return Ok(Exit::Negative);
    }
    // The clocks of std panic if they fail.
    panic::set_hook(Box::new(|_| {}));
    let probe = |call: &Call| {
        errno::set_errno(errno::Errno(0));
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| call.run.as_ref().map(|run| run(1))));
        let errno = errno::errno().0;
        // Only the C library sets errno. In glibc on x86_64, gettimeofday and time are the vDSO's
        // own functions. If their system call fails, they do not set errno, and leave a time of
        // zero.
        let reading = match &call.read_ns {
            Some(read_ns) if outcome.is_ok() && errno == 0 => Some(read_ns()),
            _ => None,
        };
        served_by(outcome.is_ok().then_some(errno), reading)
    };
    // Without an effective filter, the vDSO would seem to answer every clock.
    let calls = calls::all(None);
    if calls
        .iter()
        .any(|call| call.name == calls::SYSTEM_CALL && probe(call) != Some(ServedBy::SystemCall))
    {
        say("the filter has no effect on system calls here")?;
        return Ok(Exit::Negative);
    }
    for call in tested_clocks().iter().skip(from) {
        say(&json!(probe(call)).to_string())?;
    }
    Ok(Exit::Success)
}

#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
mod filter {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

    /// The error with which the filter blocks the system calls. clock_gettime(2), gettimeofday(2)
    /// and time(2) never return it.
    pub(super) const BLOCKED_ERRNO: i32 = libc::EXFULL;

    /// From here on, each of these system calls fails with `BLOCKED_ERRNO` in this thread.
    pub(super) fn install() -> Result<(), String> {
        let calls = [
            libc::SYS_clock_gettime,
            libc::SYS_gettimeofday,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_time,
        ];
        let fail = |error: &dyn std::fmt::Display| format!("the kernel accepts no filter: {error}");
        let target = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| fail(&error))?;
        let filter = SeccompFilter::new(
            calls.into_iter().map(|call| (call, Vec::new())).collect(),
            SeccompAction::Allow,
            SeccompAction::Errno(BLOCKED_ERRNO.unsigned_abs()),
            target,
        );
        let program = filter
            .and_then(BpfProgram::try_from)
            .map_err(|error| fail(&error))?;
        seccompiler::apply_filter(&program).map_err(|error| fail(&error))
    }
}

#[cfg(not(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
)))]
mod filter {
    /// No call fails with this error.
    pub(super) const BLOCKED_ERRNO: i32 = i32::MAX;

    pub(super) fn install() -> Result<(), String> {
        Err(super::NO_FILTER.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_returned_time_proves_the_vdso() {
        for (errno, reading_ns, expected) in [
            (
                Some(0),
                Some(1_700_000_000_000_000_000),
                Some(ServedBy::Vdso),
            ),
            (Some(0), None, Some(ServedBy::Vdso)),
            (None, None, Some(ServedBy::SystemCall)),
            (
                Some(filter::BLOCKED_ERRNO),
                None,
                Some(ServedBy::SystemCall),
            ),
            (Some(0), Some(0), Some(ServedBy::SystemCall)),
            (Some(1), Some(0), None),
        ] {
            assert_eq!(served_by(errno, reading_ns), expected);
        }
    }

    #[test]
    fn the_clocks_of_libc_and_std_are_tested_and_no_others() {
        let clocks = tested_clocks();
        let has = |name| clocks.iter().any(|call| call.name == name);
        assert!(has(calls::MONOTONIC) && has("std::time::Instant"));
        let mut names = clocks.iter().map(|call| call.name);
        assert!(names.all(|name| !name.starts_with("tickline::") && name != calls::GETPPID));
    }

    /// Symptom: "the program cannot run itself: No such file or directory".
    #[test]
    fn the_error_names_the_file_that_is_missing() {
        let gone = io::Error::from(io::ErrorKind::NotFound);
        let program = Path::new("/opt/tickline");
        let shown = cannot_run(program, NULL_DEVICE, &gone);
        assert!(shown.contains("itself: /opt/tickline: "), "{shown}");
        let shown = cannot_run(program, "/no/null", &gone);
        assert!(shown.contains("itself: /no/null: "), "{shown}");
    }

    #[test]
    fn the_words_of_an_answerer_say_who_answers() {
        assert_eq!(ServedBy::Vdso.words(), "vDSO");
        assert_eq!(ServedBy::SystemCall.words(), "system call");
        assert_eq!(ServedBy::Nobody.words(), "SIGSEGV");
    }

    #[test]
    fn the_filtered_process_is_told_its_first_clock() {
        let first = |words: &[&str]| first_filtered_clock(words.iter().map(OsString::from));
        assert_eq!(first(&["__served", "3"]), Some(3));
        assert_eq!(first(&["__served"]), None);
        assert_eq!(first(&["__served", "x"]), None);
        assert_eq!(first(&["bench", "3"]), None);
    }

    #[test]
    #[cfg(unix)]
    fn a_call_that_may_not_read_the_counter_ends_its_process_by_sigsegv() {
        use std::os::unix::process::ExitStatusExt as _;
        for (status, expected) in [
            (libc::SIGSEGV, true),
            (libc::SIGKILL, false),
            (0, false),
            // The exit code 11, the number of SIGSEGV.
            (11 << 8, false),
        ] {
            let killed = was_killed_by_its_call(ExitStatus::from_raw(status));
            assert_eq!(killed, expected, "{status:#x}");
        }
    }
}
