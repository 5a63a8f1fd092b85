//! Who answers each clock: the vDSO, in the process itself, or the kernel, by a system call. The
//! answer is a proof, not a guess from the cost.
//!
//! The program starts itself again under a filter (seccomp(2)). The filter answers the system calls
//! for the time with an error that they never return. A clock that fails with this error has
//! entered the kernel; a clock that still returns the time has not. This needs no rights: every
//! process may filter itself, and the filter ends with the process. After `PR_SET_TSC` a call that
//! reads the counter ends the process. The number of lines that it has printed shows which call
//! that was, and another process goes on with the next clock.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, ExitStatus, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::calls::{self, Call};
use crate::exit::Exit;

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServedBy {
    /// The vDSO: code that the kernel has mapped into the process.
    Vdso,
    /// The kernel, by a system call.
    SystemCall,
    /// Nobody: the call ends the process (SIGSEGV).
    Nobody,
}

/// Who answers each clock; clocks without a proof are left out.
pub(crate) type ServedByClock = BTreeMap<&'static str, ServedBy>;

/// The command by which the program runs itself. It is for nobody else, so no help names it.
const COMMAND: &str = "__served";

/// The number of the first clock to call, if this process is to be the filtered one.
pub(crate) fn filtered_from(mut words: impl Iterator<Item = OsString>) -> Option<usize> {
    words.next().filter(|word| word == COMMAND)?;
    words.next()?.to_str()?.parse().ok()
}

/// The clocks under test: those of the C library and of std.
fn tested() -> Vec<Call> {
    let is_tested = |call: &Call| {
        call.read_ns.is_some() && !call.name.starts_with("tickline::") || call.name.starts_with("std::")
    };
    calls::all(false).into_iter().filter(is_tested).collect()
}

/// Finds out who answers each clock.
///
/// # Errors
///
/// The reason, in words, why there is no proof.
pub(crate) fn find() -> Result<ServedByClock, String> {
    let program =
        std::env::current_exe().map_err(|error| format!("the program cannot find itself: {error}"))?;
    let clocks = tested();
    let (mut served, mut from) = (ServedByClock::new(), 0);
    while from < clocks.len() {
        let output = Command::new(&program)
            .args([COMMAND, &from.to_string()])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("the program cannot run itself: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        for line in text.lines() {
            let Some(clock) = clocks.get(from) else { return Err(format!("unexpected answer '{line}'")) };
            let answer: Option<ServedBy> = serde_json::from_str(line).map_err(|_| line.to_owned())?;
            served.extend(answer.map(|served_by| (clock.name, served_by)));
            from += 1;
        }
        match clocks.get(from) {
            _ if output.status.success() => break,
            Some(clock) if was_killed_by_its_call(output.status) => {
                served.insert(clock.name, ServedBy::Nobody);
                from += 1;
            }
            _ => return Err(format!("the filtered process ended: {}", output.status)),
        }
    }
    Ok(served)
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

/// The answerer of a clock: judged by its panic, its error, and the time that it has returned, ns.
/// `None` if there is no such clock.
fn served_by(panicked: bool, errno: i32, reading_ns: Option<u64>) -> Option<ServedBy> {
    match (panicked, errno, reading_ns) {
        (true, _, _) | (_, filter::ANSWER, _) | (_, 0, Some(0)) => Some(ServedBy::SystemCall),
        (_, 0, _) => Some(ServedBy::Vdso),
        _ => None,
    }
}

/// The filtered process: calls the clocks, beginning with number `from`. It prints who answers each,
/// as a line of JSON. Any other line is the reason for its failure.
pub(crate) fn filtered(from: usize) -> io::Result<Exit> {
    let mut out = io::stdout().lock();
    let mut say = |line: &str| writeln!(out, "{line}").and_then(|()| out.flush());
    if let Err(reason) = filter::install() {
        say(&reason)?;
        return Ok(Exit::Negative);
    }
    // std's clocks panic where they fail.
    panic::set_hook(Box::new(|_| {}));
    let ask = |call: &Call| {
        errno::set_errno(errno::Errno(0));
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| call.run.as_ref().map(|run| run(1))));
        let errno = errno::errno().0;
        // Only the C library sets errno. In glibc on x86_64, gettimeofday and time are the vDSO's
        // own functions: a system call that they make fails without errno, and leaves a time of
        // zero.
        let reading =
            call.read_ns.as_ref().filter(|_| outcome.is_ok() && errno == 0).map(|read_ns| read_ns());
        served_by(outcome.is_err(), errno, reading)
    };
    // Without an effective filter, every clock would seem to be answered by the vDSO.
    let calls = calls::all(false);
    if calls.iter().any(|call| call.name == calls::SYSTEM_CALL && ask(call) != Some(ServedBy::SystemCall)) {
        say("the filter has no effect on system calls here")?;
        return Ok(Exit::Negative);
    }
    for call in tested().iter().skip(from) {
        say(&json!(ask(call)).to_string())?;
    }
    Ok(Exit::Success)
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod filter {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

    /// The filter's answer to the system calls; clock_gettime(2), gettimeofday(2) and time(2)
    /// never return it.
    pub(super) const ANSWER: i32 = libc::EXFULL;

    /// From here on, this thread receives `ANSWER` for each of those system calls.
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
            SeccompAction::Errno(ANSWER.unsigned_abs()),
            target,
        );
        let program = filter.and_then(BpfProgram::try_from).map_err(|error| fail(&error))?;
        seccompiler::apply_filter(&program).map_err(|error| fail(&error))
    }
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
mod filter {
    /// No call returns it.
    pub(super) const ANSWER: i32 = i32::MAX;

    pub(super) fn install() -> Result<(), String> {
        Err("no filter is known for this target".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_returned_time_proves_the_vdso() {
        for (panicked, errno, reading_ns, expected) in [
            (false, 0, Some(1_700_000_000_000_000_000), Some(ServedBy::Vdso)),
            (false, 0, None, Some(ServedBy::Vdso)),
            (true, 0, None, Some(ServedBy::SystemCall)),
            (false, filter::ANSWER, None, Some(ServedBy::SystemCall)),
            (false, 0, Some(0), Some(ServedBy::SystemCall)),
            (false, 1, Some(0), None),
        ] {
            assert_eq!(served_by(panicked, errno, reading_ns), expected);
        }
    }
}
