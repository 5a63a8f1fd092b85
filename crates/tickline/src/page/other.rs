//! Systems without pages: nobody can have a reader of one.

use tickline_core::gate::Reason;

use crate::status::State;

#[cfg(feature = "page")]
impl crate::Clock {
    /// On Linux, a clock that reads the time from the page at `path`.
    ///
    /// # Errors
    ///
    /// [`Page`](crate::ErrorKind::Page): this is not Linux.
    pub fn open_page(_: impl AsRef<std::path::Path>, _: crate::Probes) -> Result<Self, crate::Error> {
        Err(crate::Error::page("pages need Linux"))
    }
}

/// What a clock asks of its page.
#[derive(Debug)]
pub(crate) enum PageReader {}

impl PageReader {
    pub(crate) fn monotonic_ns(&self) -> i64 {
        match *self {}
    }

    pub(crate) fn unix_ns(&self) -> i64 {
        match *self {}
    }

    pub(crate) fn disable(&self) {
        match *self {}
    }

    pub(crate) fn enable(&self) {
        match *self {}
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        match *self {}
    }

    pub(crate) fn state(&self) -> State {
        match *self {}
    }
}
