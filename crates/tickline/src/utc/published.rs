//! The newest claim: the clock's thread publishes it, readers copy it.
//!
//! A sequence lock over four slots: a ring, and the number of the newest. The thread writes the slot that was published
//! longest ago, and then its number. A reader copies the newest slot, and takes the copy if the
//! thread cannot have begun to overwrite that slot meanwhile. Claims come about once a second, so a
//! reader that has to try again was preempted in between, and it succeeds at the next try unless
//! that happens again.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use super::claim::{Claim, WORDS};

const SLOTS: usize = 4;

/// The words of a claim.
#[derive(Debug)]
#[repr(align(64))]
struct Slot([AtomicU64; WORDS]);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Published {
    /// How many claims were published. The newest is in the slot of this number, modulo `SLOTS`.
    newest: AtomicUsize,
    slots: [Slot; SLOTS],
}

impl Published {
    /// Nothing is published: all words are 0, which is a claim of nothing.
    pub(crate) const fn new() -> Self {
        let slots = [const { Slot([const { AtomicU64::new(0) }; WORDS]) }; SLOTS];
        Self { newest: AtomicUsize::new(0), slots }
    }

    fn slot(&self, number: usize) -> &[AtomicU64; WORDS] {
        &self.slots[number % SLOTS].0
    }

    /// One thread at a time may call this: the clock's own.
    pub(crate) fn publish(&self, claim: &Claim) {
        // ORDERING: Relaxed, nobody else writes it.
        let number = self.newest.load(Ordering::Relaxed).wrapping_add(1);
        // ORDERING: Release, pairs with the Acquire fence in `newest`. A reader that sees one of
        // the words below then also sees the number that was published before this one.
        fence(Ordering::Release);
        for (word, value) in self.slot(number).iter().zip(claim.to_words()) {
            // ORDERING: Relaxed, the fence above and the store below order it.
            word.store(value, Ordering::Relaxed);
        }
        // ORDERING: Release, pairs with the Acquire load in `newest`: the words come with their
        // number.
        self.newest.store(number, Ordering::Release);
    }

    /// A copy of the newest claim.
    pub(crate) fn newest(&self) -> Claim {
        Claim::from_words(&self.words::<0>())
    }

    /// A copy of the newest claim's words from `FIRST` on; those before it are 0.
    #[inline(always)]
    pub(crate) fn words<const FIRST: usize>(&self) -> [u64; WORDS] {
        loop {
            // ORDERING: Acquire, pairs with the Release store in `publish`.
            let number = self.newest.load(Ordering::Acquire);
            let mut words = [0; WORDS];
            for (copy, word) in words[FIRST..].iter_mut().zip(&self.slot(number)[FIRST..]) {
                // ORDERING: Relaxed, the load above and the fence below order them.
                *copy = word.load(Ordering::Relaxed);
            }
            // ORDERING: Acquire, pairs with the Release fence in `publish`.
            fence(Ordering::Acquire);
            // ORDERING: Relaxed, the fence above orders it. The slot is written anew only after
            // `SLOTS - 1` further numbers were published.
            let published = self.newest.load(Ordering::Relaxed).wrapping_sub(number);
            if published < SLOTS - 1 {
                return words;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordering_a_copy_is_one_claim_and_the_newest() {
        // As many as Miri needs to let a reader be overtaken.
        const LAST: u64 = 24;
        let published = Published::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=LAST {
                    let mut words = [number; WORDS];
                    words[WORDS - 1] = 0;
                    published.publish(&Claim::from_words(&words));
                }
            });
            let mut newest = 0;
            while newest < LAST {
                let words = published.newest().to_words();
                let [first, same @ ..] = words.first_chunk::<{ WORDS - 1 }>().unwrap();
                assert!(same.iter().all(|word| word == first), "{words:?}");
                assert!(*first >= newest, "{first} after {newest}");
                newest = *first;
            }
        });
    }
}
