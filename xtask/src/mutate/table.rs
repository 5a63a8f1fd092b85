//! The mutants: what each takes out, and where.
//!
//! A text to be replaced occurs exactly once in its file; a test of the parent module says so, so whoever rewrites such a line finds out
//! within seconds. Mutants that change nothing anybody could observe do not belong here.

/// A rule that is taken out.
#[derive(Debug)]
pub(crate) struct Mutant {
    /// The rule's number in DESIGN.md, "Order", or what else is mutated.
    pub(crate) rule: &'static str,
    /// What the mutated code does.
    pub(crate) does: &'static str,
    /// The file, seen from [`SOURCES`].
    pub(crate) file: &'static str,
    /// What stands there, exactly once.
    pub(crate) text: &'static str,
    /// What takes its place.
    pub(crate) instead: &'static str,
}

/// Where the mutated files are, seen from the workspace's root.
pub(crate) const SOURCES: &str = "crates/tickline-core/src";

/// The cells with a 128-bit state.
pub(crate) const NATIVE_CELLS: [&str; 2] = ["cell/x86_64.rs", "cell/aarch64.rs"];

/// The one of this machine: another one is not compiled here.
pub(crate) const NATIVE_CELL: &str = NATIVE_CELLS[cfg!(target_arch = "aarch64") as usize];

const fn mutant(
    rule: &'static str,
    does: &'static str,
    file: &'static str,
    text: &'static str,
    instead: &'static str,
) -> Mutant {
    Mutant { rule, does, file, text, instead }
}

/// Every mutant, in the order of the rules.
pub(crate) const MUTANTS: &[Mutant] = &[
    mutant(
        "1",
        "inlined readings make no second look",
        "shared.rs",
        " & (self.cell.word() == state.word)",
        "",
    ),
    mutant(
        "1",
        "slow readings make no second look",
        "shared.rs",
        "} else if self.cell.word() == state.word {",
        "} else {",
    ),
    mutant(
        "2",
        "a line is published straight from live",
        "control.rs",
        "        if !shared.cell.retire(state, state.word.closing(), state.base_ns) {
            return Err(Refusal::Lost);
        }
        let closing = State { word: state.word.closing(), ..state };",
        "        let closing = state;",
    ),
    mutant(
        "2",
        "the counter is read before closing, not after",
        "control.rs",
        "        let at_ticks = counter.now_ordered();
        if at_ticks.wrapping_sub(old",
        "        let at_ticks = before;
        if at_ticks.wrapping_sub(old",
    ),
    mutant(
        "2",
        "a writer that comes past the old window extends the line",
        "control.rs",
        "if at_ticks.wrapping_sub(old.start_ticks) >= state.word.hard_ticks() {",
        "if false {",
    ),
    mutant(
        "2",
        "lines meet without slack",
        "control.rs",
        "let slack_ticks = old.slope.ticks_in(JOIN_SLACK_NS);",
        "let slack_ticks = 0;",
    ),
    mutant(
        "2",
        "a raised line may be below the old one before they meet",
        "discipline.rs",
        "needed(early).max(needed(at_ticks.wrapping_add(slack_ticks)))",
        "needed(at_ticks.wrapping_add(slack_ticks))",
    ),
    mutant(
        "2",
        "a raised line is held against the old one at the meeting point only",
        "discipline.rs",
        "needed(early).max(",
        "needed(at_ticks).max(",
    ),
    mutant(
        "2",
        "a lowered line may be below the old one after they meet",
        "discipline.rs",
        "needed(early).max(needed(at_ticks.wrapping_add(slack_ticks)))",
        "needed(early)",
    ),
    mutant(
        "3",
        "readers wait for a preempted writer",
        "shared.rs",
        "wrapping_sub(since_ticks) <= patience_ticks {",
        "wrapping_sub(since_ticks) <= patience_ticks || true {",
    ),
    mutant(
        "3",
        "a writer leaves the closing of a writer that is gone",
        "control.rs",
        "                    shared.finish_closing(state, counter, reference);
                    continue;",
        "                    continue;",
    ),
    mutant(
        "3",
        "who opens a gate waits for whoever is closing it",
        "shared.rs",
        "                (_, true) => {
                    self.finish_closing(state, counter, reference);",
        "                (_, true) => {",
    ),
    mutant(
        "3",
        "a new line fills the slot in use, from which others take the floor",
        "control.rs",
        "Word::live(at_ticks, exponent, state.word.slot().other(), self.config.guarded);
            (steering",
        "Word::live(at_ticks, exponent, state.word.slot(), self.config.guarded);
            (steering",
    ),
    mutant(
        "3",
        "a recovery line fills the slot of the floor",
        "control.rs",
        "Word::live(at_ticks, exponent, state.word.slot().other(), self.config.guarded);
        let line = recover",
        "Word::live(at_ticks, exponent, state.word.slot(), self.config.guarded);
        let line = recover",
    ),
    mutant(
        "4",
        "a passed window is answered with OS time, and the clock left live",
        "shared.rs",
        "                        self.expire(state, &line, ticks, reference);",
        "                        let reference_ns = reference.monotonic_ns();
                        let ns = reference_ns.max(self.floor(state, &line, ticks, reference).1);
                        return SlowReading { ns, source: Source::Reference { reference_ns } };",
    ),
    mutant(
        "5",
        "expiry leaves the start of the line as the floor",
        "shared.rs",
        "        (end_ticks, line.at(end_ticks))
    }",
        "        (line.start_ticks, line.base_ns)
    }",
    ),
    mutant(
        "5",
        "an early closing leaves the start of the line as the floor",
        "shared.rs",
        "return (latest_ticks, line.at(latest_ticks));",
        "return (line.start_ticks, line.base_ns);",
    ),
    mutant(
        "5",
        "an early closing leaves the end of the window as the floor",
        "shared.rs",
        "if ticks.wrapping_sub(line.start_ticks) < state.word.hard_ticks() {",
        "if false {",
    ),
    mutant(
        "5",
        "a floor has no slack",
        "shared.rs",
        "let latest_ticks = ticks.wrapping_add(slack_ticks);",
        "let latest_ticks = ticks;",
    ),
    mutant(
        "5",
        "a reset leaves the end of the window as the floor",
        "shared.rs",
        "        if crate::units::ticks_between(line.start_ticks, ticks) < 0 {
            // The counter was reset",
        "        if false {
            // The counter was reset",
    ),
    mutant(
        "5",
        "a reset forgets the lead of the line",
        "shared.rs",
        "reference.monotonic_ns().saturating_add(lead_ns)",
        "reference.monotonic_ns()",
    ),
    mutant(
        "5",
        "a reset does not allow for a change of rate",
        "shared.rs",
        ".max(0).saturating_add(slewed_ns);",
        ".max(0);",
    ),
    mutant(
        "5",
        "the floor after a reset is not limited by the line's end",
        "shared.rs",
        "if limit_ns < line.at(end_ticks) {",
        "if true {",
    ),
    mutant(
        "5",
        "the native cell does not store the floor",
        NATIVE_CELL,
        "Phase::Cold { floor_ns } else { from.base_ns }",
        "Phase::Cold { from.base_ns } else { from.base_ns }",
    ),
    mutant(
        "5",
        "the portable cell takes the start of the line for the floor",
        "cell/portable.rs",
        "line.at_any(word.ticks())",
        "base_ns",
    ),
    mutant(
        "5",
        "the tick of a floor is rounded down",
        "word.rs",
        "let granule = ticks.wrapping_add(META_MASK) & !META_MASK;",
        "let granule = ticks & !META_MASK;",
    ),
    mutant(
        "5",
        "closing a gate on a cold clock forgets the floor",
        "shared.rs",
        "self.cell.retire(state, state.word.gated(), state.base_ns)",
        "self.cell.retire(state, state.word.gated(), 0)",
    ),
    mutant(
        "5",
        "opening a gate forgets the floor",
        "shared.rs",
        "self.cell.retire(state, state.word.ungated(), state.base_ns)",
        "self.cell.retire(state, state.word.ungated(), 0)",
    ),
    mutant(
        "6",
        "cold readings make no second look",
        "shared.rs",
        "if self.cell.load_whole() == state {",
        "if true {",
    ),
    mutant(
        "6",
        "cold readings ignore the floor",
        "shared.rs",
        "reference_ns.max(state.base_ns)",
        "reference_ns",
    ),
    mutant(
        "7",
        "a recovery line starts at the middle of the samples",
        "control.rs",
        "self.watch.history.upper_edge(at_ticks, slope).ok_or(Refusal::Stale)?.saturating_add(quantum);",
        "target.at(at_ticks).saturating_add(quantum);",
    ),
    mutant(
        "7",
        "a recovery line does not start a counter step higher",
        "control.rs",
        ".ok_or(Refusal::Stale)?.saturating_add(quantum);",
        ".ok_or(Refusal::Stale)?;",
    ),
    mutant(
        "7",
        "a recovery line starts below the floor",
        "discipline.rs",
        ".max(fixed_from_ns(floor_ns));",
        ";",
    ),
    mutant(
        "7",
        "a recovery line is not steeper than the samples say",
        "control.rs",
        "fit.slope_max.adjusted_ppb(RECOVERY_RHO_PPB)",
        "fit.slope_max",
    ),
    mutant(
        "7",
        "a recovery line is as steep as the target, not as the steepest feasible slope",
        "control.rs",
        "fit.slope_max.adjusted_ppb(RECOVERY_RHO_PPB)",
        "target.slope.adjusted_ppb(RECOVERY_RHO_PPB)",
    ),
    mutant(
        "7",
        "a recovery line has the window of any other",
        "control.rs",
        "let exponent = ceil_log2(slope.ticks_in(MIN_INTERVAL_NS)).max(MIN_EXPONENT.saturating_add(1));",
        "let exponent = self.exponent(slope.ticks_in(interval_ns));",
    ),
    mutant(
        "7",
        "the second publication is due after an interval",
        "control.rs",
        "Ok((Round::Recovered, MIN_INTERVAL_NS))",
        "Ok((Round::Recovered, interval_ns))",
    ),
    mutant(
        "7",
        "recovery lines use stale samples",
        "control.rs",
        "if self.is_stale(at_ticks, slope) {",
        "if false {",
    ),
    mutant(
        "7",
        "lines are steered by stale samples",
        "control.rs",
        "if self.is_stale(before, target.slope) {",
        "if false {",
    ),
    mutant(
        "7",
        "vague slopes make a line",
        "watch.rs",
        "fit.filter(|fit| fit.slope_max.ppb_above(fit.slope_min) <= MAX_SPREAD_PPB)",
        "fit",
    ),
    mutant(
        "8",
        "late writers publish over whatever state they find (portable cell)",
        "cell/portable.rs",
        "fill(line.slope, envelope);
        self.swap(from.word, to)",
        "fill(line.slope, envelope);
        self.swap(self.word(), to)",
    ),
    mutant(
        "8",
        "late writers publish over whatever state they find (native cell)",
        NATIVE_CELL,
        "fill(line.slope, envelope);
",
        "fill(line.slope, envelope);
        let from = self.load_whole();
",
    ),
    mutant(
        "8",
        "a round opens a closed gate",
        "control.rs",
        "_ if state.word.is_gated() => return (Round::Gated, self.config.interval_ns),",
        "",
    ),
    mutant(
        "8",
        "a cold word does not keep the gate of the word that was closed",
        "word.rs",
        "(self.0 & (SLOT_BIT | GATE_BIT))",
        "(self.0 & SLOT_BIT)",
    ),
    mutant(
        "8",
        "closing a gate returns before the closing is finished",
        "shared.rs",
        "(Phase::Cold, true) => return was_open,",
        "(Phase::Cold | Phase::Closing, true) => return was_open,",
    ),
    mutant(
        "9",
        "the base of a line is rounded down",
        "discipline.rs",
        "    }
    Line { base_ns: fixed_to_ns_ceil(base), ..from_start }",
        "    }
    Line { base_ns: crate::units::fixed_to_ns_floor(base), ..from_start }",
    ),
    mutant(
        "9",
        "the base of a line is rounded to the nearest",
        "discipline.rs",
        "    }
    Line { base_ns: fixed_to_ns_ceil(base), ..from_start }",
        "    }
    Line { base_ns: crate::units::fixed_to_ns_round(base), ..from_start }",
    ),
    mutant(
        "9",
        "the base of a recovery line is rounded down",
        "discipline.rs",
        ".max(fixed_from_ns(floor_ns));
    Line { base_ns: fixed_to_ns_ceil(base), ..from_start }",
        ".max(fixed_from_ns(floor_ns));
    Line { base_ns: crate::units::fixed_to_ns_floor(base), ..from_start }",
    ),
    mutant(
        "10",
        "a line may follow a line within a granule",
        "control.rs",
        "if !state.word.precedes(before, reset_slack_ticks(old.slope)) {",
        "if false {",
    ),
    mutant(
        "10",
        "a recovery line may follow a floor within a granule",
        "control.rs",
        "if !state.word.precedes(at_ticks, reset_slack_ticks(slope)) {",
        "if false {",
    ),
    mutant("10", "a later word may have the same granule", "word.rs", "ahead > 0 ||", "ahead >= 0 ||"),
    mutant(
        "10",
        "opening a gate is not counted",
        "word.rs",
        "(self.0 & EXPONENT_MASK).wrapping_add(1)",
        "(self.0 & EXPONENT_MASK)",
    ),
    mutant(
        "10",
        "the count of gates starts over without a carry",
        "word.rs",
        "let carry = (count >> 6) << META_BITS;",
        "let carry = 0;",
    ),
    mutant(
        "11",
        "a large lag is slewed, not stepped",
        "discipline.rs",
        "if offset.saturating_neg() > step_above {",
        "if false {",
    ),
    mutant("11", "a lead is slewed at any rate", "discipline.rs", ".min(rate >> 1)", ""),
    mutant(
        "11",
        "a step may go back",
        "discipline.rs",
        "base = base.max(step_to.saturating_sub(from_start.fixed_at(at_ticks)));",
        "base = step_to.saturating_sub(from_start.fixed_at(at_ticks));",
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
        "shared.rs",
        "if delta >= state.word.hard_ticks() {",
        "if crate::units::signed(delta) >= crate::units::signed(state.word.hard_ticks()) {",
    ),
    mutant(
        "window",
        "the hard window has no end",
        "shared.rs",
        "if delta >= state.word.hard_ticks() {",
        "if crate::units::signed(delta) < 0 {",
    ),
    mutant(
        "window",
        "a writer extends a line whose counter is before its start",
        "control.rs",
        "if before.wrapping_sub(old.start_ticks) >= state.word.hard_ticks() {",
        "if ticks_between(old.start_ticks, before) >= signed(state.word.hard_ticks()) {",
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
