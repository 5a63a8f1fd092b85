//! Past lines, so that an old counter value is converted with the line of its time.
//!
//! A ring, written by the holder of the clock's lock, read by anyone without waiting: each entry carries a number that is
//! checked before and after its fields are read; an entry that changed meanwhile counts as gone.

use crate::line::{Line, Slope};
use crate::primitive::{AtomicI64, AtomicU64, Ordering};
use crate::units::ticks_between;

/// Lines remembered: 64 s at the default interval of 0.5 s, 4 s while lines are as short as a sixteenth of it. Older ticks are
/// converted with the oldest line. A model by loom has a ring of two, which three lines overwrite.
pub const CAPACITY: usize = if cfg!(loom) { 2 } else { 128 };

const CAPACITY_U64: u64 = CAPACITY as u64;

#[derive(Debug)]
struct Entry {
    /// One more than the count of lines before this one; 0 while the entry is being written, or empty.
    number: AtomicU64,
    from_ticks: AtomicU64,
    start_ticks: AtomicU64,
    base_ns: AtomicI64,
    slope: AtomicU64,
}

impl Entry {
    const fn new() -> Self {
        Self {
            number: AtomicU64::new(0),
            from_ticks: AtomicU64::new(0),
            start_ticks: AtomicU64::new(0),
            base_ns: AtomicI64::new(0),
            slope: AtomicU64::new(0),
        }
    }
}

/// The ring of past lines. See the [module](self).
#[derive(Debug)]
pub struct Timeline {
    entries: [Entry; CAPACITY],
    /// Lines ever written.
    written: AtomicU64,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl Timeline {
    /// An empty timeline.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: [const { Entry::new() }; CAPACITY], written: AtomicU64::new(0) }
    }

    fn entry(&self, index: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(index & (CAPACITY_U64 - 1)).ok()?)
    }

    /// Adds the line in use from `from_ticks` on. Only the holder of the clock's lock may call this.
    pub fn push(&self, from_ticks: u64, line: &Line) {
        self.push_with(from_ticks, line, || {});
    }

    /// As [`push`](Self::push); `halfway` runs when the fields are written and the number is not. Tests put into it what
    /// other threads may do there.
    fn push_with(&self, from_ticks: u64, line: &Line, halfway: impl FnOnce()) {
        // ORDERING: Relaxed, only the lock's holder writes this, and the lock orders its holders.
        let index = self.written.load(Ordering::Relaxed);
        let Some(entry) = self.entry(index) else { return };
        // ORDERING: Release for all: a reader that sees a new field also sees the 0 before it (pairs with the Acquire loads
        // in `get`), and one that sees the new number sees every field.
        entry.number.store(0, Ordering::Release);
        // ORDERING: as above.
        entry.from_ticks.store(from_ticks, Ordering::Release);
        // ORDERING: as above.
        entry.start_ticks.store(line.start_ticks, Ordering::Release);
        // ORDERING: as above.
        entry.base_ns.store(line.base_ns, Ordering::Release);
        // ORDERING: as above.
        entry.slope.store(line.slope.to_bits(), Ordering::Release);
        halfway();
        let number = index.wrapping_add(1);
        // ORDERING: as above.
        entry.number.store(number, Ordering::Release);
        // ORDERING: Release, pairs with the Acquire load in `convert`.
        self.written.store(number, Ordering::Release);
    }

    /// The line that was pushed after `index` others, and from which tick on it was in use, if it is still there.
    pub(crate) fn get(&self, index: u64) -> Option<(u64, Line)> {
        self.get_with(index, || {})
    }

    /// As `get`; `halfway` runs when the fields are read and the number has not been looked at again. Tests put into it what
    /// other threads may do there.
    fn get_with(&self, index: u64, halfway: impl FnOnce()) -> Option<(u64, Line)> {
        let entry = self.entry(index)?;
        let number = index.wrapping_add(1);
        // ORDERING: Acquire, pairs with the Release stores in `push`: this load before the fields'.
        if entry.number.load(Ordering::Acquire) != number {
            return None;
        }
        // ORDERING: Acquire, pairs with the Release stores in `push`: if one of these is newer than the number seen above,
        // the load below sees the change.
        let from_ticks = entry.from_ticks.load(Ordering::Acquire);
        let line = Line {
            // ORDERING: as above.
            start_ticks: entry.start_ticks.load(Ordering::Acquire),
            // ORDERING: as above.
            base_ns: entry.base_ns.load(Ordering::Acquire),
            // ORDERING: as above.
            slope: Slope::from_bits(entry.slope.load(Ordering::Acquire)),
        };
        halfway();
        // ORDERING: Relaxed. The Acquire loads of the fields keep this one behind them, and nothing is read by it that was written
        // before: it only decides whether those count.
        (entry.number.load(Ordering::Relaxed) == number).then_some((from_ticks, line))
    }

    /// `ticks` in ns, with the line that was in use then; the oldest line for older ticks, the newest for newer ones.
    /// `None` if there has been no line yet.
    #[must_use]
    pub fn convert(&self, ticks: u64) -> Option<i64> {
        loop {
            // ORDERING: Acquire, pairs with the Release store in `push`.
            let written = self.written.load(Ordering::Acquire);
            if written == 0 {
                return None;
            }
            let mut oldest_seen = None;
            for age in 1..=CAPACITY_U64.min(written) {
                let Some((from_ticks, line)) = self.get(written.wrapping_sub(age)) else {
                    break; // being overwritten: this one and all older ones are gone
                };
                if oldest_seen.is_some_and(|(newer_ticks, _)| ticks_between(newer_ticks, from_ticks) > 0) {
                    break; // the counter was reset between the two: all older lines are of another count
                }
                oldest_seen = Some((from_ticks, line));
                if ticks_between(from_ticks, ticks) >= 0 {
                    break;
                }
            }
            if let Some((_, line)) = oldest_seen {
                return Some(line.at_any(ticks));
            }
            // Even the newest line was overwritten: this thread was stopped while the whole ring went by.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line `k` starts at tick 1000 k and adds k ns, so a conversion tells which line it used.
    fn line(k: u64) -> Line {
        let base_ns = i64::try_from(1_001 * k).unwrap();
        Line { start_ticks: 1_000 * k, base_ns, slope: Slope::from_hz(1_000_000_000).unwrap() }
    }

    #[test]
    fn old_ticks_use_the_line_of_their_time() {
        let timeline = Timeline::new();
        assert_eq!(timeline.convert(5), None);
        for k in 1..=10 {
            timeline.push(1_000 * k, &line(k));
        }
        assert_eq!(timeline.convert(4_999), Some(4_999 + 4));
        assert_eq!(timeline.convert(5_000), Some(5_000 + 5));
        assert_eq!(timeline.convert(99_000), Some(99_000 + 10), "the future uses the newest line");
        assert_eq!(timeline.convert(3), Some(3 + 1), "before the first line, the first one");
    }

    /// A plain read of the counter may come a little before the first line's publication. It was converted with the oldest line
    /// of before the reset, hours off.
    #[test]
    fn lines_of_before_a_reset_are_not_used_after_it() {
        let timeline = Timeline::new();
        for k in [5_000, 5_001, 1, 2] {
            timeline.push(1_000 * k, &line(k));
        }
        assert_eq!(timeline.convert(990), Some(990 + 1));
        assert_eq!(timeline.convert(1_500), Some(1_500 + 1));
        assert_eq!(timeline.convert(2_500), Some(2_500 + 2));
    }

    #[test]
    fn a_full_ring_keeps_the_newest() {
        let timeline = Timeline::new();
        let last = 3 * CAPACITY_U64;
        for k in 1..=last {
            timeline.push(1_000 * k, &line(k));
        }
        let oldest = last - CAPACITY_U64 + 1;
        assert_eq!(timeline.convert(1_000 * oldest), Some(i64::try_from(1_001 * oldest).unwrap()));
        assert_eq!(timeline.convert(5_000), Some(i64::try_from(5_000 + oldest).unwrap()));
    }

    /// The first look: the number of an entry is gone before its fields change.
    #[test]
    fn an_entry_that_is_being_written_is_not_used() {
        let timeline = Timeline::new();
        for k in 1..=CAPACITY_U64 {
            timeline.push(1_000 * k, &line(k));
        }
        assert_eq!(timeline.get(0), Some((1_000, line(1))));
        let next = CAPACITY_U64 + 1;
        let ran = core::cell::Cell::new(false);
        timeline.push_with(1_000 * next, &line(next), || {
            assert_eq!(timeline.get(0), None, "this place is being filled with another line");
            assert_eq!(timeline.convert(1_500), Some(1_500 + 2), "the oldest line that is left");
            ran.set(true);
        });
        assert!(ran.get(), "the look from within did not happen");
        assert_eq!(timeline.get(CAPACITY_U64), Some((1_000 * next, line(next))));
    }

    /// The second look: a reader that was stopped while the ring went round does not use what it has read.
    #[test]
    fn an_entry_that_was_overwritten_while_it_was_read_is_not_used() {
        for pushes in [0, 1, CAPACITY_U64 - 1, CAPACITY_U64, CAPACITY_U64 + 1, 3 * CAPACITY_U64] {
            let timeline = Timeline::new();
            timeline.push(1_000, &line(1));
            let entry = timeline.get_with(0, || {
                for k in 2..pushes + 2 {
                    timeline.push(1_000 * k, &line(k));
                }
            });
            assert_eq!(entry.is_some(), pushes < CAPACITY_U64, "after {pushes} more lines");
        }
    }

    #[test]
    fn readers_never_see_a_mixed_entry() {
        let timeline = Timeline::new();
        let last: u64 = if cfg!(miri) { 300 } else { 200_000 };
        timeline.push(1_000, &line(1));
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut ticks = 1_000;
                loop {
                    let ns = timeline.convert(ticks).unwrap();
                    // Whatever line was used, it is one of those that were pushed: the surplus is its number.
                    let number = u64::try_from(ns).unwrap() - ticks;
                    assert!((1..=last).contains(&number), "{number}");
                    if number == last {
                        break;
                    }
                    ticks = 1_000 * (number + 1);
                }
            });
            for k in 2..=last {
                timeline.push(1_000 * k, &line(k));
            }
            reader.join().unwrap();
        });
    }
}
