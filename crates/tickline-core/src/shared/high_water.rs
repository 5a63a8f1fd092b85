//! How far a line can have been read: rules 5 and 13.
//!
//! ```text
//! sample    start           end of window        end of validity
//!   |---------|------------------|----------------------|----> ticks
//!             '- inlined path  -'
//!             '- slow path, as far as the reference vouches -'
//! ```
//!
//! The inlined path reads a line up to the end of its window and asks nobody. In a suspend in
//! which the counter runs on and the reference stands still, that much of the line's future may
//! be used up, in one suspend or in several. Past the window every reading takes the slow path,
//! which asks the reference. The line counts only for ticks that the counter can have reached by
//! the time that the reference shows ([`Shared::is_over`]). The reference never decreases. So the
//! thread that retires the line can ask it again, and then knows a tick that no reading has
//! passed: the window's end, or the last tick for which the reference vouches now, whichever is
//! later. That holds whatever reference and counter did in between, suspends, resets, slews and
//! steps included.
//!
//! A counter that went back without a suspend (a machine was restored, a thread was moved to
//! another CPU's counter) has a lower limit: it cannot have come further than the reference did
//! at the kernel's slowest rate.
//!
//! References: Linux `kernel/time/ntp.c`, `include/linux/timex.h`, `kernel/time/timekeeping.c`
//! (`timekeeping_resume`).

use super::Shared;
use crate::cell::{State, StateCell};
use crate::discipline::MEETING_MARGIN_NS;
use crate::line::Slope;
use crate::sample::{KERNEL_SLEW_PPB, Point, Reference, SUSPENDED_ERROR_NS};
use crate::units::{NS_PER_S, signed, ticks_between, unsigned};
use crate::word::{FIRST_TICKS, Word};

/// By how much the reference's rate may have fallen unnoticed since it was sampled, ppb of that
/// rate: 36.9 %, from the fastest slew to the slowest.
const UNNOTICED_SLEW_PPB: i64 =
    (2 * KERNEL_SLEW_PPB * signed(NS_PER_S)).div_euclid(signed(NS_PER_S) + KERNEL_SLEW_PPB) + 1;

const _: () = assert!(UNNOTICED_SLEW_PPB > 368_000_000 && UNNOTICED_SLEW_PPB < 369_000_000);

/// By how much the reference may be slower than the line's lower bound and still vouch for a
/// tick, ppb: 1 %. No promise rests on it. A line that is off by more over a window had better
/// end, and a suspend can add 1 % of a window to a high-water mark.
const VOUCHED_SLEW_PPB: i64 = 10_000_000;

/// Ticks from a line's start within which the inlined path may use it. Where there is a line for
/// each CPU, that is a little more than the window.
fn inlined_ticks(state: &State) -> u64 {
    state.window_ticks.saturating_add(FIRST_TICKS).min(state.valid_ticks())
}

/// The last tick that the counter can have reached when the reference is at `reference_ns`, if
/// the reference was at `since` or later at that tick, and has been slower than `slope` by no
/// more than `slew_ppb`.
fn last_ticks(since: Point, slope: Slope, reference_ns: i64, slew_ppb: i64) -> u64 {
    let passed_ns = unsigned(reference_ns.saturating_sub(since.ns).saturating_add(1).max(0));
    let slowest = slope.adjusted_ppb(slew_ppb.saturating_neg());
    // Half of all ticks are after a given tick. None is taken to be later than the middle of
    // those.
    since.ticks.wrapping_add(slowest.ticks_in(passed_ns).min(unsigned(i64::MAX >> 1)))
}

/// Ticks by which a reader may have read the counter after its second load of the word.
fn margin_ticks(state: &State) -> u64 {
    state.line.slope.ticks_in(MEETING_MARGIN_NS)
}

/// Ticks from the line's start to `ticks`; 0 before the start.
fn since_start(state: &State, ticks: u64) -> u64 {
    unsigned(ticks_between(state.line.start_ticks, ticks).max(0))
}

/// Ticks from the line's start up to which a reading can have used it, if `ticks` was read after
/// the word that ended it.
fn unlimited_delta(state: &State, ticks: u64) -> u64 {
    let (delta, valid_ticks) = (ticks.wrapping_sub(state.line.start_ticks), state.valid_ticks());
    if delta < valid_ticks { delta.saturating_add(margin_ticks(state)).min(valid_ticks) } else { valid_ticks }
}

/// Ticks from the line's start for which the reference vouches at `reference_ns`.
fn vouched_delta(state: &State, first: Point, slowest: Slope, reference_ns: i64) -> u64 {
    since_start(state, last_ticks(first, slowest, reference_ns, VOUCHED_SLEW_PPB))
}

/// The point, unless it is from before a counter reset.
fn since_reset(state: &State, newest: Option<Point>) -> Option<Point> {
    newest.filter(|point| point.ticks.wrapping_sub(state.line.start_ticks) < state.valid_ticks())
}

/// Ticks from the line's start that the counter can have reached by `reference_ns`, if no suspend
/// has passed since the point `since`.
fn reached_delta(state: &State, since: Point, slowest: Slope, reference_ns: i64) -> u64 {
    // A reference that returns an old value is late by microseconds.
    let late_ns = signed(SUSPENDED_ERROR_NS.saturating_mul(2).saturating_add(MEETING_MARGIN_NS));
    let latest_ns = reference_ns.saturating_add(late_ns);
    let reached = last_ticks(since, slowest, latest_ns, UNNOTICED_SLEW_PPB);
    // Not before the meeting point with the previous line, whose readings were no larger than this
    // line is there.
    since_start(state, reached).max(FIRST_TICKS.saturating_add(margin_ticks(state)))
}

impl<S: StateCell> Shared<S> {
    /// Whether the line of `state` does not count for `ticks`, which were read after `state`: its
    /// validity has passed, the counter is before its start, or its window has passed and the
    /// reference does not vouch for it (rule 13). Asks the reference only past the window.
    pub(crate) fn is_over(&self, state: &State, ticks: u64, reference: &impl Reference) -> bool {
        let delta = ticks.wrapping_sub(state.line.start_ticks);
        if delta <= inlined_ticks(state) {
            return false;
        }
        delta >= state.valid_ticks() || {
            // The reference is read after the counter, so it was not later when `ticks` were
            // read.
            let reference_ns = reference.monotonic_ns();
            let vouched = last_ticks(
                self.cell.proven(state.word.slot()),
                self.slowest(state),
                reference_ns,
                VOUCHED_SLEW_PPB,
            );
            ticks_between(ticks, vouched) < 0
        }
    }

    /// The slope of the lower bound.
    fn slowest(&self, state: &State) -> Slope {
        self.cell.bounds(Word::from_bits(state.line.start_ticks)).lower.slope
    }

    /// Rule 5: the tick whose value no reading of the line has exceeded, if `ticks` was read
    /// after the word that ended it, or is outside of its validity. As at a meeting point, a
    /// reader may have read the counter a little after its second load of the word. `newest` is a
    /// point below the reference that was proven before the line ended, if the caller has one.
    pub(super) fn high_water_ticks(
        &self,
        state: &State,
        ticks: u64,
        newest: Option<Point>,
        reference: &impl Reference,
    ) -> u64 {
        let mut last = unlimited_delta(state, ticks);
        if last > inlined_ticks(state) {
            let unsuspended = ticks_between(state.line.start_ticks, ticks) < 0
                && self.suspends.is_none_since(state.word.slot(), reference);
            let reference_ns = reference.monotonic_ns();
            let (first, slope) = (self.cell.proven(state.word.slot()), self.slowest(state));
            let vouched = vouched_delta(state, first, slope, reference_ns);
            last = last.min(vouched.max(inlined_ticks(state)));
            if unsuspended {
                let since = since_reset(state, newest).unwrap_or(first);
                last = last.min(reached_delta(state, since, slope, reference_ns));
            }
        }
        state.line.start_ticks.wrapping_add(last)
    }
}

// As in `control`: long, and of safe code alone. Miri would take minutes and find nothing.
#[cfg(all(test, not(miri)))]
mod tests;
