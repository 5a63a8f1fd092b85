//! A snapshot of a page, for programs that report its state.

use tickline_core::counter::Counter;
use tickline_core::units::ticks_between;

use crate::lease::memory::{EndMark, LeaseLine, LeaseMemory, LeaseWord, UNIX_BY_OS};
use crate::lease::{LeasePhase, is_before};

/// The limit of attempts to load one word and its slots. A word changes a few times a second.
const MAX_ATTEMPTS: u32 = 64;

/// The state of a page at one moment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageSnapshot {
    /// The page's phase.
    pub phase: LeasePhase,
    /// Whether [`switch_off`](super::switch_off) has switched the page off.
    pub is_switched_off: bool,
    /// The number of changes of the page.
    pub generation: u64,
    /// Whether the page is published or doubted, and a line counts now.
    pub is_served: bool,
    /// The time since the current line's first tick, ns. `None` without a line.
    pub age_ns: Option<i64>,
    /// The time until the leases run out, ns; negative if they have run out. `None` without a line.
    pub lease_left_ns: Option<i64>,
    /// The length of the last lease, ns. `None` without a line.
    pub lease_ns: Option<i64>,
    /// The largest distance of readings above the OS clock, ns: the lead of the line, or of the
    /// end mark. `None` without a lead.
    pub lead_ns: Option<i64>,
    /// The largest distance of Unix readings above the OS clock's Unix time, ns. `None` if Unix
    /// time comes from the OS clock.
    pub unix_lead_ns: Option<i64>,
}

impl PageSnapshot {
    pub(super) fn take(memory: &impl LeaseMemory, counter: &impl Counter) -> Self {
        let found = (0..MAX_ATTEMPTS).find_map(|_| Self::try_take(memory, counter));
        found.unwrap_or_else(|| Self::without_slots(memory.word()))
    }

    /// A snapshot without the contents of the slots.
    fn without_slots(word: LeaseWord) -> Self {
        Self {
            phase: word.phase(),
            is_switched_off: word.stays_off(),
            generation: word.generation(),
            ..Self::default()
        }
    }

    /// Takes a snapshot; `None` if the word has changed meanwhile.
    fn try_take(memory: &impl LeaseMemory, counter: &impl Counter) -> Option<Self> {
        let word = memory.word();
        let empty = Self::without_slots(word);
        let found = match word.phase() {
            LeasePhase::Off => empty,
            LeasePhase::NoLine | LeasePhase::FirstPublication => {
                let lead_ns = EndMark::load(memory, word.first()).lead_ns;
                Self {
                    lead_ns: Some(lead_ns).filter(|lead_ns| (1..i64::MAX).contains(lead_ns)),
                    ..empty
                }
            }
            LeasePhase::Published | LeasePhase::Doubted => {
                let first = LeaseLine::load(memory, word.first());
                let last = word
                    .second()
                    .map_or(first, |slot| LeaseLine::load(memory, slot));
                let ticks = counter.now_ordered();
                let is_first = is_before(ticks, first.end_ticks);
                let current = if is_first { first } else { last };
                let ns = |from, to| current.line.slope.over(ticks_between(from, to)).floor_ns();
                let (age_ns, left_ns) = (
                    ns(current.line.start_ticks, ticks),
                    ns(ticks, last.end_ticks),
                );
                let has_unix = current.unix.offset_ns != UNIX_BY_OS;
                Self {
                    is_served: age_ns >= 0 && left_ns > 0,
                    age_ns: Some(age_ns),
                    lease_left_ns: Some(left_ns),
                    lease_ns: Some(ns(last.line.start_ticks, last.end_ticks)),
                    lead_ns: Some(current.lead_ns),
                    unix_lead_ns: has_unix.then_some(current.unix.lead_ns),
                    ..empty
                }
            }
        };
        memory.is_still(word).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::testing::Scene;

    fn snapshot(scene: &'static Scene) -> PageSnapshot {
        PageSnapshot::take(scene, &scene)
    }

    /// Checks a time of the snapshot against a number of ticks, of 1 ns each. A line's slope may
    /// differ by some ppm.
    #[track_caller]
    fn assert_near(ns: Option<i64>, ticks: i64) {
        let ns = ns.expect("a line");
        assert!(ns.abs_diff(ticks) <= 10_000, "{ns} ns, {ticks} ticks");
    }

    #[test]
    fn a_page_that_is_off_has_neither_line_nor_lead() {
        let scene = Scene::off();
        let expected = PageSnapshot {
            generation: scene.word().generation(),
            ..PageSnapshot::default()
        };
        assert_eq!(snapshot(scene), expected);
    }

    #[test]
    fn a_snapshot_says_whether_the_page_was_switched_off() {
        let scene = Scene::without_line();
        assert!(!snapshot(scene).is_switched_off);
        scene.switch_off();
        assert!(snapshot(scene).is_switched_off);
    }

    #[test]
    fn a_snapshot_has_the_phase_and_the_generation_of_the_page() {
        for scene in [Scene::without_line(), Scene::published()] {
            let PageSnapshot {
                phase, generation, ..
            } = snapshot(scene);
            let word = scene.word();
            assert_eq!((phase, generation), (word.phase(), word.generation()));
        }
    }

    #[test]
    fn a_page_is_served_from_its_first_tick_to_its_last() {
        let scene = Scene::published();
        let line = scene.last();
        for (ticks, is_served) in [
            (line.line.start_ticks - 1, false),
            (line.line.start_ticks, true),
            (line.end_ticks - 1_000, true),
            (line.end_ticks, false),
        ] {
            // The counter goes on by 10 ticks before it is read.
            scene.ticks.set(ticks - 10);
            assert_eq!(snapshot(scene).is_served, is_served, "{ticks}");
        }
    }

    #[test]
    fn the_age_counts_from_the_first_tick_of_the_current_line() {
        let scene = Scene::published_twice();
        for line in scene.lines() {
            scene.ticks.set(line.line.start_ticks + 1_000_000);
            assert_near(snapshot(scene).age_ns, 1_000_000);
        }
    }

    #[test]
    fn the_time_left_counts_to_the_end_of_the_last_line() {
        let scene = Scene::published_twice();
        for left_ticks in [700_000_000, 3_000_000, -5_000_000] {
            let end_ticks = scene.last().end_ticks;
            scene.ticks.set(end_ticks.wrapping_add_signed(-left_ticks));
            assert_near(snapshot(scene).lease_left_ns, left_ticks);
        }
    }

    #[test]
    fn the_lease_is_as_long_as_the_last_line() {
        let scene = Scene::published_twice();
        let last = scene.last();
        let ticks = last.end_ticks - last.line.start_ticks;
        assert_near(snapshot(scene).lease_ns, ticks.cast_signed());
    }

    #[test]
    fn the_leads_are_those_of_the_current_line() {
        let scene = Scene::published();
        let line = scene.last();
        let PageSnapshot {
            lead_ns,
            unix_lead_ns,
            ..
        } = snapshot(scene);
        assert_eq!(lead_ns, Some(line.lead_ns));
        assert_eq!(unix_lead_ns, Some(line.unix.lead_ns));
    }

    /// The lead of a page without a line, whose end mark has this lead.
    fn lead_without_line(lead_ns: i64) -> Option<i64> {
        let scene = Scene::without_line();
        let mark = EndMark {
            lead_ns,
            ..EndMark::NONE
        };
        scene.put(LeasePhase::NoLine, &mark.to_words());
        snapshot(scene).lead_ns
    }

    #[test]
    fn without_a_line_the_lead_is_that_of_the_end_mark() {
        assert_eq!(lead_without_line(1), Some(1));
    }

    #[test]
    fn a_mark_that_raises_no_reading_or_has_no_limit_has_no_lead() {
        assert_eq!([0, i64::MAX].map(lead_without_line), [None; 2]);
    }

    #[test]
    fn a_page_whose_leases_have_ended_has_no_age() {
        let scene = Scene::published();
        scene.pass(2_000_000_000);
        scene.does(crate::lease::WriterAction::Ended);
        let found = snapshot(scene);
        assert_eq!((found.is_served, found.age_ns), (false, None));
    }
}
