//! The cost of the system calls that read a clock, and the cost if the vDSO answered them.

use crate::document::Document;
use crate::measure::calls::{GETPPID, SYSTEM_CALL};
use crate::measure::served_by::ServedBy;
use crate::measure::who::{ClockKind, TimeCall};

/// The cost of a system call to this clock, ns. If a system call answers the clock, it is the
/// measured cost of the clock. Otherwise it is the cost of a system call that reads the counter, or
/// for a coarse clock the cost of a system call that does not. `None` for the CPU time of another
/// process, and for the clock of a device.
pub(super) fn cost_ns(call: TimeCall, document: &Document) -> Option<f64> {
    let measured = document
        .cost_row(&call.name())
        .filter(|row| row.served_by == Some(ServedBy::SystemCall));
    measured
        .and_then(|row| row.cost_ns)
        .or_else(|| match call.kind()? {
            ClockKind::Coarse => document.cost_ns(GETPPID),
            ClockKind::Precise | ClockKind::PreciseSinceLinux5_3 | ClockKind::Alarm => {
                document.cost_ns(SYSTEM_CALL)
            }
            ClockKind::CpuTime => document.cost_ns(&call.name()),
        })
}

/// The cost of a call once the machine is fixed and the program uses the vDSO, ns. `now_ns` is the
/// cost of the system call.
pub(super) fn fixed_ns(call: TimeCall, now_ns: Option<f64>, document: &Document) -> Option<f64> {
    let row = document.cost_row(&call.name());
    let by_vdso = row
        .filter(|row| row.served_by == Some(ServedBy::Vdso))
        .and_then(|row| row.cost_ns);
    let possible = match call.kind() {
        Some(ClockKind::Coarse) => by_vdso,
        Some(ClockKind::PreciseSinceLinux5_3)
            if document.machine.is_kernel_at_least(5, 3) != Some(true) =>
        {
            by_vdso
        }
        Some(ClockKind::Precise | ClockKind::PreciseSinceLinux5_3) => {
            by_vdso.or_else(|| document.attainable_cost_ns())
        }
        Some(ClockKind::Alarm | ClockKind::CpuTime) | None => return now_ns,
    };
    // A fix makes no call slower. A present cost below the possible one is a measurement error.
    possible.map(|ns| now_ns.map_or(ns, |now_ns| ns.min(now_ns)))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::measure::calls::{MONOTONIC, MONOTONIC_COARSE, PROCESS_CPU_TIME};

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
    fn fixed_on(kernel: &str, call: TimeCall, now_ns: Option<f64>) -> Option<f64> {
        fixed_ns(call, now_ns, &measured_machine("system_call", kernel))
    }

    #[test]
    fn a_fixed_call_costs_a_coarse_clock_and_a_read_of_the_counter() {
        for call in [TimeCall::ClockGettime(1), TimeCall::GetTimeOfDay] {
            let fixed = fixed_on("6.1.0-1", call, Some(1_000.0));
            assert_eq!(fixed, Some(25.0), "{call:?}");
        }
    }

    #[test]
    fn a_fix_makes_no_call_slower() {
        let fixed = fixed_on("6.1.0-1", TimeCall::ClockGettime(1), Some(10.0));
        assert_eq!(fixed, Some(10.0));
    }

    #[test]
    fn a_fixed_coarse_clock_costs_what_the_vdso_costs_if_that_is_known() {
        let [known, unknown] = [6, 5].map(TimeCall::ClockGettime);
        assert_eq!(fixed_on("6.1.0-1", known, Some(200.0)), Some(5.0));
        assert_eq!(fixed_on("6.1.0-1", unknown, Some(200.0)), None);
    }

    #[test]
    fn no_fix_helps_a_clock_that_no_vdso_answers() {
        for (number, now_ns) in [
            (2, Some(400.0)),
            (8, Some(1_000.0)),
            (9, Some(1_000.0)),
            (-6, None),
        ] {
            let fixed = fixed_on("6.1.0-1", TimeCall::ClockGettime(number), now_ns);
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
            let fixed = fixed_on(kernel, TimeCall::ClockGettime(number), Some(1_000.0));
            assert_eq!(fixed, expected_ns, "{kernel} {number}");
        }
    }

    #[test]
    fn a_program_that_bypasses_the_vdso_gains_by_its_use() {
        let machine = measured_machine("vdso", "6.1.0-1");
        let fixed = fixed_ns(TimeCall::ClockGettime(1), Some(1_000.0), &machine);
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
            assert_eq!(super::cost_ns(call, &document), cost_ns, "{call:?}");
        }
    }
}
