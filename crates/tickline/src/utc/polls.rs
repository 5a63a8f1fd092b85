//! The code that needs the OS: the requests of the clock's thread to the sources, and the slow path
//! of a reading. Without `CLOCK_MONOTONIC_RAW`, as on systems other than Linux, no source is asked.

use core::ffi::CStr;
use core::time::Duration;

use tickline_core::counter::{HardwareCounter, resolution_ticks};
use tickline_core::gate::Clocksource;
use tickline_core::reference::Reference;
use tickline_utc::{ClaimLatch, ClaimMaker, Moment, NoClaim, RawMoment, UtcBounds};

use super::vmclock::VMCLOCK;
use crate::engine::Engine;
use crate::options::Probes;
use crate::sys::reference::OsClock;
use crate::sys::{self, COUNTER, StoppableSleep, WakeCause};

/// The attempts to read the clocks. The one that took the least time counts.
const TRIES: u32 = 8;

/// The most requests in a poll. A step, or the beginning of a slew, spoils a request.
const REQUESTS: u32 = 3;

/// The resolution of a clock whose counter's rate is not known yet, ns: the resolution of the
/// coarsest timer of a PC (`Clocksource::resolutions`).
const MAX_RESOLUTION_NS: i64 = 280;

/// The VMClock's device.
const VMCLOCK_DEVICE: &CStr = c"/dev/vmclock0";

/// The largest difference between the counters of two CPUs that the gates may miss, ns. They find a
/// difference that is larger than the time of an exchange between the CPUs: 100 ns, and some more
/// between sockets.
const CPU_DIFFERENCE_NS: i64 = 500;

/// Reads each clock at one moment, between two readings of `CLOCK_MONOTONIC_RAW`. No clock has a
/// larger resolution than `resolution_ns`.
fn read_moment(engine: &Engine, clocksource: Clocksource, resolution_ns: i64) -> Option<Moment> {
    let read_once = || {
        let raw_ns = OsClock::raw_ns()?;
        let (ticks, realtime_ns) = (engine.read_ticks(), OsClock.unix_ns());
        let width_ns = OsClock::raw_ns()?.saturating_sub(raw_ns);
        // Three readings are rounded down: of the first clock, of `CLOCK_REALTIME`, and of the
        // clock by which a reader extrapolates.
        let width_ns = width_ns
            .saturating_add(resolution_ns.saturating_mul(3))
            .saturating_add(CPU_DIFFERENCE_NS);
        let suspended_ns = OsClock.suspended_ns()?;
        let marker = VMCLOCK.marker();
        Some(Moment {
            ticks,
            raw_ns,
            realtime_ns,
            width_ns,
            suspended_ns,
            marker,
            clocksource,
        })
    };
    (0..TRIES)
        .filter_map(|_| read_once())
        .min_by_key(|moment| moment.width_ns)
}

/// The data that the clock's thread keeps from one request to the next.
#[derive(Debug, Default)]
pub(crate) struct UtcPolls {
    claim_maker: ClaimMaker,
    clocksource: Option<Clocksource>,
    /// The resolution of the counter, ticks.
    resolution_ticks: Option<u64>,
    /// When the sources were last asked, by `CLOCK_MONOTONIC_RAW`, ns.
    asked_ns: Option<i64>,
}

impl UtcPolls {
    /// Asks the sources, if it is time to, and publishes the claim. Waits at most 20 ms for each of
    /// [`REQUESTS`]. Returns whether `sleep` reported meanwhile that the clock was set; the request
    /// is then due again.
    pub(crate) fn poll(&mut self, engine: &Engine, sleep: &StoppableSleep) -> bool {
        if engine.probes() == Probes::Minimal {
            return false;
        }
        let Some(now_ns) = OsClock::raw_ns() else {
            return false;
        };
        let since_ns = self
            .asked_ns
            .map_or(i64::MAX, |asked_ns| now_ns.saturating_sub(asked_ns));
        if !self.claim_maker.is_due(since_ns) {
            return false;
        }
        if self.asked_ns.is_none() {
            VMCLOCK.map(VMCLOCK_DEVICE);
        }
        self.asked_ns = Some(now_ns);
        // The file may be unreadable for once.
        let clocksource = match (sys::clocksource(), self.clocksource) {
            (Clocksource::Unknown, Some(last)) => last,
            (read, _) => read,
        };
        self.clocksource = Some(clocksource);
        let resolution_ns = self.resolution_ns(engine, clocksource);
        let now = || read_moment(engine, clocksource, resolution_ns);
        let mut ask = || self.claim_maker.ask(&OsClock, now, OsClock::kernel_clock);
        let Some(answers) = (0..REQUESTS).find_map(|_| ask()) else {
            return false;
        };
        // A source may have answered about the time before a step. So the timer is asked after the
        // answer. A later step does not concern the claim.
        if sleep.wait(Duration::ZERO) == WakeCause::ClockSet {
            self.force_due(engine);
            return true;
        }
        let interval_ns = i64::try_from(engine.interval_ns()).unwrap_or(i64::MAX);
        self.claim_maker.publish(answers, interval_ns, &engine.utc);
        false
    }

    /// The largest step of the kernel's clock or of the counter, ns.
    fn resolution_ns(&mut self, engine: &Engine, clocksource: Clocksource) -> i64 {
        // A process that may not read the counter must not try.
        let counter =
            COUNTER.filter(|_| self.resolution_ticks.is_none() && engine.read_ticks().is_some());
        if let Some(counter) = counter {
            self.resolution_ticks = Some(resolution_ticks(&counter));
        }
        let ticks = self.resolution_ticks.unwrap_or(1);
        let by_counter_ns = self
            .claim_maker
            .longest_ns(ticks)
            .unwrap_or(MAX_RESOLUTION_NS);
        let by_os = clocksource.resolutions(HardwareCounter::CLOCKSOURCE, 0);
        by_os.reference_ns.max(by_counter_ns).saturating_add(1)
    }

    /// Withdraws the claim, because nobody will notice a suspend any more. A reader by the counter
    /// does not ask whether the clock has a thread.
    pub(crate) fn end(self, engine: &Engine) {
        engine.utc.withdraw(NoClaim::NoSource);
    }

    /// Makes a request due, because the machine resumed, or the OS clock was set. Withdraws the
    /// claim until a source is believed: the counter may have stood still during a suspend, and the
    /// kernel may have set its clock before the last request, but told nobody yet.
    pub(crate) fn force_due(&mut self, engine: &Engine) {
        self.asked_ns = None;
        self.claim_maker.record_clock_set();
        engine.utc.withdraw(NoClaim::Disrupted);
    }
}

/// A reading without the counter, which does not serve, or by which the claim has ended.
#[cold]
pub(super) fn bounds_by_os(latch: &ClaimLatch) -> Result<UtcBounds, NoClaim> {
    latch.by_raw(|| {
        let raw_ns = OsClock::raw_ns()?;
        // Read afterwards, so that they show a move or a suspend before that reading.
        Some(RawMoment {
            raw_ns,
            marker: VMCLOCK.marker(),
            suspended_ns: OsClock.suspended_ns(),
        })
    })
}
