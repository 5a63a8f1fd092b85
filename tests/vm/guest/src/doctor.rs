//! The program `tickline`, and its report on the guest's machine.

use std::process::Command;

use serde::Deserialize;

use crate::phase::{Diagnosis, Finding, Phase};
use crate::report;

/// The findings in the JSON of the program `tickline`.
#[derive(Debug, Deserialize)]
struct Findings {
    findings: Vec<Finding>,
}

/// A command that runs the program `tickline`.
pub(crate) fn tickline() -> Command {
    Command::new("/tickline")
}

/// Makes the program `tickline` diagnose the machine, in a phase of this name.
pub(crate) fn diagnose(phase: &str, command: &mut Command) -> Phase {
    let phase = report::output(
        phase,
        command.args(["--duration", "1s", "--json", "-"]).output(),
    );
    let diagnosis = report::parsed::<Diagnosis>(&phase);
    let findings = report::parsed::<Findings>(&phase).map(|document| document.findings);
    // Most guests have no NTP daemon, so `ntp_unsynchronised` counts only without another finding.
    let findings = findings.into_iter().flatten();
    let finding = findings.min_by_key(|found| found.code == "ntp_unsynchronised");
    Phase {
        clocksource: diagnosis
            .as_ref()
            .and_then(|diagnosis| diagnosis.machine.clocksource.clone()),
        diagnosis,
        finding,
        ..phase
    }
}
