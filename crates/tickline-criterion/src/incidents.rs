//! What happened while samples were taken.

use std::fmt;

use tickline::{Event, State};

/// What happened while samples were taken, counted since the [`CounterTime`](crate::CounterTime)
/// was made. Its text is printed when the last clone of that is dropped: a line for each kind of
/// incident, and none if nothing happened.
///
/// ```
/// use criterion::measurement::Measurement;
/// use tickline_criterion::CounterTime;
///
/// let time = CounterTime::builder().quiet().start_or_wall_time();
/// let _ns = time.to_f64(&time.end(time.start()));
/// let incidents = time.incidents();
/// println!("{incidents}"); // nothing, as a rule
/// assert!(incidents.moved <= incidents.samples);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incidents {
    /// Samples that were converted into ns.
    pub samples: u64,
    /// Samples in which a pair of readings began on one CPU and ended on another. A move away and
    /// back, or between two pairs, is not noticed; nor is any move where the CPU's id does not
    /// come with the counter (aarch64).
    pub moved: u64,
    /// Samples in which the counter stepped back: the CPUs' counters are unsynchronised, or were
    /// reset.
    pub backwards: u64,
    /// Disturbed samples. tickline's clock noticed an event between the conversion of the sample
    /// before and that of this one, or did not vouch for the counter at one of the two. The clock
    /// notices an event within half a second, so it may have happened during the sample, or shortly
    /// before. The text at the end also counts the last sample if the clock noticed an event after
    /// it.
    pub disturbed: u64,
    /// The events, and how often each happened.
    pub events: Vec<(Event, u64)>,
    /// The clock's state at the last sample before or after which its readings came from the OS
    /// clock, because a gate was closed or there was no line. The counter still timed that sample.
    pub fallback_state: Option<State>,
}

impl fmt::Display for Incidents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        let Self { samples, moved, backwards, disturbed, .. } = self;
        if *moved > 0 {
            lines.push(format!(
                "{moved} of {samples} samples contain a move of the thread to another CPU; to avoid that, bind it to one"
            ));
        }
        if *backwards > 0 {
            lines.push(format!(
                "{backwards} of {samples} samples are too short, because the counter stepped back: the results cannot be trusted"
            ));
        }
        if *disturbed > 0 {
            let mut causes: Vec<String> =
                self.events.iter().map(|(event, count)| format!("{} {count}", event.code())).collect();
            let unvouched = |state| format!("it did not vouch for the counter: {state}");
            causes.extend(self.fallback_state.map(unvouched));
            lines.push(format!(
                "{disturbed} of {samples} samples coincide with a disturbance of the clock, to be repeated: {}",
                causes.join(", ")
            ));
        }
        f.write_str(&lines.join("\n"))
    }
}
