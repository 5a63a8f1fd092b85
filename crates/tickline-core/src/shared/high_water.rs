//! How far a line can have been read: rules 5 and 12.
//!
//! ```text
//! sample    start           end of window        end of validity
//!   |---------|------------------|----------------------|----> ticks
//!             '--- fast path ----'
//!             '- slow path, as far as the reference vouches -'
//! ```
//!
//! The fast path reads a line up to the end of its window, and does not ask the reference. In some
//! suspends the counter runs on and the reference stands still. Readings may then run ahead of the
//! reference, to the end of the window. Past the window every reading takes the slow path, which
//! asks the reference. The line counts only for ticks that the counter can have reached by the time
//! that the reference shows ([`Readings::may_use`]). The reference never decreases. So the
//! thread that retires the line can ask the reference again. It then knows a tick that no reading
//! has passed: the later one of the window's end and the last tick for which the reference vouches
//! now. Suspends, resets, slews and steps in between do not change that. A fork may move the
//! process into a time namespace whose clock is behind. The clock therefore keeps the latest time
//! that has vouched for a tick.
//!
//! A counter may go back without a suspend: a machine was restored, or a thread was moved to
//! another CPU's counter. Such a counter has a tighter upper limit: it cannot have advanced further
//! than the reference did at the kernel's slowest rate. The true time of a reference that moves in
//! steps, as jiffies do, may be ahead of the returned value by the resolution.
//!
//! References: Linux `kernel/time/ntp.c`, `include/linux/timex.h`, `kernel/time/timekeeping.c`
//! (`timekeeping_resume`).
//!
//! # Suspends
//!
//! - **One suspend looks like two.** In one case there is a suspend of 0.3 s, a reading, and a
//!   suspend of an hour. In another case there is one suspend of an hour and 0.3 s. Counter,
//!   reference and time suspended are the same afterwards. So the high-water mark can't be computed
//!   from the time suspended. The end of the window is always right.
//! - **The time suspended decides one thing only**: whether a counter that went back did so in a
//!   suspend. This time is `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`, and is stored with each line.
//!   It can't decide more, because PCs measure it in whole seconds, so a short suspend may count as
//!   0.
//!
//! In two runs of the guest `suspended`, the bounds held at the first reading after the resume.
//! Readings were 325 and 381 ms ahead; at an interval of 2 s they were 2.5 s ahead. The state was
//! `Disrupted`.
//!
//! # Rejected
//!
//! | option | price |
//! |---|---|
//! | A count of resumes in `/proc/self/fdinfo` of a cancelled timer | two suspends can share one |
//! | Shorter windows | more iterations for the thread, or OS readings for readers. A window that readers extend by 50 ms at a time would shorten the lead after a suspend; it has not been tried |
//! | A mark for each way to retire a line | after a reset of the counter the mark is the window's end, and freezes the clock for up to a window (found by mutation) |
//! | The reference plus the lead of the line, as the mark after one suspend | a thread can't tell one suspend from two: readings stepped back by 299 ms in the test |

use super::Readings;
use crate::cell::{Evidence, StateCell, WindowedLine};
use crate::discipline::MEETING_MARGIN_NS;
use crate::line::Slope;
use crate::primitive::Ordering;
use crate::reference::{MAX_KERNEL_SLEW_PPB, Reference, SUSPENDED_BOUND_NS};
use crate::sample::Point;
use crate::units::{NS_PER_S, ticks_between, ticks_since};

/// The largest unnoticed fall of the reference's rate since its sample, ppb of that rate: 36.9 %,
/// from the fastest slew to the slowest.
const UNNOTICED_SLEW_PPB: i64 = (2 * MAX_KERNEL_SLEW_PPB * NS_PER_S.cast_signed())
    .div_euclid(NS_PER_S.cast_signed() + MAX_KERNEL_SLEW_PPB)
    + 1;

const _: () = assert!(UNNOTICED_SLEW_PPB > 368_000_000 && UNNOTICED_SLEW_PPB < 369_000_000);

/// The reference still vouches for a tick if it is slower than the line's lower bound by at most
/// this, ppb: 1 %. No promise rests on this number. A line that is off by more over a window should
/// end. A larger number would let a suspend add a larger share of a window to a high-water mark.
const VOUCHING_TOLERANCE_PPB: i64 = 10_000_000;

/// The last tick that the counter can have reached when the reference is at `reference_ns`, on two
/// conditions: at the tick of `since` the reference was at `since.ns` or later, and since then it
/// has been slower than `slope` by no more than `tolerance_ppb`.
fn last_possible_ticks(since: Point, slope: Slope, reference_ns: i64, tolerance_ppb: i64) -> u64 {
    let passed_ns = reference_ns
        .saturating_sub(since.ns)
        .saturating_add(1)
        .max(0)
        .cast_unsigned();
    let slowest = slope.adjusted_ppb(tolerance_ppb.saturating_neg());
    // The 2^63 ticks that follow a given tick count as later ones. The function returns no tick
    // beyond the middle of those.
    since.ticks.wrapping_add(
        slowest
            .ticks_in_ceil(passed_ns)
            .min((i64::MAX >> 1).cast_unsigned()),
    )
}

/// The last tick for which a reference at `reference_ns` vouches (rule 12).
fn vouched_ticks(evidence: &Evidence, slowest: Slope, reference_ns: i64) -> u64 {
    last_possible_ticks(
        evidence.proven,
        slowest,
        reference_ns,
        VOUCHING_TOLERANCE_PPB,
    )
}

/// The largest number of ticks by which a reader's read of the counter may follow its second load
/// of the state.
fn margin_ticks(line: &WindowedLine) -> u64 {
    line.slope().ticks_in_ceil(MEETING_MARGIN_NS)
}

/// The last use of the line by any reading, ticks from the line's start, if `ticks` was read after
/// the state that ended the line.
fn last_used_ticks_into(line: &WindowedLine, ticks: u64) -> u64 {
    let ticks_into = ticks.wrapping_sub(line.start_ticks);
    ticks_into
        .saturating_add(margin_ticks(line))
        .min(line.valid_ticks())
}

/// The furthest that the counter can have come by `reference_ns`, ticks from the line's start, if
/// there was no suspend since the point `since`.
fn reachable_ticks_into(
    line: &WindowedLine,
    since: Point,
    slowest: Slope,
    reference_ns: i64,
) -> u64 {
    // Some references return old values, which are late by microseconds.
    let late_ns = SUSPENDED_BOUND_NS
        .saturating_mul(2)
        .saturating_add(MEETING_MARGIN_NS)
        .cast_signed();
    let latest_ns = reference_ns.saturating_add(late_ns);
    let reached_ticks = last_possible_ticks(since, slowest, latest_ns, UNNOTICED_SLEW_PPB);
    // The result is at least two margins after the start. The mark must not be below any reading of
    // the line before this one, and a late reader of that line may read it at up to this tick:
    //
    //     start            meeting point         last tick of a late reader of the line before
    //     |---- margin ----|------- margin ------|
    //
    // At each of these ticks this line is not below the line before (rule 2).
    ticks_since(line.start_ticks, reached_ticks).max(margin_ticks(line).saturating_mul(2))
}

/// Whether the reference states that there was no suspend since the samples of a line. False if the
/// reference does not know.
fn was_not_suspended(evidence: &Evidence, reference: &impl Reference) -> bool {
    // Do not ask a reference again that did not answer before: the call may be forbidden.
    let Some(then_ns) = evidence.suspended_ns else {
        return false;
    };
    let Some(now_ns) = reference.suspended_ns() else {
        return false;
    };
    now_ns.abs_diff(then_ns) <= SUSPENDED_BOUND_NS.saturating_mul(2)
}

impl<S: StateCell> Readings<S> {
    /// Whether a reading may use `line` at `ticks`, which were read after its state: whether the
    /// line still counts there. It no longer does in three cases:
    ///
    /// - The line's validity has passed.
    /// - The counter is before the line's start.
    /// - The line's window has passed, and the reference does not vouch for `ticks` (rule 12).
    ///
    /// Asks the reference only past the window.
    pub(crate) fn may_use(
        &self,
        line: &WindowedLine,
        ticks: u64,
        reference: &impl Reference,
    ) -> bool {
        let ticks_into = ticks.wrapping_sub(line.start_ticks);
        if ticks_into < line.window_ticks {
            return true;
        }
        ticks_into < line.valid_ticks() && {
            // The reference is read after the counter, so when `ticks` were read it was not later
            // than this.
            let reference_ns = reference.monotonic_ns();
            let (evidence, slowest) = self.evidence(line);
            let vouches =
                ticks_between(ticks, vouched_ticks(&evidence, slowest, reference_ns)) >= 0;
            if vouches {
                // ORDERING: Relaxed: only a forked child needs the value, and it has a copy of its
                // parent's memory.
                self.vouched_ns.fetch_max(reference_ns, Ordering::Relaxed);
            }
            vouches
        }
    }

    /// The line's evidence, and the slope of its lower bound.
    fn evidence(&self, line: &WindowedLine) -> (Evidence, Slope) {
        let slot = self.cell.slot(line.state);
        (slot.evidence(), slot.bounds().lower.slope)
    }

    /// Rule 5: the high-water mark, ns. No reading of the line has exceeded it, if `ticks` was read
    /// after the state that ended the line, or is outside of the line's validity. As at a meeting
    /// point, a reader may have read the counter a little after its second load of the state.
    /// `newest` is a proven point below the reference from before the line's end, if the caller has
    /// one.
    pub(super) fn high_water_ns(
        &self,
        line: &WindowedLine,
        ticks: u64,
        newest: Option<Point>,
        reference: &impl Reference,
    ) -> i64 {
        let mut last_ticks_into = last_used_ticks_into(line, ticks);
        if last_ticks_into > line.window_ticks {
            let (evidence, slowest) = self.evidence(line);
            let unsuspended = ticks_between(line.start_ticks, ticks) < 0
                && was_not_suspended(&evidence, reference);
            // ORDERING: Relaxed, pairs with the `fetch_max` of this process or its parent.
            let reference_ns = reference
                .monotonic_ns()
                .max(self.vouched_ns.load(Ordering::Relaxed));
            let vouched_ticks = vouched_ticks(&evidence, slowest, reference_ns);
            let vouched_ticks_into = ticks_since(line.start_ticks, vouched_ticks);
            last_ticks_into = last_ticks_into.min(vouched_ticks_into.max(line.window_ticks));
            if unsuspended {
                // The newest point counts unless it is from before the reset.
                let since = newest
                    .filter(|point| line.is_valid_at(point.ticks))
                    .unwrap_or(evidence.proven);
                last_ticks_into =
                    last_ticks_into.min(reachable_ticks_into(line, since, slowest, reference_ns));
            }
        }
        line.ns_at(line.start_ticks.wrapping_add(last_ticks_into))
    }
}

// These tests are long and have only safe code: Miri would take minutes and find nothing.
#[cfg(all(test, not(miri)))]
mod tests;
