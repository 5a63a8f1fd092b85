//! x86_64: one `movdqa` loads a state, two `cmp` load it again and compare, `lock cmpxchg16b` swaps
//! it.

use core::cell::UnsafeCell;

use super::LineState;
use crate::counter::arch::cpuid;
use crate::primitive::{AtomicU64, Ordering};

/// The 16 bytes of a state. The [module](super) says why a split load does no harm.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct AtomicState(UnsafeCell<[u64; 2]>);

// SAFETY: only `load`, `is_still` and `compare_exchange` reach the content, and any thread may call
// them. `compare_exchange` changes it by one instruction. A load may be split; the protocol allows
// for that.
unsafe impl Sync for AtomicState {}

/// The result of [`has_atomics`].
static HAS_ATOMICS: AtomicU64 = AtomicU64::new(UNKNOWN);

/// Before the first call.
const UNKNOWN: u64 = 0;
const YES: u64 = 1;
const NO: u64 = 2;

/// Whether this processor can swap a state: CPUID leaf 1, ECX bit 13 (CMPXCHG16B). Without this
/// instruction a clock never has a line.
#[must_use]
pub fn has_atomics() -> bool {
    const CMPXCHG16B: u32 = 1 << 13;
    // ORDERING: Relaxed, a value on its own.
    let mut known = HAS_ATOMICS.load(Ordering::Relaxed);
    if known == UNKNOWN {
        known = if cpuid(1, 0).ecx & CMPXCHG16B == 0 {
            NO
        } else {
            YES
        };
        // ORDERING: Relaxed, a value on its own.
        HAS_ATOMICS.store(known, Ordering::Relaxed);
    }
    known == YES
}

/// Returns `value`, with its address in a register from here on. Otherwise the compiler computes
/// the address of a static clock twice in each reading.
#[inline(always)]
pub(crate) fn in_register<T>(value: &T) -> &T {
    let mut address: *const T = value;
    // SAFETY: the block has no instruction, and leaves its operand as it is.
    unsafe {
        core::arch::asm!("/* {} */", inout(reg) address, options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: this is still the address of `value`, whose borrow the result keeps.
    unsafe { &*address }
}

impl AtomicState {
    /// No line, and this high-water mark.
    pub(crate) const fn new(high_water_ns: i64) -> Self {
        Self(UnsafeCell::new([0, high_water_ns.cast_unsigned()]))
    }

    /// The state, by one load. Both halves go to integer registers at once. Otherwise the compiler
    /// would move `b` only after the read of the counter, and a reading has more time before that.
    #[inline(always)]
    pub(crate) fn load(&self) -> LineState {
        let (m, b): (u64, i64);
        // SAFETY: the pointer is valid for 16 bytes and aligned to 16, as `movdqa` demands. The
        // load is one instruction, outside of the language's memory model.
        // ORDERING: acquire: loads are not reordered with later loads (Intel SDM vol. 3A 10.2.2),
        // and the block, without `nomem` or `readonly`, is a barrier to the compiler. Pairs with
        // the swap in `compare_exchange`.
        unsafe {
            core::arch::asm!(
                "movdqa {value}, xmmword ptr [{state}]",
                "movq {m}, {value}",
                "punpckhqdq {value}, {value}",
                "movq {b}, {value}",
                state = in(reg) self.0.get(),
                value = out(xmm_reg) _,
                m = out(reg) m,
                b = lateout(reg) b,
                options(nostack, preserves_flags),
            );
        }
        LineState { m, b }
    }

    /// Whether the state is `state`, after every earlier load. Compares both halves with memory,
    /// `b` first. If `m` is the same at both loads, one life of the state lasted from the first
    /// load to the second. So the `b` that was compared between them belongs to that life (see the
    /// [module](super)). Two comparisons of words take three cycles less than one comparison of a
    /// vector, whose result must come back to the integer registers.
    #[inline(always)]
    pub(crate) fn is_still(&self, state: LineState) -> bool {
        // SAFETY: the pointer is valid for 16 bytes. Each load is one instruction, outside of the
        // language's memory model. Nothing is written.
        // ORDERING: loads are not reordered with earlier loads (Intel SDM vol. 3A 10.2.2), nor by
        // the compiler, to which the block is a barrier. Pairs with the Release stores of a slot.
        unsafe {
            core::arch::asm!(
                "cmp qword ptr [{state} + 8], {b}",
                "jne {changed}",
                "cmp qword ptr [{state}], {m}",
                "jne {changed}",
                state = in(reg) self.0.get(),
                b = in(reg) state.b,
                m = in(reg) state.m,
                changed = label { return false },
                options(nostack),
            );
        }
        true
    }

    /// Swaps `from` for `to`, unless the state is not `from` or the processor lacks the
    /// instruction. Returns whether it swapped.
    pub(crate) fn try_swap(&self, from: LineState, to: LineState) -> bool {
        has_atomics() && self.compare_exchange(from, to) == from
    }

    /// Swaps `from` for `to` if the state is `from`. Returns the state that it found. The processor
    /// must have the instruction.
    fn compare_exchange(&self, from: LineState, to: LineState) -> LineState {
        let mut m = from.m;
        let mut b = from.b.cast_unsigned();
        // This is not `core::arch::x86_64::cmpxchg16b`, which without optimisation calls into
        // libatomic.
        // SAFETY: callers have made sure that the processor has CMPXCHG16B. The pointer is valid
        // and aligned to 16. The compiler reserves RBX, so the block exchanges it with RSI and
        // restores it. The pointer is in RDI, so it is not in RBX.
        // ORDERING: acquire and release: the locked instruction is a full barrier. Pairs with
        // `load`.
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
        LineState {
            m,
            b: b.cast_signed(),
        }
    }
}

impl core::panic::RefUnwindSafe for AtomicState {}
