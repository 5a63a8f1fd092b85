//! Linux: a token that `fork` wipes.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use tickline_core::sample::Reference;

use crate::sys::reference::OsClock;

/// A page that the kernel fills with zeros in every forked child (`MADV_WIPEONFORK`, madvise(2),
/// Linux 4.14). Null before the first use. [`UNAVAILABLE`] if the kernel gives no such page, so
/// that the answer stays the same for the whole process.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// Stands for a page that the kernel did not give. Nothing reads or writes it.
static UNAVAILABLE: AtomicU64 = AtomicU64::new(0);

const PAGE_BYTES: usize = 4096;

/// The page, where pages have this size: memory of the program or library itself, so that
/// `dlclose` of a library gives it back. Nothing else is on it.
///
/// `MADV_WIPEONFORK` takes private anonymous memory only. Zeros that begin on a page of their own
/// are that: a loader maps the rest of the file's last page from the file, and all pages after it
/// without one (elf(5), `p_memsz`).
#[repr(C, align(4096))]
struct Page([AtomicU64; PAGE_BYTES / size_of::<AtomicU64>()]);

static OWN_PAGE: Page = Page([const { AtomicU64::new(0) }; PAGE_BYTES / size_of::<AtomicU64>()]);
const _: () = assert!(size_of::<Page>() == PAGE_BYTES);

/// A number that is the same for all threads of this process, and differs from that of each
/// ancestor; never 0. A signal handler may call this.
pub(crate) fn token() -> u64 {
    match page() {
        Some(token) => {
            // ORDERING: Relaxed for all: the number itself is all there is.
            let order = Ordering::Relaxed;
            let known = token.load(order);
            if known != 0 {
                return known;
            }
            let fresh = process_id() << 32 ^ OsClock.monotonic_ns().unsigned_abs() | 1;
            token.compare_exchange(0, fresh, order, order).map_or_else(|theirs| theirs, |_| fresh)
        }
        // For kernels before 4.14 and minimal probes. This is wrong for a child that has the id of
        // an ancestor: one that has ended, or one in another pid namespace.
        None => process_id(),
    }
}

/// A number for the locks in this memory: the same for all processes that share it, also those that
/// `clone` made with `CLONE_VM`. It differs from that of a process whose copy it is, so that a
/// forked child takes over what its parent's threads hold.
///
/// Without the page (minimal probes, Linux before 4.14) nothing distinguishes a forked child from
/// one that shares this memory: both have a process id of their own. Then the number is the same
/// for all, and nothing is taken over. A lock that another thread holds at a fork stays held in the
/// child, whose readings the OS clock serves.
pub(crate) fn lock_token() -> u64 {
    if page().is_some() { token() } else { NEVER_TAKEN_OVER }
}

/// Not a [`token`] that a page holds, whose higher half is not empty.
const NEVER_TAKEN_OVER: u64 = 1;

fn process_id() -> u64 {
    // SAFETY: getpid always succeeds and touches no memory.
    u64::from(unsafe { libc::getpid() }.unsigned_abs()).max(1)
}

fn page() -> Option<&'static AtomicU64> {
    // ORDERING: Acquire, pairs with the Release exchange in `make_page`: the page is mapped. No
    // test sees a weaker one: the kernel has filled the page, and processors know an address before
    // they load from it.
    let mut known = PAGE.load(Ordering::Acquire);
    if known.is_null() {
        known = make_page();
    }
    if ptr::eq(known, &raw const UNAVAILABLE) {
        return None;
    }
    // SAFETY: not null here, and a page once installed is never unmapped; zeros are a valid
    // AtomicU64.
    unsafe { known.as_ref() }
}

/// From now on [`token`] makes no page (`mmap`, `madvise`), but asks for the process id each time.
/// A page that exists stays in use, for it costs no system call.
pub(crate) fn forgo_page() {
    let none = (&raw const UNAVAILABLE).cast_mut();
    // ORDERING: Relaxed, nothing is published with it: UNAVAILABLE is never written.
    PAGE.compare_exchange(ptr::null_mut(), none, Ordering::Relaxed, Ordering::Relaxed).ok();
}

/// Has the kernel wipe the page of this address in forked children. Returns whether it will.
fn wipe_on_fork(page: *mut libc::c_void) -> bool {
    // SAFETY: the address is that of a whole page of tickline's own, which holds one atomic, or
    // nothing yet. Its content here stays.
    let result = unsafe { libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) };
    result == 0
}

/// The static page, if the kernel's pages have its size, and it wipes it.
fn own_page() -> Option<*mut AtomicU64> {
    // SAFETY: takes a number, and touches no memory that changes.
    let page_bytes = unsafe { libc::getauxval(libc::AT_PAGESZ) };
    let page = (&raw const OWN_PAGE.0).cast::<AtomicU64>().cast_mut();
    let fits = usize::try_from(page_bytes).is_ok_and(|bytes| bytes == PAGE_BYTES);
    (fits && wipe_on_fork(page.cast())).then_some(page)
}

/// Makes the page, unless another thread was faster. Returns what is installed now.
#[cold]
fn make_page() -> *mut AtomicU64 {
    let own = own_page();
    let fresh = match own {
        Some(_) => libc::MAP_FAILED,
        // SAFETY: a new private mapping; no existing memory is touched.
        None => unsafe {
            libc::mmap(
                ptr::null_mut(),
                PAGE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        },
    };
    let mapped = fresh != libc::MAP_FAILED;
    let wiped = mapped && wipe_on_fork(fresh);
    let instead = if wiped { fresh.cast() } else { (&raw const UNAVAILABLE).cast_mut() };
    let wanted = own.unwrap_or(instead);
    // ORDERING: Release, pairs with the Acquire load in `page`; Acquire on failure for the same
    // reason. No test sees weaker ones, as there.
    let installed = PAGE.compare_exchange(ptr::null_mut(), wanted, Ordering::Release, Ordering::Acquire);
    if mapped && !(wiped && installed.is_ok()) {
        // SAFETY: the mapping is this function's own, and no other thread has its address.
        unsafe { libc::munmap(fresh, PAGE_BYTES) };
    }
    installed.map_or_else(|theirs| theirs, |_| wanted)
}
