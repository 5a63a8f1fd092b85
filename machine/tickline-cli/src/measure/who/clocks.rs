//! The clocks that programs read by system calls: their names, and the work of a call.

use crate::measure::calls::{
    BOOTTIME, CPU_TIME, GETTIMEOFDAY, MONOTONIC, MONOTONIC_COARSE, MONOTONIC_RAW, PROCESS_CPU_TIME,
    REALTIME, REALTIME_COARSE, TAI, TIME,
};

/// The answerer of a clock's calls, and the work of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClockKind {
    /// The vDSO answers it whatever the clocksource. A system call reads no counter, either.
    Coarse,
    /// The vDSO answers it if the vDSO can read the clocksource.
    Precise,
    /// As `Precise`, since Linux 5.3 (`lib/vdso/gettimeofday.c`).
    PreciseSinceLinux5_3,
    /// No vDSO answers it. A system call reads the counter.
    Alarm,
    /// No vDSO answers it, so its row in the table of costs is that of a system call.
    CpuTime,
}

struct KernelClock {
    number: i32,
    /// As in the table of costs.
    name: &'static str,
    kind: ClockKind,
}

/// The kernel's clocks (`include/uapi/linux/time.h`).
const CLOCKS: [KernelClock; 11] = {
    const fn clock(number: i32, name: &'static str, kind: ClockKind) -> KernelClock {
        KernelClock { number, name, kind }
    }
    [
        clock(0, REALTIME, ClockKind::Precise),
        clock(1, MONOTONIC, ClockKind::Precise),
        clock(2, PROCESS_CPU_TIME, ClockKind::CpuTime),
        clock(3, CPU_TIME, ClockKind::CpuTime),
        clock(4, MONOTONIC_RAW, ClockKind::PreciseSinceLinux5_3),
        clock(5, REALTIME_COARSE, ClockKind::Coarse),
        clock(6, MONOTONIC_COARSE, ClockKind::Coarse),
        clock(7, BOOTTIME, ClockKind::PreciseSinceLinux5_3),
        clock(8, "clock_gettime REALTIME_ALARM", ClockKind::Alarm),
        clock(9, "clock_gettime BOOTTIME_ALARM", ClockKind::Alarm),
        clock(11, TAI, ClockKind::PreciseSinceLinux5_3),
    ]
};

/// A system call for the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimeCall {
    /// The number of the clock. A negative number is the CPU time of a process or thread, or the
    /// clock of a device (`include/linux/posix-timers.h`).
    ClockGettime(i32),
    GetTimeOfDay,
    Time,
}

impl TimeCall {
    /// The call of this tracepoint. Clocks with the same name are one call. `clock` is the argument
    /// that names the clock.
    pub(super) fn new(call: &str, clock: Option<i32>) -> Option<Self> {
        match call {
            "gettimeofday" => Some(Self::GetTimeOfDay),
            "time" => Some(Self::Time),
            _ => clock.map(|number| Self::ClockGettime(of_its_name(number))),
        }
    }

    /// The clock's name, as in the table of costs.
    pub(crate) fn name(self) -> String {
        match self {
            Self::GetTimeOfDay => GETTIMEOFDAY.to_owned(),
            Self::Time => TIME.to_owned(),
            Self::ClockGettime(number) => clock_name(number),
        }
    }

    /// The kind of the clock; `None` for a number that is not in the table.
    pub(crate) fn kind(self) -> Option<ClockKind> {
        match self {
            Self::GetTimeOfDay => Some(ClockKind::Precise),
            Self::Time => Some(ClockKind::Coarse),
            Self::ClockGettime(number) => Some(kernel_clock(number)?.kind),
        }
    }
}

fn kernel_clock(number: i32) -> Option<&'static KernelClock> {
    CLOCKS.iter().find(|clock| clock.number == number)
}

/// One number for all clocks with the same name. A negative number has the number of a process, a
/// thread or a descriptor in it (`CPUCLOCK_PID`), so each such clock would be a row of its own.
const fn of_its_name(number: i32) -> i32 {
    if number >= 0 {
        number
    } else if is_of_device(number) {
        DEVICE
    } else {
        OTHER_CPU_TIME
    }
}

const DEVICE: i32 = -5;
const OTHER_CPU_TIME: i32 = -6;

/// Whether a negative number is the clock of a device: its lowest three bits are 3 (`CLOCKFD`).
const fn is_of_device(number: i32) -> bool {
    number & 7 == 3
}

fn clock_name(number: i32) -> String {
    match (kernel_clock(number), number) {
        (Some(clock), _) => clock.name.to_owned(),
        (None, ..0) if is_of_device(number) => "clock_gettime of a device".to_owned(),
        (None, ..0) => "clock_gettime CPU time of another".to_owned(),
        (None, _) => format!("clock_gettime number {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: two equal rows of one process, which read the CPU times of two others.
    #[test]
    fn clocks_with_one_name_are_one_row() {
        for (a, b) in [(-6, -14), (-5, -13)] {
            let call = |number| TimeCall::new("clock_gettime", Some(number));
            assert_eq!(call(a), call(b), "{a} {b}");
        }
    }

    #[test]
    fn each_call_has_a_name() {
        for (call, clock, name) in [
            ("clock_gettime", Some(1), Some("clock_gettime MONOTONIC")),
            (
                "clock_gettime",
                Some(9),
                Some("clock_gettime BOOTTIME_ALARM"),
            ),
            ("clock_gettime", Some(17), Some("clock_gettime number 17")),
            ("clock_gettime", Some(-5), Some("clock_gettime of a device")),
            (
                "clock_gettime",
                Some(-6),
                Some("clock_gettime CPU time of another"),
            ),
            ("clock_gettime", None, None),
            ("gettimeofday", None, Some("gettimeofday")),
            ("time", None, Some("time")),
        ] {
            assert_eq!(
                TimeCall::new(call, clock).map(TimeCall::name).as_deref(),
                name,
                "{call} {clock:?}"
            );
        }
    }
}
