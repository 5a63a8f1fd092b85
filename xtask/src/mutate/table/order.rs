//! The rules of order, by their numbers in DESIGN.md.

use super::{HIGH_WATER, Mutant, mutant};

/// In the order of the rules.
pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "1",
        "inlined readings make no second look at the state",
        "shared/reading.rs",
        "window_ticks || !cell.is_still(state)",
        "window_ticks",
    ),
    mutant(
        "1",
        "slow readings make no second look at the state",
        "shared/reading.rs",
        "self.cell.is_still(state).then(|| line_reading(&line, ticks))",
        "Some(line_reading(&line, ticks))",
    ),
    mutant(
        "1",
        "slow readings with bounds make no second look at the state",
        "shared/reading.rs",
        "!self.is_over(&line, ticks, reference) && self.cell.is_still(line.state)",
        "!self.is_over(&line, ticks, reference)",
    ),
    mutant(
        "2",
        "a line is replaced without an announcement",
        "control/publish.rs",
        "        let replacing = Snapshot { state: old.state.replacing(), ..*old };
        if !shared.cell.swap(old.state, replacing.state) {
            return Err(Refusal::Lost);
        }",
        "        let replacing = *old;",
    ),
    mutant(
        "2",
        "the counter is read before the replacement is announced, not after",
        "control/publish.rs",
        "        let replacing = Snapshot { state: old.state.replacing(), ..*old };
        if !shared.cell.swap(old.state, replacing.state) {
            return Err(Refusal::Lost);
        }
        let at_ticks = counter.now_ordered();",
        "        let at_ticks = counter.now_ordered();
        let replacing = Snapshot { state: old.state.replacing(), ..*old };
        if !shared.cell.swap(old.state, replacing.state) {
            return Err(Refusal::Lost);
        }",
    ),
    mutant(
        "2",
        "a writer that comes past the old window extends the line",
        "control/publish.rs",
        "if old.is_valid_at(at_ticks) => {",
        "=> {",
    ),
    mutant(
        "2",
        "lines meet without a margin",
        "control/publish.rs",
        "let margin_ticks = old.slope().ticks_in(MEETING_MARGIN_NS);",
        "let margin_ticks = 0;",
    ),
    mutant(
        "2",
        "a raised line may be below the old one before they meet",
        "discipline.rs",
        "let early = next.b_not_below(old.state, shift, at_ticks.wrapping_sub(margin_ticks));",
        "let early = next.b_not_below(old.state, shift, at_ticks.wrapping_add(margin_ticks));",
    ),
    mutant(
        "2",
        "a raised line is held against the old one at the meeting point only",
        "discipline.rs",
        "at_ticks.wrapping_sub(margin_ticks)",
        "at_ticks",
    ),
    mutant(
        "2",
        "a lowered line may be below the old one after they meet",
        "discipline.rs",
        "larger(larger(early, late), stepped)",
        "larger(early, if late > 0 { stepped } else { stepped })",
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
        "                    shared.help(&line, counter, reference);
                    continue;",
        "                    continue;",
    ),
    mutant(
        "3",
        "opening a gate waits for a thread that is closing it",
        "shared.rs",
        "                (_, true) => {
                    self.help(&line, counter, reference);",
        "                (_, true) => {",
    ),
    mutant(
        "3",
        "a new line fills the slot in use, from which others take what it rests on",
        "state/mod.rs",
        "let slot = (self.m & SLOT) ^ SLOT;",
        "let slot = self.m & SLOT;",
    ),
    mutant(
        "4",
        "a line that is over is answered with OS time, and not retired",
        "shared/reading.rs",
        "                    self.expire(&line, ticks, None, reference);
                    return None;",
        "                    let reference_ns = reference.monotonic_ns();
                    let ns = reference_ns.max(self.high_water_ns(&line, ticks, None, reference));
                    return Some(SlowReading { ns, source: Source::Reference { reference_ns } });",
    ),
    mutant(
        "5",
        "every high-water mark is the start of the line",
        HIGH_WATER,
        "line.at(line.start_ticks.wrapping_add(last))",
        "line.at(line.start_ticks.wrapping_add(last & 0))",
    ),
    mutant(
        "5",
        "a line that ends early leaves its end as the high-water mark",
        HIGH_WATER,
        "if delta < valid_ticks {",
        "if false {",
    ),
    mutant(
        "5",
        "a high-water mark has no margin",
        HIGH_WATER,
        "delta.saturating_add(margin_ticks(line)).min(valid_ticks)",
        "delta",
    ),
    mutant(
        "5",
        "the high-water mark of a line that has passed is beyond its end",
        HIGH_WATER,
        "} else { valid_ticks }",
        "} else { valid_ticks.saturating_add(margin_ticks(line)) }",
    ),
    mutant(
        "5",
        "a passed window, or a reset, leaves the end of the line as the high-water mark",
        HIGH_WATER,
        "last = last.min(since_start(line, vouched).max(line.window_ticks));",
        "",
    ),
    mutant(
        "5",
        "the high-water mark after a suspend counts on no other suspend before it",
        HIGH_WATER,
        "last = last.min(since_start(line, vouched).max(line.window_ticks));",
        "last = last.min(since_start(line, vouched));",
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
        " && was_not_suspended(&evidence, reference);",
        ";",
    ),
    mutant(
        "5",
        "a reference that says nothing of suspends is taken for one that knows of none",
        HIGH_WATER,
        "let Some(then_ns) = evidence.suspended_ns else { return false };",
        "let Some(then_ns) = evidence.suspended_ns else { return true };",
    ),
    mutant(
        "5",
        "how long the machine had been suspended is not stored with a line",
        "control/publish.rs",
        "shared.cell.publish(replacing.state, &line, &plan.bounds, self.suspended_ns)",
        "shared.cell.publish(replacing.state, &line, &plan.bounds, None)",
    ),
    mutant(
        "5",
        "how long the machine had been suspended is not stored with a first line",
        "control/publish.rs",
        "shared.cell.publish(first.state, &line, &plan.bounds, self.suspended_ns)",
        "shared.cell.publish(first.state, &line, &plan.bounds, None)",
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
        "if delta < line.window_ticks {
            return false;",
        "if delta < line.valid_ticks() {
            return false;",
    ),
    mutant(
        "13",
        "a line is over before others have stopped reading it",
        "shared.rs",
        "        let replacing = Snapshot { state: line.state.replacing(), ..*line };
        if !self.cell.swap(line.state, replacing.state) {
            return;
        }
        let reset",
        "        let replacing = Snapshot { state: line.state.replacing(), ..*line };
        let high_water_ns = self.high_water_ns(line, ticks, newest, reference);
        if self.cell.swap(line.state, replacing.state.without_line(high_water_ns)) {
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
        "let ticks = if reset { ticks } else { line.end_ticks() };",
        "",
    ),
    mutant(
        "5",
        "opening a gate forgets the high-water mark",
        "state/mod.rs",
        "& COUNT_MASK, b: self.b }",
        "& COUNT_MASK, b: 0 }",
    ),
    mutant(
        "6",
        "readings without a line make no second look at the state",
        "shared/reading.rs",
        "                self.cell
                    .is_still(state)
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
        "target.at(at_ticks).max(FixedNs::from_ns(reference_ns))",
    ),
    mutant(
        "7",
        "a recovery does not announce itself before it asks the reference",
        "control/publish.rs",
        "        let first = Snapshot { state: before.state.first_publication(), ..*before };
        if !shared.cell.swap(before.state, first.state) {
            return Err(Refusal::Lost);
        }",
        "        let first = *before;",
    ),
    mutant(
        "7",
        "a first publication that is given up loses its high-water mark",
        "state/mod.rs",
        "Self { m: self.m & !REPLACING, b: self.b }",
        "Self { m: self.m & !REPLACING, b: 0 }",
    ),
    mutant(
        "7",
        "a recovery line starts below the high-water mark",
        "discipline.rs",
        "larger(next.b_through(shift, at_ticks, most), above_mark)",
        "larger(next.b_through(shift, at_ticks, most), above_mark.wrapping_sub(1 << 40))",
    ),
    mutant(
        "7",
        "a recovery line has the window of any other",
        "control/publish.rs",
        "let least_ticks = slope.ticks_in(self.least_interval_ns(slope));",
        "let least_ticks = slope.ticks_in(self.config.interval_ns);",
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
        "let line = if self.is_stale(at_ticks, slope) {",
        "let line = if false {",
    ),
    mutant(
        "7",
        "lines are steered by stale samples",
        "control/publish.rs",
        "if self.is_stale(before_ticks, target.slope) {",
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
        "late writers publish over whatever state they find",
        "cell.rs",
        "        self.slot(line.state.slot()).fill(line, bounds, suspended_ns);",
        "        self.slot(line.state.slot()).fill(line, bounds, suspended_ns);
        let from = self.state.load();",
    ),
    mutant(
        "8",
        "an iteration opens a closed gate",
        "control.rs",
        "_ if line.state.is_gate_closed() => return (Iteration::GateClosed, self.config.interval_ns),",
        "",
    ),
    mutant(
        "8",
        "a state without a line loses the closed gate of the state before it",
        "state/mod.rs",
        "self.m & (SLOT | GATE | COUNT_MASK)",
        "self.m & (SLOT | COUNT_MASK)",
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
        "the b of a line that is flatter than the one before it is rounded down",
        "state/mod.rs",
        "i64::from(sign > 0 && low(product) > 0)",
        "i64::from(sign > 0 && low(product) > u64::MAX)",
    ),
    mutant(
        "9",
        "the b of a line that is flatter than the one before it is rounded to the nearest",
        "state/mod.rs",
        "i64::from(sign > 0 && low(product) > 0)",
        "i64::from(sign > 0 && low(product) > 1 << 63)",
    ),
    mutant(
        "9",
        "the b of a line that is steeper than the one before it is rounded down",
        "state/mod.rs",
        "let up = i64::from(sign > 0 && low(product) > 0);",
        "let up = if low(product) > 0 { i64::from(sign > 0).wrapping_sub(i64::from(sign < 0)) } else { 0 };",
    ),
    mutant(
        "9",
        "the b of a recovery line is rounded down",
        "state/mod.rs",
        "i64::from(fraction << UNUSED_BITS > low(product))",
        "i64::from(fraction > 1 << 60)",
    ),
    mutant(
        "10",
        "the count of a line is that of the line before it",
        "state/mod.rs",
        "let count = self.m.wrapping_add(COUNT) & COUNT_MASK;",
        "let count = self.m & COUNT_MASK;",
    ),
    mutant(
        "10",
        "a state without a line forgets the count",
        "state/mod.rs",
        "self.m & (SLOT | GATE | COUNT_MASK)",
        "self.m & (SLOT | GATE)",
    ),
    mutant(
        "10",
        "opening a gate is not counted",
        "state/mod.rs",
        "self.m.wrapping_add(COUNT) & COUNT_MASK, b",
        "self.m & COUNT_MASK, b",
    ),
    mutant(
        "10",
        "the count carries into the slope",
        "state/mod.rs",
        "self.m.wrapping_add(COUNT) & COUNT_MASK, b",
        "(self.m & COUNT_MASK).wrapping_add(COUNT), b",
    ),
    mutant(
        "11",
        "a large lag is slewed, not stepped",
        "discipline.rs",
        "if offset.to_bits().saturating_neg() > step_above {",
        "if false {",
    ),
    mutant("11", "a lead is slewed at any rate", "discipline.rs", ".min(rate >> 1)", ""),
    mutant(
        "11",
        "a step may go back",
        "discipline.rs",
        "larger(larger(early, late), stepped)",
        "if steering.step_to.is_some() { stepped } else { larger(early, late) }",
    ),
];
