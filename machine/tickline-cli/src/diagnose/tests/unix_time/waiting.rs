//! What `tickline wait` waits for.

use super::*;

/// Checks that `tickline wait` goes on to wait, for this reason, with the level of the doctor.
#[track_caller]
fn assert_waits(machine: Given, why: &str) {
    let found = machine.why_not_near_utc().expect("a reason to wait");
    assert!(found.why.contains(why), "{found:?}");
    assert_eq!(machine.level(), found.level);
}

#[test]
fn a_wait_ends_if_a_claim_is_within_the_limit() {
    let machine = good_machine()
        .clock_claims("chronyd", 12_000_000)
        .max_error_ms(250);
    assert_eq!(machine.why_not_near_utc(), None);
    assert_waits(machine.max_error_ms(11), "may be off by 12 ms");
}

#[test]
fn a_wait_goes_on_while_an_offset_is_removed() {
    let machine = good_machine()
        .clock_claims("chronyd", 12_000_000)
        .daemon_answers(NtpDaemon {
            offset_ns: Some(-300_000_000),
            ..chronyd()
        });
    assert_waits(machine.max_error_ms(250), "Unix time is off by 300 ms");
}

#[test]
fn a_wait_goes_on_until_somebody_vouches_for_unix_time() {
    let alone = good_machine().never_steered();
    assert_waits(alone.max_error_ms(250), "no NTP daemon keeps Unix time");
    let lone = good_machine().daemon_answers(lone_chronyd());
    assert_waits(lone.max_error_ms(250), "chronyd follows no other clock");
}

/// In a container that may not ask the kernel.
#[test]
fn a_wait_goes_on_while_nothing_is_known() {
    let machine = good_machine().with(|document| document.machine.ntp = None);
    assert_waits(machine.clone().max_error_ms(250), "can't be read");
    let known = machine.clock_claims("chronyd", 1_000).max_error_ms(250);
    assert_eq!(known.why_not_near_utc(), None);
}

/// They are faults, but Unix time is right.
#[test]
fn a_wait_does_not_last_until_a_slew_or_a_leap_second_is_over() {
    let machine = good_machine()
        .clock_claims("chronyd", 1_000)
        .stepped(1)
        .ntp(|ntp| {
            ntp.frequency_ppb = 400_000;
            ntp.leap = Some(Leap::Insert);
        });
    assert_eq!(machine.max_error_ms(250).why_not_near_utc(), None);
}

/// Symptom: OK after a live migration. clock-bound said that the clock was disrupted, and the bound
/// that chronyd states, which had not noticed, was taken in its place.
#[test]
fn a_wait_goes_on_while_the_clock_is_disrupted_or_a_leap_second_is_near() {
    let machine = good_machine()
        .ntp(|ntp| ntp.maximum_error_us = 20_100)
        .max_error_ms(250);
    assert_eq!(machine.why_not_near_utc(), None);
    assert_waits(
        machine.clone().clock_refuses(UtcUnknown::Disrupted),
        "the clock was disrupted",
    );
    assert_waits(
        machine.clock_refuses(UtcUnknown::LeapSecond),
        "a leap second is near",
    );
}

/// The other reasons tell of the source of tickline's clock alone.
#[test]
fn a_wait_ends_by_the_kernels_claim_if_ticklines_clock_has_no_source() {
    let machine = good_machine()
        .ntp(|ntp| ntp.maximum_error_us = 20_100)
        .max_error_ms(250);
    for why in [UtcUnknown::NoSource, UtcUnknown::Expired] {
        assert_eq!(machine.clone().clock_refuses(why).why_not_near_utc(), None);
    }
}
