//! chronyd's own claims, compared with the true time and the true rate: a range is only as true as
//! its source.

use std::time::Duration;

use tickline_utc::sources::chronyd;

use super::world::{FASTER_PPM, World};
use crate::phase::Claims;
use crate::system::realtime_ns;

/// The longest wait for chronyd's answer on a busy host.
const TIMEOUT: Duration = Duration::from_millis(100);

impl Claims {
    /// Asks chronyd. UTC is within the root dispersion and half of the root delay of its NTP clock
    /// (chronyc(1), "tracking"). A claim counts as missed only if it misses the true time both
    /// before the request and after the answer. `steered_ppm` is the kernel's rate against its
    /// counter.
    pub(super) fn ask(&mut self, world: &World, steered_ppm: i64) {
        let before = Moment::now(world);
        let Ok(answer) = chronyd::ask(TIMEOUT) else {
            return;
        };
        let after = Moment::now(world);
        let state = answer.tracking;
        // An unsynchronised chronyd claims nothing.
        if !state.is_synchronised() {
            return;
        }
        let bound_ns = state.dispersion_ns + state.delay_ns / 2;
        let distance_ns = before
            .distance_ns(state.correction_ns)
            .min(after.distance_ns(state.correction_ns));
        let true_ppb = (steered_ppm - FASTER_PPM) * 1_000;
        let rate_distance_ppb = (state.frequency_ppb - true_ppb).abs();
        let beyond = |distance: i64, bound: i64| (distance - bound).max(0).unsigned_abs();
        self.asked += 1;
        self.missed_ns = self.missed_ns.max(beyond(distance_ns, bound_ns));
        self.rate_missed_ppb = self
            .rate_missed_ppb
            .max(beyond(rate_distance_ppb, state.frequency_error_ppb));
    }
}

/// A reading of the kernel's clock, and the true times before and after it.
struct Moment {
    before_ns: i64,
    realtime_ns: i64,
    after_ns: i64,
}

impl Moment {
    fn now(world: &World) -> Self {
        Self {
            before_ns: world.now_ns(),
            realtime_ns: realtime_ns().cast_signed(),
            after_ns: world.now_ns(),
        }
    }

    /// The smallest distance between the true time and the kernel's clock with this correction, ns.
    fn distance_ns(&self, correction_ns: i64) -> i64 {
        let corrected_ns = self.realtime_ns + correction_ns;
        (self.before_ns - corrected_ns)
            .max(corrected_ns - self.after_ns)
            .max(0)
    }
}
