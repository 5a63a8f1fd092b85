//! The time that a thread lost in a pair: arithmetic over what the kernel says about the thread
//! before and after.
//!
//! # How it works
//!
//! The thread's CPU clock stands still while the thread does not run. So the thread has lost the
//! time of a window in which the clock did not run:
//!
//! ```text
//!          CPU clock, counter   start              end   CPU clock
//! ----------------[=]--x----------x==================x----[=]---------> time
//!                      |<- gap -->|<----- pair ----->|
//!                      |<---------- window --------->|
//!     lost = window - (CPU clock's progress - progress of the calls themselves)
//! ```
//!
//! The thread may also lose the CPU inside the calls. That changes nothing, because neither the
//! window nor the clock's progress contains it. If the thread loses the CPU in the gap, the time
//! belongs to the window, but not to the pair. Only what is longer than the gap is therefore
//! subtracted.
//!
//! The kernel's run delay says how much of the time the thread waited for a CPU. The rest went to
//! the hypervisor, to interrupts, or to a CPU quota.
//!
//! - Run delay: the time from when the scheduler queues a runnable thread until the thread runs
//!   (Linux, `sched_info_arrive` in `kernel/sched/stats.h`, `proc_pid_schedstat` in
//!   `fs/proc/base.c`).
//! - The CPU clock, `CLOCK_THREAD_CPUTIME_ID`, is the sum of a thread's run times up to the moment
//!   of the call (`task_sched_runtime`). They are differences of `rq_clock_task`, which leaves out
//!   steal (`CONFIG_PARAVIRT_TIME_ACCOUNTING`) and interrupts (`CONFIG_IRQ_TIME_ACCOUNTING`), both
//!   in ns (`update_rq_clock_task` in `kernel/sched/core.c`).
//!
//! | rejected | price |
//! |---|---|
//! | run delay alone | the thread may lose the CPU between the reading of the counter and that of the run delay: one of 800 samples under load was negative |
//! | the CPU clock in place of the counter | its rate is not disciplined, so it can be off by tens of ppm, and a routine that sleeps would take no time |
//! | subtract nothing if the thread yielded | the kernel has no count of a thread's yields: `yld_count` in `/proc/schedstat` is a CPU's. `ru_nivcsw` counts preemptions as well |
//! | the run delay of all threads, from `/proc/self/task` | a read for each thread, and it does not say either who used the CPU |
//! | `steal` in `/proc/stat` | it has units of 10 ms, it is the CPU's and not the thread's, and a read takes tens of us |
//!
//! A thread that blocked (slept, waited for a lock or for I/O) did not run either, and this time is
//! the routine's own. After it has woken up, it waits in the queue, so a part of its run delay is
//! the routine's own, too. So nothing is subtracted for a window in which the thread blocked.
//!
//! A thread that yields (`sched_yield`: spin locks, `yield_now` in a loop) does not block. It stays
//! runnable, so the kernel counts the time until its next turn as run delay. This time is the
//! routine's own if a thread of the same process used the CPU: the routine waited for its own
//! helper. The kernel does not say who used the CPU. The process's CPU clock,
//! `CLOCK_PROCESS_CPUTIME_ID`, says how much of the time it can have been other threads of the
//! process:
//!
//! ```text
//!     others = (process's CPU clock - thread's CPU clock) at the end - the same at the start
//!     waited = run delay - others
//!     unsure = others, at most the run delay
//! ```
//!
//! - A thread that shares this thread's CPU does not run while the clocks are read, so its time is
//!   exact. The time of a thread that runs on another CPU may be as old as this CPU's last tick
//!   (`thread_group_cputime` in `kernel/sched/cputime.c` renews only the calling thread's).
//! - If other threads run on other CPUs, the time is unsure though they did not take this CPU.
//! - Other processes are not in the clock, the routine's own children included.
//!   `getrusage(RUSAGE_CHILDREN)` has only children that have ended and been waited for, with their
//!   time since they began. So if the routine yields to another process, this wait is subtracted.

use std::ffi::c_long;
use std::fmt;
use std::num::NonZeroU64;
use std::ops::Add;

use crate::measurement::readings::PairReads;
use crate::number::{as_f64, round};

/// A window has a difference of this many ns, and of one part in [`NOISE_PART`] of its length,
/// without any disturbance: the calls take more or less time, and the rates of both clocks differ.
/// The kernel's scheduler clock is not disciplined by NTP, which changes the rate of
/// `CLOCK_MONOTONIC` by up to 500 ppm (`MAXFREQ` in `include/linux/timex.h`).
const NOISE_NS: u64 = 1_000;
const NOISE_PART: u64 = 1_000;

/// What the kernel says about a thread at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    /// The thread's CPU clock.
    pub(crate) cpu_ns: u64,
    /// How long the thread has waited for a CPU since it began.
    pub(crate) run_delay_ns: u64,
    /// The CPU clock of the thread's process: of all its threads, also of those that have ended.
    pub(crate) process_cpu_ns: u64,
    /// How often the thread has blocked.
    pub(crate) blocked: c_long,
}

impl ThreadTimes {
    /// The CPU time of the process's other threads since `before`.
    pub(crate) fn others_cpu_ns_since(&self, before: &Self) -> u64 {
        let process_ns = self.process_cpu_ns.saturating_sub(before.process_cpu_ns);
        process_ns.saturating_sub(self.cpu_ns.saturating_sub(before.cpu_ns))
    }
}

/// A reading of a thread's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadReading {
    /// A number that no other reading has.
    pub(crate) id: NonZeroU64,
    /// The counter after the CPU clock was read.
    pub(crate) ticks: u64,
    pub(crate) times: ThreadTimes,
}

/// The conversion of ticks, and the cost of the calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MeterScale {
    pub(crate) ns_per_tick: f64,
    /// The progress of the CPU clock between two of its readings, less the window between them.
    pub(crate) calls_ns: u64,
    /// The other threads' CPU time between two readings in which they do not run: the calls lie
    /// between the readings of the thread's and of the process's clock.
    pub(crate) others_calls_ns: u64,
}

impl MeterScale {
    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        round(as_f64(ticks) * self.ns_per_tick)
    }
}

/// The time that the thread lost in a pair, or in a sum of pairs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LostTime {
    /// The time in which the thread waited for a CPU.
    pub(crate) waited_ns: u64,
    /// The time of interrupts, of the hypervisor, or of a CPU quota.
    pub(crate) other_ns: u64,
    /// The largest further time that it may have lost, but is not known to have lost.
    pub(crate) unsure_ns: u64,
}

impl LostTime {
    /// Nothing is known about a pair of this length.
    pub(crate) fn unknown(pair_ns: u64) -> Self {
        Self {
            unsure_ns: pair_ns,
            ..Self::default()
        }
    }

    /// The time that is subtracted.
    pub(crate) fn known_ns(&self) -> u64 {
        self.waited_ns.saturating_add(self.other_ns)
    }

    /// The time lost in `pair`, if the thread's times were `before` and then `after`.
    pub(crate) fn between(
        before: &ThreadReading,
        pair: &PairReads,
        after: &ThreadTimes,
        scale: &MeterScale,
    ) -> Self {
        let pair_ns = scale.ns(pair.ticks());
        let gap_ns = scale.ns(pair.start_ticks.saturating_sub(before.ticks));
        let window_ns = gap_ns + pair_ns;
        let run_delay_ns = after.run_delay_ns.saturating_sub(before.times.run_delay_ns);
        if after.blocked != before.times.blocked {
            return Self::unknown(run_delay_ns.min(pair_ns));
        }
        let ran_ns = after
            .cpu_ns
            .saturating_sub(before.times.cpu_ns)
            .saturating_sub(scale.calls_ns);
        let lost_ns = window_ns.saturating_sub(ran_ns);
        if lost_ns <= NOISE_NS + window_ns / NOISE_PART {
            return Self::default();
        }
        let certain_ns = lost_ns.saturating_sub(gap_ns);
        let waited_ns = run_delay_ns.min(certain_ns);
        let others_ns = after
            .others_cpu_ns_since(&before.times)
            .saturating_sub(scale.others_calls_ns);
        let own_ns = others_ns.min(waited_ns);
        Self {
            waited_ns: waited_ns - own_ns,
            other_ns: certain_ns - waited_ns,
            unsure_ns: (gap_ns.min(lost_ns) + own_ns).min(pair_ns),
        }
    }
}

/// The reason why a [`CounterTime`](crate::CounterTime) subtracts nothing from samples that lost
/// the CPU: [`CounterTime::not_subtracted`](crate::CounterTime::not_subtracted).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotSubtracted {
    /// The program asked for that:
    /// [`include_disturbed`](crate::measurement::CounterTimeBuilder::include_disturbed).
    Included,
    /// The OS clock measures, as `WallTime` does.
    WallTime,
    /// The system is not Linux.
    System,
    /// The kernel does not say how long a thread waited for a CPU: it has no
    /// `/proc/thread-self/schedstat` (`CONFIG_SCHED_INFO`), or the process may not read it.
    RunDelay,
    /// The thread's CPU clock is missing, or its steps are too long for a sample.
    CpuClock,
}

impl fmt::Display for NotSubtracted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Included => "disturbed samples are included",
            Self::WallTime => "WallTime measures",
            Self::System => "this system does not say how long a thread waits for a CPU",
            Self::RunDelay => "/proc/thread-self/schedstat can't be read, or has no times",
            Self::CpuClock => "the thread's CPU clock is missing or too coarse",
        })
    }
}

impl Add for LostTime {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            waited_ns: self.waited_ns.saturating_add(other.waited_ns),
            other_ns: self.other_ns.saturating_add(other.other_ns),
            unsure_ns: self.unsure_ns.saturating_add(other.unsure_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a nanosecond a tick, and calls of 300 ns.
    const SCALE: MeterScale = MeterScale {
        ns_per_tick: 0.5,
        calls_ns: 300,
        others_calls_ns: 200,
    };

    const GAP_NS: u64 = 40;

    /// The time lost in a pair of 10 ms after a gap, during which the thread ran, waited and
    /// blocked as `during` says.
    fn lost_after_gap(gap_ns: u64, during: ThreadTimes) -> LostTime {
        let before = ThreadReading {
            id: NonZeroU64::MIN,
            ticks: 1_000_000,
            times: ThreadTimes {
                cpu_ns: 5_000_000_000,
                run_delay_ns: 70_000,
                process_cpu_ns: 8_000_000_000,
                blocked: 3,
            },
        };
        let start_ticks = before.ticks + 2 * gap_ns;
        let pair = PairReads {
            start_ticks,
            end_ticks: start_ticks + 20_000_000,
            cpus: None,
        };
        let after = ThreadTimes {
            cpu_ns: before.times.cpu_ns + during.cpu_ns,
            run_delay_ns: before.times.run_delay_ns + during.run_delay_ns,
            process_cpu_ns: before.times.process_cpu_ns + during.process_cpu_ns,
            blocked: before.times.blocked + during.blocked,
        };
        LostTime::between(&before, &pair, &after, &SCALE)
    }

    fn lost(during: ThreadTimes) -> LostTime {
        lost_after_gap(GAP_NS, during)
    }

    /// The thread ran for this part of the pair, and the process's other threads did not.
    fn ran(ns: u64) -> ThreadTimes {
        ran_beside(ns, 0)
    }

    /// The thread ran for this part of the pair, and the process's other threads for this time.
    fn ran_beside(ns: u64, others_ns: u64) -> ThreadTimes {
        let cpu_ns = ns + GAP_NS + SCALE.calls_ns;
        ThreadTimes {
            cpu_ns,
            process_cpu_ns: cpu_ns + SCALE.others_calls_ns + others_ns,
            ..ThreadTimes::default()
        }
    }

    #[test]
    fn a_thread_that_ran_has_lost_nothing() {
        assert_eq!(lost(ran(10_000_000)), LostTime::default());
    }

    #[test]
    fn time_without_the_cpu_is_lost_to_the_nanosecond() {
        let during = ThreadTimes {
            run_delay_ns: 4_000_000,
            ..ran(6_000_000)
        };
        assert_eq!(
            (lost(during).waited_ns, lost(during).other_ns),
            (4_000_000 - GAP_NS, 0)
        );
    }

    #[test]
    fn what_was_not_waiting_went_elsewhere() {
        let during = ThreadTimes {
            run_delay_ns: 1_000_000,
            ..ran(6_000_000)
        };
        assert_eq!(
            (lost(during).waited_ns, lost(during).other_ns),
            (1_000_000, 3_000_000 - GAP_NS)
        );
    }

    /// The clocks' rates differ by this much.
    #[test]
    fn a_thousandth_and_a_microsecond_are_no_disturbance() {
        let limit_ns = NOISE_NS + (10_000_000 + GAP_NS) / NOISE_PART;
        assert_eq!(lost(ran(10_000_000 - limit_ns)), LostTime::default());
        assert_ne!(lost(ran(10_000_000 - limit_ns - 1)), LostTime::default());
    }

    /// Symptom: one of 800 samples under load was negative, because its run delay was subtracted.
    #[test]
    fn waiting_after_the_end_of_the_pair_is_not_subtracted() {
        let during = ThreadTimes {
            run_delay_ns: 30_000_000,
            ..ran(10_000_000)
        };
        assert_eq!(lost(during), LostTime::default());
    }

    #[test]
    fn waiting_before_the_start_of_the_pair_is_not_subtracted() {
        let gap_ns = 3_000_000;
        let during = ThreadTimes {
            cpu_ns: 10_000_000 + SCALE.calls_ns,
            run_delay_ns: gap_ns,
            ..ThreadTimes::default()
        };
        assert_eq!(lost_after_gap(gap_ns, during).known_ns(), 0);
    }

    #[test]
    fn a_long_gap_makes_the_result_unsure() {
        let during = ThreadTimes {
            cpu_ns: 4_000_000 + SCALE.calls_ns,
            run_delay_ns: 6_050_000,
            ..ThreadTimes::default()
        };
        assert_eq!(
            lost_after_gap(50_000, during),
            LostTime {
                waited_ns: 6_000_000,
                other_ns: 0,
                unsure_ns: 50_000,
            }
        );
    }

    /// A thread that sleeps does not run. Symptom if that was subtracted: a routine that sleeps for
    /// 10 ms took 10 us.
    #[test]
    fn nothing_is_subtracted_from_a_pair_in_which_the_thread_blocked() {
        let during = ThreadTimes {
            blocked: 1,
            run_delay_ns: 5_000,
            ..ran(20_000)
        };
        assert_eq!(lost(during), LostTime::unknown(5_000));
    }

    /// Symptom: a routine that waited for its helper by `yield_now` took 1.5 us of the 44 us of a
    /// call.
    #[test]
    fn a_wait_for_other_threads_of_the_process_is_not_subtracted_but_unsure() {
        let during = ThreadTimes {
            run_delay_ns: 9_000_000 + GAP_NS,
            ..ran_beside(1_000_000, 9_000_000 + GAP_NS)
        };
        assert_eq!(lost(during), LostTime::unknown(9_000_000));
    }

    #[test]
    fn a_wait_is_subtracted_as_far_as_the_other_threads_of_the_process_did_not_run() {
        let during = ThreadTimes {
            run_delay_ns: 6_000_000 + GAP_NS,
            ..ran_beside(4_000_000, 2_500_000)
        };
        assert_eq!(
            lost(during),
            LostTime {
                waited_ns: 3_500_000 - GAP_NS,
                other_ns: 0,
                unsure_ns: 2_500_000 + GAP_NS,
            }
        );
    }

    /// They ran on other CPUs then.
    #[test]
    fn other_threads_that_ran_longer_than_the_wait_leave_all_of_it_unsure() {
        let during = ThreadTimes {
            run_delay_ns: 2_000_000,
            ..ran_beside(7_000_000, 9_000_000)
        };
        assert_eq!(
            lost(during),
            LostTime {
                waited_ns: 0,
                other_ns: 1_000_000 - GAP_NS,
                unsure_ns: 2_000_000 + GAP_NS,
            }
        );
    }

    #[test]
    fn other_threads_that_ran_while_the_thread_did_not_wait_change_nothing() {
        assert_eq!(lost(ran_beside(10_000_000, 9_000_000)), LostTime::default());
    }

    #[test]
    fn more_than_the_pair_is_never_subtracted() {
        let during = ThreadTimes {
            run_delay_ns: 90_000_000,
            ..ThreadTimes::default()
        };
        assert_eq!(lost(during).known_ns(), 10_000_000);
        let long_gap = lost_after_gap(80_000_000, during);
        assert_eq!(long_gap.known_ns(), 10_000_000);
        assert_eq!(long_gap.unsure_ns, 10_000_000);
    }

    /// The CPU clock can't run backwards, but a file of another thread would look like that.
    #[test]
    fn times_that_step_back_do_not_overflow() {
        let before = ThreadReading {
            id: NonZeroU64::MIN,
            ticks: 500,
            times: ThreadTimes {
                cpu_ns: 9,
                run_delay_ns: 9,
                process_cpu_ns: 9,
                blocked: 0,
            },
        };
        let pair = PairReads {
            start_ticks: 100,
            end_ticks: 40,
            cpus: None,
        };
        let after = ThreadTimes::default();
        assert_eq!(
            LostTime::between(&before, &pair, &after, &SCALE),
            LostTime::default()
        );
    }

    #[test]
    fn sums_keep_the_causes_apart() {
        let one = LostTime {
            waited_ns: 1,
            other_ns: 20,
            unsure_ns: 300,
        };
        assert_eq!(
            one + one,
            LostTime {
                waited_ns: 2,
                other_ns: 40,
                unsure_ns: 600,
            }
        );
    }

    #[test]
    fn the_reason_that_nothing_is_subtracted_has_a_text() {
        let text = NotSubtracted::Included.to_string();
        assert_eq!(text, "disturbed samples are included");
    }
}
