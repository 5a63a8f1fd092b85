//! Words, lines, slopes and the discipline with arbitrary values: the properties of
//! `arithmetic.rs`, steered by coverage.
#![no_main]

#[path = "../../crates/tickline-core/tests/properties/discipline.rs"]
mod discipline;
#[path = "../../crates/tickline-core/tests/properties/line.rs"]
mod line;
#[path = "../../crates/tickline-core/tests/properties/wide.rs"]
mod wide;
#[path = "../../crates/tickline-core/tests/properties/word.rs"]
mod word;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use tickline_core::unstable::discipline::Steering;
use tickline_core::unstable::estimate::Target;
use tickline_core::unstable::line::{Line, Slope};
use tickline_core::unstable::word::Word;

#[derive(Debug, Arbitrary)]
enum Case {
    Word {
        before: u64,
        ticks: u64,
        margin_ticks: u64,
        high_water_ticks: u64,
    },
    Gates {
        without_line: u64,
        changes: u8,
    },
    Precedes {
        word: u64,
        ticks: u64,
        margin_ticks: u64,
    },
    Conversion {
        line: [u64; 3],
        ticks: u64,
        near: bool,
    },
    Inverse {
        line: [u64; 3],
        ns: i64,
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
    Rounding {
        fixed: i128,
        ns: i64,
    },
    Join {
        old: [u64; 3],
        target: TargetCase,
        at: u32,
        horizon: u64,
        start: u32,
        margin: u32,
        probe: u64,
    },
    /// As `Join`, with a steering that nobody computed.
    Bend {
        old: [u64; 3],
        slope: u64,
        step_to: Option<i128>,
        at: u64,
        start: u64,
        margin: u64,
        probe: u64,
    },
    Recover {
        most: i128,
        high_water_ns: i64,
        slope: u64,
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

fn line_of([start_ticks, base, slope]: [u64; 3]) -> Line {
    Line { start_ticks, base_ns: base.cast_signed(), slope: Slope::from_bits(slope) }
}

fuzz_target!(|case: Case| match case {
    Case::Word { before, ticks, margin_ticks, high_water_ticks } => {
        word::check_life(Word::from_bits(before).without_line(before), ticks, margin_ticks, high_water_ticks);
    }
    Case::Gates { without_line, changes } =>
        word::check_gates(Word::default().without_line(without_line), changes.into()),
    Case::Precedes { word, ticks, margin_ticks } => {
        word::check_order(Word::from_bits(word), ticks, margin_ticks);
    }
    Case::Conversion { line, ticks, near } => {
        let line = line_of(line);
        line::check_conversion(&line, if near { line.start_ticks.wrapping_add(ticks) } else { ticks });
    }
    Case::Inverse { line, ns, near } => {
        let line = line_of(line);
        line::check_inverse(&line, if near { line.base_ns.saturating_add(ns) } else { ns });
    }
    Case::Frequency { hz, slope } => line::check_frequency(hz, Slope::from_bits(slope)),
    Case::Spans { slope, ticks, ns } => line::check_spans(Slope::from_bits(slope), ticks, ns),
    Case::Ppb { slope, other, ppb, raw } => {
        line::check_ppb(Slope::from_bits(slope), Slope::from_bits(other), ppb, raw);
    }
    Case::Rounding { fixed, ns } => line::check_rounding(fixed, ns),
    Case::Join { old, target, at, horizon, start, margin, probe } => {
        let old = line_of(old);
        let at_ticks = old.start_ticks.wrapping_add(at.into());
        let slope = match target.slope {
            SlopeCase::Near(more) => {
                Slope::saturating_from(i128::from(old.slope.to_bits()) + i128::from(more))
            }
            SlopeCase::Any(bits) => Slope::from_bits(bits),
        };
        let ticks = at_ticks.wrapping_sub(target.age.into());
        let ns = old.fixed_at(ticks).saturating_add(i128::from(target.ahead) << (target.shift & 63));
        let steering = discipline::check_steer(&old, at_ticks, &Target { ticks, ns, slope }, horizon);
        let start_ticks = at_ticks.wrapping_sub(start.into());
        discipline::check_meeting(&old, &steering, start_ticks, at_ticks, margin.into(), probe);
    }
    Case::Bend { old, slope, step_to, at, start, margin, probe } => {
        let steering = Steering { slope: Slope::from_bits(slope), step_to, offset: 0 };
        discipline::check_meeting(&line_of(old), &steering, start, at, margin, probe);
    }
    Case::Recover { most, high_water_ns, slope, start, at, probe } => {
        discipline::check_recover(most, high_water_ns, Slope::from_bits(slope), start, at, probe);
    }
});
