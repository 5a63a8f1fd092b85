//! The thread that takes a recorder's records, and how others wake it.

#[cfg(test)]
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::thread::Thread;

use crate::trace::sys::thread_life::ThreadLife;

/// The reader, once there is one. It records nothing itself.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// How to wake it, and how to see its end.
    thread: OnceLock<(Thread, Option<ThreadLife>)>,
    /// How often it was woken. A wake that the thread has not taken yet hides the next one, so a
    /// test can't count them there.
    #[cfg(test)]
    wakes: AtomicU32,
}

impl Reader {
    /// Makes this thread the reader. The first one stays. Without a `life` its end is not seen.
    pub(crate) fn set(&self, thread: Thread, life: Option<ThreadLife>) {
        _ = self.thread.set((thread, life));
    }

    /// Whether the reader's thread has ended, by itself or killed by a seccomp filter. It takes no
    /// more records then. Asks the kernel; may be called in a signal handler.
    pub(crate) fn has_ended(&self) -> bool {
        let life = self.thread.get().and_then(|(_, life)| *life);
        life.is_some_and(ThreadLife::has_ended)
    }

    /// Wakes the reader. One that has not begun needs no wake: it takes records before it sleeps.
    pub(crate) fn wake(&self) {
        // ORDERING: Relaxed: the count orders no other memory.
        #[cfg(test)]
        self.wakes.fetch_add(1, Ordering::Relaxed);
        if let Some((thread, _)) = self.thread.get() {
            thread.unpark();
        }
    }

    #[cfg(test)]
    pub(crate) fn wakes(&self) -> u32 {
        // ORDERING: Relaxed: the test's own thread wakes the reader.
        self.wakes.load(Ordering::Relaxed)
    }
}
