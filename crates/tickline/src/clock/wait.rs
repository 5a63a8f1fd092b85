//! Waits until it is decided which clock readings come from, for a program's first log line.

use core::hint::black_box;
use core::time::Duration;

use tickline_core::gate::Reason;

use crate::clock::Clock;
use crate::settings::{Driver, Probes};
use crate::status::{ClockState, Status};
use crate::sys::reference::HAS_CLOCK;

/// The pause between two reads of the status. A thread has judged and calibrated after some
/// milliseconds.
const PAUSE: Duration = Duration::from_millis(1);

/// The readings before each read of the status. A clock that readers drive begins its first
/// judgement once 9 readings have come in a row, and then does a step of it in each reading. If a
/// step takes so long that the row is broken, the next one needs 9 readings anew: for all steps
/// about 90.
const READINGS: u32 = 100;

/// The further reads of a decided status that lacks the bound or the figures. The bound can't be
/// read while the driver replaces the line, for some microseconds, or is late to do so, on a busy
/// machine; the figures come after the first line.
const FURTHER_READS: u32 = 3;

impl Clock {
    /// Waits until it is decided whether readings come from the counter, for `timeout` at most, and
    /// returns the status: for the line of a log that says which clock a program uses, and why. A
    /// clock calibrates for some milliseconds after its start; until then its state is
    /// [`Calibrating`](ClockState::Calibrating).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::Clock;
    ///
    /// # fn main() -> Result<(), tickline::Error> {
    /// let _thread = tickline::start()?;
    /// let status = Clock::global().wait_until_decided(Duration::from_secs(1));
    /// println!("{status}"); // one line
    /// if !status.reads_counter() {
    ///     println!("readings cost up to twice as much as the OS clock's");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The call makes 100 readings, reads the status and sleeps for 1 ms, in a loop. It measures
    /// the timeout by its sleeps, not by a clock: it sleeps for `timeout` in all, and takes longer
    /// on a machine that wakes threads late. A process that can't read the counter may therefore
    /// call it. Under a seccomp filter it needs the system call of [`std::thread::sleep`] besides
    /// the calls that readings make. With a timeout of 0 the call reads the status once, and does
    /// not sleep. With [`Duration::MAX`] the call may never return. It can't fail, and is not for
    /// signal handlers. `async` code waits before its runtime starts.
    ///
    /// | | the call |
    /// |---|---|
    /// | the clock's thread drives it | waits for the thread |
    /// | readers drive it, as in a forked child | makes the readings that calibrate the clock, even if nobody else reads it. How long the clock stays calibrated depends on the program's readings |
    /// | the program drives it ([`Driver::Manual`]) | also calls [`maintain`](Self::maintain) at each read of the status |
    /// | a [`Backend`](crate::backend::Backend) serves it | waits while the backend's state is `Calibrating` |
    /// | a mock, a disabled clock, a system without a clock | returns at once |
    ///
    /// If the timeout ends the wait, the state is `Calibrating`, or
    /// [`Fallback`](ClockState::Fallback) with a reason that may go away within seconds:
    /// [`Untested`](Reason::Untested) while the thread compares the CPUs' counters,
    /// [`KernelUndecided`](Reason::KernelUndecided) just after the machine's start,
    /// [`SamplesTooOld`](Reason::SamplesTooOld) or [`NoLine`](Reason::NoLine) on a busy machine; or
    /// with any reason, if the clock is to be judged again ([`is_judged`](Status::is_judged) is
    /// false). Any other reason ends the wait. So does the state
    /// [`Disrupted`](ClockState::Disrupted), in which readings come from the counter.
    ///
    /// The comparison takes 20 ms a CPU or more: with 100 CPUs at least 2 s, so allow 5 s. A clock
    /// needs it where the kernel does not keep time with the counter, and where the system does not
    /// say so (Windows).
    ///
    /// With a line for each CPU the call waits until the CPU on which it runs has one, or has gone
    /// without for 15 s ([`CpuStatus::state`](crate::CpuStatus::state)), or all CPUs' lines have
    /// ended, as in a forked child. Other CPUs may have none yet ([`Status::per_cpu`]): readings
    /// come from the OS clock there, also those of this thread, if it is moved. If the timeout ends
    /// this wait, the state is [`Fast`](ClockState::Fast), and the status has no bound.
    ///
    /// The status has no bound while the line is being replaced, for some microseconds, or while
    /// its driver is late to replace it, on a busy machine. The call then reads the status up to
    /// three times more, so that the log has the bound; it may still have none.
    ///
    /// The decision holds at this moment: a later [`status`](Self::status) may have another.
    #[must_use = "the status says which clock readings come from; without it the call only waits"]
    pub fn wait_until_decided(&self, timeout: Duration) -> Status {
        let mut left = timeout;
        let mut further_reads = FURTHER_READS;
        loop {
            for _ in 0..READINGS {
                black_box(self.now());
            }
            if self.engine().driver() == Some(Driver::Manual) {
                self.maintain();
            }
            let awaits_line = || self.engine().awaits_line_of_this_cpu();
            let (status, awaits_line) = read_between(awaits_line, || self.status());
            // Without a clock a system may have no sleep either.
            if left.is_zero() || !HAS_CLOCK {
                return status;
            }
            let lacks_line = awaits_line && status.reads_counter() && status.bound_ns.is_none();
            if status.is_decided(self.probes()) && !lacks_line {
                if !status.lacks_figures() || further_reads == 0 {
                    return status;
                }
                further_reads -= 1;
            }
            let pause = PAUSE.min(left);
            std::thread::sleep(pause);
            left = left.saturating_sub(pause);
        }
    }
}

/// Reads a status, and says whether `awaits_line` holds before or after that. The line may come
/// while the status is read, or this thread move to another CPU.
fn read_between<T>(awaits_line: impl Fn() -> bool, read: impl FnOnce() -> T) -> (T, bool) {
    let awaits_before = awaits_line();
    let status = read();
    (status, awaits_before || awaits_line())
}

impl Status {
    /// Whether the state stays as it is for longer than some seconds, unless something happens to
    /// the machine. `probes` are the clock's.
    fn is_decided(&self, probes: Probes) -> bool {
        match self.state {
            ClockState::Calibrating => false,
            // There may be no judgement as long as the driver is stopped. It may only be slow, but
            // has been so for more than a second.
            ClockState::Fallback(Reason::DriverStopped) => true,
            ClockState::Fallback(reason) => {
                let compares = self.driver == Some(Driver::Thread) && probes == Probes::Full;
                let is_final = !reason.is_temporary() || (reason == Reason::Untested && !compares);
                self.is_judged && is_final
            }
            ClockState::Fast
            | ClockState::Disrupted
            | ClockState::Unavailable
            | ClockState::Backend
            | ClockState::BackendFallback(_)
            | ClockState::Mock => true,
        }
    }

    /// Whether readings come from a line, but the bound or the figures could not be read, because
    /// the line is being replaced, or late to be replaced, or has just been made. A backend has no
    /// line.
    fn lacks_figures(&self) -> bool {
        self.reads_counter() && self.frequency_hz.is_some() != self.bound_ns.is_some()
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    /// The status of a clock in this state that has judged its gates.
    fn status(state: ClockState, driver: impl Into<Option<Driver>>) -> Status {
        let mut status = Clock::default().status();
        status.state = state;
        status.is_judged = true;
        status.driver = driver.into();
        status
    }

    #[test]
    fn a_clock_that_calibrates_is_not_decided() {
        let status = status(ClockState::Calibrating, Driver::Thread);
        assert!(!status.is_decided(Probes::Full));
    }

    #[test]
    fn every_state_but_calibrating_and_fallback_is_decided() {
        for state in [
            ClockState::Fast,
            ClockState::Disrupted,
            ClockState::Unavailable,
            ClockState::Backend,
            ClockState::BackendFallback("its source is gone"),
            ClockState::Mock,
        ] {
            let status = status(state, Driver::Thread);
            assert!(status.is_decided(Probes::Full), "{state}");
        }
    }

    #[test]
    fn a_reason_that_may_go_away_by_itself_decides_nothing() {
        for reason in Reason::ALL.iter().copied() {
            let may_go_away = matches!(
                reason.code(),
                "untested" | "kernel_undecided" | "samples_too_old" | "no_line"
            );
            let status = status(ClockState::Fallback(reason), Driver::Thread);
            assert_eq!(status.is_decided(Probes::Full), !may_go_away, "{reason:?}");
        }
    }

    #[test]
    fn a_clock_that_can_not_compare_the_counters_is_decided() {
        let untested = ClockState::Fallback(Reason::Untested);
        for (driver, probes) in [
            (None, Probes::Full),
            (Some(Driver::Reader), Probes::Full),
            (Some(Driver::Manual), Probes::Full),
            (Some(Driver::Thread), Probes::Minimal),
        ] {
            let status = status(untested, driver);
            assert!(status.is_decided(probes), "{driver:?}, {probes:?}");
        }
    }

    #[test]
    fn a_stopped_driver_ends_the_wait_before_the_first_judgement() {
        let mut status = status(ClockState::Fallback(Reason::DriverStopped), Driver::Thread);
        status.is_judged = false;
        assert!(status.is_decided(Probes::Full));
    }

    /// The verdicts of an earlier judgement are shown until the next one.
    #[test]
    fn a_fallback_that_is_being_judged_again_is_not_decided() {
        let mut status = status(ClockState::Fallback(Reason::Slow), Driver::Thread);
        status.is_judged = false;
        assert!(!status.is_decided(Probes::Full));
    }

    /// Symptom: a thread that moved to a CPU without a line just before it read the status waited
    /// no longer.
    #[test]
    fn a_line_is_awaited_if_it_is_before_or_after_the_status_is_read() {
        for (before, after, expected) in [
            (false, false, false),
            (true, false, true),
            (false, true, true),
        ] {
            let awaits_line = Cell::new(before);
            let ((), awaited) = read_between(|| awaits_line.get(), || awaits_line.set(after));
            assert_eq!(awaited, expected, "{before}, then {after}");
        }
    }

    /// A fast clock with this frequency and this bound.
    fn fast(frequency_hz: Option<u64>, bound_ns: Option<u64>) -> Status {
        let mut status = status(ClockState::Fast, Driver::Thread);
        status.frequency_hz = frequency_hz;
        status.bound_ns = bound_ns;
        status
    }

    #[test]
    fn a_line_that_is_being_replaced_lacks_its_bound() {
        assert!(fast(Some(1_000_000_000), None).lacks_figures());
    }

    #[test]
    fn a_line_that_has_just_been_made_lacks_its_figures() {
        assert!(fast(None, Some(12)).lacks_figures());
    }

    #[test]
    fn a_line_with_a_bound_and_figures_lacks_none() {
        assert!(!fast(Some(1_000_000_000), Some(12)).lacks_figures());
    }

    /// Nothing would end the wait for it.
    #[test]
    fn a_clock_without_a_line_lacks_no_figures() {
        assert!(!fast(None, None).lacks_figures());
        let mut calibrating = fast(Some(1_000_000_000), None);
        calibrating.state = ClockState::Calibrating;
        assert!(!calibrating.lacks_figures());
    }
}
