//! The rules of order, by their numbers in DESIGN.md.

use super::{HIGH_WATER, Mutant, mutant};

/// In the order of the rules.
pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "1",
        "inlined readings make no second load of the word",
        "shared/reading.rs",
        "< published.window_ticks && self.cell.is_still(word)",
        "< published.window_ticks && (skipped_ticks == 0 || self.cell.is_still(word))",
    ),
    mutant(
        "1",
        "slow readings make no second load of the word",
        "shared/reading.rs",
        "self.cell.is_still(word).then(|| line_reading(&state, ticks))",
        "Some(line_reading(&state, ticks))",
    ),
    mutant(
        "2",
        "a line is replaced without an announcement",
        "control/publish.rs",
        "        let replacing = State { word: state.word.replacing(), ..*state };
        if !shared.cell.swap(state.word, replacing.word) {
            return Err(Refusal::Lost);
        }",
        "        let replacing = *state;",
    ),
    mutant(
        "2",
        "the counter is read before the replacement is announced, not after",
        "control/publish.rs",
        "        let replacing = State { word: state.word.replacing(), ..*state };
        if !shared.cell.swap(state.word, replacing.word) {
            return Err(Refusal::Lost);
        }
        let at_ticks = counter.now_ordered();",
        "        let at_ticks = counter.now_ordered();
        let replacing = State { word: state.word.replacing(), ..*state };
        if !shared.cell.swap(state.word, replacing.word) {
            return Err(Refusal::Lost);
        }",
    ),
    mutant(
        "2",
        "a writer that comes past the old window extends the line",
        "control/publish.rs",
        "window_ticks).filter(|()| state.is_valid_at(at_ticks));",
        "window_ticks);",
    ),
    mutant(
        "2",
        "lines meet without a margin",
        "control/publish.rs",
        "let margin_ticks = old.slope.ticks_in(MEETING_MARGIN_NS);",
        "let margin_ticks = 0;",
    ),
    mutant(
        "2",
        "a raised line may be below the old one before they meet",
        "discipline.rs",
        "needed(early).max(needed(at_ticks.wrapping_add(margin_ticks)))",
        "needed(at_ticks.wrapping_add(margin_ticks))",
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
        "needed(early).max(needed(at_ticks.wrapping_add(margin_ticks)))",
        "needed(early)",
    ),
    mutant(
        "3",
        "readers wait for a preempted writer",
        "shared/reading.rs",
        "counter.now_ordered().wrapping_sub(since_ticks) <= patience_ticks && loads < REPLACING_LOADS",
        "true",
    ),
    mutant("3", "readers wait for a first publication", "shared/reading.rs", "loads < FIRST_LOADS", "true"),
    mutant(
        "3",
        "readers wait while the counter stands still",
        "shared/reading.rs",
        "&& loads < REPLACING_LOADS",
        "",
    ),
    mutant(
        "3",
        "a writer leaves the replacement of a writer that is gone",
        "control.rs",
        "                    shared.help(&state, counter, reference);
                    continue;",
        "                    continue;",
    ),
    mutant(
        "3",
        "opening a gate waits for a thread that is closing it",
        "shared.rs",
        "                (_, true) => {
                    self.help(&state, counter, reference);",
        "                (_, true) => {",
    ),
    mutant(
        "3",
        "a new line fills the slot in use, from which others take the high-water mark",
        "word.rs",
        "(self.0 & SLOT_BIT) ^ SLOT_BIT;",
        "self.0 & SLOT_BIT;",
    ),
    mutant(
        "4",
        "a line that is over is answered with OS time, and not retired",
        "shared/reading.rs",
        "                    self.expire(&state, ticks, None, reference);
                    return None;",
        "                    let reference_ns = reference.monotonic_ns();
                    let high_water_ticks = self.high_water_ticks(&state, ticks, None, reference);
                    let ns = reference_ns.max(state.line.at_any(high_water_ticks));
                    return Some(SlowReading { ns, source: Source::Reference { reference_ns } });",
    ),
    mutant(
        "5",
        "every high-water mark is the start of the line",
        HIGH_WATER,
        "        state.line.start_ticks.wrapping_add(last)",
        "        state.line.start_ticks.wrapping_add(last & 0)",
    ),
    mutant(
        "5",
        "a line that ends early leaves the end of the window as the high-water mark",
        HIGH_WATER,
        "if delta < valid_ticks {",
        "if false {",
    ),
    mutant(
        "5",
        "a high-water mark has no margin",
        HIGH_WATER,
        "delta.saturating_add(margin_ticks(state)).min(valid_ticks)",
        "delta",
    ),
    mutant(
        "5",
        "a passed window, or a reset, leaves the end of the line as the high-water mark",
        HIGH_WATER,
        "last = last.min(vouched.max(inlined_ticks(state)));",
        "",
    ),
    mutant(
        "5",
        "the high-water mark after a suspend counts on no other suspend before it",
        HIGH_WATER,
        "last = last.min(vouched.max(inlined_ticks(state)));",
        "last = last.min(vouched);",
    ),
    mutant(
        "5",
        "a reset without a suspend leaves the end of the window as the high-water mark",
        HIGH_WATER,
        "if unsuspended {",
        "if false {",
    ),
    mutant(
        "5",
        "every reset is taken for one without a suspend",
        HIGH_WATER,
        "
                && self.suspends.is_none_since(state.word.slot(), reference);",
        ";",
    ),
    mutant(
        "5",
        "a reference that says nothing of suspends is taken for one that knows of none",
        "shared/suspends.rs",
        "then_ns != UNKNOWN
            && reference",
        "then_ns == UNKNOWN || reference",
    ),
    mutant(
        "5",
        "how long the machine had been suspended is not stored with a line",
        "control/publish.rs",
        "        shared.note_suspended(self.plan.word.slot(), self.suspended_ns);
        self.publish(shared, replacing",
        "        self.publish(shared, replacing",
    ),
    mutant(
        "5",
        "a reset allows for slews of 500 ppm only",
        HIGH_WATER,
        "latest_ns, UNNOTICED_SLEW_PPB)",
        "latest_ns, 500_000)",
    ),
    mutant(
        "5",
        "a reset allows for slews of 10 % only, which may come to 18 from one side to the other",
        HIGH_WATER,
        "latest_ns, UNNOTICED_SLEW_PPB)",
        "latest_ns, 100_000_000)",
    ),
    mutant(
        "13",
        "past the window nobody asks the reference",
        HIGH_WATER,
        "if delta <= inlined_ticks(state) {
            return false;",
        "if delta < state.valid_ticks() {
            return false;",
    ),
    mutant(
        "13",
        "a line is over before others have stopped reading it",
        "shared.rs",
        "        let replacing = State { word: state.word.replacing(), ..*state };
        if !self.cell.swap(state.word, replacing.word) {
            return;
        }
        let reset",
        "        let replacing = State { word: state.word.replacing(), ..*state };
        let high_water_ticks = self.high_water_ticks(state, ticks, newest, reference);
        if self.cell.swap(state.word, replacing.word.without_line(high_water_ticks)) {
            self.count(Event::Expiry);
        }
        if true {
            return;
        }
        let reset",
    ),
    mutant(
        "13",
        "the high-water mark of a line that is over is where it was found",
        "shared.rs",
        "let ticks = if reset { ticks } else { state.end_ticks() };",
        "",
    ),
    mutant(
        "5",
        "the high-water mark is taken for the start of the line",
        "cell.rs",
        "self.line.at_any(if ticks_between(end_ticks, ticks) > 0 { end_ticks } else { ticks })",
        "self.line.base_ns",
    ),
    mutant(
        "5",
        "the high-water mark of a passed window is rounded up beyond the line's end",
        "cell.rs",
        "if ticks_between(end_ticks, ticks) > 0 { end_ticks } else { ticks }",
        "ticks",
    ),
    mutant(
        "5",
        "the tick of a high-water mark is rounded down",
        "word.rs",
        "let rounded_ticks = ticks.wrapping_add(META_MASK) & !META_MASK;",
        "let rounded_ticks = ticks & !META_MASK;",
    ),
    mutant(
        "5",
        "opening a gate forgets the high-water mark",
        "word.rs",
        "Self((self.0 & !(CHANGES_MASK | GATE_BIT)) | ",
        "Self((self.0 & META_MASK & !(CHANGES_MASK | GATE_BIT)) | ",
    ),
    mutant(
        "6",
        "readings without a line make no second load of the word",
        "shared/reading.rs",
        "                self.cell
                    .is_still(word)
                    .then(",
        "                true
                    .then(",
    ),
    mutant(
        "6",
        "readings without a line ignore the high-water mark",
        "shared/reading.rs",
        "reference_ns.max(state.high_water_ns())",
        "reference_ns",
    ),
    mutant(
        "7",
        "a recovery reads the reference only before it announces itself",
        "control/publish.rs",
        "target.at(at_ticks).max(most)",
        "target.at(at_ticks)",
    ),
    mutant(
        "7",
        "a recovery starts where the reference was, not where it may be by now",
        "control/publish.rs",
        "target.at(at_ticks).max(most)",
        "target.at(at_ticks).max(fixed_from_ns(reference_ns))",
    ),
    mutant(
        "7",
        "a recovery does not announce itself before it asks the reference",
        "control/publish.rs",
        "        let first = State { word: state.word.first_publication(), ..*state };
        if !shared.cell.swap(state.word, first.word) {
            return Err(Refusal::Lost);
        }",
        "        let first = *state;",
    ),
    mutant(
        "7",
        "a first publication that is given up loses its high-water mark",
        "word.rs",
        "    pub const fn given_up(self) -> Self {
        self.with_phase(0)",
        "    pub const fn given_up(self) -> Self {
        self.without_line(0)",
    ),
    mutant(
        "7",
        "a recovery line starts below the high-water mark",
        "discipline.rs",
        ".max(fixed_from_ns(high_water_ns));",
        ";",
    ),
    mutant(
        "7",
        "a recovery line has the window of any other",
        "control/publish.rs",
        "least_ticks.saturating_add(least_ticks >> 1).clamp(2 * MIN_WINDOW_TICKS, MAX_WINDOW_TICKS);",
        "self.window_ticks(slope.ticks_in(interval_ns));",
    ),
    mutant(
        "7",
        "the second publication is due after an interval",
        "control/publish.rs",
        "Ok((Iteration::Recovered, MIN_INTERVAL_NS))",
        "Ok((Iteration::Recovered, interval_ns))",
    ),
    mutant(
        "7",
        "recovery lines use stale samples",
        "control/publish.rs",
        "let planned = if self.is_stale(at_ticks, self.plan.target.slope) {",
        "let planned = if false {",
    ),
    mutant(
        "7",
        "lines are steered by stale samples",
        "control/publish.rs",
        "if self.is_stale(before, slope) {",
        "if false {",
    ),
    mutant(
        "7",
        "uncertain slopes make a line",
        "stability.rs",
        " && fit.spread_ppb() <= MAX_SPREAD_PPB =>",
        " =>",
    ),
    mutant(
        "8",
        "late writers publish over whatever word they find",
        "cell.rs",
        "        self.slot(to.slot()).fill(published, bounds);",
        "        self.slot(to.slot()).fill(published, bounds);
        let from = self.word();",
    ),
    mutant(
        "8",
        "an iteration opens a closed gate",
        "control.rs",
        "_ if state.word.is_gate_closed() => return (Iteration::GateClosed, self.config.interval_ns),",
        "",
    ),
    mutant(
        "8",
        "a word without a line loses the closed gate of the word before it",
        "word.rs",
        "(self.0 & (SLOT_BIT | GATE_BIT | CHANGES_MASK))",
        "(self.0 & (SLOT_BIT | CHANGES_MASK))",
    ),
    mutant(
        "8",
        "closing a gate returns before it is closed",
        "shared.rs",
        "(Phase::NoLine, true) => return was_open,",
        "(Phase::NoLine | Phase::Replacing, true) => return was_open,",
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
        ".max(fixed_from_ns(high_water_ns));
    Line { base_ns: fixed_to_ns_ceil(base), ..from_start }",
        ".max(fixed_from_ns(high_water_ns));
    Line { base_ns: crate::units::fixed_to_ns_floor(base), ..from_start }",
    ),
    mutant("10", "a later word may have the same start", "word.rs", "ahead > 0 ||", "ahead >= 0 ||"),
    mutant(
        "10",
        "a word may come at any tick",
        "word.rs",
        "(ahead > 0 || reset)",
        "(ahead > 0 || reset || true)",
    ),
    mutant(
        "10",
        "a reset of the counter is not counted",
        "word.rs",
        "if reset { self.0.wrapping_add(CHANGE) } else { self.0 }",
        "self.0",
    ),
    mutant(
        "10",
        "a word without a line forgets how often the counter was reset",
        "word.rs",
        "(self.0 & (SLOT_BIT | GATE_BIT | CHANGES_MASK))",
        "(self.0 & (SLOT_BIT | GATE_BIT))",
    ),
    mutant(
        "10",
        "opening a gate is not counted",
        "word.rs",
        "(self.0.wrapping_add(CHANGE) & CHANGES_MASK)",
        "(self.0 & CHANGES_MASK)",
    ),
    mutant(
        "10",
        "the count of changes carries into the slot",
        "word.rs",
        "(self.0.wrapping_add(CHANGE) & CHANGES_MASK)",
        "((self.0 & CHANGES_MASK).wrapping_add(CHANGE))",
    ),
    mutant(
        "10",
        "each eighth opening of a gate raises the high-water mark",
        "word.rs",
        "Self((self.0 & !(CHANGES_MASK | GATE_BIT)) | ",
        "let granularity = if self.0 & CHANGES_MASK == CHANGES_MASK { START_GRANULARITY_TICKS } else { 0 };
        Self((self.0 & !(CHANGES_MASK | GATE_BIT)).wrapping_add(granularity) | ",
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
];
