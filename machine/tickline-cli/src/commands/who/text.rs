//! Formats the callers as text.

use crate::document::Document;
use crate::measure::calls::MONOTONIC;
use crate::measure::served_by::ServedBy;
use crate::measure::who::{Caller, NotCounted, WhoSummary};
use crate::screen::Screen;
use crate::words::figure;

/// The most rows that are shown. The JSON has all.
const ROWS: usize = 20;

/// The note about the other programs that can count calls.
const OTHER_TOOLS_NOTE: &str = "A tracepoint slows a call a little; strace stops the program twice \
                                at each call. None of them sees the calls that the vDSO answers.";

pub(super) fn text(document: &Document) -> String {
    let mut screen = Screen::for_stdout();
    let Some(who) = &document.who else {
        return screen.text;
    };
    if let Some(not_counted) = &who.not_counted {
        what_to_do(not_counted, &mut screen);
        return screen.text;
    }
    screen.say("", &sentence(who));
    if let Some(note) = document.build_note() {
        screen.say("", note);
    }
    conditions(who, &mut screen);
    rows(&who.callers, &mut screen);
    screen.line("");
    screen.say("", &unseen(document, who.callers.len()));
    if let Some(headline) = document.headline_with("`tickline doctor` names the fix.")
        && who.core_percent() > 0.0
    {
        screen.say("", &format!("The machine: {headline}"));
    }
    screen.text
}

/// The obstacle, and the commands. They are not wrapped, so that users can copy them.
fn what_to_do(not_counted: &NotCounted, screen: &mut Screen) {
    screen.say(
        "",
        &format!("Calls were not counted: {}.", not_counted.obstacle),
    );
    match not_counted.fixing_commands.as_slice() {
        [] => screen.line("\nCount with another tool:"),
        [again] => {
            screen.line("\nCount as root:");
            screen.line(&format!("  {again}"));
            screen.line("\nOr count with another tool:");
        }
        steps => {
            screen.line("\nMount it, and count again:");
            for (number, step) in (1..).zip(steps) {
                screen.line(&format!("  {number}. {step}"));
            }
            screen.line("\nOr count with another tool:");
        }
    }
    for command in &not_counted.other_tools {
        screen.line(&format!("  {command}"));
    }
    screen.line("");
    match not_counted.container_options {
        Some(options) => {
            screen.say(
                "",
                "In a container, run these on its host, or start it as root with:",
            );
            screen.line(&format!("  {options}"));
        }
        None => screen.say("", "In a container, run these on its host."),
    }
    screen.line("");
    screen.say("", OTHER_TOOLS_NOTE);
}

/// The result in one or two sentences.
fn sentence(who: &WhoSummary) -> String {
    let subject = who.process.map_or_else(
        || "all processes together".to_owned(),
        |pid| format!("process {pid}"),
    );
    if who.callers.is_empty() {
        return format!("No system call for the time was seen, by {subject}.");
    }
    let fixed = who.fixed_core_percent();
    let fixed = fixed.map_or_else(
        || "an unknown share".to_owned(),
        |percent| format!("{percent:.2} %"),
    );
    format!(
        "{:.0} system calls a second for the time, by {subject}: {:.2} % of a CPU now, {fixed} after the fix.",
        who.calls_per_second(),
        who.core_percent()
    )
}

fn conditions(who: &WhoSummary, screen: &mut Screen) {
    let (Some(seconds), Some(every)) = (who.counted_s, who.sampled_every) else {
        return;
    };
    let sampled = if every == 1 {
        "each call".to_owned()
    } else {
        format!("one call in {every}")
    };
    let counted =
        format!("Counted for {seconds:.1} s; {sampled} was sampled; this program is left out.");
    screen.say("", &counted);
    if who.lost_calls > 0 {
        let lost = who.lost_calls;
        screen.say(
            "",
            &format!("The kernel dropped the samples of {lost} calls, which are missing here."),
        );
    }
}

fn rows(callers: &[Caller], screen: &mut Screen) {
    if callers.is_empty() {
        return;
    }
    screen.line("");
    let row = |caller: &Caller| {
        // The kernel shows a process of another PID namespace as process 0.
        let unnamed = if caller.pid == 0 {
            "(outside this PID namespace)"
        } else {
            "(ended)"
        };
        let name = caller.process.as_deref().unwrap_or(unnamed).to_owned();
        let cost = caller
            .cost_ns
            .map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"));
        // Most calls are clock_gettime, and the name of its clock is enough.
        let clock = caller.clock.trim_start_matches("clock_gettime ").to_owned();
        let pid = caller.pid.to_string();
        let calls = format!("{:.0}", caller.calls_per_second);
        let shares = [caller.core_percent, caller.fixed_core_percent].map(figure);
        [vec![pid, name, clock, calls, cost], shares.into()].concat()
    };
    let rows: Vec<_> = callers.iter().take(ROWS).map(row).collect();
    screen.table(
        &[
            "PID",
            "process",
            "clock",
            "calls/s",
            "ns a call",
            "% of CPU",
            "% fixed",
        ],
        &rows,
    );
    let more = callers.len().saturating_sub(ROWS);
    if more > 0 {
        screen.say(
            "",
            &format!("{more} more rows are in the JSON (--json FILE)."),
        );
    }
}

/// A sentence about the calls that a tracepoint cannot see on this machine.
fn unseen(document: &Document, seen: usize) -> String {
    match document.cost_row(MONOTONIC).and_then(|row| row.served_by) {
        Some(ServedBy::Vdso) if seen == 0 => {
            format!("The vDSO answers {MONOTONIC} here, and such calls are not seen.")
        }
        Some(ServedBy::Vdso) => format!(
            "The vDSO answers {MONOTONIC} here, and such calls are not seen: those above come from \
             programs that do not use the vDSO, or ask a clock that it does not answer."
        ),
        Some(ServedBy::SystemCall) => format!(
            "A system call answers {MONOTONIC} here, so each such call is seen, but for those of \
             32-bit programs on a 64-bit kernel."
        ),
        _ => "Calls that the vDSO answers are no system calls, so tickline does not see them."
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::call_costs::tests::measured_machine;
    use super::super::summary;
    use super::*;
    use crate::measure::who::{CallCounts, TimeCall};

    fn lines(who: WhoSummary) -> String {
        let text = text(&Document {
            who: Some(who),
            ..Document::default()
        });
        assert!(!text.contains('\u{1b}'), "{text}");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The text about calls that were counted for 2 s, one in 11: process, clock, number of
    /// samples.
    fn written(callers: &[(u32, i32, u32)]) -> String {
        let mut counted = CallCounts {
            who: WhoSummary {
                counted_s: Some(2.0),
                sampled_every: Some(11),
                lost_calls: 22,
                ..WhoSummary::default()
            },
            ..CallCounts::default()
        };
        for (pid, clock, samples) in callers {
            for sample in 0..*samples {
                // The name must be read only once, at the first sample.
                let name = |pid| (pid != 0).then(|| format!("\u{1b}[2J{sample}"));
                counted.add(*pid, TimeCall::ClockGettime(*clock), name);
            }
        }
        lines(summary(counted, &measured_machine("system_call", "6.1.0")))
    }

    #[test]
    fn the_sum_of_all_calls_comes_first() {
        // The calls take 900 ns now, and 25 ns after the fix.
        let text = written(&[(1, 1, 1), (2, 1, 1_000)]);
        let sum = "5506 system calls a second for the time, by all processes together: 0.50 % of a \
                   CPU now, 0.01 % after the fix.";
        assert!(text.starts_with(sum), "{text}");
        assert!(written(&[]).starts_with("No system call for the time was seen"));
    }

    /// The names of the callers begin with an escape sequence that clears a terminal.
    #[test]
    fn the_name_of_a_caller_does_not_steer_the_terminal() {
        let text = written(&[(1, 1, 1)]);
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert!(text.contains("\u{fffd}[2J"), "{text:?}");
    }

    #[test]
    fn the_costliest_caller_has_the_first_row() {
        let text = written(&[(1, 1, 1), (2, 1, 1_000)]);
        let rows = "2 \u{fffd}[2J0 MONOTONIC 5500 900 0.50 0.01 1 \u{fffd}[2J0 MONOTONIC 6";
        assert!(text.contains(rows), "no {rows} in {text}");
    }

    #[test]
    fn a_caller_whose_cost_is_unknown_has_the_last_row() {
        // The CPU time of another process.
        let text = written(&[(1, -6, 9_000), (2, 1, 1)]);
        assert!(text.contains("% fixed 2 "), "{text}");
    }

    #[test]
    fn sampled_and_lost_calls_are_named() {
        let text = written(&[(1, 1, 1)]);
        assert!(text.contains("one call in 11"), "{text}");
        assert!(text.contains("dropped the samples of 22 calls"), "{text}");
    }

    #[test]
    fn a_share_after_the_fix_may_be_unknown() {
        // The cost of this coarse clock by the vDSO is unknown.
        let text = written(&[(1, 1, 1), (2, 5, 1)]);
        assert!(text.contains("an unknown share after the fix"), "{text}");
    }

    #[test]
    fn of_many_callers_the_text_has_some_and_the_json_all() {
        let many: Vec<_> = (1..=25).map(|pid| (pid, 1, 1)).collect();
        let text = written(&many);
        assert!(text.contains("5 more rows are in the JSON"), "{text}");
    }

    /// Symptom: the row of a running program said "(ended)".
    #[test]
    fn a_caller_of_another_pid_namespace_has_no_number() {
        let text = written(&[(0, 1, 1)]);
        let row = " 0 (outside this PID namespace) MONOTONIC";
        assert!(text.contains(row), "{text}");
    }

    /// Symptom: on 80 columns one long row made sentences of all.
    #[test]
    fn the_longest_rows_are_a_table_on_80_columns() {
        let caller = |pid, process: Option<&str>, clock: &str| Caller {
            pid,
            process: process.map(str::to_owned),
            clock: clock.to_owned(),
            calls_per_second: 1_234_567.0,
            cost_ns: Some(12_345.0),
            core_percent: Some(100.0),
            fixed_ns: Some(25.0),
            fixed_core_percent: Some(100.0),
        };
        let callers = [
            caller(
                4_194_304,
                Some("systemd-journal"),
                "clock_gettime MONOTONIC",
            ),
            caller(1, Some("init"), "clock_gettime CPU time of another"),
            caller(0, None, "clock_gettime REALTIME_COARSE"),
        ];
        let mut screen = Screen::of(80);
        rows(&callers, &mut screen);
        let heading = "      PID  process";
        assert!(screen.text.contains(heading), "{}", screen.text);
        for line in screen.text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    /// The doctor's "Fix below" would be wrong, because `who` shows no fix.
    #[test]
    fn the_sentence_about_the_machine_names_the_command_that_has_the_fix() {
        let mut document = measured_machine("system_call", "6.1.0");
        document.machine.clocksource = Some("hpet".to_owned());
        document.machine.available_clocksources = Some("hpet tsc".to_owned());
        document.machine.architecture = Some("x86_64".to_owned());
        document.add_diagnosis();
        document.who = Some(WhoSummary {
            counted_s: Some(2.0),
            sampled_every: Some(1),
            callers: vec![Caller {
                core_percent: Some(1.0),
                ..Caller::default()
            }],
            ..WhoSummary::default()
        });
        let text = text(&document);
        assert!(text.contains("The machine: SLOW"), "{text}");
        assert!(!text.contains("Fix below"), "{text}");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("`tickline doctor` names the fix."), "{text}");
    }

    /// Symptom: the commands that remove the obstacle, and the other tools, were one list.
    #[test]
    fn who_follows_an_obstacle_by_its_fix_and_then_by_other_tools() {
        for (fixing_commands, says) in [
            (&[][..], "Count with another tool: perf"),
            (
                &["sudo it"],
                "Count as root: sudo it Or count with another tool: perf",
            ),
            (
                &["mount", "sudo it"],
                "Mount it, and count again: 1. mount 2. sudo it Or count with another tool: perf",
            ),
        ] {
            let text = lines(WhoSummary {
                not_counted: Some(NotCounted {
                    obstacle: "no".to_owned(),
                    fixing_commands: fixing_commands.iter().map(|&it| it.to_owned()).collect(),
                    other_tools: vec!["perf".to_owned()],
                    container_options: None,
                }),
                ..WhoSummary::default()
            });
            let says = format!(
                "Calls were not counted: no. {says} In a container, run these on its host. "
            );
            assert!(text.starts_with(&says), "no {says} in {text}");
        }
    }

    /// Symptom: a user of an image without sudo was to count by sudo, and the options for a
    /// container were broken into two lines.
    #[test]
    fn who_names_the_options_for_a_container_in_a_line_of_their_own() {
        let not_counted = NotCounted {
            obstacle: "no".to_owned(),
            fixing_commands: vec!["sudo it".to_owned()],
            other_tools: Vec::new(),
            container_options: Some("--some --options --of --a --container"),
        };
        let mut screen = Screen::of(40);
        what_to_do(&not_counted, &mut screen);
        let expected = "start it as root with:\n  --some --options --of --a --container\n";
        assert!(screen.text.contains(expected), "{}", screen.text);
    }

    #[test]
    fn without_lost_calls_none_are_named() {
        let text = lines(WhoSummary {
            counted_s: Some(2.0),
            sampled_every: Some(1),
            ..WhoSummary::default()
        });
        let counted = "Counted for 2.0 s; each call was sampled; this program is left out.";
        assert!(text.contains(counted), "{text}");
        assert!(!text.contains("dropped"), "{text}");
    }

    #[test]
    fn as_many_callers_as_rows_are_all_shown() {
        let many: Vec<_> = (1..=20).map(|pid| (pid, 1, 1)).collect();
        let text = written(&many);
        assert!(!text.contains("more rows"), "{text}");
    }

    #[test]
    fn the_text_says_which_calls_are_not_seen() {
        for (served_by, seen, expected) in [
            (
                "vdso",
                0,
                "The vDSO answers clock_gettime MONOTONIC here, and such calls are not seen.",
            ),
            (
                "vdso",
                1,
                "The vDSO answers clock_gettime MONOTONIC here, and such calls are not seen: those \
                 above come from programs that do not use the vDSO, or ask a clock that it does \
                 not answer.",
            ),
            (
                "system_call",
                0,
                "A system call answers clock_gettime MONOTONIC here, so each such call is seen, \
                 but for those of 32-bit programs on a 64-bit kernel.",
            ),
            (
                "nobody",
                0,
                "Calls that the vDSO answers are no system calls, so tickline does not see them.",
            ),
        ] {
            assert_eq!(
                unseen(&measured_machine(served_by, "6.1.0"), seen),
                expected
            );
        }
    }

    /// If nothing was counted, the machine's fix would gain nothing.
    #[test]
    fn without_a_cost_there_is_no_sentence_about_the_machine() {
        let mut document = measured_machine("system_call", "6.1.0");
        document.add_diagnosis();
        document.who = Some(WhoSummary::default());
        let text = text(&document);
        assert!(!text.contains("The machine:"), "{text}");
    }
}
