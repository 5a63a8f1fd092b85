//! Measures how far readings by a page's line are ahead of the OS clock.

use std::time::Duration;

use crate::measure::calls::monotonic_ns;
use crate::measure::narrowest;

/// The lead of a line over the OS clock, by brackets of the OS clock around readings.
pub(super) struct LineLead {
    /// The least and the largest lead in the newer bracket, ns.
    pub(super) least_ns: i64,
    most_ns: i64,
    /// The growth of the lead, ppb; 0 unless two brackets prove a growth.
    rise_ppb: i64,
}

/// The number of brackets, of which the narrowest counts. An interruption widens a bracket.
const BRACKETS: u32 = 16;

/// The time between the two brackets. Two brackets of 40 ns then show a growth of 4 ppm.
const BETWEEN: Duration = Duration::from_millis(20);

impl LineLead {
    /// Measures the lead of readings by `line`, ns; `None` without a line.
    pub(super) fn measure(line: impl Fn() -> Option<i64>) -> Option<Self> {
        let (before, before_ns) = bracket(&line)?;
        std::thread::sleep(BETWEEN);
        let (now, now_ns) = bracket(&line)?;
        Some(Self::new(before, now, now_ns.saturating_sub(before_ns)))
    }

    /// The lead by two brackets that are `apart_ns` apart.
    fn new(before: (i64, i64), (least_ns, most_ns): (i64, i64), apart_ns: i64) -> Self {
        let rise_ns = if least_ns > before.1 {
            most_ns.saturating_sub(before.0)
        } else {
            0
        };
        let rise_ppb = rise_ns
            .saturating_mul(1_000_000_000)
            .checked_div(apart_ns)
            .unwrap_or(0);
        Self {
            least_ns,
            most_ns,
            rise_ppb,
        }
    }

    /// The largest lead in the next `for_ns` if neither the line nor the OS clock changes its rate:
    /// the stated lead, unless the brackets prove it wrong.
    pub(super) fn lead_ns(&self, stated_ns: i64, for_ns: i64) -> i64 {
        if self.rise_ppb == 0 && self.least_ns <= stated_ns {
            return stated_ns;
        }
        let rise_ns = i128::from(self.rise_ppb) * i128::from(for_ns) / 1_000_000_000;
        stated_ns.max(
            self.most_ns
                .saturating_add(i64::try_from(rise_ns).unwrap_or(i64::MAX)),
        )
    }
}

/// The narrowest of some brackets: the least and the largest lead of the line, and the OS clock at
/// the bracket's end, ns.
fn bracket(line: impl Fn() -> Option<i64>) -> Option<((i64, i64), i64)> {
    let (before_ns, line_ns, after_ns) = narrowest(BRACKETS, monotonic_ns, line);
    let [before_ns, after_ns] =
        [before_ns, after_ns].map(|ns| i64::try_from(ns).unwrap_or(i64::MAX));
    Some((
        (
            line_ns?.saturating_sub(after_ns),
            line_ns?.saturating_sub(before_ns),
        ),
        after_ns,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: "at most 1147 ns", while the kernel slewed its clock and readings were 1 ms ahead.
    #[test]
    fn a_line_that_the_os_clock_leaves_is_ahead_by_what_is_left_of_its_leases() {
        let lead_ns =
            |before, now| LineLead::new(before, now, 20_000_000).lead_ns(1_147, 900_000_000);
        assert_eq!(
            lead_ns((480, 520), (510, 550)),
            1_147,
            "nothing that the brackets prove"
        );
        assert_eq!(
            lead_ns((1_140, 2_140), (1_147, 2_147)),
            1_147,
            "wide brackets, as with hpet"
        );
        // 500 ppm are 10 us in 20 ms, and 450 us in 0.9 s.
        assert_eq!(lead_ns((480, 520), (10_480, 10_520)), 10_520 + 451_800);
        assert_eq!(
            lead_ns((320_480, 320_520), (310_480, 310_520)),
            310_520,
            "it comes back"
        );
        assert_eq!(lead_ns((10_480, 10_520), (480, 520)), 1_147);
    }

    fn os_ns() -> i64 {
        i64::try_from(monotonic_ns()).unwrap()
    }

    #[test]
    fn a_bracket_contains_the_lead_of_the_line() {
        for lead_ns in [3_000_000_000, -3_000_000_000] {
            let ((least_ns, most_ns), _) = bracket(|| Some(os_ns() + lead_ns)).unwrap();
            assert!(
                least_ns <= lead_ns && lead_ns <= most_ns,
                "{least_ns} to {most_ns}"
            );
        }
    }

    #[test]
    fn the_time_of_a_bracket_is_its_end() {
        let start_ns = os_ns();
        let ((least_ns, _), end_ns) = bracket(|| Some(0)).unwrap();
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
