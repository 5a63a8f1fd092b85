//! The clocks that programs read by system calls: their names, the cost of a call, and the cost if
//! the vDSO answered it.

use crate::document::Document;
use crate::measure::calls::{
    BOOTTIME, CPU_TIME, GETPPID, GETTIMEOFDAY, MONOTONIC, MONOTONIC_COARSE, MONOTONIC_RAW,
    PROCESS_CPU_TIME, REALTIME, REALTIME_COARSE, SYSTEM_CALL, TAI, TIME,
};
use crate::measure::served_by::ServedBy;

/// The answerer of a clock's calls, and the work of a call.
#[derive(Debug, Clone, Copy)]
enum Kind {
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
    kind: Kind,
}

/// The kernel's clocks (`include/uapi/linux/time.h`).
const CLOCKS: [KernelClock; 11] = {
    const fn clock(number: i32, name: &'static str, kind: Kind) -> KernelClock {
        KernelClock { number, name, kind }
    }
    [
        clock(0, REALTIME, Kind::Precise),
        clock(1, MONOTONIC, Kind::Precise),
        clock(2, PROCESS_CPU_TIME, Kind::CpuTime),
        clock(3, CPU_TIME, Kind::CpuTime),
        clock(4, MONOTONIC_RAW, Kind::PreciseSinceLinux5_3),
        clock(5, REALTIME_COARSE, Kind::Coarse),
        clock(6, MONOTONIC_COARSE, Kind::Coarse),
        clock(7, BOOTTIME, Kind::PreciseSinceLinux5_3),
        clock(8, "clock_gettime REALTIME_ALARM", Kind::Alarm),
        clock(9, "clock_gettime BOOTTIME_ALARM", Kind::Alarm),
        clock(11, TAI, Kind::PreciseSinceLinux5_3),
    ]
};

/// A system call for the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimeCall {
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
    pub(super) fn name(self) -> String {
        match self {
            Self::GetTimeOfDay => GETTIMEOFDAY.to_owned(),
            Self::Time => TIME.to_owned(),
            Self::ClockGettime(number) => clock_name(number),
        }
    }

    /// `None` for a number that is not in the table.
    fn kind(self) -> Option<Kind> {
        match self {
            Self::GetTimeOfDay => Some(Kind::Precise),
            Self::Time => Some(Kind::Coarse),
            Self::ClockGettime(number) => Some(kernel_clock(number)?.kind),
        }
    }

    /// The cost of a system call to this clock, ns. If a system call answers the clock, it is the
    /// measured cost of the clock. Otherwise it is the cost of a system call that reads the
    /// counter, or for a coarse clock the cost of a system call that does not. `None` for the CPU
    /// time of another process, and for the clock of a device.
    pub(super) fn cost_ns(self, document: &Document) -> Option<f64> {
        let measured = document
            .cost_row(&self.name())
            .filter(|row| row.served_by == Some(ServedBy::SystemCall));
        measured
            .and_then(|row| row.cost_ns)
            .or_else(|| match self.kind()? {
                Kind::Coarse => document.cost_ns(GETPPID),
                Kind::Precise | Kind::PreciseSinceLinux5_3 | Kind::Alarm => {
                    document.cost_ns(SYSTEM_CALL)
                }
                Kind::CpuTime => document.cost_ns(&self.name()),
            })
    }

    /// The cost of a call once the machine is fixed and the program uses the vDSO, ns. `now_ns` is
    /// the cost of the system call.
    pub(super) fn fixed_ns(self, now_ns: Option<f64>, document: &Document) -> Option<f64> {
        let row = document.cost_row(&self.name());
        let by_vdso = row
            .filter(|row| row.served_by == Some(ServedBy::Vdso))
            .and_then(|row| row.cost_ns);
        let possible = match self.kind() {
            Some(Kind::Coarse) => by_vdso,
            Some(Kind::PreciseSinceLinux5_3)
                if document.machine.is_kernel_at_least(5, 3) != Some(true) =>
            {
                by_vdso
            }
            Some(Kind::Precise | Kind::PreciseSinceLinux5_3) => {
                by_vdso.or_else(|| document.attainable_cost_ns())
            }
            Some(Kind::Alarm | Kind::CpuTime) | None => return now_ns,
        };
        // A fix makes no call slower. A present cost below the possible one is a measurement error.
        possible.map(|ns| now_ns.map_or(ns, |now_ns| ns.min(now_ns)))
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
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn measured_machine(served_by: &str, kernel: &str) -> Document {
        let json = json!({
            "machine": { "kernel": kernel },
            "costs": [
                { "clock": MONOTONIC, "cost_ns": 900.0, "served_by": served_by },
                { "clock": MONOTONIC_COARSE, "cost_ns": 5.0, "served_by": "vdso" },
                { "clock": PROCESS_CPU_TIME, "cost_ns": 400.0, "served_by": "system_call" },
                { "clock": "lfence; rdtsc", "cost_ns": 20.0 },
                { "clock": SYSTEM_CALL, "cost_ns": 1_000.0 },
                { "clock": GETPPID, "cost_ns": 200.0 },
            ],
        });
        serde_json::from_value(json).unwrap()
    }

    /// The cost of a call on a kernel after the fix, if it costs `now_ns` and is a system call.
    fn fixed_ns(kernel: &str, call: TimeCall, now_ns: Option<f64>) -> Option<f64> {
        call.fixed_ns(now_ns, &measured_machine("system_call", kernel))
    }

    #[test]
    fn a_fixed_call_costs_a_coarse_clock_and_a_read_of_the_counter() {
        for call in [TimeCall::ClockGettime(1), TimeCall::GetTimeOfDay] {
            let fixed = fixed_ns("6.1.0-1", call, Some(1_000.0));
            assert_eq!(fixed, Some(25.0), "{call:?}");
        }
    }

    #[test]
    fn a_fix_makes_no_call_slower() {
        let fixed = fixed_ns("6.1.0-1", TimeCall::ClockGettime(1), Some(10.0));
        assert_eq!(fixed, Some(10.0));
    }

    #[test]
    fn a_fixed_coarse_clock_costs_what_the_vdso_costs_if_that_is_known() {
        let [known, unknown] = [6, 5].map(TimeCall::ClockGettime);
        assert_eq!(fixed_ns("6.1.0-1", known, Some(200.0)), Some(5.0));
        assert_eq!(fixed_ns("6.1.0-1", unknown, Some(200.0)), None);
    }

    #[test]
    fn no_fix_helps_a_clock_that_no_vdso_answers() {
        for (number, now_ns) in [
            (2, Some(400.0)),
            (8, Some(1_000.0)),
            (9, Some(1_000.0)),
            (-6, None),
        ] {
            let fixed = fixed_ns("6.1.0-1", TimeCall::ClockGettime(number), now_ns);
            assert_eq!(fixed, now_ns, "{number}");
        }
    }

    #[test]
    fn the_vdso_answers_more_clocks_since_linux_5_3() {
        for (kernel, number, expected_ns) in [
            ("5.3.0", 4, Some(25.0)),
            ("5.10.1-a", 4, Some(25.0)),
            ("5.3.0", 7, Some(25.0)),
            ("5.3.0", 11, Some(25.0)),
            ("4.19.0", 4, None),
            ("4.19.0", 0, Some(25.0)),
            // The version is unknown.
            ("x", 4, None),
        ] {
            let fixed = fixed_ns(kernel, TimeCall::ClockGettime(number), Some(1_000.0));
            assert_eq!(fixed, expected_ns, "{kernel} {number}");
        }
    }

    #[test]
    fn a_program_that_bypasses_the_vdso_gains_by_its_use() {
        let machine = measured_machine("vdso", "6.1.0-1");
        let fixed = TimeCall::ClockGettime(1).fixed_ns(Some(1_000.0), &machine);
        assert_eq!(fixed, Some(900.0));
    }

    #[test]
    fn a_system_call_costs_what_the_table_of_costs_says() {
        let mut document = measured_machine("vdso", "6.1.0");
        // The answerer of the CPU time of the process is unknown.
        document.costs[2].served_by = None;
        for (call, cost_ns) in [
            (TimeCall::ClockGettime(1), Some(1_000.0)),
            (TimeCall::GetTimeOfDay, Some(1_000.0)),
            (TimeCall::ClockGettime(6), Some(200.0)),
            (TimeCall::ClockGettime(2), Some(400.0)),
            (TimeCall::ClockGettime(8), Some(1_000.0)),
            (TimeCall::ClockGettime(9), Some(1_000.0)),
            (TimeCall::ClockGettime(-6), None),
            (TimeCall::ClockGettime(1_000), None),
        ] {
            assert_eq!(call.cost_ns(&document), cost_ns, "{call:?}");
        }
    }

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
