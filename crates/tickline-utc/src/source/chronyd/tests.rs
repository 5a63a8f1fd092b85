#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "chronyd counts in floating point, and so does the simulated world"
)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::claim_maker::tests::{at_ms, moment};
use crate::claim_maker::{ClaimMaker, valid_ns};
use crate::source::kernel::tests::USUAL;

/// Replies of chronyd 4.3, and variants of them. The program's tests link to this file.
const REPLIES: &str = include_str!("tests/ntp_replies.json");

/// The sequence number in the replies.
const SEQUENCE: [u8; 4] = *b"tick";

/// The head of a reply.
const HEAD: [u8; 20] = [
    6, 2, 0, 0, 0, 33, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, b't', b'i', b'c', b'k',
];

fn cases() -> Vec<Value> {
    serde_json::from_str(REPLIES).unwrap()
}

fn reply_of(case: &Value) -> Vec<u8> {
    let hex = case["reply"].as_str().unwrap().replace(' ', "");
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn parsed(reply: Vec<u8>) -> Option<Tracking> {
    Tracking::parse(&reply.try_into().ok()?, SEQUENCE)
}

#[test]
fn replies_are_parsed_as_the_table_says() {
    for case in cases() {
        let tracking = parsed(reply_of(&case)).map(|tracking| {
            json!({
                "reference": tracking.reference,
                "stratum": tracking.stratum,
                "leap_status": tracking.leap_status,
                "updated_s": tracking.updated_s,
                "correction_ns": tracking.correction_ns,
                "frequency_ppb": tracking.frequency_ppb,
                "skew_ppb": tracking.skew_ppb,
                "delay_ns": tracking.delay_ns,
                "dispersion_ns": tracking.dispersion_ns,
            })
        });
        assert_eq!(json!(tracking), case["tracking"], "{}", case["about"]);
    }
}

/// Symptom: a datagram was taken that had come before the socket was connected, from anyone.
#[test]
fn only_a_whole_reply_of_the_daemon_is_taken() {
    let [server, other] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let port = server.local_addr().unwrap().port();
    let replies = std::thread::spawn(move || {
        for length in [3, 4, 5, 4] {
            let (_, from) = server.recv_from(&mut [0; 8]).unwrap();
            server.send_to(&[7; 5][..length], from).unwrap();
        }
    });
    let new = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let by = |socket| {
        let reply = ask_by(&socket, port, &[1; 4], Duration::from_secs(60))?;
        <[u8; 4]>::try_from(reply).ok()
    };
    assert_eq!([(); 3].map(|()| by(new())), [None, Some([7; 4]), None]);
    let early = new();
    other.send_to(&[9; 4], early.local_addr().unwrap()).unwrap();
    assert_eq!(by(early), None);
    replies.join().unwrap();
}

#[test]
fn the_time_of_the_last_update_has_64_bits() {
    let mut reply = [0; TRACKING_BYTES];
    reply[..HEAD.len()].copy_from_slice(&HEAD);
    reply[56..64].copy_from_slice(&0x1_0000_0002_u64.to_be_bytes());
    let tracking = Tracking::parse(&reply, SEQUENCE).unwrap();
    assert_eq!(tracking.updated_s, 0x1_0000_0002);
}

/// The state of a chronyd that follows a server, without any error.
fn synchronised() -> Tracking {
    let mut reply = [0; TRACKING_BYTES];
    reply[..HEAD.len()].copy_from_slice(&HEAD);
    let mut tracking = Tracking::parse(&reply, SEQUENCE).unwrap();
    tracking.reference = [192, 0, 2, 1];
    tracking
}

/// A maker whose chronyd has replied once, so that it has not shown that it steers.
pub(crate) fn maker_after_first_reply() -> ClaimMaker {
    let mut maker = ClaimMaker::default();
    maker.sources.chronyd.steering = Some(Steering::new(0));
    reply_at(&mut maker, 0);
    maker
}

/// Lets the maker's chronyd reply at this time.
pub(crate) fn reply_at(maker: &mut ClaimMaker, ms: i64) {
    let kernel = Some(KernelSteering::new(&USUAL, 0));
    let at = at_ms(ms);
    let chronyd = &mut maker.sources.chronyd;
    let report = chronyd.report(&synchronised(), 0, kernel, [&at, &at], valid_ns(0));
    assert!(report.is_ok(), "{report:?}");
}

/// A rate is rounded like every number of the reply.
#[test]
fn a_frequency_adds_its_rounding_to_the_drift() {
    let mut tracking = synchronised();
    tracking.frequency_ppb = 2 << PLACES;
    let drift_ppb = WANDER_PPB + TICK_PPB + 2 + 3;
    let report = report(&tracking, 0, Interval::between(-7, 9)).unwrap();
    assert_eq!(
        report.rates_ppb,
        Interval::between(-7 - drift_ppb, 9 + drift_ppb)
    );
}

#[test]
fn each_kind_of_reply_has_its_report() {
    let offset_ns = |case: &Value| {
        let report = report(&parsed(reply_of(case))?, 1_000, Interval::at(0));
        Some(report.map(|report| report.offset_ns))
    };
    // chronyd's own clock, NTP, a clock of the machine, the same unsynchronised, without a
    // reference, refused, another's.
    let offsets_ns: Vec<_> = cases().iter().map(offset_ns).collect();
    let unsynchronised = |why| Some(Err(UtcUnknown::Unsynchronised(UtcSource::Chronyd, why)));
    let request_ns =
        1_000 + 5 + (125_000_000 >> PLACES) + (1_000_000_000 >> PLACES) + (250_000_000 >> PLACES);
    let clock = Some(Ok(Interval::between(
        -875_000_000 - request_ns,
        625_000_000 + request_ns,
    )));
    assert_eq!(
        offsets_ns[..7],
        [
            unsynchronised(Unbounded::FollowsItself),
            None,
            clock,
            unsynchronised(Unbounded::FollowsNothing),
            unsynchronised(Unbounded::FollowsNothing),
            None,
            None
        ]
    );
}

/// The encoding of a `Float` by chronyd (`UTI_FloatHostToNetwork` in `util.c`).
fn float(value: f64) -> [u8; 4] {
    let magnitude = value.abs();
    if magnitude < 1e-15 {
        return [0; 4];
    }
    let mut exponent = (magnitude.log2() + 1.0) as i32;
    let mut coefficient = (magnitude * f64::from(25 - exponent).exp2() + 0.5) as i32;
    while coefficient > (1 << 24) - 1 {
        coefficient >>= 1;
        exponent += 1;
    }
    let coefficient = if value < 0.0 {
        -coefficient
    } else {
        coefficient
    };
    ((exponent << 25) as u32 | (coefficient as u32 & 0x01FF_FFFF)).to_be_bytes()
}

/// The largest and the smallest `Float`: nearly 2^62 s, and -2^62 s.
#[test]
fn a_number_beyond_the_range_becomes_the_end_on_its_side() {
    for (bits, end_ns) in [(0x7EFF_FFFF, i64::MAX), (0x7F00_0000, i64::MIN)] {
        assert_eq!(scaled(bits, 1_000_000_000), end_ns, "{bits:#x}");
    }
}

proptest! {
    #[test]
    fn numbers_are_as_near_as_the_rounding_says(value in -1e3..1e3_f64, shrunk in 0..40_i32) {
        let value = value * f64::from(-shrunk).exp2();
        let read_ns = scaled(u32::from_be_bytes(float(value)), 1_000_000_000);
        let error_ns = (read_ns as f64 - value * 1e9).abs();
        prop_assert!(error_ns <= 2.0 + (read_ns.abs() >> PLACES) as f64, "{} of {}", read_ns, value);
    }

    #[test]
    fn no_reply_makes_the_thread_panic(
        mut reply in any::<[u8; TRACKING_BYTES]>(),
        leap_status in 0..4_u8,
    ) {
        reply[..HEAD.len()].copy_from_slice(&HEAD);
        reply[54..56].copy_from_slice(&[0, leap_status]);
        let mut chronyd = ChronydSource::default();
        let tracking = Tracking::parse(&reply, SEQUENCE);
        for kernel in [None, Some(KernelSteering::new(&USUAL, 7))] {
            let moments = [&moment(0), &moment(1)];
            let report = tracking
                .as_ref()
                .map(|tracking| chronyd.report(tracking, i64::MAX, kernel, moments, valid_ns(0)));
            let Some(Ok(report)) = report else { continue };
            prop_assert!(report.offset_ns.width() >= 0);
            prop_assert!(report.rates_ppb.width() >= 2 * WANDER_PPB);
        }
    }
}

mod world;
