//! Unix time: whether a daemon keeps it near UTC, and what it says.

use super::given::good_machine;
use super::unix_time::{KERNELS_LIMIT_US, chronyd, lone_chronyd};
use crate::document::Severity;
use crate::machine::NtpDaemon;

/// This daemon's answer while it follows another clock.
fn daemon(name: &str) -> NtpDaemon {
    NtpDaemon {
        name: name.to_owned(),
        ..chronyd()
    }
}

#[test]
fn a_machine_without_a_daemon_is_not_known_right() {
    for synchronised in [false, true] {
        for error_us in [KERNELS_LIMIT_US, i64::MAX] {
            let finding = good_machine()
                .never_steered()
                .ntp(|ntp| ntp.synchronised = synchronised)
                .maximum_error_us(error_us)
                .only("ntp_unsynchronised");
            assert_eq!(finding.severity, Severity::Unsure);
            finding.fix_has("sudo timedatectl set-ntp true");
        }
    }
}

#[test]
fn without_systemd_the_fix_does_not_name_its_command() {
    for systemd in [Some(false), None] {
        let finding = good_machine()
            .never_steered()
            .with(|document| document.machine.systemd = systemd)
            .only("ntp_unsynchronised");
        finding.fix_has("run one: chronyd").fix_lacks("timedatectl");
    }
}

/// Symptom: beside busybox ntpd without a server, which is not seen, the fix was a daemon.
#[test]
fn a_daemon_is_started_only_where_none_runs() {
    for systemd in [true, false] {
        let finding = good_machine()
            .never_steered()
            .with(|document| document.machine.systemd = Some(systemd))
            .only("ntp_unsynchronised");
        finding
            .fix_begins("see whether an NTP daemon runs already: ps -A -o comm= |")
            .fix_has_in_order("start no second one", "if none does, run one: ");
        let check = finding.fix.steps().map(|steps| steps.check.as_ref());
        assert!(!matches!(check, Some(None)), "a command without a check");
    }
}

#[test]
fn under_wsl_windows_sets_the_clock() {
    let finding = good_machine()
        .maximum_error_us(KERNELS_LIMIT_US)
        .with(|document| {
            document.machine.kernel = Some("5.15.153.1-microsoft-standard-WSL2".to_owned());
            document.machine.systemd = Some(false);
        })
        .only("ntp_unsynchronised");
    finding.fix_has("hwclock -s").fix_lacks("timedatectl");
}

/// Symptom: beside busybox ntpd, which never sets the error, the fix started a second daemon.
#[test]
fn no_second_daemon_is_started_where_one_steers_the_clock() {
    let machine = good_machine().maximum_error_us(KERNELS_LIMIT_US);
    let fed = machine
        .clone()
        .ntp(|ntp| ntp.flags = Some(vec!["PLL".to_owned(), "UNSYNC".to_owned()]));
    let slewed = machine.clone().ntp(|ntp| ntp.offset_ns = 120_000);
    for machine in [fed, slewed] {
        let finding = machine.only("ntp_unsynchronised");
        finding
            .says("a program steers the kernel's clock")
            .says("but nothing vouches for Unix time")
            .fix_begins("find the program that steers the clock")
            .fix_lacks("timedatectl set-ntp");
        assert_eq!(finding.fix.steps(), None);
    }
}

/// busybox ntpd gives the kernel its offset in us. Symptom: where Linux 6.1 states an offset of
/// -0.1 ms as 4.29 s, Unix time was off by at least 4.29 s.
#[test]
fn a_negative_offset_that_linux_states_as_a_positive_one_is_small() {
    let machine = good_machine()
        .maximum_error_us(KERNELS_LIMIT_US)
        .ntp(|ntp| {
            ntp.flags = Some(vec!["PLL".to_owned(), "UNSYNC".to_owned()]);
            ntp.offset_ns = 4_294_867_000;
        });
    let finding = machine.only("ntp_unsynchronised");
    finding.says("a program steers the kernel's clock");
}

/// The kernel's loop stays on after its program has ended. Symptom: "start no second one", where
/// none ran.
#[test]
fn a_loop_without_an_offset_may_be_left_over() {
    let machine = good_machine()
        .never_steered()
        .ntp(|ntp| ntp.flags = Some(vec!["PLL".to_owned(), "UNSYNC".to_owned()]));
    let left_over = machine.clone().ntp(|ntp| ntp.frequency_ppb = -21_337);
    // The first minutes of busybox ntpd.
    for machine in [left_over, machine.clone()] {
        let finding = machine.only("ntp_unsynchronised");
        finding
            .says("a program steers the kernel's clock, or did, but nothing vouches")
            .fix_has_in_order(
                "start no second one beside it",
                "if none runs, start again the NTP daemon that did",
            );
    }
    let fed = machine.ntp(|ntp| ntp.offset_ns = 120_000);
    fed.only("ntp_unsynchronised")
        .says("a program steers the kernel's clock, but");
}

/// A rate that is not 0 was set by a program, which may have ended: phc2sys of linuxptp 1 sets
/// nothing else.
#[test]
fn a_daemon_is_started_only_after_a_look_where_the_rate_was_set() {
    let finding = good_machine()
        .maximum_error_us(KERNELS_LIMIT_US)
        .only("ntp_unsynchronised");
    finding
        .says("no NTP daemon")
        .shows("rate corrected by -20 ppm")
        .fix_begins("see whether a program steers the clock already")
        .fix_lacks("set-ntp");
    assert_eq!(finding.fix.steps(), None);
}

/// Symptom: beside a chronyd that answers, "no NTP daemon keeps Unix time near UTC".
#[test]
fn a_daemon_that_states_its_bound_is_one() {
    let machine = good_machine()
        .maximum_error_us(KERNELS_LIMIT_US)
        .daemon_answers(NtpDaemon {
            bound_ns: Some(400_000),
            ..chronyd()
        });
    assert_eq!(machine.clone().codes(), [""; 0]);
    machine.ntp(|ntp| ntp.synchronised = false).only("ntp_flag");
}

#[test]
fn a_daemon_that_states_nothing_is_named() {
    let finding = good_machine()
        .maximum_error_us(KERNELS_LIMIT_US)
        .daemon_answers(daemon("systemd-timesyncd"))
        .only("ntp_unsynchronised");
    finding
        .says("systemd-timesyncd runs, but nothing vouches")
        .fix_begins("see what systemd-timesyncd does: timedatectl timesync-status")
        .fix_lacks("set-ntp");
}

/// Symptom: `chronyc makestep`, on a machine with ntpd.
#[test]
fn the_fix_has_the_commands_of_the_daemon_that_answers() {
    for (name, command, other) in [
        ("chronyd", "sudo chronyc makestep", "ntpq"),
        ("ntpd", "ntpq -p", "chronyc"),
        ("systemd-timesyncd", "restart systemd-timesyncd", "chronyc"),
    ] {
        let machine = good_machine().daemon_answers(daemon(name));
        let off = machine.clone().ntp(|ntp| ntp.offset_ns = 480_000_000);
        off.only("time_off").fix_has(command).fix_lacks(other);
        let slewing = machine.ntp(|ntp| ntp.frequency_ppb = 300_000);
        slewing.only("ntp_slewing").fix_lacks(other);
    }
}

#[test]
fn a_daemon_that_follows_no_clock_keeps_nothing_right() {
    let answer = NtpDaemon {
        reference: Some("127.127.1.1".to_owned()),
        ..lone_chronyd()
    };
    let finding = good_machine()
        .daemon_answers(answer)
        .only("ntp_unsynchronised");
    assert_eq!(finding.severity, Severity::Unsure);
    finding
        .says("chronyd follows no other clock")
        .shows("127.127.1.1");
}

#[test]
fn the_kernels_error_is_no_claim_of_a_daemon_that_follows_no_clock() {
    let machine = good_machine().daemon_answers(lone_chronyd());
    machine
        .clone()
        .maximum_error_us(9_812_000)
        .only("ntp_unsynchronised");
    machine
        .clock_claims("kernel", 3_000_000_000)
        .only("ntp_unsynchronised");
}

/// Symptom: under chronyd without `rtcsync`, the finding said that no daemon synchronises Unix
/// time.
#[test]
fn a_daemon_without_the_kernels_flag_is_a_note() {
    let machine = good_machine().ntp(|ntp| ntp.synchronised = false);
    let finding = machine.clone().maximum_error_us(12_345).only("ntp_flag");
    assert_eq!(finding.severity, Severity::Note);
    finding.fix_has("rtcsync").shows("12.3 ms");
    machine.clone().only("ntp_flag");
    machine
        .maximum_error_us(KERNELS_LIMIT_US)
        .only("ntp_unsynchronised");
}

/// Symptom: "Unix time is within 7.6 ms of UTC, as an NTP daemon claims", after chronyd without
/// `rtcsync` had ended. The figure `tickline_utc_error_seconds` was left out meanwhile.
#[test]
fn the_claim_of_a_daemon_that_no_longer_answers_is_unsure_and_bounds_nothing() {
    let machine = good_machine()
        .ntp(|ntp| ntp.synchronised = false)
        .maximum_error_us(7_612)
        .with(|document| document.clock.utc_unknown = Some("unsynchronised".to_owned()));
    let finding = machine.clone().only("ntp_unsynchronised");
    assert_eq!(finding.severity, Severity::Unsure);
    finding
        .says("but none answers here")
        .shows("maxerror is 7.6 ms, as a daemon claimed");
    machine.clone().with(|document| {
        assert_eq!(document.utc_bound_in_words(), None);
    });
    // The flag is the word of a daemon that may answer nobody.
    let with_flag = machine.clone().ntp(|ntp| ntp.synchronised = true);
    assert_eq!(with_flag.codes(), [""; 0]);
    machine.daemon_answers(chronyd()).only("ntp_flag");
}

/// A multiple of 500 us is no claim: systemd-timesyncd sets the error to 0.
#[test]
fn the_kernels_error_is_the_daemons_claim_unless_it_has_only_grown() {
    let answer = NtpDaemon {
        bound_ns: Some(3_000_000_000),
        ..chronyd()
    };
    let machine = good_machine().daemon_answers(answer);
    let by_kernel = machine.clone().maximum_error_us(9_812_123);
    by_kernel
        .only("utc_error_large")
        .says("off by 9.8 s")
        .shows("as chronyd claims");
    let by_answer = machine.maximum_error_us(9_812_000);
    by_answer
        .only("utc_error_large")
        .says("off by 3 s: the NTP daemon has not measured")
        .shows("as chronyd claims");
}

#[test]
fn the_daemon_may_know_the_offset() {
    let answer = NtpDaemon {
        offset_ns: Some(1_000_000_000),
        bound_ns: Some(1_000_500_000),
        ..chronyd()
    };
    let finding = good_machine().daemon_answers(answer).only("time_off");
    finding
        .says("off by 1 s")
        .shows("offset left to chronyd to remove: ");
}

#[test]
fn under_systemd_the_start_of_a_daemon_can_be_undone() {
    let finding = good_machine().never_steered().only("ntp_unsynchronised");
    let steps = finding.fix.steps().expect("commands");
    assert_eq!(steps.now.as_deref(), Some("sudo timedatectl set-ntp true"));
    assert_eq!(
        steps.undo.as_deref(),
        Some("sudo timedatectl set-ntp false")
    );
}

#[test]
fn the_claim_of_another_source_holds_though_the_daemon_follows_no_clock() {
    let finding = good_machine()
        .daemon_answers(lone_chronyd())
        .clock_claims("clock_bound", 3_000_000_000)
        .finding("utc_error_large");
    finding.shows("as clock-bound claims");
}

/// A server with `local` has stratum 10, and what follows it has more.
#[test]
fn a_server_without_a_reference_clock_proves_nothing() {
    let at = |stratum| {
        good_machine().daemon_answers(NtpDaemon {
            stratum: Some(stratum),
            bound_ns: Some(400_000),
            ..chronyd()
        })
    };
    assert_eq!(at(9).codes(), [""; 0]);
    for stratum in [10, 11, 15] {
        let finding = at(stratum).only("utc_unproven");
        assert_eq!(finding.severity, Severity::Unsure);
        finding.fix_has("chronyc sources -v");
    }
}

#[test]
fn a_daemon_that_follows_its_own_clock_is_lone_under_any_of_its_names() {
    let following = |name, reference: &str| {
        good_machine().daemon_answers(NtpDaemon {
            reference: Some(reference.to_owned()),
            ..daemon(name)
        })
    };
    for reference in ["127.127.1.0", "LOCL", "LCL", "127.0.0.1"] {
        let finding = following("ntpd", reference).only("ntp_unsynchronised");
        finding.says("ntpd follows no other clock");
    }
    assert_eq!(following("chronyd", "127.0.0.1").codes(), [""; 0]);
}

/// chronyd does not use the kernel's loop.
#[test]
fn the_kernels_loop_shows_that_the_daemon_which_steers_is_not_chronyd() {
    let slewing = good_machine().ntp(|ntp| ntp.frequency_ppb = 300_000);
    slewing.clone().only("ntp_slewing").fix_has("chronyc");
    for flag in ["PLL", "FLL"] {
        let by_loop = slewing
            .clone()
            .ntp(|ntp| ntp.flags = Some(vec![flag.to_owned()]));
        let finding = by_loop.only("ntp_slewing");
        finding.fix_has("or its log").fix_lacks("chronyc");
    }
    let off = good_machine().ntp(|ntp| ntp.offset_ns = 480_000_000);
    off.clone().only("time_off").fix_has("chronyc makestep");
    let by_loop = off.ntp(|ntp| ntp.flags = Some(vec!["PLL".to_owned()]));
    by_loop
        .only("time_off")
        .fix_has("let it step the clock at its start, by a restart")
        .fix_lacks("chronyc");
}

/// Symptom: "sudo timedatectl set-ntp true" in LXC, whose systemd starts no daemon, or starts a
/// second one beside that of its machine.
#[test]
fn in_a_container_with_systemd_the_daemon_is_started_elsewhere() {
    let finding = good_machine()
        .never_steered()
        .container("lxc")
        .only("ntp_unsynchronised");
    finding
        .fix_begins("for the machine in which this container (lxc) runs: see whether an NTP daemon")
        .fix_has("if none does, run one: chronyd, for example")
        .fix_lacks("timedatectl")
        .fix_lacks("for a container, on its host");
    assert_eq!(finding.fix.steps(), None);
}

/// Symptom: with systemd, "for a container, on its host" was missing.
#[test]
fn where_a_container_is_not_known_each_start_of_a_daemon_names_its_host() {
    const ON_HOST: &str = "; for a container, on its host";
    let machine = good_machine().maximum_error_us(KERNELS_LIMIT_US);
    let never_steered = machine.clone().never_steered();
    let without_systemd = never_steered
        .clone()
        .with(|document| document.machine.systemd = Some(false));
    let left_over = machine
        .clone()
        .ntp(|ntp| ntp.flags = Some(vec!["PLL".to_owned()]));
    for machine in [machine, never_steered, without_systemd, left_over] {
        machine.only("ntp_unsynchronised").fix_has(ON_HOST);
    }
}

/// Symptom: "by a restart with -g (ntpd) or -s (OpenNTPD)", for an OpenNTPD that ignores -s, and
/// for ntpd-rs, which has no -g.
#[test]
fn each_server_of_ntp_is_restarted_with_the_option_that_it_has() {
    let machine = good_machine().daemon_answers(daemon("ntpd"));
    let off = machine.ntp(|ntp| ntp.offset_ns = 480_000_000);
    off.only("time_off")
        .fix_has("ntpd with -g, OpenNTPD up to 6.2 with -s (later ones ignore -s")
        .fix_has("ntpd-rs and busybox ntpd without an option");
}

/// Symptom: "if none does, run one" beside VBoxService, which sets the clock as well.
#[test]
fn a_hypervisors_program_that_may_set_the_clock_is_named_before_a_daemon_is_started() {
    for (hypervisor, program) in [
        ("virtualbox", "VBoxService"),
        ("vmware", "vmtoolsd"),
        ("parallels", "prltimesync"),
    ] {
        let machine = good_machine()
            .hypervisor(hypervisor)
            .maximum_error_us(KERNELS_LIMIT_US);
        let never_steered = machine.clone().never_steered();
        let left_over = machine
            .clone()
            .ntp(|ntp| ntp.flags = Some(vec!["PLL".to_owned()]));
        for machine in [machine, never_steered, left_over] {
            machine
                .only("ntp_unsynchronised")
                .fix_has_in_order(program, "may set the clock:")
                .fix_has_in_order("may set the clock:", "if none ");
        }
    }
}

/// Symptom: "if one does, let it reach its servers" stood behind the hypervisor's program, and
/// seemed to speak of it.
#[test]
fn a_hypervisors_program_is_named_before_the_look_for_a_daemon() {
    let machine = good_machine().hypervisor("virtualbox").never_steered();
    machine
        .only("ntp_unsynchronised")
        .fix_has_in_order("VBoxService", "see whether an NTP daemon runs already")
        .fix_has("htpd)'; if one does, let it reach its servers");
}

/// Symptom: the command that starts a daemon had no word on VBoxService.
#[test]
fn the_command_that_starts_a_daemon_has_the_hypervisors_program_as_its_caution() {
    let machine = good_machine().hypervisor("virtualbox").never_steered();
    let finding = machine.only("ntp_unsynchronised");
    let steps = finding.fix.steps().expect("commands");
    let caution = steps.caution.as_ref().expect("a caution");
    assert!(caution.starts_with("VBoxService"), "{caution}");
}

#[test]
fn a_hypervisor_without_such_a_program_is_not_named() {
    for hypervisor in ["none", "kvm", "xen", "hyper_v", "firecracker"] {
        let machine = good_machine().hypervisor(hypervisor).never_steered();
        machine
            .only("ntp_unsynchronised")
            .fix_lacks("may set the clock:");
    }
}
