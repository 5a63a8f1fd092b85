//! Whether a thread of this process has ended, for another thread that would wait for it.
//!
//! A seccomp filter may kill one thread alone. That thread runs no more code, so the others must
//! ask the kernel, which finds the CPU clocks of this process's threads only. Every filter must
//! allow `clock_gettime`, so the question kills nobody, except about the process's first thread:
//! the kernel has that thread's clock even after its end, and only `/proc/self/stat` tells. A
//! filter may kill a thread that opens this file. Only the panic hook of a flight recorder asks
//! about that thread, each 100 ms of a wait (`flight/on_panic.rs`); it opens files itself. The
//! crate `tickline` asks in the same way; its `sys/linux/thread_end.rs` names the options that were
//! rejected.
//!
//! The kernel may have given the number of a thread that has ended to a new thread of this process.
//! The first one then seems to live until the new one ends, too.

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
mod linux {
    use core::sync::atomic::{Ordering, fence};
    use std::fs;

    use nix::unistd::{getpid, gettid};

    use crate::trace::sys::cpu_clock::CpuClock;

    /// A thread whose end can be seen.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct ThreadLife {
        thread: CpuClock,
        /// The clock of the process's first thread, which this process has even after that thread's
        /// end.
        first: CpuClock,
        is_first: bool,
    }

    impl ThreadLife {
        /// The calling thread; `None` if its end could not be seen.
        pub(crate) fn of_this_thread() -> Option<Self> {
            let (thread, first) = (gettid(), getpid());
            let life = Self {
                thread: CpuClock::of(thread),
                first: CpuClock::of(first),
                is_first: thread == first,
            };
            let is_known = life.is_of_this_process() && life.thread.has_thread() == Some(true);
            is_known.then_some(life)
        }

        /// Whether the thread has ended; `false` in other processes than its own. The caller then
        /// sees every store of the thread. Makes two system calls, and may be asked in a signal
        /// handler, unless the thread is the process's first one: then it reads a file.
        pub(crate) fn has_ended(self) -> bool {
            if !self.is_of_this_process() {
                return false;
            }
            let has_ended = if self.is_first {
                fs::read("/proc/self/stat").is_ok_and(|stat| is_ended_in(&stat))
            } else {
                self.thread.has_thread() == Some(false)
            };
            // ORDERING: Acquire, pairs with the locks that the kernel took after the thread's last
            // store. Weaker would let the caller's next load miss that store, so that a thread
            // that ended by itself counts as killed. No test sees a weaker one: Miri has no such
            // thread.
            fence(Ordering::Acquire);
            has_ended
        }

        /// Not in a forked child, nor in a process that only shares the memory (`CLONE_VM`): they
        /// do not find the thread.
        fn is_of_this_process(self) -> bool {
            self.first.has_thread() == Some(true)
        }
    }

    /// Whether this text of `/proc/self/stat` has the state of a thread that has ended.
    fn is_ended_in(stat: &[u8]) -> bool {
        // The name, which comes before the state, may contain parentheses.
        let name_end = stat.iter().rposition(|byte| *byte == b')');
        let state = name_end.and_then(|end| stat.get(end + 2));
        matches!(state, Some(b'Z' | b'X' | b'x'))
    }

    #[cfg(test)]
    mod tests {
        use std::thread;
        use std::time::{Duration, Instant};

        use super::*;

        #[test]
        fn a_thread_that_goes_on_has_not_ended() {
            assert!(!ThreadLife::of_this_thread().unwrap().has_ended());
        }

        #[test]
        fn the_end_of_another_thread_is_seen() {
            let life = || ThreadLife::of_this_thread().unwrap();
            let other = thread::spawn(life).join().unwrap();
            // The kernel may forget the thread after its join.
            let start = Instant::now();
            while !other.has_ended() {
                assert!(start.elapsed() < Duration::from_secs(30), "{other:?}");
                thread::yield_now();
            }
        }

        #[test]
        fn the_state_of_the_first_thread_comes_after_its_name() {
            assert!(is_ended_in(b"7 (main) Z 1 7 7"));
            assert!(is_ended_in(b"7 (a) R) X 1 7 7"));
            assert!(!is_ended_in(b"7 (a) Z 1) R 1 7 7"));
            assert!(!is_ended_in(b"7 (main)"));
        }
    }
}

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
mod other {
    /// On other systems nothing kills one thread alone.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum ThreadLife {}

    impl ThreadLife {
        pub(crate) const fn of_this_thread() -> Option<Self> {
            None
        }

        pub(crate) const fn has_ended(self) -> bool {
            match self {}
        }
    }
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
pub(crate) use linux::ThreadLife;
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
pub(crate) use other::ThreadLife;
