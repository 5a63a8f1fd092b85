//! ptp4l runs: why it makes UTC unknown, and what the kernel's error says beside it.

use tickline_utc::Unbounded;

use super::*;
use crate::machine::Ptp4l;

/// ptp4l's grandmaster states no accuracy.
const NO_ACCURACY: Unbounded = Unbounded::NoAccuracyBound { code: 0xFE };

/// A machine on ptp4l, whose phc2sys tells the kernel no error.
fn on_ptp4l(unbounded: Option<Unbounded>) -> Given {
    let ptp4l = Ptp4l {
        port_state: "slave".to_owned(),
        grandmaster: Some("001b19.fffe.000007".to_owned()),
        unbounded: unbounded.map(|why| why.to_string()),
        remedy: unbounded.map(|why| why.remedy().to_owned()),
        ..Ptp4l::default()
    };
    good_machine()
        .never_steered()
        .with(|document| document.machine.ptp4l = Some(ptp4l))
}

/// Symptom: "poll more often (minpoll and maxpoll)" of ptp4l, which has no such options.
#[test]
fn the_error_under_ptp4l_becomes_smaller_by_its_grandmaster() {
    let finding = on_ptp4l(None)
        .clock_claims("ptp4l", 200_000_000)
        .max_error_ms(100)
        .finding("utc_error_large");
    finding
        .fix_has("logSyncInterval")
        .fix_has("pmc -u -b 0")
        .fix_lacks("maxpoll");
}

/// A second daemon would work against ptp4l and phc2sys.
#[test]
fn under_ptp4l_no_other_daemon_is_offered() {
    let finding = on_ptp4l(Some(NO_ACCURACY)).only("ntp_unsynchronised");
    finding
        .says("ptp4l runs, but nothing vouches for Unix time")
        .shows("ptp4l bounds nothing: its grandmaster states no accuracy")
        .fix_has("pmc -u -b 0")
        .fix_lacks("timedatectl");
}

/// Symptom: "let the programs read the clock of the network card", which is no nearer to UTC than
/// the grandmaster; later "let the grandmaster state its class", of a ptp4l without a master.
#[test]
fn the_fix_for_ptp4l_follows_from_why_it_makes_utc_unknown() {
    for (why, remedy) in [
        (NO_ACCURACY, "see whether the grandmaster has a reference"),
        (Unbounded::NoMaster, "Announce and Sync messages"),
        (Unbounded::NotLocked, "take `free_running` out"),
        (Unbounded::OnlyLinkDelay, "`delay_mechanism E2E`"),
        (Unbounded::NoPathDelay, "wait for its first measurements"),
    ] {
        on_ptp4l(Some(why))
            .only("ntp_unsynchronised")
            .fix_has(remedy)
            .fix_has("start no NTP daemon beside it")
            .fix_lacks("network card");
    }
    on_ptp4l(None)
        .only("ntp_unsynchronised")
        .fix_has("let the programs read the clock of the network card")
        .fix_lacks("grandmaster");
}

/// Symptom: "start no NTP daemon beside it", where one is what a grandmaster needs.
#[test]
fn a_grandmaster_may_follow_an_ntp_daemon() {
    let machine = on_ptp4l(Some(Unbounded::IsGrandmaster)).with(|document| {
        let ptp4l = document.machine.ptp4l.as_mut().expect("ptp4l");
        ptp4l.port_state = "master".to_owned();
        ptp4l.grandmaster = None;
    });
    machine
        .only("ntp_unsynchronised")
        .fix_has("run an NTP daemon beside it")
        .fix_lacks("start no NTP daemon");
}

#[test]
fn a_cause_that_was_recorded_without_its_remedy_has_no_other_remedy() {
    let machine = on_ptp4l(Some(NO_ACCURACY)).with(|document| {
        document.machine.ptp4l.as_mut().expect("ptp4l").remedy = None;
    });
    machine
        .only("ntp_unsynchronised")
        .fix_has("see what ptp4l does")
        .fix_lacks("network card");
}

#[test]
fn a_bound_of_ptp4l_without_its_clock_is_told_from_no_bound() {
    let finding = on_ptp4l(None).only("ntp_unsynchronised");
    finding.shows("this user may read no clock that it steers");
}

/// Symptom: OK, within 500 us of UTC, behind a grandmaster that nothing ties to UTC.
#[test]
fn the_error_that_phc2sys_sets_beside_a_ptp4l_without_a_bound_proves_nothing() {
    let unbounded = on_ptp4l(Some(NO_ACCURACY));
    let machine = unbounded.errors_us(500, KERNELS_LIMIT_US);
    let finding = machine.clone().only("utc_unproven");
    assert_eq!(finding.severity, Severity::Unsure);
    finding
        .says("ptp4l does not say how far its time is from UTC")
        .shows("ptp4l bounds nothing: its grandmaster states no accuracy")
        .fix_has("start no NTP daemon beside it");
    let bounded = on_ptp4l(None).errors_us(500, KERNELS_LIMIT_US);
    assert_eq!(bounded.codes(), [""; 0]);
    let another_claim = machine.clone().errors_us(507, KERNELS_LIMIT_US);
    assert_eq!(another_claim.codes(), [""; 0]);
    let master = machine.with(|document| {
        document.machine.ptp4l.as_mut().expect("ptp4l").port_state = "master".to_owned();
    });
    assert_eq!(master.codes(), [""; 0]);
}

/// ptp4l follows a clock of another use (gPTP, for audio and video). Symptom: OpenNTPD's error of
/// 172 ms was phc2sys's, which sets it to 0 about once a second.
#[test]
fn the_error_that_openntpd_sets_beside_a_ptp4l_without_a_bound_is_no_finding() {
    let unbounded = on_ptp4l(Some(Unbounded::OtherClockClass { class: 248 }));
    let after_us = |error_us| unbounded.clone().errors_us(error_us, KERNELS_LIMIT_US);
    assert_eq!(after_us(172_000).codes(), [""; 0]);
    assert_eq!(after_us(2_500).codes(), [""; 0]);
    // OpenNTPD's last update may be as young as phc2sys's, and phc2sys need not run.
    let young = after_us(2_000).only("utc_unproven");
    young.says("bounds nothing (phc2sys sets it, if it runs)");
}
