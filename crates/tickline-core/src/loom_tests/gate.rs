//! The gate: threads switch the counter off and on, and set a policy, while the holder of the
//! clock's lock judges and runs iterations. The models assert what `gate::keeper` says follows
//! from its rules.

use std::sync::Arc;

use super::order::without_line;
use super::{Clock, Seen, Time, View, check, made, reading, spawn};
use crate::cell::StateCell;
use crate::control::{Control, Iteration};
use crate::gate::keeper::{Conclusion, Gated, Keeper, Stage};
use crate::primitive::{AtomicU64, Ordering};
use crate::shared::Source;
use crate::state::Phase;

/// How long a read of these threads takes, ticks: as `order::WRITER_TICKS`.
pub(super) const TICKS: u64 = 100;

pub(super) struct Line<'a> {
    pub(super) clock: &'a Clock,
    pub(super) view: View<'a>,
}

impl Gated for Line<'_> {
    fn close(&self) {
        self.clock.close_gate(&self.view, &self.view);
    }

    fn open(&self) {
        self.clock.open_gate(&self.view, &self.view);
    }
}

/// What the threads of a model share.
#[derive(Clone)]
struct Scene {
    keeper: Arc<Keeper>,
    clock: Arc<Clock>,
    time: Arc<Time>,
    /// The facts' verdict: 0 if nothing speaks against the counter.
    against: Arc<AtomicU64>,
}

impl Scene {
    /// A clock without a line, with enough samples for one. Its gate is closed and yet to be
    /// judged.
    fn new() -> (Self, Control) {
        let (clock, control, time) = without_line();
        let scene = Self { keeper: made(Keeper::new()), clock, time, against: made(AtomicU64::new(0)) };
        scene.keeper.judge_again(&scene.line());
        (scene, control)
    }

    fn line(&self) -> Line<'_> {
        Line { clock: &self.clock, view: self.time.view(TICKS) }
    }

    fn judge(&self) -> Conclusion {
        // ORDERING: Relaxed, a setting: the thread that asks for a judgement has set it before.
        match self.against.load(Ordering::Relaxed) {
            0 => Conclusion::Open,
            _ => Conclusion::Closed,
        }
    }

    /// The holder of the clock's lock. `None`: it is not admitted.
    fn serve(&self, control: &mut Control) -> Option<Iteration> {
        let line = self.line();
        self.keeper.admit(true, || 0, &line, |_| Some(self.judge()))?;
        let iteration = control.maintain(&self.clock, &line.view, &line.view).iteration;
        if iteration == Iteration::GateClosed && self.keeper.notice_closed() { None } else { Some(iteration) }
    }

    /// Nobody makes changes any more: the result of the next two iterations, one of which may
    /// find a gate that was closed late.
    fn settle(&self, control: &mut Control, seen: &Seen) {
        self.time.pass(13_000);
        let first = self.serve(control);
        let second = self.serve(control);
        seen.note(format!("{:?}", second.or(first)));
        let (state, stage) = (self.clock.cell.load(), self.keeper.stage());
        match stage {
            Stage::Open => assert!(state.is_published(), "{state:?} after {first:?}, {second:?}"),
            Stage::Closed | Stage::Disabled => {
                assert!(state.is_gate_closed() && state.phase() == Phase::NoLine, "{state:?}, {stage:?}");
            }
            Stage::New | Stage::Waiting => panic!("{stage:?} after {first:?}, {second:?}"),
        }
    }

    /// The counter is switched off: no reading uses it.
    fn is_not_read(&self, last_ns: i64) {
        let view = self.time.view(TICKS);
        assert_eq!(self.clock.read_ordered(&view), None, "the counter is switched off");
        let now = self.clock.read_slow(&view, &view);
        assert!(matches!(now.source, Source::Reference { .. }), "{now:?}");
        assert!(now.ns >= last_ns, "{now:?} after {last_ns}");
    }
}

/// When `disable()` has returned no reading uses the counter, though the gate was just being
/// judged, and a line published.
#[test]
fn a_counter_is_switched_off_under_a_judge() {
    check(Some(3), &["admitted", "not admitted", "a line before"], |seen| {
        let (scene, mut control) = Scene::new();
        let noted = seen.clone();
        let switch = spawn(&scene, move |scene| {
            let view = scene.time.view(TICKS);
            if scene.clock.cell.load().is_published() {
                noted.note("a line before");
            }
            let last_ns = reading(&scene.clock, &view);
            scene.keeper.disable(&scene.line());
            scene.is_not_read(last_ns);
            scene.is_not_read(last_ns);
        });
        seen.note(if scene.serve(&mut control).is_some() { "admitted" } else { "not admitted" });
        switch.join().unwrap();
        assert_eq!(scene.keeper.stage(), Stage::Disabled);
        scene.settle(&mut control, seen);
    });
}

/// Off and on again: wherever one of the two threads is stopped, the gate opens in the end.
#[test]
fn a_counter_is_switched_off_and_on_under_a_judge() {
    check(Some(3), &["late"], |seen| {
        let (scene, mut control) = Scene::new();
        let off = spawn(&scene, |scene| scene.keeper.disable(&scene.line()));
        let noted = seen.clone();
        let on = spawn(&scene, move |scene| {
            if scene.keeper.stage() == Stage::Disabled {
                scene.keeper.enable();
                noted.note("on");
            }
        });
        scene.serve(&mut control);
        scene.serve(&mut control);
        off.join().unwrap();
        on.join().unwrap();
        if scene.keeper.stage() == Stage::Open && scene.clock.cell.load().is_gate_closed() {
            seen.note("late");
        }
        scene.settle(&mut control, seen);
        let disabled = scene.keeper.stage() == Stage::Disabled;
        assert_eq!(scene.clock.cell.load().is_published(), !disabled);
    });
}

/// When `disable()` has returned no reading uses the counter, though an open gate was just being
/// judged again, because facts had changed.
#[test]
fn a_counter_is_switched_off_under_a_review() {
    check(Some(3), &["reviewed", "overtaken", "not judged"], |seen| {
        let (scene, mut control) = Scene::new();
        scene.serve(&mut control).expect("nobody else is here");
        let switch = spawn(&scene, |scene| {
            scene.keeper.disable(&scene.line());
            scene.is_not_read(i64::MIN);
        });
        seen.note(match scene.keeper.review(&scene.line(), |_| Some(scene.judge())) {
            Some(true) => "reviewed",
            Some(false) => "overtaken",
            None => "not judged",
        });
        scene.serve(&mut control);
        switch.join().unwrap();
        scene.settle(&mut control, seen);
        assert_eq!(scene.keeper.stage(), Stage::Disabled);
    });
}

/// A policy that closes a gate takes effect even if the gate was just being judged by the last
/// policy.
#[test]
fn a_policy_is_set_under_a_judge() {
    check(Some(3), &["None"], |seen| {
        let (scene, mut control) = Scene::new();
        let setter = spawn(&scene, |scene| {
            // ORDERING: Relaxed, ordered by the request that follows.
            scene.against.store(1, Ordering::Relaxed);
            scene.keeper.judge_again(&scene.line());
            scene.is_not_read(i64::MIN);
        });
        scene.serve(&mut control);
        setter.join().unwrap();
        scene.settle(&mut control, seen);
        assert_eq!(scene.keeper.stage(), Stage::Closed);
    });
}

/// A policy that opens a gate takes effect even if that gate was just being closed. Symptom, when
/// `enable()` came at that moment: the gate stayed closed.
#[test]
fn a_gate_that_is_being_closed_is_asked_for() {
    check(Some(3), &["Some(Published)"], |seen| {
        let (scene, mut control) = Scene::new();
        // ORDERING: Relaxed, before the threads start.
        scene.against.store(1, Ordering::Relaxed);
        let asker = spawn(&scene, |scene| {
            // ORDERING: Relaxed, ordered by the request that follows.
            scene.against.store(0, Ordering::Relaxed);
            scene.keeper.enable();
        });
        scene.serve(&mut control);
        asker.join().unwrap();
        scene.settle(&mut control, seen);
        assert_eq!(scene.keeper.stage(), Stage::Open);
    });
}

/// A thread that sees a conclusion sees what the judge has stored with it.
#[test]
fn a_conclusion_is_published_after_its_reasons() {
    check(None, &["said", "not yet"], |seen| {
        let (keeper, noted) = (made(Keeper::new()), made(AtomicU64::new(0)));
        let scene = (keeper.clone(), noted.clone(), seen.clone());
        let asker = spawn(&scene, |(keeper, noted, seen)| {
            if keeper.stage() == Stage::New {
                return seen.note("not yet");
            }
            seen.note("said");
            // ORDERING: Relaxed, ordered by the conclusion.
            assert_eq!(noted.load(Ordering::Relaxed), 1);
        });
        let admitted = keeper.admit(
            true,
            || 0,
            &NoLine,
            |_| {
                // ORDERING: Relaxed, ordered by the conclusion.
                noted.store(1, Ordering::Relaxed);
                Some(Conclusion::Open)
            },
        );
        assert!(admitted.is_some(), "nobody has judged");
        asker.join().unwrap();
    });
}

/// A gate without a line.
pub(super) struct NoLine;

impl Gated for NoLine {
    fn close(&self) {}
    fn open(&self) {}
}
