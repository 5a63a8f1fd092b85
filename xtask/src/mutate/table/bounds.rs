//! Everything else that a reading rests on: phase and window, what samples prove, the bound, past lines.

use super::{FLOOR, Mutant, mutant};

/// By subject.
pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "phase",
        "readings look at the counter whatever the phase",
        "shared.rs",
        "        if !state.word.is_open() {
            return None;
        }
        let line = self.line(state);
        let ticks = now_ticks();",
        "        let line = self.line(state);
        let ticks = now_ticks();",
    ),
    mutant(
        "phase",
        "Unix readings look at the counter whatever the phase",
        "shared.rs",
        "        if !state.word.is_open() {
            return None;
        }
        let line = self.line(state);
        let unix_offset_ns",
        "        let line = self.line(state);
        let unix_offset_ns",
    ),
    mutant(
        "phase",
        "readings with bounds look at the counter whatever the phase",
        "shared.rs",
        "        if !state.word.is_open() {
            return None;
        }
        let line = self.line(state);
        let envelope",
        "        let line = self.line(state);
        let envelope",
    ),
    mutant(
        "phase",
        "stamps look at the counter whatever the phase",
        "shared.rs",
        "        if !word.is_open() {
            return None;
        }
",
        "",
    ),
    mutant(
        "phase",
        "a guarded line is open to the inlined path",
        "word.rs",
        "self.0 & PHASE_MASK == 2 << PHASE_SHIFT",
        "self.0 & (2 << PHASE_SHIFT) != 0",
    ),
    mutant(
        "window",
        "the soft window admits a counter before its start",
        "word.rs",
        "delta_ticks >> (self.0 & EXPONENT_MASK) == 0",
        "crate::units::signed(delta_ticks) >> (self.0 & EXPONENT_MASK) <= 0",
    ),
    mutant(
        "window",
        "the soft window has no end",
        "word.rs",
        "delta_ticks >> (self.0 & EXPONENT_MASK) == 0",
        "crate::units::signed(delta_ticks) >= 0",
    ),
    mutant(
        "window",
        "stamps do not look at the window",
        "shared.rs",
        "word.admits(ticks.wrapping_sub(word.ticks())).then_some(ticks)",
        "Some(ticks)",
    ),
    mutant(
        "window",
        "the hard window admits a counter before its start",
        FLOOR,
        "if delta <= inlined_ticks(state.word) {
            return false;
        }
        delta >= state.word.hard_ticks()",
        "if signed(delta) <= signed(inlined_ticks(state.word)) {
            return false;
        }
        signed(delta) >= signed(state.word.hard_ticks())",
    ),
    mutant(
        "window",
        "the hard window has no end",
        FLOOR,
        "delta >= state.word.hard_ticks() || {",
        "signed(delta) < 0 || {",
    ),
    mutant(
        "window",
        "a writer extends a line whose counter is before its start",
        "control.rs",
        "if shared.is_over(state, before, reference) {",
        "if ticks_between(old.start_ticks, before) >= 0 && shared.is_over(state, before, reference) {",
    ),
    mutant(
        "quanta",
        "a bracket does not allow for the counter's step",
        "sample.rs",
        "ticks: self.after_ticks.wrapping_add(quanta.counter_ticks),",
        "ticks: self.after_ticks,",
    ),
    mutant(
        "quanta",
        "a bracket does not allow for the reference's step",
        "sample.rs",
        "ns: self.reference_ns.saturating_add(quanta.reference_ns),",
        "ns: self.reference_ns,",
    ),
    mutant(
        "quanta",
        "the bound does not allow for what the reference has run on since the counter last moved",
        "control.rs",
        "envelope.upper.base_ns.saturating_add(fixed_to_ns_ceil(unseen));",
        "envelope.upper.base_ns;",
    ),
    mutant(
        "slew",
        "an offset is removed within the interval, though the line may be used for longer",
        "control.rs",
        "steer(&old, at_ticks, &target, word.soft_ticks())",
        "steer(&old, at_ticks, &target, interval_ticks)",
    ),
    mutant(
        "slew",
        "a line off its target is kept for as long as any other",
        "control.rs",
        "let interval_ns = self.interval_at_offset_ns(interval_ns, offset, target.slope);",
        "",
    ),
    mutant(
        "rho",
        "the bounds do not widen by rho",
        "estimate.rs",
        "let rho_ppb = i64::from(rho_ppb);",
        "let rho_ppb = i64::from(rho_ppb.min(0));",
    ),
    mutant(
        "rho",
        "rho leaves out what the samples leave open",
        "watch.rs",
        "u32::try_from(self.stability_ppb.saturating_add(open))",
        "u32::try_from(self.stability_ppb.saturating_add(open.min(0)))",
    ),
    mutant(
        "rho",
        "a contradiction does not widen rho",
        "watch.rs",
        "self.stability_ppb.saturating_add(doubled).clamp(",
        "self.stability_ppb.clamp(",
    ),
    mutant(
        "rho",
        "a change of the kernel's steering does not widen rho",
        "watch.rs",
        "self.stability_ppb = self.stability_ppb.max(widened).min(MAX_STABILITY_PPB);",
        "self.stability_ppb = self.stability_ppb.max(widened.min(0));",
    ),
    mutant(
        "dither",
        "samples have no slack for the kernel's dither",
        "estimate.rs",
        "for slack_ns in [0, self.dither_ns()] {",
        "for slack_ns in [0, self.dither_ns().min(0)] {",
    ),
    mutant(
        "samples",
        "folded brackets may cross",
        "sample.rs",
        "if folded.width(slope) < 0 { sample } else { folded }",
        "folded",
    ),
    mutant(
        "samples",
        "a slope of 0 makes a line",
        "watch.rs",
        "fit.filter(|fit| fit.slope_min > Slope::default())",
        "fit",
    ),
    mutant(
        "samples",
        "two samples make a first line",
        "watch.rs",
        "const CONFIRMATIONS: u32 = 3;",
        "const CONFIRMATIONS: u32 = 2;",
    ),
    mutant(
        "samples",
        "samples are thinned out before the newest is held against them",
        "watch.rs",
        "        let (fit, dropped) = self.history.fit();
        self.history.thin(slope);",
        "        self.history.thin(slope);
        let (fit, dropped) = self.history.fit();",
    ),
    mutant("samples", "a break in the watch voids nothing", "watch.rs", "if broken {", "if false {"),
    mutant(
        "samples",
        "a jump voids nothing",
        "watch.rs",
        "if rate_ppb > DISRUPTION_PPB && excess_ns > DISRUPTION_NS {",
        "if false {",
    ),
    mutant(
        "samples",
        "a line that has not proven itself goes on through a jump",
        "control.rs",
        "if noted == Noted::Void && !self.settled => {",
        "if noted == Noted::Void && !self.settled && false => {",
    ),
    mutant(
        "timeline",
        "an entry is not looked at again after its fields",
        "timeline.rs",
        "(entry.number.load(Ordering::Acquire) == number).then_some((from_ticks, line))",
        "Some((from_ticks, line))",
    ),
    mutant(
        "timeline",
        "an entry keeps its number while it is written",
        "timeline.rs",
        "entry.number.store(0, Ordering::Release);",
        "",
    ),
];
