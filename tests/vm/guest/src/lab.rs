//! A clock under observation: phases of looks while something happens.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tickline::Clock;

use crate::look::{Look, state_name};
use crate::readers::Readers;
use crate::system::monotonic_ns;
use crate::{machine, report};

/// Looks in a row, and the pause between two such rows: the readers are to have most of the CPUs.
const ROW: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// How long anything is waited for: on a busy machine a comparison of the counters may take several tries. What is expected,
/// and how soon, is not decided here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The pause between two questions for something that is to happen.
const POLL: Duration = Duration::from_micros(200);

/// A clock, and those who read it.
#[derive(Debug)]
pub(crate) struct Lab<'a> {
    pub(crate) clock: &'a Clock,
    pub(crate) readers: &'a Readers,
    /// The name of the state that is worth waiting for.
    pub(crate) awaits: &'a str,
}

impl Lab<'_> {
    /// Looks while `work` is done on another thread, and reports both.
    pub(crate) fn phase(&self, name: &str, work: impl FnOnce() -> Value + Send) {
        let (start_ns, counts) = (monotonic_ns(), self.readers.counts());
        let mut look = Look::new(self.clock);
        let done = thread::scope(|scope| {
            let worker = scope.spawn(work);
            while !worker.is_finished() {
                look.row(self.clock, ROW);
                thread::sleep(PAUSE);
            }
            worker.join().unwrap_or_else(|_| json!({ "error": "panicked" }))
        });
        let mut seen = look.report(self.clock);
        seen["phase"] = name.into();
        seen["ms"] = ((monotonic_ns() - start_ns) / 1_000_000).into();
        seen["clocksource"] = machine::clocksource().into();
        seen["readers"] = self.readers.counts().since(&counts);
        seen["work"] = done;
        report::line(&seen);
    }

    /// Looks for `time`.
    pub(crate) fn watch(&self, name: &str, time: Duration) {
        self.phase(name, || {
            thread::sleep(time);
            Value::Null
        });
    }

    /// Looks until the clock's state is the one that was announced, but no longer than `time`, and then for a second more.
    pub(crate) fn watch_until_settled(&self, name: &str, time: Duration) {
        self.phase(name, || {
            let reached = wait_for(time, || state_name(self.clock.status().state) == self.awaits);
            thread::sleep(Duration::from_secs(1));
            reached
        });
    }
}

/// Waits until `happened`, for at most `time`: whether it did, and after how many microseconds of the guest's time.
pub(crate) fn wait_for(time: Duration, mut happened: impl FnMut() -> bool) -> Value {
    let start_ns = monotonic_ns();
    loop {
        let reached = happened();
        let waited_us = (monotonic_ns() - start_ns) / 1_000;
        if reached || u128::from(waited_us) > time.as_micros() {
            return json!({ "reached": reached, "after_us": waited_us });
        }
        thread::sleep(POLL);
    }
}
