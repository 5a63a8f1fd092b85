//! The difference between the counters of each pair of CPUs, as an interval that must contain it.
//! The exchanges are those of tickline's own comparison (`tickline::exchange`), but for all pairs,
//! and for longer.

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickline::exchange::{self, Exchanges};
use tickline_core::counter::{Counter, HardwareCounter, resolution_ticks};

use super::calls::monotonic_ns;
use super::costs::may_read_counter;
use super::{as_f64, narrowest, signed_f64};
use crate::cpu_list;
use crate::machine::online_cpus;

/// All pairs are the default up to this number of CPUs: 2,016 pairs, in some 10 s.
const MAX_FOR_ALL_PAIRS: usize = 64;

/// All pairs are possible up to this number of CPUs: 523,776 pairs, in half an hour.
pub(crate) const MAX_COMPARED_CPUS: usize = 1_024;

/// Tries for each pair: some thousands of exchanges, in a millisecond each where the CPUs are free.
const TRIES: u32 = 3;

/// Further tries where the two threads did not run at the same time.
const MORE_TRIES: u32 = 5;

/// Time for the measurement of the counter's rate. Two samples that are 50 ns wide give the rate to
/// 1 ppm. Two that are 2 us wide, as between readings of hpet, give it to 20 ppm.
const RATE_TIME: Duration = Duration::from_millis(100);

/// Samples at either end, of which the narrowest counts: an interruption widens a sample.
const RATE_SAMPLES: u32 = 16;

/// Which pairs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pattern {
    /// Every CPU with every other
    #[default]
    All,
    /// The first CPU with every other
    Star,
}

impl Pattern {
    /// The pattern for so many CPUs, if the user names none.
    pub(crate) const fn by_default(cpus: usize) -> Self {
        if cpus > MAX_FOR_ALL_PAIRS { Self::Star } else { Self::All }
    }
}

/// What the comparison of the CPUs' counters has found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WarpTest {
    /// The CPUs that were compared, in ascending order.
    pub(crate) cpus: Vec<u32>,
    /// Which of their pairs.
    pub(crate) pattern: Pattern,
    /// The counter's rate on the first CPU, Hz, by which ticks were converted to ns.
    pub(crate) frequency_hz: Option<f64>,
    /// The counter's resolution, ns: a smaller difference counts as synchronised.
    pub(crate) resolution_ns: Option<f64>,
    /// The CPUs that are online and were not compared, as a list of ranges; absent if there are
    /// none, or that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) untested_cpus: Option<String>,
    /// Whether all counters of `cpus` are synchronised; null if a pair could not be compared and no
    /// other pair is unsynchronised, or if there is one CPU and others are online.
    pub(crate) synchronised: Option<bool>,
    /// Why nothing could be compared.
    pub(crate) unknown: Option<String>,
    /// The largest warp (backward step in an exchange), ns.
    pub(crate) largest_warp_ns: f64,
    /// The result of each pair.
    pub(crate) pairs: Vec<WarpPair>,
}

/// The comparison of two CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WarpPair {
    /// The CPU with the smaller number.
    pub(crate) from_cpu: u32,
    /// The other one.
    pub(crate) to_cpu: u32,
    /// Exchanges between the two threads, in both directions.
    pub(crate) exchanges: u64,
    /// Exchanges in which time stepped back.
    pub(crate) warps: u64,
    /// The largest of these steps, ns.
    pub(crate) largest_warp_ns: f64,
    /// `to_cpu`'s counter minus `from_cpu`'s is at least this, ns; null if there were too few
    /// exchanges.
    pub(crate) offset_least_ns: Option<f64>,
    /// `to_cpu`'s counter minus `from_cpu`'s is at most this, ns; null if there were too few
    /// exchanges.
    pub(crate) offset_most_ns: Option<f64>,
    /// Whether the two are synchronised; null if there were too few exchanges.
    pub(crate) synchronised: Option<bool>,
}

impl WarpPair {
    /// The largest possible difference between the two counters, ns.
    pub(crate) fn farthest_ns(&self) -> Option<f64> {
        Some(self.offset_least_ns?.abs().max(self.offset_most_ns?.abs()))
    }
}

impl WarpTest {
    /// Notes which of the CPUs in `online`, a list of ranges, were not compared. The process may be
    /// kept from some CPUs, and then knows nothing about their counters.
    fn among(mut self, online: Option<&str>) -> Self {
        let online = online.and_then(|list| cpu_list::parse(list).ok());
        let others = online
            .map(|online| online.into_iter().filter(|cpu| !self.cpus.contains(cpu)).collect::<Vec<_>>());
        self.untested_cpus = others.as_deref().filter(|cpus| !cpus.is_empty()).map(cpu_list::ranges);
        if self.pairs.is_empty() && others.is_none_or(|others| !others.is_empty()) {
            self.synchronised = None;
        }
        self
    }
}

/// Compares all CPUs on which this process may run. `progress` receives the finished share.
pub(crate) fn measure_all(progress: impl FnMut(f64)) -> WarpTest {
    let cpus = exchange::cpus();
    measure(&cpus, Pattern::by_default(cpus.len()), progress)
}

/// Compares `cpus`, which must be in ascending order.
pub(crate) fn measure(cpus: &[u32], pattern: Pattern, progress: impl FnMut(f64)) -> WarpTest {
    let warp = WarpTest { cpus: cpus.to_vec(), pattern, ..WarpTest::default() };
    let found = compare_all(&warp, progress);
    let warp = found.unwrap_or_else(|why| WarpTest { unknown: Some(why.to_owned()), ..warp });
    warp.among(online_cpus().as_deref())
}

/// Adds the results to `warp`. The error says why there is none.
fn compare_all(warp: &WarpTest, mut progress: impl FnMut(f64)) -> Result<WarpTest, &'static str> {
    let counter = HardwareCounter::if_present().ok_or("this machine has no counter that tickline knows")?;
    if !may_read_counter() {
        return Err("this process may not read the counter");
    }
    let first = *warp.cpus.first().ok_or("this system does not say on which CPUs a thread may run")?;
    let rate = exchange::on_cpu(first, || (rate_hz(counter), resolution_ticks(&counter)));
    let (frequency_hz, resolution_ticks) = rate
        .filter(|(hz, _)| *hz > 0.0)
        .ok_or("the counter's rate could not be measured on the first CPU")?;
    let ends = pairs(&warp.cpus, warp.pattern);
    let mut found = Vec::with_capacity(ends.len());
    for (from_cpu, to_cpu) in ends.iter().copied() {
        let exchanges = compare(from_cpu, to_cpu);
        found.push(describe((from_cpu, to_cpu), &exchanges, frequency_hz, resolution_ticks));
        progress(as_f64(found.len() as u64) / as_f64(ends.len() as u64));
    }
    Ok(WarpTest {
        frequency_hz: Some(frequency_hz),
        resolution_ns: Some(as_f64(resolution_ticks) * 1e9 / frequency_hz),
        synchronised: all_synchronised(&found),
        largest_warp_ns: found.iter().map(|pair| pair.largest_warp_ns).fold(0.0, f64::max),
        pairs: found,
        ..warp.clone()
    })
}

/// One unsynchronised pair suffices for `Some(false)`; `Some(true)` needs all pairs.
fn all_synchronised(pairs: &[WarpPair]) -> Option<bool> {
    if pairs.iter().any(|pair| pair.synchronised == Some(false)) {
        return Some(false);
    }
    pairs.iter().all(|pair| pair.synchronised.is_some()).then_some(true)
}

/// The pairs to compare, each with the smaller id first.
fn pairs(cpus: &[u32], pattern: Pattern) -> Vec<(u32, u32)> {
    let with_later = |place: usize| cpus[place + 1..].iter().map(move |to| (cpus[place], *to));
    let centres = match pattern {
        Pattern::All => cpus.len(),
        Pattern::Star => 1,
    };
    (0..cpus.len()).take(centres).flat_map(with_later).collect()
}

/// Exchanges between two CPUs.
fn compare(from_cpu: u32, to_cpu: u32) -> Exchanges {
    let mut exchanges = Exchanges::NONE;
    for done in 0..TRIES + MORE_TRIES {
        if done >= TRIES && exchanges.are_enough() {
            break;
        }
        exchanges += exchange::between(from_cpu, to_cpu);
    }
    exchanges
}

fn describe(
    (from_cpu, to_cpu): (u32, u32),
    exchanges: &Exchanges,
    frequency_hz: f64,
    resolution_ticks: u64,
) -> WarpPair {
    let known = exchanges.are_enough();
    let ns = |ticks: f64| ticks * 1e9 / frequency_hz;
    let difference = exchanges.difference;
    WarpPair {
        from_cpu,
        to_cpu,
        exchanges: exchanges.count,
        warps: exchanges.backward,
        // The size of the largest backward step is the least possible difference between the
        // counters.
        largest_warp_ns: ns(as_f64(difference.size_ticks())),
        offset_least_ns: known.then(|| ns(signed_f64(difference.least_ticks))),
        offset_most_ns: known.then(|| ns(signed_f64(difference.most_ticks))),
        synchronised: known.then(|| difference.size_ticks() <= resolution_ticks),
    }
}

/// The rate of the present CPU's counter, Hz.
fn rate_hz(counter: HardwareCounter) -> f64 {
    let sample = || {
        let (before_ns, ticks, after_ns) = narrowest(RATE_SAMPLES, monotonic_ns, || counter.now_ordered());
        (ticks, before_ns.midpoint(after_ns))
    };
    let (start_ticks, start_ns) = sample();
    thread::sleep(RATE_TIME);
    let (end_ticks, end_ns) = sample();
    as_f64(end_ticks.wrapping_sub(start_ticks)) / as_f64(end_ns.saturating_sub(start_ns).max(1)) * 1e9
}

#[cfg(test)]
mod tests {
    use tickline::exchange::MIN_ROUND_TRIPS;
    use tickline_core::gate::Difference;

    use super::*;

    #[test]
    fn a_pair_is_described_in_ns_and_its_warp_is_the_least_difference() {
        let described = |round_trips, least_ticks, most_ticks, resolution_ticks| {
            let difference = Difference { least_ticks, most_ticks };
            let mut exchanges = Exchanges::NONE;
            (exchanges.round_trips, exchanges.difference) = (round_trips, difference);
            describe((0, 1), &exchanges, 2e9, resolution_ticks)
        };
        let near = described(MIN_ROUND_TRIPS, -60, 90, 0);
        assert_eq!((near.offset_least_ns, near.offset_most_ns), (Some(-30.0), Some(45.0)));
        assert_eq!((near.synchronised, near.largest_warp_ns), (Some(true), 0.0));
        let unsynchronised = described(MIN_ROUND_TRIPS, -66_930, -66_800, 26);
        assert_eq!(unsynchronised.synchronised, Some(false));
        assert!((unsynchronised.largest_warp_ns - 33_400.0).abs() < 1e-6);
        assert_eq!(described(MIN_ROUND_TRIPS, 26, 90, 26).synchronised, Some(true), "a step hides as much");
        let few = described(MIN_ROUND_TRIPS - 1, -60, 90, 26);
        assert_eq!((few.synchronised, few.offset_least_ns, few.offset_most_ns), (None, None, None));
        assert_eq!(all_synchronised(&[near, unsynchronised, few]), Some(false));
        assert_eq!(all_synchronised(&[near, few]), None);
        assert_eq!(all_synchronised(&[near, near]), Some(true));
    }

    /// A process on one CPU of two called their counters synchronised.
    #[test]
    fn cpus_that_were_not_compared_are_named() {
        for (cpus, online, synchronised, untested) in [
            (&[1][..], Some("0-1"), None, Some("0")),
            (&[0], Some("0"), Some(true), None),
            (&[0], None, None, None),
            (&[0, 1], Some("0-7,16"), Some(true), Some("2-7,16")),
        ] {
            let pairs = vec![WarpPair::default(); cpus.len() - 1];
            let warp =
                WarpTest { cpus: cpus.to_vec(), synchronised: Some(true), pairs, ..WarpTest::default() };
            let warp = warp.among(online);
            let found = (warp.synchronised, warp.untested_cpus.as_deref());
            assert_eq!(found, (synchronised, untested), "{cpus:?}");
        }
    }

    #[test]
    fn all_pairs_and_a_star() {
        assert_eq!(pairs(&[0, 2, 5], Pattern::All), [(0, 2), (0, 5), (2, 5)]);
        assert_eq!(pairs(&[0, 2, 5], Pattern::Star), [(0, 2), (0, 5)]);
        assert!(pairs(&[3], Pattern::All).is_empty());
    }
}
