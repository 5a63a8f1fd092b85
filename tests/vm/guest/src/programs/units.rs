//! Tests the package, and its unit, under the distribution's systemd.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::exchange;
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

/// The steps: name, command, and the state of the unit afterwards. An active unit serves a page.
const STEPS: [(&str, &str, &str); 14] = [
    ("booted", "", "active"),
    ("restarted", "systemctl restart tickline", "active"),
    ("killed", "systemctl kill --signal=KILL tickline", "active"),
    ("switched_off", "/usr/bin/tickline serve off", "inactive"),
    ("started_while_off", "systemctl start tickline", "inactive"),
    ("switched_on", "/usr/bin/tickline serve on", "inactive"),
    ("started", "systemctl start tickline", "active"),
    ("stopped", "systemctl stop tickline", "inactive"),
    ("started_again", "systemctl start tickline", "active"),
    // This is the same version, which dpkg unpacks like any other.
    ("upgraded", "dpkg -i /opt/tickline.deb", "active"),
    (
        "unpacked_over_it",
        "tar -C / -xzf /opt/tickline.tar.gz",
        "active",
    ),
    ("removed", "dpkg -r tickline", "inactive"),
    (
        "removed_from_under_preload",
        "env LD_PRELOAD=/usr/lib/libtickline_preload.so date",
        "inactive",
    ),
    ("installed_again", "dpkg -i /opt/tickline.deb", "active"),
];

/// The programs that read the clock during all steps.
const CALLERS: [(&str, &str, Mode); 2] = [
    ("meanwhile_run", "/opt/static-C", RUN),
    ("meanwhile_preload", "python3 /opt/load.py", PRELOAD),
];

/// A file of the administrator, which the removal of the package must name.
const LEFT: &str = "/etc/default/served";

/// Installs the package, and becomes systemd.
///
/// # Errors
///
/// If the package can't be installed, or systemd can't be started.
pub(crate) fn boot() -> io::Result<()> {
    report::send_line(&machine::facts());
    super::install()?;
    fs::write(LEFT, "LD_PRELOAD=/usr/lib/libtickline_preload.so\n")?;
    fs::write("/etc/systemd/system/check.service", CHECK_UNIT)?;
    Err(Command::new("/sbin/init")
        .arg("--unit=check.service")
        .exec())
}

/// Tests package and unit, as a service of systemd.
///
/// # Errors
///
/// If there is no port for reports.
pub(crate) fn check() -> io::Result<()> {
    for command in [
        "systemd-analyze verify tickline.service",
        "systemd-analyze security tickline",
    ] {
        let output = run(command).output;
        report::send_line(&json!({ "phase": "analyze", "command": command, "output": output }));
    }
    let stop = &AtomicBool::new(false);
    let findings: Vec<Value> = thread::scope(|scope| {
        let mut callers = Vec::new();
        for (step, command, state) in STEPS {
            take(step, command, state);
            if step == "booted" {
                callers = CALLERS
                    .map(|caller| scope.spawn(move || called(caller, stop)))
                    .into();
            }
        }
        // ORDERING: Relaxed, the flag orders no memory.
        stop.store(true, Ordering::Relaxed);
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap_or_default())
            .collect()
    });
    findings.iter().for_each(report::send_line);
    let journal = run("journalctl --no-pager -u tickline -o short-monotonic").output;
    report::send_line(&json!({ "phase": "journal", "output": journal }));
    report::send_line(&json!({ "phase": "end" }));
    Ok(())
}

/// The findings of a program until `stop`.
fn called((phase, command, mode): (&str, &str, Mode), stop: &AtomicBool) -> Value {
    let program = Program {
        name: phase.to_owned(),
        command: command.to_owned(),
        ..Program::default()
    };
    let mut findings = match Load::start(&program, mode) {
        Ok(mut load) => {
            let is_served = load.has_page();
            let mut findings = json!(exchange::watch(
                phase.to_owned(),
                &mut load,
                stop,
                &AtomicU64::new(0)
            ));
            findings["is_served"] = is_served.into();
            findings
        }
        Err(error) => json!({ "phase": phase, "error": error.to_string() }),
    };
    findings["command"] = format!("{} {command}", mode.prefix).into();
    findings
}

/// Takes a step, waits until the unit has the expected state, and reports the state.
fn take(step: &str, command: &str, state: &str) {
    let Ran { is_done, output } = if command.is_empty() {
        Ran {
            is_done: true,
            output: String::new(),
        }
    } else {
        run(command)
    };
    let observe = || {
        let found = run("systemctl is-active tickline").output;
        (found, super::status()["serving"] == true)
    };
    // Wait first, so that the state from before the step does not count.
    thread::sleep(Duration::from_millis(1_500));
    let expected = (state.to_owned(), state == "active");
    let mut found = (String::new(), false);
    let waited = wait_for(PATIENCE, || {
        thread::sleep(Duration::from_millis(100));
        found = observe();
        found == expected
    });
    // The removal must list files that still name the package.
    let is_done = is_done && (step != "removed" || output.contains(LEFT));
    report::send_line(&json!({
        "phase": step, "command": command, "done": is_done, "output": output,
        "state": found.0, "serving": found.1, "expected": expected, "reached": waited["reached"],
    }));
}

/// A command that has run.
struct Ran {
    is_done: bool,
    /// Its output on both streams, or why it did not start.
    output: String,
}

/// Runs a command.
fn run(line: &str) -> Ran {
    match super::command(line).output() {
        Ok(output) => Ran {
            is_done: output.status.success(),
            output: super::last_lines(&[output.stdout, output.stderr].concat(), 60),
        },
        Err(error) => Ran {
            is_done: false,
            output: error.to_string(),
        },
    }
}
