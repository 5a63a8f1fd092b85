//! Counts system calls at the kernel's tracepoints, by perf_event_open(2). When this process ends,
//! for whatever reason, the kernel stops counting and removes the counters.
//!
//! Tracepoints are at the entry of system calls. A call that the vDSO answers reaches none.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use perf_event::data::Record;
use perf_event::events::Tracepoint as Event;
use perf_event::{Builder, Counter, SampleFlag, Sampler};

use super::CallCounts;
use super::clocks::TimeCall;
use super::tracepoint::{self, Obstacle, Tracepoint};
use crate::cpu_list;
use crate::machine;
use crate::measure::calls::monotonic_ns;
use crate::measure::stopwatch::Stopwatch;

/// The time for which calls are counted but not sampled, to choose the sampling period.
const TRIAL: Duration = Duration::from_millis(100);

/// The sampling periods: one call in this many is sampled. They are primes, so that the samples of
/// a program that calls in a pattern do not all hit the same call of the pattern.
const PERIODS: [u64; 6] = [1, 11, 101, 1_009, 10_007, 100_003];

/// The most samples a second on one CPU. A sample takes the kernel and this program about 0.5 us
/// each, so this is 2 % of a CPU.
const SAMPLES_PER_SECOND: u64 = 20_000;

/// The time between two reads of the buffers.
const POLL: Duration = Duration::from_millis(20);

/// The size of a buffer, bytes. A sample takes 64 bytes. A buffer has room for five times the
/// samples that arrive between two reads.
const BUFFER_BYTES: usize = 1 << 17;

/// Counts the calls of one process, or of all processes except this one, for `duration`. `progress`
/// receives the finished share.
pub(crate) fn count(
    process: Option<u32>,
    duration: Duration,
    mut progress: impl FnMut(f64),
) -> Result<CallCounts, Obstacle> {
    let tracepoints = tracepoint::all()?;
    let cpus = online_cpus()?;
    let (calls_per_second, trial) = count_for_trial(&tracepoints, &cpus)?;
    let period = sampling_period(calls_per_second);
    let sampled = on_each(&tracepoints, &cpus)
        .map(|(tracepoint, cpu)| SampledTracepoint::new(tracepoint, cpu, period));
    let mut sampled = sampled.collect::<io::Result<Vec<_>>>()?;
    // Close the trial's counters only now. If a tracepoint has no user, the kernel rewrites its
    // code, and rewrites it again for the next user.
    drop(trial);
    let mut counted = CallCounts::default();
    counted.who.sampled_every = Some(period);
    counted.who.from_monotonic_ns = Some(monotonic_ns());
    let start = Stopwatch::start();
    sampled
        .iter_mut()
        .try_for_each(|one| one.sampler.enable())?;
    while start.elapsed() < duration {
        thread::sleep(POLL.min(duration.saturating_sub(start.elapsed())));
        for one in &mut sampled {
            one.drain(process, &mut counted);
        }
        progress(start.elapsed().div_duration_f64(duration).min(1.0));
    }
    sampled
        .iter_mut()
        .try_for_each(|one| one.sampler.disable())?;
    counted.who.counted_s = Some(start.elapsed().as_secs_f64());
    counted.who.until_monotonic_ns = Some(monotonic_ns());
    for one in &mut sampled {
        one.drain(process, &mut counted);
        counted.who.lost_calls += lost_calls(one.sampler.read()?, one.samples, period);
    }
    Ok(counted)
}

/// Counts for a short time. Returns the most calls a second on a CPU at a tracepoint, and the open
/// counters.
fn count_for_trial(tracepoints: &[Tracepoint], cpus: &[usize]) -> io::Result<(u64, Vec<Counter>)> {
    let counters =
        on_each(tracepoints, cpus).map(|(tracepoint, cpu)| builder(tracepoint, cpu).build());
    let mut counters = counters.collect::<io::Result<Vec<_>>>()?;
    let start = Instant::now();
    counters.iter_mut().try_for_each(Counter::enable)?;
    thread::sleep(TRIAL);
    let mut most = 0;
    for counter in &mut counters {
        most = counter.read()?.max(most);
    }
    let us = start.elapsed().as_micros().max(1);
    let per_second = u64::try_from(u128::from(most) * 1_000_000 / us).unwrap_or(u64::MAX);
    Ok((per_second, counters))
}

fn on_each<'a>(
    tracepoints: &'a [Tracepoint],
    cpus: &[usize],
) -> impl Iterator<Item = (&'a Tracepoint, usize)> {
    tracepoints
        .iter()
        .flat_map(|tracepoint| cpus.iter().map(move |cpu| (tracepoint, *cpu)))
}

/// The smallest period that gives at most `SAMPLES_PER_SECOND` for this number of calls a second.
fn sampling_period(calls_per_second: u64) -> u64 {
    let few = |period: &&u64| calls_per_second / **period <= SAMPLES_PER_SECOND;
    PERIODS
        .iter()
        .find(few)
        .or(PERIODS.last())
        .copied()
        .unwrap_or(1)
}

fn builder(tracepoint: &Tracepoint, cpu: usize) -> Builder<'static> {
    let mut builder = Builder::new(Event::with_id(tracepoint.id));
    // Tracepoints are in the kernel, and counters exclude the kernel by default.
    builder.any_pid().one_cpu(cpu).include_kernel();
    builder
}

/// One tracepoint on one CPU.
struct SampledTracepoint<'a> {
    tracepoint: &'a Tracepoint,
    sampler: Sampler,
    samples: u64,
}

impl<'a> SampledTracepoint<'a> {
    fn new(tracepoint: &'a Tracepoint, cpu: usize, period: u64) -> io::Result<Self> {
        let counter = builder(tracepoint, cpu)
            .sample_period(period)
            .sample(SampleFlag::TID)
            .sample(SampleFlag::RAW)
            .build()?;
        Ok(Self {
            tracepoint,
            sampler: counter.sampled(BUFFER_BYTES)?,
            samples: 0,
        })
    }

    /// Adds the samples that have arrived.
    fn drain(&mut self, process: Option<u32>, counted: &mut CallCounts) {
        while let Some(record) = self.sampler.next_record() {
            // Any other record is not a call. `lost_calls` computes the lost samples.
            let Ok(Record::Sample(sample)) = record.parse_record() else {
                continue;
            };
            self.samples += 1;
            let pid = sample.pid().unwrap_or(0);
            let clock = sample
                .raw()
                .zip(self.tracepoint.clock_at)
                .and_then(|(raw, at)| clock_id(raw, at));
            let wanted = process.map_or(pid != std::process::id(), |process| process == pid);
            if let Some(call) = TimeCall::new(self.tracepoint.call, clock)
                && wanted
            {
                counted.add(pid, call, machine::process_name);
            }
        }
    }
}

/// The number of calls whose samples were lost. The kernel counts every call, but drops samples if
/// a buffer is full, or if there are more than its limit (`perf_event_max_sample_rate`). The calls
/// since the last sample are fewer than a period, and do not count as lost.
fn lost_calls(calls: u64, samples: u64, period: u64) -> u64 {
    let rest = calls.saturating_sub(samples.saturating_mul(period));
    if rest < period { 0 } else { rest }
}

/// The clock's number in an event's data. The argument has 64 bits, and the clock's number 32.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the lower half is the clock"
)]
fn clock_id(raw: &[u8], at: usize) -> Option<i32> {
    Some(i64::from_ne_bytes(*raw.get(at..)?.first_chunk()?) as i32)
}

fn online_cpus() -> io::Result<Vec<usize>> {
    let list = machine::online_cpus().unwrap_or_default();
    let cpus = cpu_list::parse(&list).map_err(io::Error::other)?;
    Ok(cpus
        .iter()
        .filter_map(|cpu| usize::try_from(*cpu).ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_calls_the_fewer_are_sampled() {
        for (calls_per_second, period) in [
            (0, 1),
            (20_000, 1),
            (20_001, 11),
            (100_000, 11),
            (1_000_000, 101),
            (u64::MAX, 100_003),
        ] {
            assert_eq!(
                sampling_period(calls_per_second),
                period,
                "{calls_per_second}"
            );
        }
        assert!(PERIODS.is_sorted());
    }

    #[test]
    fn calls_without_a_sample_are_lost() {
        assert_eq!(lost_calls(1_000, 90, 11), 0, "the rest is no whole period");
        assert_eq!(lost_calls(1_001, 90, 11), 11, "one sample is missing");
        assert_eq!(lost_calls(500, 500, 1), 0);
        assert_eq!(lost_calls(500, 499, 1), 1);
    }

    /// Symptom: a process whose name is not UTF-8 was shown as ended.
    #[test]
    fn a_process_has_a_name_in_any_encoding() {
        let before = std::fs::read("/proc/self/comm").unwrap();
        std::fs::write("/proc/self/comm", b"a\xffb").unwrap();
        let found = machine::process_name(std::process::id());
        std::fs::write("/proc/self/comm", before.trim_ascii_end()).unwrap();
        assert_eq!(found.as_deref(), Some("a\u{fffd}b"));
    }

    #[test]
    fn the_clocks_number_is_signed() {
        let mut raw = vec![0_u8; 16];
        raw.extend(1_u64.to_ne_bytes());
        raw.extend((-6_i64).to_ne_bytes());
        assert_eq!(clock_id(&raw, 16), Some(1));
        assert_eq!(clock_id(&raw, 24), Some(-6));
        assert_eq!(clock_id(&raw, 25), None, "beyond the end");
    }

    /// A process may be limited to some of them.
    #[test]
    fn the_cpus_are_at_least_those_that_this_process_has() {
        let own = std::thread::available_parallelism().expect("a number");
        assert!(online_cpus().expect("a list").len() >= own.get());
    }
}
