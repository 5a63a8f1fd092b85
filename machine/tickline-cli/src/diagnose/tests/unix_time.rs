//! Unix time: whether it is off, or stated too roughly. `ntp_daemons.rs` has its daemons.

use tickline_utc::UtcUnknown;

use super::super::unix_time::Code;
use super::given::{Given, assert_each_found, good_machine};
use crate::document::Severity;
use crate::machine::{Leap, NtpDaemon};

mod ptp4l;
mod waiting;

/// The error with which the kernel starts, and which it does not exceed.
pub(super) const KERNELS_LIMIT_US: i64 = 16_000_000;

impl Given {
    /// The error that the kernel states, us.
    pub(super) fn maximum_error_us(self, error_us: i64) -> Self {
        self.ntp(|ntp| ntp.maximum_error_us = error_us)
    }

    /// The kernel's maximum and estimated error, us.
    fn errors_us(self, maximum_us: i64, estimated_us: i64) -> Self {
        self.ntp(|ntp| {
            ntp.maximum_error_us = maximum_us;
            ntp.estimated_error_us = estimated_us;
        })
    }

    /// No program has set the kernel's rate since the start, and no error.
    pub(super) fn never_steered(self) -> Self {
        self.maximum_error_us(KERNELS_LIMIT_US)
            .ntp(|ntp| ntp.frequency_ppb = 0)
    }

    /// tickline's clock has seen so many steps of Unix time.
    fn stepped(self, times: u64) -> Self {
        self.with(|document| {
            document.clock.events.insert("unix_step".to_owned(), times);
        })
    }

    /// The claim of tickline's clock.
    pub(super) fn clock_claims(self, source: &str, error_ns: u64) -> Self {
        self.with(|document| {
            document.clock.utc_source = Some(source.to_owned());
            document.clock.utc_error_ns = Some(error_ns);
        })
    }

    /// tickline's clock has no claim, for this reason.
    fn clock_refuses(self, why: UtcUnknown) -> Self {
        self.with(|document| document.clock.utc_unknown = Some(why.code().to_owned()))
    }

    pub(super) fn daemon_answers(self, answer: NtpDaemon) -> Self {
        self.with(|document| document.machine.ntp_daemon = Some(answer))
    }

    /// The user asks for this error by `--max-error`.
    fn max_error_ms(self, error_ms: i64) -> Self {
        self.with(|document| document.max_error_ns = Some(error_ms * 1_000_000))
    }
}

/// chronyd's answer while it follows another clock.
pub(super) fn chronyd() -> NtpDaemon {
    NtpDaemon {
        name: "chronyd".to_owned(),
        synchronised: true,
        ..NtpDaemon::default()
    }
}

/// chronyd's answer while it follows no other clock.
pub(super) fn lone_chronyd() -> NtpDaemon {
    NtpDaemon {
        synchronised: false,
        ..chronyd()
    }
}

/// Without a daemon the estimate has no meaning, and is no known offset.
#[test]
fn the_estimate_without_a_daemon_is_no_offset() {
    let machine = good_machine()
        .maximum_error_us(KERNELS_LIMIT_US)
        .ntp(|ntp| ntp.estimated_error_us = KERNELS_LIMIT_US);
    machine.only("ntp_unsynchronised");
}

/// Symptom: under phc2sys, which sets the maximum error only, Unix time was "off by 16 s".
#[test]
fn an_estimate_that_nobody_has_set_is_no_offset() {
    let machine = good_machine()
        .maximum_error_us(500)
        .ntp(|ntp| ntp.estimated_error_us = KERNELS_LIMIT_US);
    assert_eq!(machine.clone().codes(), [""; 0]);
    machine
        .ntp(|ntp| ntp.estimated_error_us = KERNELS_LIMIT_US - 1)
        .only("time_off");
}

/// Symptom: the finding stated the half second to which the kernel cuts a larger offset.
#[test]
fn an_offset_at_the_kernels_limit_may_be_larger() {
    let left = |offset_ns| good_machine().ntp(|ntp| ntp.offset_ns = offset_ns);
    left(-500_000_000)
        .only("time_off")
        .says("off by at least 500 ms");
    left(480_000_000).only("time_off").does_not_say("at least");
}

/// Symptom: clock-bound stated UTC within 130 us, but a finding said that no daemon keeps Unix time
/// near UTC.
#[test]
fn the_claim_of_another_source_is_enough() {
    let machine = good_machine()
        .ntp(|ntp| ntp.synchronised = false)
        .maximum_error_us(KERNELS_LIMIT_US);
    let claimed = machine.clone().clock_claims("clock_bound", 130_000);
    assert_eq!(claimed.codes(), [""; 0]);
    let large = machine.clock_claims("clock_bound", 3_000_000_000);
    let finding = large.only("utc_error_large");
    finding
        .says("has not measured for long")
        .shows("within 3 s of UTC, as clock-bound claims");
}

/// Symptom: under chronyd, the first line had the kernel's older and larger error as chronyd's
/// claim, beside the bound of tickline's clock.
#[test]
fn the_claim_of_ticklines_clock_comes_before_the_kernels_error() {
    let machine = good_machine()
        .maximum_error_us(9_812_000)
        .clock_claims("chronyd", 130_000);
    assert_eq!(machine.codes(), [""; 0]);
}

/// Symptom: the level was OK after a live migration, by a claim that is older than the migration.
#[test]
fn a_claim_does_not_count_if_ticklines_clock_refuses_it() {
    let machine = good_machine().maximum_error_us(20_100);
    assert_eq!(machine.clone().codes(), [""; 0]);
    let disrupted = machine.clock_refuses(UtcUnknown::Disrupted);
    let sentence = disrupted.clone().sentence();
    assert!(
        sentence.starts_with("FAST, NOT KNOWN RIGHT: "),
        "{sentence}"
    );
    disrupted
        .only("utc_unproven")
        .says("the clock was disrupted")
        .shows("utc_unknown disrupted")
        .fix_has("wait until the NTP daemon has measured");
}

#[test]
fn near_a_leap_second_a_claim_does_not_count() {
    let machine = good_machine().maximum_error_us(20_100);
    machine
        .clock_refuses(UtcUnknown::LeapSecond)
        .only("utc_unproven")
        .says("a leap second is near")
        .fix_has("wait until the leap second is over");
}

/// clock-bound says so, and neither chronyd nor the kernel says anything.
#[test]
fn a_disrupted_source_is_not_taken_for_a_missing_daemon() {
    let machine = good_machine()
        .never_steered()
        .clock_refuses(UtcUnknown::Disrupted);
    machine.only("utc_unproven");
}

/// A disruption says nothing about the servers.
#[test]
fn a_known_offset_after_a_disruption_may_be_removed_by_a_step() {
    let machine = good_machine().clock_refuses(UtcUnknown::Disrupted);
    let findings = machine.ntp(|ntp| ntp.offset_ns = 480_000_000).findings();
    assert_eq!(findings[0].code, "time_off");
    assert!(
        findings[0].fix.text().contains("let it step the clock"),
        "{findings:?}"
    );
}

/// The kernel's error grows to 16 s, and not further.
#[test]
fn an_error_at_the_kernels_limit_may_be_larger() {
    let machine = good_machine().clock_claims("kernel", 16_000_000_000);
    machine.only("utc_error_large").says("off by at least 16 s");
    let stated = good_machine().clock_claims("chronyd", 17_000_000_000);
    stated.only("utc_error_large").does_not_say("at least");
}

#[test]
fn a_large_claim_of_the_kernel_is_old() {
    let machine = good_machine().clock_claims("kernel", 3_000_000_000);
    let finding = machine.only("utc_error_large");
    finding
        .says("not have updated it for 6000 s")
        .shows("as the kernel claims");
}

/// Symptom: the level was OK for a dead daemon.
#[test]
fn an_error_that_has_grown_for_hours_is_a_dead_daemon() {
    let finding = good_machine()
        .maximum_error_us(9_812_000)
        .only("utc_error_large");
    assert_eq!(finding.severity, Severity::Unsure);
    finding
        .says("off by 9.8 s")
        .says("updated it for 5.5 h")
        .shows("as the kernel assumes");
}

#[test]
fn the_error_between_two_updates_of_timesyncd_is_no_finding() {
    let machine = good_machine().maximum_error_us(1_024_000);
    assert_eq!(machine.codes(), [""; 0]);
}

#[test]
fn an_error_above_the_one_that_the_user_asks_for_is_large() {
    let machine = good_machine().max_error_ms(100);
    let finding = machine
        .clone()
        .maximum_error_us(1_024_000)
        .only("utc_error_large");
    assert_eq!(finding.severity, Severity::Unsure);
    finding
        .says("off by 1 s")
        .says("--max-error asks for 100 ms");
    assert_eq!(machine.maximum_error_us(99_000).codes(), [""; 0]);
}

/// Symptom: "follow nearer servers, or poll more often (minpoll and maxpoll)" of systemd-timesyncd,
/// which has no such options.
#[test]
fn the_error_under_timesyncd_becomes_smaller_by_timesyncds_own_setting() {
    let finding = |daemon: &str| {
        let answer = NtpDaemon {
            name: daemon.to_owned(),
            ..chronyd()
        };
        let machine = good_machine().max_error_ms(100).maximum_error_us(1_024_000);
        machine.daemon_answers(answer).only("utc_error_large")
    };
    finding("systemd-timesyncd")
        .fix_has("let less than 200 s pass between two polls (PollIntervalMaxSec=")
        .fix_lacks("maxpoll");
    finding("chronyd")
        .fix_has("minpoll and maxpoll")
        .fix_lacks("PollIntervalMaxSec=");
}

/// Symptom: "let less than 4000 s pass between two polls", which timesyncd's default does.
#[test]
fn an_error_that_timesyncds_default_settings_exclude_is_of_a_server_that_is_not_reached() {
    let timesyncd = NtpDaemon {
        name: "systemd-timesyncd".to_owned(),
        ..chronyd()
    };
    let machine = good_machine().daemon_answers(timesyncd);
    for (limit_ms, error_us) in [(2_000, 2_500_000), (1_500, 1_600_000), (100, 2_500_000)] {
        machine
            .clone()
            .max_error_ms(limit_ms)
            .maximum_error_us(error_us)
            .only("utc_error_large")
            .fix_begins("see whether an NTP daemon runs, and reaches its servers")
            .fix_lacks("PollIntervalMaxSec=");
    }
}

#[test]
fn a_known_offset_is_wrong() {
    let machine = good_machine().ntp(|ntp| ntp.offset_ns = -480_000_000);
    let finding = machine.clone().only("time_off");
    assert_eq!(finding.severity, Severity::Wrong);
    finding.says("off by 480 ms");
    assert_eq!(machine.max_error_ms(500).codes(), [""; 0]);
}

/// Symptom: "off by 500 ms" beside an offset of 300 ms, which the kernel removes.
#[test]
fn an_offset_and_an_estimated_error_keep_their_names() {
    let finding = good_machine()
        .ntp(|ntp| {
            ntp.offset_ns = -300_000_000;
            ntp.estimated_error_us = 500_000;
        })
        .only("time_off");
    finding
        .says("Unix time is off by 300 ms")
        .shows("offset left to the kernel to remove: -300 ms")
        .shows("estimated error (adjtimex: esterror): 500 ms");
}

#[test]
fn an_estimated_error_alone_is_not_called_an_offset() {
    let finding = good_machine()
        .ntp(|ntp| {
            ntp.offset_ns = 3_000_000;
            ntp.estimated_error_us = 500_000;
        })
        .only("time_off");
    finding
        .says("Unix time's estimated error is 500 ms")
        .does_not_say("off by")
        .shows("estimated error (adjtimex: esterror): 500 ms")
        .does_not_show("3 ms");
}

#[test]
fn a_known_offset_above_the_error_that_the_user_asks_for_is_wrong() {
    let machine = good_machine()
        .ntp(|ntp| ntp.offset_ns = 20_000_000)
        .maximum_error_us(30_000);
    machine.max_error_ms(10).only("time_off");
}

#[test]
fn the_offset_that_the_kernel_has_still_to_remove_adds_to_its_error() {
    let finding = good_machine()
        .max_error_ms(100)
        .maximum_error_us(60_000)
        .ntp(|ntp| ntp.offset_ns = -50_000_000)
        .only("utc_error_large");
    finding.says("off by 110 ms");
}

#[test]
fn each_code_about_unix_time_has_a_machine() {
    assert_each_found(Code::ALL, |code| match code {
        Code::LeapSecond => good_machine().ntp(|ntp| ntp.leap = Some(Leap::Insert)),
        Code::NtpFlag => good_machine().ntp(|ntp| ntp.synchronised = false),
        Code::NtpUnsynchronised => good_machine().ntp(|ntp| ntp.maximum_error_us = 16_000_000),
        Code::TimeOff => good_machine().ntp(|ntp| ntp.offset_ns = 480_000_000),
        Code::UnixStepped => good_machine().stepped(3),
        Code::UtcUnproven => good_machine().errors_us(4, 4),
        Code::UtcErrorLarge => good_machine().ntp(|ntp| ntp.maximum_error_us = 3_000_000),
    });
}

/// Symptom: OK, on a machine whose Unix time was stepped three times within a minute.
#[test]
fn unix_time_that_is_stepped_meanwhile_is_not_known_right() {
    assert_eq!(good_machine().stepped(0).codes(), [""; 0]);
    let finding = good_machine().stepped(3).only("unix_stepped");
    assert_eq!(finding.severity, Severity::Unsure);
    finding.says("stepped 3 times");
    let guest = good_machine().stepped(1).hypervisor("vmware");
    guest
        .only("unix_stepped")
        .says("stepped once")
        .fix_has("the hypervisor's tools");
}

/// ptpd sets both errors to its last offset, and the kernel lets one of them grow.
#[test]
fn an_offset_is_no_bound() {
    for (maximum_us, estimated_us) in [(4, 4), (504, 4), (2_004, 4), (-7, -7), (493, -7)] {
        let machine = good_machine().errors_us(maximum_us, estimated_us);
        machine.only("utc_unproven").says("ptpd");
    }
    for (maximum_us, estimated_us) in [(5, 4), (2_504, 4), (500, 0)] {
        let machine = good_machine().errors_us(maximum_us, estimated_us);
        assert_eq!(machine.codes(), [""; 0], "{maximum_us} {estimated_us}");
    }
    let stated = good_machine().errors_us(4, 4).daemon_answers(NtpDaemon {
        bound_ns: Some(5_000),
        ..chronyd()
    });
    assert_eq!(stated.codes(), [""; 0]);
}

#[test]
fn a_leap_second_that_the_kernel_will_make_is_not_known_right() {
    for (leap, says) in [
        (Leap::Insert, "Unix time then repeats a second"),
        (Leap::Delete, "Unix time then skips a second"),
        (Leap::InProgress, "is passing"),
    ] {
        let finding = good_machine()
            .ntp(|ntp| ntp.leap = Some(leap))
            .only("leap_second");
        assert_eq!(finding.severity, Severity::Unsure);
        finding.says(says);
    }
}

/// Documents of older versions have the status bits only.
#[test]
fn the_status_bits_announce_a_leap_second() {
    let flagged = |flag: &str| {
        good_machine().ntp(|ntp| ntp.flags = Some(vec!["PLL".to_owned(), flag.to_owned()]))
    };
    flagged("INS").only("leap_second").shows("STA_INS");
    flagged("DEL").only("leap_second").shows("STA_DEL");
    assert_eq!(flagged("NANO").codes(), [""; 0]);
}

/// chronyd with `leapsecmode slew` does not tell the kernel.
#[test]
fn the_daemon_announces_a_leap_second_unless_the_kernel_knows_that_it_is_over() {
    let machine = good_machine().daemon_answers(NtpDaemon {
        leap: Some(Leap::Insert),
        ..chronyd()
    });
    machine
        .clone()
        .only("leap_second")
        .shows("chronyd announces");
    let over = machine.ntp(|ntp| ntp.leap = Some(Leap::Done));
    assert_eq!(over.codes(), [""; 0]);
}

/// Without its bit the kernel makes no step. Symptom: "Unix time then repeats a second", under a
/// chronyd that slews the second.
#[test]
fn how_unix_time_passes_a_leap_second_of_the_daemon_alone_is_not_known() {
    let machine = good_machine().daemon_answers(NtpDaemon {
        leap: Some(Leap::Insert),
        ..chronyd()
    });
    for leap in [Some(Leap::None), None] {
        let finding = machine
            .clone()
            .ntp(|ntp| ntp.leap = leap)
            .only("leap_second");
        assert_eq!(finding.severity, Severity::Unsure);
        finding
            .says("chronyd announces a leap second for the end of this UTC day")
            .does_not_say("repeats a second");
    }
    let by_both = machine.ntp(|ntp| ntp.leap = Some(Leap::Insert));
    by_both.only("leap_second").says("repeats a second");
}

/// ntpd steps the clock only if its offset is larger.
#[test]
fn an_offset_that_a_working_daemon_leaves_is_no_finding() {
    let left = |offset_ns| good_machine().ntp(|ntp| ntp.offset_ns = offset_ns);
    assert_eq!(left(128_000_000).codes(), [""; 0]);
    left(128_000_001).only("time_off");
}

#[test]
fn a_slow_machine_that_is_not_known_right_says_both() {
    let machine = good_machine().system_call_answers().clocksource("hpet");
    assert!(machine.clone().sentence().starts_with("SLOW: "));
    let machine = machine.maximum_error_us(KERNELS_LIMIT_US);
    assert!(machine.sentence().starts_with("SLOW, NOT KNOWN RIGHT: "));
}

/// The kernel adds the growth of a second at its end. Symptom: "within 0 ns of UTC".
#[test]
fn an_error_of_0_is_as_large_as_its_growth_in_a_second() {
    let sentence = good_machine().errors_us(0, KERNELS_LIMIT_US).sentence();
    let bound = "within 500 us of UTC, as the kernel assumes";
    assert!(sentence.contains(bound), "{sentence}");
}

#[test]
fn the_offset_that_stands_as_the_error_is_shown() {
    let finding = good_machine().errors_us(40, 40).only("utc_unproven");
    finding
        .says("the last offset (40 us)")
        .shows("esterror is 40 us");
}

#[test]
fn the_sentence_says_who_answers_the_clock_and_how_near_unix_time_is() {
    let good = good_machine().sentence();
    assert!(good.contains("(vDSO, tsc); Unix time is within "), "{good}");
    let slow = good_machine()
        .system_call_answers()
        .clocksource("hpet")
        .costs_ns(1_300.0);
    let sentence = slow.sentence();
    let cost = "every clock_gettime is a system call: 1300 ns, ";
    assert!(sentence.contains(cost), "{sentence}");
    assert!(sentence.contains(" possible (hpet)"), "{sentence}");
}
