//! `tickline who`, on a program that asks for the time 100,000 times a second.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tickline_observe::monotonic_ns;

use crate::doctor::tickline;
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

/// Runs `tickline who` without tracefs, as the user `nobody`, and on the asker, first while each
/// reading of the clock is a system call, and then while it is not.
///
/// # Errors
///
/// If this program cannot be started again, or the clocksource cannot be chosen.
pub(crate) fn watch_asker() -> io::Result<()> {
    let first = machine::clocksource();
    machine::choose_clocksource("hpet")?;
    report::send_line(&who("who_unmounted", &mut tickline(), None, 0));
    system::mount(c"tracefs", c"/sys/kernel/tracing")?;
    report::send_line(&who("who_nobody", tickline().uid(NOBODY), None, 0));
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
        let mut report = who(phase, &mut tickline(), process, pid);
        // The asker counts its own calls in the time in which `tickline who` has counted.
        let end = |name: &str| report["who"][name].as_u64().unwrap_or(0);
        if let Some(mut input) = asker.stdin.take() {
            writeln!(
                input,
                "{} {}",
                end("from_monotonic_ns"),
                end("until_monotonic_ns")
            )?;
        }
        let output = asker.wait_with_output()?;
        let asked: f64 = String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .unwrap_or(0.0);
        let per_second = report["asker"]["calls_per_second"].as_f64().unwrap_or(0.0);
        let counted = per_second * report["who"]["counted_s"].as_f64().unwrap_or(0.0);
        report["counted_permille"] = permille(counted / asked).into();
        report::send_line(&report);
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

/// The report of `tickline who` on this process, or on all, with the row of `asker`.
fn who(phase: &str, command: &mut Command, process: Option<u32>, asker: u32) -> Value {
    command.arg("who").args(process.map(|pid| pid.to_string()));
    let mut report = report::output(
        phase,
        command
            .args(["--duration", COUNTS_FOR, "--json", "-"])
            .output(),
    );
    let output = report["output"].take();
    let callers = output["who"]["callers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let own = |caller: &&Value| caller["pid"] == asker;
    let row = callers.iter().find(own).cloned().unwrap_or_default();
    let percent = |key: &str| permille(row[key].as_f64().unwrap_or(0.0) / 100.0);
    report["clocksource"] = output["machine"]["clocksource"].clone();
    report["first_is_asker"] = callers.first().is_some_and(|caller| own(&caller)).into();
    report["asker_rows"] = callers.iter().filter(own).count().into();
    report["core_permille"] = percent("core_percent").into();
    report["fixed_core_permille"] = percent("fixed_core_percent").into();
    report["rows"] = callers.len().into();
    report["asker"] = row;
    report["who"] = output["who"].clone();
    report["finding"] = output["findings"][0].clone();
    report
}
