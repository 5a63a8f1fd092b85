//! The state by itself: its fields, its arithmetic, and that no load is ever torn.

use super::*;

fn slope_of(hz: u64) -> Slope {
    Slope::from_hz(hz).expect("a frequency")
}

fn line(slope: Slope) -> LineState {
    LineState::default()
        .next_line(slope)
        .expect("a slope that fits")
}

#[test]
fn a_tag_alone_is_no_line() {
    for m in [0, CHANGING, TAG_MASK] {
        let phase = LineState { m, b: 0 }.phase();
        let has_line = matches!(phase, Phase::Published | Phase::Replacing);
        assert!(!has_line, "{m:#x}: {phase:?}");
    }
}

#[test]
fn the_flattest_slope_is_a_line() {
    for tag in [0, TAG_MASK] {
        let m = 1 << TAG_BITS | tag;
        let phase = LineState { m, b: 0 }.phase();
        let has_line = matches!(phase, Phase::Published | Phase::Replacing);
        assert!(has_line, "{m:#x}: {phase:?}");
    }
}

/// Rule 10: the count distinguishes states before and after the clock was barred and unbarred, and
/// the lives of a line that is published again.
#[test]
fn rule_10_the_count_tells_lives_apart() {
    const LIVES: usize = if cfg!(miri) { 64 } else { 1_024 };
    fn next(state: LineState) -> LineState {
        state.next_line(slope_of(1_000_000_000)).unwrap().with_b(5)
    }
    // Line follows line; each line ends without a successor; the clock is barred and unbarred.
    let lives: [fn(LineState) -> LineState; 3] = [
        next,
        |state| {
            next(if state.is_published() {
                state.replacing().without_line(9)
            } else {
                state
            })
        },
        |state| state.barred().unbarred(),
    ];
    for life in lives {
        let mut seen = vec![LineState::default()];
        for lived in 0..LIVES - 1 {
            let state = life(seen[lived]);
            assert!(!seen.contains(&state), "{state:?}");
            seen.push(state);
        }
    }
}

/// The states that can follow a state. Their bases come from a set so small that they repeat.
fn successors(state: LineState) -> Vec<LineState> {
    const BASES: [i64; 2] = [5, 6];
    let next = state
        .next_line(Slope { bits: 1 << 47 })
        .expect("a slope that fits");
    let lines = || BASES.map(|b| next.with_b(b));
    let ends = || BASES.map(|b| state.without_line(b));
    let barred = state.barred();
    match (state.phase(), state.is_barred()) {
        (Phase::Published, _) => vec![state.replacing(), barred],
        (Phase::Replacing, false) => [&lines()[..], &ends(), &[barred]].concat(),
        (Phase::Replacing, true) => ends().to_vec(),
        (Phase::NoLine, false) => vec![state.first_publication(), barred],
        (Phase::NoLine, true) => vec![state.unbarred()],
        (Phase::FirstPublication, false) => [&lines()[..], &[state.given_up(), barred]].concat(),
        (Phase::FirstPublication, true) => vec![state.given_up()],
    }
}

/// Each of a reading's two loads reads two halves of 8 bytes, in either order, at any four moments
/// of any history of six states. If both loads find one state, the clock had that state between
/// them, with one exception. In the exception a `b` recurs, and the loads are split in opposite
/// orders (see "Where a load may be split"). So there is no exception if one of the loads is whole,
/// or if the second load reads `b` first.
#[test]
#[cfg_attr(miri, ignore = "only arithmetic, which takes half a minute")]
fn no_mixture_of_split_loads_is_used() {
    let mut used = 0_u64;
    let mut exceptions = 0_u64;
    let mut histories = vec![vec![line(slope_of(1_000_000_000)).with_b(5)]];
    for _ in 1..6 {
        let longer = |history: &Vec<LineState>| {
            let history = history.clone();
            let next = successors(history[history.len() - 1]);
            next.into_iter()
                .map(move |state| [&history[..], &[state]].concat())
                .collect::<Vec<_>>()
        };
        histories = histories.iter().flat_map(longer).collect();
    }
    for history in &histories {
        let last = history.len();
        for t1 in 0..last {
            for t2 in t1..last {
                for t3 in t2..last {
                    for t4 in t3..last {
                        for orders in 0..4 {
                            let (m1, b1) = if orders & 1 == 0 { (t1, t2) } else { (t2, t1) };
                            let (m2, b2) = if orders & 2 == 0 { (t3, t4) } else { (t4, t3) };
                            let found = LineState {
                                m: history[m1].m,
                                b: history[b1].b,
                            };
                            let again = LineState {
                                m: history[m2].m,
                                b: history[b2].b,
                            };
                            let is_read = matches!(found.phase(), Phase::Published | Phase::NoLine);
                            if found != again || !is_read {
                                continue;
                            }
                            used += 1;
                            if !history[t1..=t4].contains(&found) {
                                assert!(b1 < m1 && m2 < b2, "{found:?} {history:?}");
                                exceptions += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(
        used > 1_000 && exceptions > 0,
        "{used} readings, {exceptions} exceptions"
    );
}

/// Whether the manuals promise that this processor loads 16 bytes as one.
fn loads_as_one() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return std::arch::is_x86_feature_detected!("avx");
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    return std::arch::is_aarch64_feature_detected!("lse2");
    #[allow(unreachable_code, reason = "the portable state")]
    true
}

/// A state, and all that differ from it by one bit. `None`, with a message, without a swap.
fn state_and_neighbours() -> Option<(AtomicState, LineState, Vec<LineState>)> {
    let atomic = AtomicState::new(i64::MIN);
    let state = line(slope_of(2_596_120_000)).with_b(-5);
    if !atomic.try_swap(LineState::default(), state) {
        crate::testing::skip("this processor has no swap of 128 bits");
        return None;
    }
    let neighbours = (0..64).flat_map(|bit| {
        let m = state.m ^ 1 << bit;
        [LineState { m, ..state }, state.with_b(state.b ^ 1 << bit)]
    });
    Some((atomic, state, neighbours.collect()))
}

#[test]
fn a_second_load_compares_every_bit() {
    let Some((atomic, state, neighbours)) = state_and_neighbours() else {
        return;
    };
    for other in neighbours {
        assert!(!atomic.is_still(other), "{other:?} is not {state:?}");
    }
    assert!(atomic.is_still(state));
}

#[test]
fn a_swap_compares_every_bit() {
    let Some((atomic, state, neighbours)) = state_and_neighbours() else {
        return;
    };
    for other in neighbours {
        let is_swapped = atomic.try_swap(other, LineState::default());
        assert!(!is_swapped, "{other:?} is not {state:?}");
    }
}

/// Two threads swap between states whose halves belong together: one publishes lines, the other one
/// retires them. No load may ever see halves of two states, and no swap may be lost. Where a
/// processor may split a load, the second load detects a mixture.
#[test]
fn no_load_is_torn_on_this_processor() {
    if !has_atomics() {
        return crate::testing::skip("this processor has no swap of 128 bits");
    }
    let lines: u64 = if cfg!(miri) { 50 } else { 1_000_000 };
    let b_of = |slope: Slope| (slope.bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1).cast_signed();
    // The marks are the negative numbers, and rise.
    let is_whole = |state: LineState| {
        if state.slope().bits == 0 {
            state.b < 0
        } else {
            state.b == b_of(state.slope())
        }
    };
    for loads in if loads_as_one() { 1..=2 } else { 2..=2 } {
        let state = &AtomicState::new(i64::MIN);
        let load = move || loop {
            let seen = state.load();
            if loads == 1 || state.is_still(seen) {
                assert!(
                    is_whole(seen),
                    "halves of two states, {loads} loads: {seen:?}"
                );
                break seen;
            }
        };
        let publish = move |number: u64| loop {
            let seen = load();
            let announced = if seen.is_published() {
                seen.replacing()
            } else {
                seen.first_publication()
            };
            let slope = Slope {
                bits: (1 << 40) + (number << 20),
            };
            let line = announced.next_line(slope).unwrap().with_b(b_of(slope));
            if state.try_swap(seen, announced) && state.try_swap(announced, line) {
                break;
            }
        };
        let retire = move |number: u64| {
            let seen = load();
            let mark_ns = number.cast_signed().wrapping_add(i64::MIN / 2);
            seen.phase() == Phase::Replacing && state.try_swap(seen, seen.without_line(mark_ns))
        };
        std::thread::scope(|scope| {
            let publisher = scope.spawn(move || (0..lines).for_each(publish));
            let retirer = scope.spawn(move || {
                for number in 0..4 * lines {
                    retire(number);
                }
            });
            while !publisher.is_finished() || !retirer.is_finished() {
                load();
            }
        });
        let published = load().m & COUNT_MASK;
        assert_eq!(published / COUNT, lines % 1_024, "a swap was lost");
    }
}
