//! The kernel corrects its clocks' rate.

use super::super::slew::Code;
use super::given::{assert_each_found, good_machine};
use super::unix_time::chronyd;
use crate::document::{Finding, Severity};
use crate::machine::NtpDaemon;

#[test]
fn an_offset_that_the_kernel_slews_is_one_finding() {
    let machine = good_machine().ntp(|ntp| {
        ntp.offset_ns = 480_000_000;
        ntp.time_constant = Some(1);
    });
    let finding = machine.only("ntp_slewing");
    assert_eq!(finding.severity, Severity::Wrong);
    finding.says("off by 480 ms").says("corrected by 6.9 %");
}

#[test]
fn an_offset_that_a_daemon_slews_by_the_tick_is_one_finding() {
    let machine = good_machine().ntp(|ntp| {
        ntp.estimated_error_us = 922_795;
        ntp.maximum_error_us = 923_305;
        ntp.tick_us = 10_834;
        ntp.frequency_ppb = -32_670;
    });
    let finding = machine.only("ntp_slewing");
    assert_eq!(finding.severity, Severity::Wrong);
    finding
        .says("estimated error is 923 ms")
        .says("corrected by 8.3 %");
}

/// The good machine whose chronyd has `left_ms` to remove, and whose kernel's rate is corrected by
/// this much.
fn slewed(left_ms: i64, rate_ppb: i64, daemons_ppb: Option<i64>) -> Finding {
    let answer = NtpDaemon {
        offset_ns: Some(left_ms * 1_000_000),
        frequency_ppb: daemons_ppb,
        ..chronyd()
    };
    good_machine()
        .daemon_answers(answer)
        .ntp(|ntp| {
            ntp.tick_us = 10_000;
            ntp.frequency_ppb = rate_ppb;
        })
        .first("ntp_slewing")
}

/// chronyd estimates an error that is a little larger than the offset. Symptom: the slew was said
/// to have no direction.
#[test]
fn a_slew_has_the_direction_of_the_daemons_offset() {
    let answer = NtpDaemon {
        offset_ns: Some(3_571_992_158),
        frequency_ppb: Some(-33_763),
        ..chronyd()
    };
    good_machine()
        .daemon_answers(answer)
        .ntp(|ntp| {
            ntp.synchronised = false;
            ntp.tick_us = 10_835;
            ntp.frequency_ppb = -130_092;
            ntp.maximum_error_us = 3_586_111;
            ntp.estimated_error_us = 3_580_035;
        })
        .first("ntp_slewing")
        .fix_begins("wait until the NTP daemon has removed the offset");
}

/// Symptom: "which an NTP daemon removes by a slew ... wait", of a clock that went farther off: it
/// was 3 s slow, and a chronyd that was killed had left a correction of -668.8 ppm.
#[test]
fn a_correction_away_from_utc_removes_nothing() {
    for (left_ms, rate_ppb) in [(3_000, -400_000), (-3_000, 400_000)] {
        slewed(left_ms, rate_ppb, Some(0))
            .says("makes it larger")
            .does_not_say("removes")
            .fix_begins("restart the NTP daemon")
            .fix_lacks("wait");
    }
}

#[test]
fn a_correction_towards_utc_removes_the_offset_in_a_time() {
    for (left_ms, rate_ppb, left) in [
        (3_000, 400_000, "in about 2.1 h"),
        (-600, -400_000, "in about 25 min"),
        (200, 5_000_000, "in about 40 s"),
    ] {
        slewed(left_ms, rate_ppb, Some(0))
            .says(left)
            .fix_begins("wait until");
    }
}

/// Symptom: one sentence mixed two offsets. The kernel had 300 ms to take away, and chronyd 160 ms
/// to add: the size was the kernel's, the sign and the time were chronyd's.
#[test]
fn offsets_of_opposite_signs_have_no_direction() {
    let answer = NtpDaemon {
        offset_ns: Some(160_000_000),
        frequency_ppb: Some(0),
        ..chronyd()
    };
    good_machine()
        .daemon_answers(answer)
        .ntp(|ntp| {
            ntp.frequency_ppb = 400_000;
            ntp.offset_ns = -300_000_000;
        })
        .first("ntp_slewing")
        .says("off by 300 ms")
        .does_not_say("removes")
        .does_not_say("makes it larger");
}

/// The kernel has the larger offset here, and chronyd's is more than half of it.
#[test]
fn the_time_of_a_slew_is_that_of_the_offset_in_its_sentence() {
    let answer = NtpDaemon {
        offset_ns: Some(200_000_000),
        frequency_ppb: Some(0),
        ..chronyd()
    };
    good_machine()
        .daemon_answers(answer)
        .ntp(|ntp| {
            ntp.frequency_ppb = 400_000;
            ntp.offset_ns = 300_000_000;
        })
        .first("ntp_slewing")
        .says("off by 300 ms")
        .does_not_say("in about");
}

/// 300 ppm of these 700 make up for the crystal, and the rest removes 1.2 s in 3,000 s.
#[test]
fn the_lasting_part_of_a_correction_removes_nothing() {
    slewed(1_200, 700_000, Some(-300_000)).says("in about 50 min");
}

#[test]
fn a_correction_that_only_lasts_has_no_direction() {
    slewed(-1_200, 400_000, Some(-300_001))
        .does_not_say("makes it larger")
        .does_not_say("removes")
        .fix_lacks("wait");
    slewed(-1_200, 400_000, Some(-299_999)).says("makes it larger");
}

/// The correction of a daemon that states no frequency may be that of the crystal.
#[test]
fn a_correction_beside_an_unknown_frequency_has_no_direction() {
    for left_ms in [-3_000, 3_000] {
        slewed(left_ms, 500_000, None)
            .does_not_say("makes it larger")
            .does_not_say("removes");
    }
    slewed(-3_000, 500_001, None).says("makes it larger");
    slewed(3_000, 500_001, None)
        .says("removes")
        .does_not_say("in about");
}

/// Symptom: of ntpd, which the kernel's loop served well, "makes it larger": the correction for the
/// crystal was larger than the loop's share.
#[test]
fn an_offset_that_the_kernels_loop_removes_gets_smaller() {
    let machine = good_machine().ntp(|ntp| {
        ntp.offset_ns = 480_000_000;
        ntp.time_constant = Some(10);
        ntp.frequency_ppb = -400_000;
    });
    machine
        .only("ntp_slewing")
        .says("removes")
        .does_not_say("makes it larger")
        .does_not_say("in about");
}

/// The kernel's loop removes less in each second.
#[test]
fn an_offset_that_the_kernels_loop_removes_is_gone_at_no_stated_time() {
    let machine = good_machine().ntp(|ntp| {
        ntp.offset_ns = 480_000_000;
        ntp.time_constant = Some(1);
    });
    machine.only("ntp_slewing").does_not_say("in about");
}

/// The slew changes the measured frequency, which is therefore no finding of its own.
#[test]
fn a_fast_slew_makes_durations_wrong() {
    let machine = good_machine()
        .ntp(|ntp| {
            ntp.tick_us = 10_834;
            ntp.frequency_ppb = -32_670;
        })
        .with(|document| document.clock.frequency_hz = Some(2_400_000_000));
    let finding = machine.only("ntp_slewing");
    assert_eq!(finding.severity, Severity::Unsure);
    finding.says("corrects the rate of its clocks by 8.3 %");
}

#[test]
fn a_correction_that_no_crystal_needs_is_a_note() {
    let finding = good_machine()
        .ntp(|ntp| ntp.frequency_ppb = -400_000)
        .only("ntp_slewing");
    assert_eq!(finding.severity, Severity::Note);
    finding.says("-400 ppm");
    good_machine()
        .ntp(|ntp| ntp.tick_us = 10_050)
        .only("ntp_slewing");
}

#[test]
fn figures_of_any_size_are_judged() {
    for figure in [i64::MIN, i64::MAX] {
        let machine = good_machine().ntp(|ntp| {
            ntp.tick_us = figure;
            ntp.frequency_ppb = figure;
        });
        machine.only("ntp_slewing");
    }
}

#[test]
fn a_fast_slew_that_slows_the_clock_makes_durations_wrong_as_well() {
    let finding = good_machine()
        .ntp(|ntp| ntp.tick_us = 9_166)
        .only("ntp_slewing");
    assert_eq!(finding.severity, Severity::Unsure);
}

/// The kernel's own loop corrects by at most 500 ppm, which changes no duration by much.
#[test]
fn a_correction_by_as_much_as_the_kernels_loop_may_make_is_a_note() {
    let by_tick = |tick_us| {
        let machine = good_machine().ntp(|ntp| {
            ntp.tick_us = tick_us;
            ntp.frequency_ppb = 0;
        });
        machine.only("ntp_slewing")
    };
    assert_eq!(by_tick(10_005).severity, Severity::Note);
    assert_eq!(by_tick(10_006).severity, Severity::Unsure);
}

/// A chronyd that was killed in a slew leaves its tick. Symptom: "wait", while the clock went off
/// by 100 ms a second.
#[test]
fn a_loop_that_is_slower_than_what_it_works_against_removes_nothing() {
    good_machine()
        .ntp(|ntp| {
            ntp.offset_ns = 480_000_000;
            ntp.tick_us = 9_000;
        })
        .first("ntp_slewing")
        .says("makes it larger")
        .fix_lacks("wait");
}

#[test]
fn each_code_about_a_slew_has_a_machine() {
    assert_each_found(Code::ALL, |code| match code {
        Code::NtpSlewing => good_machine().ntp(|ntp| ntp.frequency_ppb = 120_000),
    });
}
