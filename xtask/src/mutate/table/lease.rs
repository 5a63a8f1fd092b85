//! The rules of leases, by their numbers in docs/lease.md: R for readers, W for the writer.

use super::{Mutant, mutant};

const READER: &str = "lease/reader.rs";
const WRITER: &str = "lease/writer.rs";
const ESTIMATE: &str = "lease/estimate.rs";
const CELL: &str = "lease/cell.rs";
const WORD: &str = "lease/word.rs";
const SLOT: &str = "lease/slot.rs";
const MOD: &str = "lease/mod.rs";

/// In the order of the rules.
pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "r1",
        "a line is read without a second look at the word",
        READER,
        "    let limit = timescale.limit(memory, slot, line.at(ticks), i64::MAX);
    if !memory.is_still(word) {",
        "    let limit = timescale.limit(memory, slot, line.at(ticks), i64::MAX);
    if false {",
    ),
    mutant(
        "r1",
        "the OS clock is read without a second look at the word",
        READER,
        "if memory.is_still(word) {\n            return fallback",
        "if true {\n            return fallback",
    ),
    mutant(
        "r1",
        "an endless change of the word keeps a reading from its end",
        READER,
        "while starts < MAX_STARTS {",
        "while starts < u32::MAX {",
    ),
    mutant(
        "r2",
        "the first line counts past its end",
        READER,
        "} else if is_before(ticks, first.end_ticks) {",
        "} else if is_before(ticks, last.end_ticks) {",
    ),
    mutant(
        "r2",
        "the second line is not used",
        READER,
        "    } else if is_before(ticks, last.end_ticks) {
        (last.line, last_slot)",
        "    } else if is_before(ticks, first.end_ticks) {
        (last.line, last_slot)",
    ),
    mutant(
        "r3",
        "past the leases there is no floor",
        READER,
        "timescale.limit(memory, last_slot, last.end_ns(), i64::MAX)",
        "timescale.limit(memory, last_slot, i64::MIN, i64::MAX)",
    ),
    mutant(
        "r3",
        "past two leases the floor is that of the first",
        READER,
        "timescale.limit(memory, last_slot, last.end_ns(), i64::MAX)",
        "timescale.limit(memory, first_slot, first.end_ns(), i64::MAX)",
    ),
    mutant(
        "r4",
        "the counter is not expected to be reset",
        READER,
        "if is_before(ticks, first.line.start_ticks) {",
        "if false {",
    ),
    mutant(
        "r4",
        "after a reset the floor is the end of the leases, however far ahead",
        READER,
        "timescale.limit(memory, last_slot, last.end_ns(), lead_ns)",
        "timescale.limit(memory, last_slot, last.end_ns(), i64::MAX.max(lead_ns))",
    ),
    mutant(
        "r4",
        "after a reset there is no floor",
        READER,
        "timescale.limit(memory, last_slot, last.end_ns(), lead_ns)",
        "timescale.limit(memory, last_slot, last.end_ns(), 0 & lead_ns)",
    ),
    mutant(
        "r5",
        "a line in doubt is used without asking the OS",
        READER,
        "word.phase() == LeasePhase::Unsure || limit.is_none()",
        "limit.is_none()",
    ),
    mutant(
        "r5",
        "in doubt the OS clock alone counts",
        READER,
        "        Found::Ask(limit)
    } else {
        Found::Line(limit)",
        "        Found::Ask(Limit::NONE)
    } else {
        Found::Line(limit)",
    ),
    mutant(
        "r6",
        "without a line there is no floor",
        READER,
        "LeasePhase::Cold => Found::Ask(Floor::load(memory, word.first()).limit(timescale)),",
        "LeasePhase::Cold => Found::Ask(Limit::NONE),",
    ),
    mutant(
        "r6",
        "a page that is off is read by the counter",
        READER,
        "LeasePhase::Off => Found::Ask(Limit::NONE),",
        "LeasePhase::Off => look_at_lines(memory, counter, word, timescale),",
    ),
    mutant(
        "r7",
        "an opening has no deadline",
        READER,
        "floor.deadline_ticks.wrapping_sub(ticks).wrapping_sub(1) < floor.wait_ticks",
        "(is_before(floor.deadline_ticks, ticks) || floor.deadline_ticks.wrapping_sub(ticks) <= floor.wait_ticks)",
    ),
    mutant(
        "r7",
        "a deadline that is too far ahead is waited for",
        READER,
        "floor.deadline_ticks.wrapping_sub(ticks).wrapping_sub(1) < floor.wait_ticks",
        "is_before(ticks, floor.deadline_ticks)",
    ),
    mutant(
        "r7",
        "a reader waits for one opening after another",
        READER,
        "&& ticks.wrapping_sub(since_ticks) <= floor.wait_ticks",
        "&& ticks.wrapping_sub(since_ticks) < u64::MAX",
    ),
    mutant(
        "r7",
        "a reader waits for as long as the counter stands still",
        READER,
        "&& self.looks < MAX_LOOKS",
        "",
    ),
    mutant(
        "r7",
        "nobody waits for an opening",
        READER,
        "} else if patience.lasts(ticks, &floor) {",
        "} else if patience.lasts(ticks, &floor) && false {",
    ),
    mutant(
        "r8",
        "what a process had from the OS is forgotten",
        READER,
        "        private.raise(ns);",
        "        let _ = private;",
    ),
    mutant(
        "r8",
        "a line may be below what a process had from the OS",
        READER,
        "Self::Monotonic => ns.max(private.ns()),",
        "Self::Monotonic => ns,",
    ),
    mutant(
        "r8",
        "a process that attaches forgets the OS clock that it has used",
        READER,
        "    floor.raise(os.monotonic_ns());",
        "    let _ = (os.monotonic_ns(), floor);",
    ),
    mutant("r8", "a floor falls", READER, "while known_ns < ns {", "while known_ns != ns {"),
    mutant("r9", "a line may be below the kernel's last tick", READER, "Some(ns.max(coarse_ns))", "Some(ns)"),
    mutant(
        "r10",
        "Unix time that was set back is seen once the writer knows",
        READER,
        "ns.saturating_sub(coarse_ns) > FAR_NS",
        "ns.saturating_sub(coarse_ns) > i64::MAX - 1",
    ),
    mutant("r10", "Unix time that was set back has a floor", SLOT, "_ => os_ns,", "_ => self.ns,"),
    mutant(
        "w1",
        "the word is stored, whoever has changed it",
        CELL,
        "self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()",
        "{
            let _ = from;
            self.word.store(to, Ordering::Release);
            true
        }",
    ),
    mutant(
        "w1",
        "two writers share a bank",
        WRITER,
        "word.second().unwrap_or(word.first()).bank() ^ 1",
        "word.second().unwrap_or(word.first()).bank()",
    ),
    mutant(
        "w1",
        "slots in use are filled",
        WRITER,
        ".filter(|slot| !self.word.names(*slot))",
        ".filter(|slot| self.word.to_bits() > 0 || !self.word.names(*slot))",
    ),
    mutant(
        "w1",
        "the generation stays",
        WORD,
        "self.generation().wrapping_add(1) << GENERATION_SHIFT",
        "self.generation() << GENERATION_SHIFT",
    ),
    mutant(
        "w2",
        "a successor begins below the line before",
        WRITER,
        "let least_ns = fixed_to_ns_ceil(last.line.fixed_at(start_ticks));",
        "let least_ns = i64::MIN;",
    ),
    mutant(
        "w2",
        "a line begins below the upper edge",
        ESTIMATE,
        "least_ns.max(edge_ns(start_ticks))",
        "least_ns.max(edge_ns(start_ticks).saturating_sub(30))",
    ),
    mutant(
        "w2",
        "a line ends below the upper edge",
        ESTIMATE,
        "fixed_from_ns(edge_ns(end_ticks)).saturating_sub(",
        "fixed_from_ns(edge_ns(end_ticks).saturating_sub(60)).saturating_sub(",
    ),
    mutant(
        "w2",
        "a successor is decided on later than M before the end",
        WRITER,
        "        if !is_before(ticks, limit_ticks) {
            // W2: too late.",
        "        if !is_before(ticks, last.end_ticks) {
            // W2: too late.",
    ),
    mutant(
        "w2",
        "the look before the swap has no limit",
        MOD,
        "if is_before(ticks, least_ticks) || !is_before(ticks, limit_ticks) {",
        "if is_before(ticks, least_ticks) || !is_before(ticks, limit_ticks.wrapping_add(1 << 50)) {",
    ),
    mutant(
        "w2",
        "the look before the swap does not see a reset",
        MOD,
        "if is_before(ticks, least_ticks) || !is_before(ticks, limit_ticks) {",
        "if is_before(ticks, least_ticks.wrapping_sub(1 << 50)) || !is_before(ticks, limit_ticks) {",
    ),
    mutant(
        "w2",
        "a line is dropped before all counters have left it",
        WRITER,
        "if is_before(ticks, due_ticks) {",
        "if is_before(ticks, last.line.start_ticks) {",
    ),
    mutant(
        "w3",
        "a successor that came too late is not doubted",
        WRITER,
        "if is_before(after_ticks, ticks) || !is_before(after_ticks, last.end_ticks) {",
        "if is_before(after_ticks, ticks) {",
    ),
    mutant(
        "w3",
        "a successor is not doubted after a reset",
        WRITER,
        "if is_before(after_ticks, ticks) || !is_before(after_ticks, last.end_ticks) {",
        "if !is_before(after_ticks, last.end_ticks) {",
    ),
    mutant(
        "w3",
        "a first line that came too late is not doubted",
        WRITER,
        "if is_before(after_ticks, at_ticks) || !is_before(after_ticks, deadline_ticks) {",
        "if is_before(after_ticks, at_ticks) {",
    ),
    mutant(
        "w3",
        "a first line is not doubted after a reset",
        WRITER,
        "if is_before(after_ticks, at_ticks) || !is_before(after_ticks, deadline_ticks) {",
        "if !is_before(after_ticks, deadline_ticks) {",
    ),
    mutant(
        "w3",
        "lines in doubt have a successor",
        WRITER,
        "if self.word.phase() == LeasePhase::Unsure {",
        "if false {",
    ),
    mutant(
        "w4",
        "leases that have run out leave no floor",
        WRITER,
        "            self.go_cold(memory, &last.floor())?;",
        "            self.go_cold(memory, &Floor { ns: 0, ..last.floor() })?;",
    ),
    mutant(
        "w4",
        "a reset counter is not noticed",
        WRITER,
        "if is_before(ticks, first.line.start_ticks) {",
        "if false {",
    ),
    mutant(
        "w4",
        "the floor after a reset lacks the lead that its readers have",
        WRITER,
        "self.go_cold(memory, &Floor { lead_ns, ..last.floor() })?;",
        "self.go_cold(memory, &Floor { lead_ns: lead_ns & 0, ..last.floor() })?;",
    ),
    mutant(
        "w4",
        "the floor after a reset is the end of the leases",
        WRITER,
        "self.go_cold(memory, &Floor { lead_ns, ..last.floor() })?;",
        "self.go_cold(memory, &Floor { lead_ns: lead_ns | i64::MAX, ..last.floor() })?;",
    ),
    mutant(
        "w5",
        "a first line begins while the floor is far ahead",
        WRITER,
        "if ahead_ns > AHEAD_NS {",
        "if ahead_ns > i64::MAX - 1 {",
    ),
    mutant(
        "w5",
        "a first line disregards the age of the OS reading",
        WRITER,
        "estimate.most_after(os_ns, since_ticks)",
        "estimate.most_after(os_ns, since_ticks & 0)",
    ),
    mutant(
        "w5",
        "a first line begins below the floor",
        WRITER,
        "limit.over(os_ns, Timescale::Monotonic).max(most_ns",
        "limit.over(os_ns, Timescale::Monotonic).min(os_ns).max(most_ns",
    ),
    mutant(
        "w5",
        "an opening does not see a reset",
        WRITER,
        "if is_before(before_ticks, begin_ticks) || is_before(at_ticks, before_ticks) {",
        "if is_before(before_ticks, begin_ticks) {",
    ),
    mutant(
        "w5",
        "openings that fail are repeated at once",
        WRITER,
        "self.config.pause_ns.saturating_mul(1 << self.doublings)",
        "self.config.pause_ns >> 40 << self.doublings",
    ),
    mutant(
        "w5",
        "openings that fail are repeated each second",
        WRITER,
        "self.doublings.saturating_add(1).min(MOST_DOUBLINGS)",
        "self.doublings.saturating_add(0).min(MOST_DOUBLINGS)",
    ),
    mutant(
        "w6",
        "a closed gate is not regarded",
        WRITER,
        "estimate.filter(|_| self.closing.is_none())",
        "estimate",
    ),
    mutant(
        "w6",
        "a closing in doubt leaves the lines as they are",
        WRITER,
        "if self.closing == Some(Closing::InDoubt) {",
        "if false {",
    ),
    mutant(
        "w6",
        "a page that was switched off is opened again",
        WRITER,
        "LeasePhase::Off | LeasePhase::Opening => Ok(self.waited(self.config.lease_ns)),",
        "LeasePhase::Off | LeasePhase::Opening => self.go_cold(memory, &Floor::NONE).map(|()| self.waited(0)),",
    ),
    mutant(
        "w7",
        "a writer leaves an opening that it finds",
        WRITER,
        "LeasePhase::Opening => writer.go_cold(memory, &Floor::load(memory, word.first()))?,",
        "LeasePhase::Opening => {}",
    ),
    mutant(
        "w7",
        "a writer that starts ends the leases that it finds",
        WRITER,
        "LeasePhase::Cold | LeasePhase::Live | LeasePhase::Unsure => {}",
        "LeasePhase::Cold | LeasePhase::Live | LeasePhase::Unsure => writer.go_cold(memory, &Floor::NONE)?,",
    ),
    mutant(
        "w8",
        "a clock that was set is not noticed",
        WRITER,
        "if is_unix_stale(estimate, &last) {",
        "if false {",
    ),
    mutant(
        "w8",
        "narrower samples set Unix time back",
        ESTIMATE,
        "if (0..=keep_ns).contains(&ahead_ns) { before.offset_ns } else { most_ns }",
        "if keep_ns < 0 { before.offset_ns } else { ahead_ns.min(0).saturating_add(most_ns).max(most_ns) }",
    ),
    mutant(
        "w8",
        "a clock that was set takes the second line away",
        WRITER,
        "self.word.next(LeasePhase::Live, first_free, second_free)",
        "self.word.next(LeasePhase::Live, first_free, second_free.filter(|_| false))",
    ),
];
