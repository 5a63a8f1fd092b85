//! The state of a clock: 128 bits that are the line itself, and change as one.
//!
//! ```text
//! 127                        64 63                       16 15         0
//! [ b: ns, two's complement   ] [ m: slope                | tag        ]   16 bytes, aligned to 16
//!
//! ns = ((ticks << s) * m >> 64) + b        the unit of m is 2^-(64-s) ns a tick
//! ```
//!
//! `DESIGN.md`, section "The state", explains the formula; `s` is [`SHIFT`]. The tag:
//!
//! ```text
//! 15  6   5         4        3      2          1              0
//! [ count | no Unix | barred | slot | changing | fast path Unix | fast path ]
//! ```
//!
//! | phase | `m` | `changing` | `b` | threads that may read the counter |
//! |---|---|---|---|---|
//! | no line | tag alone | 0 | the high-water mark, exactly | no thread |
//! | first publication | tag alone | 1 | the high-water mark | the writer |
//! | published | the line's | 0 | the line's | every thread |
//! | replacing | the line's | 1 | the line's | the writer, and readers that help |
//!
//! The bits `fast path` and `fast path Unix` let a reading use a published line, for monotonic and
//! for Unix time.
//!
//! # A state is its own proof
//!
//! A thread that has loaded a state, and the slot that it names, needs no other thread to convert
//! ticks, to help, or to retire the line.
//!
//! A **life** of a state lasts from the swap that sets it to the swap that replaces it. For a
//! reading, **each life of a state means the same**. Suppose that a reader loads state S, is
//! stopped while other lines come and go, and finds S again at its second load. No earlier reading
//! is above the line of S at the first load, and no later reading is below that line at the second
//! load. The reader's tick lies between the two loads, so its reading is in order. The same holds
//! for a high-water mark.
//!
//! A swap whose new value was computed from a tick needs more: it must not take a later life of the
//! state for the one in which the tick was read (rule 10 of `DESIGN.md`, section "Order"). The
//! count in the tag therefore rises with each line, and each time that the clock is unbarred.
//!
//! # Where a load may be split
//!
//! Not every processor loads 16 bytes as one: x86_64 without AVX, aarch64 without LSE2, and
//! emulators, may load two halves. On x86_64 the second load always loads two halves.
//!
//! **What can happen.** Only on aarch64 without LSE2 (Cortex-A72, Neoverse N1) can a reading use
//! the `m` of one line and the `b` of another. Such a reading may be off by any time, backwards
//! too, and nothing reports it. It takes three things at once, which are listed below. The third
//! one alone is a coincidence: the lines before and after a line have the same 64-bit `b`, to the
//! nanosecond. A test tries all orders of half loads in short histories, and finds no other case
//! (`no_mixture_of_split_loads_is_used`). On every other processor a reading is by one line.
//!
//! **Why.** A state's life begins with the swap that sets it, and ends with the next swap. Each
//! swap changes `m`, whose count rises with each line. So two loads that return the same `m` belong
//! to one life of a state, with two exceptions: they may be 1,024 lines apart (rule 10), or belong
//! to different first publications that were given up, which leave `b` as it was. A reading counts
//! only if both loads also return the same `b`.
//!
//! - On x86_64 the second load reads `b` before `m`, so this `b` was read between the two reads of
//!   `m`, and belongs to that `m`. The order in which the first load read its halves does not
//!   matter.
//! - aarch64 without LSE2 may read the halves in any order. At least one of the two loads has read
//!   `b` in that life of the state, unless all three of the following hold: (1) a publication falls
//!   between the two halves of each load; (2) the two loads read their halves in opposite orders;
//!   (3) the lines before and after the line of `m` have the same `b`.
//!
//! A swap fails if it expects a mixture.
//!
//! # The interface
//!
//! `AtomicState` is a 128-bit atomic with three operations: load, compare-and-swap, and a check
//! that the state is unchanged (`is_still`). Only the holder of the clock's lock swaps in a
//! published line, which the portable state relies on. Beside it, `in_register` keeps the state's
//! address in a register, where the compiler would compute it twice. The protocol above it
//! (`cell.rs`, [`shared`](crate::shared), [`control`](crate::control)) is the same code for every
//! target.
//!
//! | target | load | swap | file |
//! |---|---|---|---|
//! | x86_64 | `movdqa`; the second load: two `cmp` | `lock cmpxchg16b` | `x86_64.rs` |
//! | x86_64 without `cmpxchg16b` | there is never a line: see [`has_atomics`] | none | `x86_64.rs` |
//! | aarch64 | `ldp`, `dmb ishld` | `ldaxp`, `stlxp` | `aarch64.rs` |
//! | others, x86_64 without SSE (kernels), Miri | 64-bit loads of one of two pairs, or of the high-water mark | a compare-and-swap of the word that has the tag and names the pair | `portable.rs` |
//! | loom | an atomic index into a list of all states so far | the compare-and-swap of that index | `modelled.rs` |
//!
//! | access | ordering | pairs with |
//! |---|---|---|
//! | load | acquire | a swap: the loading thread sees all that the swapping thread did before |
//! | is still | earlier loads, and on aarch64 the counter, come before it | a writer's stores to a slot |
//! | swap | acquire and release | both; the counter is read after it |
//!
//! # Rejected
//!
//! | option | price |
//! |---|---|
//! | The swap instruction as a load, and only the slow path, for processors that may split a load of 16 bytes | Readings store to a shared cache line. Neoverse N1, Cortex-A72 and every emulated guest have no fast path. In return no reading could mix two states, as in the three conditions above |
//! | A second load of only `m` | It saves two instructions, but order would rest on the count |
//! | A shift for each target: 0 or 4 on x86_64 | The simulator, the fuzzer and most tests would not run the arithmetic that is shipped. 0 saves one instruction; but processors whose counter is below 1 GHz (Intel N100: 806 MHz) would have no line. 4 only makes the wrap of the ticks eight times as rare |
//! | `casp`, `amocas.q` (aarch64, riscv64) | They gain nothing, because swaps are rare. Zacas has no 16-byte load, and without such a load a reading would write |
//! | The count does not rise when the clock is unbarred: each such change raises the tick instead | If the clock is barred and unbarred faster than a slow counter ticks, the high-water mark moves seconds ahead |
//!
//! Sources: Intel SDM vol. 3A, 10.1.1 "Guaranteed Atomic Operations" (aligned 16-byte loads are
//! atomic on processors that enumerate AVX); AMD APM vol. 2, 7.3.2 "Access Atomicity" (the same);
//! Arm ARM (DDI 0487) B2.2.1 and FEAT_LSE2 (an aligned `ldp` of 16 bytes is single-copy atomic).

use crate::line::Slope;
use crate::units::{FRACTION_BITS, FixedNs};

// The machine's own atomic. Loom gets an exact model of it, other targets the portable atomic.
#[cfg_attr(loom, path = "state/modelled.rs")]
#[cfg_attr(
    all(not(any(loom, miri)), target_arch = "aarch64"),
    path = "state/aarch64.rs"
)]
#[cfg_attr(
    all(not(any(loom, miri)), target_arch = "x86_64", target_feature = "sse2"),
    path = "state/x86_64.rs"
)]
#[cfg_attr(
    all(
        not(loom),
        any(
            miri,
            not(any(
                target_arch = "aarch64",
                all(target_arch = "x86_64", target_feature = "sse2")
            ))
        )
    ),
    path = "state/portable.rs"
)]
pub(crate) mod native;
#[cfg(test)]
#[allow(
    clippy::duplicate_mod,
    dead_code,
    unreachable_pub,
    reason = "tested by itself, next to the machine's own atomic or its model"
)]
pub(crate) mod portable;
// Not in `portable`: where the native state is the portable one, that file is compiled twice.
#[cfg(all(test, not(loom)))]
mod portable_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use native::has_atomics;
pub(crate) use native::{AtomicState, in_register};

const TAG_BITS: u32 = 16;
/// The number of bits by which a line shifts the ticks before it multiplies them. Each bit more
/// allows counters of half the frequency, but halves the time until the shifted ticks wrap, and
/// doubles the tag's share of the rate. With 7,
///
/// - a slope is below 2^7 ns a tick, so counters above 7.8125 MHz have a line;
/// - `ticks << 7` wraps after 2^57 ticks: 333 days at 5 GHz, 1.5 years at 3 GHz, 4.57 years at 1
///   GHz;
/// - the tag takes 7 of the slope's 48 binary places, 2^-41 ns a tick: 4.5e-13 of the rate at 1
///   GHz, 2.3e-12 at 5 GHz, 4.5e-12 at 10 GHz, or 0.0045 ns a second.
pub const SHIFT: u32 = 7;
/// The number of ticks after which `ticks << SHIFT` wraps, less one. No line is in use across the
/// wrap, so a clock then has no line for about 50 us.
pub const WRAP_MASK: u64 = u64::MAX >> SHIFT;

/// The number of additional binary places of a product's low half, compared with a slope.
const UNUSED_BITS: u32 = 64 - FRACTION_BITS;

const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const FAST_PATH: u64 = 1;
const FAST_PATH_UNIX: u64 = 1 << 1;
const CHANGING: u64 = 1 << 2;
/// Also the distance of the two slots in memory, bytes, so that a reader computes the address of
/// its slot by one mask.
const SLOT: u64 = 1 << 3;
/// No line may be used or published, because a gate is closed (other than `UnixCost` and
/// `Calibration`) or must be judged again.
const BARRED: u64 = 1 << 4;
/// The line leaves Unix time to the OS clock. The bit stays while the line is being replaced, so
/// that the line's `m` can be computed from the state.
const NO_UNIX: u64 = 1 << 5;
const COUNT: u64 = 1 << 6;
const COUNT_MASK: u64 = TAG_MASK & !(COUNT - 1);

const _: () = assert!(SLOT == 8 && size_of::<u64>() == 8);

/// The phase of a [`LineState`], which says what threads may do. The [module](self) has all four.
/// Code that reads the state must handle each of them, so another one is a breaking change.
///
/// ```
/// use tickline_core::cell::{LineCell, StateCell};
/// use tickline_core::shared::SharedClock;
/// use tickline_core::state::Phase;
///
/// let clock: SharedClock = SharedClock::new(LineCell::new());
/// assert_eq!(clock.cell().load().phase(), Phase::NoLine);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No line: readers return the reference, never below the high-water mark.
    NoLine,
    /// A writer is about to publish the first line: readers wait for a limited time, then go on
    /// without it.
    FirstPublication,
    /// The line is being replaced or ended: readers wait two microseconds for a writer, then end
    /// it.
    Replacing,
    /// Every reader may use the line.
    Published,
}

/// The state of a clock. The [module](self) has its layout. The fields are public, because each
/// pair of words is a value that a processor may load (in two halves), and a simulator makes all of
/// them.
///
/// ```
/// use tickline_core::line::Slope;
/// use tickline_core::state::{LineState, Phase};
///
/// let empty = LineState::default();
/// assert_eq!((empty.phase(), empty.b), (Phase::NoLine, i64::MIN), "no line, and no time returned yet");
/// let line = empty.next_line(Slope::from_hz(1_000_000_000).unwrap()).unwrap();
/// assert!(line.is_published() && !line.is_barred());
/// assert_eq!(empty.next_line(Slope::from_hz(7_000_000).unwrap()), None, "the counter is too slow");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C, align(16))]
pub struct LineState {
    /// The line's slope, and the tag.
    pub m: u64,
    /// The line at tick 0, ns; without a line, the high-water mark.
    pub b: i64,
}

impl Default for LineState {
    /// The state of a new clock: no line, and a high-water mark below every time.
    fn default() -> Self {
        Self { m: 0, b: i64::MIN }
    }
}

impl LineState {
    /// The state of a line with this slope and `b` = 0 that follows this state, in the other slot.
    /// `None` if the slope does not fit, because the counter is too slow, or if it is almost 0.
    #[must_use]
    pub fn next_line(self, slope: Slope) -> Option<Self> {
        let bits = slope.bits;
        if bits >> (FRACTION_BITS + SHIFT) != 0 {
            return None;
        }
        let m = bits << (UNUSED_BITS - SHIFT) & !TAG_MASK;
        if m == 0 {
            return None;
        }
        let slot = (self.m & SLOT) ^ SLOT;
        let count = self.m.wrapping_add(COUNT) & COUNT_MASK;
        Some(Self {
            m: m | FAST_PATH | FAST_PATH_UNIX | slot | count,
            b: 0,
        })
    }

    /// This published line without Unix time, which the OS clock then serves.
    pub(crate) const fn without_unix(self) -> Self {
        Self {
            m: self.m & !FAST_PATH_UNIX | NO_UNIX,
            b: self.b,
        }
    }

    /// The state that announces the replacement of this line.
    pub(crate) const fn replacing(self) -> Self {
        Self {
            m: self.m & !(FAST_PATH | FAST_PATH_UNIX) | CHANGING,
            b: self.b,
        }
    }

    /// The state without a line that follows this one.
    pub(crate) const fn without_line(self, high_water_ns: i64) -> Self {
        Self {
            m: self.m & (SLOT | BARRED | COUNT_MASK),
            b: high_water_ns,
        }
    }

    /// The state that announces the first line after this one. Until that line is published or
    /// given up, no reading takes its time from the reference.
    pub(crate) const fn first_publication(self) -> Self {
        Self {
            m: self.m | CHANGING,
            b: self.b,
        }
    }

    /// The state to which a first publication goes back: the one before it.
    pub(crate) const fn given_up(self) -> Self {
        Self {
            m: self.m & !CHANGING,
            b: self.b,
        }
    }

    /// This state, barred. A published line is then being replaced, because a barred clock has no
    /// line in use.
    pub(crate) const fn barred(self) -> Self {
        let state = if self.is_published() {
            self.replacing()
        } else {
            self
        };
        Self {
            m: state.m | BARRED,
            b: state.b,
        }
    }

    /// This state without a line, no longer barred. The change is counted.
    pub(crate) const fn unbarred(self) -> Self {
        Self {
            m: self.m & !(COUNT_MASK | BARRED) | self.m.wrapping_add(COUNT) & COUNT_MASK,
            b: self.b,
        }
    }

    /// Whether there is a line, in use or not.
    const fn has_line(self) -> bool {
        self.m > TAG_MASK
    }

    /// The phase of this state.
    #[must_use]
    pub const fn phase(self) -> Phase {
        match (self.has_line(), self.m & CHANGING != 0) {
            (false, false) => Phase::NoLine,
            (false, true) => Phase::FirstPublication,
            (true, false) => Phase::Published,
            (true, true) => Phase::Replacing,
        }
    }

    /// Whether readers may use the state's line.
    #[must_use]
    pub const fn is_published(self) -> bool {
        matches!(self.phase(), Phase::Published)
    }

    /// Whether the fast path may use this state's line.
    #[inline(always)]
    pub(crate) const fn allows_fast_path(self) -> bool {
        self.m & FAST_PATH != 0
    }

    /// Whether the fast path may use this state's line for Unix time.
    #[inline(always)]
    pub(crate) const fn allows_fast_unix(self) -> bool {
        self.m & FAST_PATH_UNIX != 0
    }

    /// Whether the clock is barred: no writer publishes a line, and no reading uses one.
    #[must_use]
    pub const fn is_barred(self) -> bool {
        self.m & BARRED != 0
    }

    /// The slot in use; without a line, the slot of the last line.
    #[inline(always)]
    pub(crate) const fn slot(self) -> usize {
        (self.m & SLOT != 0) as usize
    }

    /// The `m` of this state's line while it is published.
    const fn line_m(self) -> u64 {
        let fast = if self.m & NO_UNIX == 0 {
            FAST_PATH | FAST_PATH_UNIX
        } else {
            FAST_PATH
        };
        self.m & !(CHANGING | BARRED) | fast
    }

    /// A published line at `ticks`, ns, rounded down. Wraps with [`WRAP_MASK`].
    #[inline(always)]
    pub(crate) const fn fast_at(self, ticks: u64) -> i64 {
        // BOUND: the product of two 64-bit numbers fits into 128 bits; its high half is below 2^64.
        high(product(ticks, self.m))
            .cast_signed()
            .wrapping_add(self.b)
    }

    /// The line of a state in any phase at `ticks`, ns, rounded down. Wraps with [`WRAP_MASK`].
    pub(crate) const fn ns_at(self, ticks: u64) -> i64 {
        Self {
            m: self.line_m(),
            b: self.b,
        }
        .fast_at(ticks)
    }

    /// The line at `ticks`, rounded down to a fraction.
    pub(crate) fn fixed_at(self, ticks: u64) -> FixedNs {
        let product = product(ticks, self.line_m());
        FixedNs::from_parts(self.ns_at(ticks), low(product) >> UNUSED_BITS)
    }

    /// The line's slope, its tag rounded off.
    pub(crate) const fn slope(self) -> Slope {
        Slope {
            bits: (self.m & !TAG_MASK) >> (UNUSED_BITS - SHIFT),
        }
    }

    /// The least `b` with which this line is not below `time` at `ticks`.
    pub(crate) fn b_not_below_time(self, ticks: u64, time: FixedNs) -> i64 {
        let product = product(ticks, self.line_m());
        let (whole_ns, fraction) = time.parts();
        let up = i64::from(fraction << UNUSED_BITS > low(product));
        whole_ns
            .wrapping_sub(high(product).cast_signed())
            .wrapping_add(up)
    }

    /// The least `b` with which this line is not below the line of `old` at `ticks`, whole
    /// nanoseconds or not (rule 9).
    pub(crate) fn b_not_below_line(self, old: Self, ticks: u64) -> i64 {
        let (steeper, flatter, sign) = if self.line_m() > old.line_m() {
            (self, old, -1_i64)
        } else {
            (old, self, 1)
        };
        let product = product(ticks, steeper.line_m().wrapping_sub(flatter.line_m()));
        // A steeper old line may be above by a fraction of a nanosecond: round up.
        let up = i64::from(sign > 0 && low(product) > 0);
        old.b
            .wrapping_add(sign.wrapping_mul(high(product).cast_signed()))
            .wrapping_add(up)
    }

    /// This state with another `b`.
    pub(crate) const fn with_b(self, b: i64) -> Self {
        Self { m: self.m, b }
    }

    /// Without a line: the high-water mark, ns, which no reading may be below.
    pub(crate) const fn high_water_ns(self) -> i64 {
        self.b
    }
}

#[inline(always)]
const fn product(ticks: u64, m: u64) -> u128 {
    ((ticks << SHIFT) as u128).wrapping_mul(m as u128)
}

#[inline(always)]
const fn high(product: u128) -> u64 {
    (product >> 64) as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is asked for")]
const fn low(product: u128) -> u64 {
    product as u64
}
