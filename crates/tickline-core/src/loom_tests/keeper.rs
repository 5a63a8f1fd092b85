//! Models of the keeper: threads switch the counter off and on, or ask for a judgement by new
//! facts, while the holder of the clock's lock judges and runs iterations. The models assert what
//! follows from the rules of `gate::keeper`. Its tests cover other changes at each moment of a
//! judgement.

use core::num::NonZeroU32;
use std::sync::Arc;

use super::{Coverage, OPEN, Scene, Time, View, WRITER_TICKS, check, new_shared, reading, spawn};
use crate::cell::{LineCell, StateCell};
use crate::control::{Control, Outcome};
use crate::gate::keeper::{Decision, Keeper, LineKind, Stage};
use crate::primitive::{AtomicU64, Ordering};
use crate::shared::{Access, ReadingSource};
use crate::state::Phase;
use crate::try_lock::{LockToken, TryLock};

/// A clock and its keeper, which the threads of a model share.
#[derive(Clone)]
pub(super) struct KeptClock {
    pub(super) scene: Scene,
    pub(super) keeper: Arc<Keeper>,
    control: Arc<TryLock<Control>>,
    /// The verdict of the facts: 0 if they are all for the counter.
    against: Arc<AtomicU64>,
}

impl KeptClock {
    /// A clock without a line, with enough samples for one. Its gates are yet to be judged.
    pub(super) fn new() -> Self {
        let (scene, control) = Scene::without_line();
        let control = new_shared(TryLock::new(control));
        let against = new_shared(AtomicU64::new(0));
        Self {
            scene,
            keeper: new_shared(Keeper::new()),
            control,
            against,
        }
    }

    /// A clock as [`new`](Self::new) makes it, barred.
    fn barred() -> Self {
        let judged = Self::new();
        judged.request_judgement();
        judged
    }

    fn request_judgement(&self) {
        self.scene
            .with_access(|access| self.keeper.request_judgement(Some(access)));
    }

    pub(super) fn disable(&self) {
        self.scene
            .with_access(|access| self.keeper.disable(Some(access)));
    }

    /// Judges the gates if that is due. Returns the kind of lines for which the keeper admits this
    /// thread, which holds the clock's lock.
    fn judge_if_due(&self) -> Option<LineKind> {
        let begun = self
            .keeper
            .begin_if_due(&self.scene.time.view(WRITER_TICKS))?;
        let judged = begun.line_kind();
        // ORDERING: Relaxed: the thread that sets it asks for a judgement afterwards, which orders
        // it.
        let is_open = self.against.load(Ordering::Relaxed) == 0;
        let decision = if is_open {
            OPEN
        } else {
            Decision::Closed { retry_at_ns: None }
        };
        let kind = self
            .scene
            .with_access(|access| self.keeper.settle(begun, decision, Some(access)));
        assert!(
            kind.is_none_or(|kind| kind == judged),
            "judged for {judged:?}, admitted for {kind:?}"
        );
        kind
    }

    /// Takes the clock's lock, and runs `action` for the lines if the keeper admits this thread.
    pub(super) fn run_if_admitted<T>(
        &self,
        action: impl FnOnce(&mut Control, LineKind) -> Option<T>,
    ) -> Option<T> {
        // SAFETY: one process, one number.
        let token = unsafe { LockToken::new(NonZeroU32::MIN) };
        let mut control = self.control.try_lock(token, |_| ())?;
        let kind = self
            .keeper
            .usable_line_kind()
            .or_else(|| self.judge_if_due())?;
        action(&mut control, kind)
    }

    /// Runs an iteration of the common line, if the keeper admits this thread.
    fn serve(&self) -> Option<Outcome> {
        self.run_if_admitted(|control, _| {
            let outcome = self.scene.iterate(control).outcome;
            (outcome != Outcome::Barred || !self.keeper.request_judgement_if_open())
                .then_some(outcome)
        })
    }

    /// Checks the clock after the last change, by two iterations: the first may find a clock that
    /// was barred late.
    fn check_end(&self, seen: &Coverage) {
        self.scene.time.pass(13_000);
        let first = self.serve();
        let second = self.serve();
        seen.saw(format!("{:?}", second.or(first)));
        let state = self.scene.clock.cell().load();
        let stage = self.keeper.stage();
        match stage {
            Stage::Open => assert!(
                state.is_published(),
                "{state:?} after {first:?}, {second:?}"
            ),
            Stage::Closed | Stage::Disabled => {
                assert!(
                    state.is_barred() && state.phase() == Phase::NoLine,
                    "{state:?}, {stage:?}"
                );
            }
            Stage::Unjudged | Stage::Waiting => panic!("{stage:?} after {first:?}, {second:?}"),
        }
    }

    /// Checks that no reading uses the counter, which is switched off.
    fn assert_not_read(&self, last_ns: i64) {
        let view = self.scene.time.view(WRITER_TICKS);
        assert_eq!(
            self.scene.clock.readings().read_ordered_ns(&view),
            None,
            "the counter is switched off"
        );
        let readings = self.scene.clock.readings();
        let now = readings.read_ordered_in_any_state(&view, &view);
        assert!(
            matches!(now.source, ReadingSource::Reference { .. }),
            "{now:?}"
        );
        assert!(now.ns >= last_ns, "{now:?} after {last_ns}");
    }
}

/// After `disable()` has returned, no reading uses the counter, although a judgement and a
/// publication were under way.
#[test]
fn no_reading_uses_a_counter_that_is_switched_off_during_a_judgement() {
    check(
        Some(3),
        &["admitted", "not admitted", "a line before"],
        |seen| {
            let judged = KeptClock::barred();
            let switch = spawn(&judged, move |judged| {
                let view = judged.scene.time.view(WRITER_TICKS);
                if judged.scene.clock.cell().load().is_published() {
                    seen.saw("a line before");
                }
                let last_ns = reading(&judged.scene.clock, &view);
                judged.disable();
                judged.assert_not_read(last_ns);
                judged.assert_not_read(last_ns);
            });
            seen.saw(if judged.serve().is_some() {
                "admitted"
            } else {
                "not admitted"
            });
            switch.join().unwrap();
            assert_eq!(judged.keeper.stage(), Stage::Disabled);
            judged.check_end(seen);
        },
    );
}

/// The counter is switched off and on again. Wherever one of the two threads is stopped, the
/// clock is unbarred in the end.
#[test]
fn a_clock_that_is_switched_on_during_a_judgement_is_unbarred() {
    check(Some(3), &["late"], |seen| {
        let judged = KeptClock::barred();
        let off = spawn(&judged, |judged| judged.disable());
        let on = spawn(&judged, move |judged| {
            if judged.keeper.stage() == Stage::Disabled {
                judged.keeper.enable();
                seen.saw("on");
            }
        });
        judged.serve();
        judged.serve();
        off.join().unwrap();
        on.join().unwrap();
        if judged.keeper.stage() == Stage::Open && judged.scene.clock.cell().load().is_barred() {
            seen.saw("late");
        }
        judged.check_end(seen);
        let disabled = judged.keeper.stage() == Stage::Disabled;
        assert_eq!(judged.scene.clock.cell().load().is_published(), !disabled);
    });
}

/// A fact that closes a gate takes effect even if a judgement by the earlier facts was under way.
#[test]
fn a_fact_that_changes_during_a_judgement_closes_its_gate() {
    check(Some(3), &["None"], |seen| {
        let judged = KeptClock::barred();
        let setter = spawn(&judged, |judged| {
            // ORDERING: Relaxed, ordered by the request that follows.
            judged.against.store(1, Ordering::Relaxed);
            judged.request_judgement();
            judged.assert_not_read(i64::MIN);
        });
        judged.serve();
        setter.join().unwrap();
        judged.check_end(seen);
        assert_eq!(judged.keeper.stage(), Stage::Closed);
    });
}

/// A thread that sees a stage sees what was stored before.
#[test]
fn a_verdict_is_published_after_its_reasons() {
    check(None, &["judged", "not yet"], |seen| {
        let keeper = new_shared(Keeper::new());
        let reasons = new_shared(AtomicU64::new(0));
        let asker = spawn(
            &(keeper.clone(), reasons.clone()),
            move |(keeper, reasons)| {
                if keeper.stage() == Stage::Unjudged {
                    return seen.saw("not yet");
                }
                seen.saw("judged");
                // ORDERING: Relaxed, ordered by the verdict.
                assert_eq!(reasons.load(Ordering::Relaxed), 1);
            },
        );
        let judge = || {
            // ORDERING: Relaxed, ordered by the verdict.
            reasons.store(1, Ordering::Relaxed);
            OPEN
        };
        assert!(
            judge_without_line(&keeper, judge).is_some(),
            "the gates were judged before"
        );
        asker.join().unwrap();
    });
}

/// Judges the gates of a clock that has no common line, because it has no counter.
pub(super) fn judge_without_line(
    keeper: &Keeper,
    judge: impl FnOnce() -> Decision,
) -> Option<LineKind> {
    let time = Time::new(0, 0);
    let begun = keeper.begin_if_due(&time.view(WRITER_TICKS))?;
    keeper.settle(
        begun,
        judge(),
        None::<&Access<'_, LineCell, View<'_>, View<'_>>>,
    )
}
