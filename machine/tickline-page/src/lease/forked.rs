//! The monotonic readings of a forked child that may be in another time namespace (rule R11).
//!
//! A child in the page's namespace must not be below its parent, whichever phase the page is in. A
//! child in another namespace has another monotonic clock, and the page does not count for it. The
//! child compares the page with the OS clock, because a filter may forbid every other system call.
//!
//! ```text
//! page = the reading that an attached process would make (R1 to R7)
//! os   = the OS clock, read afterwards
//! page is a line, and is near os    -> the page's namespace: attach (R8), and read the page
//! page is above os by 2 s or more   -> another namespace: os
//! otherwise                         -> the larger of page and os
//! in the last two cases: at least the inherited mark, if that is above os by less than 2 s
//! ```
//!
//! A page that is above the OS clock by less than 2 s, but not near it, may be of another
//! namespace. Or it is of the child's own, after a suspend or in a fast slew: then it is so far
//! above for a few leases only. So the child's readings follow such a page for 2 s, and then stand
//! still until the OS clock has caught up.

use core::cell::Cell;
use core::ops::Range;

use tickline_core::counter::Counter;
use tickline_core::reference::{Reference, Timescale};

use super::memory::LeaseMemory;
use super::{PageReading, PageSource, ProcessHighWater, ReaderOs, read};
use crate::primitive::{AtomicI64, AtomicU64, Ordering, fence};

/// Distances of a line from the OS clock, ns, at which both belong to the same time namespace. A
/// line is above the OS clock by its lead, which contains the clock's resolution: up to 10 ms. A
/// slow slew may have put the line 1.5 ms higher or lower (`machine/docs/lease.md`, "Slews").
const NEAR_NS: Range<i64> = -2_000_000..12_000_000;

/// If the page is above the OS clock by this or more, ns, the process is in another time namespace.
/// After a suspend, a line may have run on for at most two leases, 1 s. Also the time for which a
/// child follows a page that is above the OS clock and not near it.
const OTHER_NAMESPACE_NS: i64 = 2_000_000_000;

/// Whether a process knows that it is in the page's time namespace. In memory that the kernel fills
/// with zeros in a forked child (madvise(2), `MADV_WIPEONFORK`): zeros mean that it does not know.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Attachment {
    stage: AtomicU64,
    /// The largest time up to which the process follows a page that is above the OS clock and not
    /// near it, ns, in the page's time; 0 before the first such reading.
    limit_ns: AtomicI64,
}

/// The values of [`Attachment::stage`]. They only rise, because threads learn them at different
/// times.
const UNKNOWN: u64 = 0;
/// A thread is about to raise the process's high-water mark to the OS clock.
const ATTACHING: u64 = 1;
const ATTACHED: u64 = 2;

impl Attachment {
    /// Records that the process is in the page's time namespace, and that its high-water mark is
    /// raised to the OS clock.
    pub fn set_attached(&self) {
        self.raise_to(ATTACHED);
    }

    /// Whether the process is attached. If not, its monotonic readings come from
    /// [`AttachedPage::monotonic_of_forked`](crate::AttachedPage::monotonic_of_forked).
    #[inline(always)]
    #[must_use]
    pub fn is_attached(&self) -> bool {
        // ORDERING: Acquire, pairs with the exchange in `raise_to`: if this is `ATTACHED`, the
        // process's high-water mark is raised. No test sees a weaker ordering, because threads of a
        // child that was just forked are not modelled, and on x86_64 every load has it.
        self.stage.load(Ordering::Acquire) >= ATTACHED
    }

    fn raise_to(&self, stage: u64) {
        debug_assert!(stage > UNKNOWN, "a stage only rises");
        // ORDERING: SeqCst, pairs with the fence in `may_have_attached`. As a full fence, it makes
        // this thread read the OS clock only after other threads can see the new stage. No test
        // sees a weaker ordering, because on x86_64 every exchange is a full fence.
        self.stage.fetch_max(stage, Ordering::SeqCst);
    }

    /// Whether another thread may have raised the process's high-water mark by an earlier read of
    /// the OS clock than this thread's. The mark may then be below this thread's time.
    fn may_have_attached(&self) -> bool {
        // ORDERING: SeqCst, pairs with the exchange in `raise_to`: the load below comes after this
        // thread's read of the OS clock. No test sees a weaker ordering, because no test can delay
        // the kernel's answer.
        fence(Ordering::SeqCst);
        // ORDERING: Relaxed, after the fence.
        self.stage.load(Ordering::Relaxed) >= ATTACHING
    }

    /// `page_ns`, a time that is above the OS clock and not near it, or the limit if that is lower.
    /// The first such time sets the limit.
    fn limited_ns(&self, page_ns: i64) -> i64 {
        let new_ns = page_ns.saturating_add(OTHER_NAMESPACE_NS);
        // ORDERING: Relaxed, for both: the limit is a number on its own.
        let found = self
            .limit_ns
            .compare_exchange(0, new_ns, Ordering::Relaxed, Ordering::Relaxed);
        page_ns.min(found.err().unwrap_or(new_ns))
    }
}

/// An OS clock that keeps its last value.
struct LastValue<'a, O> {
    os: &'a O,
    ns: Cell<i64>,
}

impl<O: Reference> Reference for LastValue<'_, O> {
    fn monotonic_ns(&self) -> i64 {
        let ns = self.os.monotonic_ns();
        self.ns.set(ns);
        ns
    }
    fn unix_ns(&self) -> i64 {
        self.os.unix_ns()
    }
}

impl<O: ReaderOs> ReaderOs for LastValue<'_, O> {
    fn pause(&self) {
        self.os.pause();
    }
}

/// Reads the monotonic time, ns, in a process that is not attached ([`Attachment::is_attached`]),
/// and attaches the process if it is in the page's time namespace. In this namespace the reading is
/// ordered like [`read`]'s. `os` must return this process's clock, shifted as its parent's clock is
/// shifted to the page's time. Never panics.
#[cold]
#[inline(never)]
pub fn read_forked(
    memory: &impl LeaseMemory,
    counter: &impl Counter,
    os: &impl ReaderOs,
    process_high_water: &ProcessHighWater,
    attachment: &Attachment,
) -> PageReading {
    let last = LastValue {
        os,
        ns: Cell::new(0),
    };
    // With a new high-water mark, the reading is the page's value. In another namespace it would
    // leave a wrong mark.
    let page = read(
        memory,
        counter,
        &last,
        &ProcessHighWater::new(),
        Timescale::Monotonic,
    );
    let os_ns = match page.source {
        PageSource::Line => os.monotonic_ns(),
        PageSource::Os => last.ns.get(),
    };
    let ahead_ns = page.ns.saturating_sub(os_ns);
    if page.source == PageSource::Line && NEAR_NS.contains(&ahead_ns) {
        // This process may have read the OS clock until now (rule R8).
        attachment.raise_to(ATTACHING);
        process_high_water.raise(os.monotonic_ns().max(os_ns));
        attachment.raise_to(ATTACHED);
        return read(
            memory,
            counter,
            os,
            process_high_water,
            Timescale::Monotonic,
        );
    }
    if attachment.may_have_attached() {
        process_high_water.raise(os_ns);
    }
    let page_ns = if ahead_ns < NEAR_NS.end {
        page.ns
    } else if ahead_ns < OTHER_NAMESPACE_NS {
        attachment.limited_ns(page.ns)
    } else {
        os_ns
    };
    // The parent has returned the mark, unless the parent was in another namespace.
    let mark_ns = process_high_water.ns();
    let mark_ns = if mark_ns.saturating_sub(os_ns) < OTHER_NAMESPACE_NS {
        mark_ns
    } else {
        os_ns
    };
    PageReading {
        ns: os_ns.max(page_ns).max(mark_ns),
        source: PageSource::Os,
    }
}

#[cfg(test)]
mod tests;
