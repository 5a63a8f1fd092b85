//! What a reading does if the inlined path refuses: the time of a page, this CPU's line, or the
//! slow path. And the thread's iterations for the CPUs' lines.

use tickline_core::control::{Config, DrivenBy};
use tickline_core::gate::keeper::Lines;
use tickline_core::sample::Reference;
use tickline_core::shared::{LineReading, Source};

use super::{Engine, saturating_unsigned, to_unsigned};
use crate::per_cpu::Table;
use crate::per_cpu::pass::CpuPass;
use crate::sys::ClockSetNotifier;
use crate::sys::reference::OsClock;

impl Engine {
    /// The lines of the CPUs, if there is one for each, and the gates are open.
    #[inline(always)]
    pub(crate) fn per_cpu_table(&self) -> Option<&Table> {
        if self.keeper.lines() == Some(Lines::PerCpu) { self.cpu_lines.get() } else { None }
    }

    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn now_otherwise(&self) -> u64 {
        self.read_by_cpu(Table::read)
    }

    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn now_ordered_otherwise(&self) -> u64 {
        self.read_by_cpu(Table::read_ordered)
    }

    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn unix_otherwise(&self) -> u64 {
        if let Some(page) = &self.page {
            return saturating_unsigned(page.unix_ns());
        }
        match self.per_cpu_table().filter(|_| !self.os_serves_unix()) {
            Some(table) => table.read_unix().map_or_else(|| self.unix_by_cpu_slow(table), to_unsigned),
            None => self.unix_slow(),
        }
    }

    /// The monotonic time: by this CPU's line, or else by the slow path.
    fn read_by_cpu(&self, read: impl FnOnce(&Table) -> Option<i64>) -> u64 {
        if let Some(page) = &self.page {
            return saturating_unsigned(page.monotonic_ns());
        }
        match self.per_cpu_table() {
            Some(table) => match read(table) {
                Some(ns) => to_unsigned(ns),
                None => self.now_by_cpu_slow(table),
            },
            None => self.now_slow(),
        }
    }

    pub(crate) fn bounds_by_cpu(&self) -> Option<LineReading> {
        self.per_cpu_table().and_then(Table::read_bounds)
    }

    #[cold]
    #[inline(never)]
    fn now_by_cpu_slow(&self, table: &Table) -> u64 {
        let Some((ns, source)) = table.read_slow() else { return self.now_slow() };
        if let Source::Reference { reference_ns } = source
            && !self.has_thread()
            && table.is_passed_by(reference_ns)
        {
            // Nobody renews the CPUs' lines in a forked child, or when the thread has ended. A
            // child may have lost the right to read the counter, too.
            self.leave_per_cpu();
        }
        saturating_unsigned(ns)
    }

    /// The OS clock's Unix time, where this CPU's line does not serve.
    #[cold]
    #[inline(never)]
    fn unix_by_cpu_slow(&self, table: &Table) -> u64 {
        // For what it does beside the reading: it asks the thread for a line, or gives the CPUs'
        // lines up. A program that reads Unix time alone needs that as well.
        self.now_by_cpu_slow(table);
        saturating_unsigned(OsClock.realtime_ns())
    }

    /// The thread's pass over the CPUs: calibrates those that are due. Returns the time until the
    /// next CPU is due, ns; `None` as [`maintain`](Self::maintain).
    pub(crate) fn calibrate_cpus(&self, pass: &mut CpuPass, notifier: &ClockSetNotifier) -> Option<u64> {
        let Some(table) = self.cpu_lines.made() else {
            return self.maintain(DrivenBy::Timer).map(|iteration| iteration.next_in_ns);
        };
        self.keeper.set_lines(Lines::PerCpu);
        let (control_loop, lines) = self.lock_judged()?;
        if lines == Lines::Common {
            return None; // somebody has left the CPUs' lines again
        }
        let config = control_loop.control.config;
        Some(pass.run(table, &Config { interval_ns: self.interval_ns(), ..config }, notifier))
    }

    /// No line for each CPU from now on. A pass holds the clock's lock, so the first common line
    /// comes after it.
    pub(crate) fn leave_per_cpu(&self) {
        self.keeper.set_lines(Lines::Common);
    }
}
