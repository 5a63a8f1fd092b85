//! Whether the readings of a process come from the page. The program ends that (`disable`) and
//! begins it again (`enable`), on any thread and in signal handlers.
//!
//! ```text
//!          begin_disable          finish_disable
//! ENABLED ---------------> ENDING ----------------> DISABLED
//!    ^                        |                        |
//!    +-------- enable --------+------------------------+
//! ```
//!
//! | stage | readings |
//! |---|---|
//! | enabled | by the page |
//! | ending | by the page; each raises the process's high-water mark to its time |
//! | disabled | by the OS clock; none is below the mark, and each raises it (rule R8) |
//!
//! The steps of a reading by the page, and of a call that disables:
//!
//! ```text
//! a reading                                           a call that disables
//!
//! the stage is not disabled       // allows_page      ENDING = the stage, changed or found
//! read the page                                       read the page, and raise the mark above it
//! the stage is not enabled        // must_raise       exchange this ENDING for DISABLED
//!     -> raise the mark
//! ```
//!
//! Every change is an exchange, and counts. So a word never recurs, and the last exchange of a call
//! succeeds only if nobody has changed the word since the call found it.
//!
//! **Once a call that disables has returned, no new reading uses the page**, until `enable`.
//! Only `enable` changes the word `DISABLED`. If the call's last exchange fails, another thread or
//! a signal handler has changed the word since the call found it: either another call has disabled
//! the page, or an `enable` counts as the later call.
//!
//! **Readings are in order.** Reading 1 is complete before reading 2 begins.
//!
//! - If both come from the page, its rules keep the order. If reading 1 comes from the OS clock, it
//!   has raised the mark, and no reading is below the mark.
//! - Otherwise reading 1 comes from the page, and reading 2 has found the stage disabled. If
//!   reading 1 has found a stage that is not enabled after it read the page, it has raised the
//!   mark.
//! - Otherwise it has found a word `ENABLED` that is older than reading 2's `DISABLED`. Between the
//!   two, just before that `DISABLED`, the word was an `ENDING`. The call that exchanged this
//!   `ENDING` first found it, then read the page, and raised the mark one margin above that
//!   reading. Reading 1 read the page before the word was this `ENDING`. So it read earlier than
//!   the call did, or so little later that the margin covers it. The mark is therefore not below
//!   reading 1.
//!
//! Without the count, the last exchange of a call could take the `ENDING` of a later call for its
//! own, after an `enable` in between. Readings between the first call's mark and the second call
//! may be above that mark.
//!
//! **No call waits for another.** A call that finds another call's `ENDING` does the rest itself:
//! the other thread may be stopped, may be the one that a signal handler has interrupted, or may be
//! missing in a forked child.

use crate::primitive::{AtomicU64, Ordering, fence};

/// The stages, in the low bits of the word. Above them is the count of changes.
const ENABLED: u64 = 0;
const ENDING: u64 = 1;
const DISABLED: u64 = 2;
const STAGE_MASK: u64 = 3;

/// One change in the count, which has 62 bits: a program does not live to see it wrap.
const CHANGE: u64 = STAGE_MASK + 1;

/// The stage of a process's use of a page.
#[derive(Debug)]
pub(crate) struct UseStage(AtomicU64);

/// A word whose stage is [`ENDING`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Ending(u64);

const fn stage_of(word: u64) -> u64 {
    word & STAGE_MASK
}

/// The word that follows `word`, with this stage.
const fn next(word: u64, stage: u64) -> u64 {
    (word & !STAGE_MASK).wrapping_add(CHANGE) | stage
}

impl UseStage {
    /// Readings use the page.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(ENABLED))
    }

    /// Whether a reading may use the page.
    #[inline(always)]
    pub(crate) fn allows_page(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release exchange in `finish_disable`: a reader that
        // finds the stage disabled finds the raised high-water mark.
        self.0.load(Ordering::Acquire) & DISABLED == 0
    }

    /// Whether a reading must raise the process's high-water mark. Ask this once the page is read.
    #[inline(always)]
    pub(crate) fn must_raise(&self) -> bool {
        // ORDERING: Acquire, pairs with the fence in `begin_disable`. A reading that still finds
        // the stage enabled has loaded the page's words before a call that disables loads them. A
        // read of the counter is no load: the CPU may execute it after the load below, and thus a
        // little after the call's. The margin by which the mark is above the call's reading covers
        // that. The models can't show it: loom's counter is an atomic, which the fence orders.
        fence(Ordering::Acquire);
        // ORDERING: Relaxed, the fence above orders it.
        stage_of(self.0.load(Ordering::Relaxed)) != ENABLED
    }

    /// Begins to disable the page, or helps a call that has begun. The caller then reads the page,
    /// raises the high-water mark, and calls [`finish_disable`](Self::finish_disable). `None` if
    /// the page is disabled.
    pub(crate) fn begin_disable(&self) -> Option<Ending> {
        // ORDERING: Relaxed, the fence below orders it.
        let mut word = self.0.load(Ordering::Relaxed);
        while stage_of(word) == ENABLED {
            let ending = next(word, ENDING);
            // ORDERING: Relaxed for both, the fence below orders them.
            let exchanged =
                self.0
                    .compare_exchange(word, ending, Ordering::Relaxed, Ordering::Relaxed);
            word = exchanged.map_or_else(|changed| changed, |_| ending);
        }
        // ORDERING: SeqCst, pairs with the fence in `must_raise`: the caller reads the counter once
        // every reader can find the stage that this call has stored or found. No test sees a weaker
        // one, because loom has no SeqCst.
        fence(Ordering::SeqCst);
        (stage_of(word) == ENDING).then_some(Ending(word))
    }

    /// Disables the page, unless another call has changed the stage since `ending`.
    pub(crate) fn finish_disable(&self, Ending(word): Ending) {
        let disabled = next(word, DISABLED);
        // ORDERING: Release, pairs with the Acquire load in `allows_page`; Relaxed if the exchange
        // fails, because then nothing follows.
        let exchanged =
            self.0
                .compare_exchange(word, disabled, Ordering::Release, Ordering::Relaxed);
        exchanged.ok();
    }

    /// Lets readings use the page.
    pub(crate) fn enable(&self) {
        // ORDERING: Relaxed, here and below: readings by the page respect the high-water mark in
        // any stage.
        let mut word = self.0.load(Ordering::Relaxed);
        while stage_of(word) != ENABLED {
            let enabled = next(word, ENABLED);
            // ORDERING: Relaxed for both, as above.
            let exchanged =
                self.0
                    .compare_exchange(word, enabled, Ordering::Relaxed, Ordering::Relaxed);
            word = exchanged.map_or_else(|changed| changed, |_| enabled);
        }
    }
}

#[cfg(test)]
mod tests;
