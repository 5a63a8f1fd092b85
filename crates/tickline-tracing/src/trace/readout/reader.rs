//! The thread that takes a recorder's records, and how others wake it.

#[cfg(test)]
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::thread::Thread;

/// The reader, once there is one. It records nothing itself.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    thread: OnceLock<Thread>,
    /// How often it was woken. A wake that the thread has not taken yet hides the next one, so a
    /// test can't count them there.
    #[cfg(test)]
    wakes: AtomicU32,
}

impl Reader {
    /// Makes this thread the reader. The first one stays.
    pub(crate) fn set(&self, thread: Thread) {
        _ = self.thread.set(thread);
    }

    /// Wakes the reader. One that has not begun needs no wake: it takes records before it sleeps.
    pub(crate) fn wake(&self) {
        // ORDERING: Relaxed: the count orders no other memory.
        #[cfg(test)]
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.thread.get().into_iter().for_each(Thread::unpark);
    }

    #[cfg(test)]
    pub(crate) fn wakes(&self) -> u32 {
        // ORDERING: Relaxed: the test's own thread wakes the reader.
        self.wakes.load(Ordering::Relaxed)
    }
}
