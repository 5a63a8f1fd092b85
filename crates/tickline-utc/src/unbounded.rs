//! Why a source that answers does not bound UTC: [`Unbounded`].

use core::fmt;

/// The largest error of an oscillator that NTP can steer, ppb (`MAXFREQ` in Linux' `timex.h`).
pub(crate) const MAX_FREQUENCY_PPB: i64 = 500_000;

/// The largest error of a claim, ns: the largest dispersion of an NTP server (RFC 5905, `MAXDISP`).
pub(crate) const MAX_ERROR_NS: i64 = 16_000_000_000;

pub(crate) const DAY_NS: i64 = 86_400_000_000_000;

/// The earliest time of a plausible report, ns since 1970: no reading of its claim may be before
/// 1970.
pub(crate) const MIN_TIME_NS: i64 = DAY_NS;

/// The latest time of a plausible report, ns since 1970: no reading of its claim, which holds for a
/// day at most, may overflow.
pub(crate) const MAX_TIME_NS: i64 = i64::MAX - 2 * DAY_NS;

/// The largest rate of a plausible report, ppb. A choice, not a measurement: above the rates of
/// slews, which count as steps from 12.5 % on (`SLEW_PARTS` in `source.rs`).
pub(crate) const MAX_RATE_PPB: i64 = 200_000_000;

/// Why a source that has answered does not bound UTC.
///
/// ```
/// use tickline_utc::Unbounded;
///
/// let text = Unbounded::ErrorTooLarge { ms: 17_500 }.to_string();
/// assert_eq!(text, "it states an error of 17.5 s, above the limit of 16 s");
///
/// let remedy = Unbounded::NoPathDelay.remedy();
/// assert_eq!(remedy, "wait for its first measurements of the delay");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unbounded {
    /// Any source: it states an error above 16 s.
    ErrorTooLarge {
        /// The error, ms, rounded up; at most `u32::MAX`.
        ms: u32,
    },
    /// Any source: by its figures, the rate of UTC against `CLOCK_MONOTONIC_RAW` may be off by more
    /// than 20 %.
    RateTooLarge {
        /// The rate that is farthest off, ppm, rounded away from 0.
        ppm: i32,
    },
    /// Any source: UTC would be before 1970-01-02, or after 2262-04-09.
    TimeOutOfRange {
        /// The time since 1970-01-01, days, rounded away from the limit.
        days: i32,
    },
    /// Any source: the earliest time that it states for UTC is after the latest one.
    TimesCrossed {
        /// The difference of the two, ms, rounded up; at most `u32::MAX`.
        ms: u32,
    },
    /// Any source: the lowest rate that it states for UTC is above the highest one.
    RatesCrossed {
        /// The difference of the two, ppm, rounded up; at most `u32::MAX`.
        ppm: u32,
    },
    /// clock-bound: its status is neither synchronised nor free running.
    ClockBoundStatus {
        /// The status, a number of clock-bound's protocol.
        status: u32,
    },
    /// chronyd says that it is not synchronised, or names no reference.
    FollowsNothing,
    /// chronyd follows its own clock.
    FollowsItself,
    /// The kernel says that its clock is not synchronised.
    KernelUnsynchronised,
    /// The kernel's clock is steered by more than 500 ppm.
    SteeringTooLarge {
        /// The steering, ppm, rounded away from 0.
        ppm: i32,
    },
    /// ptp4l: no port of it follows a master.
    NoMaster,
    /// ptp4l measures its master, but its servo is not locked.
    NotLocked,
    /// ptp4l: it is the grandmaster itself.
    IsGrandmaster,
    /// ptp4l: its grandmaster does not serve TAI.
    NoTai,
    /// ptp4l: its grandmaster does not vouch for the offset of UTC.
    NoUtcOffset,
    /// ptp4l: its grandmaster's time is not traceable.
    NotTraceable,
    /// ptp4l: its grandmaster's class is neither 6 nor 7.
    OtherClockClass {
        /// The class (IEEE 1588-2019, table 4).
        class: u8,
    },
    /// ptp4l: its grandmaster's accuracy stands for no bound. It is unknown, or above 10 s.
    NoAccuracyBound {
        /// The code of the accuracy (IEEE 1588-2019, table 5).
        code: u8,
    },
    /// ptp4l measures the delay of the last link alone.
    OnlyLinkDelay,
    /// ptp4l has not measured the path.
    NoPathDelay,
    /// A hardware clock, which ptp4l may steer, can't be read.
    UnreadableClock,
    /// No clock shows the time of ptp4l's last Sync, or up to 4 s more.
    NoClockOfLastSync,
    /// Several clocks show that time: ptp4l may steer any of them.
    SeveralClocksOfLastSync,
}

/// What the user of a source with contradictory figures can do.
const RESTART_SOURCE: &str = "restart the source, and see what it states (`tickline doctor`)";

/// What the user of a ptp4l whose grandmaster vouches for too little can do.
const SEE_GRANDMASTER: &str = "see whether the grandmaster has a reference, such as GPS";

impl fmt::Display for Unbounded {
    /// The cause with the value and the limit, for people; "it" is the source.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cause, _) = self.words();
        f.write_str(&cause)
    }
}

impl Unbounded {
    /// What the user can do, for people; "it" is the source.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        let (_, remedy) = self.words();
        remedy
    }

    /// The cause with the value and the limit, and what the user can do; "it" is the source.
    pub(crate) fn words(self) -> (String, &'static str) {
        let plain = |cause: &str, remedy: &'static str| (cause.to_owned(), remedy);
        match self {
            Self::ErrorTooLarge { ms } => (
                format!(
                    "it states an error of {} s, above the limit of {} s",
                    f64::from(ms) / 1e3,
                    MAX_ERROR_NS / 1_000_000_000
                ),
                "wait until it has measured again, and see which servers it reaches (`tickline \
                 doctor`)",
            ),
            Self::RateTooLarge { ppm } => (
                format!(
                    "it states a rate that is off by {ppm} ppm, and {} ppm is the limit",
                    MAX_RATE_PPB / 1_000
                ),
                RESTART_SOURCE,
            ),
            Self::TimeOutOfRange { days } => (
                format!(
                    "its time is {days} days after 1970-01-01, and the limits are {} and {} days \
                     (in 2262)",
                    MIN_TIME_NS / DAY_NS,
                    MAX_TIME_NS / DAY_NS
                ),
                "set the machine's clock",
            ),
            Self::TimesCrossed { ms } => (
                format!("the earliest time that it states for UTC is {ms} ms after the latest one"),
                RESTART_SOURCE,
            ),
            Self::RatesCrossed { ppm } => (
                format!(
                    "the lowest rate that it states for UTC is {ppm} ppm above the highest one"
                ),
                RESTART_SOURCE,
            ),
            Self::ClockBoundStatus { status } => (
                format!("its status is {status}, neither 1 (synchronised) nor 2 (free running)"),
                "see whether the NTP daemon beside clock-bound follows a server",
            ),
            Self::FollowsNothing => plain(
                "it follows no clock",
                "`chronyc sources` shows which servers it reaches",
            ),
            Self::FollowsItself => plain(
                "it follows its own clock",
                "give it a server, and see with `chronyc sources` whether it reaches that",
            ),
            Self::KernelUnsynchronised => plain(
                "the kernel says that its clock is not synchronised",
                "start an NTP daemon that follows a server (chronyd with `rtcsync`), or let this \
                 process reach chronyd",
            ),
            Self::SteeringTooLarge { ppm } => (
                format!(
                    "the kernel's clock is steered by {ppm} ppm, and {} ppm is the limit",
                    MAX_FREQUENCY_PPB / 1_000
                ),
                "restart the NTP daemon, which may have ended during a slew",
            ),
            Self::NoMaster => plain(
                "no port of it follows a master",
                "see whether Announce and Sync messages come (ptp4l's log)",
            ),
            Self::NotLocked => plain(
                "it measures its master, but its servo is not locked",
                "wait until it is, or take `free_running` out of ptp4l's options",
            ),
            Self::IsGrandmaster => plain(
                "it is the grandmaster itself",
                "run an NTP daemon beside it, or let it follow another grandmaster",
            ),
            Self::NoTai => plain("its grandmaster does not serve TAI", SEE_GRANDMASTER),
            Self::NoUtcOffset => plain(
                "its grandmaster does not vouch for the offset of UTC",
                SEE_GRANDMASTER,
            ),
            Self::NotTraceable => plain("its grandmaster's time is not traceable", SEE_GRANDMASTER),
            Self::OtherClockClass { class } => (
                format!(
                    "its grandmaster follows no primary reference: its class is {class}, neither \
                     6 nor 7"
                ),
                SEE_GRANDMASTER,
            ),
            Self::NoAccuracyBound { code } => (
                format!(
                    "its grandmaster states no accuracy, or one above 10 s: the code is {code:#04x}"
                ),
                SEE_GRANDMASTER,
            ),
            Self::OnlyLinkDelay => plain(
                "it measures the delay of the last link alone",
                "configure ptp4l with `delay_mechanism E2E`",
            ),
            Self::NoPathDelay => plain(
                "it has not measured the path",
                "wait for its first measurements of the delay",
            ),
            Self::UnreadableClock => plain(
                "a hardware clock that it may steer can't be read",
                "give this user the right to open each /dev/ptpN; if root can't read one either \
                 (`phc_ctl /dev/ptpN get`), its driver fails",
            ),
            Self::NoClockOfLastSync => plain(
                "no clock shows the time of its last Sync, or up to 4 s more",
                "see whether Sync messages still come (ptp4l's log)",
            ),
            Self::SeveralClocksOfLastSync => plain(
                "several clocks show the time of its last Sync",
                "let only one of them follow ptp4l's: `phc2sys -a` and ts2phc make more",
            ),
        }
    }

    /// An error of this many ns.
    pub(crate) fn by_error(ns: i64) -> Self {
        Self::ErrorTooLarge {
            ms: rounded_up(ns, 1_000_000),
        }
    }

    /// A time of this many ns since 1970, which is beyond a limit.
    pub(crate) fn by_time(ns: i64) -> Self {
        let days = if ns < MIN_TIME_NS {
            ns.div_euclid(DAY_NS)
        } else {
            (ns - 1).div_euclid(DAY_NS) + 1
        };
        Self::TimeOutOfRange {
            days: i32::try_from(days).unwrap_or(i32::MAX),
        }
    }

    /// An earliest time that is this many ns after the latest one.
    pub(crate) fn by_crossed_times(ns: i64) -> Self {
        Self::TimesCrossed {
            ms: rounded_up(ns, 1_000_000),
        }
    }

    /// A lowest rate that is this many ppb above the highest one.
    pub(crate) fn by_crossed_rates(ppb: i64) -> Self {
        Self::RatesCrossed {
            ppm: rounded_up(ppb, 1_000),
        }
    }

    /// A rate of this many ppb.
    pub(crate) fn by_rate(ppb: i64) -> Self {
        Self::RateTooLarge {
            ppm: outward_ppm(ppb),
        }
    }

    /// A steering of this many ppb.
    pub(crate) fn by_steering(ppb: i64) -> Self {
        Self::SteeringTooLarge {
            ppm: outward_ppm(ppb),
        }
    }
}

/// A figure of a cause, as the 4 bytes that a published claim has for it.
trait Figure {
    fn bits(self) -> u32;
    fn from_bits(bits: u32) -> Self;
}

impl Figure for u32 {
    fn bits(self) -> u32 {
        self
    }

    fn from_bits(bits: u32) -> Self {
        bits
    }
}

impl Figure for i32 {
    fn bits(self) -> u32 {
        self.cast_unsigned()
    }

    fn from_bits(bits: u32) -> Self {
        bits.cast_signed()
    }
}

impl Figure for u8 {
    fn bits(self) -> u32 {
        self.into()
    }

    fn from_bits(bits: u32) -> Self {
        let [byte, ..] = bits.to_le_bytes();
        byte
    }
}

/// Writes `to_numbers` and `from_numbers` from one table: a row has the number of a cause, the
/// cause, and the name of its figure. A cause without a row does not compile. The numbers live in
/// one process only: they need not be the same in the next version.
macro_rules! numbered {
    ($($number:literal => $cause:ident $({ $figure:ident })?,)*) => {
        impl Unbounded {
            /// The cause in a published claim: its number, and the 4 bytes of its figure; 0 if it
            /// has none.
            pub(crate) fn to_numbers(self) -> (u8, u32) {
                match self {
                    $(Self::$cause $({ $figure })? => ($number, numbered!(@figure $($figure)?)),)*
                }
            }

            /// The cause of these numbers; `None` if no cause has this one.
            pub(crate) fn from_numbers(number: u8, figure: u32) -> Option<Self> {
                Some(match number {
                    $($number => Self::$cause $({ $figure: Figure::from_bits(figure) })?,)*
                    _ => return None,
                })
            }
        }
    };
    (@figure) => { 0 };
    (@figure $figure:ident) => { Figure::bits($figure) };
}

numbered! {
    0 => ErrorTooLarge { ms },
    1 => RateTooLarge { ppm },
    2 => TimeOutOfRange { days },
    3 => TimesCrossed { ms },
    4 => RatesCrossed { ppm },
    5 => ClockBoundStatus { status },
    6 => FollowsNothing,
    7 => FollowsItself,
    8 => KernelUnsynchronised,
    9 => SteeringTooLarge { ppm },
    10 => NoMaster,
    11 => NotLocked,
    12 => IsGrandmaster,
    13 => NoTai,
    14 => NoUtcOffset,
    15 => NotTraceable,
    16 => OtherClockClass { class },
    17 => NoAccuracyBound { code },
    18 => OnlyLinkDelay,
    19 => NoPathDelay,
    20 => UnreadableClock,
    21 => NoClockOfLastSync,
    22 => SeveralClocksOfLastSync,
}

/// The size of `value` in units of `unit`, so that one above 0 stays above it.
fn rounded_up(value: i64, unit: u64) -> u32 {
    u32::try_from(value.unsigned_abs().div_ceil(unit)).unwrap_or(u32::MAX)
}

/// A rate in ppm, rounded away from 0, so that one above a limit stays above it.
fn outward_ppm(ppb: i64) -> i32 {
    let size = i32::try_from(ppb.unsigned_abs().div_ceil(1_000)).unwrap_or(i32::MAX);
    if ppb < 0 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_survives_its_numbers() {
        const FIGURE: u32 = u32::MAX - 6;
        for cause in (0..=u8::MAX).filter_map(|number| Unbounded::from_numbers(number, FIGURE)) {
            let (number, figure) = cause.to_numbers();
            assert_eq!(Unbounded::from_numbers(number, figure), Some(cause));
        }
    }

    #[test]
    fn a_cause_with_a_limit_has_the_value_and_the_limit() {
        for (cause, [value, limit]) in [
            (
                Unbounded::by_error(16_000_000_001),
                ["16.001 s", "limit of 16 s"],
            ),
            (
                Unbounded::by_rate(-200_000_001),
                ["-200001 ppm", "200000 ppm is the limit"],
            ),
            (
                Unbounded::by_steering(500_001),
                ["501 ppm", "500 ppm is the limit"],
            ),
            (
                Unbounded::by_time(MIN_TIME_NS - 1),
                ["its time is 0 days", "limits are 1 and"],
            ),
            (
                Unbounded::by_time(MAX_TIME_NS + 1),
                ["its time is 106750 days", "106749 days"],
            ),
            (
                Unbounded::by_crossed_times(1),
                ["1 ms after", "the latest one"],
            ),
            (
                Unbounded::by_crossed_rates(1_001),
                ["2 ppm above", "the highest one"],
            ),
            (
                Unbounded::ClockBoundStatus { status: 4 },
                ["is 4", "1 (synchronised)"],
            ),
            (
                Unbounded::OtherClockClass { class: 52 },
                ["is 52", "neither 6 nor 7"],
            ),
            (
                Unbounded::NoAccuracyBound { code: 0xFE },
                ["0xfe", "above 10 s"],
            ),
        ] {
            let text = cause.to_string();
            assert!(text.contains(value) && text.contains(limit), "{text}");
        }
    }

    #[test]
    fn a_time_of_whole_days_is_stated_as_these_days() {
        for days in [0, 106_750] {
            let cause = Unbounded::by_time(i64::from(days) * DAY_NS);
            assert_eq!(cause, Unbounded::TimeOutOfRange { days });
        }
    }

    #[test]
    fn figures_at_the_ends_of_their_range_are_stated() {
        let extremes = [i64::MIN, i64::MAX].map(Unbounded::by_rate);
        assert_eq!(
            extremes,
            [i32::MIN + 1, i32::MAX].map(|ppm| Unbounded::RateTooLarge { ppm })
        );
        assert_eq!(
            Unbounded::by_error(i64::MIN),
            Unbounded::ErrorTooLarge { ms: u32::MAX }
        );
    }
}
