//! Without the feature `utc` the clock's thread asks nobody.

use crate::engine::Engine;
use crate::sys::StoppableSleep;

#[derive(Debug, Default)]
pub(crate) struct UtcPolls {}

impl UtcPolls {
    pub(crate) fn poll(&mut self, _: &Engine, _: &StoppableSleep) -> bool {
        false
    }

    pub(crate) fn force_due(&mut self, _: &Engine) {}

    pub(crate) fn end(self, _: &Engine) {}
}
