use proptest::prelude::*;

use super::*;
use crate::UtcSource;
use crate::claim_maker::{ClaimMaker, tests};
use crate::source::SourceAnswer;

/// `CLOCK_MONOTONIC`, or UTC in version 3, when the daemon wrote: 1,800,000,000 s.
const AS_OF_NS: i64 = 1_800_000_000_000_000_000;
const AS_OF_TICKS: u64 = 1_000_000;

/// The places of the times, and of the bound, in a segment of this version.
const fn places(version: u16) -> (usize, usize) {
    if version == 2 { (16, 48) } else { (24, 72) }
}

/// A segment of clock-bound 3.0's daemon. The marker is 9, the bound 500 ns, and the drift 15 ppm.
/// In version 3 a tick is 2^-31 s, and its error 2^-20, less than 1 ppm.
fn segment(version: u16, status: u32, looks_for_disruptions: bool) -> Segment {
    let mut bytes = [0; BYTES];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &MAGIC[0].to_ne_bytes());
    put(4, &MAGIC[1].to_ne_bytes());
    put(12, &version.to_ne_bytes());
    put(14, &4_u16.to_ne_bytes());
    let (times, bound) = places(version);
    put(times, &1_800_000_000_i64.to_ne_bytes());
    put(times + 16, &1_800_001_000_i64.to_ne_bytes());
    put(bound, &500_i64.to_ne_bytes());
    put(bound + 8, &9_u64.to_ne_bytes());
    put(bound + 16, &15_000_u32.to_ne_bytes());
    put(bound + 20, &status.to_ne_bytes());
    put(bound + 24, &[u8::from(looks_for_disruptions)]);
    if version != 2 {
        put(16, &AS_OF_TICKS.to_ne_bytes());
        put(56, &(1_u64 << 63).to_ne_bytes());
        put(64, &(1_u64 << 62).to_ne_bytes());
        put(97, &[30, 18]);
    }
    Segment(bytes)
}

/// A second after the segment, by a clock that is 7 us behind UTC, with this marker.
fn moment(marker: u64) -> Moment {
    let ticks = AS_OF_TICKS + (1 << 31);
    let realtime_ns = AS_OF_NS + 1_000_000_000 - 7_000;
    Moment {
        ticks: Some(ticks),
        realtime_ns,
        marker,
        ..tests::moment(0)
    }
}

/// The time of a tick by `CLOCK_MONOTONIC_RAW`, 20 to 21 ppm longer than by UTC.
const RATE: Interval<u64> = Interval::between(
    2_000_040_000 << (SLOPE_BITS - 32),
    2_000_042_000 << (SLOPE_BITS - 32),
);

fn answer(segment: &Segment, marker: u64) -> Option<SourceAnswer> {
    segment.report(&moment(marker), Some(RATE), 7_000, AS_OF_NS + 1_000_000_000)
}

#[test]
fn version_2_bounds_the_os_clock_by_the_daemons_bound_and_drift() {
    let report = answer(&segment(2, SYNCHRONISED, true), 9).unwrap().unwrap();
    let bound_ns = 500 + 15_000 + 1;
    assert_eq!(
        (report.offset_ns, report.valid_ns),
        (Interval::between(-bound_ns, bound_ns), 999_000_000_000)
    );
    assert_eq!(report.rates_ppb, unknown_rates_ppb(7_000));
}

#[test]
fn a_bound_of_0_only_grows() {
    let mut segment = segment(2, SYNCHRONISED, true);
    let (_, bound) = places(2);
    segment.0[bound..bound + 8].fill(0);
    let report = answer(&segment, 9).unwrap().unwrap();
    assert_eq!(report.offset_ns, Interval::around(0, 15_000 + 1));
}

#[test]
fn version_3_is_the_daemons_line_by_the_counter() {
    let report = answer(&segment(0x0303, FREE_RUNNING, true), 9)
        .unwrap()
        .unwrap();
    // 2^-20 is 954 ppb, rounded up.
    let bound_ns = 500 + 15_000 + 954 + 1 + 2;
    let offset_ns = Interval::between(7_000 - bound_ns, 7_000 + bound_ns);
    assert_eq!(
        (report.offset_ns, report.valid_ns),
        (offset_ns, 999_000_000_000)
    );
    // 2^31 ticks are a second by the daemon, and 20 ppm more by `CLOCK_MONOTONIC_RAW`, whose
    // measurement may be off by 2 ppm.
    let rate_ppb = -19_999;
    let drift_ppb = 15_000 + 954 + 1_999 + WANDER_PPB + 2;
    assert_eq!(
        report.rates_ppb,
        Interval::between(rate_ppb - drift_ppb, rate_ppb + drift_ppb)
    );
}

const VERSIONS: [u16; 2] = [2, 0x0303];

/// The answer of a daemon that checks the marker, in this status, when the machine has `marker`.
/// The segment has the marker 9.
fn answer_in(version: u16, status: u32, marker: u64) -> Option<Result<(), UtcUnknown>> {
    let answer = answer(&segment(version, status, true), marker);
    answer.map(|answer| answer.map(|_| ()))
}

#[test]
fn a_segment_from_before_a_move_of_the_machine_says_that_it_was_disrupted() {
    for version in VERSIONS {
        assert_eq!(answer_in(version, SYNCHRONISED, 9), Some(Ok(())));
        let moved = answer_in(version, SYNCHRONISED, 8);
        assert_eq!(moved, Some(Err(UtcUnknown::Disrupted)), "{version}");
    }
}

#[test]
fn a_daemon_that_was_disrupted_says_so_also_without_a_marker() {
    for version in VERSIONS {
        for marker in [9, NO_MARKER] {
            let disrupted = answer_in(version, DISRUPTED, marker);
            assert_eq!(disrupted, Some(Err(UtcUnknown::Disrupted)), "{version}");
        }
    }
}

#[test]
fn a_daemon_in_another_status_is_unsynchronised() {
    for version in VERSIONS {
        for status in [0, 4, u32::MAX] {
            let other = answer_in(version, status, 9);
            let why = Unbounded::ClockBoundStatus { status };
            let expected = UtcUnknown::Unsynchronised(UtcSource::ClockBound, why);
            assert_eq!(other, Some(Err(expected)));
        }
    }
}

/// It would not notice a move.
#[test]
fn a_process_that_cannot_read_the_marker_gets_no_claim() {
    for version in VERSIONS {
        assert_eq!(answer_in(version, SYNCHRONISED, NO_MARKER), None);
    }
}

#[test]
fn the_marker_of_a_daemon_that_does_not_check_it_does_not_count() {
    for version in VERSIONS {
        let claim = answer(&segment(version, SYNCHRONISED, false), 8);
        assert!(claim.unwrap().is_ok(), "{version}");
    }
}

/// The answer of a good segment in which the byte at `at` is another one.
fn answer_with(version: u16, at: usize, byte: u8) -> Option<SourceAnswer> {
    let mut wrong = segment(version, SYNCHRONISED, true);
    wrong.0[at] = byte;
    answer(&wrong, 9)
}

#[test]
fn another_file_is_no_segment() {
    assert_eq!(
        VERSIONS.map(|version| answer_with(version, 0, 0)),
        [None; 2]
    );
}

#[test]
fn a_segment_of_an_unknown_version_is_no_claim() {
    for version in VERSIONS {
        assert_eq!(answer_with(version, 12, 4), None);
        assert_eq!(answer_with(version, 13, 1), None);
    }
}

/// The generation is 0.
#[test]
fn a_segment_that_was_never_complete_is_no_claim() {
    assert_eq!(
        VERSIONS.map(|version| answer_with(version, 14, 0)),
        [None; 2]
    );
}

#[test]
fn a_negative_bound_is_no_claim() {
    for version in VERSIONS {
        let (_, bound) = places(version);
        assert_eq!(answer_with(version, bound + 7, 0x80), None, "{version}");
    }
}

/// 2^31 ppb and more: the bound would grow faster than the time.
#[test]
fn a_drift_of_a_second_in_a_second_is_no_claim() {
    for version in VERSIONS {
        let (_, bound) = places(version);
        assert_eq!(answer_with(version, bound + 19, 0x80), None, "{version}");
    }
}

#[test]
fn a_segment_that_is_void_since_it_was_written_has_expired() {
    for version in VERSIONS {
        let (times, _) = places(version);
        let mut void = segment(version, SYNCHRONISED, true);
        void.0.copy_within(times..times + 16, times + 16);
        assert_eq!(answer(&void, 9), Some(Err(UtcUnknown::Expired)));
    }
}

/// It is from before the last boot.
#[test]
fn a_segment_from_the_future_is_no_claim() {
    let by_os = segment(2, SYNCHRONISED, true);
    assert_eq!(by_os.report(&moment(9), None, 0, AS_OF_NS - 1), None);
    let by_counter = segment(0x0303, SYNCHRONISED, true);
    let at = Moment {
        ticks: Some(AS_OF_TICKS - 1),
        ..moment(9)
    };
    assert_eq!(by_counter.report(&at, Some(RATE), 0, 0), None);
}

#[test]
fn version_3_makes_no_claim_without_the_counter_or_its_rate() {
    let by_counter = segment(0x0303, SYNCHRONISED, true);
    let without_counter = Moment {
        ticks: None,
        ..moment(9)
    };
    assert_eq!(by_counter.report(&without_counter, Some(RATE), 0, 0), None);
    assert_eq!(by_counter.report(&moment(9), None, 0, 0), None);
}

/// The two versions give one measurement different numbers. After a suspend version 2 answers,
/// until the counter's rate is known again. Symptom: its number was taken for a measurement that the
/// daemon had made since the suspend, so its claim was believed.
#[test]
fn both_versions_of_a_segment_are_one_measurement() {
    let mut maker = ClaimMaker::default();
    let mut source = |ms: i64, suspended_ns: i64| {
        let raw_ns = ms * 1_000_000;
        let ticks = AS_OF_TICKS + (ms.unsigned_abs() << 31) / 1_000;
        let realtime_ns = AS_OF_NS + raw_ns + suspended_ns;
        let at = Moment {
            raw_ns,
            ticks: Some(ticks),
            realtime_ns,
            suspended_ns,
            ..tests::moment(0)
        };
        let answers = [0x0303, 2].map(|version| {
            let mut segment = segment(version, SYNCHRONISED, false);
            if version == 2 {
                // The times are by `CLOCK_MONOTONIC`.
                segment.0[16..24].copy_from_slice(&5_000_i64.to_ne_bytes());
                segment.0[32..40].copy_from_slice(&6_000_i64.to_ne_bytes());
            }
            segment.report(&at, maker.rate.slopes, 0, 5_000_000_000_000 + raw_ns)
        });
        let claim = tests::next_claim(
            &mut maker,
            &at,
            answers[0].or(answers[1]).unwrap(),
            2_000_000_000,
        );
        claim.and_then(|claim| claim.source)
    };
    assert_eq!(
        [100, 200].map(|ms| source(ms, 0)),
        [Some(UtcSource::ClockBound); 2]
    );
    assert_eq!(
        [210, 230, 1_000].map(|ms| source(ms, 3_600_000_000_000)),
        [None; 3]
    );
}

proptest! {
    #[test]
    fn no_segment_makes_the_thread_panic(
        tail in proptest::collection::vec(prop_oneof![Just(0_u8), Just(0xFF_u8), any::<u8>()], BYTES - 16),
        is_new: bool,
        slowest: u64,
        fastest: u64,
        ticks: u64,
        steered_ppb: i64,
        monotonic_ns: i64,
    ) {
        let mut odd = segment(if is_new { 0x0303 } else { 2 }, 0, false);
        odd.0[16..].copy_from_slice(&tail);
        odd.0[if is_new { 92 } else { 68 }..][..4].copy_from_slice(&SYNCHRONISED.to_ne_bytes());
        let moment = Moment { ticks: Some(ticks), ..moment(1) };
        let rate = Interval::between(slowest, fastest);
        if let Some(Ok(report)) = odd.report(&moment, Some(rate), steered_ppb, monotonic_ns) {
            prop_assert!(report.offset_ns.width() >= 0 && report.valid_ns > 0);
        }
    }

    /// The time of the daemon's line, to a nanosecond, for any frequency and up to a day.
    #[test]
    fn the_daemons_line_is_as_exact_as_its_words(
        period in 1_u64 << 63..,
        shift in 20..34_u8,
        since in 0..1_u64 << 45,
    ) {
        let mut segment = segment(0x0303, SYNCHRONISED, false);
        segment.0[56..64].copy_from_slice(&period.to_ne_bytes());
        segment.0[97] = shift;
        segment.0[40..48].copy_from_slice(&9_000_000_000_i64.to_ne_bytes());
        let moment = Moment { ticks: Some(AS_OF_TICKS + since), ..moment(NO_MARKER) };
        let report = segment.report(&moment, Some(Interval::at(1 << 32)), 0, 0);
        // Multiplied by halves: (high * 2^32 + low) * since * 10^9 / 2^(64 + shift).
        let times_since = |half: u64| u128::from(half) * u128::from(since);
        let product = times_since(period >> 32) + (times_since(period & 0xFFFF_FFFF) >> 32);
        let exact_ns = i64::try_from((product * 1_000_000_000) >> (32 + shift)).unwrap();
        if let Some(Ok(report)) = report {
            let centre_ns = i64::midpoint(report.offset_ns.min, report.offset_ns.max);
            let expected_ns = AS_OF_NS + exact_ns - moment.realtime_ns;
            prop_assert!(centre_ns.abs_diff(expected_ns) <= 1, "{} {}", centre_ns, expected_ns);
        } else {
            // The segment is so old that its own errors void it.
            prop_assert!(exact_ns > 9_000_000_000_000_000, "{}", exact_ns);
        }
    }
}

/// What is read of a file with these bytes.
#[cfg(all(target_os = "linux", not(miri)))]
fn read_of(name: &str, bytes: &[u8]) -> Option<Segment> {
    let file = format!("tickline-clock-bound-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(file);
    std::fs::write(&path, bytes).unwrap();
    let read = Segment::read(path.to_str().unwrap());
    std::fs::remove_file(&path).unwrap();
    read
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_file_of_the_daemon_is_read_whole() {
    let written = segment(0x0303, SYNCHRONISED, true);
    assert_eq!(read_of("whole", &written.0), Some(written));
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn the_end_of_a_shorter_layout_reads_as_zeros() {
    let mut written = segment(2, SYNCHRONISED, true);
    written.0[80..].fill(0);
    assert_eq!(read_of("short", &written.0[..80]), Some(written));
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_segment_that_the_daemon_is_writing_is_not_read() {
    let mut written = segment(0x0303, SYNCHRONISED, true);
    written.0[14..16].copy_from_slice(&5_u16.to_ne_bytes());
    assert_eq!(read_of("written", &written.0), None);
}
