//! Observes a clock in phases. In each phase it takes bracketed readings while an act takes place.

use std::thread;
use std::time::Duration;

use tickline::{Clock, ClockState};
use tickline_observe::{monotonic_ns, wait_until};

use crate::agreed::Awaits;
use crate::brackets::{Brackets, comparison};
use crate::phase::{Phase, Waited};
use crate::readers::Readers;
use crate::{machine, report};

/// The number of brackets in a row, and the pause between two rows. The pause leaves most of the
/// CPUs' time to the readers.
const ROW: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// The longest wait for an event. On a busy machine a comparison of the counters may take several
/// attempts. `cargo xtask vm` decides which events it expects, and how soon.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A clock, and the threads that read it.
#[derive(Debug)]
pub(crate) struct Lab<'a> {
    pub(crate) clock: &'a Clock,
    pub(crate) readers: &'a Readers,
    pub(crate) awaits: Awaits,
}

impl Lab<'_> {
    /// Takes brackets while another thread does `work`, and reports a phase with the results of
    /// both.
    pub(crate) fn phase(&self, name: &str, work: impl FnOnce() -> Phase + Send) {
        let start_ns = monotonic_ns();
        let counts = self.readers.counts();
        let mut brackets = Brackets::default();
        let done = thread::scope(|scope| {
            let worker = scope.spawn(work);
            while !worker.is_finished() {
                brackets.take_row(self.clock, ROW);
                thread::sleep(PAUSE);
            }
            worker.join().unwrap_or_else(|_| Phase {
                error: Some("panicked".to_owned()),
                ..Phase::default()
            })
        });
        // On a busy host the clock's thread may be late, so that the line ends. The brackets count
        // these rows; here the guest waits for the next line.
        wait_until(PATIENCE, || {
            self.clock.status().state != ClockState::Calibrating
        });
        let status = self.clock.status();
        report::send(Phase {
            name: name.to_owned(),
            ms: Some((monotonic_ns() - start_ns) / 1_000_000),
            clocksource: Some(machine::clocksource()),
            watched: Some(brackets.report(&status)),
            comparison: Some(comparison(status.comparison)),
            readers: Some(self.readers.counts().since(&counts)),
            ..done
        });
    }

    /// Takes brackets for `time`.
    pub(crate) fn watch(&self, name: &str, time: Duration) {
        self.phase(name, || {
            thread::sleep(time);
            Phase::default()
        });
    }

    /// Whether the clock has the state on the command line.
    fn is_settled(&self) -> bool {
        match self.awaits {
            Awaits::Fast => self.clock.status().state == ClockState::Fast,
            Awaits::Fallback => matches!(self.clock.status().state, ClockState::Fallback(_)),
        }
    }

    /// Takes brackets until the clock has the state on the command line, but at most for
    /// [`PATIENCE`]. Then takes brackets for one more second.
    pub(crate) fn watch_until_settled(&self, phase: &str) {
        self.phase(phase, || {
            let waited = wait_for(PATIENCE, || self.is_settled());
            thread::sleep(Duration::from_secs(1));
            Phase {
                waited: Some(waited),
                ..Phase::default()
            }
        });
    }
}

/// Waits until `happened` is true, but for at most `time`. Returns whether it became true, and
/// after how much of the guest's time.
pub(crate) fn wait_for(time: Duration, happened: impl FnMut() -> bool) -> Waited {
    let start_ns = monotonic_ns();
    let reached = wait_until(time, happened);
    Waited {
        reached,
        after_us: (monotonic_ns() - start_ns) / 1_000,
    }
}
