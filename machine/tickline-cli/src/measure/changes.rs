//! Detects signs that the machine was moved to another host, or that its clocks were changed:
//! another clocksource, and a counter that has jumped.

use serde::Serialize;
use tickline_core::counter::{Counter, HardwareCounter};
use tickline_core::units::ticks_between;

use super::calls::monotonic_ns;
use super::narrowest;
use crate::float::{as_f64, signed_f64};
use crate::machine::clocksource;

/// The largest difference that an interruption between the reads of the two clocks may cause, ns. A
/// move takes about 100 ms, and makes the counter jump by far more than this.
const NOISE_NS: f64 = 50_000_000.0;

/// The largest relative difference of two rates that count as equal: NTP slews by 500 ppm.
const RATES: f64 = 0.001;

/// A change of the machine's clocks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Change {
    /// Time since the start, s.
    pub(crate) at_s: f64,
    /// `clocksource` or `counter_jump`.
    pub(crate) kind: &'static str,
    /// The change, in words.
    pub(crate) what: String,
}

/// Finds the changes since the last readings, which it keeps.
#[derive(Debug)]
pub(crate) struct ChangeDetector {
    counter: Option<HardwareCounter>,
    clocksource: Option<String>,
    /// The last readings: the counter, ticks, and `CLOCK_MONOTONIC`, ns.
    last: Option<(u64, u64)>,
    /// The newest known frequency. After a jump the status has none until the next calibration.
    frequency_hz: Option<u64>,
}

impl ChangeDetector {
    /// `counter` is `None` if the process may not read it.
    pub(crate) fn new(counter: Option<HardwareCounter>) -> Self {
        let mut detector = Self {
            counter,
            clocksource: clocksource(),
            last: None,
            frequency_hz: None,
        };
        detector.last = detector.read();
        detector
    }

    /// The changes since the last call. `frequency_hz` is the counter's frequency by the clock's
    /// present status.
    pub(crate) fn since_last(&mut self, at_s: f64, frequency_hz: Option<u64>) -> Vec<Change> {
        let now = clocksource();
        let before = self.clocksource.take();
        self.clocksource.clone_from(&now);
        let name = |name: Option<String>| name.unwrap_or_else(|| "unknown".to_owned());
        let clocksource_change = (now != before).then(|| Change {
            at_s,
            kind: "clocksource",
            what: format!(
                "the kernel's clocksource was {} and is {}",
                name(before),
                name(now)
            ),
        });
        let counter_jump = self.jump_s(self.read(), frequency_hz).map(|jump_s| Change {
            at_s,
            kind: "counter_jump",
            what: format!(
                "the counter jumped by {jump_s:+.3} s: the machine was moved, or stopped and continued"
            ),
        });
        clocksource_change.into_iter().chain(counter_jump).collect()
    }

    /// The counter's jump since the last readings, s.
    fn jump_s(&mut self, read: Option<(u64, u64)>, frequency_hz: Option<u64>) -> Option<f64> {
        let last = std::mem::replace(&mut self.last, read);
        // A frequency that was measured across the jump would hide the jump.
        let before_hz = self.frequency_hz.or(frequency_hz);
        self.frequency_hz = frequency_hz.or(self.frequency_hz);
        jump_s(last?, read?, before_hz?)
    }

    fn read(&self) -> Option<(u64, u64)> {
        const BRACKETS: u32 = 4;
        let counter = self.counter?;
        let (ticks, ns, _) = narrowest(BRACKETS, || counter.now_ordered(), monotonic_ns);
        Some((ticks, ns))
    }
}

/// The counter's progress minus the progress of `CLOCK_MONOTONIC`, s; `None` if an interruption or
/// a slewed clock may explain the difference.
fn jump_s(last: (u64, u64), now: (u64, u64), frequency_hz: u64) -> Option<f64> {
    let elapsed_ns = signed_f64(ticks_between(last.1, now.1));
    let by_counter_ns =
        signed_f64(ticks_between(last.0, now.0)) / as_f64(frequency_hz.max(1)) * 1e9;
    let jump_ns = by_counter_ns - elapsed_ns;
    (jump_ns.abs() > NOISE_NS + RATES * elapsed_ns.abs()).then_some(jump_ns / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 2_000_000_000;

    /// The counter and the OS clock, ns, at the first sample.
    const START: (u64, u64) = (5_000_000_000_000, 1_000_000_000);

    /// The jump of a counter that has this value a second later.
    fn after_a_second(ticks: u64) -> Option<f64> {
        jump_s(START, (ticks, START.1 + 1_000_000_000), HZ)
    }

    /// The jump of a counter that runs for an hour at this rate.
    fn after_an_hour_at(hz: u64) -> Option<f64> {
        let end = (START.0 + 3_600 * hz, START.1 + 3_600_000_000_000);
        jump_s(START, end, HZ)
    }

    #[test]
    fn a_counter_that_runs_with_the_os_clock_has_not_jumped() {
        assert_eq!(after_a_second(5_002_000_000_000), None);
    }

    #[test]
    fn an_interruption_of_30_ms_is_no_jump() {
        assert_eq!(after_a_second(5_002_060_000_000), None);
    }

    #[test]
    fn a_counter_of_another_host_has_jumped() {
        let jump_s = after_a_second(5_022_000_000_000).unwrap();
        assert!((jump_s - 10.0).abs() < 1e-6, "{jump_s}");
    }

    #[test]
    fn a_counter_that_begins_anew_has_jumped_back() {
        let jump_s = after_a_second(1_000).unwrap();
        assert!(jump_s < -2_000.0, "{jump_s}");
    }

    #[test]
    fn the_rate_of_a_clock_that_ntp_slews_is_no_jump() {
        assert_eq!(after_an_hour_at(HZ + HZ / 2_000), None);
    }

    #[test]
    fn the_rate_of_another_host_is_a_jump() {
        let jump_s = after_an_hour_at(HZ / 2).unwrap();
        assert!((jump_s + 1_800.0).abs() < 1e-6, "{jump_s}");
    }

    #[test]
    fn another_clocksource_is_a_change_once() {
        let mut detector = ChangeDetector::new(None);
        assert_eq!(detector.since_last(1.0, Some(HZ)), []);
        detector.clocksource = Some("another".to_owned());
        let changes = detector.since_last(2.0, Some(HZ));
        let [change] = &changes[..] else {
            panic!("{changes:?}");
        };
        assert_eq!((change.kind, change.at_s), ("clocksource", 2.0));
        let words = "the kernel's clocksource was another and is ";
        assert!(change.what.starts_with(words), "{}", change.what);
        assert_eq!(detector.since_last(3.0, Some(HZ)), []);
    }

    /// Seen in the guest `migrated_hpet`: after a jump the clock's status has no frequency, and
    /// `watch` reported no jump at all.
    #[test]
    fn a_jump_is_seen_though_the_clock_has_forgotten_its_frequency() {
        let mut detector = ChangeDetector::new(None);
        let mut at = |ticks: u64, ms: u64, hz: Option<u64>| {
            detector.jump_s(Some((1_000_000_000_000 + ticks, ms * 1_000_000)), hz)
        };
        assert_eq!(at(0, 0, Some(HZ)), None);
        assert_eq!(at(HZ / 10, 100, Some(HZ)), None);
        assert!(at(HZ * 10 + HZ / 5, 200, None).is_some_and(|jump_s| (jump_s - 10.0).abs() < 1e-6));
        assert_eq!(at(HZ * 10 + HZ / 10 * 3, 300, None), None);
        assert!(
            at(HZ * 9, 400, Some(HZ / 2)).is_some_and(|jump_s| (jump_s + 1.4).abs() < 1e-6),
            "by the rate before"
        );
    }

    #[test]
    fn the_difference_that_an_interruption_makes_is_no_jump() {
        assert_eq!(jump_s((0, 0), (HZ / 20, 0), HZ), None);
        assert!(jump_s((0, 0), (HZ / 20 + 2, 0), HZ).is_some());
    }

    #[test]
    fn both_clocks_are_read_where_there_is_a_counter() {
        let counter = HardwareCounter::if_present();
        let detector = ChangeDetector::new(counter);
        assert_eq!(detector.last.is_some(), counter.is_some());
        assert_eq!(ChangeDetector::new(None).read(), None);
    }
}
