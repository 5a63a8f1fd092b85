//! The compared clocks.

use std::time::Duration;

use tickline::{Clock, ClockState, LinePerCpu, Reading};
use tickline_core::counter::{Counter, CpuCounter, HardwareCounter, HardwareCpuCounter};
use tickline_observe::wait_until;

use crate::peers;
use crate::subject::{ClockSubject, counter, once, same, subject, whole_ns};

/// A clock with a line for each CPU; `None` if this machine can't have one.
fn per_cpu_clock() -> Option<&'static Clock> {
    let make = || {
        let clock = Clock::builder().line_per_cpu(LinePerCpu::On).build().ok()?;
        wait_until(Duration::from_secs(3), || {
            clock
                .status()
                .per_cpu
                .iter()
                .all(|cpu| cpu.state == ClockState::Fast)
        });
        Some(clock)
    };
    once!(Option<Clock>, make()).as_ref()
}

/// The readings by a line for each CPU, if this machine can have such lines.
fn per_cpu_subjects() -> Vec<ClockSubject> {
    if per_cpu_clock().is_none() {
        return Vec::new();
    }
    vec![
        subject!(Counter, "rdtscp", {
            let counter = HardwareCpuCounter::if_present().expect("a clock with a line for each CPU has it");
            move || loop {
                if let Some(read) = counter.now_ordered() {
                    break read.ticks;
                }
            }
        }, ticks same),
        subject!(Time, "tickline per CPU now_ns", {
            let clock = per_cpu_clock().expect("checked before");
            move || clock.now().as_nanos()
        }, ns same),
        subject!(Time, "tickline per CPU now_ordered_ns", {
            let clock = per_cpu_clock().expect("checked before");
            move || clock.now_ordered().as_nanos()
        }, ns same),
    ]
}

/// Every clock that the programs compare. The first two are the bare counter, plain and ordered.
#[must_use]
pub fn subjects() -> Vec<ClockSubject> {
    let mut subjects = vec![
        subject!(Counter, HardwareCounter::NAME, || counter().now(), ticks same),
        subject!(Counter, HardwareCounter::NAME_ORDERED, || counter().now_ordered(), ticks same),
        subject!(Time, "tickline now_ns", tickline::now_ns, ns same),
        subject!(Time, "tickline now_ordered_ns", tickline::now_ordered_ns, ns same),
        subject!(Time, "tickline unix_ns", tickline::unix_ns, ns same),
        subject!(Time, "tickline Instant::now", tickline::Instant::now, ns {
            let epoch = once!(tickline::Instant, tickline::Instant::now());
            move |now: tickline::Instant| whole_ns(now.duration_since(*epoch))
        }),
        subject!(Time, "tickline reading", || tickline::Clock::global().reading(), ns |now: Reading<tickline::Instant>| now.time().as_nanos()),
        subject!(Coarse, "tickline recent_ns", tickline::recent_ns, ns same),
    ];
    subjects.extend(per_cpu_subjects());
    #[cfg(target_os = "linux")]
    subjects.extend(crate::page::subjects());
    subjects.extend(peers::subjects());
    subjects
}

/// A child of `startup`.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// The name of the clock, as in [`subjects`].
    pub clock: &'static str,
    /// The program, in the folder of `startup`.
    pub program: &'static str,
    /// The argument that names the clock.
    pub argument: &'static str,
}

/// The clocks of `startup`: the clock's name in the other tables, the program that measures it, and
/// the program's argument.
pub const PROBES: [Probe; 6] = [
    Probe {
        clock: "std Instant::now",
        program: "startup_probe",
        argument: "std",
    },
    Probe {
        clock: "tickline now_ns",
        program: "startup_probe",
        argument: "tickline",
    },
    Probe {
        clock: "libc clock_gettime MONOTONIC",
        program: "startup_probe",
        argument: "libc",
    },
    Probe {
        clock: "quanta Instant::now",
        program: "startup_probe",
        argument: "quanta",
    },
    Probe {
        clock: "fastant now, in ns",
        program: "startup_probe_fastant",
        argument: "",
    },
    Probe {
        clock: "coarsetime Instant::now",
        program: "startup_probe",
        argument: "coarsetime",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The record joins its tables by these names.
    #[test]
    fn every_probe_is_one_of_the_clocks() {
        let known: Vec<_> = subjects().iter().map(|subject| subject.name).collect();
        for Probe { clock, .. } in PROBES {
            assert!(known.contains(&clock), "{clock} is not among {known:?}");
        }
    }
}
