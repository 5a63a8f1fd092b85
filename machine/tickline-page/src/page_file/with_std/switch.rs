//! The switch of a page: off at once for all readers, whatever its writer does.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::locked_file::open_page;
use crate::lease::LeasePhase;
use crate::lease::memory::{LeaseMemory as _, LeaseStore as _, LeaseWord};
use crate::page_file::error::{PageError, PageErrorCause};
use crate::page_file::mapped::PagePath;

/// The position of a page's switch, which [`switch_off`] and [`switch_on`] set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSwitch {
    /// No writer publishes.
    Off,
    /// A writer may publish. The page may be off nevertheless: before its first writer.
    On {
        /// The page's phase.
        phase: LeasePhase,
    },
}

impl PageSwitch {
    fn of(word: LeaseWord) -> Self {
        if word.stays_off() {
            return Self::Off;
        }
        Self::On {
            phase: word.phase(),
        }
    }
}

/// Switches a page off at once, for all readers, even if its writer is dead or stopped. Readings
/// step back by at most the lead of the page's line. A running writer ends at its next iteration. A
/// new writer leaves the page off, until [`switch_on`] or the next boot. Returns the position
/// before.
///
/// # Errors
///
/// If the file cannot be opened for writing, is not trusted, or is not a page.
pub fn switch_off(path: impl AsRef<Path>) -> Result<PageSwitch, PageError> {
    change_word(path.as_ref(), |word| {
        (!word.stays_off()).then(|| word.switched_off())
    })
}

/// Lets writers publish again after [`switch_off`]. Returns the position before.
///
/// # Errors
///
/// The errors of [`switch_off`].
pub fn switch_on(path: impl AsRef<Path>) -> Result<PageSwitch, PageError> {
    let on = |word: LeaseWord| word.next(LeasePhase::Off, word.first(), None);
    change_word(path.as_ref(), |word| word.stays_off().then(|| on(word)))
}

/// Replaces the page's word by `next` of it, unless that is `None`. Returns the switch's position
/// by the old word.
fn change_word(
    path: &Path,
    next: impl Fn(LeaseWord) -> Option<LeaseWord>,
) -> Result<PageSwitch, PageError> {
    let open = || Ok(open_page(&PagePath::resolve(path.as_os_str().as_bytes())?)?.0);
    let mapping = open().map_err(|cause: PageErrorCause| PageError::new(path, cause))?;
    let cell = mapping.page().cell();
    loop {
        let word = cell.word();
        match next(word) {
            Some(to) if !cell.try_swap(word, to) => {}
            _ => return Ok(PageSwitch::of(word)),
        }
    }
}
