//! Linux: the tokens by which a process is told from its forked children.
//!
//! ```text
//! process token, 64 bits:  [ number, 0 if the system can't wipe memory at a fork | process id ]
//! ```
//!
//! | token | identifies |
//! |---|---|
//! | process token ([`process_token`]) | the process |
//! | fork token | the same: a process token with a number, which is in memory that the kernel wipes at a fork |
//! | lock token ([`lock_token`]) | the memory, which processes of `CLONE_VM` share, and the calling thread |
//!
//! # Rejected
//!
//! | option | price |
//! |---|---|
//! | `pthread_atfork` in place of a token | misses children of `clone`, which sandboxes use |

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use tickline_core::try_lock::LockToken;

use super::thread_end::naming_this_thread;

/// Whole pages, whatever the kernel's page size, because the kernel wipes whole pages. They are a
/// part of the program or library that contains tickline, so they go when the library is unloaded.
/// Linux has pages of 4 KiB on x86_64, and of up to 64 KiB on other processors.
#[derive(Debug)]
#[cfg_attr(target_arch = "x86_64", repr(align(4_096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(align(65_536)))]
struct WholePages(AtomicU64);

/// The fork token of this process; 0 before its first use. The kernel fills the pages with zeros in
/// every forked child (`MADV_WIPEONFORK`, madvise(2), Linux 4.14).
static TOKEN: WholePages = WholePages(AtomicU64::new(0));

/// Whether [`TOKEN`] is wiped at a fork: [`UNKNOWN`], [`WIPED`] or [`NOT_WIPED`]. The answer stays
/// the same for the whole process, and for its forked children.
static IS_WIPED: AtomicU8 = AtomicU8::new(UNKNOWN);

const UNKNOWN: u8 = 0;
const WIPED: u8 = 1;
const NOT_WIPED: u8 = 2;

/// The number of the last process, among this one and its ancestors, that has a fork token. It is
/// in ordinary memory, so a child inherits it, and takes the next one: a token's number differs
/// from the numbers of all ancestors.
static LAST_NUMBER: AtomicU32 = AtomicU32::new(NO_TAKEOVER.get());

/// A number that is the same for all threads of this process, and differs from every ancestor's;
/// never 0. A signal handler may call this.
pub(crate) fn process_token() -> u64 {
    // Only a token that the kernel wipes at a fork is ever stored.
    // ORDERING: Relaxed, as in `first_process_token`.
    match TOKEN.0.load(Ordering::Relaxed) {
        0 => first_process_token(),
        known => known,
    }
}

/// The token in the first call of a process, and where the kernel does not wipe the page.
#[cold]
#[inline(never)]
fn first_process_token() -> u64 {
    match wiped_word() {
        Some(word) => {
            // ORDERING: Relaxed for all: the numbers publish no other memory.
            let order = Ordering::Relaxed;
            // The number is taken before the token is stored. A child that is forked in between has
            // no token, and takes the next number.
            let number = LAST_NUMBER.fetch_add(1, order).wrapping_add(1);
            let fresh = u64::from(number) << 32 | u64::from(process_id());
            word.compare_exchange(0, fresh, order, order)
                .map_or_else(|theirs| theirs, |_| fresh)
        }
        // Without a fork token: before Linux 4.14, or with minimal probes. The token is wrong for a
        // child that has the id of an ancestor: the ancestor has ended, or is in another pid
        // namespace.
        None => process_id().into(),
    }
}

/// The number of the [`process_token`], for locks that a forked child must always take over.
pub(crate) fn process_number() -> NonZeroU32 {
    let token = process_token();
    let process_id = || NonZeroU32::new(low_half(token));
    NonZeroU32::new(high_half(token))
        .or_else(process_id)
        .unwrap_or(NO_TAKEOVER)
}

/// The id in a fork token, by which the kernel also knows the process's first thread. In a process
/// that shares this memory (`CLONE_VM`) it is the id of the first one that asked. `None` if the
/// process token is no fork token.
pub(super) fn process_id_in(token: u64) -> Option<u32> {
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
/// threads hold. The token names the calling thread, so that another thread takes over its locks if
/// it is killed.
///
/// Without the fork token (minimal probes, Linux before 4.14) nothing distinguishes a forked child
/// from one that shares this memory: both have a process id of their own. Then the number is the
/// same for all processes, it names no thread, and no lock is taken over. A lock that another
/// thread holds at a fork stays held in the child, whose readings then come from the OS clock.
#[inline(never)]
pub(crate) fn lock_token() -> LockToken {
    let number = NonZeroU32::new(high_half(process_token())).unwrap_or(NO_TAKEOVER);
    // SAFETY: 1. Processes that share this memory also share `TOKEN` and `IS_WIPED`, from which the
    // number follows. 2. A holder runs tickline, libc and the program's allocator, and none of them
    // forks. 3. POSIX forbids a program to fork in a signal handler and to return from it in the
    // child.
    naming_this_thread(unsafe { LockToken::new(number) })
}

/// The number of the lock token without a fork token. The numbers of fork tokens are greater.
const NO_TAKEOVER: NonZeroU32 = NonZeroU32::MIN;

fn process_id() -> u32 {
    // SAFETY: getpid always succeeds and touches no memory.
    unsafe { libc::getpid() }.unsigned_abs().max(1)
}

/// The word of [`TOKEN`], if the kernel wipes it at a fork. Asks the kernel once.
fn wiped_word() -> Option<&'static AtomicU64> {
    // ORDERING: Relaxed, the answer publishes no other memory.
    let known = match IS_WIPED.load(Ordering::Relaxed) {
        UNKNOWN => set_wiped(ask_to_wipe()),
        known => known,
    };
    (known == WIPED).then_some(&TOKEN.0)
}

/// Keeps [`process_token`] from calling `madvise`: it then asks for the process id each time. A
/// fork token that is in use stays in use, because it costs no system call.
pub(crate) fn disable_fork_token() {
    set_wiped(NOT_WIPED);
}

/// Sets the answer, unless another thread was faster. Returns the answer.
fn set_wiped(answer: u8) -> u8 {
    // ORDERING: Relaxed, as in `wiped_word`.
    let order = Ordering::Relaxed;
    IS_WIPED
        .compare_exchange(UNKNOWN, answer, order, order)
        .map_or_else(|theirs| theirs, |_| answer)
}

/// Asks the kernel to wipe the token's memory at a fork. Two threads may ask at once.
#[cold]
fn ask_to_wipe() -> u8 {
    let start = (&raw const TOKEN).cast_mut().cast();
    // SAFETY: the range is the static's own whole pages, which hold nothing but the token, and the
    // token may become 0 in a child. The kernel refuses pages that a file backs.
    let asked = unsafe { libc::madvise(start, size_of_val(&TOKEN), libc::MADV_WIPEONFORK) };
    if asked == 0 { WIPED } else { NOT_WIPED }
}
