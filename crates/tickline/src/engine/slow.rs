//! The slow path of a reading. The time comes from a backend or from this CPU's line. Otherwise it
//! comes, by the rules of `tickline_core::shared`, from the common line while that line is valid,
//! or from the OS clock. If readers drive this clock, and calls are frequent enough to pay for an
//! iteration of the control loop, the reading runs an iteration, and reads again.
//!
//! | call | 1. backend | 2. the CPUs' lines | 3. the common line | 4. the OS clock |
//! |---|---|---|---|---|
//! | `now_slow`, `now_ordered_slow` | `Backend::now` | `CpuLines::read_ns`, `read_ordered_ns`, else `now_by_this_cpu` | `now_by_common_line` | within 2 and 3 |
//! | `unix_slow` | `Backend::unix_now` | `CpuLines::read_unix_ns`, else `unix_without_cpu_line` | `unix_by_common_line` | within 2 and 3 |
//! | `reading_slow`, `unix_reading_slow` | `Backend::reading`, `unix_reading` | `read_ordered_bounded_by_this_cpu` | `read_ordered_bounded_after` | within 2 and 3, or `os_now`, `os_unix_now` |

use tickline_core::control::Cadence;
use tickline_core::driver::reader_may_judge_at;
use tickline_core::gate::keeper::Stage;
use tickline_core::reference::Reference;
use tickline_core::shared::{BoundedReading, ReadingSource, SlowReading};

use super::Engine;
use crate::instant::Instant;
use crate::per_cpu::CpuLines;
use crate::reading::Reading;
use crate::settings::Driver;
use crate::sys::COUNTER;
use crate::sys::reference::OsClock;
use crate::unix_time::UnixTime;

/// A monotonic time by the slow path. Not a [`SlowReading`], which only core can make: some of
/// these times are the OS clock's without a line, or come from a CPU's line by its fast path.
struct SlowTime {
    time: Instant,
    /// The OS clock's time then, if `time` comes from it; else `time` comes from a line.
    os_time: Option<Instant>,
}

impl SlowTime {
    /// The OS clock's time now.
    fn by_os() -> Self {
        let time = os_now();
        Self {
            time,
            os_time: Some(time),
        }
    }
}

impl From<SlowReading> for SlowTime {
    fn from(reading: SlowReading) -> Self {
        Self {
            time: Instant::from_signed_nanos(reading.ns),
            os_time: match reading.source {
                ReadingSource::Line { .. } => None,
                ReadingSource::Reference { reference_ns } => {
                    Some(Instant::from_signed_nanos(reference_ns))
                }
            },
        }
    }
}

impl Engine {
    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn now_slow(&self) -> Instant {
        self.monotonic_slow(CpuLines::read_ns)
    }

    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn now_ordered_slow(&self) -> Instant {
        self.monotonic_slow(CpuLines::read_ordered_ns)
    }

    /// The monotonic time, by the first of these that exists: a backend, the CPUs' lines, the
    /// common line.
    fn monotonic_slow(&self, read: impl FnOnce(&CpuLines) -> Option<i64>) -> Instant {
        match &self.backend {
            Some(backend) => backend.now(),
            None => self.monotonic_without_backend(read).time,
        }
    }

    fn monotonic_without_backend(&self, read: impl FnOnce(&CpuLines) -> Option<i64>) -> SlowTime {
        match self.cpu_lines() {
            Some(cpu_lines) => match read(cpu_lines) {
                Some(ns) => SlowTime {
                    time: Instant::from_signed_nanos(ns),
                    os_time: None,
                },
                None => self.now_by_this_cpu(cpu_lines),
            },
            None => self.now_by_common_line(),
        }
    }

    /// The monotonic time by this CPU's line or by the OS clock; by the common line if the table
    /// has no entry for the CPU.
    fn now_by_this_cpu(&self, cpu_lines: &CpuLines) -> SlowTime {
        match self.read_by_this_cpu(cpu_lines) {
            Some(reading) => reading.into(),
            None => self.now_by_common_line(),
        }
    }

    /// The monotonic time by the common line while it is valid, or by the OS clock.
    fn now_by_common_line(&self) -> SlowTime {
        let Some(counter) = COUNTER else {
            self.judge_without_counter();
            return SlowTime::by_os();
        };
        let mut reading = self
            .clock
            .readings()
            .read_ordered_in_any_state(&counter, &self.probed_os_clock());
        if self.iterate_as_reader(&reading) {
            reading = self
                .clock
                .readings()
                .read_ordered_in_any_state(&counter, &self.probed_os_clock());
        }
        reading.into()
    }

    /// Judges the gates, unless that was done. There is nothing to calibrate, but a judgement gives
    /// the status its reason.
    pub(super) fn judge_without_counter(&self) {
        if !self.is_judged() && self.driver() == Some(Driver::Reader) {
            _ = self.iterate(Cadence::OnDemand);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn unix_slow(&self) -> UnixTime {
        if let Some(backend) = &self.backend {
            return backend.unix_now();
        }
        match self.cpu_lines() {
            Some(cpu_lines) if !self.os_serves_unix() => match cpu_lines.read_unix_ns() {
                Some(ns) => UnixTime::saturating_from_nanos(ns),
                None => self.unix_without_cpu_line(cpu_lines),
            },
            _ => self.unix_by_common_line(),
        }
    }

    /// The OS clock's Unix time, for a CPU without a line.
    fn unix_without_cpu_line(&self, cpu_lines: &CpuLines) -> UnixTime {
        // A program that reads only Unix time needs the line, too.
        let _monotonic = self.read_by_this_cpu(cpu_lines);
        os_unix_now()
    }

    /// Unix time by the common line while it is valid, or by the OS clock. Unix time has no
    /// high-water mark, so if it comes from the OS, the monotonic clock need not be read.
    fn unix_by_common_line(&self) -> UnixTime {
        let stage = self.clock.stage();
        if stage == Stage::Open && self.os_serves_unix() {
            return os_unix_now();
        }
        self.unix_by_closed_gate(stage)
            .or_else(|| self.unix_by_valid_line())
            .unwrap_or_else(os_unix_now)
    }

    /// The OS clock's Unix time, if a gate is closed, and the reading needs no monotonic time
    /// besides: there is no iteration to run, and no judgement.
    #[inline(always)]
    fn unix_by_closed_gate(&self, stage: Stage) -> Option<UnixTime> {
        match stage {
            Stage::Closed | Stage::Disabled => Some(os_unix_now()),
            // Readers judge the gates again when that is due, which the monotonic clock says.
            Stage::Waiting if self.os_serves_unix() => {
                let unix_ns = OsClock.unix_ns();
                (!reader_may_judge_at(unix_ns)).then(|| UnixTime::saturating_from_nanos(unix_ns))
            }
            Stage::Unjudged | Stage::Open | Stage::Waiting => None,
        }
    }

    /// Unix time by the common line, if that is valid, perhaps after an iteration as a reader.
    fn unix_by_valid_line(&self) -> Option<UnixTime> {
        let monotonic = self
            .clock
            .readings()
            .read_ordered_in_any_state(&COUNTER?, &self.probed_os_clock());
        let has_iterated = self.iterate_as_reader(&monotonic);
        let has_line = has_iterated || matches!(monotonic.source, ReadingSource::Line { .. });
        if !has_line || self.os_serves_unix() {
            return None;
        }
        let reading = self.read_ordered_bounded_while_valid()?;
        Some(UnixTime::saturating_from_nanos(reading.unix_ns()))
    }

    /// An ordered reading by this CPU's line, or by the reference; `None` if the table has no entry
    /// for the CPU.
    fn read_by_this_cpu(&self, cpu_lines: &CpuLines) -> Option<SlowReading> {
        let reading = cpu_lines.read_and_report_miss()?;
        if let ReadingSource::Reference { reference_ns } = reading.source {
            self.leave_per_cpu_if_passed(cpu_lines, reference_ns);
        }
        Some(reading)
    }

    /// Returns to the common line if no thread runs, and the reference has passed every CPU's line.
    /// In a forked child, or after the thread's end, no thread renews the CPUs' lines. A child may
    /// also have lost the right to read the counter.
    fn leave_per_cpu_if_passed(&self, cpu_lines: &CpuLines, reference_ns: i64) {
        if !self.has_thread() && cpu_lines.are_all_at_most(reference_ns) {
            self.leave_per_cpu();
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn reading_slow(&self) -> Reading<Instant> {
        if let Some(backend) = &self.backend {
            return backend.reading();
        }
        if let Some(bounded) = self.read_ordered_bounded_by_this_cpu() {
            return Reading::<Instant>::from_bounded(&bounded);
        }
        let monotonic = self.monotonic_without_backend(CpuLines::read_ordered_ns);
        match self.read_ordered_bounded_after(&monotonic) {
            Some(bounded) => Reading::<Instant>::from_bounded(&bounded),
            None => {
                Reading::from_os_reading(monotonic.time, monotonic.os_time.unwrap_or_else(os_now))
            }
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn unix_reading_slow(&self) -> Reading<UnixTime> {
        if let Some(backend) = &self.backend {
            return backend.unix_reading();
        }
        if let Some(bounded) = self.read_ordered_bounded_by_this_cpu() {
            return Reading::<UnixTime>::from_bounded(&bounded);
        }
        if let Some(os_time) = self.unix_by_closed_gate(self.clock.stage()) {
            return Reading::from_os_reading(os_time, os_time);
        }
        let monotonic = self.monotonic_without_backend(CpuLines::read_ordered_ns);
        match self.read_ordered_bounded_after(&monotonic) {
            Some(bounded) => Reading::<UnixTime>::from_bounded(&bounded),
            None => {
                let os_time = os_unix_now();
                Reading::from_os_reading(os_time, os_time)
            }
        }
    }

    /// A reading by this CPU's line; `None` without one.
    pub(crate) fn read_ordered_bounded_by_this_cpu(&self) -> Option<BoundedReading> {
        self.cpu_lines().and_then(CpuLines::read_ordered_bounded)
    }

    /// A reading after the slow path has returned `monotonic`, by the line that has served it,
    /// which it may have published; `None` if the OS clock has served it.
    fn read_ordered_bounded_after(&self, monotonic: &SlowTime) -> Option<BoundedReading> {
        if monotonic.os_time.is_some() {
            return None;
        }
        self.read_ordered_bounded()
            .or_else(|| self.read_ordered_bounded_while_valid())
            .or_else(|| self.read_ordered_bounded_by_this_cpu())
    }
}

/// The OS clock's monotonic time; [`ZERO`](Instant::ZERO) if the system's library returns a
/// negative one, because a reading is not negative (`Instant::as_nanos_of_reading`).
fn os_now() -> Instant {
    not_negative(OsClock.monotonic_ns())
}

#[inline]
fn not_negative(os_ns: i64) -> Instant {
    Instant::from_signed_nanos(os_ns.max(0))
}

/// The OS clock's Unix time.
fn os_unix_now() -> UnixTime {
    UnixTime::saturating_from_nanos(OsClock.unix_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_time_of_the_os_clock_becomes_zero() {
        for os_ns in [-1, i64::MIN] {
            assert_eq!(not_negative(os_ns), Instant::ZERO, "{os_ns} ns");
        }
    }

    #[test]
    fn any_other_time_of_the_os_clock_stays_as_it_is() {
        for os_ns in [0, 1, i64::MAX] {
            let expected = Instant::from_signed_nanos(os_ns);
            assert_eq!(not_negative(os_ns), expected, "{os_ns} ns");
        }
    }
}
