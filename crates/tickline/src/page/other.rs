//! One clock for all processes of a machine: only on Linux.

use std::path::Path;

use crate::clock::Clock;
use crate::error::Error;
use crate::options::Probes;

impl Clock {
    /// On Linux, a clock that reads the time from the page at `path`.
    ///
    /// # Errors
    ///
    /// [`PageUnusable`](crate::ErrorKind::PageUnusable): this is not Linux.
    pub fn open_page(_: impl AsRef<Path>, _: Probes) -> Result<Self, Error> {
        Err(Error::page("pages need Linux"))
    }
}
