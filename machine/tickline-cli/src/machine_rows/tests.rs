//! Tests of the rows about the machine.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::machine::{Hypervisor, IgnoredAnswer, IgnoredBecause, NtpDaemon};

/// The text of the row with this name.
fn row(document: &Document, name: &str) -> String {
    let mut rows = machine_rows(document).into_iter();
    let row = rows.find(|(known, _)| *known == name);
    row.unwrap_or_else(|| panic!("no row {name}")).1
}

/// The text of the row with this name, of these facts of the machine.
fn row_of(machine: Machine, name: &str) -> String {
    let document = Document {
        machine,
        ..Document::default()
    };
    row(&document, name)
}

#[test]
fn the_row_of_the_hypervisor_names_dom0() {
    let machine = Machine {
        hypervisor: Some(Hypervisor::Xen),
        xen_dom0: Some(true),
        ..Machine::default()
    };
    assert_eq!(row_of(machine, "hypervisor"), "xen, Xen's dom0");
}

#[test]
fn the_boot_loader_has_a_row() {
    let machine = Machine {
        boot_loader: Some("grub".to_owned()),
        ..Machine::default()
    };
    assert_eq!(row_of(machine, "boot loader"), "grub");
    assert_eq!(row_of(Machine::default(), "boot loader"), UNKNOWN);
}

#[test]
fn the_container_has_a_row() {
    let machine = Machine {
        container: Some("lxc".to_owned()),
        ..Machine::default()
    };
    assert_eq!(row_of(machine, "container"), "lxc");
    assert_eq!(row_of(Machine::default(), "container"), "none is seen");
}

fn events(counts: [(&str, u64); 2]) -> BTreeMap<String, u64> {
    let counts = counts.map(|(event, count)| (event.to_owned(), count));
    counts.into()
}

fn ntp_with_claim() -> Ntp {
    Ntp {
        synchronised: true,
        tick_us: 10_834,
        frequency_ppb: -32_670,
        offset_ns: 0,
        time_constant: None,
        maximum_error_us: 923_305,
        estimated_error_us: 7,
        flags: Some(vec!["UNSYNC".to_owned(), "NANO".to_owned()]),
        leap: None,
        tai_offset_s: Some(37),
    }
}

fn daemon() -> NtpDaemon {
    NtpDaemon {
        name: "chronyd".to_owned(),
        synchronised: true,
        reference: Some("PHC0".to_owned()),
        stratum: Some(1),
        offset_ns: Some(480_000_000),
        bound_ns: Some(506_000),
        updated_s: Some(9_000),
        leap: None,
        frequency_ppb: Some(-12_300),
        skew_ppb: Some(40),
        root_delay_ns: Some(1_000_000),
        root_dispersion_ns: Some(6_000),
        channel: Some(Channel::Udp),
        user: Some(0),
    }
}

/// Symptom: `0 allowed, 0-3 online`, which reads as a count.
#[test]
fn cpus_are_named_by_their_numbers() {
    let mut document = Document::default();
    document.machine.allowed_cpus = Some("0".to_owned());
    document.machine.online_cpus = Some("0-3,8".to_owned());
    assert_eq!(row(&document, "CPUs"), "allowed: CPU 0, online: CPUs 0-3,8");
}

#[test]
fn unknown_facts_are_called_unknown() {
    let document = Document::default();
    for (name, words) in [
        ("CPU", "unknown"),
        ("product", "unknown"),
        ("kernel", "unknown"),
        ("clocksource", "unknown"),
        ("CPUs", "unknown"),
        ("UTC", "unknown"),
        ("counter", "not measured, no nominal frequency"),
        ("CPUID", "none is stated"),
        (
            "rights",
            "the right to read the counter is unknown, vDSO unknown",
        ),
        ("namespace", "none is seen"),
        ("NTP daemon", "none has answered"),
        ("clock", "no bound"),
        (
            "page",
            "none is served, or this user may not see by whom it is mapped",
        ),
        (
            "kernel log",
            "unknown: this user may not read it, or it was not recorded",
        ),
    ] {
        assert_eq!(row(&document, name), words, "{name}");
    }
}

#[test]
fn the_counters_row_compares_the_measured_frequency_with_the_nominal_one() {
    let clock = ClockStatus {
        frequency_hz: Some(2_599_000_000),
        nominal_frequency_hz: Some(2_600_000_000),
        ..ClockStatus::default()
    };
    assert_eq!(
        counter(&clock, clock.nominal_frequency_hz),
        "2,599.000000 MHz measured, -385 ppm from nominal, 2,600.000000 MHz nominal \
         (by processor or hypervisor)"
    );
}

/// Symptom: the section showed keys of the JSON ("counter_readable no").
#[test]
fn rights_and_cpuid_are_described_in_words() {
    let machine = Machine {
        counter_readable: Some(false),
        vdso_mapped: Some(true),
        cpuid: Some(Cpuid {
            invariant_tsc: Some(true),
            rdtscp: Some(false),
            leaf_15h_hz: Some(2_600_000_000),
            hypervisor_khz: Some(2_600_000),
            ..Cpuid::default()
        }),
        ..Machine::default()
    };
    assert_eq!(
        row_of(machine.clone(), "rights"),
        "may not read the counter (PR_SET_TSC), vDSO mapped"
    );
    assert_eq!(
        row_of(machine, "CPUID"),
        "invariant TSC, no rdtscp, leaf 15h 2,600.000000 MHz, leaf 4000_0010h 2,600,000 kHz"
    );
}

#[test]
fn a_time_namespace_names_the_clocks_that_it_moves() {
    let moved = TimeNamespace {
        monotonic_offset_ns: Some(0),
        boottime_offset_ns: Some(-5_000),
        children_elsewhere: false,
    };
    assert_eq!(
        namespace(Some(&moved)),
        "the machine's monotonic time, boot time -5 us from the machine's"
    );
    let of_children = TimeNamespace {
        children_elsewhere: true,
        ..TimeNamespace::default()
    };
    assert_eq!(
        namespace(Some(&of_children)),
        "children receive another namespace"
    );
}

#[test]
fn the_ntp_row_shows_what_a_daemon_claims_and_what_the_kernel_does() {
    let machine = Machine {
        ntp: Some(ntp_with_claim()),
        ntp_daemon: Some(daemon()),
        ..Machine::default()
    };
    assert_eq!(
        row_of(machine, "NTP"),
        "synchronised, within 923 ms of UTC by its claim, probably within 7 us, \
         rate corrected by 8.3 %, flags: UNSYNC; NANO, TAI is 37 s ahead of UTC"
    );
}

#[test]
fn the_ntp_row_of_a_kernel_that_no_daemon_steers_has_no_claim() {
    let machine = Machine {
        ntp: Some(Ntp {
            synchronised: false,
            tick_us: 10_000,
            frequency_ppb: 0,
            offset_ns: -77,
            time_constant: None,
            maximum_error_us: 16_000_000,
            estimated_error_us: 16_000_000,
            flags: Some(Vec::new()),
            leap: None,
            tai_offset_s: None,
        }),
        ..Machine::default()
    };
    assert_eq!(
        row_of(machine, "NTP"),
        "not known to be synchronised, no claim of its error, rate not corrected, \
         -77 ns left to the kernel to remove, flags: none"
    );
}

fn row_of_daemon(daemon: NtpDaemon) -> String {
    ntp_daemon(&Machine {
        ntp_daemon: Some(daemon),
        ..Machine::default()
    })
}

#[test]
fn the_row_of_the_ntp_daemon_shows_what_it_follows_and_how_well() {
    assert_eq!(
        row_of_daemon(daemon()),
        "chronyd, synchronised, follows PHC0, stratum 1, 480 ms left to remove, \
         within 506 us of UTC by its claim, its clock's rate is off by -12.3 ppm, skew 40 ppb, \
         root delay 1 ms, root dispersion 6 us, updated 2.5 h ago, \
         asked by chronyd's UDP port of user 0"
    );
    let done = NtpDaemon {
        name: "ntpd".to_owned(),
        synchronised: true,
        offset_ns: Some(0),
        ..NtpDaemon::default()
    };
    assert_eq!(
        row_of_daemon(done),
        "ntpd, synchronised, nothing left to remove"
    );
}

/// Symptom: "updated 498840 h ago".
#[test]
fn a_daemon_that_has_never_updated_its_clock_has_no_age() {
    let never = NtpDaemon {
        name: "chronyd".to_owned(),
        ..NtpDaemon::default()
    };
    assert_eq!(
        row_of_daemon(never),
        "chronyd, not synchronised, never updated"
    );
}

#[test]
fn the_row_of_the_ntp_daemon_shows_an_answer_that_does_not_count() {
    for (channel, reason, user, expected) in [
        (
            Channel::Udp,
            IgnoredBecause::Stranger,
            Some(65_534),
            "by chronyd's UDP port does not count: the socket is user 65534's",
        ),
        (
            Channel::Socket,
            IgnoredBecause::Stranger,
            None,
            "by chronyd's Unix socket does not count: it may be anybody's",
        ),
        (
            Channel::Socket,
            IgnoredBecause::Unreadable,
            None,
            "it is not chronyd's state",
        ),
    ] {
        let machine = Machine {
            ignored_answer: Some(IgnoredAnswer {
                channel,
                reason,
                user,
            }),
            ..Machine::default()
        };
        let row = ntp_daemon(&machine);
        assert!(row.starts_with("none has answered; "), "{row}");
        assert!(row.contains(expected), "{row}");
    }
}

/// Symptom: facts of a later version told of "chronyd's UDP port" and of "anybody's" answer,
/// whatever they said.
#[test]
fn codes_of_another_version_are_shown_as_they_are() {
    let machine: Machine = serde_json::from_value(json!({
        "ignored_answer": { "channel": "vsock", "reason": "too_late", "user": null }
    }))
    .unwrap();
    assert_eq!(
        ntp_daemon(&machine),
        "none has answered; an answer by vsock does not count: too_late"
    );

    let machine: Machine = serde_json::from_value(json!({
        "ntp_daemon": { "name": "chronyd", "synchronised": true, "channel": "vsock" }
    }))
    .unwrap();
    assert_eq!(
        ntp_daemon(&machine),
        "chronyd, synchronised, asked by vsock"
    );
}

#[test]
fn utc_is_known_by_a_source_or_unknown_for_a_reason() {
    let known = ClockStatus {
        utc_width_ns: Some(4_000),
        utc_error_ns: Some(2_000),
        utc_source: Some("kernel".to_owned()),
        ..ClockStatus::default()
    };
    assert_eq!(
        utc(&known),
        "known to within an interval of 4 us, as the kernel claims, Unix time is off by 2 us at most"
    );
    for (code, why) in [
        ("unsynchronised", "the clock is not synchronised"),
        ("leap_second", "a leap second is near"),
        ("of_a_later_version", "of_a_later_version"),
    ] {
        let unknown = ClockStatus {
            utc_unknown: Some(code.to_owned()),
            ..ClockStatus::default()
        };
        assert_eq!(utc(&unknown), format!("not known: {why}"));
    }
}

#[test]
fn the_clocks_row_shows_its_bound_with_the_condition_for_it() {
    let clock = ClockStatus {
        bound_ns: Some(20),
        max_drift_ppb: Some(20_000),
        interval_ns: Some(3_000_000_000),
        thread_error: Some("no memory".to_owned()),
        events: events([("rate_change", 2), ("expiry", 0)]),
        ..ClockStatus::default()
    };
    assert_eq!(
        clock_row(&clock),
        "bound 20 ns, which holds while CLOCK_MONOTONIC's rate is within 20 ppm of the measured \
         one, recalibrated every 3 s, no thread: no memory, events: rate change 2"
    );
    let without_bound = ClockStatus {
        bound_ns: None,
        ..clock
    };
    assert!(!clock_row(&without_bound).contains("which holds"));
}

#[test]
fn the_readers_of_a_page_are_counted() {
    for (readers, expected) in [
        (0, "mapped by no process"),
        (1, "mapped by 1 process (tickline serve)"),
        (3, "mapped by 3 processes (tickline serve)"),
    ] {
        let machine = Machine {
            page_readers: Some(readers),
            ..Machine::default()
        };
        assert_eq!(page(&machine), expected);
    }
}

#[test]
fn the_messages_of_the_kernels_log_are_counted() {
    for (messages, expected) in [
        (&[][..], "no messages about clocks"),
        (&["tsc: unstable"], "messages about clocks: 1 (see --json)"),
    ] {
        let messages = messages.iter().map(|&message| message.to_owned());
        let machine = Machine {
            kernel_log: Some(messages.collect()),
            ..Machine::default()
        };
        assert_eq!(kernel_log(&machine), expected);
    }
}

#[test]
fn a_page_that_serves_nothing_says_so() {
    let row = |page_served| {
        page(&Machine {
            page_readers: Some(0),
            page_served,
            ..Machine::default()
        })
    };
    let idle = "mapped by no process, it serves nothing now (tickline serve status)";
    assert_eq!(row(Some(false)), idle);
    assert_eq!(row(Some(true)), "mapped by no process");
}

/// Symptom: root read that it may not see by whom a page is mapped, which no process had mapped.
#[test]
fn a_page_whose_readers_are_unknown_says_whether_it_serves() {
    let row = |page_served| {
        page(&Machine {
            page_served: Some(page_served),
            ..Machine::default()
        })
    };
    let unseen = "mapped by no process that this user may examine";
    assert_eq!(row(true), format!("serves, {unseen}"));
    let idle = "it serves nothing now (tickline serve status)";
    assert_eq!(row(false), format!("{unseen}, {idle}"));
}

/// Symptom: "none is served, or this user may not see by whom it is mapped", where no page was.
#[test]
fn a_page_that_is_not_there_is_said_not_to_be_served() {
    let row = |counter_readable| {
        page(&Machine {
            counter_readable,
            ..Machine::default()
        })
    };
    assert_eq!(
        row(Some(true)),
        "none is found where this user's programs look"
    );
    for unknown in [Some(false), None] {
        assert!(row(unknown).starts_with("none is served, or "));
    }
}

/// Symptom: "mapped by 1 process (tickline serve), it serves nothing now" read as if the server had
/// failed.
#[test]
fn a_page_that_is_switched_off_says_so() {
    let row = page(&Machine {
        page_readers: Some(1),
        page_served: Some(false),
        page_switched_off: Some(true),
        ..Machine::default()
    });
    // Which command it is depends on the page's path, and on the user.
    let expected = "switched off (tickline serve status says what ends this), mapped by 1 process";
    assert_eq!(row, expected);
}

#[test]
fn the_row_of_the_command_line_has_the_words_about_clocks() {
    let of = |line: Option<&str>| {
        let machine = Machine {
            kernel_command_line: line.map(str::to_owned),
            ..Machine::default()
        };
        row_of(machine, "command line")
    };
    assert_eq!(
        of(Some("quiet tsc=reliable root=x nohz=off")),
        "tsc=reliable nohz=off"
    );
    assert_eq!(of(Some("quiet")), "nothing about clocks");
    assert_eq!(of(None), "unknown");
}

#[test]
fn a_fact_without_text_is_unknown() {
    let machine = Machine {
        cpu: Some(String::new()),
        ..Machine::default()
    };
    assert_eq!(row_of(machine, "CPU"), "unknown");
}

#[test]
fn a_bound_of_a_clock_without_drift_or_interval_says_nothing_about_them() {
    let mut document = Document::default();
    document.clock.bound_ns = Some(40);
    document.clock.max_drift_ppb = Some(0);
    document.clock.interval_ns = Some(0);
    assert_eq!(row(&document, "clock"), "bound 40 ns");
}

#[test]
fn an_event_counts_from_its_first_time() {
    let mut document = Document::default();
    document.clock.events = events([("steps", 1), ("suspends", 0)]);
    assert_eq!(row(&document, "clock"), "no bound, events: steps 1");
}

#[test]
fn the_vmclock_is_named_with_what_it_says() {
    let vmclock = VmClock {
        device: "/dev/vmclock0".to_owned(),
        unreadable: None,
        disruption_marker: Some(7),
        clock_status: Some("free_running".to_owned()),
        vm_generation: Some(3),
    };
    let row = |vmclock| {
        let machine = Machine {
            vmclock,
            ..Machine::default()
        };
        row_of(machine, "VMClock")
    };
    assert_eq!(
        row(Some(vmclock)),
        "/dev/vmclock0, disruption marker 7, generation 3, the host's clock is free running"
    );
    let denied = VmClock {
        device: "/dev/vmclock0".to_owned(),
        unreadable: Some("Permission denied (os error 13)".to_owned()),
        ..VmClock::default()
    };
    assert_eq!(
        row(Some(denied)),
        "/dev/vmclock0, this user can't read it: Permission denied (os error 13)"
    );
    assert_eq!(row(None), "none is seen");
}

#[test]
fn ptp4l_is_shown_with_its_grandmaster_and_its_bound() {
    let ptp4l = Ptp4l {
        domain: 24,
        port_state: "slave".to_owned(),
        grandmaster: Some("001b19.fffe.000007".to_owned()),
        clock_class: 6,
        accuracy_ns: Some(100),
        steps_removed: 1,
        offset_ns: -300,
        mean_path_delay_ns: 700,
        utc_offset_s: Some(37),
        bound_ns: Some(1_100),
        unbounded: None,
        remedy: None,
    };
    let row = |ptp4l| {
        let machine = Machine {
            ptp4l,
            ..Machine::default()
        };
        row_of(machine, "ptp4l")
    };
    assert_eq!(
        row(Some(ptp4l)),
        "port slave, domain 24, grandmaster 001b19.fffe.000007, class 6, accuracy 100 ns, 1 steps \
         away, offset -300 ns, mean path delay 700 ns, TAI is 37 s ahead of UTC, its clock was \
         within 1.1 us of UTC at the last Sync"
    );
    let unbounded = Ptp4l {
        unbounded: Some("its grandmaster states no accuracy".to_owned()),
        ..Ptp4l::default()
    };
    let text = row(Some(unbounded));
    assert!(text.contains("no accuracy stated"), "{text}");
    assert!(
        text.ends_with("bounds nothing: its grandmaster states no accuracy"),
        "{text}"
    );
    assert_eq!(row(None), "none has answered");
}

#[test]
fn the_hosts_clock_is_shown_with_the_rate_and_its_uncertainty() {
    let host = HostClock {
        device: "/dev/ptp0".to_owned(),
        name: "KVM virtual PTP".to_owned(),
        raw_rate_ppb: -12_300,
        uncertainty_ppb: 3_000,
        span_ns: 1_000_000_000,
    };
    let document = Document {
        host_clock: Some(host),
        ..Document::default()
    };
    assert_eq!(
        row(&document, "host clock"),
        "KVM virtual PTP (/dev/ptp0): the kernel's clock without NTP runs -12.3 ppm from it, \
         within 3 ppm, over 1 s"
    );
    assert_eq!(row(&Document::default(), "host clock"), "none is seen");
}
