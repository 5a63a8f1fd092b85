//! Clocks of `tickline` over a page where there are none: not Linux, or Miri.

use std::path::Path;

use tickline::{Clock, Probes};

use crate::page_file::{PageError, PageErrorCause};

/// On Linux, a clock that reads the time from the page at `path`.
///
/// # Errors
///
/// This is not Linux, or Miri interprets the program.
pub fn open(path: impl AsRef<Path>) -> Result<Clock, PageError> {
    open_with_probes(path, Probes::Full)
}

/// Like [`open`], with other probes.
///
/// # Errors
///
/// This is not Linux, or Miri interprets the program.
pub fn open_with_probes(path: impl AsRef<Path>, _: Probes) -> Result<Clock, PageError> {
    Err(PageError::new(path.as_ref(), PageErrorCause::NoPages))
}
