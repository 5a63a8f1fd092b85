//! The answers of ptp4l 3.1.1 (Debian 12), recorded with `free_running` and software time stamps
//! between two network namespaces. A second ptp4l was the grandmaster; it said that it serves TAI,
//! and served the UTC of the same machine, so the offset is 37 s.

use super::*;

/// The answers, in hexadecimal digits.
const ANSWERS: [(u16, &str); 5] = [
    (
        TIME_STATUS_NP,
        "0d020068000000000000000000000000000000002e1f8afffe6e27880000c000047f000000000000\
         000100010000020000010034c000000000089d5f2ba118ec038479dc29d300000000000000000000\
         00000000000000000000000000000001ca226bfffeee338f",
    ),
    (
        CURRENT_DATA_SET,
        "0d020048000000000000000000000000000000002e1f8afffe6e278800002001047f000000000000\
         0001000100000200000100142001000100089d5f2ba100000000000009270000",
    ),
    (
        PARENT_DATA_SET,
        "0d020056000000000000000000000000000000002e1f8afffe6e278800002002047f000000000000\
         0001000100000200000100222002ca226bfffeee338f00010000ffff7fffffff8006214e5d80ca22\
         6bfffeee338f",
    ),
    (
        TIME_PROPERTIES_DATA_SET,
        "0d02003a000000000000000000000000000000002e1f8afffe6e278800002003047f000000000000\
         000100010000020000010006200300253c20",
    ),
    (
        PORT_DATA_SET,
        "0d020050000000000000000000000000000000002e1f8afffe6e278800012004047f000000000000\
         00010001000002000001001c20042e1f8afffe6e2788000108000000000000000000010300010002",
    ),
];

fn bytes_of(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn the_answers_of_ptp4l_are_its_state() {
    let mut status = PtpStatus::default();
    for (id, hex) in ANSWERS {
        let message = bytes_of(hex);
        let (header, _, data) = parse(&message, id).unwrap();
        assert_eq!(header, DOMAIN_0);
        status.add(id, data).unwrap();
    }
    let expected = PtpStatus {
        domain: 0,
        port_state: PortState::Uncalibrated,
        is_end_to_end: false,
        has_grandmaster: true,
        grandmaster: [0xCA, 0x22, 0x6B, 0xFF, 0xFE, 0xEE, 0x33, 0x8F],
        clock_class: 6,
        clock_accuracy: 0x21,
        steps_removed: 1,
        offset_ns: 36_999_998_369,
        mean_path_delay_ns: 2_343,
        ingress_ns: 1_795_814_218_929_023_443,
        utc_offset_s: 37,
        time_flags: GOOD.time_flags | 1 << 5,
    };
    assert_eq!(status, expected);
    assert_eq!(status.why_unbounded(), Some(Unbounded::NotLocked));
}
