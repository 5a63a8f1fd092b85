//! Prepares the process for measurements, and makes the measurements that several commands share.
//!
//! `PR_SET_TSC` may have denied the counter to the process. Then a call of a libc or std clock
//! raises SIGSEGV where the vDSO reads the counter. The measurements call these clocks, so the
//! program gives itself the right to read the counter. It does so after tickline has judged its
//! gates, because the verdicts are about the rights with which the process was started.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tickline::{Clock, ClockGuard};

use crate::document::Document;
use crate::machine::{self, HostClock};
use crate::measure::calls::{self, Call};
use crate::measure::costs::{self, CostRow};
use crate::measure::served_by::{self, ServedBy, ServedByClock};
use crate::measure::track::{self, TrackSummary};
use crate::measure::{admitted_counter, resolution, skew, standstill, status_when, utc};
use crate::progress::Progress;

/// Where two parts of [`Setup::measure`] end on the progress bar, from 0.0 to 1.0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// The tracking of the offset.
    pub(crate) tracked: f64,
    /// The costs, which come next.
    pub(crate) measured: f64,
}

/// A process that is ready to measure, and the rights with which it was started.
#[derive(Debug)]
pub(crate) struct Setup {
    counter_readable: Option<bool>,
    served_by: Result<ServedByClock, String>,
    /// Keeps the global clock's thread running. The error says why there is no thread.
    guard: Result<ClockGuard, String>,
}

impl Setup {
    /// For commands that measure clocks: finds out whether the vDSO or the kernel answers each
    /// clock, and starts the global clock. The command must call this first, because an earlier
    /// call of a libc or std clock would end a process to which `PR_SET_TSC` denies the counter.
    ///
    /// # Errors
    ///
    /// If `CLOCK_MONOTONIC` stands still or hardly moves, because then no measurement ends.
    pub(crate) fn start() -> io::Result<Self> {
        // This comes before `start_clock`, because the filtered processes must inherit the rights
        // with which this process was started.
        let served_by = served_by::find();
        Ok(Self {
            served_by,
            ..Self::start_clock()?
        })
    }

    /// For commands that measure only tickline's clock. They also call this first.
    ///
    /// The threads of the clock and of UTC keep the rights with which the process was started. Then
    /// this thread, and each thread that it starts, may read the counter. If the clock's thread
    /// cannot be started, the readers drive the clock.
    ///
    /// # Errors
    ///
    /// If `CLOCK_MONOTONIC` stands still or hardly moves, because then no measurement ends.
    pub(crate) fn start_clock() -> io::Result<Self> {
        let counter_readable = machine::may_read_counter();
        if counter_readable != Some(false) {
            // The waits of the start would take minutes.
            standstill::check_pace()?;
        }
        let guard = tickline::start().map_err(|error| error.to_string());
        if guard.is_err() {
            Clock::global().maintain();
        }
        utc::start();
        // The clock judges its gates about 60 us after its start.
        status_when(|status| status.is_judged, Duration::from_millis(200));
        if counter_readable == Some(false) {
            machine::allow_counter();
        }
        standstill::check(admitted_counter().ok())?;
        Ok(Self {
            counter_readable,
            served_by: Ok(BTreeMap::new()),
            guard,
        })
    }

    /// Tracks the offset for `duration`, and in a guest the rate against the host's clock, measures
    /// the clocks, and collects the facts. The caller makes the findings, because it may measure
    /// more before.
    ///
    /// The comparison of the CPUs' counters must have ended, or two runs would have two results.
    /// Then the tracking comes first. It gives the clock's thread time to settle, so the costs are
    /// the costs of the steady state.
    ///
    /// # Errors
    ///
    /// As [`Setup::document`].
    pub(crate) fn measure(
        &self,
        command: &'static str,
        duration: Duration,
        progress: &Progress,
        ends: Shares,
    ) -> io::Result<Document> {
        costs::wait_for_comparison();
        let host_before = machine::host_clock_now();
        let track = track::track(
            duration,
            progress.part("offset and bound", 0.0, ends.tracked),
        );
        let host_after = machine::host_clock_now();
        let calls = self.calls();
        let mut costs = costs::measure(
            &calls,
            costs::ROUNDS,
            progress.part("costs", ends.tracked, ends.measured),
        );
        resolution::measure(&mut costs, &calls);
        let mut document = self.document(command, costs, Some(track))?;
        document.host_clock = host_before
            .zip(host_after)
            .and_then(|(before, after)| HostClock::between(&before, &after));
        Ok(document)
    }

    /// Every call. A call that ends a process with the inherited rights is not measured.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let mut calls = calls::all(admitted_counter().ok());
        for call in &mut calls {
            if self.served_by(call.name) == Some(ServedBy::Nobody) {
                *call = Call::not_made(call.name);
            }
        }
        calls
    }

    /// A document with these measurements, the facts, and the answerer of each clock.
    ///
    /// # Errors
    ///
    /// If `CLOCK_MONOTONIC` has come to stand still during the measurements, or hardly moves.
    pub(crate) fn document(
        &self,
        command: &'static str,
        mut costs: Vec<CostRow>,
        track: Option<TrackSummary>,
    ) -> io::Result<Document> {
        standstill::check(admitted_counter().ok())?;
        for row in &mut costs {
            row.served_by = self.served_by(&row.clock);
        }
        let mut document = Document::new(command, costs, track);
        document.served_unknown = self.served_by.as_ref().err().cloned();
        document.machine.clock_gettime_skew_ppb = Some(skew::measure_ppb());
        document.machine.counter_readable = self.counter_readable;
        document.clock.thread_error = self.guard.as_ref().err().cloned();
        Ok(document)
    }

    fn served_by(&self, clock: &str) -> Option<ServedBy> {
        self.served_by.as_ref().ok()?.get(clock).copied()
    }
}
