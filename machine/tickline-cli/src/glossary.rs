//! The codes of states, events, gates, reasons and phases, and two words, which other commands
//! show, each with a sentence. `explain` looks them up, and the help of `watch` lists its own.

use tickline::{ClockState, Event, Gate, Reason};
use tickline_utc::UtcUnknown;

use crate::measure::warp::{TRIES_AGAIN, WHY_NOT_COMPARED};
use crate::utc_unknown;

/// A meaning of a code.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) code: &'static str,
    /// What has this code.
    pub(crate) kind: &'static str,
    /// The sentence, without a full stop.
    pub(crate) sentence: String,
}

/// All meanings. A code may have two.
pub(crate) fn all() -> Vec<Entry> {
    let words = [
        (
            "line",
            "a line, y = m*x + b, converts the counter into time; each recalibration replaces it",
        ),
        (
            "bound",
            "how far a time may be from its reference at most: tickline's is about \
             CLOCK_MONOTONIC, that of Unix time about UTC, as the NTP daemon or the kernel states \
             it",
        ),
    ];
    let words = words.map(|(code, sentence)| Entry {
        code,
        kind: "Word",
        sentence: sentence.to_owned(),
    });
    let gates = Gate::ALL.iter().map(|gate| Entry {
        code: gate.code(),
        kind: "Gate",
        sentence: of_gate(*gate).to_owned(),
    });
    let reasons = Reason::ALL.iter().map(|reason| Entry {
        code: reason.code(),
        kind: "Reason for the OS clock",
        sentence: of_reason(*reason),
    });
    let unknown = UtcUnknown::EXAMPLES.iter().map(|why| Entry {
        code: why.code(),
        kind: "Reason why UTC is not known",
        sentence: utc_unknown::in_full(*why),
    });
    states()
        .chain(events())
        .chain(words)
        .chain(gates)
        .chain(reasons)
        .chain(unknown)
        .chain(phases())
        .collect()
}

/// The states of a clock.
fn states() -> impl Iterator<Item = Entry> {
    let states = [
        ClockState::Calibrating,
        ClockState::Fast,
        ClockState::Disrupted,
        ClockState::Unavailable,
        ClockState::Backend,
        ClockState::Mock,
    ];
    let states = states.into_iter().map(|state| Entry {
        code: state.code(),
        kind: "State",
        sentence: of_state(state),
    });
    let fallbacks = [
        (
            "fallback",
            "readings come from the OS clock, because a gate is closed",
        ),
        (
            "backend_fallback",
            "readings come from the OS clock, because the source of the clock's backend, such as a \
             served page, can't serve; the status of the clock says why",
        ),
    ];
    let fallbacks = fallbacks.map(|(code, sentence)| Entry {
        code,
        kind: "State",
        sentence: sentence.to_owned(),
    });
    states.chain(fallbacks)
}

/// The states that `watch` shows. A machine that can run this program has a clock, and the program
/// watches no other one.
pub(crate) fn states_of_watch() -> Vec<Entry> {
    let others = ["unavailable", "backend", "backend_fallback", "mock"];
    states()
        .filter(|entry| !others.contains(&entry.code))
        .collect()
}

/// The events of a clock, all of which `watch` shows.
pub(crate) fn events() -> Vec<Entry> {
    let events = Event::ALL.iter().map(|event| Entry {
        code: event.code(),
        kind: "Event",
        sentence: of_event(*event).to_owned(),
    });
    events.collect()
}

/// The phases of a served page, by their codes in the log, the status and the metrics.
fn phases() -> impl Iterator<Item = Entry> {
    let phases = [
        (
            "off",
            "no server publishes a line, or an administrator has switched the page off; programs \
             ask the OS clock. `tickline serve status` says which; to serve it again, run the \
             command that this status names, and then start a server",
        ),
        (
            "no_line",
            "the server publishes no line; programs ask the OS clock, so they are slow and right. \
             At a start, after a step of the clock and in a slew this lasts seconds. If it lasts \
             for minutes, the server's log has the reason",
        ),
        (
            "first_publication",
            "the server publishes its first line, within a millisecond; there is nothing to do",
        ),
        (
            "published",
            "programs take the time from the page; there is nothing to do",
        ),
        (
            "doubted",
            "the line may be wrong, so programs also ask the OS clock, and return the later time: \
             they are slow, and time does not step back. Within a second the line ends: `no_line` \
             follows, or `expired` if the server has ended. The server's log has the reason",
        ),
        (
            "expired",
            "the server has died, is stopped or gets no CPU, so the leases have run out; programs \
             ask the OS clock, so they are slow and right. `tickline serve status` names the \
             commands that show why, and a restart of the server is safe: readings stay in order",
        ),
    ];
    phases.into_iter().map(|(code, sentence)| Entry {
        code,
        kind: "Phase of a page",
        sentence: sentence.to_owned(),
    })
}

/// The library's text about a state, without the code at its head.
fn of_state(state: ClockState) -> String {
    let text = state.to_string();
    text.strip_prefix(state.code())
        .and_then(|text| text.strip_prefix(": "))
        .unwrap_or(&text)
        .to_owned()
}

/// The library's text about a reason, and what to do where the text alone would leave a user
/// helpless.
fn of_reason(reason: Reason) -> String {
    if reason != Reason::Untestable {
        return reason.to_string();
    }
    format!(
        "{reason}: {WHY_NOT_COMPARED}, because the CPUs were too busy, or the host does not run \
         them together. Readings come from the OS clock. A clock with a thread, such as that of \
         `tickline serve`, {TRIES_AGAIN}. To compare them now, run `tickline warp` when the \
         machine is quieter"
    )
}

fn of_event(event: Event) -> &'static str {
    match event {
        Event::Replacement => "a newer line replaced the line, as happens all the time",
        Event::FirstPublication => {
            "a first line was published: at start-up, or after a line had ended"
        }
        Event::Expiry => {
            "a line has ended before the next one, as happens on a busy machine; readings came \
             from the OS clock, so none was wrong"
        }
        Event::CounterReset => {
            "the counter was found before the start of the line: it was reset, or differs between CPUs"
        }
        Event::Help => {
            "a reader found the writer preempted in a publication, and ended the publication; \
             readings come from the OS clock until the next line"
        }
        Event::StepForward => "the clock was stepped forward to CLOCK_MONOTONIC",
        Event::RateChange => "CLOCK_MONOTONIC changed its rate by more than the samples allow",
        Event::BoundViolation => "CLOCK_MONOTONIC left the stated bounds",
        Event::Disruption => "CLOCK_MONOTONIC or the counter jumped",
        Event::UnixStep => "Unix time was stepped",
        Event::GateClosed => "a gate was closed, or the gates had to be judged again",
        Event::GateOpened => "every gate was found open",
        _ => "",
    }
}

/// The condition that opens the gate.
fn of_gate(gate: Gate) -> &'static str {
    match gate {
        Gate::User => "open unless the program or TICKLINE=off has switched the counter off",
        Gate::Supported => {
            "open if tickline reads this target's counter, and the processor swaps 128 bits at once"
        }
        Gate::Readable => "open if the process may read the counter",
        Gate::Invariant => "open if the counter runs at one rate in all power states",
        Gate::Kernel => "open if the kernel's verdict on the counter permits its use",
        Gate::Synchronised => "open if the counters of all CPUs are synchronised",
        Gate::Cost => {
            "open if a reading of the counter costs no more than one of the OS clock; a tenth more \
             is allowed if Unix time gains more than that"
        }
        Gate::UnixCost => {
            "open if a reading of the counter costs no more than asking the OS for Unix time; if \
             closed, only Unix time comes from the OS clock"
        }
        Gate::Calibration => "open if the machine is fast enough to make a line",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_a_sentence() {
        for entry in all() {
            assert!(!entry.sentence.is_empty(), "{entry:?}");
        }
    }

    /// Symptom: `explain backend_fallback`, the state of a program whose page can't serve it: "is
    /// not a code".
    #[test]
    fn each_state_of_a_clock_is_explained() {
        let explained = all();
        for state in [
            ClockState::Calibrating,
            ClockState::Fast,
            ClockState::Disrupted,
            ClockState::Fallback(Reason::Slow),
            ClockState::Unavailable,
            ClockState::Backend,
            ClockState::BackendFallback(""),
            ClockState::Mock,
        ] {
            let is_of_state = |entry: &Entry| entry.code == state.code() && entry.kind == "State";
            assert!(explained.iter().any(is_of_state), "{}", state.code());
        }
    }

    /// Symptom: `explain no_line`, the word of the journal and of an alert: "is not a code".
    #[cfg(target_os = "linux")]
    #[test]
    fn each_phase_of_a_page_is_explained() {
        let explained: Vec<_> = phases().map(|entry| entry.code).collect();
        let stored = tickline_page::lease::LeasePhase::ALL.iter();
        let mut codes: Vec<_> = stored.map(|phase| phase.code()).collect();
        codes.push("expired");
        assert_eq!(explained, codes);
    }

    /// Symptom: "Reason for the OS clock: the counters of the CPUs could not be compared."
    #[test]
    fn a_comparison_that_failed_is_explained_with_its_cause_and_the_next_try() {
        let text = of_reason(Reason::Untestable);
        for part in [WHY_NOT_COMPARED, TRIES_AGAIN, "`tickline warp`"] {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }

    /// Symptom: `explain bound`, a word of the doctor's rows: "did you mean bound_violation?"
    #[test]
    fn each_word_of_the_clocks_row_is_explained() {
        for word in ["line", "bound"] {
            let is_explained = |entry: &Entry| entry.code == word && entry.kind == "Word";
            assert!(all().iter().any(is_explained), "{word}");
        }
    }

    #[test]
    fn each_gate_says_when_it_is_open() {
        for gate in [
            Gate::User,
            Gate::Supported,
            Gate::Readable,
            Gate::Kernel,
            Gate::Cost,
        ] {
            assert!(of_gate(gate).starts_with("open "), "{gate:?}");
        }
    }
}
