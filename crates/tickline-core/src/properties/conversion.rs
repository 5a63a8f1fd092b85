//! States, lines, slopes and the discipline with arbitrary values, steered by coverage.

use arbitrary::Arbitrary;

use super::state::Known;
use super::{discipline, line, state};
use crate::discipline::Steering;
use crate::estimate::Target;
use crate::line::{Line, Slope};
use crate::state::{MAX_SHIFT, Serves};
use crate::units::FixedNs;

/// What to check, and with what.
#[derive(Debug, Arbitrary)]
pub struct Input(Case);

#[derive(Debug, Arbitrary)]
enum Case {
    State {
        line: LineCase,
        high_water_ns: i64,
        ticks: u64,
        ns: i128,
        changes: u8,
    },
    NotBelow {
        old: LineCase,
        slope: SlopeCase,
        both: bool,
        ticks: u64,
    },
    Conversion {
        line: [u64; 3],
        ticks: u64,
        near: bool,
    },
    Frequency {
        hz: u64,
        slope: u64,
    },
    Spans {
        slope: u64,
        ticks: i64,
        ns: u64,
    },
    Ppb {
        slope: u64,
        other: u64,
        ppb: i64,
        raw: i128,
    },
    Fixed {
        fixed: i128,
        other: i128,
        ns: i64,
    },
    Join {
        old: LineCase,
        target: TargetCase,
        at: u64,
        horizon: u64,
        margin: u32,
        probe: u64,
    },
    /// As `Join`, with a steering that nobody computed.
    Bend {
        old: LineCase,
        slope: SlopeCase,
        step_to: Option<i128>,
        at: u64,
        margin: u64,
        probe: u64,
    },
    Recover {
        next: LineCase,
        most: i128,
        high_water_ns: i64,
        start: u64,
        at: u64,
        probe: u64,
    },
}

#[derive(Debug, Arbitrary)]
struct TargetCase {
    age: u32,
    ahead: i64,
    shift: u8,
    slope: SlopeCase,
}

/// A slope near another one, or any.
#[derive(Debug, Arbitrary)]
enum SlopeCase {
    Near(i32),
    Any(u64),
}

impl SlopeCase {
    fn after(&self, old: Slope) -> Slope {
        match *self {
            Self::Near(more) => Slope::saturating_from(i128::from(old.to_bits()) + i128::from(more)),
            Self::Any(bits) => Slope::from_bits(bits),
        }
    }
}

/// A state with a line, for a counter that is fast enough.
#[derive(Debug, Arbitrary)]
struct LineCase {
    tag: u8,
    both: bool,
    slope: u64,
    b: i64,
}

impl LineCase {
    fn states(&self) -> (Known, Known) {
        let shift = u32::from(self.tag >> 4) % (MAX_SHIFT + 1);
        let before = Known::without_line(self.tag & 15, shift);
        let slope = Slope::from_bits((self.slope >> (16 - shift)).max(1 << shift));
        let line = before.next(slope, serves(self.both)).expect("fast enough");
        (before, line.with_b(self.b))
    }
}

fn serves(both: bool) -> Serves {
    if both { Serves::Both } else { Serves::Monotonic }
}

impl Input {
    /// # Panics
    ///
    /// If a property does not hold.
    pub fn check(self) {
        match self.0 {
            Case::State { line, high_water_ns, ticks, ns, changes } => {
                let (before, line) = line.states();
                state::check_life(&before, &line, high_water_ns);
                state::check_gates(before.line.state.without_line(high_water_ns), changes.into());
                state::check_conversion(&line, ticks, FixedNs::from_bits(ns));
            }
            Case::NotBelow { old, slope, both, ticks } => {
                let (_, old) = old.states();
                if let Some(new) = old.next(slope.after(old.slope()), serves(both)) {
                    state::check_not_below(&new, &old, ticks);
                }
            }
            Case::Conversion { line: [start_ticks, base, slope], ticks, near } => {
                let line = Line { start_ticks, base_ns: base.cast_signed(), slope: Slope::from_bits(slope) };
                line::check_conversion(
                    &line,
                    if near { line.start_ticks.wrapping_add(ticks) } else { ticks },
                );
            }
            Case::Frequency { hz, slope } => {
                line::check_frequency(hz, Slope::from_bits(slope));
                line::check_counts(slope, hz);
            }
            Case::Spans { slope, ticks, ns } => line::check_spans(Slope::from_bits(slope), ticks, ns),
            Case::Ppb { slope, other, ppb, raw } => {
                line::check_ppb(Slope::from_bits(slope), Slope::from_bits(other), ppb, raw);
            }
            Case::Fixed { fixed, other, ns } => {
                line::check_fixed(FixedNs::from_bits(fixed), FixedNs::from_bits(other), ns);
            }
            Case::Join { old, target, at, horizon, margin, probe } => {
                let (_, old) = old.states();
                let ticks = at.wrapping_sub(target.age.into());
                let ahead = FixedNs::from_bits(i128::from(target.ahead) << (target.shift & 63));
                let target = Target {
                    ticks,
                    ns: old.line.fixed_at(ticks).plus(ahead),
                    slope: target.slope.after(old.slope()),
                };
                let steering = discipline::check_steer(&old, at, &target, horizon);
                discipline::check_meeting(&old, &steering, at, margin.into(), probe);
            }
            Case::Bend { old, slope, step_to, at, margin, probe } => {
                let (_, old) = old.states();
                let slope = slope.after(old.slope());
                let steering =
                    Steering { slope, step_to: step_to.map(FixedNs::from_bits), offset: FixedNs::ZERO };
                discipline::check_meeting(&old, &steering, at, margin, probe);
            }
            Case::Recover { next, most, high_water_ns, start, at, probe } => {
                let (_, next) = next.states();
                discipline::check_recover(&next, FixedNs::from_bits(most), high_water_ns, start, at, probe);
            }
        }
    }
}
