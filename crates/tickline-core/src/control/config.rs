//! The settings of a control loop.

/// When the driver of a control loop comes. The lines differ:
///
/// | | window, intervals | starts | may be shortened to narrow the bound |
/// |---|---|---|---|
/// | `Scheduled` | 2 | one [margin](super::MEETING_MARGIN_NS) before its publication | yes |
/// | `Pinned` | 4 | with its publication | yes |
/// | `OnDemand` | 1 | one [margin](super::MEETING_MARGIN_NS) before its publication | until the range of the kernel's dither is known |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cadence {
    /// A thread, a timer or the program comes when the next iteration is due.
    Scheduled,
    /// A thread comes when the next iteration is due, but must first get onto the CPU of the line,
    /// which may be busy. The window lasts 4 intervals, and starts with the publication. For a line
    /// for each CPU; [`Pass::begin`](crate::per_cpu::Pass::begin) sets it.
    Pinned,
    /// A reader comes when it finds that the window has passed.
    OnDemand,
}

impl Cadence {
    /// The window of a line, in intervals. The validity of a line is twice that.
    ///
    /// ```
    /// use tickline_core::control::Cadence;
    ///
    /// // How long a line may be used without a driver, intervals.
    /// assert_eq!(2 * Cadence::Scheduled.window_intervals(), 4);
    /// ```
    #[must_use]
    pub const fn window_intervals(self) -> u64 {
        match self {
            Self::Scheduled => 2,
            Self::Pinned => 4,
            Self::OnDemand => 1,
        }
    }
}

/// The settings of a control loop. Each may change between two iterations.
///
/// ```
/// use tickline_core::control::{Cadence, Config};
///
/// let mut config = Config::new(500_000_000); // half a second
/// config.cadence = Cadence::OnDemand; // readers run the iterations
/// assert!(config.serves_unix_time);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The interval in the steady state, ns. Choose it within
    /// [`INTERVAL_RANGE_NS`](super::INTERVAL_RANGE_NS). No value is an error here, because a value
    /// may change between two iterations, which can't fail. An iteration raises a value below
    /// [`MIN_INTERVAL_NS`](super::MIN_INTERVAL_NS) to that, and lowers one above the range to its
    /// end. It takes one between the two minima as it is: readings are in order, but a driver that
    /// is a little late loses the line. A program that takes the interval from a user checks the
    /// range itself, as `ClockBuilder` of the crate `tickline` does.
    pub interval_ns: u64,
    /// When the driver comes.
    pub cadence: Cadence,
    /// Whether the lines serve Unix time, or leave that to the OS. See
    /// [`Gate::UnixCost`](crate::gate::Gate::UnixCost).
    pub serves_unix_time: bool,
}

impl Config {
    /// The settings of a loop whose driver comes when the next iteration is due
    /// ([`Cadence::Scheduled`]), and whose lines serve Unix time.
    #[must_use]
    pub const fn new(interval_ns: u64) -> Self {
        Self {
            interval_ns,
            cadence: Cadence::Scheduled,
            serves_unix_time: true,
        }
    }
}
