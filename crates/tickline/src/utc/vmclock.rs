//! The hypervisor's page that tells a guest when it was moved or restored: its disruption marker
//! changes before the guest runs on (`struct vmclock_abi` in `vmclock-abi.h` of Linux). No daemon
//! is needed for it, and a reader sees it by one load.

#[cfg(all(target_os = "linux", not(miri)))]
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

#[cfg(all(target_os = "linux", not(miri)))]
use crate::sys::linux::file::{File, PAGE_BYTES};

/// The device of a hypervisor that has such a page.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) const DEVICE: &CStr = c"/dev/vmclock0";

#[cfg(all(target_os = "linux", not(miri)))]
const MAGIC: u32 = 0x4B4C_4356;

/// The marker of a machine without such a page.
pub(super) const NO_PAGE: u64 = u64::MAX;

/// The beginning of the page; the rest, up to 4 KiB, does not matter here.
#[repr(C)]
struct Page {
    magic: AtomicU32,
    _size: AtomicU32,
    _version_and_kind: AtomicU32,
    _sequence: AtomicU32,
    disruption_marker: AtomicU64,
}

/// What is looked at on a machine without such a page: a reader needs no branch.
static NONE: Page = Page {
    magic: AtomicU32::new(0),
    _size: AtomicU32::new(0),
    _version_and_kind: AtomicU32::new(0),
    _sequence: AtomicU32::new(0),
    disruption_marker: AtomicU64::new(NO_PAGE),
};

/// A page of a machine, mapped once, and never unmapped; before that, [`NONE`].
#[derive(Debug)]
pub(crate) struct VmClock(AtomicPtr<Page>);

/// This machine's.
pub(crate) static VMCLOCK: VmClock = VmClock::new();

impl VmClock {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new((&raw const NONE).cast_mut()))
    }

    /// Maps the page of `device`, if there is one, and it is not yet mapped.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(super) fn map(&self, device: &CStr) {
        // ORDERING: Relaxed, nothing is read through it here.
        if !core::ptr::eq(self.0.load(Ordering::Relaxed), &NONE) {
            return;
        }
        let Some(file) = File::open(device, libc::O_RDONLY) else { return };
        let Some(page) = file.map_page() else { return };
        // SAFETY: a mapping of a page is aligned, larger than this, and stays; any bytes are valid.
        let vmclock = unsafe { page.cast::<Page>().as_ref() };
        // ORDERING: Relaxed, the hypervisor has written it before the guest began.
        let is_vmclock = vmclock.magic.load(Ordering::Relaxed) == MAGIC;
        let (none, page_of_it) = ((&raw const NONE).cast_mut(), page.cast().as_ptr());
        // ORDERING: Release, pairs with the Acquire load in `marker`: the page is mapped. No test
        // sees a weaker one, because the kernel has filled the page, and processors know an address
        // before they load from it. Relaxed if another thread was first: its page is not looked at.
        let exchange = || self.0.compare_exchange(none, page_of_it, Ordering::Release, Ordering::Relaxed);
        let installed = is_vmclock && exchange().is_ok();
        if !installed {
            // SAFETY: the mapping is this function's own.
            unsafe { libc::munmap(page.as_ptr(), PAGE_BYTES) };
        }
    }

    /// The disruption marker; [`NO_PAGE`] without a page.
    #[inline]
    pub(crate) fn marker(&self) -> u64 {
        // ORDERING: Acquire, pairs with the Release exchange in `map`. No test sees a weaker one,
        // for the same reason.
        let page = self.0.load(Ordering::Acquire);
        // SAFETY: static memory, or a mapping that stays.
        let page = unsafe { &*page };
        // ORDERING: Relaxed, a number on its own. A guest that is moved stops between two
        // instructions: if the counter was read after that, so was this.
        page.disruption_marker.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::ffi::CString;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn a_marker_is_seen_as_soon_as_it_changes() {
        let path = std::env::temp_dir().join(format!("tickline-vmclock-{}", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        let device = CString::new(path.to_str().unwrap()).unwrap();
        let vmclock = VmClock::new();
        file.set_len(4_096).unwrap();
        vmclock.map(&device);
        assert_eq!(vmclock.marker(), NO_PAGE, "a page of something else");
        file.write_all_at(&MAGIC.to_ne_bytes(), 0).unwrap();
        vmclock.map(&device);
        for marker in [0_u64, 7, 8] {
            file.write_all_at(&marker.to_ne_bytes(), 16).unwrap();
            assert_eq!(vmclock.marker(), marker);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
