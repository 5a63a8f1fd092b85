//! The two readings around the measured code.
//!
//! # The contract
//!
//! 1. The start does not include earlier work: the counter is read after every earlier instruction
//!    has executed, and after every earlier store has left the store buffer.
//! 2. No measured instruction begins before the start was read.
//! 3. All measured instructions have executed when the end is read. Their last stores may still be
//!    in the store buffer, as at any point of a program.
//! 4. No later instruction begins before the end was read.
//!
//! | | x86_64 with `rdtscp` | x86_64 without | aarch64 | riscv64 |
//! |---|---|---|---|---|
//! | start | full fence, `rdtscp`, `lfence` | full fence, `lfence`, `rdtsc`, `lfence` | full fence, `dmb ishld; isb`, `mrs`, `dmb ishld; isb` | full fence, `fence ir, ir`, `rdtime`, `fence ir, ir` |
//! | end | `rdtscp`, `lfence` | `lfence`, `rdtsc`, `lfence` | `dmb ishld; isb`, `mrs`, `dmb ishld; isb` | `fence ir, ir`, `rdtime`, `fence ir, ir` |
//!
//! - `rdtscp` waits until all earlier instructions have executed and all earlier loads are globally
//!   visible. It does not wait for earlier stores. Later instructions may begin before it has read,
//!   unless `lfence` follows (Intel SDM vol. 2B, RDTSCP). On AMD it forces all older instructions
//!   to retire (AMD APM vol. 3, RDTSCP).
//! - A full fence is a locked instruction or `mfence`, at the compiler's choice: both wait until
//!   all earlier stores have drained (Intel SDM vol. 3A, "Software Controlled Bus Locking", and
//!   vol. 2A, MFENCE).
//! - `lfence` does not execute until all earlier instructions have completed, and no later one
//!   begins before it has (Intel SDM vol. 2A, LFENCE). On AMD it does so where DE_CFG bit 1 is
//!   set, as Linux and Windows do (AMD, Software Techniques for Managing Speculation, G-2).
//! - `isb`: instructions after it are fetched when all instructions before it have completed.
//!   Without `isb` the counter may be read early (Arm ARM DDI 0487 D12.1.2; Linux
//!   `arch/arm64/include/asm/arch_timer.h`). The full fence is `dmb ish`, which orders loads and
//!   stores but does not wait for them. So on aarch64 the second half of point 1 means only that
//!   later accesses come after the earlier stores.
//! - RISC-V has no instruction that waits until all earlier instructions have executed. A `fence`
//!   orders loads and counter reads (ISA manual, volume I, Zicsr, "CSR Access Ordering"). On RISC-V
//!   the four points therefore hold only for loads, and for instructions on which loads depend.
//!
//! For the compiler these instructions order only accesses to memory. It may move arithmetic in
//! registers across a reading. Measured code must therefore take its input from a `black_box` and
//! give its result to one (`lib.rs`, "Caveats").

use std::iter::Sum;
use std::num::NonZeroU64;
use std::ops::{Add, AddAssign};
use std::sync::LazyLock;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use tickline_core::counter::{Counter, CpuCounter, CpuRead, HardwareCounter, HardwareCpuCounter};

use crate::measurement::calibration::Scale;
use crate::measurement::lost_time::LostTime;
use crate::number::as_f64;

/// The clock of both readings.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PairClock {
    /// The counter and the CPU's id, in one instruction.
    WithCpu(HardwareCpuCounter),
    /// Only the counter, so moves of the thread are not noticed.
    Plain(HardwareCounter),
    /// The OS clock, as in `WallTime`: made by [`PairClock::wall`].
    Wall,
}

/// A measurement that has begun: [`CounterTime`](crate::CounterTime)'s `start` returns it, and
/// `end` takes it.
///
/// ```
/// use criterion::measurement::Measurement;
/// use tickline_criterion::measurement::Start;
/// use tickline_criterion::{CounterTime, Elapsed};
///
/// let time = CounterTime::builder().quiet().build_or_wall_time();
/// let start: Start = time.start();
/// let elapsed: Elapsed = time.end(start);
/// assert!(time.to_f64(&elapsed) > 0.0);
/// ```
// It contains the clock, so that the end needs no load for it: the measured code may have evicted
// all other data from the caches.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    clock: PairClock,
    begin: ClockRead,
    /// The reading of the thread's times before the start, if there is one. The reading itself
    /// stays elsewhere: to copy it would take 2 ns of the pair.
    pub(crate) before: Option<NonZeroU64>,
}

/// A reading of a [`PairClock`].
#[derive(Debug, Clone, Copy)]
enum ClockRead {
    Counter { ticks: u64, cpu: Option<usize> },
    Wall(Instant),
}

/// No reading of the OS clock is earlier.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl PairClock {
    /// The OS clock.
    pub(crate) fn wall() -> Self {
        LazyLock::force(&ORIGIN);
        Self::Wall
    }

    /// The counter, with the CPU's id if an instruction reads both. The caller must have a clock
    /// that trusts the counter.
    pub(crate) fn counter() -> Option<Self> {
        HardwareCpuCounter::if_present()
            .map(Self::WithCpu)
            .or_else(|| HardwareCounter::if_present().map(Self::Plain))
    }

    #[inline(always)]
    pub(crate) fn start(self) -> Start {
        self.start_after(None)
    }

    /// Starts after the thread's times were read.
    #[inline(always)]
    pub(crate) fn start_after(self, before: Option<NonZeroU64>) -> Start {
        // ORDERING: SeqCst, for the instruction that it compiles to (point 1); it pairs with no
        // other thread. With a weaker fence, earlier stores would drain during the measured code.
        // No test sees a weaker one, because the difference is some nanoseconds.
        fence(Ordering::SeqCst);
        Start {
            clock: self,
            begin: self.read(),
            before,
        }
    }

    /// A reading alone, as [`PairReads`] has two.
    pub(crate) fn ticks(self) -> u64 {
        self.read().ticks()
    }

    /// Reads after all earlier instructions, and before all later ones.
    #[inline(always)]
    fn read(self) -> ClockRead {
        match self {
            Self::WithCpu(counter) => {
                // If the read takes two instructions, and the thread has moved, read again.
                let CpuRead { ticks, cpu } = loop {
                    if let Some(read) = counter.now_ordered() {
                        break read;
                    }
                };
                counter.barrier();
                ClockRead::Counter {
                    ticks,
                    cpu: Some(cpu as usize),
                }
            }
            Self::Plain(counter) => {
                let ticks = counter.now_ordered();
                counter.barrier();
                ClockRead::Counter { ticks, cpu: None }
            }
            Self::Wall => ClockRead::Wall(Instant::now()),
        }
    }
}

impl ClockRead {
    /// Ticks of the counter, or the OS clock's ns since the first such clock was made.
    fn ticks(self) -> u64 {
        match self {
            Self::Counter { ticks, .. } => ticks,
            Self::Wall(now) => {
                u64::try_from(now.saturating_duration_since(*ORIGIN).as_nanos()).unwrap_or(u64::MAX)
            }
        }
    }

    fn cpu(self) -> Option<usize> {
        match self {
            Self::Counter { cpu, .. } => cpu,
            Self::Wall(_) => None,
        }
    }
}

/// Both readings of a pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PairReads {
    /// Ticks of the counter, or ns where the OS clock measures.
    pub(crate) start_ticks: u64,
    pub(crate) end_ticks: u64,
    /// The CPUs of both ends, if they were read with the counter.
    pub(crate) cpus: Option<(usize, usize)>,
}

impl PairReads {
    /// The time between the readings; 0 if the counter stepped back.
    #[inline(always)]
    pub(crate) fn ticks(&self) -> u64 {
        self.end_ticks.saturating_sub(self.start_ticks)
    }
}

impl Start {
    /// Takes the second reading, like [`end`](Self::end), but returns both readings.
    #[inline(always)]
    pub(crate) fn reads(self) -> PairReads {
        let (begin, end) = (self.begin, self.clock.read());
        PairReads {
            start_ticks: begin.ticks(),
            end_ticks: end.ticks(),
            cpus: begin.cpu().zip(end.cpu()),
        }
    }

    #[inline(always)]
    pub(crate) fn end(self) -> Elapsed {
        Elapsed::from_pair(self.reads())
    }
}

const PS_PER_NS: f64 = 1e3;

/// The unconverted time between starts and ends: ticks of the counter, and the number of pairs
/// whose cost they contain.
///
/// Sums stay in ticks, so that sums under `iter_batched` are not rounded. The cost of the pairs is
/// subtracted once, from the whole sum, and so is the time that the thread lost. A [`Duration`]
/// converts into an `Elapsed`, for `iter_custom` routines that time themselves. Nothing is
/// subtracted from it.
///
/// ```
/// use std::time::Duration;
/// use criterion::measurement::Measurement;
/// use tickline_criterion::{CounterTime, Elapsed};
///
/// let time = CounterTime::builder().quiet().build_or_wall_time();
/// let work = time.end(time.start());
/// let both = work + Elapsed::from(Duration::from_micros(3));
/// assert!(time.to_f64(&both) >= 3_000.0); // ns
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Elapsed {
    /// The ticks of all pairs, including their costs.
    pub(crate) ticks: u64,
    /// The number of pairs in `ticks`.
    pub(crate) pairs: u64,
    /// The number of pairs whose ends were on different CPUs.
    pub(crate) moved: u64,
    /// The number of pairs whose end was before their start. They count as 0 ticks.
    pub(crate) backwards: u64,
    /// Picoseconds without a cost: from another clock, or already converted.
    pub(crate) other_ps: u64,
    /// The number of times from another clock in `other_ps`.
    pub(crate) durations: u64,
    /// The time that the thread lost in the pairs.
    pub(crate) lost: LostTime,
}

impl Elapsed {
    /// The time of one pair.
    #[inline(always)]
    pub(crate) fn from_pair(reads: PairReads) -> Self {
        let moved = reads.cpus.is_some_and(|(start, end)| start != end);
        let backwards = reads.end_ticks < reads.start_ticks;
        Self {
            ticks: reads.ticks(),
            pairs: 1,
            moved: moved.into(),
            backwards: backwards.into(),
            other_ps: 0,
            durations: 0,
            lost: LostTime::default(),
        }
    }

    /// A time of this crate's pairs that is already converted, ns. A negative time becomes 0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, after 213 days"
    )]
    pub(crate) fn from_ns(ns: f64) -> Self {
        Self {
            other_ps: (ns * PS_PER_NS).round() as u64,
            ..Self::default()
        }
    }

    /// Whether another clock has measured all of it.
    pub(crate) const fn is_by_another_clock(&self) -> bool {
        self.durations > 0 && self.pairs == 0
    }

    /// The time in ns, without the cost of the pairs and without what is known to be lost in them;
    /// the ticks contribute at least 0.
    pub(crate) fn to_ns(self, scale: &Scale) -> f64 {
        let net_ticks = as_f64(self.ticks) - as_f64(self.pairs) * scale.cost_ticks;
        let net_ns = net_ticks * scale.rate.ns_per_tick - as_f64(self.lost.known_ns());
        net_ns.max(0.0) + as_f64(self.other_ps) / PS_PER_NS
    }
}

/// Equal times are equal, however many times of another clock their sum has.
impl PartialEq for Elapsed {
    fn eq(&self, other: &Self) -> bool {
        let counted = |time: &Self| (time.ticks, time.pairs, time.moved, time.backwards);
        (counted(self), self.other_ps, self.lost) == (counted(other), other.other_ps, other.lost)
    }
}

impl Eq for Elapsed {}

impl Add for Elapsed {
    type Output = Self;

    /// Saturates after 213 days.
    #[inline]
    fn add(self, other: Self) -> Self {
        Self {
            ticks: self.ticks.saturating_add(other.ticks),
            pairs: self.pairs.saturating_add(other.pairs),
            moved: self.moved.saturating_add(other.moved),
            backwards: self.backwards.saturating_add(other.backwards),
            other_ps: self.other_ps.saturating_add(other.other_ps),
            durations: self.durations.saturating_add(other.durations),
            lost: self.lost + other.lost,
        }
    }
}

impl AddAssign for Elapsed {
    /// Saturates after 213 days.
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Elapsed {
    /// Saturates after 213 days.
    #[inline]
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::default(), Self::add)
    }
}

impl From<Duration> for Elapsed {
    #[inline]
    fn from(other: Duration) -> Self {
        Self {
            other_ps: u64::try_from(other.as_nanos() * 1_000).unwrap_or(u64::MAX),
            durations: 1,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::calibration::Rate;

    fn pair(start_ticks: u64, end_ticks: u64) -> Elapsed {
        Elapsed::from_pair(PairReads {
            start_ticks,
            end_ticks,
            cpus: Some((0, 0)),
        })
    }

    const fn scale(ns_per_tick: f64, cost_ticks: f64) -> Scale {
        Scale {
            rate: Rate {
                ns_per_tick,
                uncertainty_ppb: 0.0,
            },
            cost_ticks,
            ..Scale::WALL
        }
    }

    #[test]
    fn the_cost_of_each_pair_is_subtracted_from_the_sum() {
        let sum = (0..1_000).fold(Elapsed::default(), |sum, _| sum + pair(5_000, 5_100));
        assert_eq!(sum.to_ns(&scale(0.5, 0.0)), 50_000.0);
        assert_eq!(sum.to_ns(&scale(0.5, 60.0)), 20_000.0);
    }

    #[test]
    fn a_sum_smaller_than_its_pairs_cost_is_zero() {
        let sum = pair(0, 26) + pair(26, 78);
        assert_eq!(sum.to_ns(&scale(1.0, 50.0)), 0.0);
    }

    /// Symptom if each pair was clamped to 0: with a resolution of 26 ticks, pairs of 40 ticks read
    /// as 26 or 52. An empty routine then took (52 - 40) / 2 ticks on average.
    #[test]
    fn a_pair_shorter_than_its_cost_counts_against_a_longer_one() {
        let coarse = pair(0, 26) + pair(26, 78);
        assert_eq!(coarse.to_ns(&scale(1.0, 38.0)), 2.0);
    }

    /// Symptom: a routine for `iter_custom` with `total += ..` compiled by `WallTime`, and not by
    /// this crate's clock.
    #[test]
    fn a_time_may_be_added_in_place() {
        let mut total = pair(0, 26);
        total += pair(26, 78);
        assert_eq!(total, pair(0, 26) + pair(26, 78));
    }

    /// Symptom: a routine for `iter_custom` with `.sum()` compiled by `WallTime`, and not by this
    /// crate's clock.
    #[test]
    fn the_times_of_an_iterator_may_be_summed() {
        let total: Elapsed = [pair(0, 26), pair(26, 78)].into_iter().sum();
        assert_eq!(total, pair(0, 26) + pair(26, 78));
    }

    fn backward_pair() -> Elapsed {
        Elapsed::from_pair(PairReads {
            start_ticks: 100,
            end_ticks: 40,
            cpus: Some((0, 1)),
        })
    }

    #[test]
    fn a_pair_that_ran_backwards_adds_no_ticks() {
        let sum = backward_pair() + pair(40, 50);
        assert_eq!((sum.ticks, sum.pairs), (10, 2));
    }

    #[test]
    fn a_pair_that_ran_backwards_is_counted() {
        let sum = backward_pair() + pair(40, 50) + backward_pair();
        assert_eq!(sum.backwards, 2);
    }

    #[test]
    fn a_pair_whose_ends_are_on_two_cpus_is_counted() {
        let sum = backward_pair() + pair(40, 50) + backward_pair();
        assert_eq!(sum.moved, 2);
    }

    fn lost(waited_ns: u64) -> Elapsed {
        Elapsed {
            lost: LostTime {
                waited_ns,
                other_ns: 5,
                unsure_ns: 100,
            },
            ..Elapsed::default()
        }
    }

    #[test]
    fn the_time_lost_in_pairs_is_subtracted_once_from_their_sum() {
        let sum = pair(0, 1_000) + lost(100) + pair(2_000, 2_100) + lost(50);
        assert_eq!(sum.to_ns(&scale(0.5, 20.0)), 530.0 - 150.0 - 10.0);
    }

    #[test]
    fn a_sum_that_lost_more_than_it_has_is_zero() {
        assert_eq!((pair(0, 100) + lost(200)).to_ns(&scale(1.0, 0.0)), 0.0);
    }

    #[test]
    fn the_time_lost_in_pairs_leaves_a_duration_as_it_is() {
        let sum = Elapsed::from(Duration::from_nanos(70)) + pair(0, 100) + lost(200);
        assert_eq!(sum.to_ns(&scale(1.0, 0.0)), 70.0);
    }

    #[test]
    fn a_duration_is_added_without_the_cost_of_a_pair() {
        let sum = Elapsed::from(Duration::from_nanos(70)) + pair(0, 10);
        assert_eq!(sum.to_ns(&scale(2.0, 4.0)), 82.0);
    }

    #[test]
    fn the_cost_of_a_pair_takes_nothing_off_a_duration() {
        let sum = Elapsed::from(Duration::from_nanos(70)) + pair(0, 10);
        assert_eq!(sum.to_ns(&scale(2.0, 40.0)), 70.0);
    }

    /// A clock with coarse steps often measures 0.
    #[test]
    fn a_sum_of_durations_is_by_another_clock() {
        let sum = Elapsed::from(Duration::ZERO) + Elapsed::from(Duration::ZERO);
        assert!(sum.is_by_another_clock(), "{sum:?}");
    }

    #[test]
    fn a_sum_with_a_pair_is_not_by_another_clock() {
        let sum = Elapsed::from(Duration::from_nanos(70)) + pair(0, 10);
        assert!(!sum.is_by_another_clock(), "{sum:?}");
    }

    #[test]
    fn equal_times_of_another_clock_are_equal() {
        let times = [3, 5, 8].map(|us| Elapsed::from(Duration::from_micros(us)));
        assert_eq!(times[0] + times[1], times[2]);
    }

    /// Such are the samples of `bench_pairs`, from which the cost has been subtracted.
    #[test]
    fn a_converted_time_is_not_by_another_clock() {
        let sum = Elapsed::from_ns(70.0) + Elapsed::default();
        assert!(!sum.is_by_another_clock(), "{sum:?}");
    }

    #[test]
    fn a_part_of_a_nanosecond_is_kept() {
        assert_eq!(Elapsed::from_ns(0.275).to_ns(&scale(2.0, 40.0)), 0.275);
    }

    #[test]
    fn a_negative_time_counts_as_none() {
        assert_eq!(Elapsed::from_ns(-3.0), Elapsed::default());
    }

    #[test]
    fn a_pair_of_equal_readings_is_not_backwards() {
        assert_eq!(Elapsed::from_pair(PairReads::default()).backwards, 0);
    }
}
