//! The rate of the clocks: corrections that are no slew, and which of the two rates is wrong.

use super::super::clock_rate::Code;
use super::given::{Given, assert_each_found, good_machine, machine_on_hpet_without_tsc};
use crate::document::Severity;
use crate::machine::{HostClock, NtpDaemon};

const CODE: &str = "clock_rate_wrong";

/// chronyd's answer: what is left to remove, and the error of the rate that it has learned.
fn chronyd(left_ns: i64, frequency_ppb: Option<i64>) -> NtpDaemon {
    NtpDaemon {
        name: "chronyd".to_owned(),
        synchronised: true,
        offset_ns: Some(left_ns),
        bound_ns: Some(400_000),
        frequency_ppb,
        skew_ppb: frequency_ppb.map(|_| 120),
        ..NtpDaemon::default()
    }
}

impl Given {
    /// The kernel's correction by tick and frequency: 74,443 ppm.
    fn corrected_by_7_percent(self) -> Self {
        self.ntp(|ntp| {
            ntp.tick_us = 10_744;
            ntp.frequency_ppb = 43_000;
        })
    }

    fn answers(self, daemon: NtpDaemon) -> Self {
        self.with(|document| document.machine.ntp_daemon = Some(daemon))
    }

    /// The frequency that was measured, as a multiple of the nominal one.
    fn measured(self, ratio_ppm: i64) -> Self {
        self.with(|document| {
            document.clock.nominal_frequency_hz = Some(2_000_000_000);
            let measured_hz = 2_000_000_000 + 2_000 * ratio_ppm;
            document.clock.frequency_hz = Some(measured_hz.try_into().unwrap());
        })
    }
}

/// Symptom: OK, although the daemon could not correct the rate as far as it wanted.
#[test]
fn a_rate_at_the_kernels_limit_is_not_known_right() {
    for frequency_ppb in [500_000, -500_000, 499_999] {
        let machine = good_machine().ntp(|ntp| ntp.frequency_ppb = frequency_ppb);
        let finding = machine.only(CODE);
        assert_eq!(finding.severity, Severity::Unsure);
        finding.says("the kernel's limit");
    }
    good_machine()
        .ntp(|ntp| ntp.frequency_ppb = 499_000)
        .only("ntp_slewing");
}

/// Symptom: "wait until the NTP daemon has removed the offset", of a tick that could not go
/// farther.
#[test]
fn a_tick_at_the_kernels_limit_is_not_known_right() {
    let by_tick = |tick_us| good_machine().ntp(|ntp| ntp.tick_us = tick_us);
    for (tick_us, limit) in [
        (9_000, "the kernel's limit (-10 %)"),
        (11_000, "the kernel's limit (10 %)"),
    ] {
        let finding = by_tick(tick_us).only(CODE);
        assert_eq!(finding.severity, Severity::Unsure);
        finding.says(limit);
    }
    by_tick(10_999).only("ntp_slewing");
    let slewed = by_tick(11_000).answers(chronyd(100_000_000, None));
    slewed.only("ntp_slewing");
}

/// Symptom: "the kernel's limit (500 ppm)", of a clock that is 10 % off.
#[test]
fn beside_a_frequency_at_its_limit_the_tick_is_named() {
    for frequency_ppb in [-500_000, 500_000] {
        let machine = good_machine().ntp(|ntp| {
            ntp.tick_us = 9_000;
            ntp.frequency_ppb = frequency_ppb;
        });
        machine.only(CODE).says("the kernel's limit (-10 %)");
    }
}

/// Symptom: "wait until the NTP daemon has removed the offset", of which nothing was left.
#[test]
fn a_large_correction_without_an_offset_is_no_slew() {
    let machine = good_machine().corrected_by_7_percent();
    let left = |left_ns| machine.clone().answers(chronyd(left_ns, None));
    left(1_200).only(CODE).says("no offset is left");
    left(-100_000_000).only("ntp_slewing");
    machine.only("ntp_slewing");
}

#[test]
fn a_large_rate_that_chronyd_has_learned_is_no_slew() {
    let finding = good_machine()
        .corrected_by_7_percent()
        .answers(chronyd(100_000_000, Some(-74_443_000)))
        .only(CODE);
    finding
        .says("chronyd finds the clock too slow by 7.4 %")
        .shows("off by -7.4 %, with a skew of 120 ppb");
    let crystal = good_machine().answers(chronyd(0, Some(60_000)));
    assert_eq!(crystal.codes(), [""; 0]);
}

#[test]
fn the_rate_is_the_bad_one_if_the_correction_leads_to_the_nominal_frequency() {
    let finding = good_machine()
        .corrected_by_7_percent()
        .answers(chronyd(0, Some(-74_443_000)))
        .measured(20)
        .only(CODE);
    finding
        .shows("the kernel's frequency of the counter is the bad one")
        .fix_begins("restart");
}

#[test]
fn the_server_is_the_bad_one_if_the_correction_leads_away_from_the_nominal_frequency() {
    let finding = good_machine()
        .corrected_by_7_percent()
        .answers(chronyd(0, Some(-74_443_000)))
        .measured(-69_285)
        .finding(CODE);
    finding
        .shows("the server's clock is the bad one")
        .fix_begins("follow other servers");
}

/// Rounding to MHz explains about 1,000 ppm.
#[test]
fn a_counter_1882_ppm_from_nominal_has_a_wrong_rate_if_the_correction_is_at_its_limit() {
    let finding = good_machine()
        .ntp(|ntp| ntp.frequency_ppb = 500_000)
        .measured(1_882)
        .only(CODE);
    finding.shows("the kernel's frequency of the counter is the bad one");
}

#[test]
fn without_an_exact_nominal_frequency_other_servers_decide() {
    let machine = good_machine()
        .ntp(|ntp| ntp.frequency_ppb = 500_000)
        .measured(0);
    let finding = machine.only(CODE);
    finding
        .does_not_show("is the bad one")
        .fix_begins("see whether three or more servers agree");
}

/// A machine on hpet whose correction stands at the kernel's limit.
fn on_hpet_at_the_limit() -> Given {
    machine_on_hpet_without_tsc().ntp(|ntp| ntp.frequency_ppb = 500_000)
}

/// Symptom: "the kernel's frequency of the counter is the bad one", and a restart.
#[test]
fn on_a_timer_the_rate_is_that_of_the_timer() {
    let finding = on_hpet_at_the_limit().measured(3_344).finding(CODE);
    finding
        .shows("so the rate of hpet is the bad one")
        .fix_begins("let the kernel keep time with another clock than hpet")
        .fix_lacks("restart");
    let untold = on_hpet_at_the_limit().measured(0).finding(CODE);
    untold
        .fix_has_in_order("three or more servers", "another clock than hpet")
        .fix_lacks("restart");
}

#[test]
fn an_hpet_that_stops_explains_a_clock_that_loses_time() {
    let machine = on_hpet_at_the_limit()
        .cpu("Intel(R) Core(TM) i7-8565U CPU @ 1.80GHz")
        .kernel("5.3.0");
    let stops = "hpet can stop in deep idle states on this processor, and would lose time by that";
    let finding = machine.clone().finding(CODE);
    finding
        .shows(stops)
        .fix_begins("let the kernel keep time with another clock than hpet");
    let gains = machine.ntp(|ntp| ntp.frequency_ppb = -500_000);
    gains.finding(CODE).does_not_show(stops);
}

#[test]
fn each_code_about_the_rate_has_a_machine() {
    assert_each_found(Code::ALL, |code| match code {
        Code::ClockRateWrong => good_machine().ntp(|ntp| ntp.frequency_ppb = 500_000),
    });
}

/// The guest's clock runs at this rate by the host's, which is known to within 3 ppm.
fn by_host(raw_rate_ppb: i64) -> Given {
    let host = HostClock {
        device: "/dev/ptp0".to_owned(),
        name: "KVM virtual PTP".to_owned(),
        raw_rate_ppb,
        uncertainty_ppb: 3_000,
        span_ns: 1_000_000_000,
    };
    good_machine().with(|document| document.host_clock = Some(host))
}

#[test]
fn a_guest_whose_rate_is_far_from_the_hosts_has_a_wrong_frequency() {
    for ppb in [-503_001, 503_001, i64::MIN] {
        let finding = by_host(ppb).only(CODE);
        finding
            .says("from the host's clock, so the kernel's frequency of the counter is wrong")
            .shows("KVM virtual PTP (/dev/ptp0)")
            .fix_begins("restart, so that the kernel measures");
    }
}

#[test]
fn a_guest_whose_rate_may_be_one_that_ntp_corrects_is_good() {
    for ppb in [-503_000, 0, 503_000] {
        assert_eq!(by_host(ppb).codes(), [""; 0], "{ppb}");
    }
}

/// A slew of 500 ppm or less may be the kernel's own, with any offset.
#[test]
fn a_correction_of_500_ppm_is_a_slew_whatever_is_left() {
    let by_tick = |tick_us| {
        let machine = good_machine().answers(chronyd(0, None));
        machine.ntp(|ntp| {
            ntp.tick_us = tick_us;
            ntp.frequency_ppb = 0;
        })
    };
    by_tick(10_005).only("ntp_slewing");
    by_tick(10_006).only(CODE);
}

/// At 74,443 ppm a tenth of a second removes 7,444,300 ns.
#[test]
fn a_correction_that_ends_within_a_tenth_of_a_second_is_no_slew() {
    let machine = good_machine().corrected_by_7_percent();
    let left = |left_ns| machine.clone().answers(chronyd(left_ns, None));
    left(7_444_299).only(CODE);
    left(-7_444_299).only(CODE);
    left(7_444_300).only("ntp_slewing");
}
