//! The arithmetic against an oracle in integers without limits, with random values of every size.
//!
//! A failure prints the smallest case found, and writes its seed to
//! `arithmetic.proptest-regressions`, which is tried first from then on: commit it.
//! `PROPTEST_CASES=100000` tries more (cheap properties multiply it).
#![cfg(not(miri))] // there is no unsafe code below, and Miri would take an hour

mod properties;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tickline_core::sample::Resolutions;
use tickline_core::unstable::discipline::Steering;
use tickline_core::unstable::estimate::Target;
use tickline_core::unstable::line::{Line, MAX_DELTA_TICKS, Slope};
use tickline_core::unstable::units::{FixedNs, fixed_from_ns, signed};
use tickline_core::unstable::word::Word;

use properties::{discipline, estimate, line, word};

/// Proptest's own number of cases (256, or the environment's), times `diligence`; once where this
/// may run in an emulator, because integers are the same everywhere.
fn config(diligence: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    let diligence = if cfg!(target_arch = "x86_64") { diligence } else { 1 };
    ProptestConfig {
        cases: usual.cases.saturating_mul(diligence),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..usual
    }
}

/// Numbers of every size, each as likely as the others, and their neighbours at powers of two.
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
            let size = signed(bits >> 1);
            if negative { -size } else { size }
        }),
        Just(i64::MIN),
    ]
}

fn fixed() -> impl Strategy<Value = FixedNs> {
    prop_oneof![
        4 => (signed_number(), -2..3_i128).prop_map(|(ns, more)| fixed_from_ns(ns) + more),
        4 => (signed_number(), number()).prop_map(|(ns, more)| fixed_from_ns(ns) + i128::from(more)),
        1 => any::<i128>(),
        1 => (0..3_i128, any::<bool>()).prop_map(|(more, top)| if top { i128::MAX - more } else { i128::MIN + more }),
    ]
}

fn slope() -> impl Strategy<Value = Slope> {
    number().prop_map(Slope::from_bits)
}

/// Slopes of counters that exist, 15.3 kHz to 16 GHz.
fn usual_slope() -> impl Strategy<Value = Slope> {
    (14.0..34.0_f64).prop_filter_map("too slow", |log_hz| {
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

/// A line in use: anywhere on the counter, some centuries around zero, with a usual slope.
fn usual_line() -> impl Strategy<Value = Line> {
    (any::<u64>(), -(1_i64 << 61)..1 << 61, usual_slope()).prop_map(|(start_ticks, base_ns, slope)| Line {
        start_ticks,
        base_ns,
        slope,
    })
}

fn delta() -> impl Strategy<Value = u64> {
    number().prop_map(|ticks| ticks & MAX_DELTA_TICKS)
}

/// Slopes near `slope`, as the next line has them; and far away ones.
fn next_slope(slope: Slope) -> impl Strategy<Value = Slope> {
    prop_oneof![
        (-1_000_000..1_000_000_i64).prop_map(move |ppb| slope.adjusted_ppb(ppb)),
        (-2_000..2_000_i128).prop_map(move |more| Slope::saturating_from(i128::from(slope.to_bits()) + more)),
        Just(Slope::from_bits(slope.to_bits() >> 1)),
        usual_slope(),
    ]
}

/// An old line, a tick on it, and a target around there.
fn meeting() -> impl Strategy<Value = (Line, u64, Target)> {
    (usual_line(), number()).prop_flat_map(|(old, delta)| {
        let at = old.start_ticks.wrapping_add(delta & (MAX_DELTA_TICKS >> 1));
        let target = (next_slope(old.slope), signed_number(), 0..64_u32, 0..1_u64 << 34).prop_map(
            move |(slope, ahead, shift, age)| {
                let ticks = at.wrapping_sub(age);
                Target { ticks, ns: old.fixed_at(ticks) + (i128::from(ahead) << shift), slope }
            },
        );
        (Just(old), Just(at), target)
    })
}

fn read() -> impl Strategy<Value = estimate::Read> {
    // Without delay, bounds touch the truth.
    let delay = || prop_oneof![2 => Just(0), 6 => 0..200_u32, 2 => 0..1_000_000_u32];
    (0..36_u32, any::<u64>(), delay(), delay(), any::<[u16; 3]>(), any::<u64>()).prop_map(
        |(size, gap, before_ticks, after_ticks, phases, rate)| estimate::Read {
            gap_ticks: gap >> (63 - size),
            before_ticks,
            after_ticks,
            phases,
            rate,
        },
    )
}

fn truth(max_drift_ppb: impl Strategy<Value = u32>) -> impl Strategy<Value = estimate::Truth> {
    let resolutions =
        (prop_oneof![Just(0), Just(1), Just(26), 0..1_000_u64], prop_oneof![Just(1), 1..300_i64]).prop_map(
            |(counter_ticks, reference_ns)| Resolutions { counter_ticks, reference_ns, resolution_ticks: 0 },
        );
    (usual_slope(), max_drift_ppb, any::<u64>(), -(1_i64 << 60)..1 << 60, resolutions).prop_map(
        |(slope, max_drift_ppb, ticks, ns, resolutions)| estimate::Truth {
            slope,
            max_drift_ppb,
            ticks,
            ns,
            resolutions,
        },
    )
}

proptest! {
    // Microseconds each, and an error may hide in one case of a thousand.
    #![proptest_config(config(16))]

    #[test]
    fn conversion_is_exact_in_the_window((line, delta) in (any_line(), delta())) {
        line::check_conversion(&line, line.start_ticks.wrapping_add(delta));
    }

    #[test]
    fn conversion_is_exact_or_saturates_everywhere((line, ticks) in (any_line(), number())) {
        line::check_conversion(&line, ticks);
        line::check_conversion(&line, line.start_ticks.wrapping_sub(ticks));
    }

    #[test]
    fn the_inverse_is_the_first_tick_that_reaches_a_value((line, ns) in (any_line(), signed_number())) {
        line::check_inverse(&line, ns);
        line::check_inverse(&line, line.base_ns.saturating_add(ns));
    }

    #[test]
    fn the_inverse_undoes_the_conversion((line, delta) in (usual_line(), delta())) {
        line::check_inverse(&line, line.at_any(line.start_ticks.wrapping_add(delta)));
        line::check_inverse(&line, line.at_any(line.start_ticks.wrapping_sub(delta)));
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

    /// Among them the frequencies of Windows' counter: 10 MHz, 3.58 MHz (ACPI), 14.3 MHz (HPET),
    /// 2.6 GHz over 1,024.
    #[test]
    fn counts_of_a_clock_of_any_frequency((counts, hz) in (number(), number())) {
        line::check_counts(counts, hz);
        for hz in [10_000_000, 3_579_545, 14_318_180, 2_535_352, 0] {
            line::check_counts(counts, hz);
        }
    }

    #[test]
    fn relative_changes((slope, other, ppb, raw) in (slope(), slope(), signed_number(), any::<i128>())) {
        line::check_ppb(slope, other, ppb, raw >> (ppb & 127));
        line::check_ppb(slope.adjusted_ppb(ppb), slope, ppb % 1_000_000_000, raw);
    }

    #[test]
    fn rounding_keeps_its_direction((fixed, ns) in (fixed(), signed_number())) {
        line::check_rounding(fixed, ns);
    }

    #[test]
    fn words_have_what_they_were_made_of((bits, at, margin, high_water) in (number(), number(), number(), number())) {
        let before = Word::from_bits(bits).without_line(bits);
        word::check_life(before, at, margin, high_water);
        word::check_life(before, before.start_ticks().wrapping_add(at), margin, high_water);
    }

    #[test]
    fn words_come_in_order((bits, ticks, margin_ticks) in (number(), number(), number())) {
        let word = Word::from_bits(bits);
        word::check_order(word, ticks, margin_ticks);
        word::check_order(word, word.start_ticks().wrapping_add(ticks).wrapping_sub(margin_ticks), margin_ticks);
    }

    #[test]
    fn steering_goes_forward_and_never_below_half_the_rate(
        ((old, at, target), horizon) in (meeting(), number())
    ) {
        discipline::check_steer(&old, at, &target, horizon);
        discipline::check_steer(&old, at, &target, horizon & 0xffff_ffff);
    }

    #[test]
    fn a_line_that_joins_is_not_below_the_old_one(
        ((old, at, target), horizon, since_start, margin, probe)
            in (meeting(), 0..1_u64 << 36, number(), 0..1_u64 << 20, any::<u64>())
    ) {
        let steering = discipline::check_steer(&old, at, &target, horizon);
        let start = at.wrapping_sub(since_start & (MAX_DELTA_TICKS >> 8));
        discipline::check_meeting(&old, &steering, start, at, margin, probe);
        // Starts as the control loop has them, and slopes that differ by next to nothing.
        let close = Steering { slope: target.slope, step_to: None, offset: 0 };
        discipline::check_meeting(&old, &close, at & !1023, at, margin, probe);
        // The old line itself must come out, and one a nanosecond above it for the smallest step.
        for step_to in [None, Some(old.fixed_at(at) + 1)] {
            let same = Steering { slope: old.slope, step_to, offset: 0 };
            discipline::check_meeting(&old, &same, old.start_ticks, at, margin, probe);
        }
    }

    #[test]
    fn a_first_line_is_above_reference_and_high_water_mark(
        ((line, at, target), since_start, high_water, probe)
            in (meeting(), number(), signed_number(), any::<u64>())
    ) {
        let start = at.wrapping_sub(since_start & (MAX_DELTA_TICKS >> 8));
        let marks = [high_water, line.at_any(at).saturating_add(high_water >> 32)];
        // A whole base meets this bound exactly, and the next one does not.
        let exact = fixed_from_ns(line.base_ns) + target.slope.over(signed(at.wrapping_sub(start)));
        for (most, high_water) in
            [(target.at(at), marks[0]), (target.at(at), marks[1]), (exact, i64::MIN), (exact + 1, i64::MIN)]
        {
            discipline::check_recover(most, high_water, target.slope, start, at, probe);
        }
    }

    #[test]
    fn gates_never_repeat_a_word((bits, high_water_ticks) in (number(), number())) {
        word::check_gates(Word::from_bits(bits & !15).without_line(high_water_ticks), 100);
    }

    #[test]
    fn a_bracket_is_two_points(
        (before, after, reference, counter_step, reference_step)
            in (number(), number(), signed_number(), number(), signed_number())
    ) {
        let resolutions = Resolutions { counter_ticks: counter_step, reference_ns: reference_step, resolution_ticks: 0 };
        estimate::check_bracket(before, reference, after, resolutions);
        estimate::check_bracket(before, reference, before.wrapping_add(after >> 20), resolutions);
    }
}

proptest! {
    // Some milliseconds each.
    #![proptest_config(config(1))]

    #[test]
    fn samples_of_a_steady_reference_contain_it(
        (truth, reads, ahead, horizon)
            in (truth(Just(0)), prop::collection::vec(read(), 1..40), 0..1_u64 << 36, 0..1_u64 << 36)
    ) {
        estimate::check_history(&truth, &reads, ahead, horizon);
    }

    #[test]
    fn the_bounds_contain_a_reference_within_the_maximum_drift(
        (truth, reads, ahead)
            in (truth(0..1_000_000_u32), prop::collection::vec(read(), 1..40), 0..1_u64 << 36)
    ) {
        estimate::check_history(&truth, &reads, ahead, 1);
    }
}
