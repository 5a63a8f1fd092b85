//! The clock of a thread's CPU time, which other threads of the process can read.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use core::time::Duration;

    use nix::time::{ClockId, clock_gettime};
    use nix::unistd::{Pid, gettid};

    /// The clock of the CPU time of one thread.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct CpuClock(ClockId);

    impl CpuClock {
        /// The clock of the calling thread.
        pub(crate) fn of_this_thread() -> Option<Self> {
            // `/proc` may be of another pid namespace, so the kernel is asked for the thread's
            // number.
            Some(Self::of(gettid()))
        }

        /// The clock of the thread of this process with this number.
        pub(crate) const fn of(thread: Pid) -> Self {
            // `MAKE_THREAD_CPUCLOCK` with `CPUCLOCK_SCHED` (Linux,
            // `include/linux/posix-timers_types.h`), as glibc's `pthread_getcpuclockid` makes it.
            let clock = !thread.as_raw() << 3 | 0b110;
            Self(ClockId::from_raw(clock))
        }

        /// The CPU time, ns; `None` if this process has no thread of this number (Linux,
        /// `kernel/time/posix-cpu-timers.c`, `pid_for_clock`). The kernel may have given the number
        /// of a thread that has ended to a new one.
        pub(crate) fn read(self) -> Option<u64> {
            let time = Duration::from(clock_gettime(self.0).ok()?);
            u64::try_from(time.as_nanos()).ok()
        }

        /// Whether this process has the thread, by the same answer. `None` if the kernel does not
        /// say. `thread_life.rs` asks, which Miri does without.
        #[cfg(not(miri))]
        pub(crate) fn has_thread(self) -> Option<bool> {
            use nix::errno::Errno;
            match clock_gettime(self.0) {
                Ok(_) => Some(true),
                Err(Errno::EINVAL) => Some(false),
                Err(_) => None,
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod other {
    /// Other systems have no such clock, or none that is safe to read once the thread may have
    /// ended.
    #[derive(Debug, Clone, Copy)]
    pub(crate) enum CpuClock {}

    impl CpuClock {
        pub(crate) const fn of_this_thread() -> Option<Self> {
            None
        }

        pub(crate) const fn read(self) -> Option<u64> {
            match self {}
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::CpuClock;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use other::CpuClock;
