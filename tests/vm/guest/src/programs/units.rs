//! Tests the package, and its unit, under the distribution's systemd.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::exchange;
use super::load::Load;
use crate::agreed::{Mode, Program};
use crate::lab::wait_for;
use crate::phase::{self, Phase, Step};
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
    ("meanwhile_run", "/opt/static-C", Mode::Run),
    ("meanwhile_preload", "python3 /opt/load.py", Mode::Preload),
];

/// A file of the administrator, which the removal of the package must name.
const LEFT: &str = "/etc/default/served";

/// Installs the package, and becomes systemd.
///
/// # Errors
///
/// If the package can't be installed, or systemd can't be started.
pub(crate) fn boot() -> io::Result<()> {
    report::send(machine::facts());
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
        report::send(Phase {
            command: Some(command.to_owned()),
            text: Some(run(command).output),
            ..Phase::named("analyze")
        });
    }
    let stop = &AtomicBool::new(false);
    let callers: Vec<Phase> = thread::scope(|scope| {
        let mut callers = Vec::new();
        for (step, command, state) in STEPS {
            take(step, command, state);
            if step == "booted" {
                callers = CALLERS
                    .map(|caller| scope.spawn(move || call(caller, stop)))
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
    callers.into_iter().for_each(report::send);
    report::send(Phase {
        text: Some(run("journalctl --no-pager -u tickline -o short-monotonic").output),
        ..Phase::named("journal")
    });
    report::send(Phase::named(phase::END));
    Ok(())
}

/// Makes a program call the clock until `stop`.
fn call((name, command, mode): (&str, &str, Mode), stop: &AtomicBool) -> Phase {
    let program = Program {
        name: name.to_owned(),
        command: command.to_owned(),
        ..Program::default()
    };
    let phase = match Load::start(&program, mode) {
        Ok(mut load) => {
            let is_served = load.has_page();
            let returned_ns = AtomicU64::new(0);
            Phase {
                is_served: Some(is_served),
                ..exchange::watch(name.to_owned(), &mut load, stop, &returned_ns)
            }
        }
        Err(error) => Phase {
            error: Some(error.to_string()),
            ..Phase::named(name)
        },
    };
    Phase {
        command: Some(format!("{} {command}", mode.prefix())),
        ..phase
    }
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
    let observe = || Step {
        state: run("systemctl is-active tickline").output,
        serving: super::is_serving(),
    };
    // Wait first, so that the state from before the step does not count.
    thread::sleep(Duration::from_millis(1_500));
    let expected = Step {
        state: state.to_owned(),
        serving: state == "active",
    };
    let mut found = Step::default();
    let waited = wait_for(PATIENCE, || {
        thread::sleep(Duration::from_millis(100));
        found = observe();
        found == expected
    });
    // The removal must list files that still name the package.
    let is_done = is_done && (step != "removed" || output.contains(LEFT));
    report::send(Phase {
        command: Some(command.to_owned()),
        text: Some(output),
        done: Some(is_done),
        waited: Some(waited),
        step: Some(found),
        ..Phase::named(step)
    });
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
