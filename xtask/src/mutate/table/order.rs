//! The rules of order, by their numbers in DESIGN.md.

use super::{FLOOR, Mutant, NATIVE_CELL, mutant};

/// In the order of the rules.
pub(super) const MUTANTS: &[Mutant] = &[
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
        "counter.now_ordered().wrapping_sub(since_ticks) <= patience_ticks && looks < CLOSING_LOOKS",
        "true",
    ),
    mutant("3", "readers wait for an opening", "shared.rs", "return looks < OPENING_LOOKS;", "return true;"),
    mutant("3", "readers wait while the counter stands still", "shared.rs", "&& looks < CLOSING_LOOKS", ""),
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
        "let exponent = self.exponent(interval_ticks);
            let word = Word::live(at_ticks, exponent, state.word.slot().other(),",
        "let exponent = self.exponent(interval_ticks);
            let word = Word::live(at_ticks, exponent, state.word.slot(),",
    ),
    mutant(
        "3",
        "a recovery line fills the slot of the floor",
        "control.rs",
        "Word::live(at_ticks, exponent, state.word.slot().other(), self.config.guarded);
            Ok((word, recover",
        "Word::live(at_ticks, exponent, state.word.slot(), self.config.guarded);
            Ok((word, recover",
    ),
    mutant(
        "4",
        "a passed window is answered with OS time, and the clock left live",
        "shared.rs",
        "                        self.expire(state, &line, ticks, None, reference);",
        "                        let reference_ns = reference.monotonic_ns();
                        let ns = reference_ns.max(self.floor(state, &line, ticks, None, reference).1);
                        return SlowReading { ns, source: Source::Reference { reference_ns } };",
    ),
    mutant(
        "5",
        "every floor is the start of the line",
        FLOOR,
        "(last_ticks, line.at(last_ticks))",
        "(line.start_ticks, line.base_ns)",
    ),
    mutant(
        "5",
        "an early closing leaves the end of the window as the floor",
        FLOOR,
        "if delta < hard_ticks {
            last",
        "if false {
            last",
    ),
    mutant(
        "5",
        "a floor has no slack",
        FLOOR,
        "last = delta.saturating_add(slack_ticks).min(hard_ticks);",
        "last = delta;",
    ),
    mutant(
        "5",
        "a passed window, or a reset, leaves the end of the hard window as the floor",
        FLOOR,
        "last = last.min(vouched.max(inlined_ticks));",
        "",
    ),
    mutant(
        "5",
        "the floor after a suspend counts on no other suspend before it",
        FLOOR,
        "last = last.min(vouched.max(inlined_ticks));",
        "last = last.min(vouched);",
    ),
    mutant(
        "5",
        "a reset without a suspend leaves the end of the soft window as the floor",
        FLOOR,
        "if unsuspended {",
        "if false {",
    ),
    mutant(
        "5",
        "every reset is taken for one without a suspend",
        FLOOR,
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
        "how long the machine had been suspended is not noted with a line",
        "control.rs",
        "        shared.note_suspended(word.slot(), self.suspended_ns);
        if !shared.cell.publish(closing,",
        "        if !shared.cell.publish(closing,",
    ),
    mutant(
        "5",
        "a reset allows for slews of 500 ppm only",
        FLOOR,
        "latest_ns, UNNOTICED_SLEW_PPB)",
        "latest_ns, 500_000)",
    ),
    mutant(
        "5",
        "a reset allows for slews of 10 % only, which may come to 18 from one side to the other",
        FLOOR,
        "latest_ns, UNNOTICED_SLEW_PPB)",
        "latest_ns, 100_000_000)",
    ),
    mutant(
        "12",
        "past the soft window nobody asks the reference",
        FLOOR,
        "if delta <= inlined_ticks(state.word) {
            return false;",
        "if delta < state.word.hard_ticks() {
            return false;",
    ),
    mutant(
        "12",
        "a line is over before others have stopped reading it",
        "shared.rs",
        "        if !self.cell.retire(state, state.word.closing(), state.base_ns) {
            return;
        }
        let reset",
        "        let (floor_ticks, floor_ns) = self.floor(state, line, ticks, newest, reference);
        if self.cell.retire(state, state.word.closing().cold(floor_ticks), floor_ns) {
            self.count(Event::Expiry);
        }
        if true {
            return;
        }
        let reset",
    ),
    mutant(
        "12",
        "the floor of a line that is over is where it was found",
        "shared.rs",
        "let ticks = if reset { ticks } else { end_ticks };",
        "let _ = end_ticks;",
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
        "a recovery asks the reference only before it opens",
        "control.rs",
        "target.at(at_ticks).max(fixed_from_ns(reference_ns));",
        "target.at(at_ticks);",
    ),
    mutant(
        "7",
        "a recovery does not open the clock before it asks the reference",
        "control.rs",
        "        if !shared.cell.retire(state, opening.word, state.base_ns) {
            return Err(Refusal::Lost);
        }",
        "        let opening = state;",
    ),
    mutant(
        "7",
        "an opening that is given up loses its floor",
        "shared.rs",
        "return self.cell.retire(state, state.word.given_up(), state.base_ns);",
        "return self.cell.retire(state, state.word.given_up(), 0);",
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
        "a recovery line has the window of any other",
        "control.rs",
        "ceil_log2(slope.ticks_in(self.least_interval_ns(slope))).max(MIN_EXPONENT.saturating_add(1));",
        "self.exponent(slope.ticks_in(interval_ns));",
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
        ".filter(|fit| fit.slope_max.ppb_above(fit.slope_min) <= MAX_SPREAD_PPB)",
        "",
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
];
