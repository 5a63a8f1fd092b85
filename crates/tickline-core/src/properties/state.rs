//! Properties of the state.

use crate::cell::WindowedLine;
use crate::line::Slope;
use crate::state::{LineState, Phase, is_supported, wrap_mask};
use crate::units::{FRACTION_BITS, FixedNs};
use num_bigint::BigInt;

use super::wide::{UNITS_PER_NS, floor_ns, units, wide, wrapped_i64};

/// A state, and the `m` that its line has by the layout at the head of `state.rs`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Oracle {
    pub(crate) line: WindowedLine,
    m: u64,
}

impl Oracle {
    /// A state without a line: `tag` has the slot, and how often the gate was opened.
    pub(crate) fn without_line(tag: u8, shift: u32) -> Self {
        let mut state = LineState::default();
        if tag & 8 != 0 {
            state = state.next_line(Slope { bits: 1 << 20 }, shift).expect("fits").without_line(0);
        }
        for _ in 0..tag & 7 {
            state = state.with_gate_closed().with_gate_open();
        }
        let line = WindowedLine { state, start_ticks: 0, window_ticks: 0, shift };
        Self { line, m: u64::from(tag & 8) | u64::from((tag & 7) + (tag >> 3 & 1)) << 6 }
    }

    /// The line after this state, with `b` = 0, if the counter is fast enough.
    pub(crate) fn next(&self, slope: Slope, serves_unix: bool) -> Option<Self> {
        let WindowedLine { state, shift, .. } = self.line;
        let next = state.next_line(slope, shift);
        assert_eq!(next, state.replacing().next_line(slope, shift), "announced or not");
        let next = if serves_unix { next } else { next.map(LineState::without_unix) };
        let m = slope.bits << (64 - FRACTION_BITS - shift) & !0xffff;
        let fits = m != 0 && wide(slope.bits) < wide(UNITS_PER_NS) << shift;
        assert_eq!(next.is_some(), fits, "{slope:?} by a shift of {shift}");
        let tag = self.m.wrapping_add(0x40) & 0xffc0 | !self.m & 8 | if serves_unix { 3 } else { 0x21 };
        let line = WindowedLine { state: next?, ..self.line };
        Some(Self { line, m: m | tag })
    }

    pub(crate) fn slope(&self) -> Slope {
        Slope { bits: (self.m & !0xffff) >> (64 - FRACTION_BITS - self.line.shift) }
    }

    pub(crate) fn with_b(self, b: i64) -> Self {
        Self { line: WindowedLine { state: self.line.state.with_b(b), ..self.line }, ..self }
    }

    /// The line in units of 2^-64 ns, if nothing wraps.
    pub(crate) fn exact_at(&self, ticks: u64) -> BigInt {
        (wide(self.line.state.high_water_ns()) << 64) + wide(ticks << self.line.shift) * self.m
    }

    /// The least `b` with which this line is not below `needed` (units of 2^-64 ns) at `ticks`.
    pub(crate) fn b_not_below_ns(&self, needed: BigInt, ticks: u64) -> BigInt {
        let spare: BigInt = (self.with_b(0).exact_at(ticks) - needed) >> 64;
        -spare
    }
}

/// Ticks to nanoseconds, in every phase, and back to `b` and slope.
pub(crate) fn check_conversion(oracle: &Oracle, ticks: u64, ns: FixedNs) {
    let WindowedLine { state, shift, .. } = oracle.line;
    let fixed = oracle.exact_at(ticks) >> 16;
    let (at, fraction) = (wrapped_i64(&floor_ns(&fixed)), &fixed - floor_ns(&fixed) * UNITS_PER_NS);
    for state in [state, state.replacing(), state.with_gate_closed(), state.replacing().with_gate_closed()] {
        assert_eq!(state.at(shift, ticks), at, "{oracle:?} at {ticks}");
        let found = state.fixed_at(shift, ticks).parts();
        assert_eq!((found.0, wide(found.1)), (at, fraction.clone()), "{oracle:?} at {ticks}");
        assert_eq!(state.slope(shift), oracle.slope(), "{oracle:?}");
    }
    assert!(!state.allows_fast_path() || state.fast_at(shift, ticks) == at, "{oracle:?} at {ticks}");
    if i64::try_from(floor_ns(&units(ns))).is_ok() {
        let least = wrapped_i64(&oracle.b_not_below_ns(units(ns) << 16, ticks));
        assert_eq!(state.b_not_below_ns(shift, ticks, ns), least, "{oracle:?} through {ns:?} at {ticks}");
    }
}

/// Rule 9: the least `b` with which a line is not below another, at any tick.
pub(crate) fn check_not_below(new: &Oracle, old: &Oracle, ticks: u64) {
    let b = new.line.state.b_not_below(old.line.state, old.line.shift, ticks);
    let least = wrapped_i64(&new.b_not_below_ns(old.exact_at(ticks), ticks));
    assert_eq!(b, least, "{new:?} {old:?} at {ticks}");
}

/// Every operation on a line keeps the right parts of its state.
pub(crate) fn check_life(before: &Oracle, line: &Oracle, high_water_ns: i64) {
    let (line, unix) = (line.line.state, line.m & 2 != 0);
    let slot = 1 - before.line.state.slot();
    let fast = is_supported();
    assert_eq!((line.allows_fast_path(), line.allows_fast_unix()), (fast, fast && unix), "{line:?}");
    let (replacing, gated) = (line.replacing(), line.with_gate_closed());
    assert_eq!(replacing.with_gate_closed(), gated, "in either order");
    for (state, phase) in [(line, Phase::Published), (replacing, Phase::Replacing), (gated, Phase::Replacing)]
    {
        let ended = state.without_line(high_water_ns);
        let first = ended.first_publication();
        assert_eq!(first.given_up(), ended);
        assert_eq!(first.with_gate_closed().given_up(), ended.with_gate_closed(), "{ended:?}");
        let turned = ended.with_gate_closed().with_gate_open();
        assert_eq!((turned.phase(), turned.slot(), turned.is_gate_closed()), (Phase::NoLine, slot, false));
        assert_eq!([ended, first, turned].map(LineState::high_water_ns), [high_water_ns; 3], "{turned:?}");
        for (next, phase) in [(state, phase), (ended, Phase::NoLine), (first, Phase::FirstPublication)] {
            let expected = (phase, slot, state == gated);
            assert_eq!((next.phase(), next.slot(), next.is_gate_closed()), expected, "{next:?}");
            assert_eq!(next.is_published(), next == line, "{next:?}");
            assert!(next == line || !next.allows_fast_path() && !next.allows_fast_unix(), "{next:?}");
        }
    }
}

/// Whether `ticks << shift` does not wrap between two ticks.
pub(crate) const fn is_in_one_turn(shift: u32, from_ticks: u64, to_ticks: u64) -> bool {
    from_ticks <= to_ticks && (from_ticks ^ to_ticks) & !wrap_mask(shift) == 0
}
