//! Who closes and opens a clock's gate, and when; what Unix time costs; which readers do
//! iterations.

use super::{Mutant, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "gate",
        "a judgement counts although somebody has asked for another one meanwhile",
        "gate/keeper.rs",
        "let stands = self.word.compare_exchange(before, after, Ordering::Release, Ordering::Relaxed).is_ok();",
        "self.word.store(after, Ordering::Release);
        let stands = true;",
    ),
    mutant(
        "gate",
        "off and on again during a judgement is not noticed",
        "gate/keeper.rs",
        "(word & !STAGE_MASK).wrapping_add(CHANGE)",
        "(word & !STAGE_MASK)",
    ),
    mutant(
        "gate",
        "a judgement that does not count leaves the gate open",
        "gate/keeper.rs",
        "        if !admitted {
            gated.close();",
        "        if stands && !admitted {
            gated.close();",
    ),
    mutant(
        "gate",
        "a closed gate is said, and not closed",
        "gate/keeper.rs",
        "        if !admitted {
            gated.close();",
        "        if !stands {
            gated.close();",
    ),
    mutant(
        "gate",
        "the counter is switched off, and its line left in use",
        "gate/keeper.rs",
        "self.turn(|word| asked(word) | DISABLED_BIT);
        gated.close();",
        "self.turn(|word| asked(word) | DISABLED_BIT);",
    ),
    mutant(
        "gate",
        "the gates are to be judged again, and the line is left in use until then",
        "gate/keeper.rs",
        "self.turn(asked);
        gated.close();",
        "self.turn(asked);",
    ),
    mutant(
        "gate",
        "gates are judged again, and the line by the judgement before goes on",
        "gate/keeper.rs",
        "if is_review {",
        "if is_review && false {",
    ),
    mutant(
        "gate",
        "a counter that is switched on is not judged",
        "gate/keeper.rs",
        "self.turn(|word| asked(word) & !DISABLED_BIT)",
        "self.turn(|word| word & !DISABLED_BIT)",
    ),
    mutant(
        "gate",
        "a policy switches the counter on",
        "gate/keeper.rs",
        "            Stage::Waiting | Stage::Closed | Stage::Disabled => return Admission::Refused,",
        "            Stage::Disabled => {}
            Stage::Waiting | Stage::Closed => return Admission::Refused,",
    ),
    mutant(
        "gate",
        "a gate that was closed too late stays closed",
        "gate/keeper.rs",
        "if stage_of(word) == Stage::Open {",
        "if false {",
    ),
    mutant(
        "gate",
        "a gate that waits is judged before that is due",
        "gate/keeper.rs",
        "Stage::Waiting if self.is_due_at(Stage::Waiting, now_ns()) => {}",
        "Stage::Waiting => {}",
    ),
    mutant(
        "gate",
        "nobody comes when the gates are to be judged again",
        "gate/keeper.rs",
        "            Stage::New => true,
            // ORDERING: Relaxed, a hint; the thread that judges by it holds the lock, as did the
            // one that stored it.
            Stage::Open | Stage::Waiting",
        "            // ORDERING: Relaxed, a hint; the thread that judges by it holds the lock, as did the
            // one that stored it.
            Stage::New | Stage::Open | Stage::Waiting",
    ),
    mutant(
        "gate",
        "a counter that the kernel rates below a timer counts as accepted",
        "gate/facts.rs",
        "named.take_while(|name| !matches!(name, Self::Hpet | Self::AcpiPm | Self::Jiffies))",
        "named.take_while(|_| true)",
    ),
    mutant(
        "Unix cost",
        "Unix time is judged by what monotonic time costs",
        "gate/mod.rs",
        "is_dearer(cost.counter_ps, cost.os_unix_ps, facts.unix_was_slow)",
        "is_dearer(cost.counter_ps, cost.os_ps, facts.unix_was_slow)",
    ),
    mutant(
        "Unix cost",
        "Unix time that the OS tells faster closes the clock",
        "gate/mod.rs",
        "verdicts.into_iter().filter(|verdict| verdict.gate != Gate::UnixCost).find_map(",
        "verdicts.into_iter().find_map(",
    ),
    mutant(
        "Unix cost",
        "no hysteresis",
        "gate/mod.rs",
        "let allowance_ps = if was_dearer { counter_ps / 10 } else { 0 };",
        "let allowance_ps = if was_dearer { 0 } else { 0 };",
    ),
    mutant(
        "Unix cost",
        "monotonic time loses whatever it may for the sake of Unix time",
        "gate/mod.rs",
        "!is_dearer(cost.counter_ps, bearable_ps, was_slow) && gain_ps",
        "!was_slow && bearable_ps > 0 && gain_ps",
    ),
    mutant(
        "Unix cost",
        "monotonic time loses though Unix time gains nothing to speak of",
        "gate/mod.rs",
        " && gain_ps > cost.counter_ps / 10",
        " && gain_ps > 0",
    ),
    mutant(
        "Unix cost",
        "lines serve Unix time whatever the verdict",
        "control/publish.rs",
        "if self.without_unix { Serves::Monotonic } else { Serves::Both }",
        "Serves::Both",
    ),
    mutant(
        "Unix cost",
        "inlined readings of Unix time take any line",
        "shared/reading.rs",
        "self.read_with(State::is_inlined_for_unix, ticks, unix_b)",
        "self.read_with(State::is_inlined, ticks, unix_b)",
    ),
    mutant(
        "Unix cost",
        "a line that is being replaced is taken for one that serves Unix time, whose m is another",
        "state/mod.rs",
        "self.m & !(INLINED | INLINED_UNIX) | REPLACING",
        "self.m & !(INLINED | INLINED_UNIX | NO_UNIX) | REPLACING",
    ),
    mutant(
        "callers",
        "every reader that finds a line past its window renews it",
        "callers.rs",
        "overdue_ns > 0 && (overdue_ns <= frequent_ns || self.are_frequent(reading.ns, frequent_ns))",
        "overdue_ns > 0",
    ),
    mutant(
        "callers",
        "two frequent calls are enough",
        "callers.rs",
        ".saturating_add(1) >= STREAK",
        ".saturating_add(1) >= 1",
    ),
    mutant(
        "callers",
        "calls may be any time apart",
        "callers.rs",
        "is_ok_and(|gap_ns| gap_ns <= frequent_ns)",
        "is_ok()",
    ),
    mutant(
        "callers",
        "iterations that are not due are asked for",
        "callers.rs",
        "is_due(reference_ns) && self.are_frequent(",
        "(is_due(reference_ns) || true) && self.are_frequent(",
    ),
];
