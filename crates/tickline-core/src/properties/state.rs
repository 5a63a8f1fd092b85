//! Properties of the state.

use crate::cell::WindowedLine;
use crate::line::Slope;
use crate::state::{LineState, Phase, SHIFT, has_atomics};
use crate::units::FRACTION_BITS;
use num_bigint::BigInt;
use proptest::prelude::*;

use super::wide::{UNITS_PER_NS, floor_ns, units, wide, wrapped_i64};
use super::{CHEAP, above, config, fixed, number, signed_number};

/// The tag's bits by the layout at the head of `state.rs`, written a second time.
const FAST_PATH: u64 = 0x1;
const FAST_PATH_UNIX: u64 = 0x2;
const SLOT: u64 = 0x8;
const NO_UNIX: u64 = 0x20;
const COUNT: u64 = 0x40;
const COUNT_MASK: u64 = 0xffc0;
const TAG_MASK: u64 = 0xffff;

/// A state, and the `m` that its line has by this layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Oracle {
    pub(super) line: WindowedLine,
    m: u64,
}

impl Oracle {
    /// A state without a line, after `lines` lines, and after the clock was unbarred so often.
    fn without_line(lines: u64, unbarred: u64) -> Self {
        let mut state = LineState::default();
        for _ in 0..lines {
            state = state
                .next_line(Slope { bits: 1 << 20 })
                .expect("fits")
                .without_line(0);
        }
        for _ in 0..unbarred {
            state = state.barred().unbarred();
        }
        let line = WindowedLine {
            state,
            start_ticks: 0,
            window_ticks: 0,
        };
        Self {
            line,
            m: (lines % 2) * SLOT + (lines + unbarred) * COUNT,
        }
    }

    /// The line after this state, with `b` = 0, if the counter is fast enough.
    pub(super) fn next(&self, slope: Slope, has_unix_time: bool) -> Option<Self> {
        let state = self.line.state;
        let next = state.next_line(slope);
        assert_eq!(next, state.replacing().next_line(slope), "announced or not");
        let next = if has_unix_time {
            next
        } else {
            next.map(LineState::without_unix)
        };
        let m = slope.bits << (64 - FRACTION_BITS - SHIFT) & !TAG_MASK;
        let fits = m != 0 && wide(slope.bits) < wide(UNITS_PER_NS) << SHIFT;
        assert_eq!(next.is_some(), fits, "{slope:?}");
        let count = self.m.wrapping_add(COUNT) & COUNT_MASK;
        let slot = !self.m & SLOT;
        let serves = if has_unix_time {
            FAST_PATH | FAST_PATH_UNIX
        } else {
            FAST_PATH | NO_UNIX
        };
        let line = WindowedLine {
            state: next?,
            ..self.line
        };
        Some(Self {
            line,
            m: m | count | slot | serves,
        })
    }

    pub(super) fn slope(&self) -> Slope {
        Slope {
            bits: (self.m & !TAG_MASK) >> (64 - FRACTION_BITS - SHIFT),
        }
    }

    pub(super) fn with_b(self, b: i64) -> Self {
        Self {
            line: WindowedLine {
                state: self.line.state.with_b(b),
                ..self.line
            },
            ..self
        }
    }

    /// The line in units of 2^-64 ns, if nothing wraps.
    pub(super) fn exact_at(&self, ticks: u64) -> BigInt {
        (wide(self.line.state.high_water_ns()) << 64) + wide(ticks << SHIFT) * self.m
    }

    /// The least `b` with which this line is not below `needed` (units of 2^-64 ns) at `ticks`.
    pub(super) fn b_not_below_time(&self, needed: BigInt, ticks: u64) -> BigInt {
        let spare: BigInt = (self.with_b(0).exact_at(ticks) - needed) >> 64;
        -spare
    }
}

/// Slopes of counters that exist, from `min_log_hz` to 16 GHz. 14.0 is 15.3 kHz.
pub(super) fn usual_slope(min_log_hz: f64) -> impl Strategy<Value = Slope> {
    (min_log_hz..34.0).prop_filter_map("too slow", |log_hz| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "below 2^34, positive"
        )]
        let hz = log_hz.exp2() as u64;
        Slope::from_hz(hz)
    })
}

/// A state without a line, and a state with the next line, of a counter that is fast enough.
fn beginning() -> impl Strategy<Value = (Oracle, Oracle)> {
    (0..2_u64, 0..8_u64, any::<bool>()).prop_flat_map(|(lines, unbarred, serves)| {
        let any = number().prop_map(|bits| (bits % (1 << (FRACTION_BITS + SHIFT))).max(1 << SHIFT));
        let slope = prop_oneof![
            any.prop_map(|bits| Slope { bits }),
            usual_slope(30.0 - f64::from(SHIFT))
        ];
        let before = Oracle::without_line(lines, unbarred);
        slope.prop_map(move |slope| (before, before.next(slope, serves).expect("fast enough")))
    })
}

/// A line in use, some centuries around zero at a tick anywhere on the counter.
pub(super) fn line_in_use() -> impl Strategy<Value = (Oracle, u64)> {
    (beginning(), number(), -(1_i64 << 61)..1 << 61).prop_map(|((_, oracle), ticks, ns)| {
        (
            oracle.with_b(ns.wrapping_sub(oracle.line.ns_at(ticks))),
            ticks,
        )
    })
}

/// A published line, and whether it serves Unix time by the layout's oracle.
fn line_and_service() -> impl Strategy<Value = (LineState, bool)> {
    (beginning(), signed_number()).prop_map(|((_, oracle), b)| {
        let line = oracle.with_b(b).line.state;
        (line, oracle.m & FAST_PATH_UNIX != 0)
    })
}

/// A published line, its slot, and a high-water mark.
fn line_and_mark() -> impl Strategy<Value = (LineState, usize, i64)> {
    (beginning(), signed_number(), signed_number()).prop_map(|((before, line), b, mark_ns)| {
        let slot = 1 - before.line.state.slot();
        (line.with_b(b).line.state, slot, mark_ns)
    })
}

/// The states of a clock that has this published line: in use, being replaced, being barred.
fn with_a_line(line: LineState) -> [LineState; 3] {
    [line, line.replacing(), line.barred()]
}

proptest! {
    #![proptest_config(config(CHEAP))]

    #[test]
    fn a_published_line_allows_the_fast_paths_that_it_serves((line, unix) in line_and_service()) {
        let fast = has_atomics();
        let found = (line.allows_fast_path(), line.allows_fast_unix());
        assert_eq!(found, (fast, fast && unix), "{line:?}");
    }

    #[test]
    fn a_line_is_barred_alike_before_and_after_its_replacement_begins((line, _, _) in line_and_mark()) {
        assert_eq!(line.replacing().barred(), line.barred());
    }

    #[test]
    fn a_first_publication_that_is_given_up_leaves_the_state_before_it((line, _, mark_ns) in line_and_mark()) {
        for state in with_a_line(line) {
            let ended = state.without_line(mark_ns);
            assert_eq!(ended.first_publication().given_up(), ended);
        }
    }

    #[test]
    fn a_first_publication_that_is_given_up_stays_barred((line, _, mark_ns) in line_and_mark()) {
        for state in with_a_line(line) {
            let ended = state.without_line(mark_ns);
            let barred = ended.first_publication().barred();
            assert_eq!(barred.given_up(), ended.barred(), "{ended:?}");
        }
    }

    #[test]
    fn an_unbarred_clock_has_no_line((line, slot, mark_ns) in line_and_mark()) {
        for state in with_a_line(line) {
            let turned = state.without_line(mark_ns).barred().unbarred();
            let found = (turned.phase(), turned.slot(), turned.is_barred());
            assert_eq!(found, (Phase::NoLine, slot, false));
        }
    }

    #[test]
    fn every_state_without_a_line_keeps_the_high_water_mark((line, _, mark_ns) in line_and_mark()) {
        for state in with_a_line(line) {
            let ended = state.without_line(mark_ns);
            for state in [ended, ended.first_publication(), ended.barred().unbarred()] {
                assert_eq!(state.high_water_ns(), mark_ns, "{state:?}");
            }
        }
    }

    #[test]
    fn every_state_has_its_phase_and_the_lines_slot_and_bar((line, slot, mark_ns) in line_and_mark()) {
        let [published, replacing, barred] = with_a_line(line);
        for (state, phase) in [
            (published, Phase::Published),
            (replacing, Phase::Replacing),
            (barred, Phase::Replacing),
        ] {
            let ended = state.without_line(mark_ns);
            let first = ended.first_publication();
            for (next, phase) in [(state, phase), (ended, Phase::NoLine), (first, Phase::FirstPublication)] {
                let expected = (phase, slot, state == barred);
                assert_eq!((next.phase(), next.slot(), next.is_barred()), expected, "{next:?}");
                assert_eq!(next.is_published(), phase == Phase::Published, "{next:?}");
            }
        }
    }

    #[test]
    fn only_a_published_line_allows_a_fast_path((line, _, mark_ns) in line_and_mark()) {
        let [_, replacing, barred] = with_a_line(line);
        let ended = with_a_line(line).map(|state| state.without_line(mark_ns));
        let first = ended.map(LineState::first_publication);
        for state in [replacing, barred].into_iter().chain(ended).chain(first) {
            assert!(!state.allows_fast_path() && !state.allows_fast_unix(), "{state:?}");
        }
    }

    /// Ticks to nanoseconds, in every phase, and back to `b` and slope.
    #[test]
    fn a_line_is_exact_at_every_tick_in_every_phase(
        ((oracle, _), b, ticks, ns) in (line_in_use(), signed_number(), number(), fixed())
    ) {
        // At the line itself `b` must be the line's, and for the smallest step above it one more.
        let on_line = oracle.line.fixed_at(ticks);
        for (oracle, ticks, ns) in [
            (oracle.with_b(b), !ticks, ns),
            (oracle, ticks, ns),
            (oracle, ticks, on_line),
            (oracle, ticks, above(on_line, 1)),
        ] {
            let state = oracle.line.state;
            let exact = oracle.exact_at(ticks) >> 16;
            let at = wrapped_i64(&floor_ns(&exact));
            let fraction = &exact - floor_ns(&exact) * UNITS_PER_NS;
            let replacing = state.replacing();
            for state in [state, replacing, state.barred(), replacing.barred()] {
                assert_eq!(state.ns_at(ticks), at, "{oracle:?} at {ticks}");
                let found = state.fixed_at(ticks).parts();
                assert_eq!((found.0, wide(found.1)), (at, fraction.clone()), "{oracle:?} at {ticks}");
                assert_eq!(state.slope(), oracle.slope(), "{oracle:?}");
            }
            assert!(!state.allows_fast_path() || state.fast_at(ticks) == at, "{oracle:?} at {ticks}");
            if i64::try_from(floor_ns(&units(ns))).is_ok() {
                let least = wrapped_i64(&oracle.b_not_below_time(units(ns) << 16, ticks));
                assert_eq!(state.b_not_below_time(ticks, ns), least, "{oracle:?} through {ns:?}");
            }
        }
    }

    /// The least `b` with which a line is not below another, at any tick.
    #[test]
    fn rule_9_a_line_is_put_above_any_other(
        ((old, _), ticks, serves, raw) in (line_in_use(), number(), any::<bool>(), number())
    ) {
        let near = Slope { bits: old.slope().bits ^ raw >> 32 };
        for slope in [Slope { bits: raw }, old.slope(), near] {
            let Some(new) = old.next(slope, serves) else { continue };
            let b = new.line.state.b_not_below_line(old.line.state, ticks);
            let least = wrapped_i64(&new.b_not_below_time(old.exact_at(ticks), ticks));
            assert_eq!(b, least, "{new:?}");
        }
    }
}
