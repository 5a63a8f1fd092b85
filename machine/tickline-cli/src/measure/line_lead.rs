//! Measures how far readings by a page's line are ahead of the OS clock.

use std::time::Duration;

use crate::measure::calls::monotonic_ns;
use crate::measure::narrowest;

/// The lead of a line over the OS clock, by two brackets of the OS clock around readings.
pub(crate) struct LineLead {
    /// The newer bracket.
    now: Bracket,
    /// The growth of the lead, ppb; 0 unless the brackets prove a growth.
    rise_ppb: i64,
}

/// The lead of a line at one moment.
#[derive(Clone, Copy)]
struct Bracket {
    /// The least and the largest lead, ns.
    least_ns: i64,
    most_ns: i64,
    /// The OS clock at the bracket's end, ns.
    end_ns: i64,
}

/// The number of brackets, of which the narrowest counts. An interruption widens a bracket.
const BRACKETS: u32 = 16;

/// The time between the two brackets. Two brackets of 40 ns then show a growth of 4 ppm.
const BETWEEN: Duration = Duration::from_millis(20);

impl LineLead {
    /// Measures the lead of readings by `line`, ns; `None` without a line.
    pub(crate) fn measure(line: impl Fn() -> Option<i64>) -> Option<Self> {
        let before = Bracket::around(&line)?;
        std::thread::sleep(BETWEEN);
        Some(Self::between(before, Bracket::around(&line)?))
    }

    /// The lead by two brackets.
    fn between(before: Bracket, now: Bracket) -> Self {
        let rise_ns = if now.least_ns > before.most_ns {
            now.most_ns.saturating_sub(before.least_ns)
        } else {
            0
        };
        let rise_ppb = rise_ns
            .saturating_mul(1_000_000_000)
            .checked_div(now.end_ns.saturating_sub(before.end_ns))
            .unwrap_or(0);
        Self { now, rise_ppb }
    }

    /// The least lead now, ns.
    pub(crate) const fn least_ns(&self) -> i64 {
        self.now.least_ns
    }

    /// How far the lead may exceed the stated one in the next `for_ns` if neither the line nor the
    /// OS clock changes its rate, ns: 0 unless the brackets prove the stated lead wrong.
    pub(crate) fn excess_ns(&self, stated_ns: i64, for_ns: i64) -> i64 {
        if self.rise_ppb == 0 && self.now.least_ns <= stated_ns {
            return 0;
        }
        let rise_ns = i128::from(self.rise_ppb) * i128::from(for_ns) / 1_000_000_000;
        let largest_ns = self
            .now
            .most_ns
            .saturating_add(i64::try_from(rise_ns).unwrap_or(i64::MAX));
        largest_ns.saturating_sub(stated_ns).max(0)
    }
}

impl Bracket {
    /// The narrowest of some brackets around readings by `line`, ns; `None` without a line.
    fn around(line: impl Fn() -> Option<i64>) -> Option<Self> {
        let (before_ns, line_ns, after_ns) = narrowest(BRACKETS, monotonic_ns, line);
        let [before_ns, end_ns] =
            [before_ns, after_ns].map(|ns| i64::try_from(ns).unwrap_or(i64::MAX));
        Some(Self {
            least_ns: line_ns?.saturating_sub(end_ns),
            most_ns: line_ns?.saturating_sub(before_ns),
            end_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The excess over a stated lead of 1147 ns in the next 0.9 s, ns. The brackets are 20 ms
    /// apart, and each is the least and the largest lead, ns.
    fn excess_ns(before: [i64; 2], now: [i64; 2]) -> i64 {
        let bracket = |[least_ns, most_ns]: [i64; 2], end_ns| Bracket {
            least_ns,
            most_ns,
            end_ns,
        };
        let lead = LineLead::between(bracket(before, 0), bracket(now, 20_000_000));
        lead.excess_ns(1_147, 900_000_000)
    }

    #[test]
    fn a_lead_that_brackets_do_not_disprove_is_as_stated() {
        assert_eq!(excess_ns([480, 520], [510, 550]), 0);
        assert_eq!(excess_ns([10_480, 10_520], [480, 520]), 0, "it came back");
        let [before, now] = [[1_140, 2_140], [1_147, 2_147]];
        assert_eq!(excess_ns(before, now), 0, "wide brackets, as with hpet");
    }

    /// Symptom: "at most 1147 ns", while the kernel slewed its clock and readings were 1 ms ahead.
    #[test]
    fn a_line_that_the_os_clock_leaves_is_ahead_by_what_is_left_of_its_leases() {
        // 502 ppm are 10 us in 20 ms, and 452 us in 0.9 s.
        let largest_ns = 10_520 + 451_800;
        let excess = excess_ns([480, 520], [10_480, 10_520]);
        assert_eq!(excess, largest_ns - 1_147);
    }

    #[test]
    fn a_line_that_comes_back_is_ahead_by_the_newer_bracket() {
        let excess = excess_ns([320_480, 320_520], [310_480, 310_520]);
        assert_eq!(excess, 310_520 - 1_147);
    }

    fn os_ns() -> i64 {
        i64::try_from(monotonic_ns()).unwrap()
    }

    #[test]
    fn a_bracket_contains_the_lead_of_the_line() {
        for lead_ns in [3_000_000_000, -3_000_000_000] {
            let found = Bracket::around(|| Some(os_ns() + lead_ns)).unwrap();
            assert!(
                found.least_ns <= lead_ns && lead_ns <= found.most_ns,
                "{} to {}",
                found.least_ns,
                found.most_ns
            );
        }
    }

    #[test]
    fn the_time_of_a_bracket_is_its_end() {
        let start_ns = os_ns();
        let Bracket {
            least_ns, end_ns, ..
        } = Bracket::around(|| Some(0)).unwrap();
        assert_eq!(least_ns, -end_ns);
        assert!(start_ns <= end_ns && end_ns <= os_ns(), "{end_ns}");
    }

    #[test]
    fn without_a_line_there_is_no_lead() {
        assert!(LineLead::measure(|| None).is_none());
    }

    #[test]
    fn the_lead_of_a_line_that_keeps_up_does_not_rise() {
        let lead = LineLead::measure(|| Some(os_ns() + 3_000_000_000)).unwrap();
        assert_eq!(lead.rise_ppb, 0);
    }

    #[test]
    fn the_lead_of_a_line_of_twice_the_rate_rises_by_the_time() {
        let start_ns = os_ns();
        let lead = LineLead::measure(|| Some(os_ns() + (os_ns() - start_ns))).unwrap();
        // The brackets are narrow compared with the 20 ms between them.
        assert!(lead.rise_ppb > 500_000_000, "{} ppb", lead.rise_ppb);
    }
}
