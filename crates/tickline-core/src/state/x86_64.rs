//! x86_64: one `movdqa` loads a state, one `pcmpeqd` looks at it again, `lock cmpxchg16b` swaps it.

use core::arch::x86_64::{__m128i, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpackhi_epi64};
use core::cell::UnsafeCell;

use super::LineState;
use crate::counter::cpuid;
use crate::primitive::{AtomicU64, Ordering};

/// 16 bytes, each access to which is one instruction. See the [module](super).
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct AtomicState(UnsafeCell<[u64; 2]>);

// SAFETY: the content is reached only by `load_value`, `is_still` and `exchange`, by one
// instruction each, from any thread. A look may be split, which the protocol allows for.
unsafe impl Sync for AtomicState {}

/// What [`is_supported`] has found: 1 for yes, 2 for no; 0 before.
static SUPPORTED: AtomicU64 = AtomicU64::new(0);

/// Whether this processor can swap a state: CPUID leaf 1, ECX bit 13 (CMPXCHG16B). Without it there
/// is never a line.
#[must_use]
pub fn is_supported() -> bool {
    const CMPXCHG16B: u32 = 1 << 13;
    // ORDERING: Relaxed, a value on its own.
    let mut known = SUPPORTED.load(Ordering::Relaxed);
    if known == 0 {
        known = if cpuid(1, 0).ecx & CMPXCHG16B == 0 { 2 } else { 1 };
        // ORDERING: Relaxed, a value on its own.
        SUPPORTED.store(known, Ordering::Relaxed);
    }
    known == 1
}

impl AtomicState {
    /// No line, and a high-water mark of 0 ns.
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new([0; 2]))
    }

    /// The state, by one load.
    #[inline(always)]
    pub(crate) fn load(&self) -> LineState {
        let value = self.load_value();
        // SAFETY: SSE2 is a feature of this target.
        let m = unsafe { _mm_cvtsi128_si64(value) };
        // SAFETY: as above.
        let high = unsafe { _mm_unpackhi_epi64(value, value) };
        // SAFETY: as above.
        let b = unsafe { _mm_cvtsi128_si64(high) };
        LineState { m: m.cast_unsigned(), b }
    }

    /// Whether the state is `state`, after every earlier load. It compares with memory, which takes
    /// an instruction less than a load and a comparison, unless the compiler copies the first look
    /// to keep it. Intel does not promise that this instruction loads its 16 bytes as one, and none
    /// of that is needed: the first look was whole, so `m` alone distinguishes its state from the
    /// next 1,023. When that half was loaded, the state was `state`. Where the first look may be
    /// split as well, see the [module](super).
    #[inline(always)]
    pub(crate) fn is_still(&self, state: LineState) -> bool {
        // SAFETY: as in `load`. The compiler finds that the parts of `state` were one register, and
        // makes nothing of this.
        let seen = unsafe { _mm_set_epi64x(state.b, state.m.cast_signed()) };
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
    pub(crate) fn swap(&self, from: LineState, to: LineState) -> bool {
        is_supported() && self.exchange(from, to) == from
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
    fn exchange(&self, from: LineState, to: LineState) -> LineState {
        let (mut m, mut b) = (from.m, from.b.cast_unsigned());
        // Not `core::arch::x86_64::cmpxchg16b`: without optimisation that calls into libatomic.
        // SAFETY: callers have made sure that the processor has CMPXCHG16B. The pointer is valid
        // and aligned to 16. RBX, which the compiler keeps for itself, is swapped with RSI and
        // back; the pointer is in RDI and so not in RBX.
        // ORDERING: acquire and release: the locked instruction is a full barrier. Pairs with
        // `load_value`.
        unsafe {
            core::arch::asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "mov rbx, rsi",
                in("rdi") self.0.get(),
                inout("rsi") to.m => _,
                in("rcx") to.b.cast_unsigned(),
                inout("rax") m,
                inout("rdx") b,
                options(nostack),
            );
        }
        LineState { m, b: b.cast_signed() }
    }
}

impl core::panic::RefUnwindSafe for AtomicState {}
