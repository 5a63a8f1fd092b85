//! Tries the package, and the unit in it, under the distribution's systemd.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::load::{Load, Mode, PRELOAD, Program, RUN};
use crate::lab::wait_for;
use crate::{machine, report};

/// The argument that makes this program the service that tries the unit.
pub(crate) const CHECK: &str = "units";

/// systemd boots only to this unit, so that it does not start Debian's servers.
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
    ("switched off", "/usr/bin/tickline serve off", "inactive", false),
    ("started while off", "systemctl start tickline", "inactive", false),
    ("switched on", "/usr/bin/tickline serve on", "inactive", false),
    ("started", "systemctl start tickline", "active", true),
    ("stopped", "systemctl stop tickline", "inactive", false),
    ("started again", "systemctl start tickline", "active", true),
    // This is the same version, which dpkg unpacks like any other.
    ("upgraded", "dpkg -i /opt/tickline.deb", "active", true),
    ("unpacked over it", "tar -C / -xzf /opt/tickline.tar.gz", "active", true),
    ("removed", "dpkg -r tickline", "inactive", false),
    (
        "removed from under LD_PRELOAD",
        "env LD_PRELOAD=/usr/lib/libtickline_preload.so date",
        "inactive",
        false,
    ),
    ("installed again", "dpkg -i /opt/tickline.deb", "active", true),
];

/// The programs that read the clock all the while.
const CALLERS: [(&str, &str, Mode); 2] =
    [("tickline run", "/opt/static-C", RUN), ("LD_PRELOAD", "python3 /opt/load.py", PRELOAD)];

/// The number of calls for each answer of theirs. It is small, so that each step has many answers.
const CALLS: u64 = 500;

/// A file of the administrator's. The package's removal must name it.
const LEFT: &str = "/etc/default/served";

/// Installs the package, and becomes systemd.
///
/// # Errors
///
/// If the package can't be installed, or systemd can't be started.
pub(crate) fn boot() -> io::Result<()> {
    super::install()?;
    fs::write(LEFT, "LD_PRELOAD=/usr/lib/libtickline_preload.so\n")?;
    fs::write("/etc/systemd/system/check.service", CHECK_UNIT)?;
    Err(Command::new("/sbin/init").arg("--unit=check.service").exec())
}

/// Tries package and unit, as a service of systemd.
///
/// # Errors
///
/// If there is no port for reports.
pub(crate) fn check() -> io::Result<()> {
    report::line(&machine::facts());
    let (stop, returned_ns) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let seen: Vec<Seen> = thread::scope(|scope| {
        let mut callers = Vec::new();
        for (step, command, state, is_served) in STEPS {
            take(step, command, state, is_served);
            if step == "booted" {
                let watch = |caller| scope.spawn(move || watch(caller, stop, returned_ns));
                callers = CALLERS.map(watch).into();
            }
        }
        // ORDERING: Relaxed, as below.
        stop.store(true, Ordering::Relaxed);
        callers.into_iter().map(|caller| caller.join().unwrap_or_default()).collect()
    });
    seen.iter().for_each(|seen| report::line(&json!(seen)));
    let (_, journal) = said("journalctl --no-pager -u tickline -o short-monotonic");
    report::line(&json!({ "phase": "journal", "said": journal }));
    report::line(&json!({ "phase": "end" }));
    Ok(())
}

/// The findings of one program, over all its answers.
#[derive(Debug, Default, Serialize)]
struct Seen {
    phase: &'static str,
    program: &'static str,
    is_served: bool,
    answers: u64,
    calls: u64,
    backward: u64,
    /// Answers whose first reading was below a reading that a program had returned before.
    below_others: u64,
    error: Option<String>,
    /// The messages of the program, and of `tickline run`.
    said: String,
}

impl Seen {
    fn count(&mut self, clock: &Value, returned_ns: u64) -> Option<u64> {
        let number = |index: usize| clock[index].as_u64();
        let (calls, back, first_ns, last_ns) = (number(0)?, number(1)?, number(2)?, number(3)?);
        self.calls += calls;
        self.backward += back;
        self.below_others += u64::from(first_ns < returned_ns);
        Some(last_ns)
    }
}

/// Asks a program again and again until `stop`.
fn watch(
    (name, command, mode): (&'static str, &str, Mode),
    stop: &AtomicBool,
    returned_ns: &AtomicU64,
) -> Seen {
    let mut seen = Seen { phase: "caller", program: name, ..Seen::default() };
    let program = Program { name: name.to_owned(), command: command.to_owned(), ..Program::default() };
    let mut ask_all = || {
        let mut load = Load::start(&program, mode)?;
        seen.is_served = load.has_page();
        let mut unix_ns = 0;
        // ORDERING: Relaxed, a flag on its own.
        while !stop.load(Ordering::Relaxed) {
            // ORDERING: Acquire, pairs with the Release below: the largest reading was returned
            // before this question.
            let before_ns = returned_ns.load(Ordering::Acquire);
            let answer = load.ask(CALLS)?;
            seen.answers += 1;
            if let Some(last_ns) = seen.count(&answer["monotonic"], before_ns) {
                // ORDERING: Release, see above.
                returned_ns.fetch_max(last_ns, Ordering::Release);
            }
            unix_ns = seen.count(&answer["realtime"], unix_ns).unwrap_or(unix_ns);
        }
        seen.said = load.said();
        Ok(())
    };
    seen.error = ask_all().err();
    seen
}

/// Takes a step, waits until the unit has the expected state, and reports the state.
fn take(step: &str, command: &str, state: &str, is_served: bool) {
    let (is_done, text) = if command.is_empty() { (true, String::new()) } else { said(command) };
    let look = || {
        let (_, found) = said("systemctl is-active tickline");
        (found, super::status()["serving"] == true)
    };
    // Wait first, so that the state from before the step does not count.
    thread::sleep(Duration::from_millis(1_500));
    let mut found = (String::new(), false);
    wait_for(PATIENCE, || {
        thread::sleep(Duration::from_millis(100));
        found = look();
        found.0 == state && found.1 == is_served
    });
    // The removal must list files that still name the package.
    let is_done = is_done && (step != "removed" || text.contains(LEFT));
    report::line(&json!({
        "phase": "unit", "step": step, "command": command, "done": is_done, "said": text,
        "state": found.0, "serving": found.1, "expected": [state, is_served],
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
