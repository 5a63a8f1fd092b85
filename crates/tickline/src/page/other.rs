//! Systems without pages: nobody can have a reader of one.

use tickline_core::gate::Reason;

use crate::status::State;

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
