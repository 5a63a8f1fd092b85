//! Tests of the single judgements of the monitor. `control/tests/` has those of whole runs.

use super::*;

#[test]
fn the_largest_change_leads_from_the_slowest_kernel_to_the_fastest() {
    let [second, slew, change] = [
        NS_PER_S,
        MAX_KERNEL_SLEW_PPB.unsigned_abs(),
        MAX_RATE_CHANGE_PPB,
    ]
    .map(u128::from);
    let fastest = |change| (second - slew) * (second + change);
    let wanted = (second + slew) * second;
    assert!(fastest(change - 1) < wanted && wanted <= fastest(change));
}

#[test]
fn the_slope_is_as_uncertain_as_dither_may_make_it() {
    let ghz = Slope::from_hz(1_000_000_000).unwrap();
    let fit = |min_ppb, max_ppb| Fit {
        slope_min: ghz.adjusted_ppb(min_ppb),
        slope_max: ghz.adjusted_ppb(max_ppb),
        is_exact: true,
    };
    let seen = fit(-10, 10);
    for (within, expected_ppb) in [
        (None, 10),
        (Some(fit(-10, 10)), 10),
        (Some(fit(-30, 12)), 30),
        (Some(fit(-12, 30)), 30),
        // The dither's rate limits the error of the rate between two samples.
        (Some(fit(-90_000, 90_000)), 10 + 480),
    ] {
        let found_ppb = rate_uncertainty_ppb(&seen, within.as_ref());
        assert!(
            found_ppb.abs_diff(expected_ppb) <= 1,
            "{within:?}: {found_ppb}, not {expected_ppb}"
        );
    }
}

fn ghz() -> Slope {
    Slope::from_hz(1_000_000_000).unwrap()
}

/// A sample of 30 ns, whose lower point is at `ticks`, of a reference that agrees with the counter.
fn sample_at(ticks: u64) -> Sample {
    let ns = ticks.cast_signed();
    Sample::from_bracket(ticks - 30, ns - 15, ticks, crate::testing::RESOLUTIONS).unwrap()
}

#[test]
fn a_change_of_rate_by_the_smallest_jump_is_no_jump() {
    let excess_ns = 2 * MIN_JUMP_NS;
    let is_jump = |ppb| {
        let age_ns = excess_ns * u128::from(NS_PER_S) / ppb;
        Contradiction { excess_ns, age_ns }.is_jump()
    };
    assert!(!is_jump(MIN_JUMP_PPB));
    assert!(is_jump(MIN_JUMP_PPB + 1));
}

#[test]
fn a_distance_of_the_smallest_jump_is_no_jump() {
    let is_jump = |excess_ns| {
        let age_ns = 1;
        Contradiction { excess_ns, age_ns }.is_jump()
    };
    assert!(!is_jump(MIN_JUMP_NS));
    assert!(is_jump(MIN_JUMP_NS + 1));
}

/// Whether the slope is known to a monitor that has watched for `watched_ns`, and whose only sample
/// is from `gap_ns` ago.
fn watching(watched_ns: u64, gap_ns: u64) -> bool {
    let mut monitor = StabilityMonitor::new();
    monitor.since_ticks = 1 << 40;
    let now_ticks = monitor.since_ticks + watched_ns;
    monitor.history.push(sample_at(now_ticks - gap_ns));
    monitor.knows_slope_at(now_ticks, ghz())
}

#[test]
fn the_slope_is_known_after_a_gap_of_a_sixteenth_of_the_time_watched() {
    assert!(watching(160_000_000, 10_000_000));
    assert!(!watching(159_999_000, 10_000_000));
}

#[test]
fn the_slope_is_unknown_before_the_kernels_tick() {
    assert!(watching(DITHER_AFTER_NS, 100));
    assert!(!watching(DITHER_AFTER_NS - 1, 100));
}

#[test]
fn the_range_of_a_known_slope_is_as_wide_as_the_sample() {
    let mut monitor = StabilityMonitor::new();
    let sample = sample_at(1 << 40);
    monitor.history.push(sample);
    monitor.fit = Some(Fit {
        slope_min: ghz(),
        slope_max: ghz(),
        is_exact: true,
    });
    let found = monitor.uncertainty_at((1 << 40) + 1_000);
    assert_eq!(found, Some(sample.width(ghz())));
}

/// The lines that a fit finds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Found {
    /// A line through all samples.
    Exact,
    /// Such a line only if the reference's dither explains the distances.
    WithinDither,
    /// Not even that.
    Inexact,
}

/// The assumed change of rate, ppb, after a fit that `found` this, and `dropped` so many samples.
fn assumed_after(found: Found, dropped: usize) -> u64 {
    let mut monitor = StabilityMonitor::new();
    monitor.history.push(sample_at(1 << 40));
    let fit = |is_exact| Fit {
        slope_min: ghz(),
        slope_max: ghz(),
        is_exact,
    };
    let within = (found == Found::WithinDither).then(|| fit(true));
    let events = EventCounters::default();
    monitor.add_fit(
        Some(&fit(found == Found::Exact)),
        within.as_ref(),
        dropped,
        &events,
    );
    monitor.assumed_change.ppb
}

#[test]
fn a_line_through_all_samples_changes_no_assumption() {
    assert_eq!(assumed_after(Found::Exact, 0), INITIAL_RATE_CHANGE_PPB);
}

#[test]
fn a_line_within_the_dither_changes_no_assumption() {
    assert_eq!(
        assumed_after(Found::WithinDither, 0),
        INITIAL_RATE_CHANGE_PPB
    );
}

#[test]
fn a_line_that_not_even_dither_explains_doubles_the_assumed_change() {
    assert_eq!(
        assumed_after(Found::Inexact, 0),
        2 * INITIAL_RATE_CHANGE_PPB
    );
}

#[test]
fn a_sample_that_was_dropped_doubles_the_assumed_change() {
    assert_eq!(assumed_after(Found::Exact, 1), 2 * INITIAL_RATE_CHANGE_PPB);
}
