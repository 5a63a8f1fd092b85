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
fn nonzero(events: &CountsByCode) -> String {
    let events = events.iter().filter(|(_, count)| **count > 0);
    events
        .map(|(name, count)| format!("{name} +{count}"))
        .collect::<Vec<_>>()
        .join(" ")
}

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
    let is_fast_after_samples = document.fast && all.fast_samples == 0;
    let result = if is_fast_after_samples {
        "tickline reads the counter now; it began to do so after the last sample."
    } else {
        &document.result
    };
    screen.say("", result);
    if let Some(note) = document.build_note() {
        screen.say("", note);
    }
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
    facts(watch, &machine_rows::utc(&document.clock), &mut screen);
    cpus(watch, &mut screen);
    screen.text
}

/// Shows a line for each figure, and for what has happened; `utc` is the line about UTC.
fn facts(watch: &WatchSummary, utc: &str, screen: &mut Screen) {
    let all = &watch.all;
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
    fact("UTC", utc);
    for change in &watch.changes {
        fact(
            "changed",
            &format!("after {:.1} s: {}", change.at_s, change.what),
        );
    }
    let events = nonzero(&watch.events);
    fact("events", if events.is_empty() { "none" } else { &events });
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
    use tickline::{Clock, Driver};
    use tickline_utc::UtcUnknown;

    use super::*;
    use crate::document::example::offset_sample;
    use crate::measure::changes::Change;
    use crate::measure::track::OffsetSummary;

    /// A sample without any news, 1.5 s after the start, 5 ns above the OS clock.
    fn sample() -> WatchSample {
        let clock = Clock::builder().driver(Driver::Manual).build().unwrap();
        WatchSample {
            unix_s: 0.0,
            offset: offset_sample(1.5, 5.0),
            skew_ppb: None,
            status: clock.status(),
            utc: Err(UtcUnknown::NoSource),
            events: CountsByCode::new(),
            new_events: CountsByCode::new(),
            changes: Vec::new(),
            cpus: Vec::new(),
        }
    }

    /// Summaries of CPUs whose last offsets were these, ns.
    fn cpus_with(last_ns: &[f64]) -> Vec<CpuSummary> {
        let summary = |(cpu, last_offset_ns): (u32, &f64)| CpuSummary {
            cpu,
            state: "fast",
            last_offset_ns: *last_offset_ns,
            offsets: OffsetSummary {
                samples: 10,
                least_offset_ns: last_offset_ns - 1.0,
                most_offset_ns: last_offset_ns + 1.0,
                largest_offset_ns: last_offset_ns.abs() + 1.0,
                largest_bound_ns: 40,
                bound_violated: 3,
                ..OffsetSummary::default()
            },
        };
        (0..).zip(last_ns).map(summary).collect()
    }

    fn to_hpet() -> Change {
        Change {
            at_s: 1.0,
            kind: "clocksource",
            what: "the clocksource is hpet".to_owned(),
        }
    }

    fn words(text: &str) -> Vec<&str> {
        text.split_whitespace().collect()
    }

    #[test]
    fn notes_are_the_events_a_violated_bound_and_the_changes() {
        let mut news = sample();
        news.new_events = CountsByCode::from([("disruption", 3)]);
        news.offset.bound_violated = true;
        news.changes = vec![to_hpet()];
        let expected = [
            "disruption +3",
            "BOUND VIOLATED",
            "CHANGED: the clocksource is hpet",
        ];
        assert_eq!(notes(&news, &news.new_events), expected);
    }

    #[test]
    fn a_line_has_the_offset_of_each_of_four_cpus() {
        let text = by_cpu(&cpus_with(&[5.0, -3.0, 0.0, 7.6]));
        assert_eq!(text, "0:+5 1:-3 2:+0 3:+8");
    }

    #[test]
    fn a_line_has_the_least_and_the_largest_offset_of_more_cpus() {
        let text = by_cpu(&cpus_with(&[5.0, -3.0, 0.0, 7.0, 6.0]));
        assert_eq!(text, "1:-3 to 3:+7");
    }

    /// The summary of a watch with these differences from none, without the breaks of its lines.
    fn summary_with(change: impl FnOnce(&mut WatchSummary)) -> String {
        let mut watch = WatchSummary::default();
        change(&mut watch);
        let document = Document {
            watch: Some(watch),
            ..Document::default()
        };
        words(&summary(&document)).join(" ")
    }

    #[test]
    fn the_summary_says_how_long_it_was_watched_and_how_it_ended() {
        for (samples, ended_by, text) in [
            (1, Ending::Time, "as requested: 1 sample, 1 by the counter"),
            (
                2,
                Ending::Stopped,
                "until stopped: 2 samples, 1 by the counter",
            ),
            (
                3,
                Ending::ReaderLeft,
                "until the reader left: 3 samples, 1 by the counter",
            ),
        ] {
            let summary = summary_with(|watch| {
                watch.watched_s = 2.5;
                watch.ended_by = ended_by;
                watch.all.samples = samples;
                watch.all.fast_samples = 1;
            });
            let text = format!("Watched for 2.5 s, {text}");
            assert!(summary.contains(&text), "no {text} in {summary}");
        }
    }

    /// Symptom: "tickline reads the counter here." above "1 sample, 0 by the counter".
    #[test]
    fn the_summary_does_not_say_that_samples_were_by_the_counter_if_none_was() {
        for (fast_samples, says) in [
            (
                0,
                "reads the counter now; it began to do so after the last sample.",
            ),
            (1, "tickline reads the counter here."),
        ] {
            let mut watch = WatchSummary::default();
            watch.all.samples = 1;
            watch.all.fast_samples = fast_samples;
            let summary = summary(&Document {
                fast: true,
                result: "tickline reads the counter here.".to_owned(),
                watch: Some(watch),
                ..Document::default()
            });
            assert!(summary.contains(says), "no {says} in {summary}");
        }
    }

    #[test]
    fn the_summary_has_the_extremes_and_what_happened() {
        let summary = summary_with(|watch| {
            watch.all = OffsetSummary {
                least_offset_ns: -9.0,
                most_offset_ns: 5.0,
                largest_bound_ns: 40,
                bound_violated: 2,
                ..OffsetSummary::default()
            };
            watch.skew_ppb = Some(-3.255);
            watch.events = CountsByCode::from([("disruption", 3)]);
            watch.changes = vec![to_hpet()];
        });
        for fact in [
            "offset -9.0 to +5.0 ns",
            "bound 40 ns at most, violated 2 times",
            "skew -3.25 ppb while",
            "changed after 1.0 s: the clocksource is hpet",
            "events disruption +3",
        ] {
            assert!(summary.contains(fact), "no {fact} in {summary}");
        }
    }

    #[test]
    fn the_summary_says_what_is_unknown_and_that_nothing_happened() {
        let summary = summary_with(|_| {});
        for fact in ["skew unknown: less than three", "events none"] {
            assert!(summary.contains(fact), "no {fact} in {summary}");
        }
    }

    #[test]
    fn the_summary_has_a_row_for_each_cpu() {
        let summary = summary_with(|watch| watch.cpus = cpus_with(&[5.0; 16]));
        let row = " 15 fast 10 +4.0 to +6.0 40 3";
        assert!(summary.contains(row), "no {row} in {summary}");
        assert!(!summary.contains("with the largest offsets"), "{summary}");
    }

    #[test]
    fn of_more_cpus_the_summary_has_those_with_the_largest_offsets() {
        let offsets: Vec<f64> = (0..17).map(|cpu| f64::from(cpu) - 7.0).collect();
        let summary = summary_with(|watch| watch.cpus = cpus_with(&offsets));
        let title = "the 16 of 17 CPUs with the largest offsets";
        let (_, rows) = summary.split_once(title).expect(title);
        // CPU 7 was at 0.
        assert!(!rows.contains(" 7 fast"), "{rows}");
        let first = " violated 16 fast 10 +8.0 to +10.0 ";
        assert!(rows.contains(first), "no {first} in {rows}");
    }

    #[test]
    fn the_cpus_are_a_table_on_80_columns() {
        let mut watch = WatchSummary::default();
        watch.cpus = cpus_with(&[-1_234_567.8, 1_234_567.8]);
        watch.cpus[1].state = "disrupted";
        let mut screen = Screen::of(80);
        super::cpus(&watch, &mut screen);
        assert!(screen.text.starts_with("  CPU  state "), "{}", screen.text);
    }

    #[test]
    fn only_events_that_have_happened_are_named() {
        let events = CountsByCode::from([("bound_violation", 0), ("disruption", 3)]);
        assert_eq!(nonzero(&events), "disruption +3");
    }
}
