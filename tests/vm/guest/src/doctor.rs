//! The program `tickline`, and its report on the guest's machine.

use std::process::Command;

use serde_json::{Value, json};

use crate::report;

/// A command that runs the program `tickline`.
pub(crate) fn tickline() -> Command {
    Command::new("/tickline")
}

/// The program `tickline`'s report on the machine, as a phase of this name.
pub(crate) fn program(phase: &str, command: &mut Command) -> Value {
    let mut report = report::output(
        phase,
        command.args(["--duration", "1s", "--json", "-"]).output(),
    );
    let output = report["output"].clone();
    report["clocksource"] = output["machine"]["clocksource"].clone();
    // Most guests have no NTP daemon, so `ntp_unsynchronised` counts only without another finding.
    let findings = output["findings"].as_array().into_iter().flatten();
    report["finding"] = json!(findings.min_by_key(|found| found["code"] == "ntp_unsynchronised"));
    report
}
