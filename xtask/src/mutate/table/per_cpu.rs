//! What a reading by the line of its CPU rests on.

use super::{Mutant, mutant};

/// In the order of the code.
pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "per CPU",
        "a line is used at a tick before the one that it counts from",
        "per_cpu.rs",
        "ticks.wrapping_sub(line.start_ticks).wrapping_sub(GRANULE_TICKS)",
        "ticks.wrapping_sub(line.start_ticks)",
    ),
    mutant(
        "per CPU",
        "no second look at the word",
        "per_cpu.rs",
        "(state.word.admits(delta) & (unit.cell.word() == state.word))",
        "(state.word.admits(delta) & (unit.cell.word() == unit.cell.word()))",
    ),
    mutant(
        "per CPU",
        "a cold reading counts although the unit has a line again",
        "per_cpu.rs",
        "if unit.cell.load_whole() == state {",
        "if unit.cell.load_whole() == unit.cell.load_whole() {",
    ),
    mutant(
        "per CPU",
        "a reader that was moved holds another CPU's counter against the line",
        "per_cpu.rs",
        "Some((ticks, now_on)) if now_on == cpu => ticks,",
        "Some((ticks, _)) => ticks,",
    ),
    mutant(
        "per CPU",
        "a reader waits for the writer that it has interrupted",
        "per_cpu.rs",
        "if unit.finish_closing_at(state, ticks, None, reference) {",
        "if ticks % 64 == 0 && unit.finish_closing_at(state, ticks, reference) {",
    ),
    mutant(
        "per CPU",
        "the slow path takes a line that was replaced meanwhile",
        "per_cpu.rs",
        "} else if unit.cell.word() == state.word {",
        "} else if unit.cell.word() == unit.cell.word() {",
    ),
    mutant(
        "per CPU",
        "a round goes on with the counter of the CPU to which its thread was moved",
        "per_cpu.rs",
        "Some((ticks, cpu)) if cpu == self.cpu => ticks,",
        "Some((ticks, _)) => ticks,",
    ),
    mutant(
        "per CPU",
        "a lost seat's counter runs ahead, so that a floor freezes the clock for the window",
        "per_cpu.rs",
        "last_ticks.wrapping_sub(LOST_TICKS)",
        "last_ticks.wrapping_add(LOST_TICKS)",
    ),
    mutant(
        "per CPU",
        "a lost seat's counter stands still, and makes samples",
        "per_cpu.rs",
        "_ if self.lost.get() => last_ticks.wrapping_sub(1),",
        "_ if self.lost.get() => last_ticks,",
    ),
];
