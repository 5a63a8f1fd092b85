//! The text of a status.

use core::fmt;

use tickline_core::comparison::CounterComparison;
use tickline_core::gate::Reason;

use super::{ClockState, Status};
use crate::environment::EnvironmentSwitch;
use crate::settings::Driver;

/// One line for a log: the state, the bound, the counter's frequency, and what explains them:
///
/// | if | then also |
/// |---|---|
/// | readers drive a fast clock with one line for all CPUs | that it stays fast only while they read often |
/// | the clock has no line | whether it had one; with readers or the program as its driver, what ends that |
/// | only Unix time comes from the OS clock | the reason |
/// | the counter is slow | what a read of it costs, and one of the OS clock |
/// | the counter ticks too slowly | its frequency |
/// | samples are too old | the age of one, and the limit |
/// | counters differ | the CPUs, and by how much |
/// | the variable `TICKLINE` has a value that is ignored | the values that it may have |
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.write(f, self.driver)?;
        let parts = [
            self.end_of_fast(),
            self.end_of_calibrating(),
            self.ended_line(),
            self.bound(),
            self.frequency(),
            self.reason_for_unix_time(),
            self.costs(),
            self.slow_counter(),
            self.old_sample(),
            self.different_counters(),
            self.ignored_variable(),
        ];
        for part in parts.into_iter().flatten() {
            write!(f, "; {part}")?;
        }
        Ok(())
    }
}

/// The parts of the text. Each is `None` where it would explain nothing.
impl Status {
    fn end_of_fast(&self) -> Option<String> {
        // Readers renew the common line alone.
        let by_readers = self.driver == Some(Driver::Reader) && self.per_cpu.is_empty();
        (self.state == ClockState::Fast && by_readers)
            .then(|| "only while readings are frequent, as the clock has no thread".to_owned())
    }

    fn end_of_calibrating(&self) -> Option<String> {
        if self.state != ClockState::Calibrating {
            return None;
        }
        let text = match self.driver? {
            Driver::Reader => {
                "that takes frequent readings, or a clock with a thread (tickline::start() gives \
                 the global clock one)"
            }
            Driver::Manual => "that takes the program's calls of Clock::maintain()",
            Driver::Thread => return None,
        };
        Some(text.to_owned())
    }

    fn ended_line(&self) -> Option<String> {
        let had_line = self.frequency_hz.is_some();
        (self.state == ClockState::Calibrating && had_line)
            .then(|| "the last calibration has run out".to_owned())
    }

    fn bound(&self) -> Option<String> {
        if let Some(bound_ns) = self.bound_ns {
            return Some(format!("bound {bound_ns} ns"));
        }
        // Only the slow path still uses the line, or the next one is not complete.
        (self.frequency_hz.is_some() && self.reads_counter())
            .then(|| "no bound until the next recalibration".to_owned())
    }

    fn frequency(&self) -> Option<String> {
        self.frequency_hz.map(|hz| format!("counter {hz} Hz"))
    }

    /// The reason, if monotonic time may come from the counter.
    fn reason_for_unix_time(&self) -> Option<String> {
        if self.reason().is_some() {
            return None;
        }
        let reason = self.unix_reason()?;
        Some(format!(
            "Unix time comes from the OS clock, because {reason}"
        ))
    }

    fn costs(&self) -> Option<String> {
        let (Some(Reason::Slow | Reason::SlowForUnixTime), Some(cost)) =
            (self.unix_reason(), self.cost)
        else {
            return None;
        };
        let [counter, os, os_unix] = [cost.counter_ps, cost.os_ps, cost.os_unix_ps].map(Nanos);
        Some(format!(
            "a read of the counter takes {counter}, one of the OS clock {os} \
             (of Unix time {os_unix})"
        ))
    }

    fn slow_counter(&self) -> Option<String> {
        if self.reason() != Some(Reason::CounterTooSlow) {
            return None;
        }
        let hz = self.too_slow_counter_hz?;
        Some(format!("it ticks at {hz} Hz"))
    }

    fn old_sample(&self) -> Option<String> {
        if self.reason() != Some(Reason::SamplesTooOld) {
            return None;
        }
        let sample = self.too_old_sample?;
        Some(format!(
            "a sample was {} ns old when it was complete, and may be {} ns old",
            sample.age_ns, sample.limit_ns
        ))
    }

    fn different_counters(&self) -> Option<String> {
        if self.reason() != Some(Reason::Unsynchronised) {
            return None;
        }
        let CounterComparison::Unsynchronised {
            cpu,
            other_cpu,
            difference,
        } = self.comparison
        else {
            return None;
        };
        Some(format!(
            "the counters of CPUs {cpu} and {other_cpu} differ by at least {} ticks",
            difference.smallest_ticks()
        ))
    }

    fn ignored_variable(&self) -> Option<String> {
        (self.environment == EnvironmentSwitch::Unrecognised).then(|| {
            "TICKLINE is ignored: its value is neither `on` nor `off` (small letters)".to_owned()
        })
    }
}

/// A duration in picoseconds, shown in nanoseconds.
struct Nanos(u64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} ns", self.0 / 1_000, self.0 % 1_000 / 100)
    }
}
