//! Applies the settings of a clock: its interval, what decides about its counter, and the calls
//! that it may make.

use core::sync::atomic::Ordering;

use super::Engine;
use crate::settings::{Probes, Settings};
use crate::sys;
use crate::sys::reference::OsClock;

impl Engine {
    /// Applies the settings of the control loop.
    pub(crate) fn apply(&self, settings: &Settings) {
        let trust = settings.trust as u8;
        let assume_invariant = settings.assume_invariant;
        // ORDERING: Relaxed for all three, settings. `request_judgement` publishes the last two.
        let order = Ordering::Relaxed;
        self.interval_ns.store(settings.interval_ns(), order);
        let had_trust = self.trust.swap(trust, order);
        let assumed_invariant = self.assume_invariant.swap(assume_invariant, order);
        if had_trust != trust || assumed_invariant != assume_invariant {
            self.request_judgement(); // also before the first judgement, which may be in progress
        }
    }

    /// Restricts the clock to minimal probes if `probes` asks for them. They stay in force, because
    /// a seccomp filter that the program installs stays in force, too.
    pub(crate) fn restrict_probes(&self, probes: Probes) {
        if probes == Probes::Full {
            return;
        }
        sys::disable_fork_token();
        sys::forbid_reading_files();
        OsClock::choose_libc();
        // ORDERING: Relaxed, pairs with the load in `probes`. A thread that sees the flag, but not
        // yet the effects of the calls above, runs before any filter that is installed later.
        self.has_minimal_probes.store(true, Ordering::Relaxed);
    }
}
