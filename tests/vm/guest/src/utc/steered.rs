//! chronyd only measures the clock (`-x`), and another program steers it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tickline_observe::wait_until;
use tickline_utc::UtcSource;

use super::UtcLab;
use super::daemons::start_chronyd_with;
use super::world::SECOND_NS;
use crate::agreed::UTC_READINGS;
use crate::phase::{Claims, Phase};
use crate::system::{self, Killed, realtime_ns};

/// The time in which chronyd's statements get narrow while the clock is steered, ns.
const STEERED_NS: i64 = 8 * SECOND_NS;
/// The time between two questions for chronyd's claim. chronyd measures each 250 ms.
const BETWEEN_CLAIMS: Duration = Duration::from_millis(5);
/// The longest wait for a narrow range while the clock is steered. A quiet host needs no more than
/// [`STEERED_NS`].
const PATIENCE_NARROW: Duration = Duration::from_secs(60);

/// The offset that a program gives adjtime(3) in each second, us: a slew by as many ppm. The kernel
/// slews by no more. Without the slew in tickline's claims, 2,682 ranges of a run missed the true
/// time; with 400 us none did.
const EACH_SECOND_US: i64 = 500;
/// The time before the end of the kernel's second in which the program calls, ns. Requests see what
/// is left of the offset in this time only.
const BEFORE_SECOND_NS: u64 = 30_000_000;
/// The time between two calls.
const BETWEEN_CALLS: Duration = Duration::from_millis(5);

impl UtcLab<'_> {
    /// Calls adjtime(3) in each second, and does as [`steer`](Self::steer) does.
    pub(super) fn steer_each_second(&self, name: &str) -> io::Result<Killed> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let program = scope.spawn(|| slew_each_second(&is_over));
            let daemon = self.steer(name, 0, EACH_SECOND_US, 1);
            // ORDERING: Relaxed: the flag orders no memory.
            is_over.store(true, Ordering::Relaxed);
            program
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the slewing thread panicked")))
                .and(daemon)
        })
    }

    /// chronyd only measures the clock (`-x`), which this program steers by so many ppm, and slews
    /// by adjtime(3), by so many ppm for so many seconds. The server states no error, so that the
    /// ranges are about as narrow as an error of their rate is large. On a busy host the round trip
    /// to the server is longer, and so are the ranges. The scenario then waits for narrow ones, for
    /// at most [`PATIENCE_NARROW`].
    pub(super) fn steer(
        &self,
        name: &str,
        steered_ppm: i64,
        slewed_ppm: i64,
        slewed_s: i64,
    ) -> io::Result<Killed> {
        let ppm = steered_ppm + slewed_ppm;
        self.world.is_exact.store(true, Ordering::Relaxed); // ORDERING: orders no memory
        let start = || {
            // The unit of `freq` is 2^-16 ppm (adjtimex(2)).
            system::adjust(|clock| {
                clock.modes = libc::ADJ_FREQUENCY;
                clock.freq = steered_ppm << 16;
            })?;
            // In us, as with adjtime(3). The kernel removes a second's part each second.
            system::adjust(|clock| {
                clock.modes = libc::ADJ_OFFSET_SINGLESHOT;
                clock.offset = slewed_s * slewed_ppm;
            })?;
            start_chronyd_with(&["-x"], "")
        };
        let daemon = self.synchronise(name, 0, UtcSource::Chronyd, start, |_| {
            let mut claims = Claims::default();
            let start_ns = self.world.now_ns();
            wait_until(PATIENCE_NARROW, || {
                claims.ask(self.world, ppm);
                thread::sleep(BETWEEN_CLAIMS);
                let counts = self.counts();
                // After this, the readings end at once, so that no claim goes unasked.
                self.world.now_ns() - start_ns > STEERED_NS
                    && counts.is_narrow()
                    && counts.answered >= UTC_READINGS
            });
            Ok(Phase {
                claims: Some(claims),
                ..Phase::default()
            })
        });
        self.world.is_exact.store(false, Ordering::Relaxed); // ORDERING: orders no memory
        daemon
    }
}

/// Calls adjtime(3) before the end of each second of the kernel's, until the flag is set. The
/// kernel forgets what is left when it gets another offset. So the calls before one end count as
/// one, and one of them may be late.
fn slew_each_second(is_over: &AtomicBool) -> io::Result<()> {
    let second_ns = SECOND_NS.unsigned_abs();
    // ORDERING: Relaxed: the flag orders no memory.
    while !is_over.load(Ordering::Relaxed) {
        if second_ns - realtime_ns() % second_ns <= BEFORE_SECOND_NS {
            system::adjust(|clock| {
                clock.modes = libc::ADJ_OFFSET_SINGLESHOT;
                clock.offset = EACH_SECOND_US;
            })?;
        }
        thread::sleep(BETWEEN_CALLS);
    }
    Ok(())
}
