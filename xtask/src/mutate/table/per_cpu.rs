//! What a reading by the line of its CPU rests on.

use super::{Mutant, mutant};

/// In the order of the code.
pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "per CPU",
        "a reader that was moved holds another CPU's counter against the line",
        "per_cpu.rs",
        ".filter(|(_, now_on)| *now_on == cpu)",
        ".filter(|_| true)",
    ),
    mutant(
        "per CPU",
        "a reader waits for the writer that it has interrupted",
        "per_cpu.rs",
        "|ticks| unit.help_at(line, ticks, None, reference)",
        "|ticks| ticks % 64 == 0 && unit.help_at(line, ticks, None, reference)",
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
        "the counter of a thread that was moved runs ahead, so that a high-water mark freezes the clock for the window",
        "per_cpu.rs",
        "last_ticks.wrapping_sub(LOST_TICKS)",
        "last_ticks.wrapping_add(LOST_TICKS)",
    ),
    mutant(
        "per CPU",
        "a lost pinned counter stands still, and makes samples",
        "per_cpu.rs",
        "_ if self.lost.get() => last_ticks.wrapping_sub(1),",
        "_ if self.lost.get() => last_ticks,",
    ),
    mutant(
        "per CPU",
        "the mode is taken up, and the common line left in use",
        "per_cpu/mode.rs",
        "        }
        is_other
",
        "        }
        is_other && !in_force
",
    ),
    mutant(
        "per CPU",
        "the mode is given up, and what was judged for it counts on",
        "per_cpu/mode.rs",
        "
        is_other
    }
",
        "
        is_other && in_force
    }
",
    ),
    mutant(
        "per CPU",
        "a gate closes the table, and does not keep it closed",
        "per_cpu/mode.rs",
        "self.open.swap(Self::GATED, Ordering::Relaxed);",
        "self.open.swap(ptr::null_mut(), Ordering::Relaxed);",
    ),
    mutant(
        "per CPU",
        "a table that is closed behind a gate loses it",
        "per_cpu/mode.rs",
        "self.open.compare_exchange(table, ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed).ok();",
        "self.open.store(ptr::null_mut(), Ordering::Relaxed);
        let _ = table;",
    ),
];
