//! Moves the machine to other hosts while readers read its clock, and while `tickline watch` runs.
//! The counters of the hosts are equal, ahead, or behind.

use std::io;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Deserialize;

use crate::agreed::Request;
use crate::doctor::tickline;
use crate::lab::Lab;
use crate::phase::Phase;
use crate::resume::watch_resumed;
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
            let resumed = watch_resumed(lab.clock);
            Phase {
                done: Some(done.is_ok()),
                resumed: Some(resumed),
                text: Some(format!("by {ticks} ticks")),
                ..Phase::default()
            }
        });
        lab.watch_until_settled("again");
        lab.watch("moved_steady", Duration::from_secs(1));
    }
    report::send(end_watch(watch)?);
    Ok(())
}

/// The changes in the JSON of `tickline watch`.
#[derive(Debug, Deserialize)]
struct Document {
    watch: Watch,
}

#[derive(Debug, Deserialize)]
struct Watch {
    /// Left out if there were none.
    #[serde(default)]
    changes: Vec<Change>,
}

#[derive(Debug, Deserialize)]
struct Change {
    kind: String,
}

/// Ends `tickline watch`, and returns its report.
fn end_watch(watch: Child) -> io::Result<Phase> {
    system::send(&watch, Signal::SIGTERM)?;
    let phase = report::output("watched", watch.wait_with_output());
    let jumps = report::parsed(&phase).map(|Document { watch }| {
        let changes = watch.changes.iter();
        changes.filter(|one| one.kind == "counter_jump").count()
    });
    Ok(Phase { jumps, ..phase })
}
