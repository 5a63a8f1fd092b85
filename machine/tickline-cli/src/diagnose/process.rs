//! Findings about the program's own process: its rights, its tracer, its settings, and a library
//! that replaces its clocks. They say nothing about other processes.

use tickline::Reason;

use crate::document::Block::{Commands, Prose};
use crate::document::{Document, Explained, Explanation, Finding, Fix};
use crate::machine;
use crate::measure::served_by::{NO_FILTER, ServedBy};
use crate::words::rate;

/// `PR_SET_TSC` denies the counter. libc's clocks then raise SIGSEGV where the vDSO reads it.
pub(super) fn counter_denied(document: &Document) -> Option<Finding> {
    if document.machine.counter_readable != Some(false) {
        return None;
    }
    let killed = document
        .costs
        .iter()
        .filter(|row| row.served_by == Some(ServedBy::Nobody))
        .count();
    let finding =
        if killed > 0 {
            Finding::wrong(
            Code::CounterDenied,
            "this process may not read the counter, and a call of a libc clock kills the process \
             with SIGSEGV",
        )
        .seen("prctl(PR_GET_TSC) says PR_TSC_SIGSEGV")
        .seen(format!("calls of these clocks killed the calling process: {killed}"))
        } else {
            Finding::note(
            Code::CounterDenied,
            "this process may not read the counter, so no code in this process can use the counter",
        )
        .seen("prctl(PR_GET_TSC) says PR_TSC_SIGSEGV")
        };
    let fix = Fix::from(
        "find the parent process that calls prctl(PR_SET_TSC, PR_TSC_SIGSEGV), which children \
         inherit",
    )
    .then("it must call prctl(PR_SET_TSC, PR_TSC_ENABLE) before it starts the program");
    Some(finding.fix(fix))
}

/// The least difference that shows a faked time, ns: libfaketime's usual amounts are longer.
const FAKED_NS: u64 = 1_000_000_000;

/// The least difference between the paces that shows a faked time, ppb: far more than the bound of
/// a clock that computes the time itself, such as tickline's.
const FAKED_PPB: u64 = 1_000_000;

/// The skew of libc's clock from the kernel's, if it shows a faked time. What was measured against
/// libc's clock is then wrong.
pub(super) fn faked_pace_ppb(document: &Document) -> Option<i64> {
    let skew_ppb = document.machine.clock_gettime_skew_ppb?;
    (skew_ppb.unsigned_abs() > FAKED_PPB).then_some(skew_ppb)
}

/// A library such as libfaketime replaces libc's `clock_gettime`, or something unknown gives the
/// process another time than the kernel.
pub(super) fn clock_interposed(document: &Document) -> Option<Finding> {
    let file = document.machine.clock_gettime_file.as_deref();
    let stranger = file.filter(|file| !machine::is_libc(file));
    let seen_file = file.map(|file| format!("the dynamic linker has clock_gettime from {file}"));
    let name = stranger.map(|file| file.rsplit('/').next().unwrap_or(file));
    let difference_ns = document.machine.clock_gettime_difference_ns.unwrap_or(0);
    let skew_ppb = faked_pace_ppb(document);
    let finding = if difference_ns.unsigned_abs() > FAKED_NS || skew_ppb.is_some() {
        let difference_s = difference_ns / 1_000_000_000;
        // A file that has the name of a libc may still be another library.
        let what = match name {
            Some(name) => {
                format!("{name} replaces libc's clock_gettime, and gives this process another time")
            }
            None => "clock_gettime gives this process another time than the kernel does".to_owned(),
        };
        Finding::wrong(Code::ClockInterposed, what)
            .seen_all(seen_file)
            .seen(format!(
                "Unix time by clock_gettime minus that by the system call: {difference_s} s"
            ))
            .seen_all(skew_ppb.map(|ppb| {
                format!(
                    "CLOCK_MONOTONIC by clock_gettime runs {} from that by the system call",
                    rate(ppb)
                )
            }))
    } else {
        Finding::note(
            Code::ClockInterposed,
            format!("{} replaces libc's clock_gettime in this process", name?),
        )
        .seen_all(seen_file)
    };
    Some(
        finding
            .fix("start the program without that library: see LD_PRELOAD and /etc/ld.so.preload"),
    )
}

/// A tracer, such as a debugger, stops the process at system calls or signals.
pub(super) fn traced(document: &Document) -> Option<Finding> {
    let pid = document.machine.tracer_pid?;
    if pid == 0 {
        return None;
    }
    Some(
        Finding::note(
            Code::Traced,
            "another process traces this one, so its system calls may take many times as long as \
             usual",
        )
        .seen(format!("/proc/self/status: TracerPid is {pid}"))
        .fix(format!(
            "measure without strace, gdb or other tracers: ps -p {pid} names the tracer"
        )),
    )
}

/// tickline's clock could not start its thread.
pub(super) fn no_thread(document: &Document) -> Option<Finding> {
    let error = document.clock.thread_error.as_ref()?;
    Some(
        Finding::note(
            Code::NoThread,
            "tickline's clock has no thread, so the readers renew its lines, and the CPUs' \
             counters are not compared",
        )
        .seen(format!("starting it failed: {error}"))
        .fix(
            "allow the user more processes (ulimit -u, prlimit --nproc), or the container more \
             tasks (pids.max)",
        ),
    )
}

/// `TICKLINE=off` switches the counter off.
pub(super) fn switched_off(document: &Document) -> Option<Finding> {
    if document.reason.as_deref() != Some(Reason::DisabledByEnvironment.code()) {
        return None;
    }
    Some(
        Finding::note(
            Code::SwitchedOff,
            "the user has switched off the counter for tickline",
        )
        .seen("the environment variable TICKLINE is off")
        .fix("unset TICKLINE"),
    )
}

/// `TICKLINE` is neither `on` nor `off`.
pub(super) fn environment_unrecognised(document: &Document) -> Option<Finding> {
    if !document.clock.environment_unrecognised {
        return None;
    }
    let value = document.clock.environment_value.as_deref();
    let value = value.map_or_else(
        || "TICKLINE".to_owned(),
        |value| format!("TICKLINE={value}"),
    );
    Some(
        Finding::note(
            Code::EnvironmentUnrecognised,
            "the environment variable TICKLINE has a value that is ignored",
        )
        .seen(format!("{value} is neither on nor off"))
        .fix("unset TICKLINE"),
    )
}

/// The program could not find out who answers the clocks, so it is unknown whether they are slow.
pub(super) fn answerers_unknown(document: &Document) -> Option<Finding> {
    let reason = document.served_unknown.as_deref()?;
    // Nothing here can change the target.
    if reason == NO_FILTER {
        return None;
    }
    Some(
        Finding::note(
            Code::AnswerersUnknown,
            "the program could not find out whether the vDSO or the kernel answers the clocks",
        )
        .seen(reason)
        .fix(what_the_proof_needs(reason)),
    )
}

/// What the program needs to find out who answers the clocks: what the reason names, or else all.
fn what_the_proof_needs(reason: &str) -> &'static str {
    // Without free descriptors, neither can be opened: EMFILE is the process's limit, ENFILE that
    // of the system.
    if reason.contains("(os error 24)") {
        "give the process a few more file descriptors (ulimit -n)"
    } else if reason.contains("(os error 23)") {
        "let the system have more open files (sysctl fs.file-max)"
    } else if reason.contains("/dev/null") {
        "give the container /dev/null (mknod -m 666 /dev/null c 1 3), or run tickline outside of \
         the container"
    } else if reason.contains("can't find itself") {
        "give the container /proc (mount -t proc proc /proc), or run tickline outside of the container"
    } else {
        "give the container /proc and /dev/null, and the process a few more file descriptors \
         (ulimit -n) and processes (ulimit -u), or run tickline outside of the container"
    }
}

tickline_core::named! {
    /// The codes of the findings of this file, in the order of the alphabet.
    #[derive(Debug, Clone, Copy)]
    pub(super) enum Code {
        AnswerersUnknown => "answerers_unknown",
        ClockInterposed => "clock_interposed",
        CounterDenied => "counter_denied",
        EnvironmentUnrecognised => "environment_unrecognised",
        NoThread => "no_thread",
        SwitchedOff => "switched_off",
        Traced => "traced",
    }
}

impl Explained for Code {
    fn explanation(&self) -> Explanation {
        let code = self.code();
        match self {
            Self::AnswerersUnknown => Explanation {
                code,
                summary: "It could not be found out who answers the clocks (note).",
                text: "The program runs itself under a filter of system calls: the vDSO answers \
                       each clock that still works. It finds itself by /proc/self/exe, and needs \
                       /dev/null and a few file descriptors. Without these, as in a container \
                       without /proc, it is unknown whether the clocks are slow. A sandbox may \
                       also refuse the filter. The clocks are not affected. To see what is there:",
                more: &[Commands(&["ls -l /proc/self/exe /dev/null"])],
            },
            Self::ClockInterposed => Explanation {
                code,
                summary: "A library stands between programs and libc's clock (note; wrong, if it \
                          fakes the time).",
                text: "The dynamic linker found `clock_gettime` in a file other than libc, because \
                       of LD_PRELOAD or /etc/ld.so.preload. libfaketime replaces the function to \
                       change the time; profilers do so to count calls. The doctor compares the \
                       time by libc with that of a system call. If they differ by more than a \
                       second, or their paces by more than 1,000 ppm, the time is faked, whatever \
                       the file is called.",
                more: &[
                    Prose(
                        "Programs that are started with the same environment have the same clock. \
                         A service has an environment of its own. To see the environment of a \
                         process:",
                    ),
                    Commands(&["tr '\\0' '\\n' < /proc/PID/environ | grep LD_"]),
                ],
            },
            Self::CounterDenied => Explanation {
                code,
                summary: "The process may not read the CPU's counter (note; wrong, if a clock ends \
                          the process).",
                text: "A parent process or a sandbox has called prctl(PR_SET_TSC, PR_TSC_SIGSEGV), \
                       which children inherit. If the vDSO reads the counter, a call of \
                       clock_gettime then ends the program by SIGSEGV. Other processes of the \
                       machine are not affected.",
                more: &[],
            },
            Self::EnvironmentUnrecognised => Explanation {
                code,
                summary: "The environment variable TICKLINE has a value that tickline ignores (note).",
                text: "Only `on` and `off` mean something. tickline behaves as if the variable \
                       were not set.",
                more: &[],
            },
            Self::NoThread => Explanation {
                code,
                summary: "tickline's own clock could not start its thread (note).",
                text: "The user, or the container, may have no more processes. Readers then renew \
                       the clock themselves, and the CPUs' counters are not compared. The kernel's \
                       clocks are not affected.",
                more: &[],
            },
            Self::SwitchedOff => Explanation {
                code,
                summary: "The environment variable TICKLINE is off (note).",
                text: "tickline does not use the counter in this process: readings come from the \
                       OS clock. Everything else that the doctor says still holds.",
                more: &[],
            },
            Self::Traced => Explanation {
                code,
                summary: "Another process traces this one (note).",
                text: "strace, gdb and recorders stop a program at each system call, so measured \
                       costs may be many times as high as usual. Measure without the tracer.",
                more: &[],
            },
        }
    }
}
