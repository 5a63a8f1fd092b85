//! The VMClock: memory by which a hypervisor tells a guest that it was moved or restored. Its
//! disruption marker changes before the guest runs on (`struct vmclock_abi` in `vmclock-abi.h` of
//! Linux). No daemon is needed for it, and a reader sees it by one load.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

#[cfg(all(target_os = "linux", not(miri)))]
mod map;

/// The marker of a machine without a VMClock.
pub(super) const NO_MARKER: u64 = u64::MAX;

/// The beginning of Linux' `struct vmclock_abi`; the rest, up to 4 KiB, does not matter here.
#[repr(C)]
struct VmClockAbi {
    magic: AtomicU32,
    _size: AtomicU32,
    _version_and_kind: AtomicU32,
    _sequence: AtomicU32,
    disruption_marker: AtomicU64,
}

/// What is looked at on a machine without a VMClock: a reader needs no branch.
static NONE: VmClockAbi = VmClockAbi {
    magic: AtomicU32::new(0),
    _size: AtomicU32::new(0),
    _version_and_kind: AtomicU32::new(0),
    _sequence: AtomicU32::new(0),
    disruption_marker: AtomicU64::new(NO_MARKER),
};

/// The VMClock of a machine, mapped once, and never unmapped; before that, [`NONE`].
#[derive(Debug)]
pub(crate) struct VmClock(AtomicPtr<VmClockAbi>);

/// This machine's.
pub(crate) static VMCLOCK: VmClock = VmClock::new();

impl VmClock {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new((&raw const NONE).cast_mut()))
    }

    /// The disruption marker; [`NO_MARKER`] without a VMClock.
    #[inline]
    pub(crate) fn marker(&self) -> u64 {
        // ORDERING: Acquire, pairs with the Release exchange in `map`. No test sees a weaker one,
        // for the reason given there.
        let memory = self.0.load(Ordering::Acquire);
        // SAFETY: static memory, or a mapping that stays.
        let memory = unsafe { &*memory };
        // ORDERING: Relaxed, a number on its own. A guest that is moved stops between two
        // instructions: if the counter was read after that, so was this.
        memory.disruption_marker.load(Ordering::Relaxed)
    }
}
