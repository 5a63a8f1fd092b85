//! `tickline wait`: waits until Unix time is known to be within a limit of UTC.

use std::io;
use std::thread;
use std::time::Duration;

use crate::args;
use crate::diagnose::{NotNearUtc, why_not_near_utc};
use crate::document::Document;
use crate::exit::Exit;
use crate::float::signed_f64;
use crate::measure::admitted_counter;
use crate::measure::standstill;
use crate::measure::stopwatch::Stopwatch;
use crate::output::{check_stdout, line_to_stderr, text_to_stdout};
use crate::setup::Setup;
use crate::words::{plain, time};

/// The pause between two questions. tickline asks the sources of UTC once a second, too.
const PAUSE: Duration = Duration::from_secs(1);

/// The shortest time between two texts about what the program waits for: enough to see that it goes
/// on, and few in a journal.
const QUIET: Duration = Duration::from_secs(10);

/// Waits until Unix time is within the limit, or until the timeout.
pub(crate) fn run(args: &args::Wait) -> io::Result<Exit> {
    let args::Wait {
        max_error_ns,
        timeout,
    } = *args;
    check_stdout()?;
    let _setup = Setup::start_clock()?;
    let start = Stopwatch::start();
    let mut texts = Texts::new(max_error_ns, timeout);
    loop {
        let document = Document::of_unix_time(max_error_ns);
        let waited = start.elapsed();
        let Some(found) = why_not_near_utc(&document) else {
            let claim = document.utc_bound_in_words().unwrap_or_default();
            text_to_stdout(&format!("{}\n", plain(&texts.success(waited, &claim))))?;
            return Ok(Exit::Success);
        };
        let Some(left) = timeout.checked_sub(waited) else {
            standstill::check(admitted_counter().ok())?;
            text_to_stdout(&format!("{}\n", plain(&texts.failure(&found))))?;
            return Ok(Exit::Negative);
        };
        if let Some(text) = texts.waiting(waited, &found.why) {
            line_to_stderr(&plain(&text));
        }
        thread::sleep(PAUSE.min(left));
    }
}

/// The texts of a wait.
struct Texts {
    limit: String,
    timeout: Duration,
    /// When a reason was last printed, and which.
    last: Option<(Duration, String)>,
}

impl Texts {
    fn new(max_error_ns: i64, timeout: Duration) -> Self {
        Self {
            limit: time(signed_f64(max_error_ns)),
            timeout,
            last: None,
        }
    }

    /// What the program waits for; `None` if `why` is the last printed reason, or if a reason was
    /// printed less than `QUIET` ago.
    fn waiting(&mut self, waited: Duration, why: &str) -> Option<String> {
        if let Some((said, last)) = &self.last
            && (last == why || waited.saturating_sub(*said) < QUIET)
        {
            return None;
        }
        let timeout = span(self.timeout);
        let progress = match self.last.replace((waited, why.to_owned())) {
            // The first text comes at once: the microseconds until then say nothing.
            None => format!("for {timeout} at most"),
            Some(_) => format!("{} of {timeout}", span(waited)),
        };
        let Self { limit, .. } = self;
        Some(format!(
            "tickline: waiting for Unix time to be within {limit} of UTC ({progress}): {why}"
        ))
    }

    fn success(&self, waited: Duration, claim: &str) -> String {
        let Self { limit, .. } = self;
        let waited = span(waited);
        format!("OK: {claim} (limit {limit}, waited {waited}).")
    }

    /// The last line, which begins with the doctor's word for the level.
    fn failure(&self, found: &NotNearUtc) -> String {
        let NotNearUtc { level, why } = found;
        let Self { limit, .. } = self;
        let word = level.word();
        let timeout = span(self.timeout);
        format!(
            "{word}: Unix time is not known to be within {limit} of UTC after {timeout}: {why}."
        )
    }
}

/// A time in the unit that suits it.
fn span(span: Duration) -> String {
    time(span.as_secs_f64() * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Level;

    fn texts() -> Texts {
        Texts::new(250_000_000, Duration::from_secs(60))
    }

    #[test]
    fn a_text_says_what_is_awaited_for_how_long_and_why() {
        let mut texts = texts();
        texts.waiting(Duration::ZERO, "the clock was stepped");
        let text = texts.waiting(Duration::from_secs(12), "no NTP daemon answers");
        assert_eq!(
            text.as_deref(),
            Some(
                "tickline: waiting for Unix time to be within 250 ms of UTC (12 s of 60 s): no NTP \
                 daemon answers"
            )
        );
    }

    /// Symptom: "(72.7 us of 3 s)", at once.
    #[test]
    fn the_first_text_has_the_timeout_alone() {
        let text = texts().waiting(Duration::from_micros(73), "no NTP daemon answers");
        let expected = "within 250 ms of UTC (for 60 s at most): no NTP daemon answers";
        assert!(text.unwrap().ends_with(expected));
    }

    #[test]
    fn a_reason_is_told_once() {
        let mut texts = texts();
        assert!(texts.waiting(Duration::ZERO, "a").is_some());
        assert_eq!(texts.waiting(Duration::from_secs(30), "a"), None);
    }

    #[test]
    fn another_reason_is_told_after_a_pause() {
        let mut texts = texts();
        assert!(texts.waiting(Duration::ZERO, "a").is_some());
        assert_eq!(texts.waiting(QUIET - Duration::from_nanos(1), "b"), None);
        assert!(texts.waiting(QUIET, "b").is_some());
    }

    /// The last text after the timeout.
    fn failure(level: Level, why: &str) -> String {
        let why = why.to_owned();
        texts().failure(&NotNearUtc { level, why })
    }

    #[test]
    fn the_last_text_has_the_figures_and_the_limits() {
        let claim = "Unix time is within 12 ms of UTC, as chronyd claims";
        assert_eq!(
            texts().success(Duration::from_secs(3), claim),
            "OK: Unix time is within 12 ms of UTC, as chronyd claims (limit 250 ms, waited 3 s)."
        );
        assert_eq!(
            failure(Level::Unsure, "no NTP daemon keeps Unix time near UTC"),
            "NOT KNOWN RIGHT: Unix time is not known to be within 250 ms of UTC after 60 s: no \
             NTP daemon keeps Unix time near UTC."
        );
    }

    /// Symptom: "NOT KNOWN RIGHT" of a clock that was known to be off by 2 s.
    #[test]
    fn the_last_text_after_the_timeout_begins_with_the_doctors_word() {
        for (level, word) in [
            (Level::Wrong, "WRONG: "),
            (Level::Unsure, "NOT KNOWN RIGHT: "),
            (Level::Unknown, "UNKNOWN: "),
        ] {
            let text = failure(level, "Unix time is off by 2 s");
            assert!(text.starts_with(word), "{text}");
        }
    }
}
