//! A fix as steps, for this machine or for its host: commands, or words for an edit by hand. A fix
//! has no steps if an administrator must decide, or if the commands for the host are unknown.

use crate::clocksources::CURRENT_FILE;
use crate::document::{Document, Steps};
use crate::machine::kernel_log::ANY_REJECTION;
use crate::machine::{CMDLINE_TXT, EXTLINUX, GRUB, GRUBBY, KERNELSTUB, PROXMOX, RPM_OSTREE};

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

/// The steps that replace parameters of the kernel's command line by others for the next start, and
/// that undo this: a command of a tool that is known to be the right one, otherwise words for each
/// boot loader that there may be.
fn replace_parameters(former: &[&str], new: &[&str], document: &Document) -> Steps {
    let boot_loader = document.machine.boot_loader.as_deref();
    let command: Option<fn(&[&str], &[&str]) -> String> = match boot_loader {
        Some(GRUBBY) => Some(by_grubby),
        Some(KERNELSTUB) => Some(by_kernelstub),
        Some(RPM_OSTREE) => Some(by_rpm_ostree),
        _ => None,
    };
    if let Some(command) = command {
        return Steps {
            keep: Some(command(former, new)),
            undo_keep: Some(command(new, former)),
            ..Steps::default()
        };
    }
    let edit = Edit::new(former, new);
    let undo = in_words(new, former);
    let undo_and_run = format!("{undo} there, and run the same program");
    match boot_loader {
        Some(GRUB) => by_hand(vec![edit.of_grub()], vec![undo_and_run]),
        Some(EXTLINUX) => by_hand(vec![edit.of_extlinux()], vec![undo_and_run]),
        Some(PROXMOX) => by_hand(vec![edit.of_proxmox()], vec![undo_and_run]),
        Some(CMDLINE_TXT) => by_hand(vec![edit.of_cmdline_txt()], vec![format!("{undo} there")]),
        _ if document.machine.is_nixos() => by_hand(vec![edit.of_nixos()], vec![undo_and_run]),
        _ => {
            const UNKNOWN: &str = "the boot loader is unknown, so one of these";
            // The files of a container say nothing about the boot loader. In most containers
            // systemd does not run.
            if document.machine.systemd == Some(true) {
                let grub = format!("{UNKNOWN}: {}", edit.of_grub());
                by_hand(
                    vec![grub, edit.of_systemd_boot(), edit.elsewhere()],
                    vec![undo_and_run],
                )
            } else {
                let fedora = format!("{UNKNOWN}: Fedora, RHEL: {}", by_grubby(former, new));
                let undo_fedora = format!("Fedora, RHEL: {}", by_grubby(new, former));
                by_hand(
                    vec![
                        fedora,
                        edit.of_grub(),
                        edit.of_extlinux(),
                        edit.of_systemd_boot(),
                        edit.elsewhere_from_a_container(),
                    ],
                    vec![undo_fedora, format!("elsewhere: {undo_and_run}")],
                )
            }
        }
    }
}

/// An edit of the kernel's command line by hand, as a sentence for each boot loader.
struct Edit {
    /// What to do, such as "add hpet=disable".
    change: String,
    /// The preposition that leads to the place of the edit.
    preposition: &'static str,
    /// The place in the files of GRUB.
    place_in_grub: &'static str,
}

impl Edit {
    /// The edit that replaces parameters by others.
    fn new(former: &[&str], new: &[&str]) -> Self {
        let preposition = match (former, new) {
            ([], _) => "to",
            (_, []) => "from",
            _ => "in",
        };
        // update-grub reads the files of grub.d after /etc/default/grub, so the last file that sets
        // a variable has the last word. It joins the two variables.
        let place_in_grub = if former.is_empty() {
            "to GRUB_CMDLINE_LINUX in /etc/default/grub, or, if files of /etc/default/grub.d set \
             it, in the last of them"
        } else {
            "wherever GRUB_CMDLINE_LINUX or GRUB_CMDLINE_LINUX_DEFAULT has it, in \
             /etc/default/grub and in the files of /etc/default/grub.d"
        };
        Self {
            change: in_words(former, new),
            preposition,
            place_in_grub,
        }
    }

    fn of_grub(&self) -> String {
        let Self {
            change,
            place_in_grub,
            ..
        } = self;
        format!("Debian, Ubuntu: {change} {place_in_grub}; then run sudo update-grub")
    }

    fn of_extlinux(&self) -> String {
        format!(
            "Alpine: {} {} default_kernel_opts in /etc/update-extlinux.conf; then run sudo \
             update-extlinux",
            self.change, self.preposition
        )
    }

    /// Proxmox's "Host System Administration", "Host Bootloader": the refresh also does what
    /// update-grub does.
    fn of_proxmox(&self) -> String {
        let Self {
            change,
            preposition,
            place_in_grub,
        } = self;
        format!(
            "Proxmox: if `sudo proxmox-boot-tool status` says \"configured with: uefi\", {change} \
             {preposition} /etc/kernel/cmdline; if it says \"configured with: grub\", {change} \
             {place_in_grub}; then run sudo proxmox-boot-tool refresh"
        )
    }

    /// Before Debian 12 the file was in `/boot`, where there is now a file that refers to it.
    fn of_cmdline_txt(&self) -> String {
        format!(
            "Raspberry Pi: {} {} the only line of /boot/firmware/cmdline.txt, or, if there is no \
             such file, of /boot/cmdline.txt",
            self.change, self.preposition
        )
    }

    fn of_nixos(&self) -> String {
        format!(
            "NixOS: {} {} boot.kernelParams in the system's configuration; then run sudo \
             nixos-rebuild boot",
            self.change, self.preposition
        )
    }

    /// systemd has `add-all` from version 256 on: the manual of 255 does not know it.
    fn of_systemd_boot(&self) -> String {
        format!(
            "systemd-boot: {} {} /etc/kernel/cmdline, which must have the whole line (as \
             /proc/cmdline has it); then run sudo kernel-install add-all (systemd 256 or later), \
             or sudo dpkg-reconfigure \"linux-image-$(uname -r)\" (Debian, Ubuntu), or install \
             the kernel's package again",
            self.change, self.preposition
        )
    }

    fn elsewhere(&self) -> String {
        format!(
            "elsewhere: {} {} the command line of the kernel: in /etc/default/grub, then run sudo \
             grub-mkconfig -o /boot/grub/grub.cfg (Arch), or sudo grub2-mkconfig -o \
             /boot/grub2/grub.cfg (openSUSE); or in the line `options` of an entry in \
             /boot/loader/entries that somebody has written by hand (Arch); or in \
             boot.kernelParams, then run sudo nixos-rebuild boot (NixOS)",
            self.change, self.preposition
        )
    }

    /// As `elsewhere`, with the systems that only a look at the host's files excludes.
    fn elsewhere_from_a_container(&self) -> String {
        format!(
            "{}; or by rpm-ostree kargs (ostree, bootc), or by kernelstub (Pop!_OS); or in \
             /etc/kernel/cmdline, then run sudo proxmox-boot-tool refresh (Proxmox); or in \
             /boot/firmware/cmdline.txt (Raspberry Pi)",
            self.elsewhere()
        )
    }
}

/// A change of the command line by an edit, and the edit that undoes it, each in words.
fn by_hand(keep_by_hand: Vec<String>, undo_keep_by_hand: Vec<String>) -> Steps {
    Steps {
        keep_by_hand,
        undo_keep_by_hand,
        ..Steps::default()
    }
}

/// The replacement of parameters in words.
fn in_words(former: &[&str], new: &[&str]) -> String {
    match (former, new) {
        ([], new) => format!("add {}", new.join(" ")),
        (former, []) => format!("remove {}", former.join(" ")),
        (former, new) => format!("replace {} by {}", former.join(" "), new.join(" ")),
    }
}

/// Of an option that is given twice, grubby takes the last one only, so several parameters are one
/// quoted list.
fn by_grubby(former: &[&str], new: &[&str]) -> String {
    format!(
        "sudo grubby --update-kernel=ALL{}{}",
        list_option("remove-args", former),
        list_option("args", new)
    )
}

/// kernelstub splits a list at spaces. It adds parameters first, and then deletes
/// (`application.py` in `pop-os/kernelstub`).
fn by_kernelstub(former: &[&str], new: &[&str]) -> String {
    format!(
        "sudo kernelstub{}{}",
        list_option("add-options", new),
        list_option("delete-options", former)
    )
}

/// An option with these parameters as its value, if there are any.
fn list_option(name: &str, parameters: &[&str]) -> String {
    match parameters {
        [] => String::new(),
        [parameter] => format!(" --{name}={parameter}"),
        _ => format!(" --{name}='{}'", parameters.join(" ")),
    }
}

/// rpm-ostree takes one parameter an option. It refuses `--replace` beside `--delete`, and replaces
/// only the value of one key.
fn by_rpm_ostree(former: &[&str], new: &[&str]) -> String {
    let deleted = former.iter().map(|word| format!(" --delete={word}"));
    let appended = new.iter().map(|word| format!(" --append={word}"));
    let options: String = deleted.chain(appended).collect();
    format!("sudo rpm-ostree kargs{options}")
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

    fn with_command_line(line: &str) -> Document {
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

    /// The text for Debian's boot loader.
    fn of_debian(steps: &Steps) -> &str {
        let mut texts = steps.keep_by_hand.iter();
        texts
            .find(|text| text.contains("Debian"))
            .expect("a text for Debian")
    }

    fn from_hpet_to_tsc() -> Steps {
        switch("tsc", &with_command_line("quiet clocksource=hpet")).unwrap()
    }

    /// The steps from hpet to the TSC on a machine with this boot loader.
    fn steps_with(boot_loader: &str) -> Steps {
        let mut document = with_command_line("quiet clocksource=hpet");
        document.machine.boot_loader = Some(boot_loader.to_owned());
        switch("tsc", &document).unwrap()
    }

    #[test]
    fn grubby_has_a_command_and_no_words() {
        let steps = steps_with("grubby");
        let keep = "sudo grubby --update-kernel=ALL --remove-args=clocksource=hpet \
                    --args=clocksource=tsc";
        let undo_keep = "sudo grubby --update-kernel=ALL --remove-args=clocksource=tsc \
                         --args=clocksource=hpet";
        assert_eq!(steps.keep.as_deref(), Some(keep));
        assert_eq!(steps.undo_keep.as_deref(), Some(undo_keep));
        assert!(steps.keep_by_hand.is_empty(), "{steps:?}");
        assert!(steps.undo_keep_by_hand.is_empty(), "{steps:?}");
    }

    /// Symptom: a shell line of 1,000 characters.
    #[test]
    fn another_known_boot_loader_has_words_and_no_command() {
        for (boot_loader, keep) in [
            (
                "grub",
                "Debian, Ubuntu: replace clocksource=hpet by clocksource=tsc wherever \
                 GRUB_CMDLINE_LINUX or GRUB_CMDLINE_LINUX_DEFAULT has it, in /etc/default/grub and \
                 in the files of /etc/default/grub.d; then run sudo update-grub",
            ),
            (
                "extlinux",
                "Alpine: replace clocksource=hpet by clocksource=tsc in default_kernel_opts in \
                 /etc/update-extlinux.conf; then run sudo update-extlinux",
            ),
        ] {
            let steps = steps_with(boot_loader);
            assert_eq!((steps.keep, steps.undo_keep), (None, None));
            assert_eq!(steps.keep_by_hand, [keep]);
            assert_eq!(
                steps.undo_keep_by_hand,
                ["replace clocksource=tsc by clocksource=hpet there, and run the same program"]
            );
        }
    }

    /// Symptom: on Silverblue and with bootc, a list of the boot loaders of other systems.
    #[test]
    fn rpm_ostree_has_a_command_and_no_words() {
        let steps = steps_with("rpm_ostree");
        let keep = "sudo rpm-ostree kargs --delete=clocksource=hpet --append=clocksource=tsc";
        let undo_keep = "sudo rpm-ostree kargs --delete=clocksource=tsc --append=clocksource=hpet";
        assert_eq!(steps.keep.as_deref(), Some(keep));
        assert_eq!(steps.undo_keep.as_deref(), Some(undo_keep));
        assert!(steps.keep_by_hand.is_empty(), "{steps:?}");
    }

    /// Symptom: on Pop!_OS, `kernel-install`, whose entries kernelstub does not use.
    #[test]
    fn kernelstub_has_a_command_and_no_words() {
        let steps = steps_with("kernelstub");
        let keep = "sudo kernelstub --add-options=clocksource=tsc \
                    --delete-options=clocksource=hpet";
        let undo_keep = "sudo kernelstub --add-options=clocksource=hpet \
                         --delete-options=clocksource=tsc";
        assert_eq!(steps.keep.as_deref(), Some(keep));
        assert_eq!(steps.undo_keep.as_deref(), Some(undo_keep));
        assert!(steps.keep_by_hand.is_empty(), "{steps:?}");
    }

    #[test]
    fn several_parameters_are_one_quoted_list_or_several_options() {
        let two = ["notsc", "clocksource=hpet"];
        assert_eq!(
            by_kernelstub(&two, &[]),
            "sudo kernelstub --delete-options='notsc clocksource=hpet'"
        );
        assert_eq!(
            by_rpm_ostree(&two, &[]),
            "sudo rpm-ostree kargs --delete=notsc --delete=clocksource=hpet"
        );
    }

    /// Symptom: `kernel-install add-all` for Proxmox, which does not know it.
    #[test]
    fn proxmox_is_told_the_file_of_each_boot_loader_and_one_command() {
        let steps = steps_with("proxmox");
        let [text] = steps.keep_by_hand.as_slice() else {
            panic!("{steps:?}");
        };
        let by_uefi = "\"configured with: uefi\", replace clocksource=hpet by clocksource=tsc in \
                       /etc/kernel/cmdline;";
        assert!(text.contains(by_uefi), "{text}");
        assert!(text.contains("/etc/default/grub"), "{text}");
        let command = "run sudo proxmox-boot-tool refresh";
        assert!(text.ends_with(command), "{text}");
        assert_eq!((steps.keep, steps.undo_keep), (None, None));
    }

    #[test]
    fn a_raspberry_pi_has_a_file_and_no_program() {
        let steps = steps_with("cmdline_txt");
        let keep = "Raspberry Pi: replace clocksource=hpet by clocksource=tsc in the only line of \
                    /boot/firmware/cmdline.txt, or, if there is no such file, of \
                    /boot/cmdline.txt";
        assert_eq!(steps.keep_by_hand, [keep]);
        let undo = "replace clocksource=tsc by clocksource=hpet there";
        assert_eq!(steps.undo_keep_by_hand, [undo]);
    }

    /// Symptom: the tools of four other systems, of which NixOS has none.
    #[test]
    fn nixos_has_its_configuration_alone() {
        let line = "init=/nix/store/abc-nixos-system-a-25.11/init quiet";
        let steps = add_parameter("hpet=disable", &with_command_line(line));
        let keep = "NixOS: add hpet=disable to boot.kernelParams in the system's configuration; \
                    then run sudo nixos-rebuild boot";
        assert_eq!(steps.keep_by_hand, [keep]);
    }

    /// Symptom: `kernel-install add-all` without a word on its version, which Debian 12, Ubuntu
    /// 24.04 and RHEL 9 have not reached.
    #[test]
    fn the_command_for_systemd_boot_names_its_version_and_another_way() {
        let text = from_hpet_to_tsc().keep_by_hand.join("\n");
        assert!(text.contains("add-all (systemd 256 or later)"), "{text}");
        assert!(text.contains("dpkg-reconfigure"), "{text}");
    }

    #[test]
    fn an_added_parameter_is_removed_again_by_hand() {
        let steps = add_parameter("hpet=disable", &with_command_line("quiet"));
        let grub = of_debian(&steps);
        assert!(
            grub.contains(": add hpet=disable to GRUB_CMDLINE_LINUX in /etc/default/grub,"),
            "{grub}"
        );
        assert_eq!(
            steps.undo_keep_by_hand,
            [
                "Fedora, RHEL: sudo grubby --update-kernel=ALL --remove-args=hpet=disable",
                "elsewhere: remove hpet=disable there, and run the same program",
            ]
        );
    }

    /// Symptom: the only place named was /etc/default/grub or the file that sets the variable,
    /// where an image of a cloud sets GRUB_CMDLINE_LINUX_DEFAULT in a file of its own.
    #[test]
    fn a_removed_parameter_is_taken_from_each_variable_and_each_file_of_grub() {
        let steps = remove_parameter("vdso=0", &with_command_line("vdso=0"));
        let places = ": remove vdso=0 wherever GRUB_CMDLINE_LINUX or GRUB_CMDLINE_LINUX_DEFAULT \
                      has it, in /etc/default/grub and in the files of /etc/default/grub.d;";
        let grub = of_debian(&steps);
        assert!(grub.contains(places), "{grub}");
    }

    #[test]
    fn an_added_parameter_goes_into_the_file_of_grub_with_the_last_word() {
        let steps = add_parameter("hpet=disable", &with_command_line("quiet"));
        let place = "/etc/default/grub, or, if files of /etc/default/grub.d set it, in the last of";
        let grub = of_debian(&steps);
        assert!(grub.contains(place), "{grub}");
    }

    /// Symptom: four boot loaders were listed, and nothing said why.
    #[test]
    fn an_unknown_boot_loader_is_called_unknown() {
        let first = &from_hpet_to_tsc().keep_by_hand[0];
        assert!(first.contains("boot loader is unknown"), "{first}");
    }

    #[test]
    fn each_boot_loader_is_named_if_it_is_unknown() {
        let text = from_hpet_to_tsc().keep_by_hand.join("\n");
        for name in [
            "grubby",
            "update-grub",
            "update-extlinux",
            "systemd-boot",
            "Arch",
            "openSUSE",
            "NixOS",
            "rpm-ostree",
            "Pop!_OS",
            "Proxmox",
            "Raspberry Pi",
        ] {
            assert!(text.contains(name), "{name}: {text}");
        }
    }

    /// Symptom: a machine without grubby, which is not Alpine, got the steps of both.
    #[test]
    fn a_boot_loader_whose_files_systemds_machine_lacks_is_not_named() {
        let mut document = with_command_line("quiet");
        document.machine.systemd = Some(true);
        let steps = add_parameter("hpet=disable", &document);
        let first = &steps.keep_by_hand[0];
        let start = "the boot loader is unknown, so one of these: Debian, Ubuntu: add hpet=disable";
        assert!(first.starts_with(start), "{first}");
        let text = steps.keep_by_hand.join("\n");
        for name in ["update-grub", "systemd-boot"] {
            assert!(text.contains(name), "{name}: {text}");
        }
        let undo = "remove hpet=disable there, and run the same program";
        assert_eq!(steps.undo_keep_by_hand, [undo]);
        for name in ["grubby", "extlinux", "rpm-ostree", "Proxmox", "cmdline.txt"] {
            assert!(!text.contains(name), "{name}: {text}");
        }
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
