//! A fix as commands, one for each step, for this machine or for its host. A fix that needs
//! somebody's judgement, or an unknown machine, has no steps.

use serde::{Deserialize, Serialize};

use super::log;
use crate::document::Document;
use crate::machine::CLOCKSOURCE;

/// Where the commands of a fix are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// On the machine that the finding is about.
    #[default]
    Here,
    /// On the host, below the hypervisor.
    Host,
}

/// The commands of a fix, for a POSIX shell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Steps {
    /// Where the commands are run: `here`, on the machine itself, or `host`, on the host of a
    /// guest.
    pub(crate) place: Place,
    /// What must succeed before; null where nothing needs to be checked.
    pub(crate) check: Option<String>,
    /// What mends it now, until the machine restarts; null where only a restart does.
    pub(crate) now: Option<String>,
    /// What mends it from the next restart on; null where the kernel's command line asks for it
    /// already.
    pub(crate) keep: Option<String>,
    /// What takes `now` back at once.
    pub(crate) undo: Option<String>,
    /// What takes `keep` back.
    pub(crate) undo_keep: Option<String>,
    /// The clocksource that `now` switches to: what `doctor --fix` does itself.
    #[serde(skip)]
    pub(crate) clocksource: Option<String>,
}

impl Steps {
    /// Each command, with the name of its step.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let steps = [
            ("check", &self.check),
            ("now", &self.now),
            ("undo", &self.undo),
            ("keep", &self.keep),
            ("undo keep", &self.undo_keep),
        ];
        steps.into_iter().filter_map(|(name, command)| Some((name, command.as_deref()?)))
    }
}

/// The command that chooses a clocksource until the machine restarts.
pub(crate) fn choose(clocksource: &str) -> String {
    format!("echo {clocksource} | sudo tee {CLOCKSOURCE}/current_clocksource")
}

/// Whether this is a name as kernels have them. Any other text of a recorded file must not reach a
/// shell.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// Switches the kernel to another clocksource that it accepts. `None` where the present one is
/// unknown, since the switch could not be taken back.
pub(super) fn switch(clocksource: &str, facts: &Document) -> Option<Steps> {
    let present = facts.clocksource().filter(|name| is_name(name) && is_name(clocksource))?;
    let word = format!("clocksource={clocksource}");
    let (keep, undo_keep) = match facts.parameter_of("clocksource=") {
        // The kernel starts with it already.
        Some(former) if former == word => (None, None),
        Some(former) if former.strip_prefix("clocksource=").is_some_and(is_name) => {
            (Some(parameters(Some(former), Some(&word))), Some(parameters(Some(&word), Some(former))))
        }
        // The word has characters that must not reach a shell.
        Some(_) => return None,
        None => (Some(parameters(None, Some(&word))), Some(parameters(Some(&word), None))),
    };
    Some(Steps {
        place: Place::Here,
        // The CPUs' counters must agree, and the kernel must not have rejected the TSC. Any other
        // timer has only one counter, and needs no check.
        check: (clocksource == "tsc").then(|| match facts.machine.kernel_log {
            Some(_) => "tickline warp".to_owned(),
            None => log::check("tickline warp"),
        }),
        now: Some(choose(clocksource)),
        keep,
        undo: Some(choose(present)),
        undo_keep,
        clocksource: Some(clocksource.to_owned()),
    })
}

/// Takes a word off the kernel's command line.
pub(super) fn remove_parameter(word: &str) -> Steps {
    let (keep, undo_keep) = (parameters(Some(word), None), parameters(None, Some(word)));
    Steps { keep: Some(keep), undo_keep: Some(undo_keep), ..Steps::default() }
}

/// A setting that one command makes, and another one takes back.
pub(super) fn setting(now: &str, undo: &str) -> Steps {
    Steps { now: Some(now.to_owned()), undo: Some(undo.to_owned()), ..Steps::default() }
}

/// Changes the kernel's command line, for the next start. Where grubby is installed (Fedora and its
/// relatives), it uses grubby. Elsewhere it changes GRUB's defaults (Debian and its relatives).
fn parameters(remove: Option<&str>, add: Option<&str>) -> String {
    let option =
        |name: &str, word: Option<&str>| word.map_or_else(String::new, |word| format!(" --{name}={word}"));
    let grubby =
        format!("sudo grubby --update-kernel=ALL{}{}", option("remove-args", remove), option("args", add));
    let removal = remove.map_or_else(String::new, |word| format!(" -e 's/ *\\b{word}\\b//'"));
    let addition = add.map_or_else(String::new, |word| {
        format!(" -e 's/^\\(GRUB_CMDLINE_LINUX=\"[^\"]*\\)\"/\\1 {word}\"/'")
    });
    format!(
        "if command -v grubby >/dev/null; then {grubby}; else sudo sed -i{removal}{addition} /etc/default/grub && sudo \
         update-grub; fi"
    )
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A message of each kind.
    const REJECTIONS: [&str; 7] = [
        "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.",
        "tsc: Marking TSC unstable due to boot parameter",
        "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too large:",
        "clocksource:    Clocksource 'tsc' skewed 436888 ns (0 ms) over watchdog 'hpet' interval of 503029760 ns (503 ms)",
        "clocksource: timekeeping watchdog on CPU0: hpet read-back delay of 162520ns, attempt 4, marking unstable",
        "clocksource: timekeeping watchdog on CPU2: wd-tsc-wd read-back delay of 153560ns, attempt 3, marking tsc unstable",
        "Clocksource tsc unstable (delta = -201134949 ns)",
    ];

    fn facts(line: &str) -> Document {
        serde_json::from_value(serde_json::json!({
            "machine": { "clocksource": "hpet", "kernel_command_line": line },
        }))
        .unwrap()
    }

    #[test]
    fn each_step_can_be_taken_back() {
        let steps = switch("tsc", &facts("quiet clocksource=hpet")).unwrap();
        assert_eq!((steps.now, steps.undo), (Some(choose("tsc")), Some(choose("hpet"))));
        let (keep, undo) = (steps.keep.unwrap(), steps.undo_keep.unwrap());
        assert!(keep.contains("--remove-args=clocksource=hpet --args=clocksource=tsc"), "{keep}");
        assert!(undo.contains("--remove-args=clocksource=tsc --args=clocksource=hpet"), "{undo}");
        assert!(switch("acpi_pm", &facts("")).unwrap().check.is_none(), "a timer needs no comparison");
        // Symptom: `keep` added the word to a command line that had it.
        let kept = switch("tsc", &facts("quiet clocksource=tsc")).unwrap();
        assert_eq!((kept.keep, kept.undo_keep), (None, None));
    }

    /// A recorded file is no source of commands.
    #[test]
    fn a_name_with_other_characters_reaches_no_shell() {
        assert!(switch("x; rm -rf ~", &facts("")).is_none());
        assert!(switch("tsc", &facts("clocksource=$(reboot)")).is_none());
        let mut hostile = facts("");
        hostile.machine.clocksource = Some("hpet|sh".to_owned());
        assert!(switch("tsc", &hostile).is_none());
        hostile.machine.clocksource = None;
        assert!(switch("tsc", &hostile).is_none(), "nothing could be taken back");
    }

    /// The check passed where the log says "Clocksource tsc unstable", and where it was refused.
    #[test]
    fn the_check_fails_where_the_kernel_has_rejected_the_tsc_or_nothing_tells() {
        const GOOD: &str = "clocksource: Switched to clocksource tsc";
        const EXECUTABLE: u32 = 0o755;
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in
            [("sudo", "exec \"$@\""), ("dmesg", "exec printenv LOG"), ("tickline", "exit $WARP")]
        {
            let file = folder.path().join(name);
            std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(EXECUTABLE)).unwrap();
        }
        let check = switch("tsc", &facts("")).unwrap().check.unwrap();
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let passes = |variables: &[(&str, &str)]| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &check]).env_clear().env("PATH", &path).envs(variables.iter().copied());
            shell.output().unwrap().status.success()
        };
        assert!(passes(&[("LOG", GOOD), ("WARP", "0")]) && !passes(&[("LOG", GOOD), ("WARP", "3")]));
        assert!(!passes(&[("WARP", "0")]) && !passes(&[("LOG", ""), ("WARP", "0")]), "refused, and empty");
        for rejection in REJECTIONS {
            assert!(log::rejection(&[rejection.to_owned()]).is_some(), "{rejection}");
            let log = format!("{GOOD}\n{rejection}\n{GOOD}");
            assert!(!passes(&[("LOG", &log), ("WARP", "0")]), "{rejection}");
        }
    }

    /// The commands for Debian's defaults, run on a file.
    #[test]
    fn the_kernels_command_line_is_changed_and_changed_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("grub");
        let original = "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX=\"quiet clocksource=hpet\"\n";
        std::fs::write(&file, original).unwrap();
        let run = |command: &str| {
            // The test runs only sed: grubby, sudo and update-grub would change this machine.
            let (_, command) = command.split_once("else sudo ").expect("two ways");
            let (command, _) = command.split_once(" && ").expect("two steps");
            let command = command.replace("/etc/default/grub", file.to_str().unwrap());
            let status = std::process::Command::new("sh").args(["-c", &command]).status().unwrap();
            assert!(status.success(), "{command}");
            std::fs::read_to_string(&file).unwrap()
        };
        let steps = switch("tsc", &facts("quiet clocksource=hpet")).unwrap();
        let kept = run(&steps.keep.unwrap());
        assert_eq!(kept, "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX=\"quiet clocksource=tsc\"\n");
        assert_eq!(run(&steps.undo_keep.unwrap()), original);
    }

    /// Without the machine's name they change nothing.
    #[test]
    fn the_commands_for_virtualbox_ask_for_the_machines_name() {
        let host = &super::super::texts::TEXTS.hosts["virtualbox"];
        for (name, command) in host.steps.as_ref().unwrap().named() {
            let mut shell = std::process::Command::new("sh");
            let output = shell.args(["-c", command]).env_remove("VM").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains("VBoxManage list vms"), "{name}: {said}");
        }
    }
}
