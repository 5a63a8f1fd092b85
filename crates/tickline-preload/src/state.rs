//! What a process that has this library knows.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use tickline_page::{Attached, PrivateFloor};

const PAGE_BYTES: usize = 4096;

/// The state of this copy of the library.
static OWN: State = State {
    clock_gettime: AtomicPtr::new(ptr::null_mut()),
    gettimeofday: AtomicPtr::new(ptr::null_mut()),
    here: AtomicPtr::new(ptr::null_mut()),
    attached: UnsafeCell::new(MaybeUninit::uninit()),
    floor: PrivateFloor::new(),
};

/// The state that this copy uses: that of the first copy in the process. `tickline run` maps one into
/// a program whose dynamic linker then loads another.
static USED: AtomicPtr<State> = AtomicPtr::new((&raw const OWN).cast_mut());

/// The state of the process.
#[inline(always)]
pub(crate) fn state() -> &'static State {
    // ORDERING: Relaxed: both states are complete when they can be found here, or say that they are
    // not (`State::attached`).
    let used = USED.load(Ordering::Relaxed);
    // SAFETY: this copy's own state, or by the promise of `use_that_of`.
    unsafe { &*used }
}

/// Uses the state of the copy of this library whose function `theirs` is what `own` is here. `false`
/// if `theirs` is something else.
///
/// # Safety
///
/// Both are the addresses of functions.
pub(crate) unsafe fn use_that_of(theirs: *const u8, own: *const u8) -> bool {
    // Enough to hold the distance from the function to the table with the state's address.
    const LEAST_BYTES: usize = 32;
    const MOST_BYTES: usize = 256;
    // Whole pages are mapped, so both are as far from the end of their pages.
    let place = own.addr() & (PAGE_BYTES - 1);
    let left_bytes = PAGE_BYTES - place;
    if theirs.addr() & (PAGE_BYTES - 1) != place || left_bytes < LEAST_BYTES {
        return false;
    }
    let bytes = left_bytes.min(MOST_BYTES);
    // SAFETY: code can be read, up to the end of its page.
    let code = |function| unsafe { slice::from_raw_parts(function, bytes) };
    if code(theirs) != code(own) {
        return false;
    }
    // All of a copy is mapped at once, so everything in it is as far away as this function is.
    let away = theirs.addr().wrapping_sub(own.addr());
    let found = (&raw const OWN).wrapping_byte_add(away);
    // ORDERING: Relaxed, as in `state`.
    USED.store(found.cast_mut(), Ordering::Relaxed);
    true
}

/// What a process knows of its clocks.
#[repr(C)]
pub(crate) struct State {
    /// A [`Here`], in memory that the kernel fills with zeros in a forked child; null until
    /// `attached` has a value. Each reading loads this first.
    here: AtomicPtr<AtomicU32>,
    /// The vDSO's own functions; null where there are none.
    pub(crate) clock_gettime: AtomicPtr<c_void>,
    pub(crate) gettimeofday: AtomicPtr<c_void>,
    attached: UnsafeCell<MaybeUninit<Attached<'static>>>,
    /// A forked child inherits a copy.
    pub(crate) floor: PrivateFloor,
}

// SAFETY: `attached` is written once, by the one thread that there is at the start, before `here` is
// stored; read only after that was seen.
unsafe impl Sync for State {}

/// Whether this process is served. It is not known in a child of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Here {
    Unknown,
    Served,
    /// Unix time is. The private floor is still that of the parent.
    UnixServed,
    NotServed,
}

const SERVED: u32 = 1;
const NOT_SERVED: u32 = 2;
const UNIX_SERVED: u32 = 3;

impl State {
    /// The page, if one was found, and what is known of this process.
    #[inline(always)]
    pub(crate) fn attached(&self) -> Option<(&Attached<'static>, Known)> {
        // ORDERING: Acquire, pairs with the Release store in `attach`: the value is there.
        let here = NonNull::new(self.here.load(Ordering::Acquire))?;
        // SAFETY: it is memory that is never unmapped, and holds an atomic from the start on.
        let known = Known(unsafe { here.as_ref() });
        // SAFETY: nobody writes to it any more.
        let attached = unsafe { &*self.attached.get() };
        // SAFETY: it was written before `here` was stored.
        Some((unsafe { attached.assume_init_ref() }, known))
    }

    /// The process is served by `attached`; `here` is memory for [`Here`].
    ///
    /// # Safety
    ///
    /// To be called once, while there is one thread.
    pub(crate) unsafe fn attach(&'static self, attached: Attached<'static>, here: &'static AtomicU32) {
        // ORDERING: Relaxed, before the Release store below.
        here.store(SERVED, Ordering::Relaxed);
        // SAFETY: one thread, and nobody reads it before `self.here` is stored.
        let place = unsafe { &mut *self.attached.get() };
        place.write(attached);
        // ORDERING: Release, pairs with the Acquire load in `attached`.
        self.here.store(ptr::from_ref(here).cast_mut(), Ordering::Release);
    }
}

/// What is known of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known(&'static AtomicU32);

impl Known {
    /// Whether this process is served, as far as it is known.
    #[inline(always)]
    pub(crate) fn here(self) -> Here {
        // ORDERING: Acquire, pairs with the Release store in `set`: the private floor is raised.
        match self.0.load(Ordering::Acquire) {
            SERVED => Here::Served,
            UNIX_SERVED => Here::UnixServed,
            NOT_SERVED => Here::NotServed,
            _ => Here::Unknown,
        }
    }

    /// What was found out. Threads that find out at once find the same.
    pub(crate) fn set(self, here: Here) {
        let known = match here {
            Here::Unknown => 0,
            Here::Served => SERVED,
            Here::UnixServed => UNIX_SERVED,
            Here::NotServed => NOT_SERVED,
        };
        // ORDERING: Release, pairs with the Acquire load in `here`.
        self.0.store(known, Ordering::Release);
    }
}
