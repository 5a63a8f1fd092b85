//! A counter of 64 bits, made from a register that wraps.

use core::cell::Cell;
use core::sync::atomic::{Ordering, compiler_fence};

use super::Counter;

/// A register of `BITS` bits that wraps, extended to 64.
///
/// ```
/// use tickline_core::counter::{Counter, Extended};
///
/// # use core::cell::Cell;
/// # let current = Cell::new(0xff_ffff_u32);
/// # let systick_current_value = || current.get();
/// // SysTick has 24 bits, and counts down.
/// let counter = Extended::<24, _>::new(|| !u64::from(systick_current_value()));
/// let before = counter.now();
/// # current.set(0); // one tick short of a wrap,
/// # assert_eq!(counter.now() - before, 0xff_ffff);
/// # current.set(0xff_fff0); // and past it
/// assert!(counter.now() > before);
/// # assert_eq!(counter.now() - before, (1 << 24) + 15);
/// ```
///
/// Microcontrollers count in 16, 24 or 32 bits (SysTick of Cortex-M: 24 bits, Armv7-M ARM B3.3).
/// The difference of two reads is known modulo one wrap. So a sum of differences is right as long
/// as the register is read at least once in every wrap:
///
/// ```text
/// ticks = last + ((register - last) mod 2^BITS)
/// ```
///
/// # The contract
///
/// The code that creates such a counter MUST
///
/// 1. read it at least once in each wrap. Each iteration reads it; a reading does so only while
///    there is a line. So either the interval between iterations is well below the wrap, or the
///    register's own interrupt reads the counter once in each wrap;
/// 2. keep interrupt handlers out of a read. A handler that reads the counter between the register
///    and the sum would make the sum jump by a wrap. (The counter is not [`Sync`], so a counter
///    that is shared with a handler is in a critical section already.)
/// 3. give a register that counts up at one rate, or the complement of a register that counts
///    down.
///
/// # When the contract is broken
///
/// | event | the counter | readings until the next iteration | the next iteration |
/// |---|---|---|---|
/// | wraps were missed | is behind by whole wraps | in order, but late by these wraps; right if the counter, too, is past the line's window | counts [`Disruption`], steps forward |
/// | the register was reset, or has lost less than a wrap | is ahead by less than a wrap | ahead by as much; right if the counter is then past the line's window | counts [`Disruption`], slews at half the rate or more |
///
/// Readings stay in order in all cases. The bounds are void until the next iteration, as after any
/// jump of a counter. The register does not show that a whole wrap is missing. The reference shows
/// it, but only iterations read the reference. So after a sleep that may have been longer than a
/// wrap, call [`iterate`](crate::control::Control::iterate) before the first reading. Repeat the
/// call until it has published a line, or the clock has no line. Then no reading is wrong. A jump
/// of less than 0.1 % of the time since the last iteration looks like a change of rate, and counts
/// only as [`BoundViolation`].
///
/// [`BoundViolation`]: crate::shared::Event::BoundViolation
/// [`Disruption`]: crate::shared::Event::Disruption
#[derive(Debug)]
pub struct Extended<const BITS: u32, R> {
    register: R,
    last_ticks: Cell<u64>,
}

impl<const BITS: u32, R: Fn() -> u64> Extended<BITS, R> {
    const MASK: u64 = {
        assert!(
            0 < BITS && BITS < 64,
            "a register has 1 to 63 bits, or needs no extension"
        );
        (1 << BITS) - 1
    };

    /// A counter over the register that `register` reads. Bits of the result above `BITS` are
    /// ignored. The count starts anywhere below one wrap. With `BITS` of 0, or of 64 or more, the
    /// call does not compile.
    #[must_use]
    pub fn new(register: R) -> Self {
        let last_ticks = Cell::new(register() & Self::MASK);
        Self {
            register,
            last_ticks,
        }
    }
}

impl<const BITS: u32, R: Fn() -> u64> Counter for Extended<BITS, R> {
    fn now(&self) -> u64 {
        let last_ticks = self.last_ticks.get();
        let passed_ticks = (self.register)().wrapping_sub(last_ticks) & Self::MASK;
        let ticks = last_ticks.wrapping_add(passed_ticks);
        self.last_ticks.set(ticks);
        ticks
    }

    /// Only the compiler must be kept from reordering: a thread sees its own accesses in order, and
    /// no other thread uses the counter, which is not `Sync`.
    fn barrier(&self) {
        // ORDERING: SeqCst, without a partner on another CPU. It keeps the compiler from moving the
        // register's read, or the use of its value, across the fence. A weaker ordering would allow
        // the move. No test sees a weaker one: the compiler seldom moves the read.
        compiler_fence(Ordering::SeqCst);
    }
}

// These tests are long and have only safe code: Miri would take minutes and find nothing.
#[cfg(all(test, not(miri)))]
mod tests;
