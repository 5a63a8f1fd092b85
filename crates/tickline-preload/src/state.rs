//! What a process that has this library knows.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use tickline_page::{Attached, PrivateFloor};

/// The only state.
pub(crate) static STATE: State = State {
    clock_gettime: AtomicPtr::new(ptr::null_mut()),
    gettimeofday: AtomicPtr::new(ptr::null_mut()),
    here: AtomicPtr::new(ptr::null_mut()),
    attached: UnsafeCell::new(MaybeUninit::uninit()),
    floor: PrivateFloor::new(),
};

/// See [`STATE`].
pub(crate) struct State {
    /// The vDSO's own functions; null where there are none.
    pub(crate) clock_gettime: AtomicPtr<c_void>,
    pub(crate) gettimeofday: AtomicPtr<c_void>,
    /// A [`Here`], in memory that the kernel fills with zeros in a forked child; null until
    /// `attached` has a value.
    here: AtomicPtr<AtomicU32>,
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
    NotServed,
}

const SERVED: u32 = 1;
const NOT_SERVED: u32 = 2;

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
        // ORDERING: Relaxed: a value of its own, which nothing else hangs on.
        match self.0.load(Ordering::Relaxed) {
            SERVED => Here::Served,
            NOT_SERVED => Here::NotServed,
            _ => Here::Unknown,
        }
    }

    /// What was found out.
    pub(crate) fn set(self, is_served: bool) {
        // ORDERING: Relaxed, as in `here`. Threads that find out at once find the same.
        self.0.store(if is_served { SERVED } else { NOT_SERVED }, Ordering::Relaxed);
    }
}
