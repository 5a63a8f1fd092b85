//! What the simulator knows about one cell and its lines: the common one, or that of a CPU.

use core::cell::{Cell, RefCell};
use std::collections::HashMap;

use tickline_core::unstable::cell::Published;
use tickline_core::unstable::word::{Phase, Word};

use crate::machine::{Clocks, skewed};

/// What is known about one cell and its lines.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    /// The difference of this CPU's counter from the machine's, ticks, where the cell belongs to
    /// a CPU.
    skew_ticks: i64,
    /// What the cell holds.
    pub(crate) word: Cell<Word>,
    /// The word when the counter last started again, and when that was, ps.
    pub(crate) reset: Cell<Option<(Word, u64)>>,
    /// When the iteration began that published the line, ps.
    pub(crate) born_ps: Cell<u64>,
    /// When the iteration under way began, ps.
    pub(crate) iteration_began_ps: Cell<u64>,
    /// For each line, by its word: the time of the oldest sample that its bounds rest on, ps.
    pub(crate) evidence: RefCell<HashMap<u64, u64>>,
    /// The word of the line that was published last.
    pub(crate) newest_line: Cell<Word>,
    /// When the cell last lost its line or got one, ps: its next line counts from then on.
    closed_ps: Cell<u64>,
    /// Each line by its word, and since when it counts, ps; where each CPU has one.
    pub(crate) by_word: Option<RefCell<HashMap<u64, (Published, u64)>>>,
}

impl Unit {
    /// One for all CPUs.
    pub(crate) fn for_all() -> Vec<Self> {
        vec![Self::default()]
    }

    /// One for each CPU.
    pub(crate) fn for_each(skew_ticks: &[i64]) -> Vec<Self> {
        let unit = |&skew_ticks| Self { skew_ticks, by_word: Some(RefCell::default()), ..Self::default() };
        skew_ticks.iter().map(unit).collect()
    }

    /// The cell's word became `to`.
    pub(crate) fn swapped(&self, to: Word, now_ps: u64) {
        self.word.set(to);
        match to.phase() {
            Phase::Published => {
                self.born_ps.set(self.iteration_began_ps.get());
                self.newest_line.set(to);
            }
            Phase::Replacing | Phase::FirstPublication => self.closed_ps.set(now_ps),
            Phase::NoLine => {}
        }
    }

    /// A line was published.
    pub(crate) fn published(&self, word: Word, published: &Published) {
        if let Some(by_word) = &self.by_word {
            by_word.borrow_mut().insert(word.to_bits(), (*published, self.closed_ps.get()));
        }
    }

    /// When this counter was at `ticks`, ps.
    pub(crate) fn time_ps(&self, clocks: &Clocks, ticks: u64) -> u64 {
        clocks.counter.time_ps(skewed(ticks, -self.skew_ticks))
    }
}
