//! What a program has decided about the gates, packed so that it can be read without a lock.

use tickline_core::gate::Trust;

/// Whose word counts, and what the program does without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Policy {
    pub(crate) trust: Trust,
    pub(crate) invariant_waived: bool,
}

const WAIVED: u8 = 1 << 7;

impl Policy {
    /// What every clock has unless told otherwise.
    pub(crate) const DEFAULT: Self = Self { trust: Trust::Auto, invariant_waived: false };

    pub(crate) const fn to_bits(self) -> u8 {
        let trust = match self.trust {
            Trust::Kernel => 0,
            Trust::Measured => 2,
            _ => 1,
        };
        if self.invariant_waived { trust | WAIVED } else { trust }
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        let trust = match bits & !WAIVED {
            0 => Trust::Kernel,
            2 => Trust::Measured,
            _ => Trust::Auto,
        };
        Self { trust, invariant_waived: bits & WAIVED != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_survives_being_packed() {
        for trust in [Trust::Kernel, Trust::Auto, Trust::Measured] {
            for invariant_waived in [false, true] {
                let policy = Policy { trust, invariant_waived };
                assert_eq!(Policy::from_bits(policy.to_bits()), policy);
            }
        }
        assert_eq!(Policy::DEFAULT, Policy::default());
    }
}
