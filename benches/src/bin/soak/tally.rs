//! What threads and children have counted, in memory that they share.

use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use tickline::{Clock, State};
use tickline_benches::exchange::Count;
use tickline_benches::os;

/// Counts. Zeros are a valid value.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Ordered readings, each compared with the largest that was complete before it.
    pub(crate) readings: AtomicU64,
    /// Those that were below it.
    pub(crate) backward: AtomicU64,
    /// The largest of these steps.
    pub(crate) largest_ns: AtomicU64,
    /// Plain readings, each compared with the last reading of its thread.
    pub(crate) plain: AtomicU64,
    pub(crate) plain_backward: AtomicU64,
    /// Readings whose bounds were compared with the OS clock.
    pub(crate) compared: AtomicU64,
    /// Those whose bounds contained no moment between the two times of the OS clock.
    pub(crate) outside: AtomicU64,
    /// By how much at most.
    pub(crate) outside_ns: AtomicU64,
    /// Readings with bounds that the counter served.
    pub(crate) by_counter: AtomicU64,
    pub(crate) maintained: AtomicU64,
    pub(crate) switched: AtomicU64,
    pub(crate) started: AtomicU64,
    pub(crate) made: AtomicU64,
    /// Starts that ended in an error.
    pub(crate) refused: AtomicU64,
    pub(crate) children: AtomicU64,
    /// Children that were killed, or found no way to do their part.
    pub(crate) lost: AtomicU64,
}

impl Tally {
    /// In memory that forked children share with their parent.
    pub(crate) fn shared() -> &'static Self {
        // SAFETY: a new mapping; no existing memory is touched.
        let page = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Self>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(page, libc::MAP_FAILED, "no page of shared memory");
        // SAFETY: zeros, aligned to a page, as long as the type, and never unmapped.
        unsafe { &*page.cast::<Self>() }
    }

    /// One more.
    pub(crate) fn add(count: &AtomicU64, more: u64) {
        // ORDERING: Relaxed, a count on its own, read once nobody counts any more.
        count.fetch_add(more, Ordering::Relaxed);
    }

    fn raise(count: &AtomicU64, to: u64) {
        // ORDERING: Relaxed, as in `add`.
        count.fetch_max(to, Ordering::Relaxed);
    }
}

/// A clock, and the largest ordered reading of it that was handed over.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) clock: &'a Clock,
    pub(crate) largest: AtomicU64,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(clock: &'a Clock) -> Self {
        Self { clock, largest: AtomicU64::new(0) }
    }
}

/// A thread's readings of one clock, counted without a lock, and added to the tally when it is
/// dropped.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    subject: &'a Subject<'a>,
    tally: &'a Tally,
    count: Count,
    /// The last reading of this thread.
    last_ns: u64,
    plain: u64,
    plain_backward: u64,
    compared: u64,
    outside: u64,
    outside_ns: u64,
    by_counter: u64,
}

/// One reading in so many is compared with the OS clock, one is plain.
const KINDS: u64 = 8;

impl<'a> Reader<'a> {
    pub(crate) fn new(subject: &'a Subject<'a>, tally: &'a Tally) -> Self {
        Self {
            subject,
            tally,
            count: Count::default(),
            last_ns: 0,
            plain: 0,
            plain_backward: 0,
            compared: 0,
            outside: 0,
            outside_ns: 0,
            by_counter: 0,
        }
    }

    /// A reading of a kind that follows from `turn`.
    #[inline]
    pub(crate) fn read(&mut self, turn: u64) {
        match turn % KINDS {
            0 => self.compare(),
            1 => self.read_plain(),
            _ => self.read_ordered(|| {}, || {}),
        }
    }

    /// An ordered reading; `before` and `after` it, in the middle of handing over, something may
    /// happen.
    #[inline]
    pub(crate) fn read_ordered(&mut self, before: impl FnOnce(), after: impl FnOnce()) {
        let mut ns = 0;
        let read = || {
            ns = self.subject.clock.now_ordered_ns();
            (ns, false)
        };
        self.count.exchange(&self.subject.largest, read, before, after);
        self.last_ns = ns;
    }

    #[inline]
    fn read_plain(&mut self) {
        let now_ns = self.subject.clock.now_ns();
        self.plain += 1;
        self.plain_backward += u64::from(now_ns < self.last_ns);
        self.last_ns = now_ns;
    }

    /// An ordered reading, whose bounds must have a moment in common with the time that the
    /// reading took.
    fn compare(&mut self) {
        let (mut earliest_ns, mut latest_ns, mut by_counter) = (0, 0, false);
        let (mut before_ns, mut after_ns, mut ns) = (0, 0, 0);
        let read = || {
            before_ns = os::monotonic_ns();
            let reading = self.subject.clock.reading();
            after_ns = os::monotonic_ns();
            (earliest_ns, latest_ns) = (reading.earliest().as_nanos(), reading.latest().as_nanos());
            by_counter = reading.state() == State::Fast;
            ns = reading.at().as_nanos();
            (ns, !by_counter)
        };
        self.count.exchange(&self.subject.largest, read, || {}, || {});
        self.last_ns = ns;
        let outside_ns = earliest_ns.saturating_sub(after_ns).max(before_ns.saturating_sub(latest_ns));
        self.compared += 1;
        self.by_counter += u64::from(by_counter);
        self.outside += u64::from(outside_ns > 0);
        self.outside_ns = self.outside_ns.max(outside_ns);
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let tally = self.tally;
        for (count, more) in [
            (&tally.readings, self.count.exchanges),
            (&tally.backward, self.count.backward),
            (&tally.plain, self.plain),
            (&tally.plain_backward, self.plain_backward),
            (&tally.compared, self.compared),
            (&tally.outside, self.outside),
            (&tally.by_counter, self.by_counter),
        ] {
            Tally::add(count, more);
        }
        Tally::raise(&tally.largest_ns, self.count.largest);
        Tally::raise(&tally.outside_ns, self.outside_ns);
    }
}
