//! Linux: a robust futex, by which readers see that a thread was killed.
//!
//! A thread may end in the middle of its work while its memory lives on. A process exits, and a
//! child that shares its memory (`clone` with `CLONE_VM`, without `CLONE_THREAD`) stays; or a
//! seccomp filter kills only the thread. In neither case does the thread run any more code. But the
//! kernel walks the thread's robust list, and marks each futex word there that holds the thread's
//! id (set_robust_list(2); Linux `kernel/futex/core.c`, `exit_robust_list` and
//! `handle_futex_death`).
//!
//! Without the robust futex the recent time of such a clock would stand still forever. Time-outs by
//! the recent time would never end, and no reader would drive the clock. The usual cause is
//! libseccomp's `SCMP_ACT_KILL`, in a program that installs its filter after the clock's thread was
//! started.
//!
//! libc has such a list for each thread, for robust mutexes. A thread has one list at a time. So
//! this list takes the place of libc's while the clock's thread runs. That thread locks no robust
//! mutex.

use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The kernel's `struct robust_list`, an entry of a ring that begins and ends at its head.
type Entry = AtomicPtr<libc::c_void>;

/// The kernel's `struct robust_list_head`.
#[repr(C)]
#[derive(Debug)]
struct Head {
    first: Entry,
    /// From an entry to its futex word, bytes.
    word_offset: libc::c_long,
    pending: Entry,
}

/// A futex word that the kernel marks when the thread that holds it has ended.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RobustFutex {
    head: Head,
    /// The only entry of the list.
    entry: Entry,
    /// The id of the thread while it runs; [`DIED`] once it was killed; else 0.
    word: AtomicU32,
}

/// `FUTEX_OWNER_DIED` (`include/uapi/linux/futex.h`).
const DIED: u32 = 0x4000_0000;

const WORD_OFFSET: usize = offset_of!(RobustFutex, word) - offset_of!(RobustFutex, entry);

impl RobustFutex {
    #[expect(clippy::cast_possible_wrap, reason = "the size of a pointer")]
    pub(crate) const fn new() -> Self {
        Self {
            head: Head {
                first: Entry::new(ptr::null_mut()),
                word_offset: WORD_OFFSET as libc::c_long,
                pending: Entry::new(ptr::null_mut()),
            },
            entry: Entry::new(ptr::null_mut()),
            word: AtomicU32::new(0),
        }
    }

    /// Whether the thread that held it was killed.
    #[inline]
    pub(crate) fn owner_died(&self) -> bool {
        // ORDERING: Relaxed: the data of the thread has orderings of its own.
        self.word.load(Ordering::Relaxed) & DIED != 0
    }

    /// Clears the mark, before a thread is created.
    pub(crate) fn clear(&self) {
        // ORDERING: Relaxed: the creation of the thread publishes the store to that thread, the
        // next writer.
        self.word.store(0, Ordering::Relaxed);
    }

    /// Lets the calling thread hold the futex until the result is dropped. `None` if the kernel has
    /// no robust lists.
    pub(crate) fn hold(&self) -> Option<RobustFutexGuard<'_>> {
        let mut list = ptr::null_mut::<libc::c_void>();
        let mut length = 0_usize;
        // SAFETY: 0 is the calling thread; both places are valid for writes.
        let asked =
            unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut list, &raw mut length) };
        if asked != 0 {
            return None;
        }
        let head = (&raw const self.head).cast_mut().cast::<libc::c_void>();
        let entry = (&raw const self.entry).cast_mut().cast::<libc::c_void>();
        // SAFETY: the call has no precondition.
        let thread = u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap_or(0);
        // ORDERING: Relaxed for all three: the kernel reads them on behalf of this thread.
        let order = Ordering::Relaxed;
        self.head.first.store(entry, order);
        self.entry.store(head, order);
        self.word.store(thread, order);
        // SAFETY: the list is well-formed, and stays where it is until the drop of the result,
        // which puts libc's back.
        let set = unsafe { libc::syscall(libc::SYS_set_robust_list, head, size_of::<Head>()) };
        if set != 0 {
            self.clear();
            return None;
        }
        Some(RobustFutexGuard {
            futex: self,
            thread,
            list,
            length,
        })
    }
}

/// Keeps the futex held by its thread; releases it when dropped.
#[derive(Debug)]
pub(crate) struct RobustFutexGuard<'a> {
    futex: &'a RobustFutex,
    /// The id of the thread that holds it.
    thread: u32,
    /// libc's own list, and the size of its head.
    list: *mut libc::c_void,
    length: usize,
}

impl Drop for RobustFutexGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: the list that libc made for this thread.
        unsafe { libc::syscall(libc::SYS_set_robust_list, self.list, self.length) };
        // A thread that was forgotten ends after the next one has taken the futex.
        // ORDERING: Relaxed for both, as in `owner_died`.
        let order = Ordering::Relaxed;
        let held = self
            .futex
            .word
            .compare_exchange(self.thread, 0, order, order);
        held.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::skip;

    #[test]
    fn a_thread_that_ends_late_does_not_release_its_successors_futex() {
        let futex = RobustFutex::new();
        std::thread::scope(|scope| {
            let (end, ends) = std::sync::mpsc::channel::<()>();
            let (held, is_held) = std::sync::mpsc::channel();
            let futex = &futex;
            scope.spawn(move || {
                let guard = futex.hold();
                held.send(()).ok();
                ends.recv().ok();
                drop(guard);
            });
            is_held.recv().ok();
            scope.spawn(move || {
                let Some(guard) = futex.hold() else {
                    return skip("no robust lists here");
                };
                drop(end);
                // The first thread ends within this time, or the test sees nothing.
                std::thread::sleep(core::time::Duration::from_millis(50));
                // ORDERING: Relaxed: no other memory is read by what the word says.
                assert_eq!(futex.word.load(Ordering::Relaxed), guard.thread);
            });
        });
    }

    #[test]
    fn the_kernel_marks_the_futex_of_a_thread_that_ends_without_returning() {
        static FUTEX: RobustFutex = RobustFutex::new();
        extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
            core::mem::forget(FUTEX.hold());
            // SAFETY: ends this thread as if it were killed; it holds nothing.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            ptr::null_mut()
        }
        if FUTEX.hold().is_none() {
            return skip("no robust lists here");
        }
        let list = || {
            let mut list = ptr::null_mut::<libc::c_void>();
            let mut length = 0_usize;
            // SAFETY: 0 is the calling thread; both places are valid for writes.
            unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut list, &raw mut length) };
            list
        };
        let restores = move || {
            let before = list();
            drop(FUTEX.hold());
            list() == before
        };
        assert!(
            std::thread::spawn(restores).join().expect("no panic"),
            "libc's list"
        );
        assert!(!FUTEX.owner_died(), "it ended by itself");
        // SAFETY: an integer or a pointer.
        let mut thread: libc::pthread_t = unsafe { core::mem::zeroed() };
        // SAFETY: `thread` is valid for a write, and `run` ignores its argument.
        let made =
            unsafe { libc::pthread_create(&raw mut thread, ptr::null(), run, ptr::null_mut()) };
        assert_eq!(made, 0);
        // Detached, because musl learns of a thread's end only from the thread, so a join would
        // wait forever.
        // SAFETY: the thread was created above.
        unsafe { libc::pthread_detach(thread) };
        let begun = std::time::Instant::now();
        while !FUTEX.owner_died() {
            assert!(
                begun.elapsed().as_secs() < 60,
                "the end of the thread is not seen"
            );
            std::thread::sleep(core::time::Duration::from_millis(1));
        }
        FUTEX.clear();
        assert!(!FUTEX.owner_died());
    }
}
