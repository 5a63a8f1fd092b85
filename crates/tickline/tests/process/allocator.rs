//! The allocator of these tests: it sleeps where a test asks for it, and reads the clock.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::signal::read_in_the_allocator;

struct Watched;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

thread_local! {
    /// Whether this thread sleeps in its next allocation, while [`ASLEEP`] is true.
    pub(crate) static SLEEPS: Cell<bool> = const { Cell::new(false) };
}

/// Whether a thread sleeps in the allocator. The thread sets it, and sleeps until another one
/// clears it.
///
/// ORDERING: stores are Release, loads Acquire, and each pairs with the others: a thread that sees
/// the flag change also sees what the other one did before.
pub(crate) static ASLEEP: AtomicBool = AtomicBool::new(false);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if SLEEPS.replace(false) {
            ASLEEP.store(true, Ordering::Release);
            while ASLEEP.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        read_in_the_allocator();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        read_in_the_allocator();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}
