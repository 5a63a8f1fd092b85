//! x86_64: one `movdqa` loads a state, one `pcmpeqd` looks at it again, `lock cmpxchg16b` swaps it.

use core::arch::x86_64::{__cpuid, __m128i, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpackhi_epi64};
use core::cell::UnsafeCell;
use core::fmt;

use super::{State, Support};
use crate::primitive::{AtomicU64, Ordering};
use crate::units::{signed, unsigned};

/// 16 bytes, each access to which is one instruction. See the [module](super).
#[repr(C, align(16))]
pub(crate) struct AtomicState(UnsafeCell<[u64; 2]>);

// SAFETY: the content is reached only by `load_value`, `is_still` and `exchange`, by one instruction
// each, from any thread. A look may be split, which the protocol allows for.
unsafe impl Sync for AtomicState {}

/// What [`support`] has found, counted from 1; 0 before.
static SUPPORT: AtomicU64 = AtomicU64::new(0);

/// What this processor offers: CPUID leaf 1, ECX bit 13 (CMPXCHG16B).
#[must_use]
pub fn support() -> Support {
    // ORDERING: Relaxed, a value on its own.
    match SUPPORT.load(Ordering::Relaxed) {
        1 => Support::Present,
        2 => Support::Missing,
        _ => detect(),
    }
}

#[cold]
fn detect() -> Support {
    const CMPXCHG16B: u32 = 1 << 13;
    #[allow(unused_unsafe, reason = "the intrinsic is unsafe on the oldest supported compiler only")]
    // SAFETY: every x86_64 processor has CPUID.
    let features = unsafe { __cpuid(1) }.ecx;
    let (support, number) =
        if features & CMPXCHG16B == 0 { (Support::Missing, 2) } else { (Support::Present, 1) };
    // ORDERING: Relaxed, a value on its own.
    SUPPORT.store(number, Ordering::Relaxed);
    support
}

impl AtomicState {
    /// No line, and a high-water mark of 0 ns.
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new([0; 2]))
    }

    /// The state, by one load.
    #[inline(always)]
    #[must_use]
    pub(crate) fn load(&self) -> State {
        let value = self.load_value();
        #[allow(unused_unsafe, reason = "these are unsafe on the oldest supported compiler only")]
        // SAFETY: SSE2 is a feature of this target.
        let low = unsafe { _mm_cvtsi128_si64(value) };
        #[allow(unused_unsafe, reason = "as above")]
        // SAFETY: as above.
        let high = unsafe { _mm_unpackhi_epi64(value, value) };
        #[allow(unused_unsafe, reason = "as above")]
        // SAFETY: as above.
        let b = unsafe { _mm_cvtsi128_si64(high) };
        State { m: unsigned(low), b }
    }

    /// Whether the state is `state`, after every earlier load. By a comparison with memory: an
    /// instruction less than a load and a comparison, unless the compiler copies the first look to keep
    /// it. It is not among the instructions whose 16 bytes Intel promises to load as one. Nor need it
    /// be: the first look was whole, so `m` alone tells its state from every other one, up to 1,024
    /// lives. At the moment at which that half was loaded, the state was `state`. Where the first look
    /// may be split as well, see the [module](super).
    #[inline(always)]
    #[must_use]
    pub(crate) fn is_still(&self, state: State) -> bool {
        #[allow(unused_unsafe, reason = "unsafe on the oldest supported compiler only")]
        // SAFETY: SSE2 is a feature of this target. The compiler finds that the parts of `state`
        // were one register, and makes nothing of this.
        let seen = unsafe { _mm_set_epi64x(state.b, signed(state.m)) };
        let equal: u32;
        // SAFETY: as in `load_value`: `pcmpeqd` demands the same alignment. The other instruction
        // touches registers alone.
        // ORDERING: loads are not reordered with earlier loads (Intel SDM vol. 3A 10.2.2), nor by
        // the compiler, to which the block is a barrier. Pairs with the Release stores of a slot.
        unsafe {
            core::arch::asm!(
                "pcmpeqd {seen}, xmmword ptr [{state}]",
                "movmskps {equal:e}, {seen}",
                state = in(reg) self.0.get(),
                seen = inout(xmm_reg) seen => _,
                equal = lateout(reg) equal,
                options(nostack, preserves_flags),
            );
        }
        equal == 0b1111
    }

    /// Swaps `from` for `to`. Returns whether it happened: not if the state is another one, and
    /// never where the processor has no such instruction.
    pub(crate) fn swap(&self, from: State, to: State) -> bool {
        support() != Support::Missing && self.exchange(from, to) == from
    }

    #[inline(always)]
    fn load_value(&self) -> __m128i {
        let value: __m128i;
        // SAFETY: the pointer is valid for 16 bytes and aligned to 16, as `movdqa` demands. The
        // load is one instruction, outside of the language's memory model.
        // ORDERING: acquire: loads are not reordered with later loads (Intel SDM vol. 3A 10.2.2),
        // and the block, without `nomem` or `readonly`, is a barrier to the compiler. Pairs with
        // the swap in `exchange`.
        unsafe {
            core::arch::asm!(
                "movdqa {value}, xmmword ptr [{state}]",
                value = out(xmm_reg) value,
                state = in(reg) self.0.get(),
                options(nostack, preserves_flags),
            );
        }
        value
    }

    /// Swaps `from` for `to` if the state is `from`; returns the state that was found. Only where
    /// the processor has the instruction.
    fn exchange(&self, from: State, to: State) -> State {
        let (mut m, mut b) = (from.m, unsigned(from.b));
        // Not `core::arch::x86_64::cmpxchg16b`: without optimisation that calls into libatomic.
        // SAFETY: callers have made sure that the processor has CMPXCHG16B. The pointer is valid
        // and aligned to 16. RBX, which the compiler keeps for itself, is swapped with RSI and back;
        // the pointer is in RDI and so not in RBX.
        // ORDERING: acquire and release: the locked instruction is a full barrier. Pairs with
        // `load_value`.
        unsafe {
            core::arch::asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "mov rbx, rsi",
                in("rdi") self.0.get(),
                inout("rsi") to.m => _,
                in("rcx") unsigned(to.b),
                inout("rax") m,
                inout("rdx") b,
                options(nostack),
            );
        }
        State { m, b: signed(b) }
    }
}

impl core::panic::RefUnwindSafe for AtomicState {}

impl fmt::Debug for AtomicState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}
