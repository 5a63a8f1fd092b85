//! What fixes say about the program that steers the clock: the commands of the daemon that answers,
//! or the commands of all daemons.

use crate::document::{Document, Fix};
use crate::machine::{CHRONYD, Hypervisor, PTP4L, TIMESYNCD};

/// Lists the names of all processes, without a heading. A name in the kernel has at most 15
/// letters.
const NAMES: &str = "ps -A -o comm=";

/// How the names of the programs begin that may steer the clock. An argument is no such name
/// (`--mountpoint`), and neither is a kernel thread's name (`ptp0`).
///
/// connmand sets the clock unless its `TimeUpdates` is `manual`. For the tools of hypervisors see
/// [`hypervisors_tool`].
const STEERING: &str =
    "ntp|openntpd|sntp|chrony|systemd-timesyn|ptp4l|ptpd|phc2sys|connman|sfptpd|htpd";

/// The command that finds names which begin like this.
fn find(beginnings: &str) -> String {
    format!("grep -E '^({beginnings})'")
}

/// The command that shows the programs that may steer the clock.
fn list() -> String {
    format!("{NAMES} | {}", find(STEERING))
}

/// The name of the daemon that answers.
pub(super) fn name(document: &Document) -> Option<&str> {
    if let Some(daemon) = &document.machine.ntp_daemon {
        return Some(&daemon.name);
    }
    document.machine.ptp4l.as_ref().map(|_| PTP4L)
}

/// The commands that show what the daemon knows of the time.
///
/// chronyd does not use the kernel's loop (`sys_timex.c` of chrony), so a set `STA_PLL` is
/// another's.
pub(super) fn state_commands(document: &Document) -> &'static str {
    match name(document) {
        Some(CHRONYD) => "chronyc tracking",
        Some(TIMESYNCD) => "timedatectl timesync-status",
        Some(PTP4L) => "sudo pmc -u -b 0 'GET TIME_STATUS_NP', and the log of phc2sys",
        Some(_) => "ntpq -p, ntpctl -s all, or ntp-ctl status",
        None if document.machine.has_kernel_loop() => {
            "ntpq -p, timedatectl timesync-status, or its log"
        }
        None => {
            "chronyc tracking, ntpq -p, ntpctl -s all, timedatectl timesync-status, or the log of \
             phc2sys"
        }
    }
}

/// The commands that show the servers of the daemon.
pub(super) fn server_commands(document: &Document) -> &'static str {
    match name(document) {
        Some(CHRONYD) => "chronyc sources -v",
        Some(TIMESYNCD) => "timedatectl timesync-status",
        Some(PTP4L) => "sudo pmc -u -b 0 'GET PARENT_DATA_SET' 'GET CURRENT_DATA_SET'",
        Some(_) => "ntpq -p, ntpctl -s peers, or ntp-ctl status",
        None => {
            "chronyc sources -v, ntpq -p, ntpctl -s peers, timedatectl timesync-status, or the \
             log of ptp4l"
        }
    }
}

/// How the daemon that answers steps the clock, instead of slewing it. systemd-timesyncd slews less
/// than 0.4 s even at its start (`NTP_MAX_ADJUST` in timesyncd-manager.c). OpenNTPD 6.8 says at its
/// start that -s "no longer works". ntpd-rs has `startup-step-panic-threshold` in place of an
/// option.
pub(super) fn step(document: &Document) -> &'static str {
    match name(document) {
        Some(CHRONYD) => "let it step the clock: sudo chronyc makestep",
        Some(TIMESYNCD) => {
            "if 0.4 s or more are left, let it step the clock at its start: sudo systemctl restart \
             systemd-timesyncd"
        }
        Some(PTP4L) => "let phc2sys step the clock (-S, or -F at its start)",
        Some(_) => {
            "let it step the clock at its start, by a restart: ntpd with -g, OpenNTPD up to 6.2 \
             with -s (later ones ignore -s, and need constraints or trusted servers in their \
             ntpd.conf), ntpd-rs and busybox ntpd without an option"
        }
        None if document.machine.has_kernel_loop() => {
            "let it step the clock at its start, by a restart"
        }
        None => {
            "let it step the clock: chronyd by sudo chronyc makestep, ntpd and systemd-timesyncd \
             by a restart, phc2sys with -S SECONDS"
        }
    }
}

/// The hypervisor's program that may set a guest's clock again and again, in words; `None` if there
/// is none, or if the hypervisor is unknown. Its time synchronisation may be off, as that of
/// vmtoolsd is by default, so a look at the programs that run proves nothing. QEMU's agent sets the
/// clock at the host's command alone (`guest-set-time`), and the kernel's hv_utils after a start or
/// a restore of Hyper-V's guest alone (`ICTIMESYNCFLAG_SYNC` in `drivers/hv/hv_util.c`).
fn hypervisors_tool(document: &Document) -> Option<&'static str> {
    match document.machine.hypervisor.as_ref()? {
        Hypervisor::Parallels => Some("prltimesync of Parallels Tools"),
        Hypervisor::VirtualBox => Some("VBoxService of VirtualBox"),
        Hypervisor::Vmware => {
            Some("vmtoolsd of VMware (vmware-toolbox-cmd timesync status says whether it does)")
        }
        Hypervisor::Bhyve
        | Hypervisor::Firecracker
        | Hypervisor::Gvisor
        | Hypervisor::HyperV
        | Hypervisor::Kvm
        | Hypervisor::NoneNamed
        | Hypervisor::Tcg
        | Hypervisor::Xen
        | Hypervisor::Other(_) => None,
    }
}

/// What must be decided before a daemon is started, because the hypervisor may set the clock.
pub(super) fn caution(document: &Document) -> Option<String> {
    let tool = hypervisors_tool(document)?;
    Some(format!(
        "{tool} may set the clock: let either it or an NTP daemon do so, not both"
    ))
}

/// The look for a program that steers the clock, after what the hypervisor may do: the next
/// sentence speaks of the program that the look has found.
fn look(first: String, document: &Document) -> Fix {
    match caution(document) {
        Some(caution) => Fix::from(caution).then(first),
        None => Fix::from(first),
    }
}

/// The program of the hypervisor that sets the clock wherever it runs: unlike vmtoolsd, these do
/// so by default.
fn always_setting(document: &Document) -> Option<&'static str> {
    match document.machine.hypervisor.as_ref()? {
        Hypervisor::Parallels => Some("prltimesync"),
        Hypervisor::VirtualBox => Some("VBoxService"),
        _ => None,
    }
}

/// What follows the start of a daemon if it is unknown whether this is a container. If it is known,
/// the whole fix is for the host.
fn on_its_host(document: &Document) -> &'static str {
    if document.machine.container.is_some() {
        ""
    } else {
        "; for a container, on its host"
    }
}

/// Begins with a look for the program that steers the clock, because a second one would work
/// against it.
pub(super) fn find_and_repair(document: &Document) -> Fix {
    if name(document) == Some(PTP4L)
        && let Some(ptp4l) = &document.machine.ptp4l
    {
        let mut fix = Fix::from(format!("see what ptp4l does: {}", state_commands(document)));
        if let Some(remedy) = &ptp4l.remedy {
            fix = fix.then(remedy.as_str());
        } else if ptp4l.unbounded.is_none() {
            fix = fix.then("let the programs read the clock of the network card: /dev/ptp*");
        }
        // A grandmaster steers nothing by PTP, and may follow an NTP daemon.
        let is_grandmaster = ptp4l.port_state == "master" && ptp4l.grandmaster.is_none();
        if is_grandmaster {
            return fix;
        }
        return fix.then("start no NTP daemon beside it");
    }
    let start = match name(document) {
        Some(name) => Fix::from(format!(
            "see what {name} does: {}",
            state_commands(document)
        )),
        None => look(
            format!("find the program that steers the clock: {}", list()),
            document,
        ),
    };
    let fix = start
        .then(
            "see that it reaches its servers, and tells the kernel its error: chronyd does so with \
             `rtcsync`, busybox ntpd never does",
        )
        .then("start no second one beside it");
    if name(document).is_some() {
        return fix;
    }
    fix.then(format!(
        "if none runs, start again the NTP daemon that did{}",
        on_its_host(document)
    ))
}

/// The start of a daemon where a program has set the rate, and may still run.
pub(super) fn unless_one_runs(document: &Document) -> Fix {
    let first = format!("see whether a program steers the clock already: {}", list());
    look(first, document).then(format!(
        "if none does, start again the NTP daemon that did{}",
        on_its_host(document)
    ))
}

/// The start of a daemon where none answers. One that reaches no server may run all the same: it
/// neither answers nor steers the clock.
pub(super) fn start(how: &str, document: &Document) -> Fix {
    let first = format!("see whether an NTP daemon runs already: {}", list());
    look(first, document)
        .then(
            "if one does, let it reach its servers (their addresses, DNS, the firewall), and start \
             no second one, which would work against it",
        )
        .then(format!(
            "if none does, run one: {how}{}",
            on_its_host(document)
        ))
}

/// The command that succeeds where no program runs that may steer the clock. It fails where `ps` or
/// `grep` is missing or fails: `!` alone would take that for a yes.
pub(super) fn none_runs(document: &Document) -> String {
    let steering = match always_setting(document) {
        Some(tool) => find(&format!("{STEERING}|{tool}")),
        None => find(STEERING),
    };
    format!(
        "names=$({NAMES}) && test \"$(printf '%s\\n' \"$names\" | {steering} | grep -c .)\" = 0"
    )
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::{env, fs, process};

    use super::none_runs;
    use crate::document::Document;
    use crate::machine::Hypervisor;

    /// Whether the check succeeds where `ps` is this script.
    fn succeeds(ps: &str) -> bool {
        succeeds_on(&Document::default(), ps)
    }

    fn succeeds_on(document: &Document, ps: &str) -> bool {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("ps");
        fs::write(&script, format!("#!/bin/sh\n{ps}\n")).expect("it is ours");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let mut path = folder.path().as_os_str().to_owned();
        path.push(":");
        path.push(env::var_os("PATH").expect("a PATH"));
        check(document, Path::new(&path))
    }

    fn check(document: &Document, path: &Path) -> bool {
        let mut shell = process::Command::new("/bin/sh");
        shell.args(["-c", &none_runs(document)]).env("PATH", path);
        shell.output().expect("a shell").status.success()
    }

    #[test]
    fn the_check_succeeds_where_no_daemon_runs() {
        assert!(succeeds("printf 'systemd\\nsh\\nps\\n'"));
    }

    #[test]
    fn the_check_fails_where_a_daemon_runs() {
        for name in ["ntpd", "openntpd", "chronyd", "systemd-timesyn", "ptp4l"] {
            assert!(
                !succeeds(&format!("printf 'systemd\\n{name}\\n'")),
                "{name}"
            );
        }
    }

    /// Symptom: "if none does, run one" beside these programs, so that two set the clock.
    #[test]
    fn the_check_fails_where_another_program_than_a_daemon_sets_the_clock() {
        for name in ["connmand", "sfptpd", "htpdate"] {
            assert!(!succeeds(&format!("echo {name}")), "{name}");
        }
    }

    /// Symptom: the check succeeded beside VBoxService, and a daemon was started beside it.
    #[test]
    fn the_check_fails_where_the_hypervisors_program_sets_the_clock() {
        for (hypervisor, name) in [
            (Hypervisor::VirtualBox, "VBoxService"),
            (Hypervisor::Parallels, "prltimesync"),
        ] {
            let mut guest = Document::default();
            guest.machine.hypervisor = Some(hypervisor);
            assert!(!succeeds_on(&guest, &format!("echo {name}")), "{name}");
            assert!(succeeds_on(&guest, "echo systemd"), "{name}");
        }
    }

    /// Symptom: the check succeeded without `ps`, and the fix would start a second daemon.
    #[test]
    fn the_check_fails_where_programs_cannot_be_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!check(&Document::default(), folder.path()), "no ps");
        assert!(!succeeds("echo systemd; exit 1"), "ps fails");
    }

    /// Symptom: an argument `--mountpoint` and the kernel thread ptp0 were NTP daemons.
    #[test]
    fn a_name_that_only_contains_letters_of_a_daemon_is_none() {
        let ps = "case $* in *comm=*) printf 'restic\\nptp0\\npptp\\n' ;;
            *) printf 'restic --mountpoint=/data\\n[ptp0]\\npptp\\n' ;; esac";
        assert!(succeeds(ps));
    }
}
