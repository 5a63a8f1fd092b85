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
    /// The time that this thread's next allocation takes.
    pub(crate) static SLEEPS_FOR: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Whether a thread sleeps in the allocator.
pub(crate) static ASLEEP: AtomicBool = AtomicBool::new(false);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let time = SLEEPS_FOR.replace(Duration::ZERO);
        if !time.is_zero() {
            ASLEEP.store(true, Ordering::Release);
            std::thread::sleep(time);
            ASLEEP.store(false, Ordering::Release);
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
