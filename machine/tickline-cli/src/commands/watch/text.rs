//! Formats what a sample says beside its figures, and the summary.

use crate::document::Document;
use crate::machine_rows;
use crate::measure::watch::{CountsByCode, CpuSummary, Ending, WatchSample, WatchSummary};
use crate::screen::Screen;
use crate::words::plain;

/// The most CPUs whose offsets a row shows one by one. Of more CPUs it shows the two extremes.
const CPUS_IN_ROW: usize = 4;

/// The most CPUs in the summary. Of more CPUs it shows the ones with the largest offsets.
const CPUS_IN_SUMMARY: usize = 16;

/// What has happened since the sample before: these events, a violated bound, and changes of the
/// machine's clocks.
pub(super) fn notes(sample: &WatchSample, new_events: &CountsByCode) -> Vec<String> {
    let mut notes = vec![nonzero(new_events)];
    if sample.offset.bound_violated {
        notes.push("BOUND VIOLATED".to_owned());
    }
    for change in &sample.changes {
        notes.push(format!("CHANGED: {}", plain(&change.what)));
    }
    notes.retain(|note| !note.is_empty());
    notes
}

/// The newest offset on each CPU, or the two extremes of many.
pub(super) fn by_cpu(cpus: &[CpuSummary]) -> String {
    let offset = |cpu: &CpuSummary| format!("{}:{:+.0}", cpu.cpu, cpu.last_offset_ns);
    if cpus.len() <= CPUS_IN_ROW {
        return cpus.iter().map(offset).collect::<Vec<_>>().join(" ");
    }
    let by = |a: &&CpuSummary, b: &&CpuSummary| a.last_offset_ns.total_cmp(&b.last_offset_ns);
    let ends = cpus.iter().min_by(by).zip(cpus.iter().max_by(by));
    ends.map_or_else(String::new, |(least, most)| {
        format!("{} to {}", offset(least), offset(most))
    })
}

/// The events that have happened, each with its count.
pub(super) fn nonzero(events: &CountsByCode) -> String {
    let events = events.iter().filter(|(_, count)| **count > 0);
    events
        .map(|(name, count)| format!("{name} +{count}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The summary.
pub(crate) fn summary(document: &Document) -> String {
    let mut screen = Screen::for_stdout();
    let Some(watch) = &document.watch else {
        return screen.text;
    };
    let why = match watch.ended_by {
        Ending::Time => "as requested",
        Ending::Stopped => "until stopped",
        Ending::ReaderLeft => "until the reader left",
    };
    let all = &watch.all;
    screen.say("", &document.result);
    let samples = if all.samples == 1 {
        "sample"
    } else {
        "samples"
    };
    let watched = format!(
        "Watched for {:.1} s, {why}: {} {samples}, {} by the counter",
        watch.watched_s, all.samples, all.fast_samples
    );
    screen.say("", &watched);
    let mut fact = |name: &str, text: &str| screen.say(&format!("  {name:<8} "), text);
    fact(
        "offset",
        &format!(
            "{:+.1} to {:+.1} ns",
            all.least_offset_ns, all.most_offset_ns
        ),
    );
    fact(
        "bound",
        &format!(
            "{} ns at most, violated {} times",
            all.largest_bound_ns, all.bound_violated
        ),
    );
    match watch.skew_ppb {
        Some(ppb) => fact(
            "skew",
            &format!("{ppb:+.2} ppb while readings came from the counter"),
        ),
        None => fact(
            "skew",
            "unknown: less than three samples are by the counter",
        ),
    }
    fact("UTC", &machine_rows::utc(&document.clock));
    for change in &watch.changes {
        fact(
            "changed",
            &format!("after {:.1} s: {}", change.at_s, change.what),
        );
    }
    let events = nonzero(&watch.events);
    fact("events", if events.is_empty() { "none" } else { &events });
    cpus(watch, &mut screen);
    screen.text
}

fn cpus(watch: &WatchSummary, screen: &mut Screen) {
    let mut cpus: Vec<_> = watch.cpus.iter().collect();
    if cpus.is_empty() {
        return;
    }
    if cpus.len() > CPUS_IN_SUMMARY {
        let largest = |cpu: &CpuSummary| cpu.offsets.largest_offset_ns;
        cpus.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
        cpus.truncate(CPUS_IN_SUMMARY);
        let title = format!(
            "the {CPUS_IN_SUMMARY} of {} CPUs with the largest offsets",
            watch.cpus.len()
        );
        screen.say("  ", &title);
    }
    let row = |cpu: &&CpuSummary| {
        let offsets = &cpu.offsets;
        let offset = format!(
            "{:+.1} to {:+.1}",
            offsets.least_offset_ns, offsets.most_offset_ns
        );
        let counts =
            [offsets.largest_bound_ns, offsets.bound_violated].map(|count| count.to_string());
        let fields = vec![
            cpu.cpu.to_string(),
            cpu.state.to_owned(),
            offsets.samples.to_string(),
            offset,
        ];
        [fields, counts.into()].concat()
    };
    let rows: Vec<_> = cpus.iter().map(row).collect();
    screen.table(
        &[
            "CPU",
            "state",
            "samples",
            "offset ns",
            "bound ns",
            "violated",
        ],
        &rows,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_that_have_happened_are_named() {
        let events = CountsByCode::from([("bound_violation", 0), ("disruption", 3)]);
        assert_eq!(nonzero(&events), "disruption +3");
    }
}
