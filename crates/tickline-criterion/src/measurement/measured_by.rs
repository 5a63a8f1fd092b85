//! The clock of a measurement, as files and texts name it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::measurement::readings::PairClock;

/// The clock that measured a benchmark. Results by different clocks are not comparable: the OS
/// clock's contain the cost of its readings, and the counter's do not.
///
/// ```
/// use tickline_criterion::measurement::MeasuredBy;
///
/// assert_eq!(serde_json::to_string(&MeasuredBy::OsClock)?, r#""os_clock""#);
/// assert_eq!(MeasuredBy::OsClock.to_string(), "OS clock");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MeasuredBy {
    /// The CPU's counter.
    Counter,
    /// The OS clock, as `WallTime`, because the counter could not be trusted.
    OsClock,
    /// A clock of a newer version of this crate, in its file.
    #[serde(other)]
    Unknown,
}

impl From<PairClock> for MeasuredBy {
    fn from(clock: PairClock) -> Self {
        match clock {
            PairClock::WithCpu(_) | PairClock::Plain(_) => Self::Counter,
            PairClock::Wall => Self::OsClock,
        }
    }
}

impl fmt::Display for MeasuredBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::OsClock => "OS clock",
            Self::Unknown => "unknown clock",
        })
    }
}
