//! What a process that has this library knows.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

use tickline_page::{Attached, ProcessHighWater};

/// The state of this copy of the library. A second copy in a process, which finds the vDSO's
/// symbols taken, has nothing but the way to the first one.
static STATE: ProcessState = ProcessState {
    vdso: AtomicPtr::new(ptr::null_mut()),
    clock_gettime: AtomicUsize::new(0),
    gettimeofday: AtomicUsize::new(0),
    here: AtomicPtr::new(ptr::null_mut()),
    attached: UnsafeCell::new(MaybeUninit::uninit()),
    high_water: ProcessHighWater::new(),
};

/// The state of the process.
#[inline(always)]
pub(crate) const fn state() -> &'static ProcessState {
    &STATE
}

/// What a process knows of its clocks.
#[repr(C)]
pub(crate) struct ProcessState {
    /// A [`Here`], in memory that the kernel fills with zeros in a forked child; null until
    /// `attached` has a value. Each reading loads this first.
    here: AtomicPtr<AtomicU32>,
    /// Where the vDSO is, and how far behind that its own functions are, bytes; 0 where there are
    /// none.
    pub(crate) vdso: AtomicPtr<u8>,
    pub(crate) clock_gettime: AtomicUsize,
    pub(crate) gettimeofday: AtomicUsize,
    attached: UnsafeCell<MaybeUninit<Attached<'static>>>,
    /// A forked child inherits a copy.
    pub(crate) high_water: ProcessHighWater,
}

// SAFETY: `attached` is written once, by the thread that loads the library, before `here` is
// stored; read only after that was seen.
unsafe impl Sync for ProcessState {}

/// Whether this process has the page's monotonic time. It is not known in a child of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Here {
    Unknown = 0,
    /// The process's high-water mark is about to be raised to the OS clock.
    Attaching = 1,
    Served = 2,
}

impl ProcessState {
    /// The vDSO is at `start`. A program may have moved it, with its functions.
    #[inline(always)]
    pub(crate) fn vdso_is_at(&self, start: *mut u8) {
        // ORDERING: Relaxed, for both: threads that call a moved vDSO store the same.
        if self.vdso.load(Ordering::Relaxed) != start {
            self.vdso.store(start, Ordering::Relaxed);
        }
    }

    /// The page, if one was found, and what is known of this process.
    #[inline(always)]
    pub(crate) fn attached(&self) -> Option<(&Attached<'static>, Known)> {
        // ORDERING: Acquire, pairs with the Release store in `attach`: the value is there. No test
        // sees a weaker one: this library is for x86_64, which loads and stores so, and Miri can't
        // load it.
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
        here.store(Here::Served as u32, Ordering::Relaxed);
        // SAFETY: one thread, and nobody reads it before `self.here` is stored.
        let place = unsafe { &mut *self.attached.get() };
        place.write(attached);
        // ORDERING: Release, pairs with the Acquire load in `attached`. No test sees a weaker one,
        // as there.
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
        // ORDERING: Acquire, pairs with the exchange in `rise_to`: if this is `Served`, the private
        // high-water mark is raised. No test sees a weaker one, as in `attached`.
        match self.0.load(Ordering::Acquire) {
            0 => Here::Unknown,
            1 => Here::Attaching,
            _ => Here::Served,
        }
    }

    /// What was found out. It never falls: threads find out at different times.
    pub(crate) fn rise_to(self, here: Here) {
        // ORDERING: SeqCst: also a full fence, so that what this thread asks the OS clock next is
        // asked when others can see this. No test sees a weaker one: every exchange is that on
        // x86_64.
        self.0.fetch_max(here as u32, Ordering::SeqCst);
    }

    /// Whether a thread may have asked the OS clock, for the process's high-water mark, before this
    /// one did: that may be less than what this one has.
    pub(crate) fn may_have_attached(self) -> bool {
        // ORDERING: SeqCst, pairs with the exchange in `rise_to`: behind what this thread has
        // asked. No test sees a weaker one: the partner is an answer of the kernel, which none can
        // delay.
        fence(Ordering::SeqCst);
        matches!(self.here(), Here::Attaching | Here::Served)
    }
}
