//! Models of the state of targets without an atomic of 128 bits: pairs under a word that counts.

use super::{check, new_shared, spawn};
use crate::primitive::{AtomicU64, Ordering};
use crate::state::LineState;
use crate::state::portable::AtomicState;

/// State `number`, whose two halves contain the number. State 0 is the state of a new clock.
fn whole(number: u64) -> LineState {
    LineState {
        m: number,
        b: i64::try_from(number).unwrap() << 32,
    }
}

fn loaded(state: &AtomicState) -> u64 {
    let found = state.load();
    assert_eq!(found, whole(found.m), "halves of two states");
    found.m
}

fn try_swap(state: &AtomicState, from: u64, to: u64) -> bool {
    state.try_swap(whole(from), whole(to))
}

/// A reader is stopped for two swaps, so that the pair that it loads is refilled. No load may see
/// halves of two states. As each state is followed by a larger one, no load may return an older
/// state than the load before it.
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
        ],
        |seen| {
            let state = new_shared(AtomicState::new());
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
            for number in 0..2 {
                assert!(
                    try_swap(&state, number, number + 1),
                    "no other thread swaps"
                );
            }
            reader.join().unwrap();
        },
    );
}

/// Of two swaps from one state one wins. Both pairs are free again, so later swaps find free pairs.
#[test]
fn of_two_portable_swaps_from_one_state_one_wins() {
    check(None, &["mine", "theirs"], |seen| {
        let state = new_shared(AtomicState::new());
        let other = spawn(&state, |state| try_swap(state, 0, 1));
        let mine = try_swap(&state, 0, 2);
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "{mine} and {theirs}");
        seen.saw(if mine { "mine" } else { "theirs" });
        let mut last = if mine { 2 } else { 1 };
        assert_eq!(loaded(&state), last);
        for number in 3..20 {
            assert!(try_swap(&state, last, number), "out of pairs");
            last = number;
        }
    });
}

/// One thread has freed a pair, and another thread takes it for a swap that must fail. A reader of
/// the pair's last state does not take that state for the next one.
#[test]
fn a_portable_pair_is_freed_before_it_is_taken_again() {
    check(Some(4), &["0", "1", "2", "both failed: false"], |seen| {
        let state = new_shared(AtomicState::new());
        let other = spawn(&state, |state| try_swap(state, 0, 2));
        let reader = spawn(&state, move |state| seen.saw(loaded(state).to_string()));
        let mine = try_swap(&state, 0, 1);
        let theirs = other.join().unwrap();
        reader.join().unwrap();
        seen.saw(format!("both failed: {}", !mine && !theirs));
        assert!(mine != theirs);
    });
}

/// A state recurs while a thread is stopped in a swap from it. The state afterwards agrees with the
/// result of that swap.
#[test]
fn a_portable_state_may_recur() {
    check(Some(4), &["swapped", "not swapped"], |seen| {
        let state = new_shared(AtomicState::new());
        let late = spawn(&state, |state| try_swap(state, 0, 9));
        let there = try_swap(&state, 0, 1);
        let back = there && try_swap(&state, 1, 0);
        assert_eq!(there, back);
        let swapped = late.join().unwrap();
        assert_eq!(loaded(&state), if swapped { 9 } else { 0 });
        seen.saw(if swapped { "swapped" } else { "not swapped" });
    });
}

/// A value next to the state, like a slot, changes once the state that names it is gone. A reader
/// that finds its state unchanged has not seen the new value. A reader that sees a state sees the
/// stores before the swap to it.
#[test]
fn a_slot_beside_a_portable_state_belongs_to_it() {
    check(Some(4), &["still", "changed"], |seen| {
        let (state, slot) = (
            new_shared(AtomicState::new()),
            new_shared(AtomicU64::new(0)),
        );
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
