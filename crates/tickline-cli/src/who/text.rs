//! The callers as text for people.

use std::io::{self, Write};

use serde_json::json;

use crate::document::{Caller, Document, Who};
use crate::measure::calls::MONOTONIC;
use crate::measure::served_by::ServedBy;
use crate::words::cell;
use crate::wrap::Layout;

/// The most rows that are shown. The JSON has all.
const ROWS: usize = 20;

/// Writes the document as text.
pub(super) fn write(document: &Document, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    let Some(who) = &document.who else { return Ok(()) };
    if let Some(obstacle) = &who.obstacle {
        return prevented(obstacle, &who.instead, layout, out);
    }
    layout.say("", &sentence(who), out)?;
    document.build_note().map_or(Ok(()), |note| layout.say("", note, out))?;
    conditions(who, layout, out)?;
    rows(&who.callers, layout, out)?;
    writeln!(out)?;
    layout.say("", &unseen(document, who.callers.len()), out)?;
    match document.headline() {
        Some(headline) if who.core_percent() > 0.0 => {
            let headline = headline.replace(" Fix below.", " `tickline doctor` names the fix.");
            layout.say("", &format!("The machine: {headline}"), out)
        }
        _ => Ok(()),
    }
}

fn prevented(obstacle: &str, instead: &[String], layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    layout.say("", &format!("Calls were not counted: {obstacle}."), out)?;
    writeln!(out, "\nRun instead:")?;
    for command in instead {
        // Not wrapped, so that it can be copied.
        writeln!(out, "  {command}")?;
    }
    writeln!(out)?;
    layout.say("", 
        "A tracepoint costs a call little; strace stops the program twice at each call. None of them sees the calls that the \
         vDSO answers.",
        out,
    )
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

fn conditions(who: &Who, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    let (Some(seconds), Some(every)) = (who.counted_s, who.sampled_every) else { return Ok(()) };
    let looked = if every == 1 { "each call".to_owned() } else { format!("one call in {every}") };
    layout.say(
        "",
        &format!("Counted for {seconds:.1} s; {looked} was sampled; this program is left out."),
        out,
    )?;
    match who.lost_calls {
        0 => Ok(()),
        lost => layout.say(
            "",
            &format!("The kernel dropped the samples of {lost} calls, which are missing here."),
            out,
        ),
    }
}

fn rows(callers: &[Caller], layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    if callers.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let row = |caller: &Caller| {
        let name = caller.process.as_deref().unwrap_or("(ended)").to_owned();
        let cost = caller.cost_ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"));
        let (pid, calls) = (caller.pid.to_string(), format!("{:.0}", caller.calls_per_second));
        let shares = [caller.core_percent, caller.fixed_core_percent].map(|share| cell(&json!(share)));
        [vec![pid, name, caller.clock.clone(), calls, cost], shares.into()].concat()
    };
    let rows: Vec<_> = callers.iter().take(ROWS).map(row).collect();
    layout.table(&["PID", "process", "clock", "calls/s", "ns a call", "% of CPU", "% fixed"], &rows, out)?;
    match callers.len().saturating_sub(ROWS) {
        0 => Ok(()),
        more => layout.say("", &format!("{more} more rows are in the JSON (--json FILE)."), out),
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

    fn lines(who: Who) -> String {
        let mut document = Document::new("who");
        document.who = Some(who);
        let mut out = Vec::new();
        write(&document, Layout { columns: 100 }, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        text
    }

    fn written(callers: Vec<Caller>) -> String {
        let (counted_s, sampled_every) = (Some(5.0), Some(11));
        let text = lines(Who { counted_s, sampled_every, lost_calls: 22, callers, ..Who::default() });
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_sum_comes_first_and_names_are_harmless() {
        let text = written(vec![caller(7, 100_000.0, Some(0.5)), caller(8, 50.0, Some(0.001))]);
        assert!(text.starts_with("100050 system calls a second"), "{text}");
        for part in [
            "10.01 % of a CPU now, 0.50 % after the fix",
            "one call in 11",
            "dropped the samples of 22 calls",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
        let unknown = written(vec![caller(7, 100_000.0, Some(0.5)), caller(8, 50.0, None)]);
        assert!(unknown.contains("an unknown share after the fix"), "{unknown}");
        let many = written((1..=25).map(|pid| caller(pid, 10.0, Some(0.0))).collect());
        assert!(many.contains("5 more rows are in the JSON"), "{many}");
        assert!(written(Vec::new()).starts_with("No system call for the time was seen"));
    }

    #[test]
    fn an_obstacle_is_followed_by_commands() {
        let obstacle = Some("no".to_owned());
        let text = lines(Who { obstacle, instead: vec!["sudo it".to_owned()], ..Who::default() });
        assert!(text.contains("not counted: no.") && text.contains("\n  sudo it\n"), "{text}");
    }
}
