//! Hashes a number by one multiplication with a random key.
//!
//! The default hasher takes several times as long. Without a key, as in `rustc-hash`, a hostile
//! file could choose spans, threads and callsites whose hashes are the same. Each lookup would then
//! take as long as there are such numbers.

use std::hash::{BuildHasher, Hasher, RandomState};

#[derive(Debug, Clone)]
pub(super) struct KeyedState(u64);

impl Default for KeyedState {
    fn default() -> Self {
        // Odd, so that no bit of a number is lost.
        Self(RandomState::new().hash_one(0) | 1)
    }
}

impl BuildHasher for KeyedState {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher {
            key: self.0,
            hash: 0,
        }
    }
}

/// The lower and the upper 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "see above")]
const fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

pub(super) struct KeyedHasher {
    key: u64,
    hash: u64,
}

impl Hasher for KeyedHasher {
    fn write_u64(&mut self, number: u64) {
        // BOUND: the product of two 64-bit numbers < 2^128.
        let product = u128::from(number) * u128::from(self.key);
        let [low, high] = halves(product);
        self.hash ^= low ^ high;
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Symptom: a file of a flight recorder, whose records had such addresses as callsites, took
    /// time as the square of its length.
    #[test]
    fn addresses_that_collide_without_a_key_have_different_hashes() {
        // The multiplier of `rustc-hash`. A table uses the lowest and the highest bits of the hash,
        // which are not the lowest of the product.
        const MULTIPLIER: u64 = 0xf135_7aea_2e62_a9c5;
        let inverse = (0..6).fold(1_u64, |inverse, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(MULTIPLIER.wrapping_mul(inverse)))
        });
        let address = |product: u64| product.wrapping_mul(inverse);
        assert_eq!(slots(&rustc_hash::FxBuildHasher, address), 1);
        assert!(slots(&KeyedState::default(), address) > 500);
    }

    /// The number of slots that 1,000 numbers take in a table of 2^20.
    fn slots(state: &impl BuildHasher, number: impl Fn(u64) -> u64) -> usize {
        let slot = |index| state.hash_one(number(index)) % (1 << 20);
        (0..1_000).map(slot).collect::<HashSet<_>>().len()
    }

    /// A table uses the lowest bits, which are 0 in the lower halves of these products.
    #[test]
    fn numbers_with_the_same_lower_half_have_different_hashes() {
        assert!(slots(&KeyedState::default(), |index| index << 32) > 500);
    }

    #[test]
    fn a_number_has_the_same_hash_in_either_type() {
        let keyed = KeyedState::default();
        assert_eq!(keyed.hash_one(7_usize), keyed.hash_one(7_u64));
    }

    /// An even key may be 0, with which all numbers have the same hash.
    #[test]
    fn every_key_is_odd() {
        assert!((0..64).all(|_| KeyedState::default().0 % 2 == 1));
    }
}
