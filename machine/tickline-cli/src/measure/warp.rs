//! Measures the difference between the counters of each pair of CPUs, as an interval that must
//! contain it. The method is tickline's own comparison (`tickline::exchange`), but for
//! all pairs, and with more exchanges.

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickline::exchange::{self, Exchanges};
use tickline_core::comparison::{MAX_DIFFERENCE_NS, Synchronisation};
use tickline_core::counter::{Counter, HardwareCounter, resolution_ticks};

use super::admitted_counter;
use super::calls::monotonic_ns;
use super::narrowest;
use crate::cpu_list;
use crate::float::{as_f64, signed_f64};
use crate::machine::online_cpus;

/// The most CPUs for which all pairs are the default: 2,016 pairs, in about 10 s.
const MAX_FOR_ALL_PAIRS: usize = 64;

/// The most CPUs for which all pairs can be compared: 523,776 pairs, in half an hour.
pub(crate) const MAX_COMPARED_CPUS: usize = 1_024;

/// The number of tries for each pair. A try makes thousands of exchanges in a millisecond.
const TRIES: u32 = 3;

/// The most further tries if the two threads did not run at the same time.
const EXTRA_TRIES: u32 = 5;

/// The time for the measurement of the counter's rate. Two samples that are 50 ns wide give the
/// rate to 1 ppm; two that are 2 us wide, as between readings of hpet, give it to 20 ppm.
const RATE_TIME: Duration = Duration::from_millis(100);

/// The number of samples at either end. The narrowest counts: an interruption widens a sample.
const RATE_SAMPLES: u32 = 16;

/// The pattern of the pairs that are compared.
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
    /// The default pattern for this number of CPUs.
    pub(crate) const fn by_default(cpus: usize) -> Self {
        if cpus > MAX_FOR_ALL_PAIRS {
            Self::Star
        } else {
            Self::All
        }
    }
}

/// Why a comparison of two counters fails.
pub(crate) const WHY_NOT_COMPARED: &str =
    "their threads did not run at the same time, or exchanged too slowly";

/// When a clock's thread compares the counters again after that.
pub(crate) const TRIES_AGAIN: &str =
    "tries again by itself, at first within seconds, later less often";

/// The result of the comparison of the CPUs' counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WarpTest {
    /// The CPUs that were compared, in ascending order.
    pub(crate) cpus: Vec<u32>,
    /// The pattern of the pairs that were compared.
    pub(crate) pattern: Pattern,
    /// The counter's rate on the first CPU, Hz. It converts ticks to ns.
    pub(crate) frequency_hz: Option<f64>,
    /// The counter's resolution, ns. A difference up to this counts as synchronised.
    pub(crate) resolution_ns: Option<f64>,
    /// The CPUs that are online and were not compared, as a list of ranges; absent if there is no
    /// such CPU, or if the online CPUs are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) untested_cpus: Option<String>,
    /// Whether all counters of `cpus` are synchronised; null if a pair could not be compared and no
    /// pair is unsynchronised, or if `cpus` has one CPU and other CPUs are or may be online.
    pub(crate) synchronised: Option<bool>,
    /// Why no pair could be compared.
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
    /// The CPU with the larger number.
    pub(crate) to_cpu: u32,
    /// Number of exchanges between the two threads, in both directions.
    pub(crate) exchanges: u64,
    /// Number of exchanges in which the counter stepped back.
    pub(crate) warps: u64,
    /// The largest of these backward steps, ns.
    pub(crate) largest_warp_ns: f64,
    /// `to_cpu`'s counter minus `from_cpu`'s is at least this, ns; null if there were too few
    /// exchanges.
    pub(crate) offset_least_ns: Option<f64>,
    /// `to_cpu`'s counter minus `from_cpu`'s is at most this, ns; null if there were too few
    /// exchanges.
    pub(crate) offset_most_ns: Option<f64>,
    /// Whether the two counters are synchronised; null if there were too few exchanges, or if they
    /// took so long that a difference that matters could be neither found nor excluded.
    pub(crate) synchronised: Option<bool>,
}

impl WarpPair {
    /// The largest possible difference between the two counters, ns.
    pub(crate) fn farthest_ns(&self) -> Option<f64> {
        Some(self.offset_least_ns?.abs().max(self.offset_most_ns?.abs()))
    }
}

impl WarpTest {
    /// Adds the results of the pairs, and the rate and the resolution of the counter.
    fn with_results(self, pairs: Vec<WarpPair>, frequency_hz: f64, resolution_ticks: u64) -> Self {
        Self {
            frequency_hz: Some(frequency_hz),
            resolution_ns: Some(as_f64(resolution_ticks) * 1e9 / frequency_hz),
            synchronised: all_synchronised(&pairs),
            largest_warp_ns: pairs
                .iter()
                .map(|pair| pair.largest_warp_ns)
                .fold(0.0, f64::max),
            pairs,
            ..self
        }
    }

    /// Notes which of the CPUs in `online`, a list of ranges, were not compared. The process may
    /// not be allowed to run on them, and then their counters are unknown.
    fn note_untested_cpus(mut self, online: Option<&str>) -> Self {
        let online = online.and_then(|list| cpu_list::parse(list).ok());
        let others = online.map(|online| {
            online
                .into_iter()
                .filter(|cpu| !self.cpus.contains(cpu))
                .collect::<Vec<_>>()
        });
        self.untested_cpus = others
            .as_deref()
            .filter(|cpus| !cpus.is_empty())
            .map(cpu_list::ranges);
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
    let warp = WarpTest {
        cpus: cpus.to_vec(),
        pattern,
        ..WarpTest::default()
    };
    let found = compare_all(&warp, progress);
    let warp = found.unwrap_or_else(|why| WarpTest {
        unknown: Some(why),
        ..warp
    });
    warp.note_untested_cpus(online_cpus().as_deref())
}

/// Returns `warp` with the results. The error says why no pair could be compared.
fn compare_all(warp: &WarpTest, mut progress: impl FnMut(f64)) -> Result<WarpTest, String> {
    let counter = admitted_counter()?;
    let first = *warp
        .cpus
        .first()
        .ok_or("this system does not say on which CPUs a thread may run")?;
    let rate = exchange::on_cpu(first, move || {
        (rate_hz(counter), resolution_ticks(&counter))
    });
    let (frequency_hz, resolution_ticks) = rate.filter(|(hz, _)| *hz > 0.0).ok_or(
        "the counter's rate was not measured: no thread could be started on the first CPU",
    )?;
    let ends = pairs(&warp.cpus, warp.pattern);
    let mut found = Vec::with_capacity(ends.len());
    for (from_cpu, to_cpu) in ends.iter().copied() {
        let exchanges = compare(from_cpu, to_cpu);
        found.push(pair_result(
            (from_cpu, to_cpu),
            &exchanges,
            frequency_hz,
            resolution_ticks,
        ));
        progress(as_f64(found.len() as u64) / as_f64(ends.len() as u64));
    }
    Ok(warp
        .clone()
        .with_results(found, frequency_hz, resolution_ticks))
}

/// `Some(false)` if one pair is unsynchronised; `Some(true)` if all pairs are synchronised.
fn all_synchronised(pairs: &[WarpPair]) -> Option<bool> {
    if pairs.iter().any(|pair| pair.synchronised == Some(false)) {
        return Some(false);
    }
    pairs
        .iter()
        .all(|pair| pair.synchronised.is_some())
        .then_some(true)
}

/// The pairs to compare, each with the smaller number first.
fn pairs(cpus: &[u32], pattern: Pattern) -> Vec<(u32, u32)> {
    let with_later = |index: usize| cpus[index + 1..].iter().map(move |to| (cpus[index], *to));
    let centres = match pattern {
        Pattern::All => cpus.len(),
        Pattern::Star => 1,
    };
    (0..cpus.len()).take(centres).flat_map(with_later).collect()
}

/// Exchanges the counter's value between two CPUs, in as many tries as are necessary.
fn compare(from_cpu: u32, to_cpu: u32) -> Exchanges {
    let mut exchanges = Exchanges::NONE;
    for done in 0..TRIES + EXTRA_TRIES {
        if done >= TRIES && exchanges.are_enough() {
            break;
        }
        exchanges += exchange::between(from_cpu, to_cpu);
    }
    exchanges
}

fn pair_result(
    (from_cpu, to_cpu): (u32, u32),
    exchanges: &Exchanges,
    frequency_hz: f64,
    resolution_ticks: u64,
) -> WarpPair {
    let is_known = exchanges.are_enough();
    let ns = |ticks: f64| ticks * 1e9 / frequency_hz;
    let difference = exchanges.difference;
    let is_near =
        ns(as_f64(difference.largest_ticks(resolution_ticks))) <= as_f64(MAX_DIFFERENCE_NS);
    WarpPair {
        from_cpu,
        to_cpu,
        exchanges: exchanges.count,
        warps: exchanges.backward,
        // The largest backward step is as large as the least possible difference between the
        // counters.
        largest_warp_ns: ns(as_f64(difference.smallest_ticks())),
        offset_least_ns: is_known.then(|| ns(signed_f64(difference.min_ticks))),
        offset_most_ns: is_known.then(|| ns(signed_f64(difference.max_ticks))),
        synchronised: match exchanges.synchronisation(resolution_ticks, u64::MAX) {
            Synchronisation::Synchronised => is_near.then_some(true),
            Synchronisation::Unsynchronised => Some(false),
            Synchronisation::Unknown => None,
        },
    }
}

/// The rate of the present CPU's counter by the kernel's present clock, Hz.
pub(crate) fn rate_hz(counter: HardwareCounter) -> f64 {
    let sample = || {
        let (before_ns, ticks, after_ns) =
            narrowest(RATE_SAMPLES, monotonic_ns, || counter.now_ordered());
        (ticks, before_ns.midpoint(after_ns))
    };
    let (start_ticks, start_ns) = sample();
    thread::sleep(RATE_TIME);
    let (end_ticks, end_ns) = sample();
    as_f64(end_ticks.wrapping_sub(start_ticks)) / as_f64(end_ns.saturating_sub(start_ns).max(1))
        * 1e9
}

#[cfg(test)]
mod tests {
    use tickline::exchange::MIN_ROUND_TRIPS;
    use tickline_core::comparison::CounterDifference;

    use super::*;

    /// A pair at 2 GHz with this difference, ticks.
    fn described(
        round_trips: u64,
        min_ticks: i64,
        max_ticks: i64,
        resolution_ticks: u64,
    ) -> WarpPair {
        let difference = CounterDifference {
            min_ticks,
            max_ticks,
        };
        let mut exchanges = Exchanges::NONE;
        exchanges.round_trips = round_trips;
        exchanges.difference = difference;
        pair_result((0, 1), &exchanges, 2e9, resolution_ticks)
    }

    fn synchronised_pair() -> WarpPair {
        described(MIN_ROUND_TRIPS, -60, 90, 0)
    }

    fn unsynchronised_pair() -> WarpPair {
        described(MIN_ROUND_TRIPS, -66_930, -66_800, 26)
    }

    fn pair_of_few_round_trips() -> WarpPair {
        described(MIN_ROUND_TRIPS - 1, -60, 90, 26)
    }

    #[test]
    fn the_offset_of_a_pair_is_in_ns() {
        let pair = synchronised_pair();
        let interval = (pair.offset_least_ns, pair.offset_most_ns);
        assert_eq!(interval, (Some(-30.0), Some(45.0)));
    }

    #[test]
    fn a_pair_is_synchronised_if_its_difference_may_be_0_or_the_resolution() {
        assert_eq!(synchronised_pair().synchronised, Some(true));
        let at_resolution = described(MIN_ROUND_TRIPS, 26, 90, 26);
        assert_eq!(at_resolution.synchronised, Some(true));
        assert_eq!(unsynchronised_pair().synchronised, Some(false));
    }

    /// Symptom: a pair whose exchanges took 20 us was called synchronised, and `doctor --fix` took
    /// the TSC.
    #[test]
    fn a_pair_whose_exchanges_are_slow_is_unknown_unless_it_differs() {
        let wide = |min_ticks| described(MIN_ROUND_TRIPS, min_ticks, 40_000, 26);
        assert_eq!(wide(-40_000).synchronised, None);
        assert_eq!(wide(1_000).synchronised, Some(false));
    }

    #[test]
    fn the_warp_of_a_pair_is_the_least_difference() {
        assert_eq!(synchronised_pair().largest_warp_ns, 0.0);
        let warp_ns = unsynchronised_pair().largest_warp_ns;
        assert!((warp_ns - 33_400.0).abs() < 1e-6, "{warp_ns}");
    }

    #[test]
    fn a_pair_of_few_round_trips_is_unknown() {
        let few = pair_of_few_round_trips();
        assert_eq!(
            (few.synchronised, few.offset_least_ns, few.offset_most_ns),
            (None, None, None)
        );
    }

    #[test]
    fn an_unsynchronised_pair_outweighs_an_unknown_one() {
        let [near, far, few] = [
            synchronised_pair,
            unsynchronised_pair,
            pair_of_few_round_trips,
        ];
        assert_eq!(all_synchronised(&[near(), far(), few()]), Some(false));
        assert_eq!(all_synchronised(&[near(), few()]), None);
        assert_eq!(all_synchronised(&[near(), near()]), Some(true));
    }

    /// A comparison whose pairs had these warps, ns, by a counter of 2 GHz that moves by 26 ticks
    /// at a time.
    fn with_warps(largest_ns: &[f64]) -> WarpTest {
        let pair = |largest_warp_ns: &f64| WarpPair {
            largest_warp_ns: *largest_warp_ns,
            synchronised: Some(*largest_warp_ns == 0.0),
            ..WarpPair::default()
        };
        let pairs = largest_ns.iter().map(pair).collect();
        WarpTest::default().with_results(pairs, 2e9, 26)
    }

    #[test]
    fn a_comparison_has_the_largest_warp_of_its_pairs() {
        assert_eq!(with_warps(&[5.0, 30.0, 0.0]).largest_warp_ns, 30.0);
        assert_eq!(with_warps(&[0.0, 0.0]).largest_warp_ns, 0.0);
    }

    #[test]
    fn a_comparison_has_the_rate_and_the_resolution_of_the_counter() {
        let warp = with_warps(&[0.0]);
        let figures = (warp.frequency_hz, warp.resolution_ns);
        assert_eq!(figures, (Some(2e9), Some(13.0)));
    }

    #[test]
    fn a_comparison_is_synchronised_if_its_pairs_are() {
        assert_eq!(with_warps(&[0.0, 0.0]).synchronised, Some(true));
        assert_eq!(with_warps(&[0.0, 30.0]).synchronised, Some(false));
    }

    #[test]
    fn a_comparison_keeps_its_pairs() {
        let warps = with_warps(&[5.0, 0.0]).pairs;
        let warps: Vec<_> = warps.iter().map(|pair| pair.largest_warp_ns).collect();
        assert_eq!(warps, [5.0, 0.0]);
    }

    /// Symptom: a process on one CPU of two called their counters synchronised.
    #[test]
    fn cpus_that_were_not_compared_are_named() {
        for (cpus, online, synchronised, untested) in [
            (&[1][..], Some("0-1"), None, Some("0")),
            (&[0], Some("0"), Some(true), None),
            (&[0], None, None, None),
            (&[0, 1], Some("0-7,16"), Some(true), Some("2-7,16")),
        ] {
            let pairs = vec![WarpPair::default(); cpus.len() - 1];
            let warp = WarpTest {
                cpus: cpus.to_vec(),
                synchronised: Some(true),
                pairs,
                ..WarpTest::default()
            };
            let warp = warp.note_untested_cpus(online);
            let found = (warp.synchronised, warp.untested_cpus.as_deref());
            assert_eq!(found, (synchronised, untested), "{cpus:?}");
        }
    }

    #[test]
    fn a_pattern_pairs_all_cpus_or_the_first_with_each_other_one() {
        assert_eq!(pairs(&[0, 2, 5], Pattern::All), [(0, 2), (0, 5), (2, 5)]);
        assert_eq!(pairs(&[0, 2, 5], Pattern::Star), [(0, 2), (0, 5)]);
        assert!(pairs(&[3], Pattern::All).is_empty());
    }

    /// A busy machine makes the brackets wide, but not by a tenth of the time between them.
    #[test]
    fn the_rate_is_that_of_the_counter_against_the_os_clock() {
        let Some(counter) = HardwareCounter::if_present() else {
            return eprintln!("SKIPPED: no counter on this target");
        };
        let start_ticks = counter.now_ordered();
        let start = std::time::Instant::now();
        let found_hz = rate_hz(counter);
        let ticks = as_f64(counter.now_ordered().wrapping_sub(start_ticks));
        let expected_hz = ticks / start.elapsed().as_secs_f64();
        assert!(
            (found_hz / expected_hz - 1.0).abs() < 0.1,
            "{found_hz} {expected_hz}"
        );
    }

    #[test]
    fn a_comparison_names_its_cpus_and_its_pattern() {
        let cpus = &exchange::cpus()[..1];
        let warp = measure(cpus, Pattern::Star, |_| {});
        assert_eq!((&warp.cpus[..], warp.pattern), (cpus, Pattern::Star));
    }
}
