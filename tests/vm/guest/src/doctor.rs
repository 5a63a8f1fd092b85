//! The program `tickline`, and its report on the guest's machine.

use std::process::Command;

use crate::phase::{Diagnosis, Phase};
use crate::report;

/// A command that runs the program `tickline`.
pub(crate) fn tickline() -> Command {
    Command::new("/tickline")
}

/// Makes the program `tickline` diagnose the machine, in a phase of this name.
pub(crate) fn diagnose(phase: &str, command: &mut Command) -> Phase {
    with_diagnosis(report::output(
        phase,
        command.args(["--duration", "1s", "--json", "-"]).output(),
    ))
}

/// A phase of the program `tickline`, with the diagnosis in its output. If a part of the diagnosis
/// can't be read, there is none.
fn with_diagnosis(phase: Phase) -> Phase {
    let Some(diagnosis) = report::parsed::<Diagnosis>(&phase) else {
        return phase;
    };
    // Most guests have no NTP daemon, so `ntp_unsynchronised` counts only without another finding.
    let findings = diagnosis.findings.iter();
    let finding = findings.min_by_key(|found| found.code == "ntp_unsynchronised");
    Phase {
        clocksource: diagnosis.machine.clocksource.clone(),
        finding: finding.cloned(),
        diagnosis: Some(diagnosis),
        ..phase
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::phase::ProgramRun;

    fn finding(code: &str) -> Value {
        json!({ "code": code, "fix": "none", "gain_ratio": null })
    }

    /// The phase of the program with this output.
    fn diagnosed(output: Value) -> Phase {
        with_diagnosis(Phase {
            program: Some(ProgramRun {
                output: Some(output),
                ..ProgramRun::default()
            }),
            ..Phase::named("program")
        })
    }

    /// An output with these findings.
    fn output(findings: &[Value]) -> Value {
        json!({
            "fast": true,
            "health": { "level": "ok", "text": "all is well" },
            "machine": { "clocksource": "tsc" },
            "findings": findings,
        })
    }

    #[test]
    fn another_finding_comes_before_that_no_ntp_daemon_runs() {
        let first = |codes: &[&str]| {
            let findings: Vec<Value> = codes.iter().copied().map(finding).collect();
            let first = diagnosed(output(&findings)).finding;
            first.map(|finding| finding.code)
        };
        let first_is = |codes: &[&str], code: &str| assert_eq!(first(codes).unwrap(), code);
        first_is(&["ntp_unsynchronised", "ntp_flag", "slow"], "ntp_flag");
        first_is(&["ntp_unsynchronised"], "ntp_unsynchronised");
        assert_eq!(first(&[]), None);
    }

    /// Symptom: a guest in which there must be no finding passed, because the findings were not
    /// read.
    #[test]
    fn a_finding_that_cannot_be_read_leaves_no_diagnosis() {
        let phase = diagnosed(output(&[finding("ntp_flag"), json!({ "code": "slow" })]));
        assert!(phase.diagnosis.is_none());
        assert!(phase.finding.is_none());
    }

    #[test]
    fn an_output_without_a_part_of_the_diagnosis_has_none() {
        assert!(diagnosed(output(&[])).diagnosis.is_some());
        for part in ["fast", "health", "machine", "findings"] {
            let mut output = output(&[]);
            output.as_object_mut().unwrap().remove(part);
            assert!(diagnosed(output).diagnosis.is_none(), "{part}");
        }
    }
}
