//! The CPU times of the recorded threads. The writer of a trace reads them at its flushes, so a
//! recorded thread does nothing for them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::trace::rings::ring::Ring;
use crate::trace::sys::cpu_clock::CpuClock;

/// The name of the counter.
pub(crate) const CPU_TIME: &str = "CPU time";

/// The limit of the distance of the two readings of the time around a reading of the CPU time. A
/// value belongs to the middle, to within half of it.
const MAX_WIDTH_NS: u64 = 100_000;

/// The writer may be interrupted between two readings. After this number of attempts it leaves the
/// value out.
const ATTEMPTS: u32 = 3;

/// The CPU time of a thread at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadCpuTime {
    /// `CLOCK_MONOTONIC`, ns.
    pub(crate) ns: u64,
    pub(crate) cpu_ns: u64,
}

impl ThreadCpuTime {
    fn read(clock: CpuClock) -> Option<Self> {
        (0..ATTEMPTS).find_map(|_| {
            let before_ns = tickline::now_ordered_ns();
            let cpu_ns = clock.read()?;
            let width_ns = tickline::now_ordered_ns().saturating_sub(before_ns);
            let ns = before_ns + width_ns / 2;
            (width_ns <= MAX_WIDTH_NS).then_some(Self { ns, cpu_ns })
        })
    }
}

/// The last CPU times of the threads.
#[derive(Debug, Default)]
pub(crate) struct CpuTimes {
    /// By the address of the ring, which no other ring has while there is a `Weak` to it.
    threads: HashMap<usize, Last>,
}

#[derive(Debug)]
struct Last {
    ring: Weak<Ring>,
    time: ThreadCpuTime,
    /// Whether `time` was left out, because the CPU time had not changed.
    is_left_out: bool,
}

impl CpuTimes {
    /// Reads the CPU times of the threads of `rings`, and passes those that changed to `write`. If
    /// a CPU time changes after a while, the last reading with the old value comes first. A viewer
    /// then shows at which moment it began to change.
    pub(crate) fn read<E>(
        &mut self,
        rings: &[Arc<Ring>],
        mut write: impl FnMut(&Ring, ThreadCpuTime) -> Result<(), E>,
    ) -> Result<(), E> {
        self.threads.retain(|_, last| last.ring.strong_count() > 0);
        for ring in rings {
            let Some(time) = ring.cpu_clock.and_then(ThreadCpuTime::read) else {
                continue;
            };
            // This is loaded after the reading. If the thread has not ended, its number was not
            // given to another thread, so the reading is its own.
            if ring.has_ended() {
                continue;
            }
            self.add(ring, time, &mut write)?;
        }
        Ok(())
    }

    fn add<E>(
        &mut self,
        ring: &Arc<Ring>,
        time: ThreadCpuTime,
        write: &mut impl FnMut(&Ring, ThreadCpuTime) -> Result<(), E>,
    ) -> Result<(), E> {
        let address = Arc::as_ptr(ring).addr();
        let Some(last) = self.threads.get_mut(&address) else {
            let last = Last {
                ring: Arc::downgrade(ring),
                time,
                is_left_out: false,
            };
            self.threads.insert(address, last);
            return write(ring, time);
        };
        if time.cpu_ns < last.time.cpu_ns {
            // A thread that the kernel has ended alone does not mark its end in the ring. This is
            // another thread, with the number of that one.
            return Ok(());
        }
        let is_changed = time.cpu_ns > last.time.cpu_ns;
        if is_changed && last.is_left_out {
            write(ring, last.time)?;
        }
        last.time = time;
        last.is_left_out = !is_changed;
        if is_changed {
            write(ring, time)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use super::*;

    /// The times that are written for these readings, in order.
    fn written<const N: usize>(readings: [(u64, u64); N]) -> Vec<(u64, u64)> {
        let (mut times, mut written) = (CpuTimes::default(), Vec::new());
        let ring = Arc::new(Ring::new(1).unwrap());
        let mut write = |_: &Ring, time: ThreadCpuTime| {
            written.push((time.ns, time.cpu_ns));
            Ok::<_, Infallible>(())
        };
        for (ns, cpu_ns) in readings {
            let Ok(()) = times.add(&ring, ThreadCpuTime { ns, cpu_ns }, &mut write);
        }
        written
    }

    #[test]
    fn a_time_that_did_not_change_is_left_out() {
        assert_eq!(written([(10, 5), (20, 5), (30, 5)]), [(10, 5)]);
    }

    #[test]
    fn a_time_comes_with_the_last_one_that_was_left_out() {
        let times = written([(10, 5), (20, 5), (30, 5), (40, 9), (50, 12)]);
        assert_eq!(times, [(10, 5), (30, 5), (40, 9), (50, 12)]);
    }

    #[test]
    fn a_time_that_went_backward_is_of_another_thread() {
        assert_eq!(written([(10, 5), (20, 3), (30, 4)]), [(10, 5)]);
    }

    /// What `read` passes on for a ring of this thread.
    fn read(ring: Ring) -> usize {
        let mut count = 0;
        let Ok(()) = CpuTimes::default().read(&[Arc::new(ring)], |_, _| {
            count += 1;
            Ok::<_, Infallible>(())
        });
        count
    }

    fn ring_of_this_thread() -> Ring {
        let mut ring = Ring::new(1).unwrap();
        ring.cpu_clock = CpuClock::of_this_thread();
        ring
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such clock")]
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn a_thread_that_goes_on_has_a_time() {
        assert_eq!(read(ring_of_this_thread()), 1);
    }

    /// Its number, and so its clock, may be another thread's by now: here, this thread's.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such clock")]
    fn a_thread_that_has_ended_has_no_time_although_its_clock_can_be_read() {
        let ring = ring_of_this_thread();
        ring.end_thread();
        assert_eq!(read(ring), 0);
    }
}
