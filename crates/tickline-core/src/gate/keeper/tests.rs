//! Tests of the keeper, with a real clock. One thread plays all parts: other threads act
//! before any step that the keeper takes on the line's cell. `loom_tests` checks the orderings.

use core::cell::Cell;

use super::*;
use crate::shared::Event;
use crate::testing::{FnClock, HookedCell, HookedClock, Machine, RESOLUTIONS, leak};

mod changes;
mod line_kinds;

/// A keeper, and the clock that it bars and unbars.
struct Kept {
    keeper: Keeper,
    clock: HookedClock,
}

/// What another thread may do meanwhile.
#[derive(Clone, Copy)]
struct Act {
    name: &'static str,
    act: fn(&Kept),
    /// What it leads to on a clock whose gates are open.
    effect: Effect,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// None, so a review that finds the gates open again is still valid.
    Nothing,
    /// The gates are judged again. Only then is the clock barred, if at all.
    Judgement,
    /// The clock is barred, and the gates are judged again.
    BarAndJudgement,
    /// The clock is barred, and the counter stays switched off.
    SwitchedOff,
}

impl Effect {
    const fn bars(self) -> bool {
        matches!(self, Self::BarAndJudgement | Self::SwitchedOff)
    }
}

const DISABLE: Act = Act {
    name: "disable",
    act: |kept| kept.disable(),
    effect: Effect::SwitchedOff,
};

const REQUEST_JUDGEMENT: Act = Act {
    name: "request_judgement",
    act: |kept| kept.keeper.request_judgement(Some(&kept.access())),
    effect: Effect::BarAndJudgement,
};

const ACTS: [Act; 6] = [
    DISABLE,
    Act {
        name: "enable",
        act: |kept| kept.keeper.enable(),
        effect: Effect::Nothing,
    },
    REQUEST_JUDGEMENT,
    Act {
        name: "set_line_kind",
        act: |kept| kept.keeper.set_line_kind(LineKind::PerCpu),
        effect: Effect::Judgement,
    },
    Act {
        name: "disable, enable",
        act: |kept| {
            kept.disable();
            kept.keeper.enable();
        },
        effect: Effect::BarAndJudgement,
    },
    Act {
        name: "enable, disable",
        act: |kept| {
            kept.keeper.enable();
            kept.disable();
        },
        effect: Effect::SwitchedOff,
    },
];

const OPEN: Decision = Decision::Open {
    resolutions: RESOLUTIONS,
    serves_unix_time: true,
};
const FOR_GOOD: Decision = Decision::Closed { retry_at_ns: None };
const FOR_LONG: Decision = Decision::Closed {
    retry_at_ns: Some(i64::MAX),
};

impl Kept {
    /// A keeper before the first judgement, and a clock that is barred.
    fn new() -> &'static Self {
        let clock = HookedClock::new(HookedCell::new(Machine::new()));
        clock.bar_clock();
        leak(Self {
            keeper: Keeper::new(),
            clock,
        })
    }

    /// A clock whose gates were judged to be open.
    fn unbarred() -> &'static Self {
        let kept = Self::new();
        assert!(kept.opens());
        kept
    }

    fn access(&self) -> Access<'_, HookedCell, Machine, Machine> {
        Access {
            shared: &self.clock,
            counter: self.clock.cell().machine,
            reference: self.clock.cell().machine,
        }
    }

    fn is_unbarred(&self) -> bool {
        !self.clock.cell().load().is_barred()
    }

    /// How often the clock was barred.
    fn bars(&self) -> u64 {
        self.clock.readings().event_count(Event::GateClosed)
    }

    fn disable(&self) {
        self.keeper.disable(Some(&self.access()));
    }

    fn is_due(&self, now_ns: i64) -> bool {
        self.keeper.is_due(self.keeper.stage(), now_ns)
    }

    fn begin_if_due(&self, now_ns: i64) -> Option<BegunJudgement> {
        self.keeper.begin_if_due(&FnClock(|| now_ns))
    }

    fn settle(&self, begun: BegunJudgement, decision: Decision) -> Option<LineKind> {
        self.keeper.settle(begun, decision, Some(&self.access()))
    }

    /// Judges the gates if that is due at `now_ns`. Returns whether the clock is unbarred after
    /// that.
    fn judge_if_due(&self, now_ns: i64, judge: impl FnOnce() -> Decision) -> bool {
        let judged = || self.settle(self.begin_if_due(now_ns)?, judge());
        let kind = self.keeper.usable_line_kind().or_else(judged);
        let may_iterate = kind.is_some();
        assert_eq!(
            kind,
            self.keeper.usable_line_kind(),
            "for the lines of readers"
        );
        assert_eq!(
            may_iterate,
            self.keeper.stage() == Stage::Open,
            "may iterate only if the stage is open"
        );
        assert_eq!(
            may_iterate,
            self.is_unbarred(),
            "the clock agrees with the stage"
        );
        may_iterate
    }

    /// Judges the gates again. Returns whether that was possible.
    fn review(&self, decision: Decision) -> bool {
        let begun = self.keeper.begin_review();
        begun.is_some_and(|begun| {
            self.settle(begun, decision);
            true
        })
    }

    /// Runs the next judgement without other threads, and with all facts for the counter.
    fn opens(&self) -> bool {
        self.judge_if_due(0, || OPEN)
    }

    /// Runs `work`, and runs `act` before step number `step` that it takes on the cell or a clock.
    /// `None` if it takes fewer steps.
    fn interrupted<T>(
        &'static self,
        step: u32,
        act: impl Fn(&Self) + 'static,
        work: impl FnOnce() -> T,
    ) -> Option<T> {
        let taken = leak(Cell::new(0));
        self.clock.cell().machine.hooks.set(move |_| {
            if taken.get() == step {
                act(self);
            }
            taken.set(taken.get() + 1);
        });
        let result = work();
        self.clock.cell().machine.hooks.clear();
        (taken.get() > step).then_some(result)
    }
}

/// Rule K1: these calls change the word, then bar the clock. Once they have returned, it is barred.
#[test]
fn rule_k1_disable_bars_the_clock_before_it_returns() {
    for (Act { name, act, .. }, stage) in [
        (DISABLE, Stage::Disabled),
        (REQUEST_JUDGEMENT, Stage::Unjudged),
    ] {
        let kept = Kept::unbarred();
        let steps = leak(Cell::new(0));
        kept.clock.cell().machine.hooks.set(move |_| {
            assert_eq!(kept.keeper.stage(), stage, "{name}");
            steps.set(steps.get() + 1);
        });
        act(kept);
        kept.clock.cell().machine.hooks.clear();
        assert!(steps.get() > 0 && !kept.is_unbarred(), "{name}");
    }
}

/// Clocks whose gates were judged to be open, with one line and with a line for each CPU.
fn open_clocks() -> impl Iterator<Item = (LineKind, &'static Kept)> {
    [LineKind::Common, LineKind::PerCpu]
        .into_iter()
        .map(|kind| {
            let kept = Kept::new();
            kept.keeper.set_line_kind(kind);
            assert!(kept.opens());
            (kind, kept)
        })
}

/// Symptom: readers of the CPUs' lines took the OS clock, and stepped back, after an `enable()` and
/// until the clock's thread came by.
#[test]
fn readers_keep_their_lines_after_an_enable() {
    for (kind, kept) in open_clocks() {
        kept.keeper.enable();
        assert_eq!(kept.keeper.usable_line_kind(), Some(kind));
    }
}

#[test]
fn gates_that_are_open_are_not_judged_after_an_enable() {
    for (_, kept) in open_clocks() {
        kept.keeper.enable();
        assert!(kept.judge_if_due(0, || panic!("judged already")));
    }
}

/// The child has no facts yet. Symptom: readers of the CPUs' lines took the OS clock, and stepped
/// back, while another thread of a forked child judged.
#[test]
fn readers_keep_their_lines_while_a_forked_child_judges() {
    for (kind, kept) in open_clocks() {
        let _begun = kept.begin_if_due(0).expect("the next holder judges");
        assert_eq!(kept.keeper.usable_line_kind(), Some(kind));
    }
}

#[test]
fn a_forked_child_that_finds_a_gate_closed_takes_its_readers_lines() {
    for (_, kept) in open_clocks() {
        let begun = kept.begin_if_due(0).expect("the next holder judges");
        assert_eq!(kept.settle(begun, FOR_GOOD), None);
        assert_eq!(kept.keeper.usable_line_kind(), None);
    }
}

#[test]
fn an_enable_during_a_forked_childs_judgement_voids_nothing() {
    for (kind, kept) in open_clocks() {
        let begun = kept.begin_if_due(0).expect("the next holder judges");
        (0..2).for_each(|_| kept.keeper.enable());
        assert_eq!(kept.keeper.usable_line_kind(), Some(kind));
        assert_eq!(kept.settle(begun, OPEN), Some(kind));
    }
}

/// Symptom: readers of the CPUs' lines took the OS clock, and stepped back, after an `enable()`
/// during a review that found every gate open.
#[test]
fn an_enable_during_a_review_voids_nothing() {
    for (kind, kept) in open_clocks() {
        let begun = kept.keeper.begin_review().expect("judged before");
        (0..2).for_each(|_| kept.keeper.enable());
        assert_eq!(kept.keeper.usable_line_kind(), Some(kind), "meanwhile");
        assert_eq!(kept.settle(begun, OPEN), Some(kind));
        assert_eq!(kept.keeper.usable_line_kind(), Some(kind), "afterwards");
        assert!(kept.is_unbarred());
    }
}

#[test]
fn a_first_judgement_is_due_at_once() {
    let kept = Kept::new();
    assert_eq!(kept.keeper.stage(), Stage::Unjudged);
    assert!(kept.is_due(i64::MIN));
}

/// A clock with a closed gate that is judged again at 100 ns.
fn waiting() -> &'static Kept {
    let kept = Kept::new();
    let retry_at_ns = Some(100);
    assert!(!kept.judge_if_due(0, || Decision::Closed { retry_at_ns }));
    kept
}

#[test]
fn a_clock_whose_gate_may_open_by_itself_waits() {
    assert_eq!(waiting().keeper.stage(), Stage::Waiting);
}

#[test]
fn a_gate_whose_reason_may_pass_is_judged_again_at_the_time_of_its_retry() {
    let kept = waiting();
    assert_eq!((kept.is_due(99), kept.is_due(100)), (false, true));
    assert!(!kept.judge_if_due(99, || panic!("not yet")));
    assert!(kept.judge_if_due(100, || OPEN));
}

#[test]
fn a_gate_whose_reason_may_pass_can_be_closed_for_good_later() {
    let kept = waiting();
    assert!(!kept.judge_if_due(100, || FOR_GOOD));
    assert_eq!(kept.keeper.stage(), Stage::Closed);
}

#[test]
fn a_gate_that_is_closed_for_good_is_not_judged_again() {
    let kept = Kept::new();
    assert!(!kept.judge_if_due(0, || FOR_GOOD));
    assert_eq!(kept.keeper.stage(), Stage::Closed);
    assert!(!kept.is_due(i64::MAX));
    assert!(!kept.judge_if_due(i64::MAX, || panic!("nothing has changed")));
}

#[test]
fn enabling_has_a_closed_gate_judged_at_once() {
    let kept = Kept::new();
    kept.judge_if_due(0, || FOR_GOOD);
    kept.keeper.enable();
    assert!(kept.is_due(i64::MIN));
    assert!(kept.opens());
}

#[test]
fn an_iteration_is_due_at_the_time_that_was_set() {
    let kept = Kept::unbarred();
    kept.keeper.set_due(500);
    assert_eq!((kept.is_due(499), kept.is_due(500)), (false, true));
}

#[test]
fn an_iteration_is_due_in_a_time_namespace_that_is_behind() {
    let kept = Kept::unbarred();
    kept.keeper.set_due(500);
    assert!(kept.is_due(499 - 10_000_000_000));
}

#[test]
fn a_clock_that_is_switched_off_is_not_judged() {
    let kept = Kept::unbarred();
    kept.disable();
    assert!(!kept.is_due(i64::MAX));
    assert!(!kept.judge_if_due(0, || panic!("switched off")));
}

#[test]
fn a_clock_that_is_switched_off_twice_stays_off() {
    let kept = Kept::unbarred();
    kept.disable();
    kept.disable();
    assert_eq!(kept.keeper.stage(), Stage::Disabled);
}

#[test]
fn a_request_has_no_clock_judged_that_is_switched_off() {
    let kept = Kept::unbarred();
    kept.disable();
    kept.keeper.request_judgement(Some(&kept.access()));
    assert!(!kept.judge_if_due(0, || panic!("still switched off")));
}

#[test]
fn a_clock_is_not_reviewed_before_its_first_judgement() {
    assert!(!Kept::new().review(OPEN));
}

#[test]
fn a_review_that_is_not_settled_keeps_the_clock_unbarred() {
    let kept = Kept::unbarred();
    assert!(kept.keeper.begin_review().is_some());
    assert!(kept.is_unbarred());
}

#[test]
fn a_review_that_finds_the_gates_open_ends_the_line_of_the_earlier_judgement() {
    let kept = Kept::unbarred();
    let bars = kept.bars();
    assert!(kept.review(OPEN) && kept.is_unbarred());
    assert_eq!(kept.bars(), bars + 1);
}

#[test]
fn a_review_that_finds_a_gate_closed_bars_the_clock() {
    let kept = Kept::unbarred();
    assert!(kept.review(FOR_GOOD) && !kept.is_unbarred());
}

#[test]
fn a_review_unbars_a_clock_whose_gate_was_closed_for_good() {
    let kept = Kept::unbarred();
    assert!(kept.review(FOR_GOOD));
    assert!(kept.review(OPEN) && kept.is_unbarred());
}

#[test]
fn a_clock_that_is_switched_off_is_not_reviewed() {
    let kept = Kept::unbarred();
    kept.disable();
    assert!(!kept.review(OPEN));
}
