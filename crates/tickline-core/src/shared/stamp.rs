//! Stamps: ticks that are converted later, by the line of their time (rule 12).

use super::Shared;
use crate::cell::StateCell;
use crate::counter::Counter;
use crate::sample::Reference;
use crate::timeline::{Conversion, Unconverted};
use crate::units::{signed, ticks_between};
use crate::word::{FIRST_TICKS, Phase};

impl<S: StateCell> Shared<S> {
    /// A stamp: the counter, if the inlined path may use it now;
    /// [`stamp_to_ns`](Self::stamp_to_ns) converts it.
    ///
    /// There is no second load of the word, which would cost as much as the rest: the conversion
    /// recognises a stamp that was taken late. It cannot recognise one that the CPU took early,
    /// before it had loaded the word. Stamps therefore begin twice the start granularity after
    /// the line's start, which is after its publication. So the previous line converts none of
    /// them.
    #[inline(always)]
    pub fn stamp(&self, counter: &impl Counter) -> Option<u64> {
        let word = self.cell.word();
        if !word.is_published() {
            return None;
        }
        let window_ticks = self.cell.published(word).window_ticks;
        let ticks = counter.now();
        let delta = ticks.wrapping_sub(word.to_bits()).wrapping_sub(FIRST_TICKS);
        (delta < window_ticks).then_some(ticks)
    }

    /// Rule 12: a stamp in ns, by the line that was in use when it was taken. `None` if there has
    /// been no line yet.
    ///
    /// In order with all stamps and readings of the thread that took it, as long as its line is
    /// remembered. Waits for nobody, unless the stamp's line is being replaced at this moment:
    /// then it waits as a reading does.
    ///
    /// A thread may be stopped between its reads of the word and of the counter, and its line may
    /// be retired meanwhile. Readings that it makes then may be as low as the high-water mark, so
    /// the stamp is not above that.
    pub fn stamp_to_ns(&self, ticks: u64, counter: &impl Counter, reference: &impl Reference) -> Option<i64> {
        loop {
            let state = self.cell.load();
            let word = state.word;
            let Conversion { ns, by_newest } = match self.timeline.convert(ticks, word.slot()) {
                Ok(conversion) => conversion,
                Err(Unconverted::NoLine) => return None,
                Err(Unconverted::Moved) => continue,
            };
            let passed = || ticks_between(state.line.start_ticks, ticks) >= signed(state.valid_ticks());
            let limit_ns = match word.phase() {
                Phase::NoLine => state.high_water_ns(),
                Phase::Replacing | Phase::FirstPublication if by_newest => {
                    // The result, a line or a high-water mark, decides.
                    self.read_slow(counter, reference);
                    continue;
                }
                Phase::Published if by_newest && passed() => {
                    // Retires the line, unless these are ticks of the future, which nobody has
                    // taken.
                    self.read_slow(counter, reference);
                    i64::MAX
                }
                Phase::Replacing | Phase::FirstPublication | Phase::Published => i64::MAX,
            };
            if self.cell.is_still(word) {
                return Some(ns.min(limit_ns));
            }
        }
    }
}
