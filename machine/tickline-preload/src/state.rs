//! The state of the library in a process.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use tickline_page::AttachedPage;
use tickline_page::lease::{Attachment, ProcessHighWater};

/// The state of this copy of the library. A second copy in the same process finds the vDSO's
/// symbols redirected, and only records their targets, which lead to the first copy.
static STATE: ProcessState = ProcessState {
    vdso: AtomicPtr::new(ptr::null_mut()),
    clock_gettime: AtomicUsize::new(0),
    gettimeofday: AtomicUsize::new(0),
    attachment: AtomicPtr::new(ptr::null_mut()),
    attached: UnsafeCell::new(MaybeUninit::uninit()),
    process_high_water: ProcessHighWater::new(),
};

#[inline(always)]
pub(crate) const fn state() -> &'static ProcessState {
    &STATE
}

/// The page and the vDSO of a process.
#[repr(C)]
pub(crate) struct ProcessState {
    /// The address of the [`Attachment`], in memory that the kernel fills with zeros in a forked
    /// child, which may be in another time namespace. Null until `attached` has a value. Each
    /// reading loads this pointer first.
    attachment: AtomicPtr<Attachment>,
    /// The vDSO's start.
    pub(crate) vdso: AtomicPtr<u8>,
    /// The offsets of the vDSO's own functions from its start, bytes; 0 for a missing function.
    pub(crate) clock_gettime: AtomicUsize,
    pub(crate) gettimeofday: AtomicUsize,
    attached: UnsafeCell<MaybeUninit<AttachedPage<'static>>>,
    /// The process's high-water mark (rule R8). A forked child inherits a copy.
    pub(crate) process_high_water: ProcessHighWater,
}

// SAFETY: the thread that loads the library writes `attached` once, before it stores `attachment`.
// Other threads read `attached` only after they have seen `attachment`.
unsafe impl Sync for ProcessState {}

impl ProcessState {
    /// Records that the vDSO is at `start`. The program may have moved it (mremap(2)).
    #[inline(always)]
    pub(crate) fn set_vdso_start(&self, start: *mut u8) {
        // ORDERING: Relaxed, for both: threads that call a moved vDSO store the same value.
        if self.vdso.load(Ordering::Relaxed) != start {
            self.vdso.store(start, Ordering::Relaxed);
        }
    }

    /// The page, if `attach` has found one, and whether this process is attached to it.
    #[inline(always)]
    pub(crate) fn attached(&self) -> Option<(&AttachedPage<'static>, &'static Attachment)> {
        // ORDERING: Acquire, pairs with the Release store in `attach`: `attached` has its value. No
        // test sees a weaker ordering, because every load and store of x86_64 has this ordering,
        // and Miri can't load the library.
        let attachment = NonNull::new(self.attachment.load(Ordering::Acquire))?;
        // SAFETY: this memory is never unmapped, and holds an `Attachment` from the start.
        let attachment = unsafe { attachment.as_ref() };
        // SAFETY: no thread writes to `attached` after `attachment` is stored.
        let attached = unsafe { &*self.attached.get() };
        // SAFETY: `attach` wrote it before it stored `attachment`.
        Some((unsafe { attached.assume_init_ref() }, attachment))
    }

    /// Records that this process is attached to the page `attached`. In a forked child, the kernel
    /// fills the memory of `attachment` with zeros.
    ///
    /// # Safety
    ///
    /// The caller must call this once, while the process has one thread.
    pub(crate) unsafe fn attach(
        &'static self,
        attached: AttachedPage<'static>,
        attachment: &'static Attachment,
    ) {
        attachment.set_attached();
        // SAFETY: there is one thread, and no reader before `self.attachment` is stored.
        let uninit = unsafe { &mut *self.attached.get() };
        uninit.write(attached);
        // ORDERING: Release, pairs with the Acquire load in `attached`. No test sees a weaker
        // ordering, for the reason given at that load.
        self.attachment
            .store(ptr::from_ref(attachment).cast_mut(), Ordering::Release);
    }
}
