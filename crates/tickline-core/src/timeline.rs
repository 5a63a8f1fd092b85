//! Past lines, so that an old counter value is converted with the line of its time.
//!
//! A ring that the holder of the clock's lock writes, and that anyone reads without waiting. Each
//! entry has a tag, which readers check before and after they read its fields. An entry that
//! changed meanwhile counts as gone.
//!
//! ```text
//! tag      63              49    48   47               0
//!          [ lines taken back | slot | lines up to this ]     0: being written, or empty
//! ```
//!
//! **A line enters the ring before it is published** (rule 12 of `DESIGN.md`), so that a thread
//! that can take a stamp by the line can also convert the stamp. If the publication fails, the
//! line is taken back. The slot tells readers whether a line has been published: a line uses the
//! slot that its predecessor did not, so the newest entry has been published if its slot is that
//! of the clock's word. This file does not know the word;
//! [`Shared::stamp_to_ns`](crate::shared::Shared::stamp_to_ns) compares the two.
//!
//! Lines that were taken back are counted in all later tags, so that no two entries in one place
//! have the same tag, unless a reader is stopped between two loads while 32,768 publications in a
//! row fail.

use crate::line::{Line, Slope};
use crate::primitive::{AtomicI64, AtomicU64, Ordering};
use crate::units::ticks_between;
use crate::word::Slot;

/// Lines remembered: 64 s at the default interval of 0.5 s, 4 s while lines are as short as a
/// sixteenth of it. Older ticks are converted with the oldest line, and those from before the
/// first line with the first. A model by loom has a ring of two, which three lines overwrite.
pub const CAPACITY: usize = if cfg!(loom) { 2 } else { 128 };

const CAPACITY_U64: u64 = CAPACITY as u64;

const SLOT_BIT: u64 = 1 << 48;

/// BOUND: a line is in use for 50 us at the least, so 2^48 of them last for 446 years.
const COUNT_MASK: u64 = SLOT_BIT - 1;

/// One line that was taken back, in a tag.
const TAKEN_BACK: u64 = SLOT_BIT << 1;

#[derive(Debug)]
struct Entry {
    tag: AtomicU64,
    from_ticks: AtomicU64,
    start_ticks: AtomicU64,
    base_ns: AtomicI64,
    slope: AtomicU64,
    high_water_ns: AtomicI64,
}

impl Entry {
    const fn new() -> Self {
        Self {
            tag: AtomicU64::new(0),
            from_ticks: AtomicU64::new(0),
            start_ticks: AtomicU64::new(0),
            base_ns: AtomicI64::new(0),
            slope: AtomicU64::new(0),
            high_water_ns: AtomicI64::new(0),
        }
    }

    /// Fills in everything but the tag, which is 0 from now on.
    fn fill(&self, past: &Past) {
        // ORDERING: Release for all: a reader that sees a new field also sees the 0 before it
        // (pairs with the Acquire loads in `get`), and one that sees the new tag sees every
        // field.
        self.tag.store(0, Ordering::Release);
        // ORDERING: as above.
        self.from_ticks.store(past.from_ticks, Ordering::Release);
        // ORDERING: as above.
        self.start_ticks.store(past.line.start_ticks, Ordering::Release);
        // ORDERING: as above.
        self.base_ns.store(past.line.base_ns, Ordering::Release);
        // ORDERING: as above.
        self.slope.store(past.line.slope.to_bits(), Ordering::Release);
        // ORDERING: as above.
        self.high_water_ns.store(past.high_water_ns, Ordering::Release);
    }

    /// What it holds, unless it is empty, its tag is not `wanted`, or it changes meanwhile.
    fn read(&self, wanted: impl FnOnce(u64) -> bool, halfway: impl FnOnce()) -> Option<Past> {
        // ORDERING: Acquire, pairs with the Release stores in `fill` and `push`: this load before
        // the fields'.
        let tag = self.tag.load(Ordering::Acquire);
        if tag == 0 || !wanted(tag) {
            return None;
        }
        // ORDERING: Acquire, pairs with the Release stores in `fill`: if one of these is newer
        // than the tag seen above, the load below sees the change.
        let from_ticks = self.from_ticks.load(Ordering::Acquire);
        let line = Line {
            // ORDERING: as above.
            start_ticks: self.start_ticks.load(Ordering::Acquire),
            // ORDERING: as above.
            base_ns: self.base_ns.load(Ordering::Acquire),
            // ORDERING: as above.
            slope: Slope::from_bits(self.slope.load(Ordering::Acquire)),
        };
        // ORDERING: as above.
        let high_water_ns = self.high_water_ns.load(Ordering::Acquire);
        halfway();
        let slot = if tag & SLOT_BIT == 0 { Slot::A } else { Slot::B };
        // ORDERING: Relaxed. The Acquire loads of the fields keep this one behind them, and
        // nothing is read through it: it only decides whether the fields count.
        (self.tag.load(Ordering::Relaxed) == tag).then_some(Past { from_ticks, line, slot, high_water_ns })
    }
}

/// A line of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Past {
    /// The line is in use from this tick on.
    pub(crate) from_ticks: u64,
    pub(crate) line: Line,
    /// Its slot in the cell.
    pub(crate) slot: Slot,
    /// The high-water mark before the line, ns, if it ended a time without a line; the largest
    /// number if it replaced a line.
    pub(crate) high_water_ns: i64,
}

impl Past {
    /// A line that follows another, or a high-water mark, at `at_ticks`. Where the counter is
    /// coarse, readers of the old line may have read that very tick, which therefore stays the
    /// old line's.
    pub(crate) const fn new(at_ticks: u64, line: Line, slot: Slot, high_water_ns: i64) -> Self {
        Self { from_ticks: at_ticks.wrapping_add(1), line, slot, high_water_ns }
    }
}

/// What ticks are in ns, as far as the ring knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conversion {
    /// The time by the line that was in use then. If that line was retired, not above the
    /// high-water mark that it left.
    pub(crate) ns: i64,
    /// Whether the ticks are of the newest published line, which may have been retired since.
    pub(crate) by_newest: bool,
}

/// Why ticks were not converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unconverted {
    /// No line has been published yet.
    NoLine,
    /// The newest line was overwritten or taken back meanwhile: this thread was stopped, and
    /// tries again.
    Moved,
}

/// Where a clock keeps its past lines for the conversion of its stamps. Only the holder of the
/// clock's lock may call these.
pub trait PastLines {
    /// Makes the oldest entry ready for the next line, and brings its memory into the cache: a
    /// warm-up of [`push`](Self::push), which comes while readers wait.
    fn make_room(&self, example: &Past);

    /// Keeps a line that is about to be [pushed](Self::push) for the ticks from before it, if it
    /// is the first line of all, or the first since the counter was reset.
    fn note_first(&self, past: &Past);

    /// Adds a line that is about to be published.
    fn push(&self, past: &Past);

    /// Takes the newest line back, because its publication has failed.
    fn take_back(&self);
}

/// No past lines, for clocks without stamps: the units of the CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoTimeline;

impl PastLines for NoTimeline {
    fn make_room(&self, _example: &Past) {}
    fn note_first(&self, _past: &Past) {}
    fn push(&self, _past: &Past) {}
    fn take_back(&self) {}
}

/// The ring of past lines. See the head of `timeline.rs`.
#[derive(Debug)]
pub struct Timeline {
    /// The first line since the counter was last reset.
    first: Entry,
    entries: [Entry; CAPACITY],
    /// The tag of the newest entry, without its slot.
    newest: AtomicU64,
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
        Self { first: Entry::new(), entries: [const { Entry::new() }; CAPACITY], newest: AtomicU64::new(0) }
    }

    /// The place of the line that has so many predecessors.
    fn entry(&self, lines: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(lines & (CAPACITY_U64 - 1)).ok()?)
    }

    fn newest_tag(&self) -> u64 {
        // ORDERING: Relaxed, only the lock's holder writes this, and the lock orders its holders.
        self.newest.load(Ordering::Relaxed)
    }

    /// As [`push`](Self::push); `halfway` runs when the fields are written and the tag is not.
    /// Tests put into it what other threads may do there.
    fn push_with(&self, past: &Past, halfway: impl FnOnce()) {
        let newest = self.newest_tag();
        let Some(entry) = self.entry(newest & COUNT_MASK) else { return };
        entry.fill(past);
        halfway();
        let tag = newest.wrapping_add(1);
        // ORDERING: Release, as in `fill`.
        entry.tag.store(if matches!(past.slot, Slot::A) { tag } else { tag | SLOT_BIT }, Ordering::Release);
        // ORDERING: Release, pairs with the Acquire load in `convert`: a thread that sees the
        // count sees the entry. A thread that sees the line published sees the entry because of
        // the swap of the word, which releases both.
        self.newest.store(tag, Ordering::Release);
    }

    pub(crate) fn get(&self, lines: u64) -> Option<Past> {
        self.get_with(lines, || {})
    }

    /// The line that has so many predecessors. `halfway` runs when the fields have been read and
    /// the tag has not been read again. Tests put into it what other threads may do there.
    fn get_with(&self, lines: u64, halfway: impl FnOnce()) -> Option<Past> {
        self.entry(lines)?.read(|tag| tag & COUNT_MASK == lines.wrapping_add(1), halfway)
    }

    /// `ticks` in ns, with the line that was in use then. Ticks before the oldest line that is
    /// left are converted with that one, ticks from before the first line with the first, and
    /// newer ones with the newest. The newest line is the one in `slot`, which is that of the
    /// clock's word: a newer entry has not been published.
    pub(crate) fn convert(&self, ticks: u64, slot: Slot) -> Result<Conversion, Unconverted> {
        // ORDERING: Acquire, pairs with the Release stores in `push` and `take_back`.
        let lines = self.newest.load(Ordering::Acquire) & COUNT_MASK;
        let mut found: Option<Past> = None;
        // A thread that was stopped between its reads of the word and of the counter may have a
        // stamp of a time without a line. Such a stamp must not be above what was read since its
        // line was retired.
        let mut limit_ns = i64::MAX;
        let mut by_newest = true;
        for age in 1..=CAPACITY_U64.min(lines) {
            let Some(past) = self.get(lines.wrapping_sub(age)) else {
                if found.is_none() {
                    return Err(Unconverted::Moved);
                }
                break; // being overwritten: this one and all older ones are gone
            };
            if let Some(newer) = found {
                if ticks_between(newer.from_ticks, past.from_ticks) > 0 {
                    break; // the counter was reset between the two: all older lines are from before that
                }
                limit_ns = newer.high_water_ns;
                by_newest = false;
            } else if past.slot != slot {
                continue;
            }
            found = Some(past);
            if ticks_between(past.from_ticks, ticks) >= 0 {
                break;
            }
        }
        let mut past = found.ok_or(Unconverted::NoLine)?;
        if ticks_between(past.from_ticks, ticks) < 0 {
            // Forgotten, or never known. The time of ticks from before the first line does not
            // change when lines are forgotten.
            let is_before = |first: &Past| ticks_between(first.from_ticks, ticks) < 0;
            past = self.first.read(|_| true, || {}).filter(is_before).unwrap_or(past);
        }
        Ok(Conversion { ns: past.line.at_any(ticks).min(limit_ns), by_newest })
    }
}

impl PastLines for Timeline {
    fn make_room(&self, example: &Past) {
        if let Some(entry) = self.entry(self.newest_tag() & COUNT_MASK) {
            entry.fill(example);
        }
    }

    fn note_first(&self, past: &Past) {
        let newest = self.newest_tag();
        let last = self.get((newest & COUNT_MASK).wrapping_sub(1));
        if last.is_none_or(|last| ticks_between(last.from_ticks, past.from_ticks) < 0) {
            self.first.fill(past);
            // ORDERING: Release, as in `fill`.
            self.first.tag.store(newest.wrapping_add(1), Ordering::Release);
        }
    }

    fn push(&self, past: &Past) {
        self.push_with(past, || {});
    }

    fn take_back(&self) {
        let tag = self.newest_tag().wrapping_sub(1);
        // ORDERING: Release, pairs with the Acquire load in `convert`. This comes first: readers
        // that find the entry gone load this again, and must not have to wait for the writer.
        self.newest.store(tag.wrapping_add(TAKEN_BACK), Ordering::Release);
        if let Some(entry) = self.entry(tag & COUNT_MASK) {
            // ORDERING: Release, as in `fill`.
            entry.tag.store(0, Ordering::Release);
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

    /// Adds the line whose number is `k`.
    fn push(timeline: &Timeline, k: u64) {
        timeline.push(&past(k));
    }

    fn past(k: u64) -> Past {
        Past { from_ticks: 1_000 * k, line: line(k), slot: slot(k), high_water_ns: i64::MAX }
    }

    fn slot(k: u64) -> Slot {
        if k % 2 == 0 { Slot::A } else { Slot::B }
    }

    /// `ticks` in ns where line `newest` has been published.
    fn convert(timeline: &Timeline, ticks: u64, newest: u64) -> Option<i64> {
        timeline.convert(ticks, slot(newest)).ok().map(|conversion| conversion.ns)
    }

    #[test]
    fn old_ticks_use_the_line_of_their_time() {
        let timeline = Timeline::new();
        assert_eq!(timeline.convert(5, Slot::A), Err(Unconverted::NoLine));
        for k in 1..=10 {
            push(&timeline, k);
        }
        assert_eq!(convert(&timeline, 4_999, 10), Some(4_999 + 4));
        assert_eq!(convert(&timeline, 5_000, 10), Some(5_000 + 5));
        assert_eq!(convert(&timeline, 99_000, 10), Some(99_000 + 10), "the future uses the newest line");
        assert_eq!(convert(&timeline, 3, 10), Some(3 + 1), "before the first line, the first one");
    }

    /// A plain read of the counter may come a little before the first line's publication. The
    /// oldest line from before the reset converted it, hours off.
    #[test]
    fn lines_of_before_a_reset_are_not_used_after_it() {
        let timeline = Timeline::new();
        for k in [5_000, 5_001, 1, 2] {
            push(&timeline, k);
        }
        assert_eq!(convert(&timeline, 990, 2), Some(990 + 1));
        assert_eq!(convert(&timeline, 1_500, 2), Some(1_500 + 1));
        assert_eq!(convert(&timeline, 2_500, 2), Some(2_500 + 2));
    }

    #[test]
    fn a_full_ring_keeps_the_newest() {
        let timeline = Timeline::new();
        let last = 3 * CAPACITY_U64;
        for k in 1..=last {
            push(&timeline, k);
        }
        let oldest = last - CAPACITY_U64 + 1;
        assert_eq!(convert(&timeline, 1_000 * oldest, last), Some(i64::try_from(1_001 * oldest).unwrap()));
        assert_eq!(convert(&timeline, 5_000, last), Some(i64::try_from(5_000 + oldest).unwrap()));
    }

    /// The first load of the tag: the number of an entry is gone before its fields change.
    #[test]
    fn an_entry_that_is_being_written_is_not_used() {
        let timeline = Timeline::new();
        for k in 1..=CAPACITY_U64 {
            push(&timeline, k);
        }
        assert_eq!(timeline.get(0).map(|past| past.line), Some(line(1)));
        let next = CAPACITY_U64 + 1;
        let ran = core::cell::Cell::new(false);
        timeline.push_with(&past(next), || {
            assert_eq!(timeline.get(0), None, "this place is being filled with another line");
            assert_eq!(convert(&timeline, 1_500, 2), Some(1_500 + 2), "the oldest line that is left");
            ran.set(true);
        });
        assert!(ran.get(), "the read from within did not happen");
        assert_eq!(
            timeline.get(CAPACITY_U64).map(|past| (past.from_ticks, past.line)),
            Some((1_000 * next, line(next)))
        );
    }

    /// The second load of the tag: a reader that was stopped while the ring went round does not
    /// use what it has read.
    #[test]
    fn an_entry_that_was_overwritten_while_it_was_read_is_not_used() {
        for pushes in [0, 1, CAPACITY_U64 - 1, CAPACITY_U64, CAPACITY_U64 + 1, 3 * CAPACITY_U64] {
            let timeline = Timeline::new();
            push(&timeline, 1);
            let entry = timeline.get_with(0, || {
                for k in 2..pushes + 2 {
                    push(&timeline, k);
                }
            });
            assert_eq!(entry.is_some(), pushes < CAPACITY_U64, "after {pushes} more lines");
        }
    }

    /// Before a line is published, and after its publication has failed, ticks belong to its
    /// predecessor.
    #[test]
    fn a_line_that_is_not_published_is_not_used() {
        let timeline = Timeline::new();
        push(&timeline, 1);
        assert_eq!(timeline.convert(1_500, slot(0)), Err(Unconverted::NoLine), "not yet");
        assert_eq!(convert(&timeline, 1_500, 1), Some(1_500 + 1));
        for k in 2..if cfg!(miri) { 9 } else { 300 } {
            push(&timeline, k);
            let ticks = 1_000 * k + 500;
            let by = |k| Some(i64::try_from(ticks + k).unwrap());
            assert_eq!(convert(&timeline, ticks, k - 1), by(k - 1), "not yet");
            timeline.take_back();
            for word in [k - 1, k] {
                assert_eq!(timeline.get(k - 1), None);
                assert_ne!(convert(&timeline, ticks, word), by(k), "taken back");
            }
            push(&timeline, k);
            assert_eq!(convert(&timeline, ticks, k), by(k), "at the second try");
            let older = timeline.convert(1_000 * k - 500, slot(k)).unwrap();
            assert!(!older.by_newest && timeline.convert(ticks, slot(k)).unwrap().by_newest);
        }
    }

    /// The difference from ticks that are older than the clock grew or shrank with each line that
    /// was forgotten: the first lines' slopes are uncertain, and the counter may have run for
    /// days before.
    #[test]
    fn ticks_of_before_the_first_line_stay_where_they_are() {
        let timeline = Timeline::new();
        let slope = Slope::from_hz(1_000_000_000).unwrap();
        let line = |k: i64| Line { slope: slope.adjusted_ppb(-1_000 * k), ..line(k.unsigned_abs()) };
        let add = |k| {
            let line = line(k);
            let past = Past { line, slot: Slot::A, ..past(k.unsigned_abs()) };
            timeline.note_first(&past);
            timeline.push(&past);
        };
        let ns = |ticks| timeline.convert(ticks, Slot::A).unwrap().ns;
        let before = 0_u64.wrapping_sub(1 << 50);
        for start in [5_000_000, 100] {
            // The counter is reset in between.
            add(start);
            let kept = [before, 7].map(ns);
            assert_eq!(kept, [before, 7].map(|ticks| line(start).at_any(ticks)));
            for k in start + 1..start + 160 {
                add(k);
                // A conversion reads each line that is left: Miri takes long.
                if k % if cfg!(miri) { 80 } else { 16 } == 0 {
                    assert_eq!([before, 7].map(ns), kept, "after {k} lines");
                }
            }
            let forgotten = 1_000 * start.unsigned_abs() + 1_500;
            assert_eq!(ns(forgotten), line(start + 160 - i64::try_from(CAPACITY).unwrap()).at_any(forgotten));
        }
    }

    /// A line that was taken back leaves its place to the next one, with the same number of lines
    /// before it.
    #[test]
    fn an_entry_that_was_taken_back_while_it_was_read_is_not_used() {
        let timeline = Timeline::new();
        push(&timeline, 1);
        push(&timeline, 2);
        let entry = timeline.get_with(1, || {
            timeline.take_back();
            push(&timeline, 4);
        });
        assert_eq!(entry, None);
        assert_eq!(timeline.get(1).map(|past| past.line), Some(line(4)));
    }

    /// Ticks from between the end of a line and the next first line are no later than what was
    /// read in between.
    #[test]
    fn a_line_ends_at_the_next_high_water_mark() {
        let timeline = Timeline::new();
        push(&timeline, 1);
        timeline.push(&Past { high_water_ns: 1_501, ..past(3) });
        push(&timeline, 4);
        let ns = |ticks| convert(&timeline, ticks, 4).unwrap();
        assert_eq!([1_000, 1_499, 1_501, 2_999, 3_000].map(ns), [1_001, 1_500, 1_501, 1_501, 3_003]);
    }

    #[test]
    fn readers_never_see_a_mixed_entry() {
        let timeline = Timeline::new();
        let last: u64 = if cfg!(miri) { 40 } else { 200_000 };
        let push = |k| timeline.push(&Past { slot: Slot::A, ..past(k) });
        push(1);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut ticks = 1_000;
                loop {
                    let Ok(Conversion { ns, .. }) = timeline.convert(ticks, Slot::A) else { continue };
                    // Whatever line was used, it is one of those that were pushed: the surplus is
                    // its number.
                    let number = u64::try_from(ns).unwrap() - ticks;
                    assert!((1..=last).contains(&number), "{number}");
                    if number == last {
                        break;
                    }
                    ticks = 1_000 * (number + 1);
                }
            });
            for k in 2..=last {
                if k % 3 == 0 {
                    push(k);
                    timeline.take_back();
                }
                push(k);
            }
            reader.join().unwrap();
        });
    }
}
