//! One thread on each CPU that reads all the time: it loads the largest reading of all threads,
//! reads the clock, and stores the larger one. An ordered reading below the value that the thread
//! has loaded is a backward step.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Scope;

use serde_json::{Value, json};
use tickline::Clock;

use crate::system;

/// Readings between two loads of the flags.
const BATCH: u64 = 256;

/// Readings of tickline for one of the OS clock, which may be many times slower.
const OS_EVERY: u64 = 16;

/// The readers' niceness, nice(2). The clock's thread and the brackets get the CPU at once, and
/// readers take the rest.
const NICE: i32 = 10;

/// A clock's backward steps, and its largest reading.
#[derive(Debug, Default)]
struct Exchange {
    largest_ns: AtomicU64,
    readings: AtomicU64,
    exchanges: AtomicU64,
    backward: AtomicU64,
    backward_ns: AtomicU64,
}

/// One thread's counts of a clock since it last added them up.
#[derive(Debug, Default)]
struct Seen {
    readings: u64,
    exchanges: u64,
    backward: u64,
    backward_ns: u64,
}

impl Exchange {
    fn once(&self, own_ns: &mut u64, seen: &mut Seen, read: impl FnOnce() -> u64) {
        // ORDERING: Acquire, pairs with the Release in fetch_max below: the reading that made this
        // value was complete before it was stored.
        let before_ns = self.largest_ns.load(Ordering::Acquire);
        let now_ns = read();
        // ORDERING: Release, as above.
        self.largest_ns.fetch_max(now_ns, Ordering::Release);
        seen.readings += 1;
        seen.exchanges += u64::from(before_ns != *own_ns);
        *own_ns = now_ns.max(before_ns);
        if now_ns < before_ns {
            seen.backward += 1;
            seen.backward_ns = seen.backward_ns.max(before_ns - now_ns);
        }
    }

    fn add(&self, seen: &mut Seen) {
        // ORDERING: Relaxed for all: counts, each read on its own.
        self.readings.fetch_add(seen.readings, Ordering::Relaxed);
        self.exchanges.fetch_add(seen.exchanges, Ordering::Relaxed);
        self.backward.fetch_add(seen.backward, Ordering::Relaxed);
        self.backward_ns.fetch_max(seen.backward_ns, Ordering::Relaxed);
        *seen = Seen::default();
    }
}

/// What the readers have counted so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    readings: u64,
    exchanges: u64,
    backward: u64,
    backward_ns: u64,
    own_backward: u64,
    os_readings: u64,
    os_backward: u64,
    os_backward_ns: u64,
}

impl Counts {
    /// Counts since `earlier`, and the largest steps since the start.
    pub(crate) fn since(&self, earlier: &Self) -> Value {
        json!({
            "readings": self.readings - earlier.readings,
            "exchanges": self.exchanges - earlier.exchanges,
            "backward": self.backward - earlier.backward,
            "largest_backward_ns": self.backward_ns,
            "backward_in_thread": self.own_backward - earlier.own_backward,
            "os_readings": self.os_readings - earlier.os_readings,
            "os_backward": self.os_backward - earlier.os_backward,
            "os_largest_backward_ns": self.os_backward_ns,
        })
    }
}

/// The readers of one clock.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    ordered: Exchange,
    os: Exchange,
    /// Backward steps of plain `now_ns` within a thread.
    own_backward: AtomicU64,
    /// Whether to read the OS clock in between.
    os_too: bool,
    stop: AtomicBool,
    /// Raised to make the readers pin themselves again: the kernel unpins a thread when its CPU
    /// goes.
    pin_again: AtomicUsize,
}

impl Readers {
    pub(crate) fn new(os_too: bool) -> Self {
        Self { os_too, ..Self::default() }
    }

    /// Starts one on each CPU.
    pub(crate) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        clock: &'scope Clock,
        cpus: usize,
    ) {
        for cpu in 0..cpus {
            scope.spawn(move || self.read(clock, cpu));
        }
    }

    pub(crate) fn stop(&self) {
        // ORDERING: Relaxed, a flag on its own.
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn pin_again(&self) {
        // ORDERING: Relaxed, as above.
        self.pin_again.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        // ORDERING: Relaxed for all: counts, each read on its own.
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            readings: get(&self.ordered.readings),
            exchanges: get(&self.ordered.exchanges),
            backward: get(&self.ordered.backward),
            backward_ns: get(&self.ordered.backward_ns),
            own_backward: get(&self.own_backward),
            os_readings: get(&self.os.readings),
            os_backward: get(&self.os.backward),
            os_backward_ns: get(&self.os.backward_ns),
        }
    }

    fn read(&self, clock: &Clock, cpu: usize) {
        system::be_nice(NICE);
        let (mut pinned, mut own_ns, mut os_own_ns, mut plain_ns) = (usize::MAX, 0, 0, 0);
        let (mut seen, mut os_seen, mut own_backward) = (Seen::default(), Seen::default(), 0);
        // ORDERING: Relaxed, a flag on its own.
        while !self.stop.load(Ordering::Relaxed) {
            // ORDERING: Relaxed, as above.
            let wanted = self.pin_again.load(Ordering::Relaxed);
            if pinned != wanted {
                pinned = wanted;
                system::pin(cpu).ok(); // if the CPU is offline, the thread reads on another
            }
            for round in 0..BATCH {
                self.ordered.once(&mut own_ns, &mut seen, || clock.now_ordered_ns());
                let now_ns = clock.now_ns();
                own_backward += u64::from(now_ns < plain_ns);
                plain_ns = now_ns;
                if self.os_too && round % OS_EVERY == 0 {
                    self.os.once(&mut os_own_ns, &mut os_seen, system::monotonic_ns);
                }
            }
            self.ordered.add(&mut seen);
            self.os.add(&mut os_seen);
            // ORDERING: Relaxed, a count.
            self.own_backward.fetch_add(own_backward, Ordering::Relaxed);
            own_backward = 0;
        }
    }
}
