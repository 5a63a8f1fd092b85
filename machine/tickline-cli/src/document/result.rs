//! What a document says in short: the sentence about the clock that tickline reads, the sentence
//! about the machine's clocks, a warning about a debug build, and the exit code.

use tickline::{ClockState, Reason};

use super::Document;
use crate::exit::Exit;
use crate::float::as_f64;
use crate::measure::calls::{MONOTONIC, NOW_NS};
use crate::measure::warp::WHY_NOT_COMPARED;
use crate::words::time;

impl Document {
    /// The exit code: `Success` if no clock is slow or wrong, tickline reads the counter, and no
    /// test of pairs of CPUs has found unsynchronised counters. Such a test may find them although
    /// tickline reads the counter, because on bare metal tickline trusts the kernel.
    pub(crate) fn exit(&self) -> Exit {
        let is_good = self.fast && !self.is_bad() && self.unsynchronised_warp_test().is_none();
        if is_good {
            Exit::Success
        } else {
            Exit::Negative
        }
    }

    /// The sentence about the machine, above the findings; `None` if the command makes no
    /// diagnosis.
    pub(crate) fn headline(&self) -> Option<String> {
        self.headline_with("Fix below.")
    }

    /// The sentence about the machine. If there is a fix, the sentence ends with `fix_hint`.
    pub(crate) fn headline_with(&self, fix_hint: &str) -> Option<String> {
        Some(self.health.as_ref()?.sentence(self.findings(), fix_hint))
    }

    /// A warning if a debug build has measured costs, or the offset.
    pub(crate) fn build_note(&self) -> Option<&'static str> {
        if !self.debug_build {
            return None;
        }
        if !self.costs.is_empty() {
            return Some(
                "This is a debug build: its costs are several times those of a release build.",
            );
        }
        let is_watch = self.watch.is_some();
        is_watch.then_some(
            "This is a debug build: its brackets are wider than those of a release build.",
        )
    }
}

/// The document's result: which clock tickline reads, and why, in one sentence.
pub(super) fn result(state: ClockState, document: &Document) -> String {
    match state {
        ClockState::Fast => {
            let costs = document.cost_ns(NOW_NS).zip(document.cost_ns(MONOTONIC));
            let costs = costs.map_or_else(String::new, |(now_ns, os_ns)| {
                // This happens in a debug build, or on a busy machine.
                let times = if os_ns < now_ns {
                    "so clock_gettime is faster in this run".to_owned()
                } else {
                    format!("{:.1} times as fast", os_ns / now_ns)
                };
                format!(": {now_ns:.1} ns a call where clock_gettime takes {os_ns:.0}, {times}")
            });
            let track = document.track.as_ref().map_or_else(String::new, |track| {
                let offset = time(track.all.largest_offset_ns);
                let bound = time(as_f64(track.all.largest_bound_ns));
                format!(
                    "; its largest offset from CLOCK_MONOTONIC was {offset} \
                     (its own bound: {bound})"
                )
            });
            format!("tickline reads the counter here{costs}{track}.")
        }
        ClockState::Fallback(reason) => {
            let named = matches!(
                reason,
                Reason::KernelRejected
                    | Reason::KernelUsesOther
                    | Reason::Untested
                    | Reason::Untestable
            );
            let detail = match (reason, &document.machine.clocksource) {
                (_, Some(name)) if named => format!(" ({name})"),
                (Reason::SamplesTooOld, _) => {
                    " (on a busy machine that passes by itself)".to_owned()
                }
                _ => String::new(),
            };
            let advice = match reason {
                Reason::Untested => {
                    " The comparison takes longer on a busy machine: run the command again, or \
                     compare them by `tickline warp`."
                        .to_owned()
                }
                Reason::Untestable => format!(
                    " A comparison fails if {WHY_NOT_COMPARED}: the CPUs are too busy, or the host \
                     does not run them together. When the machine is quieter, run the command \
                     again, or compare them by `tickline warp`."
                ),
                _ => String::new(),
            };
            format!("tickline reads the OS clock here, because {reason}{detail}.{advice}")
        }
        ClockState::Disrupted => {
            format!(
                "tickline reads the counter here; its state is {}.",
                ClockState::Disrupted
            )
        }
        state => format!("tickline reads the OS clock for now; its state is {state}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::costs::CostRow;
    use crate::measure::warp::WarpTest;
    use crate::measure::watch::WatchSummary;

    fn with_costs(now_ns: f64, os_ns: f64) -> Document {
        let cost = |(clock, cost_ns): (&str, f64)| CostRow {
            clock: clock.to_owned(),
            cost_ns: Some(cost_ns),
            ..CostRow::default()
        };
        Document {
            costs: [(NOW_NS, now_ns), (MONOTONIC, os_ns)].map(cost).to_vec(),
            ..Document::default()
        }
    }

    #[test]
    fn the_result_has_the_costs_of_both_clocks_and_their_ratio() {
        assert_eq!(
            result(ClockState::Fast, &with_costs(10.0, 25.0)),
            "tickline reads the counter here: 10.0 ns a call where clock_gettime takes 25, 2.5 times as fast."
        );
        assert_eq!(
            result(ClockState::Fast, &with_costs(20.0, 20.0)),
            "tickline reads the counter here: 20.0 ns a call where clock_gettime takes 20, 1.0 times as fast."
        );
    }

    /// Symptom: the same machine had two verdicts, and nothing said why.
    #[test]
    fn a_comparison_that_has_not_ended_says_what_to_do() {
        let of = |reason| result(ClockState::Fallback(reason), &Document::default());
        let shown = of(Reason::Untested);
        assert!(shown.contains("run the command again"), "{shown}");
        assert!(!of(Reason::KernelRejected).contains("again"));
    }

    /// Symptom: "because the counters of the CPUs could not be compared." and not a word more.
    #[test]
    fn a_comparison_that_failed_says_why_and_what_to_do() {
        let shown = result(
            ClockState::Fallback(Reason::Untestable),
            &Document::default(),
        );
        assert!(shown.contains(WHY_NOT_COMPARED), "{shown}");
        let advice = "When the machine is quieter, run the command again, or compare them by \
                      `tickline warp`.";
        assert!(shown.ends_with(advice), "{shown}");
    }

    #[test]
    fn the_result_says_that_clock_gettime_was_faster() {
        assert_eq!(
            result(ClockState::Fast, &with_costs(30.0, 20.0)),
            "tickline reads the counter here: 30.0 ns a call where clock_gettime takes 20, so \
             clock_gettime is faster in this run."
        );
    }

    #[test]
    fn the_result_of_a_clock_without_measurements_is_its_state() {
        for (state, expected) in [
            (ClockState::Fast, "tickline reads the counter here."),
            (
                ClockState::Disrupted,
                "tickline reads the counter here; its state is disrupted: ",
            ),
            (
                ClockState::Calibrating,
                "tickline reads the OS clock for now; its state is calibrating: ",
            ),
        ] {
            let text = result(state, &Document::default());
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn the_result_names_the_clocksource_where_it_is_the_reason() {
        let mut document = Document::default();
        document.machine.clocksource = Some("hpet".to_owned());
        for (reason, is_named) in [
            (Reason::KernelRejected, true),
            (Reason::KernelUsesOther, true),
            (Reason::Untested, true),
            (Reason::Untestable, true),
            (Reason::SamplesTooOld, false),
        ] {
            let text = result(ClockState::Fallback(reason), &document);
            assert_eq!(text.contains(" (hpet)."), is_named, "{text}");
        }
    }

    #[test]
    fn the_result_says_that_a_busy_machine_passes() {
        let old = ClockState::Fallback(Reason::SamplesTooOld);
        let text = result(old, &Document::default());
        assert!(
            text.ends_with(" (on a busy machine that passes by itself)."),
            "{text}"
        );
        let other = ClockState::Fallback(Reason::KernelRejected);
        let text = result(other, &Document::default());
        assert!(!text.contains('('), "{text}");
    }

    #[test]
    fn only_costs_by_a_debug_build_have_a_warning() {
        let document = |debug_build, costs: usize| Document {
            debug_build,
            costs: vec![CostRow::default(); costs],
            ..Document::default()
        };
        for (debug_build, costs, has_note) in [
            (true, 1, true),
            (true, 0, false),
            (false, 1, false),
            (false, 0, false),
        ] {
            let note = document(debug_build, costs).build_note();
            assert_eq!(note.is_some(), has_note, "{debug_build} {costs}");
        }
    }

    #[test]
    fn a_watch_by_a_debug_build_has_a_warning_of_its_own() {
        for debug_build in [true, false] {
            let document = Document {
                debug_build,
                watch: Some(WatchSummary::default()),
                ..Document::default()
            };
            let has_note = document
                .build_note()
                .is_some_and(|note| note.contains("brackets"));
            assert_eq!(has_note, debug_build);
        }
    }

    #[test]
    fn the_exit_code_is_success_if_tickline_reads_a_counter_that_no_test_contradicts() {
        let exit = |fast, synchronised| {
            let warp = WarpTest {
                synchronised,
                ..WarpTest::default()
            };
            let document = Document {
                fast,
                warp: Some(warp),
                ..Document::default()
            };
            document.exit()
        };
        assert_eq!(exit(true, None), Exit::Success);
        assert_eq!(exit(true, Some(true)), Exit::Success);
        assert_eq!(exit(true, Some(false)), Exit::Negative);
        assert_eq!(exit(false, Some(true)), Exit::Negative);
    }
}
