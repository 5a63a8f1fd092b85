//! The callers as text for people.

use serde_json::json;

use crate::document::{Caller, Document, Who};
use crate::measure::calls::MONOTONIC;
use crate::measure::served::ServedBy;
use crate::words::cell;
use crate::wrap::Screen;

/// The most rows that are shown. The JSON has all.
const ROWS: usize = 20;

/// The document as text.
pub(super) fn text(document: &Document) -> String {
    let mut screen = Screen::of_stdout();
    let Some(who) = &document.who else { return screen.text };
    if let Some(obstacle) = &who.obstacle {
        prevented(obstacle, &who.instead, &mut screen);
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
    if let Some(headline) = document.headline().filter(|_| who.core_percent() > 0.0) {
        let headline = headline.replace(" Fix below.", " `tickline doctor` names the fix.");
        screen.say("", &format!("The machine: {headline}"));
    }
    screen.text
}

fn prevented(obstacle: &str, instead: &[String], screen: &mut Screen) {
    screen.say("", &format!("Calls were not counted: {obstacle}."));
    screen.line("\nRun instead:");
    for command in instead {
        // Not wrapped, so that it can be copied.
        screen.line(&format!("  {command}"));
    }
    screen.line("");
    screen.say(
        "",
        "A tracepoint costs a call little; strace stops the program twice at each call. None of them sees the calls that the \
         vDSO answers.",
    );
}

/// The result in one or two sentences.
fn sentence(who: &Who) -> String {
    let whose =
        who.process.map_or_else(|| "all processes together".to_owned(), |pid| format!("process {pid}"));
    if who.callers.is_empty() {
        return format!("No system call for the time was seen, by {whose}.");
    }
    let fixed = who.fixed_core_percent();
    let fixed = fixed.map_or_else(|| "an unknown share".to_owned(), |percent| format!("{percent:.2} %"));
    format!(
        "{:.0} system calls a second for the time, by {whose}: {:.2} % of a CPU now, {fixed} after the fix.",
        who.calls_per_second(),
        who.core_percent()
    )
}

fn conditions(who: &Who, screen: &mut Screen) {
    let (Some(seconds), Some(every)) = (who.counted_s, who.sampled_every) else { return };
    let looked = if every == 1 { "each call".to_owned() } else { format!("one call in {every}") };
    let counted = format!("Counted for {seconds:.1} s; {looked} was sampled; this program is left out.");
    screen.say("", &counted);
    if who.lost_calls > 0 {
        let lost = who.lost_calls;
        screen.say("", &format!("The kernel dropped the samples of {lost} calls, which are missing here."));
    }
}

fn rows(callers: &[Caller], screen: &mut Screen) {
    if callers.is_empty() {
        return;
    }
    screen.line("");
    let row = |caller: &Caller| {
        let name = caller.process.as_deref().unwrap_or("(ended)").to_owned();
        let cost = caller.cost_ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"));
        let (pid, calls) = (caller.pid.to_string(), format!("{:.0}", caller.calls_per_second));
        let shares = [caller.core_percent, caller.fixed_core_percent].map(|share| cell(&json!(share)));
        [vec![pid, name, caller.clock.clone(), calls, cost], shares.into()].concat()
    };
    let rows: Vec<_> = callers.iter().take(ROWS).map(row).collect();
    screen.table(&["PID", "process", "clock", "calls/s", "ns a call", "% of CPU", "% fixed"], &rows);
    let more = callers.len().saturating_sub(ROWS);
    if more > 0 {
        screen.say("", &format!("{more} more rows are in the JSON (--json FILE)."));
    }
}

/// What a tracepoint cannot see here.
fn unseen(document: &Document, seen: usize) -> String {
    match document.row(MONOTONIC).and_then(|row| row.served_by) {
        Some(ServedBy::Vdso) if seen == 0 => {
            format!("The vDSO answers {MONOTONIC} here, and such calls are not seen.")
        }
        Some(ServedBy::Vdso) => format!(
            "The vDSO answers {MONOTONIC} here, and such calls are not seen: those above come from programs that do not use the \
             vDSO, or ask a clock that it does not answer."
        ),
        Some(ServedBy::SystemCall) => format!(
            "A system call answers {MONOTONIC} here, so each such call is seen, but for those of 32-bit programs on a 64-bit \
             kernel."
        ),
        _ => "Calls that the vDSO answers are no system calls, and are not seen.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(pid: u32, calls_per_second: f64, fixed_core_percent: Option<f64>) -> Caller {
        Caller {
            pid,
            process: Some("a\u{1b}[2J".to_owned()),
            clock: MONOTONIC.to_owned(),
            calls_per_second,
            cost_ns: Some(1_000.0),
            core_percent: Some(calls_per_second / 1e4),
            fixed_core_percent,
            ..Caller::default()
        }
    }

    #[test]
    fn the_sum_comes_first_and_names_are_harmless() {
        let written = |callers: Vec<Caller>| {
            let (counted_s, sampled_every) = (Some(5.0), Some(11));
            let who = Who { counted_s, sampled_every, lost_calls: 22, callers, ..Who::default() };
            let text = text(&Document { who: Some(who), ..Document::default() });
            assert!(!text.contains('\u{1b}'), "{text}");
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let known = written(vec![caller(7, 100_000.0, Some(0.5)), caller(8, 50.0, Some(0.001))]);
        assert!(known.starts_with("100050 system calls a second"), "{known}");
        let unknown = written(vec![caller(7, 100_000.0, Some(0.5)), caller(8, 50.0, None)]);
        let many = written((1..=25).map(|pid| caller(pid, 10.0, Some(0.0))).collect());
        for (text, part) in [
            (&known, "10.01 % of a CPU now, 0.50 % after the fix"),
            (&known, "one call in 11"),
            (&known, "dropped the samples of 22 calls"),
            (&unknown, "an unknown share after the fix"),
            (&many, "5 more rows are in the JSON"),
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert!(written(Vec::new()).starts_with("No system call for the time was seen"));
        let (obstacle, instead) = (Some("no".to_owned()), vec!["sudo it".to_owned()]);
        let who = Some(Who { obstacle, instead, ..Who::default() });
        let prevented = text(&Document { who, ..Document::default() });
        assert!(prevented.contains("not counted: no.") && prevented.contains("\n  sudo it\n"), "{prevented}");
    }
}
