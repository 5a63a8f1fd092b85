//! Linux: threads of libc.
//!
//! They take the place of std's threads, which may wait for ever in a forked child. A thread of std
//! enters itself in a list when it begins, and leaves it when it ends. The list has a lock (std,
//! sys/pal/unix/stack_overflow/thread_info.rs, Rust 1.95). If a child is forked while another
//! thread holds the lock, every later thread of std in this child waits for ever, and so does a
//! call that joins it. libc keeps its own locks usable in a forked child.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::{mem, ptr};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::thread_end::thread_has_ended;
use crate::sys::STACK_BYTES;

/// A running thread.
#[derive(Debug)]
pub(crate) struct Thread(libc::pthread_t);

// SAFETY: a thread's number may be used by every thread. With musl it is a pointer.
unsafe impl Send for Thread {}
// SAFETY: as above.
unsafe impl Sync for Thread {}

type Work = Box<dyn FnOnce() + Send>;

impl Thread {
    /// Starts a thread that does `work`. `name` gives it a name, by a system call.
    pub(crate) fn spawn(
        name: Option<&'static CStr>,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        Self::spawn_with_stack(name, STACK_BYTES, work)
    }

    /// `stack_bytes` are those besides the least that libc needs.
    pub(crate) fn spawn_with_stack(
        name: Option<&'static CStr>,
        stack_bytes: usize,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let named = move || {
            if let Some(name) = name {
                // SAFETY: the name is valid, and ends with a zero.
                unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
            }
            work();
        };
        let work: *mut Work = Box::into_raw(Box::new(Box::new(named)));
        // SAFETY: both are plain data, which the calls below fill.
        let (mut thread, mut attributes): (libc::pthread_t, libc::pthread_attr_t) =
            unsafe { mem::zeroed() };
        // SAFETY: `attributes` is valid for a write.
        unsafe { libc::pthread_attr_init(&raw mut attributes) };
        let stack_bytes = stack_bytes.saturating_add(min_stack_bytes(&attributes));
        // SAFETY: `attributes` is initialised.
        unsafe { libc::pthread_attr_setstacksize(&raw mut attributes, stack_bytes) };
        // SAFETY: `begin` takes `work`, and runs only if the call returns 0.
        let error = unsafe {
            libc::pthread_create(&raw mut thread, &raw const attributes, begin, work.cast())
        };
        // SAFETY: `attributes` is initialised, and used no more.
        unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
        if error != 0 {
            // SAFETY: from `into_raw` above, and no thread has taken it.
            drop(unsafe { Box::from_raw(work) });
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(Self(thread))
    }

    /// Waits until the thread has ended.
    pub(crate) fn join(self) {
        // SAFETY: the thread was made by `spawn`, and is joined once: this takes `self`.
        unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
    }

    /// Whether the thread has ended. If a filter has killed it, its memory stays as it was: do not
    /// join it then, because musl learns of a thread's end only from the thread.
    pub(crate) fn has_ended(&self) -> bool {
        thread_has_ended(self.0)
    }

    /// Lets libc free the thread when it ends.
    pub(crate) fn detach(self) {
        // SAFETY: the thread was made by `spawn`, and is neither joined nor detached: this takes
        // `self`.
        unsafe { libc::pthread_detach(self.0) };
    }
}

/// The least stack of a thread: with glibc, it has room for the program's thread-local storage.
/// musl adds that room by itself, and has no such function.
fn min_stack_bytes(attributes: &libc::pthread_attr_t) -> usize {
    type MinStack = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    /// Stored, because `dlsym` waits for a lock that a constructor of a library may hold. 0 until
    /// it is known, and with musl.
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    // ORDERING: Relaxed: the number is all that counts, and is the same for all threads.
    if BYTES.load(Ordering::Relaxed) == 0 {
        // SAFETY: the name ends with a zero.
        let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
        if !symbol.is_null() {
            // SAFETY: glibc's function has this type (nptl/nptl-stack.h); std calls it, too.
            let min_stack = unsafe { mem::transmute::<*mut c_void, MinStack>(symbol) };
            // SAFETY: the attributes are initialised.
            let bytes = unsafe { min_stack(attributes) };
            // ORDERING: Relaxed, as above.
            BYTES.store(bytes, Ordering::Relaxed);
        }
    }
    // ORDERING: Relaxed, as above.
    BYTES.load(Ordering::Relaxed)
}

/// A value whose drop does work at the end of its thread.
struct DroppedAtTheEnd;

impl Drop for DroppedAtTheEnd {
    fn drop(&mut self) {}
}

thread_local! {
    /// Keeps a library that contains tickline loaded while this thread runs its code. glibc counts
    /// the thread-local values that have a destructor in a library, and does not unmap the library
    /// before they are dropped (`__cxa_thread_atexit_impl`, which std calls;
    /// `l_tls_dtor_count` in `elf/dl-close.c`). musl never unmaps a library.
    ///
    /// Symptom: SIGSEGV in a program that unloaded a plugin whose [`ClockGuard`](crate::ClockGuard)
    /// was forgotten.
    static KEEPS_LIBRARY_LOADED: DroppedAtTheEnd = const { DroppedAtTheEnd };
}

extern "C" fn begin(work: *mut c_void) -> *mut c_void {
    KEEPS_LIBRARY_LOADED.with(|_| ());
    // This frees the outer box now. At the thread's first call of the allocator, glibc maps memory,
    // which a filter that is installed later need not allow.
    // SAFETY: from `into_raw` in `spawn`, for this thread only.
    let work = *unsafe { Box::from_raw(work.cast::<Work>()) };
    // A panic must not leave a C function: it would end the process.
    catch_unwind(AssertUnwindSafe(work)).ok();
    ptr::null_mut()
}

#[cfg(all(test, target_env = "gnu", not(miri)))]
mod tests {
    use super::*;

    /// Otherwise a program with much thread-local storage could start no thread.
    #[test]
    fn glibc_says_how_much_stack_a_thread_needs() {
        // SAFETY: plain data, which the call below fills.
        let mut attributes: libc::pthread_attr_t = unsafe { mem::zeroed() };
        // SAFETY: `attributes` is valid for a write.
        unsafe { libc::pthread_attr_init(&raw mut attributes) };
        let first_bytes = min_stack_bytes(&attributes);
        let second_bytes = min_stack_bytes(&attributes);
        // SAFETY: `attributes` is initialised, and used no more.
        unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
        assert!(first_bytes >= libc::PTHREAD_STACK_MIN, "{first_bytes}");
        assert_eq!(second_bytes, first_bytes, "it is kept");
    }
}
