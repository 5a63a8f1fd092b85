//! Tests of the keeper, with the gate of a real line. One thread plays all parts: other threads act
//! before any step that the keeper takes on the line's cell. `loom_tests` checks the orderings.

use core::cell::Cell;

use super::*;
use crate::shared::Event;
use crate::testing::{CONFIG, FnClock, HookedCell, HookedClock, Machine, leak};

/// A keeper, and the gate of a line that it closes and opens.
struct Gate {
    keeper: GateKeeper,
    clock: HookedClock,
}

type NamedAct = (&'static str, fn(&Gate));

/// What another thread may do meanwhile.
const ACTS: [NamedAct; 6] = [
    ("disable", |gate| gate.disable()),
    ("enable", |gate| gate.keeper.enable()),
    ("request_judgement", |gate| {
        gate.keeper.request_judgement(&gate.of_line())
    }),
    ("set_line_kind", |gate| {
        gate.keeper.set_line_kind(LineKind::PerCpu)
    }),
    ("disable, enable", |gate| {
        gate.disable();
        gate.keeper.enable();
    }),
    ("enable, disable", |gate| {
        gate.keeper.enable();
        gate.disable();
    }),
];

const OPEN: Judgement = Judgement::Open {
    resolutions: CONFIG.resolutions,
    serves_unix_time: true,
};
const FOR_GOOD: Judgement = Judgement::Closed { retry_at_ns: None };
const FOR_LONG: Judgement = Judgement::Closed {
    retry_at_ns: Some(i64::MAX),
};

impl Gate {
    /// A keeper before the first judgement, and a gate that is closed.
    fn new() -> &'static Self {
        let clock = HookedClock::new(HookedCell::new(Machine::new()));
        clock.close();
        leak(Self {
            keeper: GateKeeper::new(),
            clock,
        })
    }

    /// A gate that was judged to be open.
    fn opened() -> &'static Self {
        let gate = Self::new();
        assert!(gate.opens());
        gate
    }

    fn of_line(&self) -> LineGate<'_, HookedCell, Machine, Machine> {
        LineGate {
            shared: &self.clock,
            counter: Some(self.clock.cell.machine),
            reference: self.clock.cell.machine,
        }
    }

    fn is_open(&self) -> bool {
        !self.clock.cell.load().is_gate_closed()
    }

    /// How often the gate was closed.
    fn closings(&self) -> u64 {
        self.clock.event_count(Event::GateClosed)
    }

    fn disable(&self) {
        self.keeper.disable(&self.of_line());
    }

    fn is_due(&self, now_ns: i64) -> bool {
        self.keeper.is_due(self.keeper.stage(), now_ns)
    }

    fn begin_if_due(&self, now_ns: i64) -> Option<Begun> {
        self.keeper.begin_if_due(&FnClock(|| now_ns))
    }

    fn settle(&self, begun: Begun, judgement: Judgement) -> Option<LineKind> {
        self.keeper.settle(begun, judgement, &self.of_line())
    }

    /// Judges the gate if that is due at `now_ns`. Returns whether it is open after that.
    fn judge_if_due(&self, now_ns: i64, judge: impl FnOnce() -> Judgement) -> bool {
        let judged = || self.settle(self.begin_if_due(now_ns)?, judge());
        let kind = self.keeper.line_kind().or_else(judged);
        let admitted = kind.is_some();
        assert_eq!(kind, self.keeper.line_kind(), "for the lines of readers");
        assert_eq!(
            admitted,
            self.keeper.stage() == Stage::Open,
            "admitted only if the stage is open"
        );
        assert_eq!(admitted, self.is_open(), "the gate agrees with the stage");
        admitted
    }

    /// Judges the gate again. Returns whether that was possible.
    fn review(&self, judgement: Judgement) -> bool {
        let begun = self.keeper.begin_review();
        begun.is_some_and(|begun| {
            self.settle(begun, judgement);
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
        self.clock.cell.machine.hooks.set(move |_| {
            if taken.get() == step {
                act(self);
            }
            taken.set(taken.get() + 1);
        });
        let result = work();
        self.clock.cell.machine.hooks.clear();
        (taken.get() > step).then_some(result)
    }
}

/// Rule K1: these calls change the word, then close the gate. Once they have returned, it is
/// closed.
#[test]
fn rule_k1_disable_closes_the_gate_before_it_returns() {
    for ((name, act), stage) in [(ACTS[0], Stage::Disabled), (ACTS[2], Stage::Unjudged)] {
        let gate = Gate::opened();
        let steps = leak(Cell::new(0));
        gate.clock.cell.machine.hooks.set(move |_| {
            assert_eq!(gate.keeper.stage(), stage, "{name}");
            steps.set(steps.get() + 1);
        });
        act(gate);
        gate.clock.cell.machine.hooks.clear();
        assert!(steps.get() > 0 && !gate.is_open(), "{name}");
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
        let gate = Gate::new();
        gate.keeper.set_line_kind(kind);
        assert!(gate.opens());
        gate.keeper.enable();
        assert_eq!(gate.keeper.line_kind(), Some(kind));
        assert!(gate.judge_if_due(0, || panic!("judged already")));

        // A forked child judges although the gates are open. It has no facts yet.
        assert!(gate.begin_if_due(0).is_some(), "the next holder judges");
        assert_eq!(gate.keeper.line_kind(), Some(kind));

        let begun = gate.begin_if_due(0).expect("nothing has happened");
        (0..2).for_each(|_| gate.keeper.enable());
        assert_eq!(gate.keeper.line_kind(), Some(kind));
        assert_eq!(gate.settle(begun, OPEN), Some(kind));

        let begun = gate.keeper.begin_review().expect("judged before");
        (0..2).for_each(|_| gate.keeper.enable());
        assert_eq!(gate.keeper.line_kind(), Some(kind));
        assert_eq!(gate.settle(begun, OPEN), Some(kind));
        assert_eq!(
            (gate.keeper.line_kind(), gate.is_open()),
            (Some(kind), true)
        );

        let begun = gate.begin_if_due(0).expect("another child");
        assert_eq!(gate.settle(begun, FOR_GOOD), None);
        assert_eq!(gate.keeper.line_kind(), None);
    }
}

#[test]
fn a_closed_gate_is_judged_again_when_that_is_due_or_asked_for() {
    let gate = Gate::new();
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
    gate.disable();
    assert!(!gate.is_due(i64::MAX) && !gate.judge_if_due(0, || panic!("switched off")));
    gate.keeper.request_judgement(&gate.of_line());
    assert!(!gate.judge_if_due(0, || panic!("still switched off")));
}

/// Facts change while the gate is open.
#[test]
fn an_open_gate_is_judged_again_and_its_line_ends() {
    let gate = Gate::new();
    assert!(!gate.review(OPEN), "there is a first judgement to come");
    assert!(gate.opens());
    assert!(gate.keeper.begin_review().is_some());
    assert!(
        gate.is_open(),
        "nothing is new, so the judge settles nothing"
    );
    let closings = gate.closings();
    assert!(gate.review(OPEN) && gate.is_open());
    assert_eq!(
        gate.closings(),
        closings + 1,
        "the line by the earlier judgement goes on"
    );
    assert!(gate.review(FOR_GOOD) && !gate.is_open());
    assert!(gate.review(OPEN) && gate.is_open());
    gate.disable();
    assert!(!gate.review(OPEN), "switched off");
}

/// A judgement is for one kind of lines, and does not open the gate for the other. The common line
/// ends before readers find the CPUs' lines.
#[test]
fn each_kind_of_lines_is_judged_for_itself() {
    let gate = Gate::new();
    for kind in [LineKind::Common, LineKind::PerCpu, LineKind::Common] {
        gate.keeper.set_line_kind(kind);
        assert_eq!(gate.keeper.line_kind(), None);
        let begun = gate.begin_if_due(0).expect("a new kind");
        assert_eq!(begun.line_kind(), kind);
        let closings = gate.closings();
        gate.clock
            .cell
            .machine
            .hooks
            .set(|_| assert_eq!(gate.keeper.line_kind(), None, "before the gate is open"));
        assert_eq!(gate.settle(begun, OPEN), Some(kind));
        gate.clock.cell.machine.hooks.clear();
        let ended = u64::from(kind == LineKind::PerCpu);
        assert_eq!(gate.closings() - closings, ended, "{kind:?}");

        let begun = gate.keeper.begin_review().expect("judged before");
        assert_eq!(begun.line_kind(), kind);
        assert_eq!(gate.settle(begun, OPEN), Some(kind));
        gate.keeper.set_line_kind(kind);
        assert_eq!(
            (gate.keeper.line_kind(), gate.is_open()),
            (Some(kind), true),
            "it has them already"
        );
    }
}

/// Rule K2: a change in the middle of a judgement counts, for every result of the judgement. That
/// judgement admits no driver, and another one follows unless the counter is switched off. The
/// change comes while the facts are collected, or before any step of the settlement.
///
/// Symptoms:
///
/// - A gate that a passing reason had closed stayed closed when the reason had passed. The program
///   had called `enable()` after the stage was set and before the gate was closed, and found no
///   closed gate. The next judgement found everything open, and did not open the gate.
/// - A clock that its readers drive stayed closed until the next `enable()`. The program had called
///   it while facts that had passed were about to close an open gate.
#[test]
fn rule_k2_a_change_during_a_judgement_voids_it() {
    for (is_review, judgement) in [false, true]
        .into_iter()
        .flat_map(|is_review| [OPEN, FOR_GOOD, FOR_LONG].map(|judgement| (is_review, judgement)))
    {
        let begin = || {
            let (gate, begun);
            if is_review {
                gate = Gate::opened();
                begun = gate.keeper.begin_review();
            } else {
                gate = Gate::new();
                begun = gate.begin_if_due(0);
            }
            (gate, begun.expect("a judgement is due"))
        };
        for (name, act) in ACTS {
            let check = |gate: &Gate, admitted: Option<LineKind>, when: &str| {
                let what = format!("{name} {when}, review: {is_review}, {judgement:?}");
                // `enable` changes nothing if the gates are open, and found open again.
                let stands = is_review && judgement == OPEN && name == "enable";
                assert_eq!(admitted.is_some(), stands, "{what}");
                let disabled = name.ends_with("disable");
                let stage = gate.keeper.stage();
                assert_eq!(stage == Stage::Disabled, disabled, "{what}");
                assert_eq!(gate.opens(), !disabled, "{what}");
            };
            let (gate, begun) = begin();
            act(gate);
            check(gate, gate.settle(begun, judgement), "before the settlement");
            let mut steps = 0;
            loop {
                let (gate, begun) = begin();
                let settle = || gate.settle(begun, judgement);
                let Some(admitted) = gate.interrupted(steps, act, settle) else {
                    break;
                };
                check(gate, admitted, &format!("before step {steps}"));
                steps += 1;
            }
            assert!(steps > 0, "the gate is closed or opened in steps");
        }
    }
}

/// Rule K3: a thread is stopped between its change of the word and the closing of the gate, or at
/// any step of the closing. Meanwhile the gate is judged and opened. If the thread then closes it,
/// an iteration finds that, and has the gate judged again.
#[test]
fn rule_k3_a_gate_that_is_closed_late_is_noticed() {
    for (name, act) in ACTS
        .into_iter()
        .filter(|(name, _)| !["enable", "set_line_kind"].contains(name))
    {
        let (mut steps, mut late) = (0, 0);
        loop {
            let gate = Gate::opened();
            let open_again = |gate: &Gate| {
                gate.keeper.enable();
                assert!(gate.opens());
            };
            if gate.interrupted(steps, open_again, || act(gate)).is_none() {
                break;
            }
            let stage = gate.keeper.stage();
            if !gate.is_open() {
                late += 1;
                assert_eq!(
                    gate.keeper.request_judgement_if_open(),
                    stage != Stage::Disabled,
                    "{name}, step {steps}"
                );
            }
            assert_eq!(gate.opens(), stage != Stage::Disabled, "{name}");
            steps += 1;
        }
        assert!(late >= 3, "{name}: closed late in {late} of {steps} cases");
    }
    let gate = Gate::new();
    assert!(!gate.judge_if_due(0, || FOR_GOOD));
    assert!(
        !gate.keeper.request_judgement_if_open(),
        "already known to be closed"
    );
}
