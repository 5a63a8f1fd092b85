//! The analysis of couples, by arithmetic: the times, the difference, and its interval.
//!
//! Couples come in replicates. All couples of a replicate have one placement of code, heap and
//! stack; the next replicate has another one. With `--layout` a replicate is a layout: one
//! placement of the code, and several processes with a heap and a stack each. Within a replicate,
//! the couples of a round were taken one after the other:
//!
//! ```text
//! difference of a round     = median of B - median of A
//! difference of a replicate = median of its rounds
//! interval                  = over the replicates (signed_rank.rs)
//! ratio, with its interval  = the same with ln(median of B / median of A) in place of the difference
//! time of A, time of B      = the same with the medians of A, of B; the interval's estimate
//! ratio of the means        = the interval over ln(mean of B / mean of A) in each replicate
//! ```
//!
//! The medians are those of the typical call. If every fourth call is slow, only the means tell.
//! They are over all couples of a replicate: a mean or a median over rounds would leave out the
//! slow calls of a few rounds. A disturbance that nothing has noticed can therefore move the mean of
//! its replicate. It is as likely in A as in B, so the proof of the interval holds for the means,
//! too: such disturbances widen the interval, and do not move it.
//!
//! The ratio has an interval of its own. The difference divided by one time of A would take that
//! time for exact: the more the times differ, the more of the ratio's uncertainty is A's. And in
//! each round the ratio compares like with like: on a machine that changes its speed, the
//! difference scatters as the speed does, and the ratio does not. With the logarithm, an exchange
//! of A and B changes only the sign, as the interval's proof needs. Both times are without the cost
//! of a pair.
//!
//! A round survives a slow drift of the core's frequency, which moves both medians. The median over
//! the rounds survives rounds with other load. Only the replicates are independent of each other:
//! placement shifts all rounds of a replicate alike.

use crate::number::{as_f64, count, middle};
use crate::statistics::distribution::median;
use crate::statistics::interval::Interval;
use crate::statistics::signed_rank::{MIN_REPLICATES, interval};

/// The largest number of rounds in a replicate. Longer measurements have longer rounds.
const MAX_ROUNDS: usize = 8;

/// The smallest number of couples in a replicate that counts, for a median.
pub(crate) const MIN_COUPLES: usize = 3;

/// The times of A and B in one couple, ticks of a pair.
pub(crate) type Couple = [u64; 2];

/// The couples with one placement.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Replicate {
    couples: Vec<Couple>,
    /// The indices of couples at which stretches end. A stretch has the couples that were taken one
    /// after the other.
    stretch_ends: Vec<usize>,
}

impl Replicate {
    /// Adds the couples of a stretch. It may have no couple that counts.
    pub(crate) fn add_stretch(&mut self, couples: impl IntoIterator<Item = Couple>) {
        let before = self.couples.len();
        self.couples.extend(couples);
        if self.couples.len() > before {
            self.stretch_ends.push(self.couples.len());
        }
    }

    pub(crate) fn couples(&self) -> &[Couple] {
        &self.couples
    }

    /// The number of stretches with a couple that counts.
    pub(crate) fn stretches(&self) -> usize {
        self.stretch_ends.len()
    }

    /// Whether there are enough couples for a median.
    pub(crate) fn counts(&self) -> bool {
        self.couples.len() >= MIN_COUPLES
    }

    /// The couples by rounds, each of whole stretches.
    fn rounds(&self) -> impl Iterator<Item = &[Couple]> {
        let stretches = self.stretches();
        let rounds = stretches.min(MAX_ROUNDS);
        let end = move |round: usize| {
            let last = (round * stretches / rounds).checked_sub(1);
            last.map_or(0, |last| self.stretch_ends[last])
        };
        (0..rounds).map(move |round| &self.couples[end(round)..end(round + 1)])
    }
}

/// The result of the analysis, ticks of a pair.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Analysis {
    /// The times of A and of B.
    pub(crate) times: [f64; 2],
    /// The difference B - A.
    pub(crate) difference: Interval,
    /// `ln(B / A)`, without the cost of a pair. Not finite if A, or B, takes no time.
    pub(crate) log_ratio: Interval,
    /// The difference in each replicate.
    pub(crate) replicates: Vec<f64>,
    /// The difference in each round of all replicates.
    pub(crate) rounds: Vec<f64>,
    pub(crate) means: Means,
}

/// The result of the analysis of means, ticks of a pair.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Means {
    /// The times of A and of B.
    pub(crate) times: [f64; 2],
    /// `ln(B / A)`, without the cost of a pair. Not finite if A, or B, takes no time.
    pub(crate) log_ratio: Interval,
    /// The difference B - A in each round of all replicates.
    pub(crate) rounds: Vec<f64>,
}

impl Means {
    /// Analyses the replicates that count. `net` leaves out the cost of a pair.
    fn of(replicates: &[&Replicate], net: impl Fn(f64) -> f64) -> Option<Self> {
        let of_replicates: Vec<[f64; 2]> = replicates
            .iter()
            .map(|replicate| means_of(replicate.couples()))
            .collect();
        let of_side =
            |side: usize| -> Vec<f64> { of_replicates.iter().map(|two| two[side]).collect() };
        let log_ratios: Vec<f64> = of_replicates
            .iter()
            .map(|[a, b]| (net(*b) / net(*a)).ln())
            .collect();
        let rounds = replicates.iter().flat_map(|replicate| replicate.rounds());
        Some(Self {
            times: [
                interval(&of_side(0))?.estimate,
                interval(&of_side(1))?.estimate,
            ],
            log_ratio: interval(&log_ratios)?,
            rounds: rounds
                .map(|couples| {
                    let [a, b] = means_of(couples);
                    b - a
                })
                .collect(),
        })
    }
}

/// Analyses replicates; `None` if fewer than [`MIN_REPLICATES`] count. Each time represents an
/// interval of `width_ticks`, and has the cost of a pair in it.
pub(crate) fn analyse(
    replicates: &[Replicate],
    width_ticks: f64,
    cost_ticks: f64,
) -> Option<Analysis> {
    let replicates: Vec<&Replicate> = replicates.iter().filter(|one| one.counts()).collect();
    if replicates.len() < MIN_REPLICATES {
        return None;
    }
    let median_of = |couples: &[Couple], side: usize| median_of(couples, side, width_ticks);
    let middle_of = |mut rounds: Vec<f64>| {
        rounds.sort_unstable_by(f64::total_cmp);
        middle(&rounds)
    };
    let mut differences = Vec::new();
    let mut all_rounds = Vec::new();
    let mut log_ratios = Vec::new();
    let mut times = [Vec::new(), Vec::new()];
    let net = |ticks: f64| (ticks - cost_ticks).max(0.0);
    for replicate in &replicates {
        let times_of = |couples: &[Couple]| Some([median_of(couples, 0)?, median_of(couples, 1)?]);
        let rounds: Option<Vec<[f64; 2]>> = replicate.rounds().map(times_of).collect();
        let rounds = rounds?;
        let difference_of_rounds: Vec<f64> = rounds.iter().map(|[a, b]| b - a).collect();
        all_rounds.extend_from_slice(&difference_of_rounds);
        differences.push(middle_of(difference_of_rounds));
        let log_ratio_of_rounds = rounds.iter().map(|[a, b]| (net(*b) / net(*a)).ln());
        log_ratios.push(middle_of(log_ratio_of_rounds.collect()));
        for (side, times) in times.iter_mut().enumerate() {
            times.push(middle_of(rounds.iter().map(|two| two[side]).collect()));
        }
    }
    Some(Analysis {
        times: [interval(&times[0])?.estimate, interval(&times[1])?.estimate],
        difference: interval(&differences)?,
        log_ratio: interval(&log_ratios)?,
        replicates: differences,
        rounds: all_rounds,
        means: Means::of(&replicates, net)?,
    })
}

/// The mean times of A and of B in these couples, of which there is one or more, ticks.
fn means_of(couples: &[Couple]) -> [f64; 2] {
    [0, 1].map(|side| {
        let sum: f64 = couples.iter().map(|two| as_f64(two[side])).sum();
        sum / as_f64(count(couples.len()))
    })
}

/// The median time of a side in these couples, ticks. Each time represents an interval of
/// `width_ticks`.
pub(crate) fn median_of(couples: &[Couple], side: usize, width_ticks: f64) -> Option<f64> {
    let ticks: Vec<f64> = couples.iter().map(|two| as_f64(two[side])).collect();
    median(&ticks, width_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::signed_rank::tests::uniform;

    fn replicate(stretches: impl IntoIterator<Item = Vec<Couple>>) -> Replicate {
        let mut replicate = Replicate::default();
        stretches
            .into_iter()
            .for_each(|couples| replicate.add_stretch(couples));
        replicate
    }

    /// Ten processes of each build, in six stretches of 50 couples: times of 2,000 ticks on a core
    /// whose frequency wanders by 2 %, read by a counter with a resolution of 26 ticks. Placement
    /// changes the time of a process by up to `placement_percent`. B takes longer by `percent`.
    fn processes(
        uniform: &mut impl FnMut() -> f64,
        placement_percent: f64,
        percent: f64,
    ) -> Vec<Replicate> {
        let mut drift = 0.0;
        let mut one_replicate = || {
            let [a, b] = [0.0, percent]
                .map(|more| 1.0 + (more + 2.0 * placement_percent * uniform()) / 100.0);
            replicate((0..6).map(|_| {
                (0..50)
                    .map(|_| {
                        drift = (drift + uniform() * 0.001_f64).clamp(-0.02, 0.02);
                        [a, b].map(|factor| {
                            let ticks = 2_000.0 * factor * (1.0 + drift) * (1.0 + uniform() * 0.02);
                            // The phase of the counter at the start.
                            let phase = (uniform() + 0.5) * 26.0;
                            crate::number::round(((ticks + phase) / 26.0).floor()) * 26
                        })
                    })
                    .collect()
            }))
        };
        (0..10).map(|_| one_replicate()).collect()
    }

    fn misses_zero(replicates: &[Replicate]) -> bool {
        let difference = analyse(replicates, 26.0, 0.0).expect("enough").difference;
        difference.low > 0.0 || difference.high < 0.0
    }

    #[test]
    fn a_difference_of_three_percent_is_found_although_the_frequency_wanders_by_two_percent() {
        let mut uniform = uniform(11);
        for _ in 0..20 {
            let found = analyse(&processes(&mut uniform, 0.5, 3.0), 26.0, 0.0)
                .expect("enough")
                .difference;
            assert!(
                found.low > 0.0 && (found.estimate - 60.0).abs() < 20.0,
                "{found:?}"
            );
        }
    }

    /// Symptom: byte-identical builds differed in 11 of 20 runs, because the interval was over the
    /// rounds of one process of each build.
    #[test]
    fn equal_builds_differ_in_five_percent_of_runs_although_placement_changes_their_times() {
        let mut uniform = uniform(5);
        let (mut of_replicates, mut of_rounds) = (0, 0);
        for _ in 0..100 {
            let equal = processes(&mut uniform, 2.0, 0.0);
            of_replicates += usize::from(misses_zero(&equal));
            // The rounds of one process of each build, as if each had its own placement.
            let stretches = equal[0].rounds().map(<[Couple]>::to_vec);
            let rounds: Vec<Replicate> = stretches.map(|couples| replicate([couples])).collect();
            of_rounds += usize::from(misses_zero(&rounds));
        }
        // Five are expected.
        assert!(of_replicates <= 11, "{of_replicates} of 100");
        assert!(of_rounds >= 60, "the model has no placement: {of_rounds}");
    }

    /// Symptom: "-83.268 ns (-150.95 %)", from medians of 55.2 and 13.1 ns. Cause: the medians were
    /// over all couples, most of which were of the machine's fast time, and the difference over
    /// rounds, most of which were of its slow one.
    #[test]
    fn a_percentage_is_right_although_the_machine_has_two_speeds() {
        let [fast, slow] = [vec![[250, 70]; 500], vec![[750, 210]; 50]];
        let of_two_speeds = replicate([&slow, &fast, &slow, &slow, &fast].map(Vec::clone));
        let found = analyse(&vec![of_two_speeds; 8], 1.0, 0.0).expect("enough");
        let share = found.difference.estimate / found.times[0];
        assert!((share + 0.72).abs() < 0.01, "{found:?}");
    }

    /// Eight copies or processes, of which B has slow calls: one in `one_in` takes 11 times as
    /// long.
    fn with_slow_calls(one_in: f64) -> Vec<Replicate> {
        let mut uniform = uniform(29);
        let mut couple = || {
            let [a, b] = [0, 1].map(|_| 10_000.0 * (1.0 + 0.02 * uniform()));
            let slow = if uniform() + 0.5 < 1.0 / one_in {
                11.0
            } else {
                1.0
            };
            [a, b * slow].map(crate::number::round)
        };
        let mut stretch = || (0..400).map(|_| couple()).collect::<Vec<_>>();
        (0..8)
            .map(|_| replicate((0..6).map(|_| stretch())))
            .collect()
    }

    /// Symptom: "+0.20 %: no difference found" about a B whose mean was 3.5 times as long.
    #[test]
    fn slow_calls_are_in_the_means_and_not_in_the_medians() {
        for (one_in, ratio) in [(4.0, 3.5), (50.0, 1.2)] {
            let found = analyse(&with_slow_calls(one_in), 1.0, 0.0).expect("enough");
            let median = found.log_ratio.map(f64::exp);
            assert!(median.low > 0.99 && median.high < 1.01, "{median:?}");
            let mean = found.means.log_ratio.map(f64::exp);
            assert!(
                mean.low > 0.9 * ratio && mean.high < 1.1 * ratio,
                "{mean:?}"
            );
            assert!(mean.low < ratio && ratio < mean.high, "{mean:?}");
            let [a, b] = found.means.times;
            assert!((b / a - ratio).abs() < 0.1 * ratio, "{a} {b}");
        }
    }

    /// A shared machine: one pair in 300 takes a few times as long, and one in 5,000 a thousand
    /// times, because something had the CPU that nothing has noticed.
    fn of_a_shared_machine(uniform: &mut impl FnMut() -> f64) -> Vec<Replicate> {
        let mut pair = || {
            let place = uniform() + 0.5;
            let far = if place < 0.000_2 {
                1_000.0
            } else if place < 0.003_5 {
                4.0
            } else {
                1.0
            };
            crate::number::round(far * 10_000.0 * (1.0 + 0.02 * uniform()))
        };
        let mut stretch = || (0..40).map(|_| [pair(), pair()]).collect::<Vec<_>>();
        (0..10)
            .map(|_| replicate((0..5).map(|_| stretch())))
            .collect()
    }

    /// The proof needs no more than that A and B could change their roles.
    #[test]
    fn the_means_of_equal_builds_differ_in_five_percent_of_runs_although_some_pairs_are_disturbed()
    {
        let mut uniform = uniform(31);
        let (mut missed, mut widest) = (0, 0.0_f64);
        for _ in 0..200 {
            let equal = of_a_shared_machine(&mut uniform);
            let found = analyse(&equal, 1.0, 0.0).expect("enough").means.log_ratio;
            missed += usize::from(found.excludes_zero());
            widest = widest.max(found.half_width());
        }
        // Ten are expected, with a standard deviation of 3.
        assert!(missed <= 20, "{missed} of 200");
        assert!(widest > 0.5, "the model has no noise: {widest}");
    }

    /// The round of a stored run.
    #[test]
    fn a_round_has_the_difference_of_its_means() {
        let slow = replicate([
            vec![[100, 100], [100, 100], [100, 400]],
            vec![[100, 130]; 3],
        ]);
        let means = analyse(&vec![slow; 6], 1.0, 0.0).expect("enough").means;
        assert_eq!(means.rounds[..2], [100.0, 30.0]);
        assert_eq!(means.rounds.len(), 12);
    }

    /// A replicate of one round, in which A and B take these ticks.
    fn one_round(a: f64, b: f64) -> Replicate {
        replicate([vec![[a, b].map(crate::number::round); 3]])
    }

    /// Symptom: a third or more of the intervals in % did not contain the true ratio. Cause: they
    /// were the difference's, divided by one time of A, whose uncertainty was left out.
    #[test]
    fn the_interval_of_a_ratio_contains_it_although_a_is_uncertain() {
        const RUNS: usize = 400;
        let mut uniform = uniform(17);
        let (mut missed, mut missed_by_one_a) = (0, 0);
        for _ in 0..RUNS {
            // Placement changes the time of A by up to 5 %, and that of B, three times A's, by
            // 0.5 %.
            let replicates: Vec<Replicate> = (0..10)
                .map(|_| {
                    let a = 1e6 * (1.0 + 0.1 * uniform());
                    let b = 3e6 * (1.0 + 0.01 * uniform());
                    one_round(a, b)
                })
                .collect();
            let Analysis {
                times,
                difference,
                log_ratio,
                ..
            } = analyse(&replicates, 1.0, 0.0).expect("enough");
            let misses = |low: f64, high: f64, truth: f64| usize::from(low > truth || high < truth);
            missed += misses(log_ratio.low, log_ratio.high, 3_f64.ln());
            missed_by_one_a += misses(difference.low / times[0], difference.high / times[0], 2.0);
        }
        // 20 are expected, with a standard deviation of 4.
        assert!(missed <= 34, "{missed}");
        assert!(
            missed_by_one_a >= 40,
            "A is certain here: {missed_by_one_a}"
        );
    }

    /// Symptom: the interval in % was as wide as the machine's speeds differed.
    #[test]
    fn the_ratio_is_exact_although_each_replicate_has_another_speed() {
        let speeds = [1.0, 1.5, 2.0, 2.5, 3.0, 1.2, 1.7, 2.2];
        let replicates = speeds.map(|speed| one_round(1e6 * speed, 1.3e6 * speed));
        let Interval { low, high, .. } = analyse(&replicates, 1.0, 0.0).expect("enough").log_ratio;
        for end in [low, high] {
            assert!((end.exp() - 1.3).abs() < 1e-6, "{low} {high}");
        }
    }

    #[test]
    fn the_ratio_is_without_the_cost_of_a_pair() {
        let replicates = vec![one_round(300.0, 400.0); 6];
        let found = analyse(&replicates, 1.0, 200.0).expect("enough").log_ratio;
        assert!((found.estimate.exp() - 2.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn there_is_no_ratio_to_a_time_of_zero() {
        let replicates = vec![one_round(200.0, 400.0); 6];
        let found = analyse(&replicates, 1.0, 250.0).expect("enough").log_ratio;
        assert!(!found.estimate.is_finite(), "{found:?}");
    }

    #[test]
    fn a_round_has_whole_stretches() {
        let stretches = |count: u64| replicate((0..count).map(|number| vec![[number; 2]; 3]));
        for (count, rounds) in [(1, 1), (7, 7), (8, 8), (20, 8)] {
            let replicate = stretches(count);
            assert_eq!(replicate.rounds().count(), rounds);
            assert_eq!(
                replicate.rounds().flatten().count(),
                3 * replicate.stretches()
            );
            assert!(replicate.rounds().all(|couples| couples.len() % 3 == 0));
        }
        assert_eq!(stretches(0).rounds().count(), 0);
    }

    #[test]
    fn six_replicates_of_three_couples_are_needed() {
        let enough = |couples: usize| replicate([vec![[100, 102]; couples]]);
        let analysis = |replicates: &[Replicate]| analyse(replicates, 26.0, 0.0);
        assert_eq!(analysis(&vec![enough(3); 5]), None);
        assert_eq!(
            analysis(&[vec![enough(3); 5], vec![enough(2); 9]].concat()),
            None
        );
        let found = analysis(&vec![enough(3); 6]).expect("enough");
        assert!((found.difference.estimate - 2.0).abs() < 0.01, "{found:?}");
        assert_eq!((found.replicates.len(), found.rounds.len()), (6, 6));
    }
}
