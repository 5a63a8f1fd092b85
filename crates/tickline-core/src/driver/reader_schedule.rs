//! The schedule of iterations for clocks without a thread: whether a reader should run one, and
//! when the facts must be reviewed.
//!
//! An iteration costs about 2 us, which pays only if calls are frequent: 256 or more in an
//! interval. The fast path stores nothing, so it counts no calls. A reader on the slow path has
//! found no line, or a line that is past its window. This reader decides by the time:
//!
//! - If the window ended no longer ago than the gap between frequent calls, the reader runs an
//!   iteration at once.
//! - Otherwise the reader runs an iteration if this reading and the 7 before it each followed
//!   another reading by the slow path within that gap. So it takes nine readings.
//!
//! A program that reads the time now and then never runs an iteration: the OS clock serves it.
//!
//! A reader of Unix time that the OS serves must read the monotonic clock to find out whether a
//! judgement is due. It does so only in a part of the time ([`reader_may_judge_at`]), so that most
//! of its readings stay one call of the OS.

use crate::gate::keeper::Keeper;
use crate::primitive::{AtomicI64, AtomicU64, Ordering};
use crate::shared::{ReadingSource, SlowReading};

/// Readers renew a line only if at least this many calls come in an interval. An iteration of 2 us
/// then saves about 10 ns in each of 256 calls.
const CALLS_PER_INTERVAL: u64 = 256;

/// The number of frequent readings in a row by the slow path after which a reader starts the clock,
/// or renews a line that was not read for a while.
const STREAK: u64 = 8;

/// The number of iterations between two reviews of the facts where no thread drives the clock: four
/// seconds at the default interval. A review takes about 10 us, too long for each iteration of a
/// reader. A thread reviews the facts at each interval.
const ITERATIONS_PER_REVIEW: u64 = 8;

/// The time in which readers of Unix time may judge, ns: 270 ms of each 2.1 s. Powers of 2, so that
/// a reading needs no division.
///
/// A streak has 8 gaps, each of at most a 256th of the interval. So frequent calls make a streak in
/// this time if the interval is 8.6 s or less. At longer ones (10 s at most), only calls at most
/// 33 ms apart do.
const JUDGING_NS: i64 = 1 << 28;
const JUDGING_PERIOD_NS: i64 = 1 << 31;

/// Whether a reader that has got this Unix time from the OS may find out if a judgement is due.
/// That takes another call of the OS, so readers may do so in an eighth of the time.
#[must_use]
pub const fn reader_may_judge_at(unix_ns: i64) -> bool {
    unix_ns & (JUDGING_PERIOD_NS - 1) < JUDGING_NS
}

/// The schedule of a clock whose readers run the iterations.
#[derive(Debug)]
pub(super) struct ReaderSchedule {
    /// The last reading by the slow path, ns.
    last_ns: AtomicI64,
    /// The number of frequent readings in a row by the slow path.
    streak: AtomicU64,
    /// The number of iterations that readers or the program have run.
    iterations: AtomicU64,
}

impl ReaderSchedule {
    pub(super) const fn new() -> Self {
        Self {
            last_ns: AtomicI64::new(i64::MIN),
            streak: AtomicU64::new(0),
            iterations: AtomicU64::new(1),
        }
    }

    /// Counts a reading by the slow path while an iteration is due, which `keeper` knows. Returns
    /// whether the reader should run it.
    pub(super) fn count_slow_reading(
        &self,
        keeper: &Keeper,
        reading: &SlowReading,
        interval_ns: u64,
    ) -> bool {
        let max_gap_ns = interval_ns / CALLS_PER_INTERVAL;
        match reading.source {
            // A reader that comes right after the end of the window calls often; other readers must
            // prove that they do.
            ReadingSource::Line { overdue_ns } => {
                overdue_ns > 0
                    && (overdue_ns <= max_gap_ns || self.extend_streak(reading.ns, max_gap_ns))
            }
            ReadingSource::Reference { reference_ns } => {
                keeper.is_due(keeper.stage(), reference_ns)
                    && self.extend_streak(reference_ns, max_gap_ns)
            }
        }
    }

    /// Adds a reading to the streak, or begins a new one. Returns whether enough came in a row.
    fn extend_streak(&self, now_ns: i64, max_gap_ns: u64) -> bool {
        // ORDERING: Relaxed, a hint: a lost update costs a call or two.
        let gap_ns = now_ns.wrapping_sub(self.last_ns.swap(now_ns, Ordering::Relaxed));
        if u64::try_from(gap_ns).is_ok_and(|gap_ns| gap_ns <= max_gap_ns) {
            // ORDERING: Relaxed, a hint.
            self.streak
                .fetch_add(1, Ordering::Relaxed)
                .saturating_add(1)
                >= STREAK
        } else {
            // ORDERING: Relaxed, a hint.
            self.streak.store(0, Ordering::Relaxed);
            false
        }
    }

    /// Counts an iteration that a reader or the program has run. Returns whether a review of the
    /// facts is due.
    pub(super) fn count_iteration(&self) -> bool {
        // ORDERING: Relaxed, a count that orders nothing.
        self.iterations
            .fetch_add(1, Ordering::Relaxed)
            .checked_rem(ITERATIONS_PER_REVIEW)
            == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL_NS: u64 = 256_000;
    const MAX_GAP_NS: i64 = 1_000;

    fn by_reference(schedule: &ReaderSchedule, ns: i64) -> bool {
        let reading = SlowReading {
            ns: ns + 50,
            source: ReadingSource::Reference { reference_ns: ns },
        };
        schedule.count_slow_reading(&Keeper::new(), &reading, INTERVAL_NS) // a judgement is due
    }

    fn by_line(schedule: &ReaderSchedule, ns: i64, overdue_ns: u64) -> bool {
        let reading = SlowReading {
            ns,
            source: ReadingSource::Line { overdue_ns },
        };
        schedule.count_slow_reading(&Keeper::new(), &reading, INTERVAL_NS)
    }

    /// A schedule that has begun an iteration for a reader of the reference, and the time then, ns.
    fn started() -> (ReaderSchedule, i64) {
        let schedule = ReaderSchedule::new();
        let ns = (0..).find(|ns| by_reference(&schedule, *ns));
        (schedule, ns.expect("a streak starts the clock"))
    }

    #[test]
    fn readers_start_a_clock_after_a_streak_of_frequent_calls() {
        let schedule = ReaderSchedule::new();
        for call in 0..20 {
            let wants_iteration = by_reference(&schedule, call * MAX_GAP_NS);
            assert_eq!(wants_iteration, call >= 8, "call {call}");
        }
    }

    #[test]
    fn a_gap_that_is_too_long_begins_a_new_streak() {
        let (schedule, ns) = started();
        let gap_end_ns = ns + MAX_GAP_NS + 1;
        for call in 0..8 {
            assert!(!by_reference(&schedule, gap_end_ns + call), "call {call}");
        }
        assert!(by_reference(&schedule, gap_end_ns + 8));
    }

    #[test]
    fn a_time_before_the_last_one_proves_no_streak() {
        let (schedule, ns) = started();
        assert!(!by_reference(&schedule, ns - 5));
    }

    #[test]
    fn calls_that_are_too_rare_start_no_clock() {
        let schedule = ReaderSchedule::new();
        for call in 0..100 {
            assert!(
                !by_reference(&schedule, call * (MAX_GAP_NS + 1)),
                "call {call}"
            );
        }
    }

    #[test]
    fn one_review_comes_in_eight_iterations() {
        let schedule = ReaderSchedule::new();
        for iteration in 1..=24_u64 {
            let is_review = iteration.is_multiple_of(8);
            assert_eq!(schedule.count_iteration(), is_review, "{iteration}");
        }
    }

    #[test]
    fn a_reader_of_unix_time_may_judge_in_an_eighth_of_the_time() {
        let may_judge =
            |since_ns| reader_may_judge_at(1_700_000_000 * JUDGING_PERIOD_NS + since_ns);
        assert!(may_judge(0) && may_judge(JUDGING_NS - 1) && may_judge(JUDGING_PERIOD_NS));
        assert!(!may_judge(JUDGING_NS) && !may_judge(JUDGING_PERIOD_NS - 1));
        assert_eq!(JUDGING_NS * 8, JUDGING_PERIOD_NS);
    }

    #[test]
    fn a_line_inside_its_window_is_not_renewed() {
        assert!(!by_line(&ReaderSchedule::new(), 0, 0));
    }

    #[test]
    fn a_frequent_reader_renews_a_line_at_once() {
        for overdue_ns in [1, MAX_GAP_NS.unsigned_abs()] {
            let schedule = ReaderSchedule::new();
            assert!(by_line(&schedule, 0, overdue_ns), "{overdue_ns} ns");
        }
    }

    #[test]
    fn a_late_reader_renews_a_line_after_a_streak() {
        let schedule = ReaderSchedule::new();
        let late_ns = MAX_GAP_NS.unsigned_abs() + 1;
        for call in 0..9 {
            let wants_iteration = by_line(&schedule, call, late_ns);
            assert_eq!(wants_iteration, call >= 8, "call {call}");
        }
    }
}
