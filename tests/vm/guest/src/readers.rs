//! The readers: a thread on each CPU that reads all the time. It loads the largest reading of all
//! threads, reads the clock, and stores the larger of the two. An ordered reading below the loaded
//! value is a backward step.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use core_affinity::CoreId;
use tickline::Clock;
use tickline_observe::{Count, monotonic_ns, wait_until};

use crate::agreed::READINGS;
use crate::{phase, system};

/// The longest wait for [`READINGS`] before the readers stop. A quiet host needs none.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of readings between two loads of the flags.
const BATCH: u64 = 256;

/// The readings of tickline for each reading of the OS clock, which may be many times slower.
const OS_EVERY: u64 = 16;

/// The readers' niceness, nice(2). The clock's thread and the lab's thread preempt the readers.
const NICE: i32 = 10;

/// The readers' counts so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    ordered: Count,
    /// The number of ordered readings that were compared with another thread's reading.
    followed: u64,
    /// Plain readings, each compared with its thread's last reading.
    plain: Count,
    os: Count,
}

impl Counts {
    /// The counts since `earlier`, and the largest steps since the start.
    pub(crate) fn since(&self, earlier: &Self) -> phase::Readers {
        phase::Readers {
            readings: self.ordered.comparisons - earlier.ordered.comparisons,
            exchanges: self.followed - earlier.followed,
            backward: self.ordered.backward - earlier.ordered.backward,
            largest_backward_ns: self.ordered.largest,
            backward_in_thread: self.plain.backward - earlier.plain.backward,
            os_largest_backward_ns: self.os.largest,
        }
    }
}

/// The readers of one clock.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    counts: Mutex<Counts>,
    largest_ns: AtomicU64,
    os_largest_ns: AtomicU64,
    /// Whether the readers also read the OS clock, which may step back in a machine that moves. In
    /// other machines only the brackets read it: if several CPUs read hpet at once, one CPU reads
    /// it, and the kernel gives this value, which may be stale, to the CPUs that wait (`read_hpet`
    /// in `arch/x86/kernel/hpet.c`).
    reads_os: bool,
    stop: AtomicBool,
    /// Incremented to make the readers pin themselves again, because the kernel unpins a thread
    /// when its CPU goes offline.
    pin_again: AtomicUsize,
}

impl Readers {
    pub(crate) fn also_of_os_clock() -> Self {
        Self {
            reads_os: true,
            ..Self::default()
        }
    }

    /// Starts a reader on each CPU.
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

    /// Stops the readers once they have read enough, but after at most [`PATIENCE`].
    pub(crate) fn stop(&self) {
        wait_until(PATIENCE, || self.counts().ordered.comparisons >= READINGS);
        // ORDERING: Relaxed: the flag orders no memory.
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn pin_again(&self) {
        // ORDERING: Relaxed: the count orders no memory.
        self.pin_again.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, clock: &Clock, cpu: usize) {
        system::be_nice(NICE);
        let mut pinned = usize::MAX;
        let mut own_ns = 0;
        let mut plain_ns = 0;
        // ORDERING: Relaxed: the flag orders no memory.
        while !self.stop.load(Ordering::Relaxed) {
            // ORDERING: Relaxed: the count orders no memory.
            let wanted = self.pin_again.load(Ordering::Relaxed);
            if pinned != wanted {
                pinned = wanted;
                core_affinity::set_for_current(CoreId { id: cpu }); // fails if the CPU is offline
            }
            let mut batch = Counts::default();
            for round in 0..BATCH {
                let (before_ns, now_ns) = batch
                    .ordered
                    .exchange(&self.largest_ns, || clock.now_ordered().as_nanos());
                batch.followed += u64::from(before_ns != own_ns);
                own_ns = now_ns.max(before_ns);
                let now_ns = clock.now().as_nanos();
                batch.plain.compare(plain_ns, now_ns);
                plain_ns = now_ns;
                if self.reads_os && round % OS_EVERY == 0 {
                    batch.os.exchange(&self.os_largest_ns, monotonic_ns);
                }
            }
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.ordered.add(&batch.ordered);
            counts.followed += batch.followed;
            counts.plain.add(&batch.plain);
            counts.os.add(&batch.os);
        }
    }
}
