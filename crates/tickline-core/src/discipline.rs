//! The discipline: published line + target -> next line.
//!
//! The next line must never be below the old line at a tick at which readers may have used the old
//! line. And it should reach the target by the end of its window, as far as a slew of half the rate
//! can. So the next line, which is straight, starts where the old line is. Its slope is the
//! target's slope, plus a correction that removes the offset within the window:
//!
//! - If the reference is ahead by little, the clock slews up. If the reference is ahead by more
//!   than [`STEP_PPB`] of the window, the clock steps forward to it.
//! - If the reference is behind, the clock slews down, but never below half the target's rate. A
//!   clock can't step back.
//!
//! Rounding (rule 9 of `DESIGN.md`): bases are computed from the quantised slopes in 128 bits and
//! rounded up. So the values do not decrease even after rounding down to whole nanoseconds.

use crate::cell::WindowedLine;
use crate::estimate::Target;
use crate::line::Slope;
use crate::state::LineState;
use crate::units::{FixedNs, NS_PER_S};

/// The margin of rule 2, ns: the longest time by which a reader of the old line may have read the
/// counter after the writer's read. The CPU may execute the second load of the state a little
/// before the read of the counter. Out-of-order windows end within a microsecond; the rest leaves
/// room for a cache miss. If the two slopes differ by 100 ppm, a margin raises the meeting point by
/// 0.5 ns.
///
/// The margin is also the largest difference between the counters of two CPUs for which order
/// holds: a line starts one margin before its publication.
///
/// All that depends on the margin is computed from it. `tests/sim/tests/documents.rs` checks the
/// number in `DESIGN.md`.
pub const MEETING_MARGIN_NS: u64 = 5_000;

/// Offsets above this share of the window are stepped forward instead of slewed, ppb: the same 500
/// ppm as the kernel allows a PLL (`MAXFREQ`, `include/linux/timex.h`). A line that is off is short
/// (`control/schedule.rs`). With a thread and the default interval its window is 62.5 ms, so the
/// limit is 31 us. After a jump the window is about 100 us, so every jump is stepped.
pub(crate) const STEP_PPB: i64 = 500_000;

/// A larger offset shows that the line or the reference was disrupted, ns. The control loop notices
/// an NTP daemon's slew of 500 ppm only at the next iteration. Until then the slew adds up to 0.5
/// ms within a window.
pub const DISRUPTED_OFFSET_NS: i64 = 1_000_000;

/// How the next line comes to the target: by a slew or by a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Correction {
    /// The next line's slope.
    pub(crate) slope: Slope,
    /// The target of a step forward: the line starts at least here, above the old line. `None` for
    /// a slew.
    pub(crate) step_to: Option<FixedNs>,
    /// Old line minus target at the meeting point.
    pub(crate) offset: FixedNs,
}

/// The correction that takes `old` from its value at `at_ticks` to the target within
/// `window_ticks`.
pub(crate) fn correction_to(
    old: &WindowedLine,
    at_ticks: u64,
    target: &Target,
    window_ticks: u64,
) -> Correction {
    let wanted = target.fixed_at(at_ticks);
    let offset = old.fixed_at(at_ticks).saturating_sub(wanted);
    let rate = i128::from(target.slope.bits);
    let window_ns = target
        .slope
        .over(i64::try_from(window_ticks).unwrap_or(i64::MAX));
    let step_above = window_ns
        .saturating_mul(STEP_PPB)
        .to_bits()
        .checked_div(i128::from(NS_PER_S))
        .unwrap_or(0);
    if offset.to_bits().saturating_neg() > step_above {
        return Correction {
            slope: target.slope,
            step_to: Some(wanted),
            offset,
        };
    }
    // A positive offset (the line is ahead) bends the rate down, at most to half.
    let bend = offset
        .to_bits()
        .checked_div(i128::from(window_ticks.max(1)))
        .unwrap_or(0)
        .min(rate >> 1);
    Correction {
        slope: Slope::saturating_from(rate.saturating_sub(bend)),
        step_to: None,
        offset,
    }
}

/// `next` with the least `b` for two conditions: from `margin_ticks` before `at_ticks` to
/// `margin_ticks` after it, `next` is not below `old`; at `at_ticks`, `next` is not below
/// `step_to`.
///
/// The ticks before `at_ticks` matter, too. A CPU may execute a plain read of the counter before it
/// loads the state. And another CPU's counter may be a little behind.
pub(crate) fn meet_old_line(
    old: &WindowedLine,
    next: LineState,
    correction: &Correction,
    at_ticks: u64,
    margin_ticks: u64,
) -> LineState {
    // Both lines are straight, so it suffices to compare them at both ends of the overlap.
    let early = next.b_not_below_line(old.state, at_ticks.wrapping_sub(margin_ticks));
    let late = next.b_not_below_line(old.state, at_ticks.wrapping_add(margin_ticks));
    let stepped = correction
        .step_to
        .map_or(early, |time| next.b_not_below_time(at_ticks, time));
    next.with_b(larger(larger(early, late), stepped))
}

/// The first line after a time without a line, in use from `start_ticks` on. At `at_ticks` it is
/// not below `from`. It is nowhere below the high-water mark, because a CPU may execute a plain
/// read of the counter before it loads the state, and so read a tick before `at_ticks`.
pub(crate) fn first_line_above(
    next: LineState,
    start_ticks: u64,
    high_water_ns: i64,
    at_ticks: u64,
    from: FixedNs,
) -> LineState {
    let above_mark = next.b_not_below_time(start_ticks, FixedNs::from_ns(high_water_ns));
    next.with_b(larger(next.b_not_below_time(at_ticks, from), above_mark))
}

/// The larger of two values of `b`, which wrap with the ticks.
const fn larger(a: i64, b: i64) -> i64 {
    if a.wrapping_sub(b) > 0 { a } else { b }
}
