//! The newest claim: the thread publishes it, readers copy it.
//!
//! A latch (Linux' `seqcount_latch`): two slots, and the number of the newest claim. The thread
//! writes a new claim to the other slot, and then its number. A reader loads the number, reads the
//! clock, and copies the slot of that number. If the number is still the same, the reader takes the
//! copy. The thread cannot have begun to overwrite that slot then, and the copy was the newest
//! claim when the clock was read. (A CPU may load the number a little before it reads the counter,
//! by less than the margin of `tickline-core`'s contract for counters.) A reader that is overtaken
//! reads again. The thread never waits.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use crate::claim::{COUNTER_WORDS, Claim, WORDS};
use crate::{UtcReading, UtcUnknown};

const SLOTS: usize = 2;

/// The words of a claim.
#[derive(Debug)]
#[repr(align(64))]
struct Slot([AtomicU64; WORDS]);

/// Gives the newest claim to readers, who never wait. A reading by the counter makes no system
/// call; one by `CLOCK_MONOTONIC_RAW` makes those of its clock.
///
/// A reading is never made of two claims. It uses the claim that was the newest when the clock was
/// read: a claim that was withdrawn before is not used.
#[derive(Debug)]
pub(crate) struct ClaimLatch {
    /// The number of published claims. The newest is in the slot of this number, modulo `SLOTS`.
    newest: AtomicUsize,
    slots: [Slot; SLOTS],
}

/// The clock of a reading without the counter, and what may have disturbed it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawMoment {
    /// `CLOCK_MONOTONIC_RAW`, ns.
    pub(crate) raw_ns: i64,
    /// The hypervisor's disruption marker, read afterwards.
    pub(crate) marker: u64,
    /// The time for which the machine has been suspended since its start, ns, read afterwards;
    /// `None` if it is unknown.
    pub(crate) suspended_ns: Option<i64>,
}

impl ClaimLatch {
    /// A latch without a claim.
    pub(crate) const fn new() -> Self {
        let slots = [const { Slot([const { AtomicU64::new(0) }; WORDS]) }; SLOTS];
        Self {
            newest: AtomicUsize::new(0),
            slots,
        }
    }

    fn slot(&self, number: usize) -> &[AtomicU64; WORDS] {
        &self.slots[number % SLOTS].0
    }

    /// One thread at a time may call this.
    pub(crate) fn publish(&self, claim: &Claim) {
        // ORDERING: Relaxed, only this thread writes it.
        let number = self.newest.load(Ordering::Relaxed).wrapping_add(1);
        // ORDERING: Release, pairs with the Acquire fence in `read`. A reader that sees one of
        // the words below then also sees the number that was published before this one.
        fence(Ordering::Release);
        for (word, value) in self.slot(number).iter().zip(claim.to_words()) {
            // ORDERING: Relaxed, the fence above and the store below order it.
            word.store(value, Ordering::Relaxed);
        }
        // ORDERING: Release, pairs with the Acquire load in `read`: the words come with their
        // number.
        self.newest.store(number, Ordering::Release);
    }

    /// Readings fail with `reason` until the next claim. Only one thread at a time may call this
    /// and [`ClaimMaker::publish`](crate::claim_maker::ClaimMaker::publish): of two writers at once
    /// a reader may get a mixture.
    pub(crate) fn withdraw(&self, reason: UtcUnknown) {
        self.publish(&Claim::none(reason));
    }

    /// UTC by the counter. `read_ticks` reads it, after every earlier load; then `read_marker`
    /// reads the hypervisor's disruption marker. `None` if the counter does not serve, or no claim
    /// holds.
    #[inline(always)]
    pub(crate) fn read_by_counter(
        &self,
        read_ticks: impl FnMut() -> Option<u64>,
        read_marker: impl FnOnce() -> u64,
    ) -> Option<UtcReading> {
        let (claim, ticks) = self.read::<COUNTER_WORDS, _>(read_ticks)?;
        claim.if_undisturbed(read_marker())?.at_ticks(ticks)
    }

    /// UTC by `CLOCK_MONOTONIC_RAW`, which `clock` reads.
    ///
    /// # Errors
    ///
    /// [`UtcUnknown`] says why UTC is unknown: [`NoSource`](UtcUnknown::NoSource) if `clock`
    /// returns `None`.
    pub(crate) fn read_by_raw(
        &self,
        clock: impl FnMut() -> Option<RawMoment>,
    ) -> Result<UtcReading, UtcUnknown> {
        let (claim, now) = self.read::<WORDS, _>(clock).ok_or(UtcUnknown::NoSource)?;
        if claim.source.is_none() {
            return Err(claim.failure);
        }
        let claim = claim
            .if_undisturbed(now.marker)
            .ok_or(UtcUnknown::Disrupted)?;
        let suspended_ns = now.suspended_ns.ok_or(UtcUnknown::Expired)?;
        if claim.is_before_suspend(suspended_ns) {
            return Err(UtcUnknown::Disrupted);
        }
        claim.at_raw(now.raw_ns).ok_or(claim.failure)
    }

    /// The newest claim, and the time that `clock` returns. The claim is still the newest after the
    /// call of `clock`, so it was not withdrawn before. If another claim was published meanwhile,
    /// the function copies that one, and calls `clock` again. `None` if `clock` returns `None`.
    /// Only the first `COUNT` words of the claim are copied; the others are 0.
    #[inline(always)]
    fn read<const COUNT: usize, T>(
        &self,
        mut clock: impl FnMut() -> Option<T>,
    ) -> Option<(Claim, T)> {
        loop {
            // ORDERING: Acquire, pairs with the Release store in `publish`.
            let number = self.newest.load(Ordering::Acquire);
            // Before the copy: the counter's ordered read then waits for one load, not for nine.
            let time = clock()?;
            let mut words = [0; WORDS];
            for (copy, word) in words[..COUNT].iter_mut().zip(self.slot(number)) {
                // ORDERING: Relaxed, the load above and the fence below order them.
                *copy = word.load(Ordering::Relaxed);
            }
            // ORDERING: Acquire, pairs with the Release fence in `publish`.
            fence(Ordering::Acquire);
            // ORDERING: Relaxed, the fence above orders it.
            if self.newest.load(Ordering::Relaxed) == number {
                return Some((Claim::from_words(&words), time));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UtcSource;
    use crate::claim_maker::ClaimMaker;
    use crate::claim_maker::tests::{moment, next_claim, report_of};

    #[test]
    fn ordering_a_copy_is_one_claim_and_the_newest() {
        // With fewer publications, Miri lets no reader be overtaken.
        const LAST: u64 = 24;
        let latch = ClaimLatch::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=LAST {
                    let mut words = [number; WORDS];
                    // Neither is a plain number: the source with TAI's offset, and the reason.
                    [words[COUNTER_WORDS - 1], words[WORDS - 1]] = [0; 2];
                    latch.publish(&Claim::from_words(&words));
                }
            });
            let mut newest = 0;
            while newest < LAST {
                let part = latch
                    .read::<COUNTER_WORDS, _>(|| Some(()))
                    .unwrap()
                    .0
                    .to_words();
                assert!(
                    part[..COUNTER_WORDS - 1]
                        .iter()
                        .all(|word| *word == part[0]),
                    "{part:?}"
                );
                let words = latch.read::<WORDS, _>(|| Some(())).unwrap().0.to_words();
                let same = [
                    &words[..COUNTER_WORDS - 1],
                    &words[COUNTER_WORDS..WORDS - 1],
                ]
                .concat();
                assert!(same.iter().all(|word| *word == same[0]), "{words:?}");
                assert!(same[0] >= newest, "{} after {newest}", same[0]);
                newest = same[0];
            }
        });
    }

    /// A latch with the claim that chronyd makes in the first second, when the marker is 0 and the
    /// machine was never suspended.
    fn latch_with_claim() -> ClaimLatch {
        let mut maker = ClaimMaker::default();
        let latch = ClaimLatch::new();
        let [_, claim] = [0, 1].map(|seconds| {
            next_claim(&mut maker, &moment(seconds), report_of(0, 0), 1_000_000_000)
        });
        latch.publish(&claim.unwrap());
        latch
    }

    /// The source of a reading by `CLOCK_MONOTONIC_RAW`, 1 us after that claim.
    fn source_by_raw(marker: u64, suspended_ns: Option<i64>) -> Result<UtcSource, UtcUnknown> {
        let now = RawMoment {
            raw_ns: moment(1).raw_ns + 1_000,
            marker,
            suspended_ns,
        };
        let reading = latch_with_claim().read_by_raw(|| Some(now));
        reading.map(|reading| reading.source)
    }

    /// The source of a reading by the counter, at that claim.
    fn source_by_counter(marker: u64) -> Option<UtcSource> {
        let reading = latch_with_claim().read_by_counter(|| moment(1).ticks, || marker);
        reading.map(|reading| reading.source)
    }

    #[test]
    fn a_reading_is_by_the_claim_if_nothing_has_disturbed_the_machine() {
        assert_eq!(source_by_raw(0, Some(0)), Ok(UtcSource::Chronyd));
        assert_eq!(source_by_counter(0), Some(UtcSource::Chronyd));
    }

    #[test]
    fn a_reading_fails_if_the_machine_was_moved_since_the_claim() {
        assert_eq!(source_by_raw(7, Some(0)), Err(UtcUnknown::Disrupted));
        assert_eq!(source_by_counter(7), None);
    }

    #[test]
    fn a_reading_by_the_os_fails_if_the_machine_was_suspended_since_the_claim() {
        let suspended_ns = Some(1_000_000_000);
        assert_eq!(source_by_raw(0, suspended_ns), Err(UtcUnknown::Disrupted));
    }

    #[test]
    fn a_reading_by_the_os_fails_if_the_time_suspended_is_unknown() {
        assert_eq!(source_by_raw(0, None), Err(UtcUnknown::Expired));
    }

    /// A reader sleeps between the claim and the clock, and meanwhile the claim is withdrawn.
    #[test]
    fn a_claim_is_the_newest_when_the_clock_is_read_after_it() {
        let latch = ClaimLatch::new();
        let mut clocks = [UtcUnknown::Disrupted, UtcUnknown::Expired].into_iter();
        let read = latch.read::<WORDS, _>(|| {
            clocks
                .next()
                .into_iter()
                .for_each(|failure| latch.publish(&Claim::none(failure)));
            Some(())
        });
        assert_eq!(
            read.map(|(claim, ())| claim.failure),
            Some(UtcUnknown::Expired)
        );
    }
}
