//! The discipline: published line + target -> next line.
//!
//! The next line must never be below the old one where that may have been used, and it must reach
//! the target by the end of its horizon. It is straight. So it starts where the old line is, and
//! its slope is the target's plus what removes the offset within the horizon:
//!
//! - reference ahead by little: slew up; by more than [`STEP_PPB`] of the horizon: step forward
//!   to it;
//! - reference behind: slew down, never below half the target's rate. A clock cannot step back.
//!
//! Rounding (rule 9 of `DESIGN.md`): bases are computed from the quantised slopes in 128 bits and
//! rounded up. So the values do not decrease even after rounding down to whole nanoseconds.

use crate::estimate::Target;
use crate::line::{Line, Slope};
use crate::units::{FixedNs, NS_PER_S, fixed_from_ns, fixed_to_ns_ceil};

/// How much later than the writer's read of the counter a reader of the old line may have read
/// it, ns. The CPU may execute the second load of the word a little before the read of the
/// counter. Out-of-order windows end within a microsecond; 5 us leave room for a cache miss.
/// Raising the meeting point by this costs 0.5 ns at 100 ppm.
pub const MEETING_MARGIN_NS: u64 = 5_000;

/// Offsets above this share of the horizon are stepped forward instead of slewed, ppb: 250 us
/// over 0.5 s, the same 500 ppm that the kernel allows a PLL (`MAXFREQ`,
/// `include/linux/timex.h`).
pub const STEP_PPB: i64 = 500_000;

/// From this offset on something has disrupted line or reference, ns. An NTP daemon's slew of 500
/// ppm, which goes unnoticed until the next iteration, makes up to 0.5 ms in a window.
pub const DISRUPTED_NS: i64 = 1_000_000;

/// Where the next line goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steering {
    /// Its slope.
    pub slope: Slope,
    /// If set, the line starts at least here, above the old line: a step forward.
    pub step_to: Option<FixedNs>,
    /// Old line minus target, where the two lines meet.
    pub offset: FixedNs,
}

/// The slope that takes `old` from its value at `at_ticks` to the target within `horizon_ticks`.
#[must_use]
pub fn steer(old: &Line, at_ticks: u64, target: &Target, horizon_ticks: u64) -> Steering {
    let wanted = target.at(at_ticks);
    let offset = old.fixed_at(at_ticks).saturating_sub(wanted);
    let horizon = i128::from(horizon_ticks.max(1));
    let rate = i128::from(target.slope.to_bits());
    let step_above = target
        .slope
        .over(i64::try_from(horizon_ticks).unwrap_or(i64::MAX))
        .saturating_mul(i128::from(STEP_PPB))
        .checked_div(i128::from(NS_PER_S))
        .unwrap_or(0);
    if offset.saturating_neg() > step_above {
        return Steering { slope: target.slope, step_to: Some(wanted), offset };
    }
    // A positive offset (the line is ahead) bends the rate down, at most to half.
    let bend = offset.checked_div(horizon).unwrap_or(0).min(rate >> 1);
    Steering { slope: Slope::saturating_from(rate.saturating_sub(bend)), step_to: None, offset }
}

/// The line with the given slope that starts at `start_ticks` (at or before `at_ticks`) and is
/// nowhere below `old` up to `margin_ticks` after `at_ticks`, nor below `step_to` there.
///
/// That counts from the start or from `margin_ticks` before `at_ticks`, whichever is later: a
/// plain read of the counter may be executed before the state is loaded, and so pair the new line
/// with a tick before `at_ticks`.
#[must_use]
pub fn join(old: &Line, steering: &Steering, start_ticks: u64, at_ticks: u64, margin_ticks: u64) -> Line {
    let from_start = Line { start_ticks, base_ns: 0, slope: steering.slope };
    // Both lines are straight, so comparing at both ends of the overlap covers what lies between.
    let needed = |ticks: u64| old.fixed_at(ticks).saturating_sub(from_start.fixed_at(ticks));
    let early = at_ticks.wrapping_sub(at_ticks.wrapping_sub(start_ticks).min(margin_ticks));
    let mut base = needed(early).max(needed(at_ticks.wrapping_add(margin_ticks)));
    if let Some(step_to) = steering.step_to {
        base = base.max(step_to.saturating_sub(from_start.fixed_at(at_ticks)));
    }
    Line { base_ns: fixed_to_ns_ceil(base), ..from_start }
}

/// The first line after a time without one: at `at_ticks` not below `most`, and nowhere below the
/// high-water mark (the CPU may execute a plain read of the counter before it loads the state,
/// and so read a tick before `at_ticks`).
#[must_use]
pub fn recover(most: FixedNs, high_water_ns: i64, slope: Slope, start_ticks: u64, at_ticks: u64) -> Line {
    let from_start = Line { start_ticks, base_ns: 0, slope };
    let base = most.saturating_sub(from_start.fixed_at(at_ticks)).max(fixed_from_ns(high_water_ns));
    Line { base_ns: fixed_to_ns_ceil(base), ..from_start }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::fixed_to_ns_round;

    fn ghz() -> Slope {
        Slope::from_hz(1_000_000_000).unwrap()
    }

    const OLD_START: u64 = 1_000_000;
    const HORIZON: u64 = 500_000_000;

    fn old() -> Line {
        Line { start_ticks: OLD_START, base_ns: 5_000_000, slope: ghz() }
    }

    /// A target whose offset from `old` at `at` is `-ahead_ns` (the reference is ahead of the
    /// line).
    fn target(at: u64, ahead_ns: i64, ppb: i64) -> Target {
        Target { ticks: at, ns: old().fixed_at(at) + fixed_from_ns(ahead_ns), slope: ghz().adjusted_ppb(ppb) }
    }

    #[test]
    fn small_offsets_are_gone_after_one_horizon() {
        let at = OLD_START + HORIZON;
        for offset_ns in [-200_000, -1_000, -7, 0, 7, 1_000, 200_000] {
            let target = target(at, offset_ns, 300);
            let steering = steer(&old(), at, &target, HORIZON);
            assert_eq!(steering.step_to, None, "{offset_ns}");
            let line = join(&old(), &steering, at & !1023, at, 5_000);
            let left = line.fixed_at(at + HORIZON) - target.at(at + HORIZON);
            assert!(
                (-1..=4).contains(&fixed_to_ns_round(left)),
                "{offset_ns}: {} ns left",
                fixed_to_ns_round(left)
            );
        }
    }

    #[test]
    fn a_large_lag_is_stepped_forward() {
        let at = OLD_START + HORIZON;
        let target = target(at, 1_000_000, 0);
        let steering = steer(&old(), at, &target, HORIZON);
        let line = join(&old(), &steering, at & !1023, at, 5_000);
        assert_eq!(line.at(at) - old().at(at), 1_000_000);
        assert_eq!(steering.slope, target.slope);
    }

    #[test]
    fn a_large_lead_is_slewed_at_half_rate_never_stepped_back() {
        let at = OLD_START + HORIZON;
        let steering = steer(&old(), at, &target(at, -3_000_000_000, 0), HORIZON);
        assert_eq!(steering.step_to, None);
        assert_eq!(steering.slope.to_bits(), ghz().to_bits() - (ghz().to_bits() >> 1));
        let line = join(&old(), &steering, at & !1023, at, 5_000);
        assert!(line.at(at) >= old().at(at));
    }

    /// Rule 9: if two lines are equal at the meeting point, their values rounded down may differ
    /// one tick earlier or later. Every tick of the overlap is checked against the old line, for
    /// slopes that differ by little.
    #[test]
    fn rule_9_no_rounded_value_of_the_new_line_is_below_the_old() {
        let mut bits = 0x1234_5678_u64;
        for iteration in 0..if cfg!(miri) { 3 } else { 300_u64 } {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(iteration | 1);
            let old = Line { slope: Slope::from_bits(ghz().to_bits() / 3 + (bits >> 40)), ..old() };
            let at = OLD_START + 400_000 + (bits >> 50);
            for change in [-1_i64, 1, -977, 977] {
                let slope = Slope::saturating_from(i128::from(old.slope.to_bits()) + i128::from(change));
                let steering = Steering { slope, step_to: None, offset: 0 };
                let new = join(&old, &steering, at & !1023, at, 2_000);
                for ticks in (at..=at + 2_000).step_by(if cfg!(miri) { 40 } else { 1 }) {
                    assert!(new.at(ticks) >= old.at(ticks), "{old:?} {new:?} at {ticks}");
                }
                assert!(new.at(at) <= old.at(at) + 1, "the clock jumped");
            }
        }
    }

    /// A plain read that the CPU executes before it has loaded the state may pair the new line
    /// with a tick before the meeting point; after a slew at half rate that line is much steeper.
    #[test]
    fn rule_2_a_raised_line_is_above_the_old_one_before_they_meet_too() {
        let at = OLD_START + HORIZON + 1_000;
        let old = Line { slope: Slope::from_bits(ghz().to_bits() >> 1), ..old() };
        let steering = Steering { slope: ghz(), step_to: None, offset: 0 };
        let new = join(&old, &steering, at & !1023, at, 5_000);
        for ticks in at & !1023..=at {
            assert!(new.at(ticks) >= old.at(ticks), "at {ticks} of {at}");
        }
    }

    /// Rule 2's margin: a reader of the old line may have read the counter a little after the
    /// writer did.
    #[test]
    fn rule_2_a_lowered_line_is_above_the_old_one_through_the_margin() {
        let at = OLD_START + HORIZON;
        let steering = Steering { slope: ghz().adjusted_ppb(-400_000), step_to: None, offset: 0 };
        let new = join(&old(), &steering, at & !1023, at, 5_000);
        assert!(new.at(at + 5_000) >= old().at(at + 5_000));
        // Without the margin it would be 2 ns below there, so the test can fail.
        let tight = join(&old(), &steering, at & !1023, at, 0);
        assert!(tight.at(at + 5_000) < old().at(at + 5_000));
    }

    #[test]
    fn rule_7_a_recovery_line_is_above_reference_and_high_water_mark() {
        let at = 77_777;
        for (most, high_water_ns) in [(1_000, 5), (1_000, 9_999)] {
            let line = recover(fixed_from_ns(most) + 1, high_water_ns, ghz(), at & !1023, at);
            assert!(line.fixed_at(at) > fixed_from_ns(most));
            assert!(line.at(line.start_ticks) >= high_water_ns, "a read that the CPU executes early");
        }
    }
}
