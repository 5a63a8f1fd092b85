//! The change of the kernel's command line for the next start: a command where the facts prove that
//! its tool is the right one, otherwise a sentence for each boot loader that the machine may have.

use std::collections::BTreeSet;

use crate::document::{Document, Steps};
use crate::machine::{
    CMDLINE_TXT, EXTLINUX, GRUB, GRUBBY, KERNELSTUB, OSTREE, PROXMOX, RPM_OSTREE,
};

/// Makes the command of a tool that replaces parameters by others.
type CommandOf = fn(&[&str], &[&str]) -> String;

/// The steps that replace parameters of the kernel's command line by others for the next start, and
/// that undo this: a command of a tool that is known to be the right one, otherwise words for each
/// boot loader that there may be.
pub(super) fn replace_parameters(former: &[&str], new: &[&str], document: &Document) -> Steps {
    let boot_loader = document.machine.boot_loader.as_deref();
    let command: Option<CommandOf> = match boot_loader {
        Some(GRUBBY) => Some(by_grubby),
        Some(KERNELSTUB) if !repeats_a_parameter(document) => Some(by_kernelstub),
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
        Some(KERNELSTUB) => by_hand(vec![edit.of_kernelstub()], vec![undo_and_run]),
        Some(OSTREE) => by_hand(vec![by_ostree(former, new)], vec![by_ostree(new, former)]),
        Some(CMDLINE_TXT) => by_hand(vec![edit.of_cmdline_txt()], vec![format!("{undo} there")]),
        _ if document.machine.is_nixos() => by_hand(vec![edit.of_nixos()], vec![undo_and_run]),
        _ => {
            let unknown = "the boot loader is unknown, so one of these";
            let grub = format!("{unknown}: {}", edit.of_grub());
            by_hand(
                vec![grub, edit.of_systemd_boot(), edit.elsewhere()],
                vec![undo_and_run],
            )
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

    /// For a machine whose parameters must stay in order. kernelstub reads the file at each start,
    /// and keeps the order of the list.
    fn of_kernelstub(&self) -> String {
        format!(
            "Pop!_OS: {} {} the list `kernel_options` of `user` in /etc/kernelstub/configuration; \
             then run sudo kernelstub (with --delete-options it would shuffle the parameters, of \
             which some are repeated, so that their order matters)",
            self.change, self.preposition
        )
    }

    /// Before Debian 12 the file was in `/boot`, where there is now a file that refers to it.
    /// Debian's package writes the file at each update of the kernel or of the initramfs, and adds
    /// the line of the other file.
    fn of_cmdline_txt(&self) -> String {
        format!(
            "Raspberry Pi: {} {} the only line of /boot/firmware/cmdline.txt, or, if there is no \
             such file, of /boot/cmdline.txt; with Debian's package raspi-firmware, which writes \
             that file anew, also {} /etc/default/raspi-extra-cmdline",
            self.change, self.preposition, self.preposition
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
             grub-mkconfig -o /boot/grub/grub.cfg (Arch, Gentoo, Void, Alpine), or sudo \
             grub2-mkconfig -o /boot/grub2/grub.cfg (openSUSE); or in the line `options` of an \
             entry in /boot/loader/entries that somebody has written by hand (Arch, Gentoo); or in \
             the file of another boot loader, such as limine.conf, refind_linux.conf or \
             syslinux.cfg; or in boot.kernelParams, then run sudo nixos-rebuild boot (NixOS)",
            self.change, self.preposition
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

/// Whether the command line has a parameter several times, such as `console=`. The order of these
/// matters.
fn repeats_a_parameter(document: &Document) -> bool {
    let mut names = BTreeSet::new();
    document
        .machine
        .kernel_parameters()
        .map(|parameter| {
            parameter
                .split_once('=')
                .map_or(parameter, |(name, _)| name)
        })
        .any(|name| !names.insert(name))
}

/// kernelstub splits a list at spaces. It adds parameters first, and then deletes by way of a set,
/// which has no order (`pop-os/kernelstub`, the module `application`): see [`repeats_a_parameter`].
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

/// ostree's own command adds parameters, and removes none: of `rpm-ostree kargs` it has only
/// `--append-if-missing` (`src/ostree/ot-admin-kargs-builtin-edit-in-place.c`). A new deployment
/// takes its line from the entry of the one before.
fn by_ostree(former: &[&str], new: &[&str]) -> String {
    if former.is_empty() {
        let appended = new
            .iter()
            .map(|word| format!(" --append-if-missing={word}"));
        let options: String = appended.collect();
        return format!("ostree: run sudo ostree admin kargs edit-in-place{options}");
    }
    let Edit {
        change,
        preposition,
        ..
    } = Edit::new(former, new);
    format!(
        "ostree: {change} {preposition} the line `options` of each file \
         /boot/loader/entries/ostree-*.conf"
    )
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::tests::{from_hpet_to_tsc, with_command_line};
    use super::super::{add_parameter, remove_parameter, switch};
    use super::*;

    /// The text for Debian's boot loader.
    fn of_debian(steps: &Steps) -> &str {
        let mut texts = steps.keep_by_hand.iter();
        texts
            .find(|text| text.contains("Debian"))
            .expect("a text for Debian")
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
                    /boot/cmdline.txt;";
        let [text] = steps.keep_by_hand.as_slice() else {
            panic!("{steps:?}");
        };
        assert!(text.starts_with(keep), "{text}");
        let undo = "replace clocksource=tsc by clocksource=hpet there";
        assert_eq!(steps.undo_keep_by_hand, [undo]);
    }

    /// Symptom: with Debian's package, the next update of the kernel undid the edit.
    #[test]
    fn a_raspberry_pi_of_debian_has_a_file_that_an_update_keeps() {
        let text = steps_with("cmdline_txt").keep_by_hand.join("\n");
        let place = "raspi-firmware, which writes that file anew, also in \
                     /etc/default/raspi-extra-cmdline";
        assert!(text.ends_with(place), "{text}");
    }

    /// Symptom: on Endless and with bootc, update-grub, kernel-install and grub2-mkconfig.
    #[test]
    fn ostree_without_rpm_ostree_adds_by_a_command_and_removes_in_its_entries() {
        let mut document = with_command_line("quiet");
        document.machine.boot_loader = Some("ostree".to_owned());
        let steps = add_parameter("hpet=disable", &document);
        let adds = "ostree: run sudo ostree admin kargs edit-in-place \
                    --append-if-missing=hpet=disable";
        assert_eq!(steps.keep_by_hand, [adds]);
        let removes = "ostree: remove hpet=disable from the line `options` of each file \
                       /boot/loader/entries/ostree-*.conf";
        assert_eq!(steps.undo_keep_by_hand, [removes]);
    }

    /// `ostree admin kargs edit-in-place` removes nothing.
    #[test]
    fn ostree_without_rpm_ostree_replaces_a_parameter_in_its_entries() {
        let replaces = "ostree: replace clocksource=hpet by clocksource=tsc in the line `options` \
                        of each file /boot/loader/entries/ostree-*.conf";
        assert_eq!(steps_with("ostree").keep_by_hand, [replaces]);
    }

    /// Symptom: `--delete-options` shuffled the line, and the console was another one.
    #[test]
    fn kernelstub_shuffles_no_parameters_whose_order_matters() {
        let line = "console=tty0 console=ttyS0 clocksource=hpet";
        let mut document = with_command_line(line);
        document.machine.boot_loader = Some("kernelstub".to_owned());
        let steps = switch("tsc", &document).unwrap();
        let [text] = steps.keep_by_hand.as_slice() else {
            panic!("{steps:?}");
        };
        let edit = "Pop!_OS: replace clocksource=hpet by clocksource=tsc in the list \
                    `kernel_options` of `user` in /etc/kernelstub/configuration; then run sudo \
                    kernelstub (";
        assert!(text.starts_with(edit), "{text}");
        assert_eq!((steps.keep, steps.undo_keep), (None, None));
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
            ["remove hpet=disable there, and run the same program"]
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
            "update-grub",
            "systemd-boot",
            "Arch",
            "Gentoo",
            "Void",
            "Alpine",
            "openSUSE",
            "limine.conf",
            "NixOS",
        ] {
            assert!(text.contains(name), "{name}: {text}");
        }
    }

    /// Symptom: a machine without grubby, which is not Alpine, got the steps of both.
    #[test]
    fn a_boot_loader_whose_files_the_machine_lacks_is_not_named() {
        let steps = add_parameter("hpet=disable", &with_command_line("quiet"));
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

    /// Symptom: Void and Gentoo read about Proxmox and Pop!_OS, which have systemd and a code.
    #[test]
    fn a_machine_with_an_unknown_boot_loader_has_the_same_list_without_systemd() {
        let mut document = with_command_line("quiet");
        document.machine.systemd = Some(true);
        let with_systemd = add_parameter("hpet=disable", &document);
        document.machine.systemd = Some(false);
        assert_eq!(add_parameter("hpet=disable", &document), with_systemd);
    }
}
