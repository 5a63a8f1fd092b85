//! A fix as steps, for this machine or for its host: commands, or words for an edit by hand. A fix
//! has no steps if an administrator must decide, or if the commands for the host are unknown.

mod command_line;

use crate::clocksources::CURRENT_FILE;
use crate::document::{Document, Steps};
use crate::machine::kernel_log::ANY_REJECTION;

use command_line::replace_parameters;

/// The command that switches to a clocksource until the machine restarts.
pub(super) fn switch_command(clocksource: &str) -> String {
    format!("echo {clocksource} | sudo tee {CURRENT_FILE}")
}

/// Whether this may be the name of a clocksource. Any other text from a recorded file must not
/// reach a shell.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// Whether this parameter selects a clocksource by what may be its name.
fn is_selection_by_name(parameter: &str) -> bool {
    parameter.strip_prefix("clocksource=").is_some_and(is_name)
}

/// The switch of the kernel to another clocksource that it accepts. `None` if the present
/// clocksource is unknown, because no command could undo the switch.
pub(super) fn switch(clocksource: &str, document: &Document) -> Option<Steps> {
    let present = document.machine.clocksource()?;
    if !is_name(present) || !is_name(clocksource) {
        return None;
    }
    let parameter = format!("clocksource={clocksource}");
    let is_selection = |parameter: &&str| parameter.starts_with("clocksource=");
    let are_several = document
        .machine
        .kernel_parameters()
        .filter(is_selection)
        .count()
        > 1;
    let former = document.machine.last_parameter("clocksource=");
    let kept = if former == Some(parameter.as_str()) {
        // The command line names this clocksource already.
        Steps::default()
    } else if former.is_some_and(|former| !is_selection_by_name(former)) {
        // The former parameter has characters that must not reach a shell.
        return None;
    } else if are_several {
        // The steps replace one parameter, and leave the other in force.
        Steps::default()
    } else {
        replace_parameters(former.as_slice(), &[&parameter], document)
    };
    // For the TSC, the CPUs' counters must agree, and the kernel must not have rejected the TSC.
    // Any other timer has only one counter, and needs no check.
    let check = if clocksource != "tsc" {
        None
    } else if document.machine.kernel_log.is_some() {
        Some("tickline warp".to_owned())
    } else {
        Some(unless_rejected("tickline warp"))
    };
    Some(Steps {
        check,
        now: Some(switch_command(clocksource)),
        undo: Some(switch_command(present)),
        ..kept
    })
}

/// The steps that select the TSC, which the kernel uses now, for the next start, too. The check is
/// that of a switch.
pub(super) fn keep_tsc(document: &Document) -> Option<Steps> {
    let steps = switch("tsc", document)?;
    let is_kept = steps.keep.is_some() || !steps.keep_by_hand.is_empty();
    is_kept.then_some(Steps {
        now: None,
        undo: None,
        ..steps
    })
}

/// A shell command that fails in three cases:
///
/// - The log has a message about a rejection of the TSC.
/// - The log is empty, or the user may not read it.
/// - `then` fails.
fn unless_rejected(then: &str) -> String {
    format!(
        "log=$(sudo dmesg) && [ -n \"$log\" ] && ! printf '%s\\n' \"$log\" | grep -iE '{ANY_REJECTION}' && {then}"
    )
}

/// The removal of a parameter from the kernel's command line.
pub(super) fn remove_parameter(parameter: &str, document: &Document) -> Steps {
    replace_parameters(&[parameter], &[], document)
}

/// The removal of a parameter that keeps the kernel from the TSC, with the selection of the TSC if
/// the command line selects another clocksource. Under such a parameter the kernel has not compared
/// the counters, so its log can't call them bad. `None` as in [`switch`], and beside several
/// selections.
pub(super) fn remove_parameter_against_tsc(parameter: &str, document: &Document) -> Option<Steps> {
    let kept = match document.machine.selections_against_tsc().as_slice() {
        [] => remove_parameter(parameter, document),
        [other] if is_selection_by_name(other) => {
            replace_parameters(&[parameter, other], &["clocksource=tsc"], document)
        }
        _ => return None,
    };
    Some(Steps {
        check: Some("tickline warp".to_owned()),
        ..kept
    })
}

/// The addition of a parameter to the kernel's command line.
pub(super) fn add_parameter(parameter: &str, document: &Document) -> Steps {
    replace_parameters(&[], &[parameter], document)
}

/// A setting that the command `now` makes, and `undo` undoes.
pub(super) fn setting(now: &str, undo: &str) -> Steps {
    Steps {
        now: Some(now.to_owned()),
        undo: Some(undo.to_owned()),
        ..Steps::default()
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::hosts;
    use super::*;
    use crate::machine::kernel_log::rejection;

    /// One message of each kind.
    const REJECTIONS: [&str; 18] = [
        "TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'.",
        "clocksource: Override clocksource tsc is unstable and not HRT compatible - cannot switch while in HRT/NOHZ mode",
        "clocksource: Marking clocksource tsc unstable due to inter CPU skew",
        "clocksource: Marking clocksource tsc-early unstable due to frequency skew",
        "clocksource: CPU0       2188104120031 < CPU17       2188104121999 (cycles)",
        "clocksource: Watchdog                    hpet interval:        499958332ns",
        "clocksource: Clocksource                  tsc interval:        500987654ns",
        "clocksource: Clocksource            tsc-early interval:        503987654ns",
        "clocksource:         CPUs 1-3 behind CPU 0 for clocksource tsc.",
        "clocksource:         CPUs 5 ahead of CPU 0 for clocksource tsc.",
        "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.",
        "TSC warped randomly between CPUs",
        "tsc: Marking TSC unstable due to boot parameter",
        "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too large:",
        "clocksource:    Clocksource 'tsc' skewed 436888 ns (0 ms) over watchdog 'hpet' interval of 503029760 ns (503 ms)",
        "clocksource: timekeeping watchdog on CPU0: hpet read-back delay of 162520ns, attempt 4, marking unstable",
        "clocksource: timekeeping watchdog on CPU2: wd-tsc-wd read-back delay of 153560ns, attempt 3, marking tsc unstable",
        "Clocksource tsc unstable (delta = -201134949 ns)",
    ];

    pub(super) fn with_command_line(line: &str) -> Document {
        serde_json::from_value(serde_json::json!({
            "machine": { "clocksource": "hpet", "kernel_command_line": line },
        }))
        .unwrap()
    }

    #[test]
    fn a_switch_is_undone_by_the_switch_back() {
        let steps = from_hpet_to_tsc();
        assert_eq!(
            (steps.now, steps.undo),
            (Some(switch_command("tsc")), Some(switch_command("hpet")))
        );
    }

    #[test]
    fn a_timer_needs_no_comparison_of_the_counters() {
        let steps = switch("acpi_pm", &with_command_line("")).unwrap();
        assert_eq!(steps.check, None);
    }

    /// Symptom: `keep` added the word to a command line that had it.
    #[test]
    fn a_selection_that_the_command_line_has_is_not_added() {
        let kept = switch("tsc", &with_command_line("quiet clocksource=tsc")).unwrap();
        assert_eq!(kept.keep_by_hand, [""; 0]);
        assert_eq!(kept.undo_keep_by_hand, [""; 0]);
    }

    /// Symptom: of two selections the commands replaced the first, and the kernel obeys the last.
    #[test]
    fn a_switch_beside_two_selections_is_for_now_only() {
        let two = with_command_line("clocksource=tsc clocksource=hpet");
        let steps = switch("tsc", &two).unwrap();
        assert!(steps.now.is_some() && steps.undo.is_some());
        assert_eq!(steps.keep_by_hand, [""; 0]);
        assert_eq!(steps.undo_keep_by_hand, [""; 0]);
    }

    /// A recorded file must not be able to inject commands.
    #[test]
    fn a_name_with_other_characters_reaches_no_shell() {
        assert!(switch("x; rm -rf ~", &with_command_line("")).is_none());
        assert!(switch("tsc", &with_command_line("clocksource=$(reboot)")).is_none());
        let mut hostile = with_command_line("");
        hostile.machine.clocksource = Some("hpet|sh".to_owned());
        assert!(switch("tsc", &hostile).is_none());
        hostile.machine.clocksource = None;
        assert!(
            switch("tsc", &hostile).is_none(),
            "nothing could be taken back"
        );
    }

    /// A log of a kernel that has not rejected the TSC.
    const GOOD: &str = "clocksource: Switched to clocksource tsc\nprtsc: the key is unstable";

    /// Whether the check of a switch to the TSC passes: by the kernel's log, `None` if it may not
    /// be read, and by the exit code of `tickline warp`.
    fn check_passes(log: Option<&str>, warp: &str) -> bool {
        const EXECUTABLE: u32 = 0o755;
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in [
            ("sudo", "exec \"$@\""),
            ("dmesg", "exec printenv LOG"),
            ("tickline", "exit $WARP"),
        ] {
            let file = folder.path().join(name);
            std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(EXECUTABLE)).unwrap();
        }
        let check = from_hpet_to_tsc().check.unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &check])
            .env_clear()
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .env("WARP", warp)
            .envs(log.map(|log| ("LOG", log)));
        shell.output().unwrap().status.success()
    }

    #[test]
    fn the_check_passes_as_the_comparison_does() {
        assert!(check_passes(Some(GOOD), "0"));
        assert!(!check_passes(Some(GOOD), "3"));
    }

    /// Symptom: the check passed for an unreadable log.
    #[test]
    fn the_check_fails_without_a_log() {
        for log in [None, Some("")] {
            assert!(!check_passes(log, "0"), "{log:?}");
        }
    }

    /// Symptom: the check passed after "Clocksource tsc unstable".
    #[test]
    fn the_check_fails_where_the_kernel_has_rejected_the_tsc() {
        for message in REJECTIONS {
            let log = format!("{GOOD}\n{message}\n{GOOD}");
            assert!(!check_passes(Some(&log), "0"), "{message}");
        }
    }

    #[test]
    fn each_message_of_the_check_is_a_rejection_by_the_rules() {
        for message in REJECTIONS {
            assert!(rejection(&[message.to_owned()]).is_some(), "{message}");
        }
    }

    pub(super) fn from_hpet_to_tsc() -> Steps {
        switch("tsc", &with_command_line("quiet clocksource=hpet")).unwrap()
    }

    /// Symptom: nothing kept a switch to the TSC, where an edit by hand does.
    #[test]
    fn the_tsc_is_kept_by_a_command_or_by_hand() {
        let mut document = with_command_line("clocksource=hpet");
        for boot_loader in [None, Some("grub"), Some("grubby")] {
            document.machine.boot_loader = boot_loader.map(str::to_owned);
            let steps = keep_tsc(&document).expect("steps");
            assert_eq!((steps.now, steps.undo), (None, None));
        }
        let kept = with_command_line("clocksource=tsc");
        assert_eq!(keep_tsc(&kept), None);
    }

    /// Without the guest's name, each command fails and names the command that lists the guests.
    #[test]
    fn the_commands_for_virtualbox_ask_for_the_machines_name() {
        let steps = hosts::virtualbox_steps();
        let names: Vec<_> = steps.named().map(|(name, _)| name).collect();
        assert_eq!(names, ["first", "keep", "undo keep"]);
        for (name, command) in steps.named() {
            let mut shell = std::process::Command::new("sh");
            let output = shell
                .args(["-c", command])
                .env_remove("VM")
                .output()
                .unwrap();
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(
                !output.status.success() && message.contains("VBoxManage list vms"),
                "{name}: {message}"
            );
        }
    }
}
