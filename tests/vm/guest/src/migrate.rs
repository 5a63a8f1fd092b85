//! Moves the machine to other hosts while readers read its clock, and while `tickline watch` runs.
//! The counters of the hosts are equal, ahead, or behind.

use std::io;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::agreed::Request;
use crate::doctor::tickline;
use crate::lab::Lab;
use crate::resume::resumed;
use crate::{machine, report, system};

/// The phases, and the lead of the next host's counter over the former host's, ms.
type Hosts = [(&'static str, i64); 3];

/// The hosts if the kernel keeps time with the counter: its clock then jumps, too.
const HOSTS_UNDER_TSC: Hosts = [
    ("moved", 0),
    ("moved_ahead", 10_000),
    ("moved_behind", -5_000),
];

/// The hosts if the kernel keeps time with another clocksource. A jump of 400 ms is within the
/// window of a line, 1 s, so the line stays in use until the next iteration. The other jumps end
/// the line.
const HOSTS_UNDER_OTHERS: Hosts = [
    ("moved_near", 400),
    ("moved_ahead", 10_000),
    ("moved_behind", -5_000),
];

/// The time that `tickline watch` runs before the first move.
const WATCHED_BEFORE: Duration = Duration::from_secs(3);

/// The limit of `tickline watch`: longer than all moves take.
const WATCHES_FOR: &str = "600s";

/// Moves the machine from host to host.
///
/// # Errors
///
/// If `tickline watch` cannot be started.
pub(crate) fn move_around(lab: &Lab<'_>) -> io::Result<()> {
    let watch = tickline()
        .args([
            "watch",
            "--duration",
            WATCHES_FOR,
            "--interval",
            "100ms",
            "--json",
            "-",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // `tickline watch` detects jumps only after it has measured the counter's frequency.
    thread::sleep(WATCHED_BEFORE);
    let hosts = if machine::clocksource() == "tsc" {
        HOSTS_UNDER_TSC
    } else {
        HOSTS_UNDER_OTHERS
    };
    for (phase, ahead_ms) in hosts {
        let hz = lab.clock.status().frequency_hz.unwrap_or(0);
        let ticks = i64::try_from(hz).unwrap_or(0) / 1_000 * ahead_ms;
        lab.phase(phase, || {
            let done = report::ask_host(Request::Migrate { cpu: None, ticks });
            let mut report = resumed(lab.clock);
            report["done"] = done.is_ok().into();
            report["ticks"] = ticks.into();
            report
        });
        lab.watch_until_settled("again");
        lab.watch("moved_steady", Duration::from_secs(1));
    }
    report::send_line(&watched(watch)?);
    Ok(())
}

/// The report of `tickline watch`.
fn watched(watch: Child) -> io::Result<Value> {
    system::send(&watch, Signal::SIGTERM)?;
    let mut report = report::output("watched", watch.wait_with_output());
    let changes = report["output"]["watch"]["changes"]
        .as_array()
        .into_iter()
        .flatten();
    let jumps = changes
        .filter(|change| change["kind"] == "counter_jump")
        .count();
    report["jumps"] = jumps.into();
    Ok(report)
}
