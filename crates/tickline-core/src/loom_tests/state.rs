//! Models of the state of targets without an atomic of 128 bits: pairs and a mark beside a word.

use super::{check, new_shared, spawn};
use crate::primitive::{AtomicI64, AtomicU64, Ordering};
use crate::state::portable::AtomicState;
use crate::state::{LineState, Phase};

/// State `number`, whose two halves contain the number: a published line, in the other slot than
/// the one before it. State 0 is the state of a new clock.
fn whole(number: u64) -> LineState {
    const PUBLISHED: u64 = 1;
    if number == 0 {
        return LineState::default();
    }
    LineState {
        m: number << 16 | (number & 1) << 3 | PUBLISHED,
        b: i64::try_from(number).unwrap() << 32,
    }
}

fn new_state() -> std::sync::Arc<AtomicState> {
    new_shared(AtomicState::new(i64::MIN))
}

fn loaded(state: &AtomicState) -> u64 {
    let found = state.load();
    let number = found.m >> 16;
    assert_eq!(found, whole(number), "halves of two states");
    number
}

fn try_swap(state: &AtomicState, from: u64, to: u64) -> bool {
    state.try_swap(whole(from), whole(to))
}

/// A reader is stopped while lines are published, so that the pair that it loads is refilled. No
/// load may see halves of two states. As each state is followed by a larger one, no load may return
/// an older state than the load before it.
#[test]
fn a_portable_state_is_never_an_older_one() {
    check(
        Some(3),
        &[
            "0, still",
            "0, changed",
            "1, still",
            "1, changed",
            "2, still",
            "2, changed",
            "3, still",
        ],
        |seen| {
            let state = new_state();
            let reader = spawn(&state, move |state| {
                let first = loaded(state);
                let is_still = state.is_still(whole(first));
                let second = loaded(state);
                assert!(
                    second >= first && (is_still || second > first),
                    "{first}, {is_still}, {second}"
                );
                seen.saw(format!(
                    "{first}, {}",
                    if is_still { "still" } else { "changed" }
                ));
            });
            for number in 0..3 {
                assert!(
                    try_swap(&state, number, number + 1),
                    "no other thread swaps"
                );
            }
            reader.join().unwrap();
        },
    );
}

/// Of two swaps from one state one wins: the writer publishes the next line, or a helper retires
/// the old one. A reader finds no mixture of the two.
#[test]
fn of_two_portable_swaps_from_one_state_one_wins() {
    const MARK_NS: i64 = 7 << 32;
    check(Some(4), &["mine", "theirs", "mark"], |seen| {
        let state = new_state();
        assert!(try_swap(&state, 0, 1));
        let replacing = whole(1).replacing();
        assert!(state.try_swap(whole(1), replacing));
        let retired = replacing.without_line(MARK_NS);
        let helper = spawn(&state, move |state| state.try_swap(replacing, retired));
        let reader = spawn(&state, move |state| {
            let found = state.load();
            assert!([replacing, whole(2), retired].contains(&found), "{found:?}");
            if found == retired {
                seen.saw("mark");
            }
        });
        let mine = state.try_swap(replacing, whole(2));
        let theirs = helper.join().unwrap();
        reader.join().unwrap();
        assert!(mine != theirs, "{mine} and {theirs}");
        seen.saw(if mine { "mine" } else { "theirs" });
        assert_eq!(state.load(), if mine { whole(2) } else { retired });
    });
}

/// Two threads retire a line, with different marks. A reader returns a mark. A first line that is
/// published afterwards is not below it, whichever thread was stopped, and where.
#[test]
fn no_portable_line_starts_below_a_mark_that_was_returned() {
    const MARKS_NS: [i64; 2] = [1 << 32, 2 << 32];
    check(
        Some(2),
        &["returned the higher one", "the writer lost", "published"],
        |seen| {
            let state = new_state();
            assert!(try_swap(&state, 0, 1));
            let replacing = whole(1).replacing();
            assert!(state.try_swap(whole(1), replacing));
            let scene = (state.clone(), new_shared(AtomicI64::new(i64::MIN)));
            let helper = spawn(&scene, move |(state, _)| {
                state.try_swap(replacing, replacing.without_line(MARKS_NS[1]))
            });
            let reader = spawn(&scene, move |(state, returned_ns)| {
                let found = state.load();
                if found.phase() == Phase::NoLine && state.is_still(found) {
                    if found.b == MARKS_NS[1] {
                        seen.saw("returned the higher one");
                    }
                    // ORDERING: Relaxed, the main thread loads it after this thread's end.
                    returned_ns.store(found.b, Ordering::Relaxed);
                }
            });
            state.try_swap(replacing, replacing.without_line(MARKS_NS[0]));
            let before = state.load();
            let first = before.first_publication();
            let line = whole(2).with_b(before.b);
            if state.try_swap(before, first) {
                if state.try_swap(first, line) {
                    seen.saw("published");
                } else {
                    seen.saw("the writer lost");
                }
            }
            helper.join().unwrap();
            reader.join().unwrap();
            let last = state.load();
            // ORDERING: Relaxed, after the other thread's end.
            let returned_ns = scene.1.load(Ordering::Relaxed);
            assert!(last.b >= returned_ns, "{last:?} after {returned_ns}");
        },
    );
}

/// A thread is stopped in a swap from a line, while two more lines come. The last one has the tag
/// and the slot of the first. The swap from the line that is gone fails.
#[test]
fn no_portable_swap_is_from_a_line_that_is_gone() {
    check(Some(3), &["retired", "replaced"], |seen| {
        let state = new_state();
        assert!(try_swap(&state, 0, 1));
        let late = spawn(&state, move |state| {
            state.try_swap(whole(1), whole(1).without_line(1 << 32))
        });
        let is_replaced = try_swap(&state, 1, 2) && try_swap(&state, 2, 3);
        let is_retired = late.join().unwrap();
        assert!(is_retired != is_replaced, "{is_retired} and {is_replaced}");
        seen.saw(if is_retired { "retired" } else { "replaced" });
    });
}

/// A state recurs while a thread is stopped in a swap from it. The state afterwards agrees with the
/// result of that swap.
#[test]
fn a_portable_state_may_recur() {
    check(Some(4), &["swapped", "not swapped"], |seen| {
        let state = new_state();
        let before = whole(0);
        let barred_state = whole(0).barred();
        let late = spawn(&state, move |state| state.try_swap(before, barred_state));
        let there = state.try_swap(before, before.first_publication());
        let back = there && state.try_swap(before.first_publication(), before);
        assert_eq!(there, back);
        let swapped = late.join().unwrap();
        assert_eq!(state.load(), if swapped { barred_state } else { before });
        seen.saw(if swapped { "swapped" } else { "not swapped" });
    });
}

/// A value next to the state, like a slot, changes once the state that names it is gone. A reader
/// that finds its state unchanged has not seen the new value. A reader that sees a state sees the
/// stores before the swap to it.
#[test]
fn a_slot_beside_a_portable_state_belongs_to_it() {
    check(Some(4), &["still", "changed"], |seen| {
        let state = new_state();
        let slot = new_shared(AtomicU64::new(0));
        let reader = spawn(&(state.clone(), slot.clone()), move |(state, slot)| {
            let number = loaded(state);
            // ORDERING: Relaxed, between the two loads of the state.
            let beside = slot.load(Ordering::Relaxed);
            if state.is_still(whole(number)) {
                // State 1 names nothing.
                assert!(
                    number == 1 || beside == number,
                    "state {number}, and {beside} beside it"
                );
                seen.saw("still");
            } else {
                seen.saw("changed");
            }
        });
        assert!(try_swap(&state, 0, 1));
        // ORDERING: Release, pairs with the fence of the reader's second load.
        slot.store(2, Ordering::Release);
        assert!(try_swap(&state, 1, 2));
        reader.join().unwrap();
    });
}

/// A thread computes a mark from the slot of a line, and is stopped while later lines come, so that
/// it finds the slot refilled. It does not raise the mark to the time that it computed: readings
/// would wait for it.
#[test]
fn no_portable_mark_comes_from_a_refilled_slot() {
    check(Some(3), &["the line's", "refilled"], |seen| {
        let state = new_state();
        let slot = new_shared(AtomicU64::new(1));
        assert!(try_swap(&state, 0, 1));
        let scene = (state.clone(), slot.clone());
        let helper = spawn(&scene, move |(state, slot)| {
            // ORDERING: Relaxed, between the load of the state and the swap.
            let beside = slot.load(Ordering::Relaxed);
            seen.saw(if beside == 1 {
                "the line's"
            } else {
                "refilled"
            });
            let mark_ns = i64::try_from(beside).unwrap() << 32;
            state.try_swap(whole(1), whole(1).without_line(mark_ns));
        });
        if try_swap(&state, 1, 2) {
            // ORDERING: Release, as for a slot (`cell.rs`).
            slot.store(3, Ordering::Release);
        }
        helper.join().unwrap();
        let last = state.load();
        state.try_swap(last, last.without_line(i64::MIN));
        let mark_ns = state.load().b;
        assert!(mark_ns <= 1 << 32, "{mark_ns}");
    });
}
