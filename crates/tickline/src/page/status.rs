//! What a page serves.

use std::path::PathBuf;

use tickline_page::lease::LeasePhase;

/// What a page serves to its readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// The page is switched off: readers ask the OS clock.
    Off,
    /// There is no line: readers ask the OS clock, and keep their order.
    Cold,
    /// The first line is being made, within a millisecond.
    Opening,
    /// Readers take their time from a line.
    Live,
    /// The line may be too low: readers ask the OS clock, too.
    Unsure,
}

impl From<LeasePhase> for Phase {
    fn from(phase: LeasePhase) -> Self {
        match phase {
            LeasePhase::Off => Self::Off,
            LeasePhase::Cold => Self::Cold,
            LeasePhase::Opening => Self::Opening,
            LeasePhase::Live => Self::Live,
            LeasePhase::Unsure => Self::Unsure,
        }
    }
}

impl Phase {
    /// A stable name, in snake case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Cold => "cold",
            Self::Opening => "opening",
            Self::Live => "live",
            Self::Unsure => "unsure",
        }
    }
}

/// What a page serves to a clock.
///
/// ```no_run
/// use tickline::Clock;
///
/// # fn main() -> Result<(), tickline::Error> {
/// let clock = Clock::builder().page("/run/tickline/page.v1").start()?;
/// if let Some(page) = clock.status().page {
///     println!("{}: {}, {:?} ns ahead", page.path.display(), page.phase.name(), page.lead_ns);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageStatus {
    /// The page's file.
    pub path: PathBuf,
    /// The user that it belongs to: 0 is root.
    pub owner: u32,
    /// What it says.
    pub phase: Phase,
    /// How far readings may be above the OS clock while that keeps its rate, ns; `None` while there is no
    /// line.
    pub lead_ns: Option<i64>,
    /// For how long the present leases last, ns; `None` if there is none.
    pub lease_left_ns: Option<u64>,
}
