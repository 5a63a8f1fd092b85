//! The VMClock: memory by which a hypervisor tells a guest that it was moved or restored. Its
//! disruption marker changes before the guest runs on (`struct vmclock_abi` in `vmclock-abi.h` of
//! Linux). It needs no daemon, and a reader reads it by one load.

use core::ffi::CStr;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::sys::map_beginning;

const MAGIC: u32 = 0x4B4C_4356;

/// The word of [`NONE`]. A hypervisor's marker of this value would count as none.
const NO_MARKER: u64 = u64::MAX;

/// The beginning of Linux' `struct vmclock_abi`; the rest, up to 4 KiB, does not matter here.
#[repr(C)]
struct VmClockAbi {
    magic: AtomicU32,
    _size: AtomicU32,
    _version_and_kind: AtomicU32,
    _sequence: AtomicU32,
    /// A 64-bit number, in two parts: on 32-bit processors an atomic load of 64 bits may be a
    /// write, which this memory does not permit (`std::sync::atomic`, "Atomic accesses to read-only
    /// memory").
    disruption_marker: [AtomicU32; 2],
}

/// Stands in for the VMClock of a machine without one, so that a reader needs no branch.
static NONE: VmClockAbi = VmClockAbi {
    magic: AtomicU32::new(0),
    _size: AtomicU32::new(0),
    _version_and_kind: AtomicU32::new(0),
    _sequence: AtomicU32::new(0),
    // NO_MARKER, in two parts
    disruption_marker: [const { AtomicU32::new(u32::MAX) }; 2],
};

/// The result of [`OsClock::map_vmclock`](crate::backend::OsClock::map_vmclock).
///
/// ```
/// use tickline::backend::{OsClock, VmClockMapping};
///
/// let found = OsClock::map_vmclock(c"/dev/null/vmclock");
/// assert!(matches!(found, VmClockMapping::Unreadable | VmClockMapping::AlreadyMapped));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VmClockMapping {
    /// The call has mapped the VMClock of the device.
    Mapped,
    /// This process has mapped a VMClock before, of this device or of another one, and keeps it.
    AlreadyMapped,
    /// The process can't map the device: it does not exist, the process may not read it, or it is a
    /// pipe or a file of less than 4 KiB. The result on all systems other than Linux.
    Unreadable,
    /// The device or file is not a VMClock: its memory does not begin with the magic number.
    NoVmClock,
}

/// The VMClock of a machine, mapped once, and never unmapped; before that, [`NONE`].
#[derive(Debug)]
pub(crate) struct VmClock(AtomicPtr<VmClockAbi>);

/// The VMClock of this machine.
pub(crate) static VMCLOCK: VmClock = VmClock::new();

impl VmClock {
    const fn new() -> Self {
        Self(AtomicPtr::new((&raw const NONE).cast_mut()))
    }

    /// Maps the VMClock of `device`, if there is one, and none is mapped yet. It may run in a
    /// signal handler.
    pub(crate) fn map(&self, device: &CStr) -> VmClockMapping {
        if self.is_mapped() {
            return VmClockMapping::AlreadyMapped;
        }
        // SAFETY: a page is larger than `VmClockAbi`, and stays mapped if accepted.
        match map_beginning(device, |page| unsafe { self.accept(page.cast()) }) {
            Some(true) => VmClockMapping::Mapped,
            // Another thread was first.
            Some(false) if self.is_mapped() => VmClockMapping::AlreadyMapped,
            Some(false) => VmClockMapping::NoVmClock,
            None => VmClockMapping::Unreadable,
        }
    }

    fn is_mapped(&self) -> bool {
        // ORDERING: Relaxed, nothing is read through it here.
        !core::ptr::eq(self.0.load(Ordering::Relaxed), &NONE)
    }

    /// Installs `memory` if it is a VMClock, and none is installed yet. Returns whether it did.
    ///
    /// # Safety
    ///
    /// `memory` is aligned and readable, and stays mapped if the result is true.
    unsafe fn accept(&self, memory: NonNull<VmClockAbi>) -> bool {
        // SAFETY: the caller guarantees that `memory` is aligned and readable; any bytes are valid.
        let vmclock = unsafe { memory.as_ref() };
        let none = (&raw const NONE).cast_mut();
        let mapped = memory.as_ptr();
        // ORDERING: Relaxed, the hypervisor has written it before the guest began.
        vmclock.magic.load(Ordering::Relaxed) == MAGIC
            // ORDERING: Release, pairs with the Acquire load in `marker`: the VMClock is mapped. No
            // test sees a weaker one, because the kernel has filled the memory, and processors know
            // an address before they load from it. Relaxed if another thread was first: its memory
            // is not read.
            && self.0.compare_exchange(none, mapped, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// The disruption marker; `None` without a VMClock.
    #[inline]
    pub(crate) fn marker(&self) -> Option<u64> {
        // ORDERING: Acquire, pairs with the Release exchange in `accept`. No test sees a weaker
        // one, for the reason given there.
        let memory = self.0.load(Ordering::Acquire);
        // SAFETY: the pointer is to static memory, or to a mapping that stays.
        let memory = unsafe { &*memory };
        // ORDERING: Relaxed. A guest that is moved stops between two instructions: if the counter
        // was read after the move, so was the marker. Parts of two markers differ from both, and
        // the next reading has the second one.
        let [first, second] = &memory.disruption_marker;
        let [first, second] = [first, second].map(|part| u64::from(part.load(Ordering::Relaxed)));
        let marker = if cfg!(target_endian = "big") {
            first << 32 | second
        } else {
            second << 32 | first
        };
        (marker != NO_MARKER).then_some(marker)
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::ffi::CString;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    /// A file that stands for a device, and its name.
    fn device(name: &str) -> (std::fs::File, CString) {
        let path = std::env::temp_dir().join(format!("tickline-{name}-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file");
        let device = CString::new(path.into_os_string().into_encoded_bytes());
        (file, device.expect("no zero byte"))
    }

    fn remove(device: &CStr) {
        std::fs::remove_file(device.to_str().expect("a path in UTF-8")).expect("removed");
    }

    /// No file can have this name.
    const ABSENT: &CStr = c"/dev/null/vmclock";

    #[test]
    fn a_device_that_is_absent_is_unreadable() {
        assert_eq!(VmClock::new().map(ABSENT), VmClockMapping::Unreadable);
    }

    #[test]
    fn a_file_without_a_page_is_unreadable() {
        let (_file, device) = device("empty");
        assert_eq!(VmClock::new().map(&device), VmClockMapping::Unreadable);
        remove(&device);
    }

    #[test]
    fn a_page_of_something_else_is_no_vmclock_and_has_no_marker() {
        let (file, device) = device("no-vmclock");
        let vmclock = VmClock::new();
        file.set_len(4_096).expect("room");
        assert_eq!(vmclock.map(&device), VmClockMapping::NoVmClock);
        assert_eq!(vmclock.marker(), None);
        remove(&device);
    }

    #[test]
    fn a_page_that_becomes_a_vmclock_can_be_mapped_later() {
        let (file, device) = device("late-vmclock");
        let vmclock = VmClock::new();
        file.set_len(4_096).expect("room");
        assert_eq!(vmclock.map(&device), VmClockMapping::NoVmClock);
        file.write_all_at(&MAGIC.to_ne_bytes(), 0).expect("written");
        assert_eq!(vmclock.map(&device), VmClockMapping::Mapped);
        remove(&device);
    }

    #[test]
    fn a_process_that_has_mapped_a_vmclock_maps_no_other() {
        let (file, device) = device("first-vmclock");
        let vmclock = VmClock::new();
        file.set_len(4_096).expect("room");
        file.write_all_at(&MAGIC.to_ne_bytes(), 0).expect("written");
        assert_eq!(vmclock.map(&device), VmClockMapping::Mapped);
        remove(&device);
        assert_eq!(vmclock.map(ABSENT), VmClockMapping::AlreadyMapped);
    }

    #[test]
    fn a_marker_is_seen_as_soon_as_it_changes() {
        let (file, device) = device("vmclock");
        let vmclock = VmClock::new();
        file.set_len(4_096).expect("room");
        file.write_all_at(&MAGIC.to_ne_bytes(), 0).expect("written");
        assert_eq!(vmclock.map(&device), VmClockMapping::Mapped);
        for marker in [0_u64, 7, 8, 1 << 32, 1 << 63 | 9] {
            file.write_all_at(&marker.to_ne_bytes(), 16)
                .expect("written");
            assert_eq!(vmclock.marker(), Some(marker));
        }
        remove(&device);
    }
}
