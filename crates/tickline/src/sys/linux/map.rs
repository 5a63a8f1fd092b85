//! Linux: a mapping of a device in this process.

use core::ffi::CStr;
use core::ptr::{self, NonNull};

use super::file::File;

/// What is mapped of a file, bytes. The kernel rounds it up to whole pages.
const MAPPED_BYTES: usize = 4_096;

/// Maps the first page of a file, to be read. It stays mapped if `accept` says so.
pub(crate) fn map_page(path: &CStr, accept: impl FnOnce(NonNull<libc::c_void>) -> bool) {
    let Some(file) = File::open(path, libc::O_RDONLY) else { return };
    // SAFETY: a new shared mapping, which nobody writes through.
    let page =
        unsafe { libc::mmap(ptr::null_mut(), MAPPED_BYTES, libc::PROT_READ, libc::MAP_SHARED, file.0, 0) };
    let Some(page) = NonNull::new(page).filter(|_| page != libc::MAP_FAILED) else { return };
    if !accept(page) {
        // SAFETY: the mapping is this function's own.
        unsafe { libc::munmap(page.as_ptr(), MAPPED_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::fs::FileExt as _;

    use crate::utc::vmclock::{MAGIC, NO_MARKER, VmClock};

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
