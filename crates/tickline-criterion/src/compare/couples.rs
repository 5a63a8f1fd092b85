//! A couple is two pairs of readings, one for each routine. This file decides which couples count,
//! and computes what they show. It is arithmetic alone.

use crate::compare::signed_rank::{Interval, LEAST_ROUNDS, interval};
use crate::elapsed::as_f64;
use crate::number::count;
use crate::pair::Ends;
use crate::pairs::cause::{Cause, Causes};
use crate::pairs::quantile::median;
use crate::pairs::slice::{Counting, Preempted};
use crate::pairs::spin::{Long, Spins, judge};

/// Rounds: enough for the normal approximation, and so few that each has many couples.
const ROUNDS: usize = 60;

/// The fewest couples of a round, for a median.
const LEAST_COUPLES: usize = 5;

/// The fewest couples for a comparison.
pub(crate) const LEAST: u64 = (LEAST_ROUNDS * LEAST_COUPLES) as u64;

/// Times of both routines, ticks of a pair.
pub(crate) type Couple = [u64; 2];

/// Couples that wait for the facts at the slice's end, and those whose facts are known.
#[derive(Debug)]
pub(crate) struct Couples {
    counting: Counting,
    waiting: Vec<Couple>,
    named: Vec<(Cause, Couple)>,
    last_cpu: Option<usize>,
    /// The couples that count, in the order of time.
    pub(crate) counted: Vec<Couple>,
    pub(crate) causes: Causes,
}

impl Couples {
    pub(crate) fn new(counting: Counting) -> Self {
        Self {
            counting,
            waiting: Vec::new(),
            named: Vec::new(),
            last_cpu: None,
            counted: Vec::new(),
            causes: Causes::default(),
        }
    }

    /// Couples of a block. Leaves `block` empty.
    pub(crate) fn block(&mut self, block: &mut Vec<[Ends; 2]>, preempted: Preempted) {
        for couple in block.drain(..) {
            let moved = self.has_moved(&couple);
            let ticks = couple.map(|pair| pair.end_ticks.checked_sub(pair.start_ticks));
            let [Some(a), Some(b)] = ticks else {
                self.named.push((Cause::Backwards, [0; 2]));
                continue;
            };
            if moved {
                self.named.push((Cause::Moved, [a, b]));
            } else if preempted == Preempted::Yes {
                self.named.push((Cause::Preempted, [a, b]));
            } else {
                self.waiting.push([a, b]);
            }
        }
    }

    /// Whether the couple and the one before were on more than one CPU.
    fn has_moved(&mut self, couple: &[Ends; 2]) -> bool {
        let later = couple.iter().max_by_key(|pair| pair.end_ticks);
        let before = self.last_cpu;
        self.last_cpu = later.and_then(|pair| pair.cpus).map(|(_, end)| end).or(before);
        let mut cpus = couple.iter().filter_map(|pair| pair.cpus).flat_map(|(start, end)| [start, end]);
        cpus.any(|cpu| before.or(self.last_cpu) != Some(cpu) || self.last_cpu != Some(cpu))
    }

    pub(crate) fn waiting(&self) -> u64 {
        count(self.waiting.len())
    }

    pub(crate) fn cpu(&self) -> Option<usize> {
        self.last_cpu
    }

    /// Ends a slice, whose facts are now known.
    pub(crate) fn slice(&mut self, disturbed: Option<Cause>, spins: &Spins) {
        let mut limits = [u64::MAX; 2];
        for (routine, limit) in limits.iter_mut().enumerate() {
            let mut ticks: Vec<u64> = self.waiting.iter().map(|couple| couple[routine]).collect();
            if let Long::Interrupts { above_ticks } = judge(&mut ticks, spins) {
                *limit = above_ticks;
            }
        }
        for couple in self.waiting.drain(..) {
            let is_long = couple.iter().zip(limits).any(|(ticks, limit)| *ticks > limit);
            match disturbed.or(is_long.then_some(Cause::Interrupted)) {
                Some(cause) => self.named.push((cause, couple)),
                None => self.counted.push(couple),
            }
        }
        for (cause, couple) in self.named.drain(..) {
            self.causes.add(cause, 1);
            if self.counting == Counting::All && cause != Cause::Backwards {
                self.counted.push(couple);
            }
        }
    }

    /// All couples so far.
    pub(crate) fn all(&self) -> u64 {
        let excluded = match self.counting {
            Counting::Undisturbed => self.causes.total(),
            Counting::All => self.causes.get(Cause::Backwards),
        };
        count(self.counted.len()) + excluded
    }
}

/// What couples show, ticks of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shown {
    pub(crate) medians: [f64; 2],
    /// Of the second routine less the first.
    pub(crate) difference: Interval,
    pub(crate) rounds: usize,
}

/// What the couples show; `None` if there are too few for ten rounds.
pub(crate) fn show(couples: &[Couple], resolution_ticks: u64) -> Option<Shown> {
    let rounds = (couples.len() / LEAST_COUPLES).min(ROUNDS);
    if rounds < LEAST_ROUNDS {
        return None;
    }
    let width = as_f64(resolution_ticks);
    let median_of = |couples: &[Couple], routine: usize| {
        let ticks: Vec<f64> = couples.iter().map(|couple| as_f64(couple[routine])).collect();
        median(&ticks, width)
    };
    // The rounds have nearly equal numbers of couples.
    let differences: Option<Vec<f64>> = (0..rounds)
        .map(|round| {
            let (from, to) = (round * couples.len() / rounds, (round + 1) * couples.len() / rounds);
            Some(median_of(&couples[from..to], 1)? - median_of(&couples[from..to], 0)?)
        })
        .collect();
    Some(Shown {
        medians: [median_of(couples, 0)?, median_of(couples, 1)?],
        difference: interval(&differences?)?,
        rounds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::random::Random;

    const SPINS: Spins = Spins { spun_ticks: 100_000_000, gaps: 100, least_gap_ticks: 5_000 };

    fn ends(ticks: u64, cpus: (usize, usize)) -> Ends {
        Ends { start_ticks: 0, end_ticks: ticks, cpus: Some(cpus) }
    }

    #[test]
    fn a_disturbed_pair_takes_its_partner_along() {
        let mut couples = Couples::new(Counting::Undisturbed);
        let good = [ends(100, (0, 0)), ends(102, (0, 0))];
        couples.block(&mut vec![good; 1_000], Preempted::No);
        couples.block(&mut vec![good; 10], Preempted::Yes);
        couples.block(&mut vec![[ends(100, (0, 1)), ends(102, (1, 1))], good, good], Preempted::No);
        couples.slice(None, &SPINS);
        assert_eq!(couples.causes.to_string(), "moved 2, preempted 10");
        assert_eq!((couples.counted.len(), couples.all()), (1_001, 1_013));
        couples.block(&mut vec![good; 5], Preempted::No);
        couples.slice(Some(Cause::Stolen), &SPINS);
        assert_eq!(couples.causes.get(Cause::Stolen), 5);
    }

    #[test]
    fn an_interrupt_is_named_and_with_all_included_it_counts() {
        for (counting, counted) in [(Counting::Undisturbed, 100_000), (Counting::All, 100_001)] {
            let mut couples = Couples::new(counting);
            let mut block = vec![[ends(100, (0, 0)), ends(102, (0, 0))]; 100_000];
            block.push([ends(100, (0, 0)), ends(9_000, (0, 0))]);
            couples.block(&mut block, Preempted::No);
            couples.slice(None, &SPINS);
            assert_eq!(couples.causes.to_string(), "interrupted 1");
            assert_eq!((couples.counted.len(), couples.all()), (counted, 100_001));
        }
    }

    /// Times of 2,000 ticks on a core whose frequency wanders by 2 %, read by a counter with a
    /// resolution of 26 ticks. The second routine takes longer by `percent`.
    fn wandering(random: &mut Random, percent: f64) -> Vec<Couple> {
        let mut drift = 0.0;
        let mut uniform = || as_f64(random.next() >> 11) / as_f64(1 << 53) - 0.5;
        (0..6_000)
            .map(|_| {
                drift = (drift + uniform() * 0.001_f64).clamp(-0.02, 0.02);
                let one = |factor: f64, uniform: &mut dyn FnMut() -> f64| {
                    let ticks = 2_000.0 * factor * (1.0 + drift) * (1.0 + uniform() * 0.02);
                    // The phase of the counter at the start.
                    let phase = (uniform() + 0.5) * 26.0;
                    crate::number::round(((ticks + phase) / 26.0).floor()) * 26
                };
                let a = one(1.0, &mut uniform);
                [a, one(1.0 + percent / 100.0, &mut uniform)]
            })
            .collect()
    }

    #[test]
    fn two_percent_are_found_and_nothing_is_not_though_all_wanders_by_as_much() {
        let mut random = Random::new(11);
        let mut false_ones = 0;
        for _ in 0..40 {
            let same = show(&wandering(&mut random, 0.0), 26).expect("enough").difference;
            false_ones += usize::from(same.low > 0.0 || same.high < 0.0);
            let other = show(&wandering(&mut random, 2.0), 26).expect("enough").difference;
            assert!(other.low > 0.0 && (other.estimate - 40.0).abs() < 4.0, "{other:?}");
        }
        // Two are expected.
        assert!(false_ones <= 6, "{false_ones} of 40");
    }

    #[test]
    fn too_few_couples_show_nothing() {
        assert_eq!(show(&[[100, 102]; 49], 26), None);
        let shown = show(&[[100, 102]; 50], 26).expect("ten rounds of five");
        assert_eq!(shown.rounds, 10);
        assert!((shown.difference.estimate - 2.0).abs() < 0.01, "{shown:?}");
    }
}
