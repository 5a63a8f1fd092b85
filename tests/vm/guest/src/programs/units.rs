//! Tests the package, and its unit, under the distribution's systemd.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::handover;
use super::load::{Load, Mode, PRELOAD, Program, RUN};
use crate::lab::wait_for;
use crate::{machine, report};

/// The argument that makes this program the service that tests the unit.
pub(crate) const CHECK: &str = "units";

/// The only unit to which systemd boots, so that it does not start Debian's servers.
const CHECK_UNIT: &str = "\
[Unit]
Description=tries the package

[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/opt/init units
";

/// The longest time for a server to start and to calibrate.
const PATIENCE: Duration = Duration::from_secs(30);

/// The steps: name, command, the state of the unit afterwards, and whether a page is then served.
const STEPS: [(&str, &str, &str, bool); 14] = [
    ("booted", "", "active", true),
    ("restarted", "systemctl restart tickline", "active", true),
    ("killed", "systemctl kill --signal=KILL tickline", "active", true),
    ("switched_off", "/usr/bin/tickline serve off", "inactive", false),
    ("started_while_off", "systemctl start tickline", "inactive", false),
    ("switched_on", "/usr/bin/tickline serve on", "inactive", false),
    ("started", "systemctl start tickline", "active", true),
    ("stopped", "systemctl stop tickline", "inactive", false),
    ("started_again", "systemctl start tickline", "active", true),
    // This is the same version, which dpkg unpacks like any other.
    ("upgraded", "dpkg -i /opt/tickline.deb", "active", true),
    ("unpacked_over_it", "tar -C / -xzf /opt/tickline.tar.gz", "active", true),
    ("removed", "dpkg -r tickline", "inactive", false),
    ("removed_from_under_preload", "env LD_PRELOAD=/usr/lib/libtickline_preload.so date", "inactive", false),
    ("installed_again", "dpkg -i /opt/tickline.deb", "active", true),
];

/// The programs that read the clock during all steps.
const CALLERS: [(&str, &str, Mode); 2] =
    [("meanwhile_run", "/opt/static-C", RUN), ("meanwhile_preload", "python3 /opt/load.py", PRELOAD)];

/// A file of the administrator, which the removal of the package must name.
const LEFT: &str = "/etc/default/served";

/// Installs the package, and becomes systemd.
///
/// # Errors
///
/// If the package can't be installed, or systemd can't be started.
pub(crate) fn boot() -> io::Result<()> {
    report::line(&machine::facts());
    super::install()?;
    fs::write(LEFT, "LD_PRELOAD=/usr/lib/libtickline_preload.so\n")?;
    fs::write("/etc/systemd/system/check.service", CHECK_UNIT)?;
    Err(Command::new("/sbin/init").arg("--unit=check.service").exec())
}

/// Tests package and unit, as a service of systemd.
///
/// # Errors
///
/// If there is no port for reports.
pub(crate) fn check() -> io::Result<()> {
    for command in ["systemd-analyze verify tickline.service", "systemd-analyze security tickline"] {
        let (_, text) = said(command);
        report::line(&json!({ "phase": "analyze", "command": command, "said": text }));
    }
    let stop = &AtomicBool::new(false);
    let seen: Vec<Value> = thread::scope(|scope| {
        let mut callers = Vec::new();
        for (step, command, state, is_served) in STEPS {
            take(step, command, state, is_served);
            if step == "booted" {
                callers = CALLERS.map(|caller| scope.spawn(move || called(caller, stop))).into();
            }
        }
        // ORDERING: Relaxed, the flag orders no memory.
        stop.store(true, Ordering::Relaxed);
        callers.into_iter().map(|caller| caller.join().unwrap_or_default()).collect()
    });
    seen.iter().for_each(report::line);
    let (_, journal) = said("journalctl --no-pager -u tickline -o short-monotonic");
    report::line(&json!({ "phase": "journal", "said": journal }));
    report::line(&json!({ "phase": "end" }));
    Ok(())
}

/// The findings of a program until `stop`.
fn called((phase, command, mode): (&str, &str, Mode), stop: &AtomicBool) -> Value {
    let program = Program { name: phase.to_owned(), command: command.to_owned(), ..Program::default() };
    let mut seen = match Load::start(&program, mode) {
        Ok(mut load) => {
            let is_served = load.has_page();
            let mut seen = json!(handover::watch(phase.to_owned(), &mut load, stop, &AtomicU64::new(0)));
            seen["is_served"] = is_served.into();
            seen
        }
        Err(error) => json!({ "phase": phase, "error": error.to_string() }),
    };
    seen["command"] = format!("{} {command}", mode.prefix).into();
    seen
}

/// Takes a step, waits until the unit has the expected state, and reports the state.
fn take(step: &str, command: &str, state: &str, is_served: bool) {
    let (is_done, text) = if command.is_empty() { (true, String::new()) } else { said(command) };
    let observe = || {
        let (_, found) = said("systemctl is-active tickline");
        (found, super::status()["serving"] == true)
    };
    // Wait first, so that the state from before the step does not count.
    thread::sleep(Duration::from_millis(1_500));
    let mut found = (String::new(), false);
    let waited = wait_for(PATIENCE, || {
        thread::sleep(Duration::from_millis(100));
        found = observe();
        found.0 == state && found.1 == is_served
    });
    // The removal must list files that still name the package.
    let is_done = is_done && (step != "removed" || text.contains(LEFT));
    report::line(&json!({
        "phase": step, "command": command, "done": is_done, "said": text,
        "state": found.0, "serving": found.1, "expected": [state, is_served], "reached": waited["reached"],
    }));
}

/// Runs a command. Returns whether it succeeds, and its messages on both outputs.
fn said(line: &str) -> (bool, String) {
    match super::command(line).output() {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            (output.status.success(), super::last_lines(&text, 60))
        }
        Err(error) => (false, error.to_string()),
    }
}
