//! A fix as commands, one for each step, for this machine or for its host. A fix has no steps if an
//! administrator must decide, or if the commands for the host are unknown.

use crate::document::kernel_log::ANY_REJECTION;
use crate::document::{ByHand, Document, Steps};
use crate::machine::CLOCKSOURCE;

/// The command that switches to a clocksource until the machine restarts.
pub(super) fn switch_command(clocksource: &str) -> String {
    format!("echo {clocksource} | sudo tee {CLOCKSOURCE}/current_clocksource")
}

/// Whether this may be the name of a clocksource. Any other text from a recorded file must not
/// reach a shell.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// The switch of the kernel to another clocksource that it accepts. `None` if the present
/// clocksource is unknown, because no command could undo the switch.
pub(super) fn switch(clocksource: &str, document: &Document) -> Option<Steps> {
    let present = document.clocksource()?;
    if !is_name(present) || !is_name(clocksource) {
        return None;
    }
    let word = format!("clocksource={clocksource}");
    let is_selection = |word: &&str| word.starts_with("clocksource=");
    let are_several = document.parameters().filter(is_selection).count() > 1;
    let kept = match document.parameter_of("clocksource=") {
        // The command line names this clocksource already.
        Some(former) if former == word => Steps::default(),
        // The parameter has characters that must not reach a shell.
        Some(former) if !former.strip_prefix("clocksource=").is_some_and(is_name) => return None,
        // The commands replace one parameter, and leave the other in force.
        _ if are_several => Steps::default(),
        former => replace_parameters(former.as_slice(), &[&word], document),
    };
    // For the TSC, the CPUs' counters must agree, and the kernel must not have rejected the TSC.
    // Any other timer has only one counter, and needs no check.
    let check = match &document.machine.kernel_log {
        _ if clocksource != "tsc" => None,
        Some(_) => Some("tickline warp".to_owned()),
        None => Some(unless_rejected("tickline warp")),
    };
    Some(Steps {
        check,
        now: Some(switch_command(clocksource)),
        undo: Some(switch_command(present)),
        ..kept
    })
}

/// The selection of the TSC, which the kernel uses, for the next start, with the check of a switch.
pub(super) fn keep_tsc(document: &Document) -> Option<Steps> {
    let steps = switch("tsc", document)?;
    steps.keep.is_some().then_some(Steps {
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
pub(super) fn remove_parameter(word: &str, document: &Document) -> Steps {
    replace_parameters(&[word], &[], document)
}

/// The removal of a parameter that keeps the kernel from the TSC, with the selection of the TSC if
/// the command line selects another clocksource. Under such a parameter the kernel has not compared
/// the counters, so its log can't call them bad. `None` as in [`switch`], and beside several
/// selections.
pub(super) fn remove_parameter_against_tsc(word: &str, document: &Document) -> Option<Steps> {
    let kept = match document.selections_against_tsc().as_slice() {
        [] => remove_parameter(word, document),
        [other] if other.strip_prefix("clocksource=").is_some_and(is_name) => {
            replace_parameters(&[word, other], &["clocksource=tsc"], document)
        }
        _ => return None,
    };
    Some(Steps {
        check: Some("tickline warp".to_owned()),
        ..kept
    })
}

/// The addition of a parameter to the kernel's command line.
pub(super) fn add_parameter(word: &str, document: &Document) -> Steps {
    replace_parameters(&[], &[word], document)
}

/// A setting that the command `now` makes, and `undo` undoes.
pub(super) fn setting(now: &str, undo: &str) -> Steps {
    Steps {
        now: Some(now.to_owned()),
        undo: Some(undo.to_owned()),
        ..Steps::default()
    }
}

/// A command that replaces the parameters of the first list by those of the second.
type Replace = fn(&[&str], &[&str]) -> String;

/// The boot loaders whose commands are known, by the codes of `Machine::boot_loader`.
const BOOT_LOADERS: [(&str, Replace); 3] = [
    ("grubby", by_grubby),
    ("grub", by_grub),
    ("extlinux", by_extlinux),
];

/// The commands that replace parameters of the kernel's command line, and that undo this, for the
/// next start. If the boot loader is unknown, one command finds it out.
fn replace_parameters(former: &[&str], new: &[&str], document: &Document) -> Steps {
    let known = document.machine.boot_loader.as_deref();
    let known = BOOT_LOADERS.iter().find(|(code, _)| Some(*code) == known);
    let replace = known.map_or(replace_command as Replace, |(_, replace)| *replace);
    Steps {
        keep: Some(replace(former, new)),
        undo_keep: Some(replace(new, former)),
        by_hand: by_hand(known.map(|(code, _)| *code), former, new),
        ..Steps::default()
    }
}

/// The edit in words; `None` for grubby, whose command is short.
fn by_hand(boot_loader: Option<&str>, former: &[&str], new: &[&str]) -> Option<ByHand> {
    let change = change(former, new);
    let variable = if former.is_empty() {
        "GRUB_CMDLINE_LINUX"
    } else {
        "GRUB_CMDLINE_LINUX or GRUB_CMDLINE_LINUX_DEFAULT"
    };
    let grub = format!(
        "Debian, Ubuntu: {change} in {variable} of /etc/default/grub, or of the file in \
         /etc/default/grub.d that sets it; then run sudo update-grub"
    );
    let extlinux = format!(
        "Alpine: {change} in /etc/update-extlinux.conf, default_kernel_opts; then run sudo \
         update-extlinux"
    );
    let keep = match boot_loader {
        Some("grubby") => return None,
        Some("grub") => vec![grub],
        Some("extlinux") => vec![extlinux],
        _ => vec![
            format!("Fedora, RHEL: {}", by_grubby(former, new)),
            grub,
            extlinux,
            format!(
                "elsewhere: {change} in /etc/kernel/cmdline, then run sudo kernel-install add-all \
                 (systemd-boot); in /etc/default/grub, then run sudo grub-mkconfig -o \
                 /boot/grub/grub.cfg (Arch), or grub2-mkconfig -o /boot/grub2/grub.cfg (openSUSE); \
                 or in boot.kernelParams (NixOS)"
            ),
        ],
    };
    let back = self::change(new, former);
    let back = format!("{back} there, and run the same program");
    let undo_keep = match boot_loader {
        Some(_) => back,
        None => format!(
            "Fedora, RHEL: {}; elsewhere: {back}",
            by_grubby(new, former)
        ),
    };
    Some(ByHand { keep, undo_keep })
}

fn change(former: &[&str], new: &[&str]) -> String {
    match (former.join(" "), new.join(" ")) {
        (former, new) if former.is_empty() => format!("add {new}"),
        (former, new) if new.is_empty() => format!("remove {former}"),
        (former, new) => format!("replace {former} by {new}"),
    }
}

/// Of an option that is given twice, grubby takes the last one only, so several parameters are one
/// quoted list.
fn by_grubby(former: &[&str], new: &[&str]) -> String {
    let option = |name: &str, words: &[&str]| match words {
        [] => String::new(),
        [word] => format!(" --{name}={word}"),
        _ => format!(" --{name}='{}'", words.join(" ")),
    };
    format!(
        "sudo grubby --update-kernel=ALL{}{}",
        option("remove-args", former),
        option("args", new)
    )
}

/// A file of shell variables that have the kernel's parameters, and the program that applies it.
struct Defaults {
    file: &'static str,
    /// The variable that receives parameters.
    variable: &'static str,
    /// A regular expression for the variables that lose them.
    variables: &'static str,
    update: &'static str,
}

const GRUB: Defaults = Defaults {
    file: "/etc/default/grub",
    variable: "GRUB_CMDLINE_LINUX",
    variables: "GRUB_CMDLINE_LINUX[_A-Z]*",
    update: "/usr/sbin/update-grub",
};

const EXTLINUX: Defaults = Defaults {
    file: "/etc/update-extlinux.conf",
    variable: "default_kernel_opts",
    variables: "default_kernel_opts",
    update: "/sbin/update-extlinux",
};

impl Defaults {
    /// The conditions under which the edit changes what it should. They refuse a value without
    /// double quotes, or with escaped ones. `$f` is the file, in the edit too.
    fn checks(&self, former: &[&str], new: &[&str]) -> String {
        let Self {
            file,
            variable,
            variables,
            update,
        } = self;
        let mut checks = format!("f={file}; test -x {update}");
        for word in former {
            checks += &format!(r#" && sudo grep -qE '^{variables}="([^"\\]* )?{word}[ "]' $f"#);
        }
        if !new.is_empty() {
            checks += &format!(r#" && sudo grep -qE '^{variable}="[^"\\]*"( |$)' $f"#);
        }
        checks
    }

    /// The edit. It removes the new parameters too before it adds them, so that none stands twice.
    /// It spells word boundaries out, because Alpine's sed may not know `\b`.
    fn edit(&self, former: &[&str], new: &[&str]) -> String {
        let Self {
            variable,
            variables,
            update,
            ..
        } = self;
        let removed = [former, new].concat().join("|");
        let mut script = format!(r#":a;s/^({variables}="([^"\\]* )?)({removed})([ "])/\1\4/;ta"#);
        if !new.is_empty() {
            let added = new.join(" ");
            script +=
                &format!(r#";s/^({variable}="[^"\\]*[^" \\]|{variable}=") *"( |$)/\1 {added}"\2/"#);
        }
        let update = update.rsplit('/').next().unwrap_or(update);
        format!("sudo sed -i -E '{script}' $f && sudo {update}")
    }
}

/// What makes an edit of GRUB's defaults vain: another file that sets the variable, or the command
/// line of systemd-boot.
const NOT_ELSEWHERE: &str = "test ! -e /etc/kernel/cmdline && \
    ! sudo grep -qs '^GRUB_CMDLINE_LINUX=' $f.d/*.cfg";

/// Changes nothing unless it finds what it edits and what it runs.
fn by_grub(former: &[&str], new: &[&str]) -> String {
    format!(
        "if {} && {NOT_ELSEWHERE}; then {}; else echo 'not done: edit GRUB_CMDLINE_LINUX by hand in \
         /etc/default/grub or grub.d/*.cfg, then run update-grub; or /etc/kernel/cmdline' >&2; \
         false; fi",
        GRUB.checks(former, new),
        GRUB.edit(former, new)
    )
}

/// As [`by_grub`].
fn by_extlinux(former: &[&str], new: &[&str]) -> String {
    format!(
        "if {}; then {}; else echo 'not done: edit default_kernel_opts by hand in \
         /etc/update-extlinux.conf, then run update-extlinux' >&2; false; fi",
        EXTLINUX.checks(former, new),
        EXTLINUX.edit(former, new)
    )
}

/// The files that may have the kernel's command line, on all distributions and images of clouds.
const OTHER_FILES: &str = "/etc/update-extlinux.conf /etc/default/grub /etc/default/grub.d/*.cfg \
    /etc/kernel/cmdline";

/// What to do where no command is known.
const BY_HAND: &str = "edit the command line of the kernel by hand, as root: in \
    /etc/update-extlinux.conf, then run update-extlinux (Alpine); in /etc/default/grub or \
    /etc/default/grub.d/*.cfg, then run update-grub, or grub2-mkconfig -o /boot/grub2/grub.cfg; or in /etc/kernel/cmdline, \
    then run kernel-install add-all (systemd-boot)";

/// The command that replaces the parameters: by grubby if it is installed (Fedora and its
/// derivatives), otherwise in GRUB's defaults (Debian and its derivatives). These can have another
/// form, or be in another file, and update-grub is Debian's: the command changes nothing unless it
/// finds what it edits and what it runs. Otherwise it names the files, and those that have the
/// parameters.
fn replace_command(former: &[&str], new: &[&str]) -> String {
    let mut found = String::new();
    for word in former {
        found += &format!(
            "echo 'files that have {word}:'; grep -lsw {word} {OTHER_FILES} | grep . || echo 'none of those searched'; "
        );
    }
    let grubby = by_grubby(former, new);
    let checks = GRUB.checks(former, new);
    let edit = GRUB.edit(former, new);
    format!(
        "if command -v grubby >/dev/null; then {grubby}; elif {checks} && {NOT_ELSEWHERE}; then \
         {edit}; else {{ echo 'not done: {BY_HAND}'; {found}}} >&2; false; fi"
    )
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::super::hosts;
    use super::*;
    use crate::document::kernel_log::rejection;

    /// One message of each kind.
    const REJECTIONS: [&str; 16] = [
        "TSC found unstable after boot, most likely due to broken BIOS. Use 'tsc=unstable'.",
        "clocksource: Override clocksource tsc is unstable and not HRT compatible - cannot switch while in HRT/NOHZ mode",
        "clocksource: Marking clocksource tsc unstable due to inter CPU skew",
        "clocksource: Marking clocksource tsc-early unstable due to frequency skew",
        "clocksource: CPU0       2188104120031 < CPU17       2188104121999 (cycles)",
        "clocksource: Watchdog                    hpet interval:        499958332ns",
        "clocksource: Clocksource                  tsc interval:        500987654ns",
        "clocksource:         CPUs 1-3 behind CPU 0 for clocksource tsc.",
        "clocksource:         CPUs 5 ahead of CPU 0 for clocksource tsc.",
        "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.",
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
    fn each_step_can_be_taken_back() {
        let steps = switch("tsc", &with_command_line("quiet clocksource=hpet")).unwrap();
        assert_eq!(
            (steps.now, steps.undo),
            (Some(switch_command("tsc")), Some(switch_command("hpet")))
        );
        let (keep, undo) = (steps.keep.unwrap(), steps.undo_keep.unwrap());
        assert!(
            keep.contains("--remove-args=clocksource=hpet --args=clocksource=tsc"),
            "{keep}"
        );
        assert!(
            undo.contains("--remove-args=clocksource=tsc --args=clocksource=hpet"),
            "{undo}"
        );
        assert!(
            switch("acpi_pm", &with_command_line(""))
                .unwrap()
                .check
                .is_none(),
            "a timer needs no comparison"
        );
        // Symptom: `keep` added the word to a command line that had it.
        let kept = switch("tsc", &with_command_line("quiet clocksource=tsc")).unwrap();
        assert_eq!((kept.keep, kept.undo_keep), (None, None));
    }

    /// Symptom: of two selections the commands replaced the first, and the kernel obeys the last.
    #[test]
    fn a_switch_beside_two_selections_is_for_now_only() {
        let two = with_command_line("clocksource=tsc clocksource=hpet");
        let steps = switch("tsc", &two).unwrap();
        assert!(steps.now.is_some() && steps.undo.is_some());
        assert_eq!((steps.keep, steps.undo_keep), (None, None));
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

    /// Symptom: the check passed after "Clocksource tsc unstable", and for an unreadable log.
    #[test]
    fn the_check_fails_where_the_kernel_has_rejected_the_tsc_or_nothing_tells() {
        const GOOD: &str = "clocksource: Switched to clocksource tsc\nprtsc: the key is unstable";
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
        let check = switch("tsc", &with_command_line(""))
            .unwrap()
            .check
            .unwrap();
        let path = format!(
            "{}:{}",
            folder.path().display(),
            std::env::var("PATH").unwrap()
        );
        let passes = |variables: &[(&str, &str)]| {
            let mut shell = std::process::Command::new("sh");
            shell
                .args(["-c", &check])
                .env_clear()
                .env("PATH", &path)
                .envs(variables.iter().copied());
            shell.output().unwrap().status.success()
        };
        assert!(
            passes(&[("LOG", GOOD), ("WARP", "0")]) && !passes(&[("LOG", GOOD), ("WARP", "3")])
        );
        assert!(
            !passes(&[("WARP", "0")]) && !passes(&[("LOG", ""), ("WARP", "0")]),
            "refused, and empty"
        );
        for message in REJECTIONS {
            assert!(rejection(&[message.to_owned()]).is_some(), "{message}");
            let log = format!("{GOOD}\n{message}\n{GOOD}");
            assert!(!passes(&[("LOG", &log), ("WARP", "0")]), "{message}");
        }
    }

    /// A file of a test, on which it runs the commands for Debian.
    struct GrubFile {
        _folder: tempfile::TempDir,
        file: PathBuf,
        of_systemd_boot: PathBuf,
        update: PathBuf,
    }

    impl GrubFile {
        /// A machine with update-grub.
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let update = folder.path().join("update-grub");
            std::fs::write(&update, "").unwrap();
            std::fs::set_permissions(&update, std::fs::Permissions::from_mode(0o755)).unwrap();
            Self {
                file: folder.path().join("grub"),
                of_systemd_boot: folder.path().join("cmdline"),
                update,
                _folder: folder,
            }
        }

        /// Runs a command on a file with these contents. Returns whether it succeeded, and the
        /// contents afterwards.
        fn run(&self, before: &str, command: &str) -> (bool, String) {
            // Only grep and sed run: sudo, grubby and update-grub would change this machine. A user
            // may not read the file without sudo. Symptom: where root alone may read it, `keep`
            // said "not done".
            let only_sed = "command() { false; }; grep() { false; }; sed() { false; }; \
                            sudo() { [ $1 = update-grub ] || env \"$@\"; }; ";
            std::fs::write(&self.file, before).unwrap();
            let command = only_sed.to_owned()
                + &command
                    .replace("/etc/default/grub", self.file.to_str().unwrap())
                    .replace(
                        "/etc/kernel/cmdline",
                        self.of_systemd_boot.to_str().unwrap(),
                    )
                    .replace("/usr/sbin/update-grub", self.update.to_str().unwrap());
            let output = std::process::Command::new("sh")
                .args(["-c", &command])
                .output()
                .unwrap();
            assert_eq!(
                output.status.success(),
                output.stderr.is_empty(),
                "{output:?}"
            );
            let after = std::fs::read_to_string(&self.file).unwrap();
            (output.status.success(), after)
        }
    }

    /// A machine's file, and the steps from its hpet to the TSC.
    const ON_HPET: &str = "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX=\"quiet clocksource=hpet\"\n";

    fn from_hpet_to_tsc() -> Steps {
        switch("tsc", &with_command_line("quiet clocksource=hpet")).unwrap()
    }

    #[test]
    fn the_kernels_command_line_is_changed_and_changed_back() {
        let (grub, steps) = (GrubFile::new(), from_hpet_to_tsc());
        let kept = ON_HPET.replace("hpet", "tsc");
        assert_eq!(
            grub.run(ON_HPET, &steps.keep.unwrap()),
            (true, kept.clone())
        );
        assert_eq!(
            grub.run(&kept, &steps.undo_keep.unwrap()),
            (true, ON_HPET.to_owned())
        );
    }

    #[test]
    fn without_a_parameter_to_remove_the_command_fails() {
        let undo = from_hpet_to_tsc().undo_keep.unwrap();
        assert_eq!(
            GrubFile::new().run(ON_HPET, &undo),
            (false, ON_HPET.to_owned())
        );
    }

    #[test]
    fn two_parameters_are_replaced_and_put_back() {
        let grub = GrubFile::new();
        let two = with_command_line("quiet tsc=unstable clocksource=hpet");
        let steps = remove_parameter_against_tsc("tsc=unstable", &two).unwrap();
        let before = ON_HPET.replace("quiet clock", "quiet tsc=unstable clock");
        let kept = ON_HPET.replace("hpet", "tsc");
        assert_eq!(
            grub.run(&before, &steps.keep.unwrap()),
            (true, kept.clone())
        );
        assert_eq!(grub.run(&kept, &steps.undo_keep.unwrap()), (true, before));
    }

    /// The steps from hpet to the TSC on a machine with this boot loader.
    fn steps_with(boot_loader: &str) -> Steps {
        let mut document = with_command_line("quiet clocksource=hpet");
        document.machine.boot_loader = Some(boot_loader.to_owned());
        switch("tsc", &document).unwrap()
    }

    /// Symptom: in place of each command stood a hint where to find one.
    #[test]
    fn a_known_boot_loader_has_its_own_command() {
        let steps = steps_with("grubby");
        let keep = "sudo grubby --update-kernel=ALL --remove-args=clocksource=hpet \
                    --args=clocksource=tsc";
        assert_eq!(steps.keep.as_deref(), Some(keep));
        assert_eq!(steps.by_hand, None);
        let grub = steps_with("grub").keep.unwrap();
        assert!(grub.contains(" $f && sudo update-grub;"), "{grub}");
        assert!(!grub.contains("grubby"), "{grub}");
        assert_eq!(
            GrubFile::new().run(ON_HPET, &grub),
            (true, ON_HPET.replace("hpet", "tsc"))
        );
    }

    #[test]
    fn a_long_command_is_words_for_a_person() {
        let by_hand = steps_with("grub").by_hand.expect("words");
        assert_eq!(
            by_hand.keep,
            [
                "Debian, Ubuntu: replace clocksource=hpet by clocksource=tsc in GRUB_CMDLINE_LINUX \
                 or GRUB_CMDLINE_LINUX_DEFAULT of /etc/default/grub, or of the file in \
                 /etc/default/grub.d that sets it; then run sudo update-grub"
            ]
        );
        assert_eq!(
            by_hand.undo_keep,
            "replace clocksource=tsc by clocksource=hpet there, and run the same program"
        );
    }

    #[test]
    fn an_added_parameter_is_removed_again_by_hand() {
        let by_hand = add_parameter("hpet=disable", &with_command_line("quiet"));
        let by_hand = by_hand.by_hand.expect("words");
        assert!(by_hand.keep[1].contains(": add hpet=disable in GRUB_CMDLINE_LINUX of"));
        assert_eq!(
            by_hand.undo_keep,
            "Fedora, RHEL: sudo grubby --update-kernel=ALL --remove-args=hpet=disable; elsewhere: \
             remove hpet=disable there, and run the same program"
        );
    }

    #[test]
    fn each_boot_loader_is_named_if_it_is_unknown() {
        let by_hand = from_hpet_to_tsc().by_hand.expect("words");
        let has = |text: &String, name| assert!(text.contains(name), "{name}: {text}");
        for (text, name) in by_hand
            .keep
            .iter()
            .zip(["grubby", "update-grub", "update-extlinux"])
        {
            has(text, name);
        }
        for name in ["systemd-boot", "Arch", "openSUSE", "NixOS"] {
            has(&by_hand.keep[3], name);
        }
    }

    /// Symptom: the parameter was added inside a pair of escaped quotes, and the file was no shell
    /// script any more.
    #[test]
    fn a_value_with_escaped_quotes_stays_as_it_is() {
        let escaped = ON_HPET.replace("hpet", r#"hpet dyndbg=\"file x.c +p\" quiet"#);
        for steps in [from_hpet_to_tsc(), steps_with("grub")] {
            let keep = steps.keep.unwrap();
            let after = GrubFile::new().run(&escaped, &keep);
            assert_eq!(after, (false, escaped.clone()));
        }
    }

    /// Symptom: the command for a known boot loader failed in silence.
    #[test]
    fn the_command_for_grub_names_the_edit_that_it_does_not_make() {
        let keep = steps_with("grub").keep.unwrap();
        for other in [
            ON_HPET.replace('"', "'"),
            "GRUB_CMDLINE_LINUX=clocksource=hpet\n".to_owned(),
            "GRUB_CMDLINE_LINUX=\"\"\n".to_owned(),
        ] {
            // `run` asserts that a failure has a text.
            assert_eq!(GrubFile::new().run(&other, &keep), (false, other));
        }
        assert!(keep.contains("edit GRUB_CMDLINE_LINUX by hand"), "{keep}");
    }

    /// Symptom: the command succeeded, and the next start had the old parameters.
    #[test]
    fn where_another_file_has_the_last_word_grubs_file_stays_as_it_is() {
        for keep in [steps_with("grub").keep, from_hpet_to_tsc().keep] {
            let (grub, keep) = (GrubFile::new(), keep.unwrap());
            std::fs::write(&grub.of_systemd_boot, "clocksource=hpet").unwrap();
            assert_eq!(grub.run(ON_HPET, &keep), (false, ON_HPET.to_owned()));
            std::fs::remove_file(&grub.of_systemd_boot).unwrap();
            let folder = grub.file.with_extension("d");
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("50.cfg"), "GRUB_CMDLINE_LINUX=\"\"\n").unwrap();
            assert_eq!(grub.run(ON_HPET, &keep), (false, ON_HPET.to_owned()));
        }
    }

    /// Symptom: the second `keep` added the word again, and `undo keep` removed one of the two.
    #[test]
    fn a_parameter_that_is_kept_twice_stands_once() {
        let mut document = with_command_line("quiet");
        document.machine.boot_loader = Some("grub".to_owned());
        let steps = add_parameter("tsc=reliable", &document);
        let (grub, keep) = (GrubFile::new(), steps.keep.unwrap());
        let kept = "GRUB_CMDLINE_LINUX=\"quiet tsc=reliable\"\n".to_owned();
        let before = kept.replace(" tsc=reliable", "");
        assert_eq!(grub.run(&before, &keep), (true, kept.clone()));
        assert_eq!(grub.run(&kept, &keep), (true, kept.clone()));
        let twice = kept.replace("quiet", "tsc=reliable tsc=reliable quiet");
        let (done, undone) = grub.run(&twice, &steps.undo_keep.unwrap());
        assert_eq!((done, undone.replace(' ', "")), (true, before));
    }

    /// Symptom: the word was removed from comments, and from words that only begin with it.
    #[test]
    fn only_the_parameter_itself_is_removed() {
        let others = "# GRUB_CMDLINE_LINUX=\"clocksource=hpet\"\n\
                      GRUB_CMDLINE_LINUX_DEFAULT=\"clocksource=hpet-x\" # clocksource=hpet\n";
        let before = others.to_owned() + ON_HPET;
        let kept = others.to_owned() + &ON_HPET.replace("hpet", "tsc");
        let keep = steps_with("grub").keep.unwrap();
        assert_eq!(GrubFile::new().run(&before, &keep), (true, kept));
    }

    /// Runs a command for extlinux as `GrubFile::run` does.
    fn run_for_extlinux(before: &str, command: &str) -> (bool, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("update-extlinux.conf");
        std::fs::write(&file, before).unwrap();
        let command = command
            .replace("/etc/update-extlinux.conf", file.to_str().unwrap())
            .replace("test -x /sbin/update-extlinux", "true");
        let command = format!("sudo() {{ [ $1 = update-extlinux ] || \"$@\"; }}; {command}");
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", &command]).output().unwrap();
        let is_silent = output.stderr.is_empty();
        assert_eq!(output.status.success(), is_silent, "{output:?}");
        let after = std::fs::read_to_string(&file).unwrap();
        (output.status.success(), after)
    }

    #[test]
    fn the_settings_of_extlinux_are_changed_and_changed_back() {
        const BEFORE: &str = "overwrite=1\ndefault_kernel_opts=\"quiet clocksource=hpet\"\n";
        let steps = steps_with("extlinux");
        let kept = BEFORE.replace("hpet", "tsc");
        let after = run_for_extlinux(BEFORE, &steps.keep.unwrap());
        assert_eq!(after, (true, kept.clone()));
        let undo_keep = steps.undo_keep.unwrap();
        let after = run_for_extlinux(&kept, &undo_keep);
        assert_eq!(after, (true, BEFORE.to_owned()));
        let again = run_for_extlinux(BEFORE, &undo_keep);
        assert_eq!(again, (false, BEFORE.to_owned()));
    }

    #[test]
    fn a_setting_of_extlinux_with_escaped_quotes_stays_as_it_is() {
        let odd = "default_kernel_opts=\"clocksource=hpet dyndbg=\\\"file x.c +p\\\" quiet\"\n";
        let keep = steps_with("extlinux").keep.unwrap();
        assert_eq!(run_for_extlinux(odd, &keep), (false, odd.to_owned()));
    }

    /// Symptom: for these forms, nothing was added, and the command succeeded.
    #[test]
    fn in_a_file_of_another_form_the_command_fails() {
        let (grub, keep) = (GrubFile::new(), from_hpet_to_tsc().keep.unwrap());
        for line in [
            "LINUX=",
            "LINUX='quiet'",
            "export LINUX=\"\"",
            " LINUX=\"\"",
            "#LINUX=\"\"",
        ] {
            let other = format!("LINUX_DEFAULT=clocksource=hpet\n{line}\n")
                .replace("LINUX", "GRUB_CMDLINE_LINUX");
            assert_eq!(grub.run(&other, &keep), (false, other));
        }
    }

    /// Symptom: without update-grub, as on Fedora's relatives without grubby, the file was changed,
    /// and the next start had the old parameters.
    #[test]
    fn without_update_grub_the_file_stays_as_it_is() {
        let grub = GrubFile::new();
        std::fs::remove_file(&grub.update).unwrap();
        for steps in [from_hpet_to_tsc(), steps_with("grub")] {
            let keep = steps.keep.unwrap();
            assert_eq!(grub.run(ON_HPET, &keep), (false, ON_HPET.to_owned()));
        }
    }

    /// Symptom: on Alpine, and in images whose parameters are in /etc/default/grub.d, "edit the
    /// command line of the kernel by hand" named no file.
    #[test]
    fn where_no_command_is_known_the_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let extlinux = folder.path().join("update-extlinux.conf");
        std::fs::write(
            &extlinux,
            "default_kernel_opts=\"clocksource=hpet quiet\"\n",
        )
        .unwrap();
        let steps = switch("tsc", &with_command_line("clocksource=hpet")).unwrap();
        let keep = steps
            .keep
            .unwrap()
            .replace("/etc/", &format!("{}/", folder.path().display()));
        let without_grubby = format!("command() {{ false; }}; {keep}");
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", &without_grubby]).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{message}");
        for name in [
            "as root",
            "run update-extlinux (Alpine)",
            "/default/grub.d/*.cfg",
            "/kernel/cmdline",
        ] {
            assert!(message.contains(name), "{name}: {message}");
        }
        let found = extlinux.display();
        assert!(
            message.ends_with(&format!("clocksource=hpet:\n{found}\n")),
            "{message}"
        );
        // Symptom: "none", though /etc/default/grub had the word in a form that `keep` can't edit.
        let grub = folder.path().join("default/grub");
        std::fs::create_dir(folder.path().join("default")).unwrap();
        std::fs::rename(&extlinux, &grub).unwrap();
        let output = shell.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        let found = grub.display();
        assert!(
            message.ends_with(&format!("clocksource=hpet:\n{found}\n")),
            "{message}"
        );
    }

    /// Without the guest's name, each command fails and names the command that lists the guests.
    #[test]
    fn the_commands_for_virtualbox_ask_for_the_machines_name() {
        let steps = hosts::virtualbox_steps();
        let names: Vec<_> = steps.named().map(|(name, _)| name).collect();
        assert_eq!(names, ["check", "keep", "undo keep"]);
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
