//! Rules K2 and K3: other threads change the word while a thread judges, or bars the clock.

use super::*;

/// A judgement, and its result.
#[derive(Debug, Clone, Copy)]
struct Judgement {
    is_review: bool,
    decision: Decision,
}

const JUDGEMENTS: [Judgement; 6] = [
    Judgement::first(OPEN),
    Judgement::first(FOR_GOOD),
    Judgement::first(FOR_LONG),
    Judgement::review(OPEN),
    Judgement::review(FOR_GOOD),
    Judgement::review(FOR_LONG),
];

impl Judgement {
    const fn first(decision: Decision) -> Self {
        Self {
            is_review: false,
            decision,
        }
    }

    const fn review(decision: Decision) -> Self {
        Self {
            is_review: true,
            decision,
        }
    }

    fn begin(self) -> (&'static Kept, BegunJudgement) {
        if self.is_review {
            let kept = Kept::unbarred();
            let begun = kept.keeper.begin_review().expect("judged before");
            (kept, begun)
        } else {
            let kept = Kept::new();
            let begun = kept.begin_if_due(0).expect("a judgement is due");
            (kept, begun)
        }
    }

    /// Another thread acts while the facts are collected.
    fn disturbed_before_it_is_settled(self, act: Act) -> Disturbed {
        let (kept, begun) = self.begin();
        (act.act)(kept);
        Disturbed {
            judgement: self,
            act,
            when: "before it is settled".to_owned(),
            kept,
            kind: kept.settle(begun, self.decision),
        }
    }

    /// Another thread acts before this step of settling it. `None` if it has fewer steps.
    fn disturbed_at(self, step: u32, act: Act) -> Option<Disturbed> {
        let (kept, begun) = self.begin();
        let settle = || kept.settle(begun, self.decision);
        let kind = kept.interrupted(step, act.act, settle)?;
        Some(Disturbed {
            judgement: self,
            act,
            when: format!("before step {step}"),
            kept,
            kind,
        })
    }
}

/// A judgement that has ended, and in whose middle another thread has acted.
struct Disturbed {
    judgement: Judgement,
    act: Act,
    when: String,
    kept: &'static Kept,
    /// The kind of line for which an iteration may run.
    kind: Option<LineKind>,
}

impl Disturbed {
    /// Every judgement with every act at every step.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for judgement in JUDGEMENTS {
            for act in ACTS {
                all.push(judgement.disturbed_before_it_is_settled(act));
                let before = all.len();
                all.extend((0..).map_while(|step| judgement.disturbed_at(step, act)));
                assert!(all.len() > before, "no step bars or unbars the clock");
            }
        }
        all
    }

    fn text(&self) -> String {
        format!("{} {}, {:?}", self.act.name, self.when, self.judgement)
    }
}

/// Rule K2: a change in the middle of a judgement counts, for every result of the judgement. That
/// judgement admits no driver. The change comes while the facts are collected, or before any step
/// of settling it.
#[test]
fn rule_k2_a_change_during_a_judgement_voids_it() {
    for disturbed in Disturbed::all() {
        let Judgement {
            is_review,
            decision,
        } = disturbed.judgement;
        let changes_nothing = disturbed.act.effect == Effect::Nothing;
        let is_still_valid = is_review && decision == OPEN && changes_nothing;
        let admits_a_driver = disturbed.kind.is_some();
        assert_eq!(admits_a_driver, is_still_valid, "{}", disturbed.text());
    }
}

/// Rule K2: another judgement follows unless the counter is switched off.
///
/// Symptoms:
///
/// - A clock that was barred for a passing reason stayed barred when the reason had passed. The
///   program had called `enable()` after the stage was set and before the clock was barred, and
///   found it unbarred. The next judgement found every gate open, and did not unbar the clock.
/// - A clock that its readers drive stayed barred until the next `enable()`. The program had called
///   it while facts that had passed were about to bar the clock.
#[test]
fn rule_k2_the_judgement_after_a_change_unbars_the_clock() {
    for disturbed in Disturbed::all() {
        let is_switched_off = disturbed.act.effect == Effect::SwitchedOff;
        let kept = disturbed.kept;
        let is_disabled = kept.keeper.stage() == Stage::Disabled;
        assert_eq!(is_disabled, is_switched_off, "{}", disturbed.text());
        assert_eq!(kept.opens(), !is_switched_off, "{}", disturbed.text());
    }
}

/// Rule K3: a thread is stopped between its change of the word and the call that bars the clock, or
/// at any step of that call. Meanwhile the gates are judged, and the clock is unbarred. If the
/// thread then bars it, an iteration finds that, and has the gates judged again.
#[test]
fn rule_k3_a_clock_that_is_barred_late_is_noticed() {
    for Act { name, act, .. } in ACTS.into_iter().filter(|act| act.effect.bars()) {
        let mut steps = 0;
        let mut late = 0;
        loop {
            let kept = Kept::unbarred();
            let open_again = |kept: &Kept| {
                kept.keeper.enable();
                assert!(kept.opens());
            };
            if kept.interrupted(steps, open_again, || act(kept)).is_none() {
                break;
            }
            let stage = kept.keeper.stage();
            if !kept.is_unbarred() {
                late += 1;
                assert_eq!(
                    kept.keeper.request_judgement_if_open(),
                    stage != Stage::Disabled,
                    "{name}, step {steps}"
                );
            }
            assert_eq!(kept.opens(), stage != Stage::Disabled, "{name}");
            steps += 1;
        }
        assert!(late >= 3, "{name}: barred late in {late} of {steps} cases");
    }
}

/// Rule K3: it is known already.
#[test]
fn rule_k3_a_clock_that_is_barred_by_a_closed_gate_is_not_judged_again() {
    let kept = Kept::new();
    assert!(!kept.judge_if_due(0, || FOR_GOOD));
    assert!(!kept.keeper.request_judgement_if_open());
}
