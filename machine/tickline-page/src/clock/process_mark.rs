//! [`ProcessMark`]: what a process has decided, and what its forked children decide anew. From
//! Linux 4.14 on, a process reads its decision without a system call.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The length of the memory, bytes: one number. The kernel rounds it up to a page.
const MAPPED_BYTES: usize = size_of::<AtomicU32>();

/// What a process has decided about the page. The first thread decides for all. Otherwise a thread
/// that can't attach, perhaps for want of a file descriptor, would read the OS clock while another
/// reads the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Attached,
    /// The process can't use the page.
    Refused,
}

/// The decision of a process. Its forked children find none.
#[derive(Debug)]
pub(super) struct ProcessMark {
    /// `None` if the kernel wipes no memory (before Linux 4.14). Then `own` has the mark, and each
    /// question is a call of getpid(2): a child that has the id of an ancestor counts as marked.
    wiped: Option<WipedMemory>,
    own: AtomicU32,
}

impl ProcessMark {
    /// A mark without a decision. Makes system calls, and maps memory.
    pub(super) fn new() -> Self {
        Self {
            wiped: WipedMemory::map(),
            own: AtomicU32::new(0),
        }
    }

    /// Whether this process has decided [`Attached`](Decision::Attached). If so, the caller sees
    /// what was stored before.
    #[inline]
    pub(super) fn is_attached(&self) -> bool {
        let (mark, attached) = self.mark_and_value();
        // ORDERING: Acquire, pairs with the Release exchange in `decide`. No test sees a weaker one:
        // Miri can't map the memory, and on x86_64 this is no instruction.
        mark.load(Ordering::Acquire) == attached
    }

    /// The decision of this process; `None` if no thread has decided yet.
    pub(super) fn decision(&self) -> Option<Decision> {
        let (mark, attached) = self.mark_and_value();
        // ORDERING: Acquire, as in `is_attached`. No test sees a weaker one, as there.
        decision_of(mark.load(Ordering::Acquire), attached)
    }

    /// Decides for this process, and returns the decision that holds: another thread's, if that was
    /// first.
    pub(super) fn decide(&self, decision: Decision) -> Decision {
        let (mark, attached) = self.mark_and_value();
        let new = match decision {
            Decision::Attached => attached,
            Decision::Refused => !attached,
        };
        // Without a decision of this process, the value is 0, or that of an ancestor.
        // ORDERING: Acquire, as in `is_attached`. No test sees a weaker one, as there.
        let before = mark.load(Ordering::Acquire);
        if let Some(earlier) = decision_of(before, attached) {
            return earlier;
        }
        // ORDERING: Release, pairs with the Acquire load in `is_attached`: a thread that finds the
        // process attached finds its offset. Acquire, if another thread was first, pairs with this
        // exchange. No test sees a weaker one, as there.
        let exchanged = mark.compare_exchange(before, new, Ordering::Release, Ordering::Acquire);
        match exchanged {
            Ok(_) => decision,
            Err(first) => decision_of(first, attached).unwrap_or(decision),
        }
    }

    /// The memory of the mark, and its value in a process that is attached. The complement says
    /// that the process is refused; a process id has fewer bits, so it is no complement of another.
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

/// The decision in a mark whose value is `attached` in a process that is attached.
fn decision_of(mark: u32, attached: u32) -> Option<Decision> {
    if mark == attached {
        Some(Decision::Attached)
    } else if mark == !attached {
        Some(Decision::Refused)
    } else {
        None
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
    use tickline_observe::skip;

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

    /// A mark in wiped memory, and one that is the process id.
    fn marks() -> [ProcessMark; 2] {
        let by_id = ProcessMark {
            wiped: None,
            own: AtomicU32::new(0),
        };
        [ProcessMark::new(), by_id]
    }

    #[test]
    fn a_mark_has_the_first_decision_until_it_is_cleared() {
        for mark in marks() {
            for (first, second) in [
                (Decision::Attached, Decision::Refused),
                (Decision::Refused, Decision::Attached),
            ] {
                assert_eq!(mark.decision(), None);
                assert_eq!(mark.decide(first), first);
                assert_eq!(mark.decide(second), first);
                assert_eq!(mark.decision(), Some(first));
                mark.clear();
            }
        }
    }

    #[test]
    fn only_an_attached_process_is_attached() {
        for mark in marks() {
            assert!(!mark.is_attached());
            mark.decide(Decision::Refused);
            assert!(!mark.is_attached());
            mark.clear();
            mark.decide(Decision::Attached);
            assert!(mark.is_attached());
        }
    }

    #[test]
    fn a_forked_child_finds_no_decision() {
        for decision in [Decision::Attached, Decision::Refused] {
            let mark = ProcessMark::new();
            mark.decide(decision);
            // SAFETY: the child only loads memory and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: ends the child without running anything else of the test.
                unsafe { libc::_exit(i32::from(mark.decision().is_some())) };
            }
            let mut status = -1;
            // SAFETY: `status` is valid for a write.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(libc::WEXITSTATUS(status), 0, "{decision:?}: {status}");
            assert_eq!(mark.decision(), Some(decision), "in the parent");
        }
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
            return skip("this kernel wipes no memory");
        }
        let memory: Vec<_> = marks.iter().map(|mark| mark.0).collect();
        assert!(memory.iter().all(|memory| is_mapped(*memory)));
        drop(marks);
        assert!(!memory.iter().all(|memory| is_mapped(*memory)));
    }
}
