//! What happened while samples were taken.

use std::fmt;

use tickline::{Event, Events, State};

use crate::elapsed::Elapsed;

/// Events after which a sample, or the rate that converts it, may be wrong.
///
/// Three events are not among them: recalibrations; lines that were not renewed in time, which says
/// nothing against the counter; and bounds violated by some ns, which concern the rate's
/// uncertainty, not a sample.
const DISTURBING: [Event; 5] =
    [Event::CounterReset, Event::Disruption, Event::RateChange, Event::UnixStep, Event::GateClosed];

/// Whether any of them has happened between `before` and `now`.
pub(crate) fn is_disturbed(before: &Events, now: &Events) -> bool {
    DISTURBING.into_iter().any(|event| now.get(event) > before.get(event))
}

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
    /// before and that of this one, or did not vouch for the counter at one of the two. The clock notices an event within half a second, so it may have
    /// happened during the sample, or shortly before. The text at the end also counts the last
    /// sample if the clock noticed an event after it.
    pub disturbed: u64,
    /// The events, and how often each happened.
    pub events: Vec<(Event, u64)>,
    /// The clock's state at the last sample before or after which its readings came from the OS
    /// clock, because a gate was closed or there was no line. The counter still timed that sample.
    pub unserved: Option<State>,
    last_is_disturbed: bool,
}

impl Incidents {
    /// Counts a sample. `before` and `now` are the clock's events at the last sample and at this
    /// one.
    pub(crate) fn count(&mut self, sample: &Elapsed, before: &Events, now: &Events) {
        self.samples += 1;
        self.moved += u64::from(sample.moved > 0);
        self.backwards += u64::from(sample.backwards > 0);
        self.last_is_disturbed = false;
        self.disturb_last(before, now);
    }

    /// Counts the events that the clock has noticed since the last sample was converted. They may
    /// have happened during that sample, so they disturb it.
    pub(crate) fn disturb_last(&mut self, before: &Events, now: &Events) {
        for event in DISTURBING {
            let more = now.get(event).saturating_sub(before.get(event));
            if more > 0 {
                self.add(event, more);
                self.mark_last();
            }
        }
    }

    /// Counts the last sample as disturbed, but only once.
    pub(crate) fn mark_last(&mut self) {
        if self.samples > 0 && !self.last_is_disturbed {
            self.last_is_disturbed = true;
            self.disturbed += 1;
        }
    }

    /// Counts the last sample, before or after which the clock was in `state`.
    pub(crate) fn mark_unserved(&mut self, state: State) {
        self.mark_last();
        self.unserved = Some(state);
    }

    fn add(&mut self, event: Event, more: u64) {
        match self.events.iter_mut().find(|(known, _)| *known == event) {
            Some((_, count)) => *count += more,
            None => self.events.push((event, more)),
        }
    }
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
            causes.extend(self.unserved.map(|state| format!("it did not vouch for the counter: {state}")));
            lines.push(format!(
                "{disturbed} of {samples} samples coincide with a disturbance of the clock, to be repeated: {}",
                causes.join(", ")
            ));
        }
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_with_a_moved_pair_count_once() {
        let events = tickline::Clock::global().status().events;
        let mut incidents = Incidents::default();
        let twice = Elapsed::of_pair(0, 10, true) + Elapsed::of_pair(10, 20, true);
        incidents.count(&twice, &events, &events);
        incidents.count(&Elapsed::of_pair(0, 10, false), &events, &events);
        incidents.count(&Elapsed::of_pair(10, 0, false), &events, &events);
        assert_eq!((incidents.samples, incidents.moved, incidents.backwards), (3, 1, 1));
        assert_eq!(
            incidents.to_string(),
            "1 of 3 samples contain a move of the thread to another CPU; to avoid that, bind it to one\n\
             1 of 3 samples are too short, because the counter stepped back: the results cannot be trusted"
        );
    }

    #[test]
    fn what_is_noticed_after_the_last_sample_is_counted_with_it_once() {
        let clock = tickline::Clock::builder().driver(tickline::Driver::Manual).start().expect("a clock");
        let mut events = vec![clock.status().events];
        for _ in 0..3 {
            clock.disable();
            clock.enable();
            clock.maintain(); // judges the gates, and opens what the facts allow
            events.push(clock.status().events);
        }
        if events[2] == events[1] {
            eprintln!("SKIPPED: the counter does not serve here, so its gate stays closed");
            return;
        }
        let mut none = Incidents::default();
        none.disturb_last(&events[0], &events[1]);
        assert_eq!((none.disturbed, none.to_string().as_str()), (0, ""), "no sample, nothing to say");
        let mut incidents = Incidents::default();
        incidents.count(&Elapsed::default(), &events[0], &events[0]);
        incidents.count(&Elapsed::default(), &events[0], &events[1]);
        assert_eq!(
            incidents.to_string(),
            "1 of 2 samples coincide with a disturbance of the clock, to be repeated: gate_closed 1"
        );
        incidents.disturb_last(&events[1], &events[2]);
        assert_eq!((incidents.samples, incidents.disturbed), (2, 1));
        incidents.count(&Elapsed::default(), &events[2], &events[2]);
        incidents.disturb_last(&events[2], &events[3]);
        assert_eq!((incidents.samples, incidents.disturbed), (3, 2));
        assert_eq!(incidents.events, [(Event::GateClosed, 3)]);
    }

    #[test]
    fn the_text_has_the_clocks_state() {
        let mut incidents = Incidents { samples: 7, moved: 1, ..Incidents::default() };
        incidents.mark_unserved(State::Fallback(tickline::Reason::DisabledByProgram));
        incidents.mark_unserved(State::Calibrating);
        let text = incidents.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(
            lines[1],
            "1 of 7 samples coincide with a disturbance of the clock, to be repeated: it did not vouch for the \
             counter: calibrating: the OS clock serves until there is a line"
        );
    }
}
