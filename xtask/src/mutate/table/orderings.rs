//! The orderings of atomic accesses: each is weakened, and a model by loom must go red; or there
//! is a reason why none can. Those outside of core: [`by_miri`](super::by_miri).
//!
//! Not an entry of this table: `Relaxed`, which nothing is weaker than.

/// An access with a weaker ordering.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weakening {
    /// What the mutated code does.
    pub(crate) does: &'static str,
    /// The file, as in [`path`](super::path).
    pub(crate) file: &'static str,
    /// What stands there, exactly once; has `Ordering::` and [`from`](Self::from) exactly once.
    pub(crate) text: &'static str,
    /// The ordering.
    pub(crate) from: &'static str,
    /// The weaker one. A fence that is `Relaxed` is none.
    pub(crate) to: &'static str,
    /// The model that must go red, in `loom_tests`; outside of core a test under Miri.
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

/// The files whose orderings are all in [`WEAKENINGS`] or in [`UNTOLD`]; a test says so. The
/// orderings of `modelled.rs` stand for those of the machine code beside it.
pub(crate) const FILES: [&str; 7] = [
    "cell.rs",
    "state/modelled.rs",
    "state/portable.rs",
    "try_lock.rs",
    "gate/keeper.rs",
    "per_cpu/mode.rs",
    "lease/cell.rs",
];

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
/// What a portable state must be.
const PORTABLE: &str = "a_portable_load_sees_one_state";
const PAIR: &str = "a_portable_pair_is_left_before_it_is_taken_again";
const LEASE: &str = "a_lease_is_never_a_mixture";
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
        "a reader takes a slot as it was before its state",
        "state/modelled.rs",
        "state(self.0.load(Ordering::Acquire))",
        TO_LOAD,
        READING,
    ),
    weaker(
        "the second look at the state comes before the slot",
        "state/modelled.rs",
        "fence(Ordering::Acquire)",
        TO_LOAD,
        READING,
    ),
    weaker(
        "a state is published before its slot",
        "state/modelled.rs",
        "compare_exchange(number(from), number(to), Ordering::AcqRel, ",
        ("AcqRel", "Acquire"),
        READING,
    ),
    weaker(
        "a load finds a pair as it was before its word",
        "state/portable.rs",
        "let word = self.word.load(Ordering::Acquire);
            let state",
        TO_LOAD,
        PORTABLE,
    ),
    weaker(
        "a load's second look at the word comes before the pair",
        "state/portable.rs",
        "fence(Ordering::Acquire);
            // ORDERING: Relaxed, behind the fence.",
        TO_LOAD,
        PORTABLE,
    ),
    weaker(
        "a swap finds a pair as it was before its word",
        "state/portable.rs",
        "let word = self.word.load(Ordering::Acquire);
        if",
        TO_LOAD,
        "of_two_portable_swaps_from_one_state_one_wins",
    ),
    weaker(
        "the slope in a pair changes before another pair is in use",
        "state/portable.rs",
        "pair.m.store(to.m, Ordering::Release)",
        TO_STORE,
        PORTABLE,
    ),
    weaker(
        "the base in a pair changes before another pair is in use",
        "state/portable.rs",
        "pair.b.store(to.b, Ordering::Release)",
        TO_STORE,
        PORTABLE,
    ),
    weaker(
        "a pair is in use before it is filled",
        "state/portable.rs",
        "compare_exchange(word, next, Ordering::AcqRel, ",
        ("AcqRel", "Acquire"),
        PORTABLE,
    ),
    weaker(
        "a pair is filled before the thread that has left it is seen to have done so",
        "state/portable.rs",
        "compare_exchange(taken, with, Ordering::Acquire, ",
        TO_LOAD,
        PAIR,
    ),
    weaker(
        "a pair is free before another one is in use",
        "state/portable.rs",
        "compare_exchange(taken, taken ^ (1 << place), Ordering::Release, ",
        TO_STORE,
        PAIR,
    ),
    weaker(
        "a thread that takes the lock does not see what its last holder did",
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
    weaker(
        "a thread that turns the switch is not seen to have closed the gate before",
        "gate/keeper.rs",
        "change(word), Ordering::AcqRel",
        ("AcqRel", "Acquire"),
        "a_policy_is_set_under_a_judge",
    ),
    weaker(
        "a thread that turns the switch does not see what a judge has done",
        "gate/keeper.rs",
        "change(word), Ordering::AcqRel",
        ("AcqRel", "Release"),
        "a_counter_is_switched_off_under_a_judge",
    ),
    weaker(
        "a judge does not see what the switch was turned for",
        "gate/keeper.rs",
        "let before = self.word.load(Ordering::Acquire)",
        TO_LOAD,
        "a_policy_is_set_under_a_judge",
    ),
    weaker(
        "a conclusion is published before the gate agrees with it",
        "gate/keeper.rs",
        "compare_exchange(before, after, Ordering::Release, ",
        TO_STORE,
        "a_counter_is_switched_off_under_a_judge",
    ),
    weaker(
        "a thread that sees a stage does not see what was stored for it",
        "gate/keeper.rs",
        "stage_of(self.word.load(Ordering::Acquire))",
        TO_LOAD,
        "a_conclusion_is_published_after_its_reasons",
    ),
    weaker(
        "a table is found before it is made",
        "per_cpu/mode.rs",
        "            Ordering::Release,",
        TO_STORE,
        "a_table_is_made_before_it_is_found",
    ),
    weaker(
        "a thread that sees the table does not see its content",
        "per_cpu/mode.rs",
        "self.table.load(Ordering::Acquire);
        // SAFETY",
        TO_LOAD,
        "a_table_is_made_before_it_is_found",
    ),
    weaker(
        "a thread that opens the table does not see its content",
        "per_cpu/mode.rs",
        "self.table.load(Ordering::Acquire);
        // ORDERING",
        TO_LOAD,
        "a_table_is_made_before_it_is_found",
    ),
    weaker(
        "a table is opened before it is made",
        "per_cpu/mode.rs",
        "compare_exchange(ptr::null_mut(), table, Ordering::Release, ",
        TO_STORE,
        "a_table_is_made_before_it_is_found",
    ),
    weaker(
        "a thread that reads by the table does not see its content",
        "per_cpu/mode.rs",
        "let table = self.open.load(Ordering::Acquire)",
        TO_LOAD,
        "a_table_is_made_before_it_is_found",
    ),
    weaker(
        "a reader takes a page's slot as it was before its word",
        "lease/cell.rs",
        "fence(Ordering::Acquire);
        LeaseWord::from_bits(bits)",
        TO_LOAD,
        LEASE,
    ),
    weaker(
        "the second look at a page's word comes before its slot",
        "lease/cell.rs",
        "fence(Ordering::Acquire);
        // ORDERING: Relaxed, behind the fence.",
        TO_LOAD,
        LEASE,
    ),
    weaker(
        "a page's word names a slot before its line",
        "lease/cell.rs",
        "compare_exchange(from, to, Ordering::AcqRel, ",
        ("AcqRel", "Acquire"),
        LEASE,
    ),
];

/// In the order of the files, and of the code.
pub(crate) const UNTOLD: &[Untold] = &[
    Untold {
        file: "state/modelled.rs",
        text: "compare_exchange(number(from), number(to), Ordering::AcqRel, ",
        from: "AcqRel",
        to: "Release",
        why: "keeps the read of the counter that follows the announcement of a replacement behind it; the modelled counter is never read early",
    },
    Untold {
        file: "state/portable.rs",
        text: "fence(Ordering::Acquire);
        self.load() == state",
        from: "Acquire",
        to: "Relaxed",
        why: "says what a second look is; the load behind it has a fence of its own before its last look at the word",
    },
    Untold {
        file: "state/portable.rs",
        text: "compare_exchange(word, next, Ordering::AcqRel, ",
        from: "AcqRel",
        to: "Release",
        why: "as in `modelled.rs`",
    },
    Untold {
        file: "lease/cell.rs",
        text: "compare_exchange(from, to, Ordering::AcqRel, ",
        from: "AcqRel",
        to: "Release",
        why: "keeps the writer's look at the counter after an opening or a line behind the swap; the modelled counter is never read early",
    },
    Untold {
        file: "lease/cell.rs",
        text: "fence(Ordering::SeqCst);",
        from: "SeqCst",
        to: "AcqRel",
        why: "lets readers see a swap before the writer reads the counter or the OS clock; the modelled ones are never read early, and loom has no `SeqCst`",
    },
    Untold {
        file: "lease/cell.rs",
        text: "self.slot_word(slot, place).store(*value, Ordering::Release)",
        from: "Release",
        to: "Relaxed",
        why: "lets a reader who sees it also see the swap that took the slot out of the word; in the models the fence behind that swap does so already, which a restartable sequence has not",
    },
];
