//! The share of a pair's cost in its time.
//!
//! A pair of readings also takes time that its cost, which is subtracted, does not contain: the
//! routine starts with an empty pipeline, and the end waits for it. What is compared has that time
//! on both sides, so a percentage of a short routine is too small.

use serde::{Deserialize, Serialize};

use crate::pairs::collector::{MoreIterations, SHARE_IN_TURNS};

/// The largest share, for a percentage to be judged. What a pair adds beyond its subtracted cost is
/// shorter than that cost (5 to 14 ns of 17 ns or more on machines with an AMD EPYC). At this share
/// it is less than a tenth of the pair, and hides less than a ninth of a percentage. The cost of
/// the OS clock is not subtracted: cost and addition then hide less than a fifth.
const MAX: f64 = 0.1;

/// The share of a pair's cost in its time, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) struct CostShare(pub(crate) f64);

impl CostShare {
    /// The share of the cost in a pair of this time, which contains it.
    pub(crate) fn new(cost_ticks: f64, pair_ticks: f64) -> Self {
        Self(if pair_ticks > cost_ticks {
            cost_ticks / pair_ticks
        } else {
            1.0
        })
    }

    /// Why a slowdown may be larger than a percentage of such pairs says. `None` if it is not.
    pub(crate) fn why_hidden(self) -> Option<String> {
        (self.0 > MAX).then(|| {
            format!(
                "too short for a percentage: {:.0} % of a pair is the cost of its readings, and such a pair hides a \
                 part of a slowdown",
                self.0 * 100.0
            )
        })
    }

    /// What such pairs do to the times of a distribution, and what to do. `None` if it is little.
    pub(crate) fn why_too_long(self) -> Option<String> {
        (self.0 > MAX).then(|| {
            format!(
                "{:.0} % of a pair is the cost of its readings, and a pair adds some ns to each time; let an iteration \
                 do more",
                self.0 * 100.0
            )
        })
    }

    /// Why a percentage is too small for a run that is a baseline, or is compared with one, and
    /// what to do.
    pub(crate) fn why_hidden_by_baseline(self, more: MoreIterations) -> Option<String> {
        let reason = self.why_hidden()?;
        let or = match more {
            MoreIterations::CostShare => format!(
                ", or time many in a row: put cost_share({SHARE_IN_TURNS}) before iter and save the baseline again, or \
                 use --against PROGRAM"
            ),
            MoreIterations::InPlaceOfLatency => format!(
                ", or time many in a row: put cost_share({SHARE_IN_TURNS}) in place of latency() and save the baseline \
                 again"
            ),
            MoreIterations::Nothing => String::new(),
        };
        Some(format!("{reason}; let an iteration do more{or}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_that_is_no_longer_than_its_cost_has_nothing_else() {
        for pair_ticks in [0.0, 40.0, 50.0] {
            assert_eq!(CostShare::new(50.0, pair_ticks), CostShare(1.0));
        }
    }

    /// Symptom: a routine of 0.25 ns read as 5.6 ns, and nothing said why.
    #[test]
    fn more_than_a_tenth_makes_the_times_too_long() {
        let line = CostShare(0.79).why_too_long().expect("a short pair");
        assert!(line.starts_with("79 % of a pair is the cost"), "{line}");
        assert!(line.ends_with("let an iteration do more"), "{line}");
        assert_eq!(CostShare(0.1).why_too_long(), None);
    }

    /// Symptom: the advice about a future was to call `cost_share`, with which `iter_async` panics, or
    /// to compare by `--against`, where its pairs are as short.
    #[test]
    fn the_advice_about_a_baseline_is_what_the_benchmark_can_do() {
        for (more, advice) in [
            (
                MoreIterations::CostShare,
                ", or time many in a row: put cost_share(0.01) before iter and save the baseline again, or use \
                 --against PROGRAM",
            ),
            (
                MoreIterations::InPlaceOfLatency,
                ", or time many in a row: put cost_share(0.01) in place of latency() and save the baseline again",
            ),
            (MoreIterations::Nothing, ""),
        ] {
            let line = CostShare(0.5).why_hidden_by_baseline(more);
            let line = line.expect("a short pair");
            let end = format!(" of a slowdown; let an iteration do more{advice}");
            assert!(line.ends_with(&end), "{line}");
        }
    }

    #[test]
    fn more_than_a_tenth_hides_a_part_of_a_slowdown() {
        for (share, is_hidden) in [(0.01, false), (0.1, false), (0.11, true), (1.0, true)] {
            assert_eq!(CostShare(share).why_hidden().is_some(), is_hidden);
        }
    }
}
