//! The orderings of atomic accesses: each is weakened, and a model by loom must go red; or there is a reason why none can.
//!
//! Not an entry of this table: `Relaxed`, which nothing is weaker than.

/// An access with a weaker ordering.
#[derive(Debug)]
pub(crate) struct Weakening {
    /// What the mutated code does.
    pub(crate) does: &'static str,
    /// The file, seen from [`SOURCES`](super::SOURCES).
    pub(crate) file: &'static str,
    /// What stands there, exactly once; has `Ordering::` and [`from`](Self::from) exactly once.
    pub(crate) text: &'static str,
    /// The ordering.
    pub(crate) from: &'static str,
    /// The weaker one. A fence that is `Relaxed` is none.
    pub(crate) to: &'static str,
    /// The model that must go red, in `loom_tests`.
    pub(crate) model: &'static str,
}

/// An ordering that no model tells from a weaker one.
#[derive(Debug)]
pub(crate) struct Untold {
    /// As in [`Weakening`].
    pub(crate) file: &'static str,
    /// As in [`Weakening`].
    pub(crate) text: &'static str,
    /// As in [`Weakening`].
    pub(crate) from: &'static str,
    /// As in [`Weakening`].
    pub(crate) to: &'static str,
    /// Why it is not weaker, and why no model goes red.
    pub(crate) why: &'static str,
}

/// The files whose orderings are all in [`WEAKENINGS`] or in [`UNTOLD`]; a test says so.
pub(crate) const FILES: [&str; 3] = ["cell.rs", "timeline.rs", "try_lock.rs"];

const fn weaker(
    does: &'static str,
    file: &'static str,
    text: &'static str,
    (from, to): (&'static str, &'static str),
    model: &'static str,
) -> Weakening {
    Weakening { does, file, text, from, to, model }
}

const TO_LOAD: (&str, &str) = ("Acquire", "Relaxed");
const TO_STORE: (&str, &str) = ("Release", "Relaxed");

/// What a reading uses.
const READING: &str = "a_reading_is_never_a_mixture";
const ENTRY: &str = "an_entry_is_never_a_mixture";
const CONVERSION: &str = "a_conversion_uses_one_line";
const LOCK: &str = "a_lock_excludes_and_hands_over";

/// In the order of the files, and of the code.
pub(crate) const WEAKENINGS: &[Weakening] = &[
    weaker(
        "a slot changes before its line has been taken out of use",
        "cell.rs",
        "let order = Ordering::Release;",
        TO_STORE,
        READING,
    ),
    weaker(
        "a reader takes a slot as it was before its word",
        "cell.rs",
        "Word::from_bits(self.word.load(Ordering::Acquire))",
        TO_LOAD,
        READING,
    ),
    weaker("the second look comes before the slot", "cell.rs", "fence(Ordering::Acquire)", TO_LOAD, READING),
    weaker(
        "a word is published before its slot",
        "cell.rs",
        "compare_exchange(from.to_bits(), to.to_bits(), Ordering::AcqRel, ",
        ("AcqRel", "Acquire"),
        READING,
    ),
    weaker(
        "who sees that an entry is being overwritten does not know that there are later lines, and looks again and again",
        "timeline.rs",
        "entry.number.store(0, Ordering::Release)",
        TO_STORE,
        CONVERSION,
    ),
    weaker(
        "the tick from which a past line is used changes before its number is gone",
        "timeline.rs",
        "entry.from_ticks.store(from_ticks, Ordering::Release)",
        TO_STORE,
        ENTRY,
    ),
    weaker(
        "a past line's start changes before its number is gone",
        "timeline.rs",
        "entry.start_ticks.store(line.start_ticks, Ordering::Release)",
        TO_STORE,
        ENTRY,
    ),
    weaker(
        "a past line's base changes before its number is gone",
        "timeline.rs",
        "entry.base_ns.store(line.base_ns, Ordering::Release)",
        TO_STORE,
        ENTRY,
    ),
    weaker(
        "a past line's slope changes before its number is gone",
        "timeline.rs",
        "entry.slope.store(line.slope.to_bits(), Ordering::Release)",
        TO_STORE,
        ENTRY,
    ),
    weaker(
        "an entry has its number before its line",
        "timeline.rs",
        "entry.number.store(number, Ordering::Release)",
        TO_STORE,
        ENTRY,
    ),
    weaker(
        "lines are counted before they are there, and who looks for them looks again and again",
        "timeline.rs",
        "self.written.store(number, Ordering::Release)",
        TO_STORE,
        CONVERSION,
    ),
    weaker(
        "an entry is read before its number",
        "timeline.rs",
        "if entry.number.load(Ordering::Acquire) != number",
        TO_LOAD,
        ENTRY,
    ),
    weaker(
        "the tick from which a past line is used is read after the second look",
        "timeline.rs",
        "entry.from_ticks.load(Ordering::Acquire)",
        TO_LOAD,
        ENTRY,
    ),
    weaker(
        "a past line's start is read after the second look",
        "timeline.rs",
        "entry.start_ticks.load(Ordering::Acquire)",
        TO_LOAD,
        ENTRY,
    ),
    weaker(
        "a past line's base is read after the second look",
        "timeline.rs",
        "entry.base_ns.load(Ordering::Acquire)",
        TO_LOAD,
        ENTRY,
    ),
    weaker(
        "a past line's slope is read after the second look",
        "timeline.rs",
        "Slope::from_bits(entry.slope.load(Ordering::Acquire))",
        TO_LOAD,
        ENTRY,
    ),
    weaker(
        "a reader knows how many lines there are, but not the lines, and looks again and again",
        "timeline.rs",
        "self.written.load(Ordering::Acquire)",
        TO_LOAD,
        CONVERSION,
    ),
    weaker(
        "who takes the lock does not see what its last holder did",
        "try_lock.rs",
        "compare_exchange(owner, token, Ordering::Acquire, ",
        TO_LOAD,
        LOCK,
    ),
    weaker(
        "the lock is free before its holder is done",
        "try_lock.rs",
        "compare_exchange(self.token, 0, Ordering::Release, ",
        TO_STORE,
        LOCK,
    ),
];

/// In the order of the files, and of the code.
pub(crate) const UNTOLD: &[Untold] = &[Untold {
    file: "cell.rs",
    text: "compare_exchange(from.to_bits(), to.to_bits(), Ordering::AcqRel, ",
    from: "AcqRel",
    to: "Release",
    why: "keeps the read of the counter that follows a closing behind it; the modelled counter is never read early",
}];
