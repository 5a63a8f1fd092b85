//! `tickline who`, on a program that asks for the time 100,000 times a second.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use tickline_observe::monotonic_ns;

use crate::doctor::tickline;
use crate::phase::{Caller, DiagnosedMachine, Phase, Who};
use crate::{machine, report, system};

/// The argument that makes this program the asker, which only asks for the time.
pub(crate) const ASKER: &str = "asker";

/// The number of calls in a row, and the time from one row to the next. Together they make 100,000
/// calls a second.
const ROW: u64 = 100;
const ROW_NS: u64 = 1_000_000;

/// The time for which the asker asks, ns: longer than `tickline who` takes to count.
const ASKS_NS: u64 = 6_000_000_000;

/// The time for which `tickline who` counts.
const COUNTS_FOR: &str = "2s";

/// The user id of the unprivileged user `nobody`.
pub(crate) const NOBODY: u32 = 65_534;

/// Asks for the time 100,000 times a second, and catches up after a late row. Then reads the two
/// times between which `tickline who` has counted from standard input, and prints the number of its
/// own calls between these times.
pub(crate) fn ask() {
    nix::sys::prctl::set_name(c"asker").ok();
    let start_ns = monotonic_ns();
    let mut asked_ns = Vec::new();
    let mut rows = 0;
    while rows * ROW_NS < ASKS_NS {
        asked_ns.extend((0..ROW).map(|_| monotonic_ns()));
        rows += 1;
        // The last of these times is used, because `tickline who` would count another call.
        let last_ns = asked_ns.last().copied().unwrap_or(start_ns);
        thread::sleep(Duration::from_nanos(
            (start_ns + rows * ROW_NS).saturating_sub(last_ns),
        ));
    }
    let window = io::read_to_string(io::stdin()).unwrap_or_default();
    let mut ends = window
        .split_whitespace()
        .map(|end| end.parse::<u64>().unwrap_or(0));
    let window = ends.next().unwrap_or(0)..ends.next().unwrap_or(0);
    #[expect(clippy::print_stdout, reason = "the first process reads it")]
    {
        println!(
            "{}",
            asked_ns
                .iter()
                .filter(|at_ns| window.contains(*at_ns))
                .count()
        );
    }
}

/// A part of the JSON of `tickline who`.
#[derive(Debug, Deserialize)]
struct Document {
    machine: DiagnosedMachine,
    who: Count,
}

/// What `tickline who` has counted, and when. Without a count, the times are null.
#[derive(Debug, Deserialize)]
struct Count {
    counted_s: Option<f64>,
    from_monotonic_ns: Option<u64>,
    until_monotonic_ns: Option<u64>,
    lost_calls: u64,
    callers: Vec<Caller>,
    instead: Vec<String>,
}

/// Runs `tickline who` without tracefs, as the user `nobody`, and on the asker, first while each
/// reading of the clock is a system call, and then while it is not.
///
/// # Errors
///
/// If this program cannot be started again, or the clocksource cannot be chosen.
pub(crate) fn watch_asker() -> io::Result<()> {
    let first = machine::clocksource();
    machine::choose_clocksource("hpet")?;
    let (unmounted, _) = run_who("who_unmounted", &mut tickline(), None, 0);
    report::send(unmounted);
    system::mount(c"tracefs", c"/sys/kernel/tracing")?;
    let (as_nobody, _) = run_who("who_nobody", tickline().uid(NOBODY), None, 0);
    report::send(as_nobody);
    for (phase, clocksource) in [
        ("who_hpet", "hpet"),
        ("who_tsc", first.as_str()),
        ("who_pid", "hpet"),
    ] {
        machine::choose_clocksource(clocksource)?;
        let mut asker = Command::new("/init")
            .arg(ASKER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pid = asker.id();
        let process = (phase == "who_pid").then_some(pid);
        let (mut phase, count) = run_who(phase, &mut tickline(), process, pid);
        let count = count.as_ref();
        // The asker counts its own calls in the time in which `tickline who` has counted.
        let from_ns = count.and_then(|count| count.from_monotonic_ns);
        let until_ns = count.and_then(|count| count.until_monotonic_ns);
        if let Some(mut input) = asker.stdin.take() {
            let [from_ns, until_ns] = [from_ns, until_ns].map(Option::unwrap_or_default);
            writeln!(input, "{from_ns} {until_ns}")?;
        }
        let output = asker.wait_with_output()?;
        let asked: f64 = String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .unwrap_or(0.0);
        let counted_s = count.and_then(|count| count.counted_s).unwrap_or(0.0);
        let row = phase.asker.as_ref();
        let counted = row.map_or(0.0, |row| row.calls_per_second) * counted_s;
        if let Some(who) = &mut phase.who {
            who.counted_permille = Some(permille(counted / asked));
        }
        report::send(phase);
    }
    machine::choose_clocksource(&first)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped"
)]
fn permille(ratio: f64) -> u64 {
    (ratio * 1_000.0).clamp(0.0, 1e9) as u64
}

/// Runs `tickline who` on this process, or on all. Returns the same as [`with_count`].
fn run_who(
    phase: &str,
    command: &mut Command,
    process: Option<u32>,
    asker: u32,
) -> (Phase, Option<Count>) {
    command.arg("who").args(process.map(|pid| pid.to_string()));
    command.args(["--duration", COUNTS_FOR, "--json", "-"]);
    with_count(report::output(phase, command.output()), asker)
}

/// A phase of `tickline who`, with the row of `asker`; and the count, if the output has one.
fn with_count(phase: Phase, asker: u32) -> (Phase, Option<Count>) {
    let Some(Document {
        machine,
        who: count,
    }) = report::parsed(&phase)
    else {
        return (phase, None);
    };
    let is_asker = |caller: &&Caller| caller.pid == asker;
    let row = count.callers.iter().find(is_asker).cloned();
    let of_a_core = |percent: fn(&Caller) -> Option<f64>| {
        let percent = row.as_ref().and_then(percent)?;
        Some(permille(percent / 100.0))
    };
    let who = Who {
        rows: count.callers.len(),
        asker_rows: count.callers.iter().filter(is_asker).count(),
        first_is_asker: count
            .callers
            .first()
            .is_some_and(|caller| is_asker(&caller)),
        core_permille: of_a_core(|row| row.core_percent),
        fixed_core_permille: of_a_core(|row| row.fixed_core_percent),
        counted_permille: None,
        lost_calls: count.lost_calls,
        instead: count.instead.clone(),
    };
    let phase = Phase {
        clocksource: machine.clocksource,
        who: Some(who),
        asker: row,
        ..phase
    };
    (phase, Some(count))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::phase::ProgramRun;

    /// What `tickline who` says on process 7, whose calls would have this cost if they were fixed.
    fn counted(fixed_core_percent: Option<f64>, asker: u32) -> Who {
        let caller = json!({
            "pid": 7,
            "process": "asker",
            "clock": "clock_gettime MONOTONIC",
            "calls_per_second": 100_000.0,
            "core_percent": 11.25,
            "fixed_core_percent": fixed_core_percent,
        });
        let output = json!({
            "machine": { "clocksource": "hpet" },
            "who": { "lost_calls": 0, "callers": [caller], "instead": [] },
        });
        let phase = Phase {
            program: Some(ProgramRun {
                output: Some(output),
                ..ProgramRun::default()
            }),
            ..Phase::named("who_hpet")
        };
        with_count(phase, asker).0.who.unwrap()
    }

    fn costs(who: Who) -> (Option<u64>, Option<u64>) {
        (who.core_permille, who.fixed_core_permille)
    }

    #[test]
    fn costs_are_of_the_asker() {
        assert_eq!(costs(counted(Some(0.5), 7)), (Some(112), Some(5)));
        assert_eq!(costs(counted(Some(0.5), 8)), (None, None));
    }

    /// Symptom: an unknown cost was 0, which is less than the present cost.
    #[test]
    fn an_unknown_cost_is_no_cost_of_0() {
        assert_eq!(costs(counted(None, 7)), (Some(112), None));
    }
}
