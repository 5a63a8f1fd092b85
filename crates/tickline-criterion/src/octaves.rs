//! Counts of lengths by octave.

/// The number of octaves. Octave 0 has the length 0. Octave `k` has the lengths from 2^(k-1) to
/// 2^k - 1.
pub(crate) const OCTAVES: usize = 65;

/// The number of lengths in each octave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Octaves([u64; OCTAVES]);

impl Default for Octaves {
    fn default() -> Self {
        Self([0; OCTAVES])
    }
}

/// The octave of a length.
pub(crate) fn octave_of(length: u64) -> usize {
    crate::number::index((u64::BITS - length.leading_zeros()).into())
}

impl Octaves {
    /// Counts a length.
    pub(crate) fn add(&mut self, length: u64) {
        self.0[octave_of(length)] += 1;
    }

    /// The number of lengths in this octave.
    pub(crate) fn count_in(&self, octave: usize) -> u64 {
        self.0[octave]
    }

    /// The number of lengths in this octave and in higher ones.
    pub(crate) fn count_from(&self, octave: usize) -> u64 {
        self.0[octave..].iter().sum()
    }

    /// The number of all lengths.
    pub(crate) fn total(&self) -> u64 {
        self.count_from(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_octave_ends_below_twice_its_shortest_length() {
        for (length, octave) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (u64::MAX, 64)] {
            assert_eq!(octave_of(length), octave, "{length}");
        }
    }

    #[test]
    fn lengths_are_counted_in_an_octave_and_from_it_on() {
        let mut octaves = Octaves::default();
        for length in [0, 5, 6, 100] {
            octaves.add(length);
        }
        let in_each = [0, 3, 4, 7, 8].map(|octave| octaves.count_in(octave));
        assert_eq!(in_each, [1, 2, 0, 1, 0]);
        let from_each = [0, 3, 4, 7, 8].map(|octave| octaves.count_from(octave));
        assert_eq!(from_each, [4, 3, 1, 1, 0]);
        assert_eq!(octaves.total(), 4);
    }
}
