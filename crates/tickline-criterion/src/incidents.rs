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
    /// Samples that the clock did not vouch for: before or after one of them a gate was closed,
    /// there was no line, or the rate was uncertain by more than 100 ppm. The counter still timed these
    /// samples.
    pub unvouched: u64,
    /// The clock's state at the last sample after which its readings came from the OS clock.
    pub fallback_state: Option<State>,
    /// The events of tickline's clock by which samples may be wrong, until now, and how often each
    /// happened. The clock notices an event within half a second.
    pub events: Vec<(Event, u64)>,
}

impl fmt::Display for Incidents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        let Self { samples, moved, backwards, unvouched, fallback_state, events } = self;
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
        if *unvouched > 0 {
            let why = fallback_state.map_or("its rate is not known".to_owned(), |state| state.to_string());
            lines.push(format!(
                "{unvouched} of {samples} samples are to be repeated, as the clock did not vouch for the counter: {why}"
            ));
        }
        if *samples > 0 && !events.is_empty() {
            let events: Vec<String> =
                events.iter().map(|(event, count)| format!("{} {count}", event.code())).collect();
            lines.push(format!(
                "while {samples} samples were taken, the clock noticed what may have disturbed some: {}",
                events.join(", ")
            ));
        }
        f.write_str(&lines.join("\n"))
    }
}
