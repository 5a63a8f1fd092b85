//! The slow path of a reading. The time comes from a backend or from this CPU's line. Otherwise it
//! comes, by the rules of `tickline_core::shared`, from the common line while that line is valid,
//! or from the OS clock. If readers drive this clock, and calls are frequent enough to pay for an
//! iteration of the control loop, the reading runs an iteration, and reads again.
//!
//! | call | 1. backend | 2. the CPUs' lines | 3. the common line | 4. the OS clock |
//! |---|---|---|---|---|
//! | `now_slow`, `now_ordered_slow` | `now_by_backend` | `CpuLines::read_ns`, `read_ordered_ns`, else `now_by_this_cpu` | `now_by_common_line` | within 2 and 3 |
//! | `unix_slow` | `now_by_backend` | `CpuLines::read_unix_ns`, else `unix_without_cpu_line` | `unix_by_common_line` | within 2 and 3 |
//! | `reading_slow` | `reading_by_backend` | `read_ordered_bounded_by_this_cpu` | `reading_after_slow_path` | within 2 and 3, or `reading_by_os` |

use tickline_core::control::Cadence;
use tickline_core::driver::reader_may_judge_at;
use tickline_core::gate::keeper::Stage;
use tickline_core::reference::{Reference, Timescale};
use tickline_core::shared::{BoundedReading, ReadingSource, SlowReading};

use super::{Engine, to_unsigned};
use crate::instant::Instant;
use crate::per_cpu::CpuLines;
use crate::reading::{Reading, saturating_unsigned};
use crate::settings::Driver;
use crate::sys::COUNTER;
use crate::sys::reference::OsClock;
use crate::unix_time::UnixTime;

/// A monotonic time by the slow path.
struct SlowTime {
    ns: u64,
    /// The OS clock's time then, if the time comes from it, ns; else it comes from a line.
    os_ns: Option<u64>,
}

impl From<SlowReading> for SlowTime {
    fn from(reading: SlowReading) -> Self {
        Self {
            ns: saturating_unsigned(reading.ns),
            os_ns: match reading.source {
                ReadingSource::Line { .. } => None,
                ReadingSource::Reference { reference_ns } => {
                    Some(saturating_unsigned(reference_ns))
                }
            },
        }
    }
}

impl Engine {
    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn now_slow(&self) -> u64 {
        self.monotonic_slow(CpuLines::read_ns)
    }

    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn now_ordered_slow(&self) -> u64 {
        self.monotonic_slow(CpuLines::read_ordered_ns)
    }

    /// The monotonic time, by the first of these that exists: a backend, the CPUs' lines, the
    /// common line.
    fn monotonic_slow(&self, read: impl FnOnce(&CpuLines) -> Option<i64>) -> u64 {
        match self.now_by_backend(Timescale::Monotonic) {
            Some(ns) => ns,
            None => self.monotonic_without_backend(read).ns,
        }
    }

    fn monotonic_without_backend(&self, read: impl FnOnce(&CpuLines) -> Option<i64>) -> SlowTime {
        match self.cpu_lines() {
            Some(cpu_lines) => match read(cpu_lines) {
                Some(ns) => SlowTime {
                    ns: to_unsigned(ns),
                    os_ns: None,
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
            let os_ns = saturating_unsigned(OsClock.monotonic_ns());
            return SlowTime {
                ns: os_ns,
                os_ns: Some(os_ns),
            };
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
        if !self.is_judged() && self.driver() == Driver::Reader {
            _ = self.iterate(Cadence::OnDemand);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn unix_slow(&self) -> u64 {
        if let Some(ns) = self.now_by_backend(Timescale::Unix) {
            return ns;
        }
        match self.cpu_lines() {
            Some(cpu_lines) if !self.os_serves_unix() => cpu_lines
                .read_unix_ns()
                .map_or_else(|| self.unix_without_cpu_line(cpu_lines), to_unsigned),
            _ => self.unix_by_common_line(),
        }
    }

    /// The OS clock's Unix time, for a CPU without a line.
    fn unix_without_cpu_line(&self, cpu_lines: &CpuLines) -> u64 {
        // A program that reads only Unix time needs the line, too.
        let _monotonic = self.read_by_this_cpu(cpu_lines);
        unix_os_ns()
    }

    /// Unix time by the common line while it is valid, or by the OS clock. Unix time has no
    /// high-water mark, so if it comes from the OS, the monotonic clock need not be read.
    fn unix_by_common_line(&self) -> u64 {
        match self.clock.stage() {
            Stage::Closed | Stage::Disabled => unix_os_ns(),
            Stage::Open if self.os_serves_unix() => unix_os_ns(),
            stage @ (Stage::Unjudged | Stage::Open | Stage::Waiting) => self
                .unix_by_os_while_waiting(stage)
                .or_else(|| self.unix_by_valid_line())
                .unwrap_or_else(unix_os_ns),
        }
    }

    /// The OS clock's Unix time, if it serves Unix time while readers must judge the gates again
    /// when that is due. `None` at a time at which they may: a judgement needs the monotonic clock.
    fn unix_by_os_while_waiting(&self, stage: Stage) -> Option<u64> {
        if stage != Stage::Waiting || !self.os_serves_unix() {
            return None;
        }
        let unix_ns = OsClock.unix_ns();
        (!reader_may_judge_at(unix_ns)).then(|| saturating_unsigned(unix_ns))
    }

    /// Unix time by the common line, if that is valid, perhaps after an iteration as a reader.
    fn unix_by_valid_line(&self) -> Option<u64> {
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
        Some(saturating_unsigned(reading.unix_ns()))
    }

    fn now_by_backend(&self, timescale: Timescale) -> Option<u64> {
        let backend = self.backend.as_ref()?;
        Some(match timescale {
            Timescale::Monotonic => backend.now().as_nanos(),
            Timescale::Unix => backend.unix_now().as_nanos(),
        })
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
    pub(super) fn reading_slow(&self, timescale: Timescale) -> Reading<u64> {
        if let Some(reading) = self.reading_by_backend(timescale) {
            return reading;
        }
        if let Some(bounded) = self.read_ordered_bounded_by_this_cpu() {
            return Reading::from_bounded(&bounded, timescale);
        }
        if timescale == Timescale::Unix {
            let os_ns = match self.clock.stage() {
                // A closed gate leaves no iteration to run, so Unix time needs no monotonic one.
                Stage::Closed | Stage::Disabled => Some(unix_os_ns()),
                stage => self.unix_by_os_while_waiting(stage),
            };
            if let Some(os_ns) = os_ns {
                return Reading::from_os_reading(os_ns, os_ns);
            }
        }
        let monotonic = self.monotonic_without_backend(CpuLines::read_ordered_ns);
        self.reading_after_slow_path(timescale, &monotonic)
    }

    fn reading_by_backend(&self, timescale: Timescale) -> Option<Reading<u64>> {
        let backend = self.backend.as_ref()?;
        Some(match timescale {
            Timescale::Monotonic => backend.reading().map(Instant::as_nanos),
            Timescale::Unix => backend.unix_reading().map(UnixTime::as_nanos),
        })
    }

    /// A reading by this CPU's line; `None` without one.
    pub(crate) fn read_ordered_bounded_by_this_cpu(&self) -> Option<BoundedReading> {
        self.cpu_lines().and_then(CpuLines::read_ordered_bounded)
    }

    /// A reading with bounds after the slow path has returned `monotonic`: by the OS clock, or by
    /// the line that has served the slow path, which may have published it.
    fn reading_after_slow_path(&self, timescale: Timescale, monotonic: &SlowTime) -> Reading<u64> {
        if monotonic.os_ns.is_some() {
            return reading_by_os(timescale, monotonic);
        }
        let bounded = self
            .read_ordered_bounded()
            .or_else(|| self.read_ordered_bounded_while_valid())
            .or_else(|| self.read_ordered_bounded_by_this_cpu());
        match &bounded {
            Some(bounded) => Reading::from_bounded(bounded, timescale),
            None => reading_by_os(timescale, monotonic),
        }
    }
}

/// A reading with bounds by the OS clock. Its monotonic time comes from the slow path, and its
/// bounds from the read of the OS clock that the slow path has made, if it has.
fn reading_by_os(timescale: Timescale, monotonic: &SlowTime) -> Reading<u64> {
    match timescale {
        Timescale::Unix => {
            let os_ns = unix_os_ns();
            Reading::from_os_reading(os_ns, os_ns)
        }
        Timescale::Monotonic => {
            let os_ns = monotonic
                .os_ns
                .unwrap_or_else(|| saturating_unsigned(OsClock.monotonic_ns()));
            Reading::from_os_reading(monotonic.ns, os_ns)
        }
    }
}

/// The OS clock's Unix time.
fn unix_os_ns() -> u64 {
    saturating_unsigned(OsClock.unix_ns())
}
