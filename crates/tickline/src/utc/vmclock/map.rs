//! Maps the VMClock into this process.

use core::ffi::CStr;
use core::sync::atomic::Ordering;

use super::{NONE, VmClock, VmClockAbi};
use crate::sys::linux::file::{File, MAPPED_BYTES};

const MAGIC: u32 = 0x4B4C_4356;

impl VmClock {
    /// Maps the VMClock of `device`, if there is one, and it is not yet mapped.
    pub(in crate::utc) fn map(&self, device: &CStr) {
        // ORDERING: Relaxed, nothing is read through it here.
        if !core::ptr::eq(self.0.load(Ordering::Relaxed), &NONE) {
            return;
        }
        let Some(file) = File::open(device, libc::O_RDONLY) else { return };
        let Some(memory) = file.map() else { return };
        // SAFETY: a mapping is aligned, larger than this, and stays; any bytes are valid.
        let vmclock = unsafe { memory.cast::<VmClockAbi>().as_ref() };
        // ORDERING: Relaxed, the hypervisor has written it before the guest began.
        let is_vmclock = vmclock.magic.load(Ordering::Relaxed) == MAGIC;
        let (none, mapped) = ((&raw const NONE).cast_mut(), memory.cast().as_ptr());
        // ORDERING: Release, pairs with the Acquire load in `marker`: the VMClock is mapped. No test
        // sees a weaker one, because the kernel has filled the memory, and processors know an address
        // before they load from it. Relaxed if another thread was first: its memory is not looked at.
        let exchange = || self.0.compare_exchange(none, mapped, Ordering::Release, Ordering::Relaxed);
        let installed = is_vmclock && exchange().is_ok();
        if !installed {
            // SAFETY: the mapping is this function's own.
            unsafe { libc::munmap(memory.as_ptr(), MAPPED_BYTES) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::utc::vmclock::NO_MARKER;

    #[test]
    fn a_marker_is_seen_as_soon_as_it_changes() {
        let path = std::env::temp_dir().join(format!("tickline-vmclock-{}", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        let device = CString::new(path.to_str().unwrap()).unwrap();
        let vmclock = VmClock::new();
        file.set_len(4_096).unwrap();
        vmclock.map(&device);
        assert_eq!(vmclock.marker(), NO_MARKER, "memory of something else");
        file.write_all_at(&MAGIC.to_ne_bytes(), 0).unwrap();
        vmclock.map(&device);
        for marker in [0_u64, 7, 8] {
            file.write_all_at(&marker.to_ne_bytes(), 16).unwrap();
            assert_eq!(vmclock.marker(), marker);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
