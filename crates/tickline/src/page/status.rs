//! What a page serves.

use std::path::PathBuf;

use tickline_page::LeasePhase;

/// What a page serves to a clock: [`Clock::page_status`](crate::Clock::page_status).
///
/// ```no_run
/// use tickline::{Clock, Probes};
///
/// # fn main() -> Result<(), tickline::Error> {
/// let clock = Clock::open_page("/run/tickline/page.v1", Probes::Full)?;
/// if let Some(page) = clock.page_status() {
///     println!("{}: {}, {:?} ns ahead", page.path.display(), page.phase.code(), page.lead_ns);
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
    pub phase: LeasePhase,
    /// How far readings may be above the OS clock while that keeps its rate, ns; `None` while there
    /// is no line.
    pub lead_ns: Option<i64>,
    /// For how long the present leases last, ns; `None` if there is none.
    pub lease_left_ns: Option<u64>,
}
