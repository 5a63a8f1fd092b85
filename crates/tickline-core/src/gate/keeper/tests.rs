//! Tests of the keeper. One thread plays all parts, and acts in the middle of a judgement, or
//! before the gate is closed. `loom_tests` checks the orderings.

use core::cell::{Cell, RefCell};

use super::*;
use crate::testing::leak;

type Act = Box<dyn Fn(&GateKeeper, &Gate)>;

/// A gate, and the acts to perform before it is next closed or opened.
#[derive(Default)]
struct Gate {
    open: Cell<bool>,
    before_close: RefCell<Option<Act>>,
    before_open: RefCell<Option<Act>>,
    keeper: GateKeeper,
}

impl LineGate for Gate {
    fn close(&self) {
        let act = self.before_close.borrow_mut().take();
        act.into_iter().for_each(|act| act(&self.keeper, self));
        self.open.set(false);
    }

    fn open(&self) {
        let act = self.before_open.borrow_mut().take();
        act.into_iter().for_each(|act| act(&self.keeper, self));
        self.open.set(true);
    }
}

impl Gate {
    fn judge_if_due(&self, now_ns: i64, judge: impl FnOnce() -> Judgement) -> bool {
        let judged = || self.keeper.judge_if_due(|| now_ns, self, |_| Some(judge()));
        let kind = self.keeper.line_kind().or_else(judged);
        let admitted = kind.is_some();
        assert_eq!(kind, self.keeper.line_kind(), "for the lines of readers");
        assert_eq!(
            admitted,
            self.keeper.stage() == Stage::Open,
            "admitted only if the stage is open"
        );
        assert_eq!(admitted, self.open.get(), "the gate agrees with the stage");
        admitted
    }

    fn is_due(&self, now_ns: i64) -> bool {
        self.keeper.is_due(self.keeper.stage(), now_ns)
    }

    /// Judges the gate if that is due, and runs `act` meanwhile. Returns whether it is open after
    /// that.
    fn judge(&self, act: Act, judgement: Judgement) -> bool {
        self.judge_if_due(0, || {
            act(&self.keeper, self);
            judgement
        })
    }

    /// Judges an open gate again, and runs `act` meanwhile. Returns whether the gate is open after
    /// that.
    fn review(&self, act: Act, judgement: Judgement) -> bool {
        assert!(self.opens());
        assert!(self.keeper.review(self, |_| {
            act(&self.keeper, self);
            Some(judgement)
        }));
        self.keeper.stage() == Stage::Open
    }

    /// Runs the next judgement without other threads, and with all facts for the counter.
    fn opens(&self) -> bool {
        self.judge_if_due(0, || Judgement::Open)
    }
}

const FOR_GOOD: Judgement = Judgement::Closed { retry_at_ns: None };

type NamedAct = (&'static str, fn(&GateKeeper, &Gate));

const ACTS: [NamedAct; 6] = [
    ("disable", |keeper, gate| keeper.disable(gate)),
    ("enable", |keeper, _| keeper.enable()),
    ("request_judgement", |keeper, gate| {
        keeper.request_judgement(gate)
    }),
    ("set_line_kind", |keeper, _| {
        keeper.set_line_kind(LineKind::PerCpu)
    }),
    ("disable, enable", |keeper, gate| {
        keeper.disable(gate);
        keeper.enable();
    }),
    ("enable, disable", |keeper, gate| {
        keeper.enable();
        keeper.disable(gate);
    }),
];

/// Rule K1: these calls change the word, then close the gate. Once they have returned, it is
/// closed.
#[test]
fn rule_k1_disable_closes_the_gate_before_it_returns() {
    for ((name, act), stage) in [(ACTS[0], Stage::Disabled), (ACTS[2], Stage::Unjudged)] {
        let gate = Gate::default();
        assert!(gate.opens());
        let at_close =
            move |keeper: &GateKeeper, _: &Gate| assert_eq!(keeper.stage(), stage, "{name}");
        *gate.before_close.borrow_mut() = Some(Box::new(at_close));
        act(&gate.keeper, &gate);
        assert!(!gate.open.get(), "{name}");
    }
}

/// Symptoms: readers of the CPUs' lines took the OS clock, and stepped back. They did so in three
/// cases:
///
/// - after an `enable()`, until the clock's thread came by,
/// - while another thread of a forked child judged,
/// - after an `enable()` during a review that found every gate open.
#[test]
fn readers_keep_their_lines_while_the_gates_are_open() {
    for kind in [LineKind::Common, LineKind::PerCpu] {
        let gate = Gate::default();
        gate.keeper.set_line_kind(kind);
        assert!(gate.opens());
        gate.keeper.enable();
        assert_eq!(gate.keeper.line_kind(), Some(kind));
        assert!(gate.judge_if_due(0, || panic!("judged already")));
        assert_eq!(
            gate.keeper.judge_if_due(|| 0, &gate, |_| None),
            None,
            "the next holder judges"
        );
        let judge = |_| {
            assert_eq!(gate.keeper.line_kind(), Some(kind));
            (0..2).for_each(|_| gate.keeper.enable());
            Some(Judgement::Open)
        };
        assert_eq!(gate.keeper.judge_if_due(|| 0, &gate, judge), Some(kind));
        assert!(gate.keeper.review(&gate, judge));
        assert_eq!(
            (gate.keeper.line_kind(), gate.open.get()),
            (Some(kind), true)
        );
        assert_eq!(
            gate.keeper.judge_if_due(|| 0, &gate, |_| Some(FOR_GOOD)),
            None
        );
        assert_eq!(gate.keeper.line_kind(), None);
    }
}

#[test]
fn a_closed_gate_is_judged_again_when_that_is_due_or_asked_for() {
    let gate = Gate::default();
    assert_eq!(
        (gate.keeper.stage(), gate.is_due(i64::MIN)),
        (Stage::Unjudged, true)
    );
    assert!(!gate.judge_if_due(0, || Judgement::Closed {
        retry_at_ns: Some(100)
    }));
    assert_eq!(
        (gate.keeper.stage(), gate.is_due(99), gate.is_due(100)),
        (Stage::Waiting, false, true)
    );
    assert!(!gate.judge_if_due(99, || panic!("not yet")));
    assert!(!gate.judge_if_due(100, || FOR_GOOD));
    assert_eq!(
        (gate.keeper.stage(), gate.is_due(i64::MAX)),
        (Stage::Closed, false)
    );
    assert!(!gate.judge_if_due(i64::MAX, || panic!("nothing has changed")));
    gate.keeper.enable();
    assert!(gate.is_due(99), "the driver should judge at once");
    assert!(gate.opens());
    gate.keeper.set_due(500);
    assert_eq!((gate.is_due(499), gate.is_due(500)), (false, true));
    assert!(
        gate.is_due(499 - 10_000_000_000),
        "in a time namespace that is behind"
    );
    gate.keeper.disable(&gate);
    assert!(!gate.is_due(i64::MAX) && !gate.judge_if_due(0, || panic!("switched off")));
    gate.keeper.request_judgement(&gate);
    assert!(!gate.judge_if_due(0, || panic!("still switched off")));
}

/// Facts change while the gate is open.
#[test]
fn an_open_gate_is_judged_again_and_its_line_ends() {
    let gate = Gate::default();
    let review = |judgement| gate.keeper.review(&gate, |_| judgement);
    assert!(
        !review(Some(Judgement::Open)),
        "there is a first judgement to come"
    );
    assert!(gate.opens());
    assert!(!review(None) && gate.open.get(), "nothing new");
    let is_closed = leak(Cell::new(false));
    *gate.before_close.borrow_mut() = Some(Box::new(|_, gate| is_closed.set(gate.open.get())));
    assert!(review(Some(Judgement::Open)) && gate.open.get());
    assert!(is_closed.get(), "the line by the earlier judgement goes on");
    assert!(review(Some(FOR_GOOD)) && !gate.open.get());
    assert!(review(Some(Judgement::Open)) && gate.open.get());
    gate.keeper.disable(&gate);
    assert!(!review(Some(Judgement::Open)), "switched off");
}

/// A judgement is for one kind of lines, and does not open the gate for the other. The common line
/// ends before readers find the CPUs' lines.
#[test]
fn each_kind_of_lines_is_judged_for_itself() {
    let gate = Gate::default();
    for kind in [LineKind::Common, LineKind::PerCpu, LineKind::Common] {
        gate.keeper.set_line_kind(kind);
        assert_eq!(gate.keeper.line_kind(), None);
        let judge = |judged| {
            assert_eq!(judged, kind);
            Some(Judgement::Open)
        };
        let found_before = leak(Cell::new(None));
        *gate.before_close.borrow_mut() = Some(Box::new(|keeper, _| {
            found_before.set(Some(keeper.line_kind()))
        }));
        assert_eq!(gate.keeper.judge_if_due(|| 0, &gate, judge), Some(kind));
        let ends_the_common_line = (kind == LineKind::PerCpu).then_some(None);
        assert_eq!(found_before.get(), ends_the_common_line, "{kind:?}");
        assert!(gate.keeper.review(&gate, judge));
        gate.keeper.set_line_kind(kind);
        assert_eq!(
            (gate.keeper.line_kind(), gate.open.get()),
            (Some(kind), true),
            "it has them already"
        );
    }
}

/// Rule K2: a change in the middle of a judgement counts, for every result of the judgement. That
/// judgement admits no driver, and another one follows unless the counter is switched off.
#[test]
fn rule_k2_a_change_during_a_judgement_voids_it() {
    type Moment = fn(&Gate, Act) -> bool;
    let moments: [(&str, Moment); 6] = [
        ("while the facts are collected", |gate, act| {
            gate.judge(act, Judgement::Open)
        }),
        ("before the gate is opened", |gate, act| {
            *gate.before_open.borrow_mut() = Some(act);
            gate.judge_if_due(0, || Judgement::Open)
        }),
        ("while a gate is found to be closed", |gate, act| {
            gate.judge(act, FOR_GOOD)
        }),
        // Symptom: a gate that a passing reason had closed stayed closed when the reason had
        // passed. The program had called `enable()` after the stage was set and before the gate
        // was closed, and found no closed gate. The next judgement found everything open, and did
        // not open the gate.
        ("before the gate is closed", |gate, act| {
            *gate.before_close.borrow_mut() = Some(act);
            gate.judge_if_due(0, || Judgement::Closed {
                retry_at_ns: Some(i64::MAX),
            })
        }),
        ("while an open gate is judged again", |gate, act| {
            gate.review(act, Judgement::Open)
        }),
        // Symptom: a clock that its readers drive stayed closed until the next `enable()`. The
        // program had called it while facts that had passed were about to close an open gate.
        ("while an open gate is about to be closed", |gate, act| {
            gate.review(act, FOR_GOOD)
        }),
    ];
    for (when, moment) in moments {
        for (name, act) in ACTS {
            let gate = Gate::default();
            // `enable` changes nothing if the gates are open, and found open again.
            let stands = (when, name) == ("while an open gate is judged again", "enable");
            assert_eq!(moment(&gate, Box::new(act)), stands, "{name} {when}");
            let disabled = name.ends_with("disable");
            assert_eq!(
                gate.keeper.stage() == Stage::Disabled,
                disabled,
                "{name} {when}"
            );
            assert_eq!(gate.opens(), !disabled, "{name} {when}");
        }
    }
}

/// Rule K3: a thread is stopped between its change of the word and the closing of the gate.
/// Meanwhile the gate is judged and opened.
#[test]
fn rule_k3_a_gate_that_is_closed_late_is_noticed() {
    for (name, act) in ACTS
        .into_iter()
        .filter(|(name, _)| !["enable", "set_line_kind"].contains(name))
    {
        let gate = Gate::default();
        assert!(gate.opens());
        *gate.before_close.borrow_mut() = Some(Box::new(|keeper, gate| {
            keeper.enable();
            assert!(gate.opens());
        }));
        act(&gate.keeper, &gate);
        let stage = gate.keeper.stage();
        assert!(!gate.open.get(), "{name}");
        assert_eq!(
            gate.keeper.request_judgement_if_open(),
            stage != Stage::Disabled,
            "{name}"
        );
        assert_eq!(gate.opens(), stage != Stage::Disabled, "{name}");
    }
    let gate = Gate::default();
    assert!(!gate.judge_if_due(0, || FOR_GOOD));
    assert!(
        !gate.keeper.request_judgement_if_open(),
        "already known to be closed"
    );
}
