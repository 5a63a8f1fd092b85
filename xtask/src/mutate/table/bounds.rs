//! Everything else that a reading rests on: phase and window, what samples prove, the bound, past lines.

use super::{HIGH_WATER, Mutant, mutant};

/// By subject.
pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "phase",
        "readings look at the counter whatever the phase",
        "shared.rs",
        "        if !serves(word) {
            return None;
        }
",
        "        let _ = serves;
",
    ),
    mutant(
        "phase",
        "readings with bounds look at the counter whatever the phase",
        "shared.rs",
        "        if !word.is_published() {
            return None;
        }
        let published = self.cell.published(word);
        let bounds",
        "        let published = self.cell.published(word);
        let bounds",
    ),
    mutant(
        "phase",
        "stamps look at the counter whatever the phase",
        "shared.rs",
        "        if !word.is_published() {
            return None;
        }
        let window_ticks",
        "        let window_ticks",
    ),
    mutant(
        "window",
        "the window admits a counter before its start",
        "shared.rs",
        "ticks.wrapping_sub(word.to_bits()) < published.window_ticks",
        "crate::units::ticks_between(word.to_bits(), ticks) < crate::units::signed(published.window_ticks)",
    ),
    mutant(
        "window",
        "the window has no end",
        "shared.rs",
        "ticks.wrapping_sub(word.to_bits()) < published.window_ticks",
        "crate::units::ticks_between(word.to_bits(), ticks) >= 0",
    ),
    mutant(
        "window",
        "stamps do not look at the window",
        "shared.rs",
        "(delta < window_ticks).then_some(ticks)",
        "(window_ticks > 0).then_some(ticks)",
    ),
    mutant(
        "window",
        "a line is valid before its start",
        "cell.rs",
        "ticks.wrapping_sub(self.line.start_ticks) < self.valid_ticks()",
        "crate::units::ticks_between(self.line.start_ticks, ticks) < crate::units::signed(self.valid_ticks())",
    ),
    mutant(
        "window",
        "a live word lies after the tick of its publication",
        "word.rs",
        "let granule = at_ticks.wrapping_sub(META_MASK) & !META_MASK;",
        "let granule = at_ticks & !META_MASK;",
    ),
    mutant(
        "window",
        "a line is read before its start",
        HIGH_WATER,
        "if delta <= inlined_ticks(state) {
            return false;
        }
        delta >= state.valid_ticks()",
        "if signed(delta) <= signed(inlined_ticks(state)) {
            return false;
        }
        signed(delta) >= signed(state.valid_ticks())",
    ),
    mutant(
        "window",
        "a line is read for ever",
        HIGH_WATER,
        "delta >= state.valid_ticks() || {",
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
        "resolution",
        "a bracket does not allow for the counter's step",
        "sample.rs",
        "ticks: self.after_ticks.wrapping_add(resolutions.counter_ticks),",
        "ticks: self.after_ticks,",
    ),
    mutant(
        "resolution",
        "the cost of a read is taken for the counter's step",
        "counter/resolution.rs",
        "let fine = fine_step(differences, seen >> 4);",
        "let fine = Some(median);",
    ),
    mutant(
        "resolution",
        "the first tick of a step is taken for a step",
        "counter/resolution.rs",
        "if difference == 1 && carried == 0 {",
        "if false {",
    ),
    mutant(
        "resolution",
        "steps that a hypervisor scales are not looked for",
        "counter/resolution.rs",
        "if off_parts < PARTS {",
        "if off_parts == 0 {",
    ),
    mutant(
        "resolution",
        "a counter whose step is unsure is taken for one that moves by a tick",
        "counter/resolution.rs",
        "fine_step(differences, 0).unwrap_or(median)",
        "fine_step(differences, 0).unwrap_or(1)",
    ),
    mutant(
        "resolution",
        "a bracket does not allow for the reference's step",
        "sample.rs",
        "ns: self.reference_ns.saturating_add(resolutions.reference_ns),",
        "ns: self.reference_ns,",
    ),
    mutant(
        "resolution",
        "the bound does not allow for what the reference has run on since the counter last moved",
        "control.rs",
        "allowance.dither, unseen)?;",
        "allowance.dither, unseen & 0)?;",
    ),
    mutant(
        "slew",
        "an offset is removed within the interval, though the line may be used for longer",
        "control.rs",
        "steer(&old, at_ticks, &target, window_ticks)",
        "steer(&old, at_ticks, &target, window_ticks >> 2)",
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
        "let max_drift_ppb = i64::from(max_drift_ppb);",
        "let max_drift_ppb = i64::from(max_drift_ppb.min(0));",
    ),
    mutant(
        "rho",
        "rho leaves out what the samples leave open",
        "stability.rs",
        "self.stability_ppb.saturating_add(self.slope_ppb).saturating_add(self.dither_ppb);",
        "self.stability_ppb.saturating_add(self.dither_ppb);",
    ),
    mutant(
        "rho",
        "a contradiction does not widen rho",
        "stability.rs",
        "self.stability_ppb.saturating_add(doubled).clamp(",
        "self.stability_ppb.clamp(",
    ),
    mutant(
        "rho",
        "a change of the kernel's steering does not widen rho",
        "stability.rs",
        "self.stability_ppb = self.stability_ppb.max(widened).min(MAX_STABILITY_PPB);",
        "self.stability_ppb = self.stability_ppb.max(widened.min(0));",
    ),
    mutant(
        "dither",
        "samples have no slack for the kernel's dither",
        "estimate.rs",
        "for tolerance_ns in [0, self.dither_ns()] {",
        "for tolerance_ns in [0, self.dither_ns().min(0)] {",
    ),
    mutant(
        "dither",
        "bounds leave out the rate of the kernel's dither while its range is unknown",
        "stability.rs",
        "{ (dither::RATE_PPB, 0) } else { (0, range) }",
        "{ (0, 0) } else { (0, range) }",
    ),
    mutant(
        "dither",
        "bounds leave out the range of the kernel's dither",
        "stability.rs",
        "{ (dither::RATE_PPB, 0) } else { (0, range) }",
        "{ (dither::RATE_PPB, 0) } else { (0, 0) }",
    ),
    mutant(
        "dither",
        "the range of the kernel's dither is no larger than what was seen of it",
        "stability/dither.rs",
        "const SAFETY: i128 = 4;",
        "const SAFETY: i128 = 1;",
    ),
    mutant(
        "dither",
        "the range of the kernel's dither is learnt in no time",
        "stability/dither.rs",
        " && spans_ticks >= slope.ticks_in(BLOCK_NS) {",
        " {",
    ),
    mutant(
        "dither",
        "a contradiction leaves the range of the dither as it was learnt",
        "stability.rs",
        "            self.dither.forget();
        } else if let Some(distance)",
        "        } else if let Some(distance)",
    ),
    mutant(
        "dither",
        "a change of the kernel's steering leaves the range of the dither as it was learnt",
        "stability.rs",
        "                self.dither.forget();
                let short",
        "                let short",
    ),
    mutant(
        "dither",
        "the slope is known as well as if nothing dithered",
        "stability.rs",
        "let within = within.unwrap_or(fit);",
        "let within = within.map_or(fit, |_| fit);",
    ),
    mutant(
        "samples",
        "the whole time of a read is taken off a bracket",
        "sample.rs",
        "self.least_ticks.saturating_sub(hidden_ticks) >> 1;",
        "self.least_ticks.saturating_sub(hidden_ticks);",
    ),
    mutant(
        "samples",
        "a read is taken for as long as a coarse counter shows it",
        "sample.rs",
        "Some(resolution_ticks.saturating_mul(2))",
        "Some(resolution_ticks.saturating_mul(0))",
    ),
    mutant(
        "samples",
        "a burst ends however wide its sample is",
        "sample.rs",
        " && (enough() || long()) {",
        " {",
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
        "stability.rs",
        "fit.filter(|fit| fit.slope_min > Slope::default())",
        "fit",
    ),
    mutant(
        "samples",
        "two samples make a first line",
        "stability.rs",
        "const CONFIRMATIONS: u32 = 3;",
        "const CONFIRMATIONS: u32 = 2;",
    ),
    mutant(
        "samples",
        "samples are thinned out before the newest is held against them",
        "stability.rs",
        "        let (fit, dropped) = self.history.fit();
        self.history.thin(slope);",
        "        self.history.thin(slope);
        let (fit, dropped) = self.history.fit();",
    ),
    mutant(
        "samples",
        "on a slow machine samples may be as old as a round takes",
        "control.rs",
        ".min(slope.ticks_in(self.config.interval_ns >> 1));",
        ";",
    ),
    mutant("samples", "a break in the watch voids nothing", "stability.rs", "if broken {", "if false {"),
    mutant(
        "samples",
        "a jump voids nothing",
        "stability.rs",
        "if rate_ppb > DISRUPTION_PPB && excess_ns > DISRUPTION_NS {",
        "if false {",
    ),
    mutant(
        "samples",
        "a line that has not proven itself goes on through a jump",
        "control.rs",
        "if self.slope.is_none() || noted == SampleOutcome::Void && !self.settled => {",
        "if self.slope.is_none() => {",
    ),
    mutant(
        "samples",
        "a loop that is begun anew believes the line that it finds",
        "control.rs",
        "if self.slope.is_none() || noted == SampleOutcome::Void && !self.settled => {",
        "if noted == SampleOutcome::Void && !self.settled => {",
    ),
    mutant(
        "timeline",
        "an entry is not looked at again after its fields",
        "timeline.rs",
        "(self.tag.load(Ordering::Relaxed) == tag).then_some(",
        "Some(",
    ),
    mutant(
        "timeline",
        "an entry keeps its tag while it is written",
        "timeline.rs",
        "        self.tag.store(0, Ordering::Release);",
        "",
    ),
    mutant(
        "timeline",
        "an entry has the tag of one that was taken back",
        "timeline.rs",
        "tag.wrapping_add(TAKEN_BACK)",
        "tag",
    ),
    mutant(
        "timeline",
        "ticks of before the first line go by the oldest line that is left",
        "timeline.rs",
        ".filter(is_before).unwrap_or(past)",
        ".filter(|first| is_before(first) && false).unwrap_or(past)",
    ),
    mutant(
        "timeline",
        "ticks of after a reset go by the first line of all",
        "timeline.rs",
        "if last.is_none_or(|last| ticks_between(last.from_ticks, past.from_ticks) < 0) {",
        "if last.is_none() {",
    ),
];
