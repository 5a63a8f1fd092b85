//! Reads what the kernel says about a thread before and after its samples.
//!
//! # Which pairs are measured
//!
//! criterion does not say whether a sample is one pair (`iter`), or many (`iter_batched`,
//! `iter_custom`). A reading is four system calls, which is little beside a sample of
//! milliseconds, but longer than many a batch. So the lengths of the last pairs decide, on each
//! thread:
//!
//! - Usually the next pair is expected to be long ([`LONG_NS`]). The thread's times are read before
//!   its start and after its end.
//! - After some short pairs ([`SHORT_PAIRS`]), nothing is read before a start. After the end of a
//!   pair, the times are read if the pair was long, or if the last reading is as old as a long
//!   pair. What a long pair lost is then known except for the gap since that reading, and
//!   `lost_time.rs` takes this into account.
//!
//! All of these readings are outside of the pair. Nothing is subtracted from a short pair: a loss
//! of the CPU makes a pair long, unless the loss is short itself.
//!
//! A file of `/proc` is about the thread that opened it, so each thread has its own, and a forked
//! child opens it anew. A pair that began on another thread or before a fork is not measured, nor
//! is a pair around other pairs.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use tickline::process_token;

use crate::measurement::lost_time::{
    LostTime, MeterScale, NotSubtracted, ThreadReading, ThreadTimes,
};
use crate::measurement::readings::{PairClock, PairReads};
use crate::number::{as_f64, round};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
use other as system;

pub(crate) use system::preemptions;

/// The shortest long pair. Two readings take about 5 us (AMD EPYC under KVM), 10 % of it, and are
/// not in its time. A scheduler lets a thread wait for milliseconds.
const LONG_NS: f64 = 50_000.0;

/// After this number of short pairs in a row, further ones are expected. The first samples of a
/// short benchmark with `iter` may be short, although they are one pair each: criterion makes each
/// sample longer than the one before by the length of the first.
const SHORT_PAIRS: u32 = 3;

/// The number of readings that calibrate the meter.
const TRIALS: usize = 33;

/// A CPU clock whose calls seem to take longer is not used: its steps are too long, or a tracer
/// stops the thread at each call.
const MAX_CALLS_NS: f64 = 25_000.0;

thread_local! {
    static THREAD: RefCell<Option<Thread>> = const { RefCell::new(None) };
}

/// Measures the time that the calling thread loses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadMeter {
    clock: PairClock,
    scale: MeterScale,
    long_ticks: u64,
}

impl ThreadMeter {
    /// Measures the cost of the calls.
    pub(crate) fn calibrate(clock: PairClock, ns_per_tick: f64) -> Result<Self, NotSubtracted> {
        let mut meter = Self {
            clock,
            scale: MeterScale {
                ns_per_tick,
                calls_ns: 0,
                others_calls_ns: 0,
            },
            long_ticks: round(LONG_NS / ns_per_tick),
        };
        let mut costs_ns = [0.0; TRIALS];
        let mut others_calls_ns = u64::MAX;
        for cost_ns in &mut costs_ns {
            let EmptyPair {
                before,
                window_ns,
                after,
            } = with_thread(|thread| thread.empty_pair(&meter))
                .flatten()
                .ok_or(system::MISSING)?;
            let progress_ns = after.cpu_ns.saturating_sub(before.cpu_ns);
            *cost_ns = as_f64(progress_ns) - as_f64(window_ns);
            // The least, because other threads may run meanwhile.
            others_calls_ns = others_calls_ns.min(after.others_cpu_ns_since(&before));
        }
        meter.scale.calls_ns = usual_calls_ns(costs_ns).ok_or(NotSubtracted::CpuClock)?;
        meter.scale.others_calls_ns = others_calls_ns;
        Ok(meter)
    }

    /// Reads the thread's times before a pair that is about to start. `None` if they are unknown.
    pub(crate) fn before(&self) -> Option<NonZeroU64> {
        with_thread(|thread| {
            let Thread { file, history, .. } = thread;
            history.before(|| read_before(file.as_ref()?, self.clock))
        })
        .flatten()
    }

    /// The time lost in a pair that has ended, and for which [`before`](Self::before) returned
    /// this.
    pub(crate) fn after(&self, before: Option<NonZeroU64>, pair: &PairReads) -> LostTime {
        // Also after a short pair: the thread's history has each pair.
        let readings = self.readings(before, pair);
        if pair.ticks() < self.long_ticks {
            return LostTime::default();
        }
        match readings {
            Some((before, after)) => LostTime::between(&before, pair, &after.times, &self.scale),
            None => LostTime::unknown(self.scale.ns(pair.ticks())),
        }
    }

    /// The readings before and after a long pair that has just ended; `None` if they are unknown.
    fn readings(
        &self,
        before: Option<NonZeroU64>,
        pair: &PairReads,
    ) -> Option<(ThreadReading, ThreadReading)> {
        with_thread(|thread| {
            let Thread { file, history, .. } = thread;
            let read = || read_after(file.as_ref()?, self.clock);
            history.after(before, pair, self.long_ticks, read)
        })
        .flatten()
    }
}

/// The median cost, if the CPU clock has steps that are short enough.
fn usual_calls_ns(mut costs_ns: [f64; TRIALS]) -> Option<u64> {
    costs_ns.sort_unstable_by(f64::total_cmp);
    let usual_ns = crate::number::middle(&costs_ns);
    // A clock with long steps shows no progress, so its calls seem to cost less than nothing.
    (0.0..=MAX_CALLS_NS)
        .contains(&usual_ns)
        .then(|| round(usual_ns))
}

/// What is known about a thread.
#[derive(Debug)]
struct Thread {
    /// The process in which the thread was met. A forked child inherits this value.
    process: u64,
    /// `None` if the file can't be read.
    file: Option<system::ThreadFile>,
    history: History,
}

impl Thread {
    fn new(process: u64) -> Self {
        Self {
            process,
            file: system::ThreadFile::open(system::SCHEDSTAT),
            history: History::default(),
        }
    }

    /// `None` if the times are unknown.
    fn empty_pair(&self, meter: &ThreadMeter) -> Option<EmptyPair> {
        let file = self.file.as_ref()?;
        let before = read_before(file, meter.clock)?;
        let pair = meter.clock.start().reads();
        let after = read_after(file, meter.clock)?;
        let window_ns = meter.scale.ns(pair.end_ticks.saturating_sub(before.ticks));
        Some(EmptyPair {
            before: before.times,
            window_ns,
            after: after.times,
        })
    }
}

/// A thread's times around a pair without work.
#[derive(Debug)]
struct EmptyPair {
    before: ThreadTimes,
    /// From the counter's reading after `before` to the end of the pair.
    window_ns: u64,
    after: ThreadTimes,
}

/// Calls `action` with what is known about this thread; `None` if the thread is ending.
fn with_thread<T>(action: impl FnOnce(&mut Thread) -> T) -> Option<T> {
    THREAD
        .try_with(|slot| {
            let mut slot = slot.try_borrow_mut().ok()?;
            let process = process_token();
            if slot.as_ref().is_none_or(|thread| thread.process != process) {
                *slot = Some(Thread::new(process));
            }
            slot.as_mut().map(action)
        })
        .ok()
        .flatten()
}

/// Reads this thread's times before a pair: the CPU clock last, so that the gap is short.
fn read_before(file: &system::ThreadFile, clock: PairClock) -> Option<ThreadReading> {
    let run_delay_ns = file.run_delay_ns()?;
    let blocked = system::blocked()?;
    let process_cpu_ns = system::process_cpu_ns()?;
    let cpu_ns = system::cpu_ns()?;
    let times = ThreadTimes {
        cpu_ns,
        run_delay_ns,
        process_cpu_ns,
        blocked,
    };
    Some(reading(clock.ticks(), times))
}

/// Reads this thread's times after a pair: the CPU clock first.
fn read_after(file: &system::ThreadFile, clock: PairClock) -> Option<ThreadReading> {
    let cpu_ns = system::cpu_ns()?;
    let ticks = clock.ticks();
    let times = ThreadTimes {
        cpu_ns,
        process_cpu_ns: system::process_cpu_ns()?,
        run_delay_ns: file.run_delay_ns()?,
        blocked: system::blocked()?,
    };
    Some(reading(ticks, times))
}

/// A reading with a number of its own.
fn reading(ticks: u64, times: ThreadTimes) -> ThreadReading {
    static READINGS: AtomicU64 = AtomicU64::new(0);
    // ORDERING: Relaxed, because only the number itself matters: each call gets another one. It
    // pairs with no other access.
    let readings = READINGS.fetch_add(1, Ordering::Relaxed);
    ThreadReading {
        id: NonZeroU64::MIN.saturating_add(readings),
        ticks,
        times,
    }
}

/// The last reading and the last pairs of a thread.
#[derive(Debug, Default)]
struct History {
    last: Option<ThreadReading>,
    /// The number of short pairs since the last long one.
    short_pairs: u32,
}

impl History {
    fn expects_short(&self) -> bool {
        self.short_pairs >= SHORT_PAIRS
    }

    /// The reading before a pair: made now, unless a short pair is expected.
    fn before(&mut self, read: impl FnOnce() -> Option<ThreadReading>) -> Option<NonZeroU64> {
        if !self.expects_short() || self.last.is_none() {
            self.last = read();
        }
        self.last.map(|last| last.id)
    }

    /// The readings before and after a long pair. `None` after a short one, or if the reading
    /// `before` was not the last one: the pair began on another thread, or was around other pairs.
    fn after(
        &mut self,
        before: Option<NonZeroU64>,
        pair: &PairReads,
        long_ticks: u64,
        read: impl FnOnce() -> Option<ThreadReading>,
    ) -> Option<(ThreadReading, ThreadReading)> {
        let last = self.last;
        if pair.ticks() >= long_ticks {
            self.short_pairs = 0;
            self.last = read();
            let before = last.filter(|last| Some(last.id) == before);
            return before.zip(self.last);
        }
        self.short_pairs = self.short_pairs.saturating_add(1);
        let is_old = |last: ThreadReading| pair.end_ticks.saturating_sub(last.ticks) >= long_ticks;
        if self.expects_short() && last.is_none_or(is_old) {
            self.last = read();
        }
        None
    }
}

#[cfg(test)]
mod tests;
