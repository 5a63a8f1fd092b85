//! [`ProcessMark`]: tells a process from its forked children, without a system call.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The length of the memory, bytes: one number. The kernel rounds it up to a page.
const MAPPED_BYTES: usize = size_of::<AtomicU32>();

/// A mark that a process sets, and that its forked children find cleared.
#[derive(Debug)]
pub(super) struct ProcessMark {
    /// `None` if the kernel wipes no memory (before Linux 4.14). Then `own` has the mark, and each
    /// question is a call of getpid(2): a child that has the id of an ancestor counts as marked.
    wiped: Option<WipedMemory>,
    own: AtomicU32,
}

impl ProcessMark {
    /// A mark that is not set. Makes system calls, and maps memory.
    pub(super) fn new() -> Self {
        Self {
            wiped: WipedMemory::map(),
            own: AtomicU32::new(0),
        }
    }

    /// Whether this process has set the mark. If so, the caller sees what was stored before.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        let (mark, expected) = self.mark_and_value();
        // ORDERING: Acquire, pairs with the Release store in `set`. No test sees a weaker one: Miri
        // can't map the memory, and on x86_64 this is no instruction.
        mark.load(Ordering::Acquire) == expected
    }

    pub(super) fn set(&self) {
        let (mark, value) = self.mark_and_value();
        // ORDERING: Release, pairs with the Acquire load in `is_set`. No test sees a weaker one, as
        // there.
        mark.store(value, Ordering::Release);
    }

    /// The memory of the mark, and its value while it is set.
    #[inline]
    fn mark_and_value(&self) -> (&AtomicU32, u32) {
        match &self.wiped {
            Some(wiped) => (wiped.mark(), 1),
            None => (&self.own, std::process::id()),
        }
    }

    /// Clears the mark, as a fork does for the child.
    #[cfg(test)]
    pub(super) fn clear(&self) {
        // ORDERING: Relaxed, for tests with one thread.
        self.mark_and_value().0.store(0, Ordering::Relaxed);
    }
}

/// Memory that the kernel fills with zeros in every forked child (`MADV_WIPEONFORK`, madvise(2)). A
/// drop unmaps it.
#[derive(Debug)]
struct WipedMemory(NonNull<AtomicU32>);

// SAFETY: the mapping belongs to the process, not to a thread, and is used as a `&AtomicU32`.
unsafe impl Send for WipedMemory {}
// SAFETY: threads share the mapping only as a `&AtomicU32`.
unsafe impl Sync for WipedMemory {}

impl WipedMemory {
    fn map() -> Option<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an unused address for the new mapping.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), MAPPED_BYTES, protection, MapFlags::PRIVATE) };
        let memory = Self(NonNull::new(start.ok()?.cast())?);
        // SAFETY: the range is exactly this mapping, which holds nothing yet.
        let advised = unsafe {
            madvise(
                memory.0.as_ptr().cast(),
                MAPPED_BYTES,
                Advice::LinuxWipeOnFork,
            )
        };
        advised.ok()?;
        Some(memory)
    }

    const fn mark(&self) -> &AtomicU32 {
        // SAFETY: the mapping is aligned to a page, readable and writable, and lives as long as
        // `self`. Zeros are a valid `AtomicU32`.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for WipedMemory {
    fn drop(&mut self) {
        // SAFETY: only this drop unmaps the mapping, and every borrow of it has ended.
        unsafe { munmap(self.0.as_ptr().cast(), MAPPED_BYTES) }.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the kernel would wipe a mapping of this process.
    fn wipes_memory() -> bool {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an unused address for the new mapping.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), 1, protection, MapFlags::PRIVATE) };
        let start = start.expect("memory");
        // SAFETY: the range is exactly this mapping, which nothing uses.
        let is_advised = unsafe { madvise(start, 1, Advice::LinuxWipeOnFork) }.is_ok();
        // SAFETY: as above.
        unsafe { munmap(start, 1) }.expect("a mapping");
        is_advised
    }

    #[test]
    fn the_mark_is_in_wiped_memory_if_the_kernel_wipes_any() {
        assert_eq!(ProcessMark::new().wiped.is_some(), wipes_memory());
    }

    /// Without memory that the kernel wipes, the process id is the mark.
    #[test]
    fn a_mark_is_set_until_it_is_cleared_with_and_without_wiped_memory() {
        let by_id = ProcessMark {
            wiped: None,
            own: AtomicU32::new(0),
        };
        for mark in [ProcessMark::new(), by_id] {
            assert!(!mark.is_set());
            mark.set();
            assert!(mark.is_set());
            mark.clear();
            assert!(!mark.is_set());
        }
    }

    #[test]
    fn a_forked_child_finds_the_mark_cleared() {
        let mark = ProcessMark::new();
        mark.set();
        // SAFETY: the child only loads memory and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child without running anything else of the test.
            unsafe { libc::_exit(i32::from(mark.is_set())) };
        }
        let mut status = -1;
        // SAFETY: `status` is valid for a write.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 0, "{status}");
        assert!(mark.is_set(), "in the parent");
    }

    /// Whether this memory is mapped (mincore(2)).
    fn is_mapped(memory: NonNull<AtomicU32>) -> bool {
        let mut is_resident = 0;
        // SAFETY: the call only asks, and writes a byte for the one page.
        unsafe { libc::mincore(memory.as_ptr().cast(), MAPPED_BYTES, &raw mut is_resident) == 0 }
    }

    /// Other threads may map memory at some of the addresses meanwhile.
    #[test]
    fn a_mark_that_is_dropped_leaves_no_memory() {
        let marks: Vec<_> = (0..64).map_while(|_| WipedMemory::map()).collect();
        if marks.is_empty() {
            return eprintln!("SKIPPED: this kernel wipes no memory");
        }
        let memory: Vec<_> = marks.iter().map(|mark| mark.0).collect();
        assert!(memory.iter().all(|memory| is_mapped(*memory)));
        drop(marks);
        assert!(!memory.iter().all(|memory| is_mapped(*memory)));
    }
}
