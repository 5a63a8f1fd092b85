//! The x86_64 cell: 16-byte `movdqa` loads, `lock cmpxchg16b` swaps.
//!
//! See the table in this folder's README for the sources.

use core::arch::x86_64::{__cpuid, __m128i, _mm_cvtsi128_si64, _mm_unpackhi_epi64};
use core::cell::UnsafeCell;

use super::{Envelope, Slots, State, StateCell, Support, slot_methods};
use crate::line::Line;
use crate::primitive::{AtomicU64, Ordering};
use crate::units::{signed, unsigned};
use crate::word::Word;

/// The native cell of x86_64. See the [module](super) for the protocol.
#[repr(C, align(64))]
pub struct NativeCell {
    state: StateWords,
    /// Nonzero once `restrict` has found that 16-byte loads may be torn here.
    guarded: AtomicU64,
    slots: Slots,
}

/// The word, then the base: 16 bytes that are only ever accessed as one.
#[repr(C, align(16))]
struct StateWords(UnsafeCell<[u64; 2]>);

// SAFETY: the content is reached only through `load` (an atomic load on the processors that may call it) and
// `compare_exchange` (atomic), both of which take a shared reference from any thread.
unsafe impl Sync for StateWords {}

impl core::fmt::Debug for NativeCell {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NativeCell")
            .field("word", &self.word())
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl Default for NativeCell {
    fn default() -> Self {
        Self::new()
    }
}

impl NativeCell {
    /// A cell that is cold, with a floor of 0 ns.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: StateWords(UnsafeCell::new([0; 2])), guarded: AtomicU64::new(0), slots: Slots::new() }
    }

    /// What this processor offers, from CPUID: leaf 1 ECX bit 13 (CMPXCHG16B), bit 28 (AVX), bit 31 (hypervisor), and
    /// the hypervisor's name in leaf 4000_0000h.
    #[must_use]
    pub fn support() -> Support {
        const CMPXCHG16B: u32 = 1 << 13;
        const AVX: u32 = 1 << 28;
        const HYPERVISOR: u32 = 1 << 31;
        let cpuid = |leaf| {
            #[allow(unused_unsafe, reason = "the intrinsic is unsafe on the oldest supported compiler only")]
            // SAFETY: every x86_64 processor has CPUID.
            unsafe {
                __cpuid(leaf)
            }
        };
        let features = cpuid(1).ecx;
        let emulated = features & HYPERVISOR != 0 && {
            let name = cpuid(0x4000_0000);
            [name.ebx, name.ecx, name.edx].map(u32::to_le_bytes) == [*b"TCGT", *b"CGTC", *b"GTCG"]
        };
        if features & CMPXCHG16B == 0 {
            Support::Missing
        } else if features & AVX == 0 || emulated {
            Support::Guarded
        } else {
            Support::Full
        }
    }

    /// Tells the cell what [`support`](Self::support) found, before the first line is published.
    pub fn restrict(&self, support: Support) {
        // ORDERING: Release, pairs with the Acquire load in `load_whole`; called before anything is published.
        self.guarded.store(u64::from(support == Support::Guarded), Ordering::Release);
    }

    /// Swaps `from` for `to` if the state is `from`; returns the state that was found.
    #[inline]
    fn compare_exchange(&self, from: State, to: State) -> State {
        let (mut word, mut base) = (from.word.to_bits(), unsigned(from.base_ns));
        // Not `core::arch::x86_64::cmpxchg16b`: without optimisation that becomes a call into libatomic.
        // SAFETY: callers have made sure that the processor has CMPXCHG16B (`support` is not `Missing`, as the trait
        // demands); the pointer is valid and 16-byte aligned, and its content is only accessed atomically. RBX, which
        // the compiler keeps for itself, is swapped with RSI and back; the pointer is in RDI and so not in RBX.
        // ORDERING: acquire and release, pairs with `load`; the locked instruction is a full barrier.
        unsafe {
            core::arch::asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "mov rbx, rsi",
                in("rdi") self.state.0.get(),
                inout("rsi") to.word.to_bits() => _,
                in("rcx") unsigned(to.base_ns),
                inout("rax") word,
                inout("rdx") base,
                options(nostack),
            );
        }
        State { word: Word::from_bits(word), base_ns: signed(base) }
    }
}

impl StateCell for NativeCell {
    slot_methods!();

    #[inline(always)]
    fn load(&self) -> State {
        let value: __m128i;
        // SAFETY: the pointer is valid for 16 bytes and aligned to 16, as movdqa demands; SSE2 is part of x86_64. The
        // load is one instruction that the compiler cannot split, so no data race in the language's sense arises.
        // ORDERING: acquire: x86 loads are not reordered with later loads (Intel SDM vol. 3A 10.2.2), and an asm block
        // without `nomem` or `readonly` is a barrier to the compiler. Pairs with the swap in `compare_exchange`.
        unsafe {
            core::arch::asm!(
                "movdqa {value}, xmmword ptr [{state}]",
                value = out(xmm_reg) value,
                state = in(reg) self.state.0.get(),
                options(nostack, preserves_flags),
            );
        }
        // SAFETY: SSE2 is part of x86_64.
        #[allow(unused_unsafe, reason = "these intrinsics are unsafe on the oldest supported compiler only")]
        let (low, high) = (unsafe { _mm_cvtsi128_si64(value) }, {
            // SAFETY: SSE2 is part of x86_64.
            let high = unsafe { _mm_unpackhi_epi64(value, value) };
            // SAFETY: SSE2 is part of x86_64.
            unsafe { _mm_cvtsi128_si64(high) }
        });
        State { word: Word::from_bits(unsigned(low)), base_ns: high }
    }

    #[inline]
    fn load_whole(&self) -> State {
        // ORDERING: Acquire, pairs with the Release store in `restrict`.
        if self.guarded.load(Ordering::Acquire) == 0 {
            self.load()
        } else {
            // Swapping zeros for zeros changes nothing and returns what is there.
            self.compare_exchange(State::default(), State::default())
        }
    }

    #[inline(always)]
    fn word(&self) -> Word {
        self.load().word
    }

    #[inline]
    fn retire(&self, from: State, to: Word, floor_ns: i64) -> bool {
        let base_ns = if to.phase() == crate::word::Phase::Cold { floor_ns } else { from.base_ns };
        self.compare_exchange(from, State { word: to, base_ns }) == from
    }

    fn publish(&self, from: State, to: Word, line: &Line, envelope: &Envelope) -> bool {
        self.slots.get(to.slot()).fill(line.slope, envelope);
        self.compare_exchange(from, State { word: to, base_ns: line.base_ns }) == from
    }
}
