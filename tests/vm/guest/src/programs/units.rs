//! The units that the project ships, under the distribution's systemd.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::handover::{self, Seen};
use super::load::{Load, Mode, Program};
use crate::{machine, report};

/// The argument with which this program is the service that tries the unit.
pub(crate) const CHECK: &str = "units";

/// systemd boots to this unit alone: Debian's servers are not wanted.
const CHECK_UNIT: &str = "\
[Unit]
Description=tries tickline.service

[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/opt/init units
";

/// How long a server may take until it serves: it starts, and calibrates.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is done, the state of the unit behind it, and whether a page is served then.
const STEPS: [(&str, &str, &str, bool); 9] = [
    ("booted", "", "active", true),
    ("restarted", "systemctl restart tickline", "active", true),
    ("killed", "systemctl kill --signal=KILL tickline", "active", true),
    ("switched off", "/usr/bin/tickline serve off", "inactive", false),
    ("started while off", "systemctl start tickline", "inactive", false),
    ("switched on", "/usr/bin/tickline serve on", "inactive", false),
    ("started", "systemctl start tickline", "active", true),
    ("stopped", "systemctl stop tickline", "inactive", false),
    ("started again", "systemctl start tickline", "active", true),
];

/// Installs the program and its unit, as `docs/operators.md` has it, and becomes systemd.
///
/// # Errors
///
/// If that is not possible.
pub(crate) fn boot() -> io::Result<()> {
    for (from, to) in [
        ("tickline", "/usr/bin/tickline"),
        ("libtickline_preload.so", "/usr/lib/libtickline_preload.so"),
        ("tickline.service", "/etc/systemd/system/tickline.service"),
    ] {
        fs::copy(format!("/opt/{from}"), to)?;
    }
    super::install()?;
    fs::write("/etc/systemd/system/check.service", CHECK_UNIT)?;
    said("systemctl enable tickline");
    Err(Command::new("/sbin/init").arg("--unit=check.service").exec())
}

/// Tries the unit, as a service of systemd.
///
/// # Errors
///
/// If there is no port for reports.
pub(crate) fn check() -> io::Result<()> {
    report::line(&machine::facts());
    for command in ["systemd-analyze verify tickline.service", "systemd-analyze security tickline"] {
        let text = said(command);
        report::line(&json!({ "phase": "analyze", "command": command, "said": text }));
    }
    let caller = Program::new(&json!({ "name": "static C", "command": "/opt/static-C", "static": true }));
    let (stop, told_ns) = (AtomicBool::new(false), AtomicU64::new(0));
    let seen = Mutex::new(Seen::default());
    thread::scope(|scope| {
        for (step, command, state, is_served) in STEPS {
            take(step, command, state, is_served);
            if step == "booted" {
                scope.spawn(|| match Load::start(&caller, Mode::Run) {
                    Ok(mut load) => {
                        let mut found = handover::watch(&mut load, &stop, &told_ns);
                        found.said = load.said();
                        *seen.lock().expect("nobody panics with it") = found;
                    }
                    Err(error) => report::line(&json!({ "phase": "handover", "error": error })),
                });
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    report::line(&seen.into_inner().unwrap_or_default().report("static C"));
    report::line(
        &json!({ "phase": "journal", "said": said("journalctl --no-pager -u tickline -o short-monotonic") }),
    );
    report::line(&json!({ "phase": "end" }));
    Ok(())
}

/// Takes a step, waits until the unit is in its state, and reports what is served.
fn take(step: &str, command: &str, state: &str, is_served: bool) {
    let errors = if command.is_empty() { String::new() } else { said(command) };
    let start = Instant::now();
    let look = || {
        let found = said("systemctl is-active tickline");
        (found, super::status()["serving"] == true)
    };
    // The step's end, and not what was there before it.
    thread::sleep(Duration::from_millis(1_500));
    let mut found = look();
    while (found.0 != state || found.1 != is_served) && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(100));
        found = look();
    }
    report::line(&json!({
        "phase": "unit", "step": step, "command": command, "errors": errors, "state": found.0,
        "serving": found.1, "expected": [state, is_served],
    }));
}

/// What a command says, on both of its outputs.
fn said(line: &str) -> String {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    match super::command(&words).output() {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            super::last_lines(&text, 60)
        }
        Err(error) => error.to_string(),
    }
}
