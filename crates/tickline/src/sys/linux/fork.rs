//! Linux: the token of a process, in memory that the kernel wipes at a `fork`.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use tickline_core::try_lock::LockToken;

use super::thread_end::own_thread;

/// Memory that the kernel fills with zeros in every forked child (`MADV_WIPEONFORK`, madvise(2),
/// Linux 4.14). Null before the first use. [`UNAVAILABLE`] if the kernel gives no such memory, so
/// that the answer stays the same for the whole process.
static TOKEN: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// Stands for memory that the kernel did not give. Nothing reads or writes it.
static UNAVAILABLE: AtomicU64 = AtomicU64::new(0);

/// The length of the mapping, bytes: one atomic. The kernel rounds it up to a page.
const MAPPED_BYTES: usize = size_of::<AtomicU64>();

/// The number of the last process, among this one and its ancestors, that has a fork token. It is in
/// ordinary memory, so a child inherits it, and takes the next one: a token's number differs from
/// those of all ancestors.
static LAST_NUMBER: AtomicU32 = AtomicU32::new(NO_TAKEOVER);

/// A number that is the same for all threads of this process, and differs from every ancestor's;
/// never 0. A signal handler may call this.
pub(crate) fn token() -> u64 {
    match fork_token() {
        Some(token) => {
            // ORDERING: Relaxed for all: the numbers publish no other memory.
            let order = Ordering::Relaxed;
            let known = token.load(order);
            if known != 0 {
                return known;
            }
            // The number is taken before the token is stored. A child that is forked in between has
            // no token, and takes the next number.
            let number = LAST_NUMBER.fetch_add(1, order).wrapping_add(1);
            let fresh = u64::from(number) << 32 | u64::from(process_id());
            token
                .compare_exchange(0, fresh, order, order)
                .map_or_else(|theirs| theirs, |_| fresh)
        }
        // Without a fork token: before Linux 4.14, or with minimal probes. The token is wrong for a
        // child that has the id of an ancestor: the ancestor has ended, or is in another pid
        // namespace.
        None => process_id().into(),
    }
}

/// The number of the [`token`], for locks that a forked child must always take over.
pub(crate) fn process_number() -> u32 {
    let token = token();
    match high_half(token) {
        0 => low_half(token),
        number => number,
    }
}

/// The process that has this process's fork token: its id, by which the kernel also knows its first
/// thread. A process that shares this memory (`CLONE_VM`) gets the id of the first one that asked.
/// `None` without a fork token.
pub(super) fn process_with_token(token: u64) -> Option<u32> {
    (high_half(token) != 0).then(|| low_half(token))
}

const fn high_half(token: u64) -> u32 {
    (token >> 32) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "half of the bits")]
const fn low_half(token: u64) -> u32 {
    token as u32
}

/// The token for the locks in this memory, for the calling thread. All processes that share the
/// memory have the same number, also those that `clone` made with `CLONE_VM`. A forked child has a
/// copy of the memory, and another number. So the child takes over the locks that its parent's
/// threads hold. It names the thread, so that another one takes over its locks if it is killed.
///
/// Without the fork token (minimal probes, Linux before 4.14) nothing distinguishes a forked child
/// from one that shares this memory: both have a process id of their own. Then the number is the
/// same for all processes, it names no thread, and no lock is taken over. A lock that another thread
/// holds at a fork stays held in the child, whose readings then come from the OS clock.
pub(crate) fn lock_token() -> LockToken {
    let number = high_half(token()).max(NO_TAKEOVER);
    // SAFETY: processes that share this memory have the same number. A forked child has a copy of
    // the memory, and another number. If the system can't distinguish the two cases, all processes
    // have the same number, and a lock that was held at a fork stays held in the child. POSIX
    // forbids a program to fork in a signal handler and to return from it in the child.
    own_thread(unsafe { LockToken::new(number) })
}

/// The number of the lock token without a fork token. Those of fork tokens are greater.
const NO_TAKEOVER: u32 = 1;

fn process_id() -> u32 {
    // SAFETY: getpid always succeeds and touches no memory.
    unsafe { libc::getpid() }.unsigned_abs().max(1)
}

fn fork_token() -> Option<&'static AtomicU64> {
    // ORDERING: Acquire, pairs with the Release exchange in `map_fork_token`: the memory is mapped.
    // No test sees a weaker one: the kernel has filled it, and processors know an address before
    // they load from it.
    let mut known = TOKEN.load(Ordering::Acquire);
    if known.is_null() {
        known = map_fork_token();
    }
    if ptr::eq(known, &raw const UNAVAILABLE) {
        return None;
    }
    // SAFETY: the pointer is not null here. Installed memory is never unmapped; zeros are a valid
    // `AtomicU64`.
    unsafe { known.as_ref() }
}

/// Keeps [`token`] from mapping memory (`mmap`, `madvise`): it then asks for the process id each
/// time. Memory that is mapped already stays in use, because it costs no system call.
pub(crate) fn disable_fork_token() {
    let none = (&raw const UNAVAILABLE).cast_mut();
    // ORDERING: Relaxed, nothing is published with it: UNAVAILABLE is never written.
    TOKEN
        .compare_exchange(ptr::null_mut(), none, Ordering::Relaxed, Ordering::Relaxed)
        .ok();
}

/// Maps the memory, unless another thread was faster. Returns the installed pointer. The memory
/// stays mapped when a library that contains tickline is unloaded.
#[cold]
fn map_fork_token() -> *mut AtomicU64 {
    // SAFETY: the mapping is new and private, and overlaps no existing memory.
    let fresh = unsafe {
        libc::mmap(
            ptr::null_mut(),
            MAPPED_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    let is_mapped = fresh != libc::MAP_FAILED;
    // SAFETY: the mapping is this function's own. The kernel rounds its length up to whole pages.
    let is_wiped =
        is_mapped && unsafe { libc::madvise(fresh, MAPPED_BYTES, libc::MADV_WIPEONFORK) } == 0;
    let wanted = if is_wiped {
        fresh.cast()
    } else {
        (&raw const UNAVAILABLE).cast_mut()
    };
    // ORDERING: Release, pairs with the Acquire load in `fork_token`; Acquire on failure, because
    // the winner's memory is used. No test sees weaker ones: see `fork_token`.
    let installed = TOKEN.compare_exchange(
        ptr::null_mut(),
        wanted,
        Ordering::Release,
        Ordering::Acquire,
    );
    if is_mapped && !(is_wiped && installed.is_ok()) {
        // SAFETY: the mapping is this function's own, and no other thread has its address.
        unsafe { libc::munmap(fresh, MAPPED_BYTES) };
    }
    installed.map_or_else(|theirs| theirs, |_| wanted)
}
