//! The state of the library in a process.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

use tickline_page::{AttachedPage, ProcessHighWater};

/// The state of this copy of the library. A second copy in the same process finds the vDSO's
/// symbols redirected, and only records their targets, which lead to the first copy.
static STATE: ProcessState = ProcessState {
    vdso: AtomicPtr::new(ptr::null_mut()),
    clock_gettime: AtomicUsize::new(0),
    gettimeofday: AtomicUsize::new(0),
    service: AtomicPtr::new(ptr::null_mut()),
    attached: UnsafeCell::new(MaybeUninit::uninit()),
    process_high_water: ProcessHighWater::new(),
};

/// The state of the process.
#[inline(always)]
pub(crate) const fn state() -> &'static ProcessState {
    &STATE
}

/// The page and the vDSO of a process.
#[repr(C)]
pub(crate) struct ProcessState {
    /// The address of the [`ServiceState`], in memory that the kernel fills with zeros in a forked
    /// child. Null until `attached` has a value. Each reading loads this pointer first.
    service: AtomicPtr<AtomicU32>,
    /// The vDSO's start.
    pub(crate) vdso: AtomicPtr<u8>,
    /// The offsets of the vDSO's own functions from its start, bytes; 0 for a missing function.
    pub(crate) clock_gettime: AtomicUsize,
    pub(crate) gettimeofday: AtomicUsize,
    attached: UnsafeCell<MaybeUninit<AttachedPage<'static>>>,
    /// The process's high-water mark (rule R8). A forked child inherits a copy.
    pub(crate) process_high_water: ProcessHighWater,
}

// SAFETY: the thread that loads the library writes `attached` once, before it stores `service`.
// Other threads read `attached` only after they have seen `service`.
unsafe impl Sync for ProcessState {}

/// Whether the page serves this process's monotonic time. In a forked child this is unknown at
/// first, because the child may be in another time namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ServiceState {
    Unknown = 0,
    /// A thread is about to raise the process's high-water mark to the OS clock.
    Attaching = 1,
    Served = 2,
}

impl ProcessState {
    /// Records that the vDSO is at `start`. The program may have moved it (mremap(2)).
    #[inline(always)]
    pub(crate) fn set_vdso_start(&self, start: *mut u8) {
        // ORDERING: Relaxed, for both: threads that call a moved vDSO store the same value.
        if self.vdso.load(Ordering::Relaxed) != start {
            self.vdso.store(start, Ordering::Relaxed);
        }
    }

    /// The page, if `attach` has found one, and whether it serves this process.
    #[inline(always)]
    pub(crate) fn attached(&self) -> Option<(&AttachedPage<'static>, ServiceCell)> {
        // ORDERING: Acquire, pairs with the Release store in `attach`: `attached` has its value. No
        // test sees a weaker ordering, because every load and store of x86_64 has this ordering,
        // and Miri can't load the library.
        let service = NonNull::new(self.service.load(Ordering::Acquire))?;
        // SAFETY: this memory is never unmapped, and holds an atomic from the start.
        let service = ServiceCell(unsafe { service.as_ref() });
        // SAFETY: no thread writes to `attached` after `service` is stored.
        let attached = unsafe { &*self.attached.get() };
        // SAFETY: `attach` wrote it before it stored `service`.
        Some((unsafe { attached.assume_init_ref() }, service))
    }

    /// Records that the page `attached` serves the process. `service` is the memory of the
    /// [`ServiceState`].
    ///
    /// # Safety
    ///
    /// The caller must call this once, while the process has one thread.
    pub(crate) unsafe fn attach(
        &'static self,
        attached: AttachedPage<'static>,
        service: &'static AtomicU32,
    ) {
        // ORDERING: Relaxed, before the Release store below.
        service.store(ServiceState::Served as u32, Ordering::Relaxed);
        // SAFETY: there is one thread, and no reader before `self.service` is stored.
        let uninit = unsafe { &mut *self.attached.get() };
        uninit.write(attached);
        // ORDERING: Release, pairs with the Acquire load in `attached`. No test sees a weaker
        // ordering, for the reason given at that load.
        self.service
            .store(ptr::from_ref(service).cast_mut(), Ordering::Release);
    }
}

/// The [`ServiceState`] of this process, in memory that is zeros in a forked child.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServiceCell(&'static AtomicU32);

impl ServiceCell {
    /// Loads the state.
    #[inline(always)]
    pub(crate) fn get(self) -> ServiceState {
        // ORDERING: Acquire, pairs with the exchange in `raise_to`: if this is `Served`, the
        // process's high-water mark is raised. No test sees a weaker ordering: see `attached`.
        match self.0.load(Ordering::Acquire) {
            0 => ServiceState::Unknown,
            1 => ServiceState::Attaching,
            _ => ServiceState::Served,
        }
    }

    /// Raises the state to `state`. The state never falls, because threads learn it at different
    /// times.
    pub(crate) fn raise_to(self, state: ServiceState) {
        // ORDERING: SeqCst, pairs with the fence in `may_have_attached`. As a full fence, it makes
        // this thread read the OS clock only after other threads can see the new state. No test
        // sees a weaker ordering, because on x86_64 every exchange is a full fence.
        self.0.fetch_max(state as u32, Ordering::SeqCst);
    }

    /// Whether another thread may have raised the process's high-water mark by an earlier read of
    /// the OS clock than this thread's. The mark may then be below this thread's time.
    pub(crate) fn may_have_attached(self) -> bool {
        // ORDERING: SeqCst, pairs with the exchange in `raise_to`: the load below comes after this
        // thread's read of the OS clock. No test sees a weaker ordering, because no test can delay
        // the kernel's answer.
        fence(Ordering::SeqCst);
        matches!(self.get(), ServiceState::Attaching | ServiceState::Served)
    }
}
