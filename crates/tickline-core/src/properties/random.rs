//! Tests of the arithmetic with random values of every size.
//!
//! A failure prints the smallest case found, and writes its seed to
//! `random.proptest-regressions`, which is tried first from then on: commit it.
//! `PROPTEST_CASES=100000` tries more (cheap properties multiply it).

use crate::discipline::Steering;
use crate::estimate::Target;
use crate::line::{Line, Slope};
use crate::sample::{ReferenceKind, Resolutions};
use crate::state::MAX_SHIFT;
use crate::units::{FRACTION_BITS, FixedNs};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use super::estimate::Hostile;
use super::state::Oracle;
use super::{discipline, estimate, line, state};

/// Proptest's number of cases (256, or that of the environment) times `diligence`. Targets whose
/// tests may run in an emulator do not multiply it, because integers are the same everywhere.
fn config(diligence: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    let diligence = if cfg!(target_arch = "x86_64") { diligence } else { 1 };
    ProptestConfig {
        cases: usual.cases.saturating_mul(diligence),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..usual
    }
}

/// Numbers of all sizes, each equally likely, and numbers at powers of two.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| bits >> shift),
        1 => (0..64_u32).prop_map(|shift| 1 << shift),
        1 => (0..64_u32).prop_map(|shift| u64::MAX >> shift),
    ]
}

fn signed_number() -> impl Strategy<Value = i64> {
    prop_oneof![
        (number(), any::<bool>()).prop_map(|(bits, negative)| {
            let size = (bits >> 1).cast_signed();
            if negative { -size } else { size }
        }),
        Just(i64::MIN),
    ]
}

fn fixed() -> impl Strategy<Value = FixedNs> {
    prop_oneof![
        4 => (signed_number(), -2..3_i128).prop_map(|(ns, more)| above(FixedNs::from_ns(ns), more)),
        6 => (any::<i128>(), 0..128_u32).prop_map(|(bits, shift)| FixedNs::from_bits(bits >> shift)),
        1 => (0..3_i128).prop_map(|more| FixedNs::from_bits(i128::MIN + more)),
    ]
}

fn above(fixed: FixedNs, more: i128) -> FixedNs {
    fixed.plus(FixedNs::from_bits(more))
}

fn slope() -> impl Strategy<Value = Slope> {
    number().prop_map(|bits| Slope { bits })
}

/// Slopes of counters that exist, from `min_log_hz` to 16 GHz. 14.0 is 15.3 kHz.
fn usual_slope(min_log_hz: f64) -> impl Strategy<Value = Slope> {
    (min_log_hz..34.0).prop_filter_map("too slow", |log_hz| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^34, positive")]
        let hz = log_hz.exp2() as u64;
        Slope::from_hz(hz)
    })
}

fn any_line() -> impl Strategy<Value = Line> {
    (number(), signed_number(), slope()).prop_map(|(start_ticks, base_ns, slope)| Line {
        start_ticks,
        base_ns,
        slope,
    })
}

/// A state without a line, and a state with the next line, of a counter that is fast enough for the
/// shift.
fn beginning() -> impl Strategy<Value = (Oracle, Oracle)> {
    (any::<u8>(), 0..=MAX_SHIFT, any::<bool>()).prop_flat_map(|(tag, shift, serves)| {
        let any = number().prop_map(move |bits| (bits % (1 << (FRACTION_BITS + shift))).max(1 << shift));
        let slope = prop_oneof![any.prop_map(|bits| Slope { bits }), usual_slope(30.0 - f64::from(shift))];
        let before = Oracle::without_line(tag & 15, shift);
        slope.prop_map(move |slope| (before, before.next(slope, serves).expect("fast enough")))
    })
}

/// A line in use, some centuries around zero at a tick anywhere on the counter.
fn line_in_use() -> impl Strategy<Value = (Oracle, u64)> {
    (beginning(), number(), -(1_i64 << 61)..1 << 61)
        .prop_map(|((_, oracle), ticks, ns)| (oracle.with_b(ns.wrapping_sub(oracle.line.at(ticks))), ticks))
}

/// Slopes near `slope`, as the next line has them, and distant slopes.
fn next_slope(slope: Slope) -> impl Strategy<Value = Slope> {
    prop_oneof![
        (-1_000_000..1_000_000_i64).prop_map(move |ppb| slope.adjusted_ppb(ppb)),
        (-2_000..2_000_i128).prop_map(move |more| Slope::saturating_from(i128::from(slope.bits) + more)),
        Just(Slope { bits: slope.bits >> 1 }),
        usual_slope(14.0),
    ]
}

/// An old line, a tick on it, and a target around there.
fn meeting() -> impl Strategy<Value = (Oracle, u64, Target)> {
    line_in_use().prop_flat_map(|(old, at)| {
        let target = (next_slope(old.slope()), signed_number(), 0..64_u32, 0..1_u64 << 34).prop_map(
            move |(slope, ahead, shift, age)| {
                let ticks = at.wrapping_sub(age);
                Target { ticks, ns: above(old.line.fixed_at(ticks), i128::from(ahead) << shift), slope }
            },
        );
        (Just(old), Just(at), target)
    })
}

fn hostile() -> impl Strategy<Value = Hostile> {
    prop_oneof![
        1 => ([number(), number()], [signed_number(), signed_number()])
            .prop_map(|(ticks, ns)| Hostile::Anywhere(ticks, ns)),
        4 => any::<(u32, i32, i16)>().prop_map(|(gap, ns, width)| Hostile::After(gap, ns, width)),
        1 => Just(Hostile::After(0, 0, 0)),
    ]
}

proptest! {
    // A case takes microseconds, and an error may show in only one case of a thousand.
    #![proptest_config(config(16))]

    #[test]
    fn conversion_is_exact_or_saturates_everywhere((line, ticks) in (any_line(), number())) {
        for ticks in [ticks, line.start_ticks.wrapping_sub(ticks), line.start_ticks.wrapping_add(ticks)] {
            line::check_conversion(&line, ticks);
        }
    }

    #[test]
    fn frequencies_convert_both_ways((hz, slope) in (number(), slope())) {
        line::check_frequency(hz, slope);
        if let Some(slope) = Slope::from_hz(hz) {
            line::check_frequency(hz, slope);
        }
    }

    #[test]
    fn spans_of_ticks_and_of_time((slope, ticks, ns) in (slope(), signed_number(), number())) {
        line::check_spans(slope, ticks, ns);
    }

    #[test]
    fn relative_changes((slope, other, ppb, raw) in (slope(), slope(), signed_number(), any::<i128>())) {
        line::check_ppb(slope, other, ppb, raw >> (ppb & 127));
        line::check_ppb(slope.adjusted_ppb(ppb), slope, ppb % 1_000_000_000, raw);
    }

    #[test]
    fn fixed_point_values_keep_their_direction((fixed, other, ns) in (fixed(), fixed(), signed_number())) {
        line::check_fixed(fixed, other, ns);
        line::check_fixed(fixed, FixedNs::from_bits(i128::from(ns)), 1);
    }

    #[test]
    fn states_have_what_they_were_made_of(
        ((before, line), b, high_water) in (beginning(), signed_number(), signed_number())
    ) {
        state::check_life(&before, &line.with_b(b), high_water);
    }

    #[test]
    fn a_line_is_exact_at_every_tick_in_every_phase(
        ((oracle, _), b, ticks, ns) in (line_in_use(), signed_number(), number(), fixed())
    ) {
        state::check_conversion(&oracle.with_b(b), !ticks, ns);
        // At the line itself `b` must be the line's, and for the smallest step above it one more.
        for ns in [ns, oracle.line.fixed_at(ticks), above(oracle.line.fixed_at(ticks), 1)] {
            state::check_conversion(&oracle, ticks, ns);
        }
    }

    #[test]
    fn rule_9_a_line_is_put_above_any_other(((old, _), ticks, serves, raw) in (line_in_use(), number(), any::<bool>(), number())) {
        let near = Slope { bits: old.slope().bits ^ raw >> 32 };
        for slope in [Slope { bits: raw }, old.slope(), near] {
            if let Some(new) = old.next(slope, serves) {
                state::check_not_below(&new, &old, ticks);
            }
        }
    }

    #[test]
    fn rule_11_steering_goes_forward_and_never_below_half_the_rate(
        ((old, at, target), window) in (meeting(), number())
    ) {
        discipline::check_steer(&old, at, &target, window);
        discipline::check_steer(&old, at, &target, window & 0xffff_ffff);
    }

    #[test]
    fn rule_2_a_line_that_joins_is_not_below_the_old_one(
        ((old, at, target), window, margin, probe)
            in (meeting(), 0..1_u64 << 36, 0..1_u64 << 20, any::<u64>())
    ) {
        let steering = discipline::check_steer(&old, at, &target, window);
        discipline::check_meeting(&old, &steering, at, margin, probe);
        // The slopes differ minimally or not at all. With the old slope the old line must result,
        // also for a step to below it, and a line a nanosecond higher for the smallest step up.
        let step_by = |units| (old.slope(), Some(above(old.line.fixed_at(at), units)));
        for (slope, step_to) in [(target.slope, None), (old.slope(), None), step_by(-5_000 << 48), step_by(1)] {
            let steering = Steering { slope, step_to, offset: FixedNs::ZERO };
            discipline::check_meeting(&old, &steering, at, margin, probe);
        }
    }

    #[test]
    fn rule_7_a_first_line_is_above_reference_and_high_water_mark(
        ((oracle, at, target), since_start, high_water, probe)
            in (meeting(), number(), signed_number(), any::<u64>())
    ) {
        let start = at.wrapping_sub(since_start & (Line::MAX_DELTA_TICKS >> 8));
        let Some(next) = oracle.next(target.slope, true) else { return Ok(()) };
        let near = oracle.line.at(at).saturating_add(high_water >> 32);
        // A whole `b` meets this limit exactly, but not the next larger limit.
        let exact = next.line.fixed_at(at);
        for (from, high_water) in
            [(target.fixed_at(at), high_water), (target.fixed_at(at), near), (exact, i64::MIN), (above(exact, 1), i64::MIN)]
        {
            discipline::check_recover(&next, from, high_water, start, at, probe);
        }
    }

    #[test]
    fn a_bracket_is_two_points(
        (before, after, time_ns, counter_ticks, reference_ns)
            in (number(), number(), signed_number(), number(), signed_number())
    ) {
        let resolutions = Resolutions { counter_ticks, reference_ns, reference_kind: ReferenceKind::Independent };
        estimate::check_bracket(before, time_ns, after, resolutions);
        estimate::check_bracket(before, time_ns, before.wrapping_add(after >> 20), resolutions);
    }
}

proptest! {
    // A case takes some milliseconds.
    #![proptest_config(config(1))]

    #[test]
    fn a_history_endures_any_samples(
        (samples, slope, max_drift_ppb, interval)
            in (prop::collection::vec(hostile(), 1..40), slope(), any::<u32>(), number())
    ) {
        estimate::check_hostile(&samples, slope, max_drift_ppb, interval);
    }
}
