//! ptp4l's answers, as linuxptp sends them, and as nobody should.

use super::message::{REQUEST_BYTES, TLV_AT};
use super::*;

#[cfg(all(target_os = "linux", not(miri)))]
mod fake;
mod recorded;

const SECOND_NS: i64 = 1_000_000_000;

/// TAI when the last Sync came.
const INGRESS_NS: i64 = 1_800_000_037 * SECOND_NS;

const GRANDMASTER: [u8; 8] = [0, 0x1B, 0x19, 0xFF, 0xFE, 0, 0, 7];

/// A slave of a grandmaster with GPS: offset 300 ns, path delay 700 ns, accuracy 100 ns.
const GOOD: PtpStatus = PtpStatus {
    domain: 0,
    port_state: PortState::Slave,
    is_end_to_end: true,
    has_grandmaster: true,
    grandmaster: GRANDMASTER,
    clock_class: 6,
    clock_accuracy: 0x21,
    steps_removed: 1,
    offset_ns: -300,
    mean_path_delay_ns: 700,
    ingress_ns: INGRESS_NS,
    utc_offset_s: 37,
    time_flags: UTC_OFFSET_VALID | PTP_TIMESCALE | TIME_TRACEABLE,
};

/// The data of `status` in a data set.
fn data_of(status: &PtpStatus, id: u16) -> Vec<u8> {
    let mut data = vec![0; 64];
    let mut put = |at: usize, field: &[u8]| data[at..at + field.len()].copy_from_slice(field);
    let length = match id {
        TIME_STATUS_NP => {
            put(0, &status.offset_ns.to_be_bytes());
            put(8, &status.ingress_ns.to_be_bytes());
            put(38, &u32::from(status.has_grandmaster).to_be_bytes());
            put(42, &status.grandmaster);
            50
        }
        CURRENT_DATA_SET => {
            put(0, &status.steps_removed.to_be_bytes());
            put(2, &(status.offset_ns << 16).to_be_bytes());
            put(10, &(status.mean_path_delay_ns << 16).to_be_bytes());
            18
        }
        PARENT_DATA_SET => {
            put(19, &[status.clock_class, status.clock_accuracy]);
            put(24, &status.grandmaster);
            32
        }
        TIME_PROPERTIES_DATA_SET => {
            put(0, &status.utc_offset_s.to_be_bytes());
            put(2, &[status.time_flags]);
            4
        }
        PORT_DATA_SET => {
            let state = match status.port_state {
                PortState::Slave => SLAVE,
                PortState::Uncalibrated => UNCALIBRATED,
                PortState::Master => MASTER,
                PortState::Other => 0,
            };
            let mechanism = if status.is_end_to_end { END_TO_END } else { 2 };
            put(10, &[state]);
            put(23, &[mechanism]);
            26
        }
        _ => 0,
    };
    data.truncate(length);
    data
}

/// The answer to a question of this header, with this data.
fn answer(header: Header, id: u16, data: &[u8]) -> Vec<u8> {
    let mut message = request(header, id).to_vec();
    message[46] = 2;
    message.extend_from_slice(data);
    let length = u16::try_from(message.len()).unwrap();
    message[2..4].copy_from_slice(&length.to_be_bytes());
    let length = u16::try_from(data.len() + 2).unwrap();
    message[TLV_AT + 2..TLV_AT + 4].copy_from_slice(&length.to_be_bytes());
    message
}

const DOMAIN_0: Header = Header {
    domain: 0,
    transport: 0,
};

/// pmc sends the same with `-z`, except for its own identity (`pmc_create` in `pmc_common.c`).
#[test]
fn a_question_is_a_get_without_data() {
    let header = Header {
        domain: 24,
        transport: 1,
    };
    let expected = [
        0x1D, 2, 0, 54, 24, 0, 0, 0, // type, version, length, domain, flags
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // correction, reserved
        0, 0, 0, 0, 0, 0, 0, 1, 0, 1, // the asking port
        0xC0, 0, 4, 0x7F, // the number, control, interval
        0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, // all ports
        0, 0, 0, 0, // hops, GET
        0, 1, 0, 2, 0xC0, 0, // a management TLV with the id alone
    ];
    assert_eq!(request(header, TIME_STATUS_NP), expected);
}

#[test]
fn an_answer_has_its_header_and_its_data() {
    let data = data_of(&GOOD, TIME_STATUS_NP);
    let message = answer(DOMAIN_0, TIME_STATUS_NP, &data);
    assert_eq!(
        parse(&message, TIME_STATUS_NP),
        Some((DOMAIN_0, TIME_STATUS_NP, data.as_slice()))
    );
}

#[test]
fn an_answer_that_is_cut_is_none() {
    for id in [TIME_STATUS_NP, CURRENT_DATA_SET, PARENT_DATA_SET] {
        let message = answer(DOMAIN_0, id, &data_of(&GOOD, id));
        for length in 0..message.len() {
            assert_eq!(parse(&message[..length], id), None, "{length} bytes");
        }
    }
}

#[test]
fn a_message_that_is_no_answer_is_none() {
    let message = answer(DOMAIN_0, TIME_STATUS_NP, &data_of(&GOOD, TIME_STATUS_NP));
    for (at, value, what) in [
        (0, 0x0B, "an announcement"),
        (1, 1, "version 1"),
        (2, 0xFF, "longer than it is"),
        (30, 0x20, "another question's number"),
        (46, 0, "a question"),
        (TLV_AT + 1, 2, "an error"),
        (TLV_AT + 2, 0xFF, "a TLV longer than the message"),
        (TLV_AT + 4, 0x20, "another data set"),
    ] {
        let mut changed = message.clone();
        changed[at] = value;
        assert_eq!(parse(&changed, TIME_STATUS_NP), None, "{what}");
    }
    assert_eq!(parse(&[], TIME_STATUS_NP), None);
}

#[test]
fn a_data_set_that_is_too_short_is_refused() {
    for id in [TIME_STATUS_NP].into_iter().chain(DATA_SETS) {
        let data = data_of(&GOOD, id);
        // The last figure that is read; ptp4l's own length is longer for some.
        let needed = [50, 18, 32, 3, 24];
        let ids = [
            TIME_STATUS_NP,
            CURRENT_DATA_SET,
            PARENT_DATA_SET,
            TIME_PROPERTIES_DATA_SET,
            PORT_DATA_SET,
        ];
        let needed = needed[ids.iter().position(|known| *known == id).unwrap()];
        let added = |length: usize| {
            let mut status = PtpStatus {
                grandmaster: GRANDMASTER,
                ..PtpStatus::default()
            };
            status.add(id, &data[..length]).is_some()
        };
        assert!(added(needed), "{id:x}");
        assert!(!added(needed - 1), "{id:x}");
    }
}

#[test]
fn an_accuracy_is_that_of_the_standard() {
    let accuracy_ns = |clock_accuracy| {
        PtpStatus {
            clock_accuracy,
            ..GOOD
        }
        .accuracy_ns()
    };
    assert_eq!([0x17, 0x20].map(accuracy_ns), [Some(25); 2]);
    let [us, ms] = [1_000, 1_000_000];
    let bounds_ns = [
        [100, 250, us, 5 * us / 2],
        [10 * us, 25 * us, 100 * us, 250 * us],
        [ms, 5 * ms / 2, 10 * ms, 25 * ms],
        [100 * ms, 250 * ms, SECOND_NS, 10 * SECOND_NS],
    ];
    for (code, ns) in (0x21..).zip(bounds_ns.into_iter().flatten()) {
        assert_eq!(accuracy_ns(code), Some(ns), "{code:x}");
    }
    assert_eq!([0x31, 0xFE, 0, 0x16].map(accuracy_ns), [None; 4]);
}

#[test]
fn the_bound_is_accuracy_offset_and_path_delay() {
    assert_eq!(GOOD.bound_ns(), Some(100 + 300 + 700 + ROUNDED_NS));
}

/// Rounding can make it 0.
#[test]
fn a_path_delay_of_0_has_a_bound() {
    let status = PtpStatus {
        mean_path_delay_ns: 0,
        ..GOOD
    };
    assert_eq!(status.bound_ns(), Some(100 + 300 + ROUNDED_NS));
}

/// ptp4l knows nothing of the boundary clocks in between.
#[test]
fn each_boundary_clock_counts_as_the_last_part_of_the_path() {
    let status = PtpStatus {
        steps_removed: 3,
        ..GOOD
    };
    assert_eq!(status.bound_ns(), Some(100 + 3 * (300 + 700) + ROUNDED_NS));
}

/// The facts that bound nothing, each by itself, and why.
fn unbounded() -> [(PtpStatus, Unbounded); 12] {
    let flags = |time_flags| PtpStatus { time_flags, ..GOOD };
    let all = GOOD.time_flags;
    let class = |clock_class| PtpStatus {
        clock_class,
        ..GOOD
    };
    [
        (
            PtpStatus {
                port_state: PortState::Uncalibrated,
                ..GOOD
            },
            Unbounded::NotLocked,
        ),
        (
            PtpStatus {
                has_grandmaster: false,
                ..GOOD
            },
            Unbounded::NoMaster,
        ),
        (flags(all & !UTC_OFFSET_VALID), Unbounded::NoUtcOffset),
        (flags(all & !PTP_TIMESCALE), Unbounded::NoTai),
        (flags(all & !TIME_TRACEABLE), Unbounded::NotTraceable),
        (flags(all | SYNC_UNCERTAIN), Unbounded::NotTraceable),
        (class(248), Unbounded::OtherClockClass { class: 248 }),
        (class(52), Unbounded::OtherClockClass { class: 52 }),
        (
            PtpStatus {
                clock_accuracy: 0xFE,
                ..GOOD
            },
            Unbounded::NoAccuracyBound { code: 0xFE },
        ),
        (
            PtpStatus {
                is_end_to_end: false,
                ..GOOD
            },
            Unbounded::OnlyLinkDelay,
        ),
        (
            PtpStatus {
                mean_path_delay_ns: -1,
                ..GOOD
            },
            Unbounded::NoPathDelay,
        ),
        (
            PtpStatus {
                steps_removed: 0,
                ..GOOD
            },
            Unbounded::NoPathDelay,
        ),
    ]
}

/// Symptom: a grandmaster, whose ports are MASTER, was told to see whether Announce messages come.
#[test]
fn the_states_of_the_ports_and_the_grandmaster_say_why_no_master_is_followed() {
    const LISTENING: u8 = 4;
    for (ports, has_grandmaster, why) in [
        (&[MASTER][..], false, Unbounded::IsGrandmaster),
        (&[LISTENING, MASTER], false, Unbounded::IsGrandmaster),
        (&[MASTER, LISTENING], false, Unbounded::IsGrandmaster),
        (&[LISTENING], false, Unbounded::NoMaster),
        (&[MASTER], true, Unbounded::NoMaster),
        (&[MASTER, UNCALIBRATED], true, Unbounded::NotLocked),
        (&[UNCALIBRATED], false, Unbounded::NotLocked),
    ] {
        let mut status = PtpStatus {
            port_state: PortState::Other,
            has_grandmaster,
            ..GOOD
        };
        for state in ports {
            let mut data = data_of(&GOOD, PORT_DATA_SET);
            data[10] = *state;
            status.add(PORT_DATA_SET, &data).unwrap();
        }
        assert_eq!(status.why_unbounded(), Some(why), "{ports:?}");
    }
}

/// The answer of a ptp4l that does not bound UTC.
fn unsynchronised(why: Unbounded) -> SourceAnswer {
    Err(UtcUnknown::Unsynchronised(UtcSource::Ptp4l, why))
}

#[test]
fn facts_that_bound_nothing_make_no_claim() {
    for (status, why) in unbounded() {
        assert_eq!(status.bound_ns(), None, "{why}");
        assert_eq!(status.why_unbounded(), Some(why));
        let answer = report(&status, Some(&[phc(SECOND_NS)]), 0);
        assert_eq!(answer, unsynchronised(why));
    }
}

#[test]
fn figures_at_the_ends_of_their_range_make_no_small_bound() {
    let status = PtpStatus {
        offset_ns: i64::MIN,
        mean_path_delay_ns: i64::MAX,
        steps_removed: u16::MAX,
        ..GOOD
    };
    assert_eq!(status.bound_ns(), Some(i64::MAX));
}

/// A PHC so long after the last Sync, 10 us ahead of `CLOCK_REALTIME` within 2 us.
fn phc(age_ns: i64) -> LocalClock {
    LocalClock {
        ns: INGRESS_NS + age_ns,
        utc_ns: INGRESS_NS + age_ns - 37 * SECOND_NS,
        offset_ns: Interval::between(9_000, 11_000),
        error_ns: 50,
    }
}

/// `CLOCK_REALTIME` so long after the last Sync, whose time it has stamped or not.
fn realtime(ns: i64) -> LocalClock {
    LocalClock {
        ns,
        utc_ns: ns,
        offset_ns: Interval::at(0),
        error_ns: 0,
    }
}

#[test]
fn utc_is_the_local_clock_with_the_bound_and_the_growth_since_the_last_sync() {
    let report = report(&GOOD, Some(&[phc(SECOND_NS), realtime(0)]), 20_000).unwrap();
    // 500 ppm of a second, the servo's part, and the error that the driver states.
    let bound_ns = GOOD.bound_ns().unwrap() + 500_000 + 4 * 300 + 1 + 50;
    assert_eq!(
        report.offset_ns,
        Interval::between(9_000 - bound_ns, 11_000 + bound_ns)
    );
    assert_eq!(report.id.origin, Origin::Ptp4l);
    assert_eq!(report.id.number, INGRESS_NS.cast_unsigned());
    assert_eq!(report.rates_ppb, unknown_rates_ppb(20_000));
    assert!(!report.leap_second_today);
}

/// Symptom: 8 Syncs a second, of which the last has an offset of 1.2 ms, and then none for 4 s. The
/// PI servo moved the clock by 1.44 * 1.2 ms in each second, and UTC was 3 ms outside the interval.
#[test]
fn the_servo_moves_the_clock_by_the_last_offset_in_each_second() {
    let status = PtpStatus {
        offset_ns: 1_200_000,
        ..GOOD
    };
    let report = report(&status, Some(&[phc(4 * SECOND_NS)]), 0).unwrap();
    let least_ns = report.offset_ns.min;
    let moved_ns = 1_200_000 * 144 / 100 * 4 - 1_200_000;
    let drift_ns = 500_000 * 4;
    assert!(least_ns <= 9_000 - moved_ns - drift_ns, "{least_ns}");
}

#[test]
fn the_largest_offset_makes_no_small_growth() {
    for offset_ns in [i64::MIN, i64::MAX] {
        assert_eq!(growth_ns(offset_ns, MAX_AGE_NS), i64::MAX);
    }
}

/// With software time stamps ptp4l steers the OS clock itself.
#[test]
fn the_os_clock_is_the_local_one_if_it_shows_the_time_of_the_last_sync() {
    let other = LocalClock {
        ns: INGRESS_NS - 37 * SECOND_NS,
        ..phc(0)
    };
    let report = report(&GOOD, Some(&[other, realtime(INGRESS_NS)]), 0).unwrap();
    let bound_ns = GOOD.bound_ns().unwrap() + 1;
    assert_eq!(report.offset_ns, Interval::between(-bound_ns, bound_ns));
}

#[test]
fn a_clock_that_does_not_show_the_time_of_the_last_sync_is_another_one() {
    for age_ns in [-1, MAX_AGE_NS + 1, i64::MAX - INGRESS_NS] {
        let answer = report(&GOOD, Some(&[phc(age_ns)]), 0);
        let expected = unsynchronised(Unbounded::NoClockOfLastSync);
        assert_eq!(answer, expected, "{age_ns} ns");
    }
    assert!(report(&GOOD, Some(&[phc(MAX_AGE_NS)]), 0).is_ok());
}

#[test]
fn without_the_right_to_read_a_phc_there_is_no_claim() {
    let answer = report(&GOOD, None, 0);
    assert_eq!(answer, unsynchronised(Unbounded::UnreadableClock));
}

/// phc2sys -a, or ts2phc, keeps several PHCs at the same time.
#[test]
fn several_clocks_that_show_the_time_of_the_last_sync_make_no_claim() {
    let answer = report(&GOOD, Some(&[phc(0), phc(1_000)]), 0);
    assert_eq!(answer, unsynchronised(Unbounded::SeveralClocksOfLastSync));
}

/// The report at this time after a midnight of UTC, while the grandmaster announces a leap second.
fn report_of_leap(since_midnight_ns: i64) -> Vec<SourceAnswer> {
    let clock = LocalClock {
        utc_ns: 20_000 * DAY_NS + since_midnight_ns,
        ..phc(0)
    };
    let report_of = |flag| {
        let status = PtpStatus {
            time_flags: GOOD.time_flags | flag,
            ..GOOD
        };
        report(&status, Some(&[clock]), 0)
    };
    [LEAP_59, LEAP_61].map(report_of).to_vec()
}

#[test]
fn a_leap_second_that_the_grandmaster_announces_is_in_the_report() {
    for since_midnight_ns in [-1, -DAY_NS / 2] {
        for report in report_of_leap(since_midnight_ns) {
            assert!(report.unwrap().leap_second_today, "{since_midnight_ns} ns");
        }
    }
}

/// Symptom: the grandmaster's offset of UTC may be the old one for two intervals of its
/// announcements, and the claims after the midnight were wrong by a second, also those of a program
/// that had just started.
#[test]
fn an_announcement_that_stands_after_midnight_makes_no_claim() {
    for since_midnight_ns in [0, 2 * SECOND_NS, 60 * SECOND_NS, DAY_NS / 2 - 1] {
        for report in report_of_leap(since_midnight_ns) {
            assert_eq!(
                report,
                Err(UtcUnknown::LeapSecond),
                "{since_midnight_ns} ns"
            );
        }
    }
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn a_device_without_a_time_is_at_no_time_of_the_os_clock() {
    let device = ClockDevice::open(std::path::Path::new("/dev/null")).expect("a device");
    assert_eq!(narrowest(&device, &tickline::backend::OsClock), None);
}
