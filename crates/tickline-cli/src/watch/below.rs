//! What stands below the lines on a terminal: their headings, the clock, a plot of the newest offsets,
//! and the summary so far. It is drawn anew with each line.

use std::collections::VecDeque;
use std::io;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use super::lines;
use crate::document::Watch;
use crate::measure::watch::Sample;
use crate::terminal;
use crate::wrap::Look;

/// Offsets in the plot: a column for each, beside its name and its range on a terminal of 80 columns.
const MOST_OFFSETS: usize = 40;

/// Its drop clears what it has drawn.
pub(crate) struct Below {
    bar: ProgressBar,
    offsets_ns: VecDeque<f64>,
}

impl Below {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
        let bar = bar.with_style(ProgressStyle::default_bar()).with_finish(ProgressFinish::AndClear);
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self { bar, offsets_ns: VecDeque::new() }
    }

    /// Shows a sample's line. `watch` is the summary so far.
    pub(crate) fn show(&mut self, line: &str, sample: &Sample, watch: &Watch) -> io::Result<()> {
        if self.offsets_ns.len() == MOST_OFFSETS {
            self.offsets_ns.pop_front();
        }
        if sample.state == tickline::State::Fast {
            self.offsets_ns.push_back(sample.point.offset_ns);
        } else {
            // Readings of the OS clock have another scale.
            self.offsets_ns.clear();
        }
        let (look, columns) = (Look::of_stdout(), terminal::columns());
        let fitting = |line: &str| {
            if line.chars().count() <= columns { line.to_owned() } else { look.wrap("", line) }
        };
        let below = text(sample, &self.offsets_ns, watch, look)?;
        self.bar.set_message(format!("{}\n{below}", fitting(lines::HEAD)));
        self.bar.println(fitting(line));
        Ok(())
    }
}

fn text(sample: &Sample, offsets_ns: &VecDeque<f64>, watch: &Watch, look: Look) -> io::Result<String> {
    let status = &sample.status;
    let hz = status.frequency_hz;
    let hz = hz.map(|hz| format!("counter {}.{:06} MHz", hz / 1_000_000, hz % 1_000_000));
    let clock = format!(
        "{}; {}, maximum drift {} ppb, recalibrated every {} ms",
        sample.state,
        hz.as_deref().unwrap_or("counter not measured"),
        status.max_drift_ppb,
        status.interval_ns / 1_000_000
    );
    let mut out = Vec::new();
    look.say("", &clock, &mut out)?;
    if !offsets_ns.is_empty() {
        look.say("  newest   ", &plot(offsets_ns), &mut out)?;
    }
    lines::figures(watch, look, &mut out)?;
    Ok(String::from_utf8_lossy(&out).trim_end().to_owned())
}

/// The offsets from the lowest to the highest, the newest at the right.
fn plot(offsets_ns: &VecDeque<f64>) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let least = offsets_ns.iter().copied().fold(f64::INFINITY, f64::min);
    let most = offsets_ns.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let height = |ns: &f64| {
        let step = |part: u8| least + (most - least) * f64::from(part) / 8.0;
        HEIGHTS[(1..8).filter(|part| *ns > step(*part)).count()]
    };
    let plot: String = offsets_ns.iter().map(height).collect();
    format!("{plot} {least:+.1} to {most:+.1} ns")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::migration::Change;
    use crate::measure::watch::Watcher;
    use crate::terminal::Colour;
    use crate::watch::tally::Tally;

    /// A guest that is moved to another host: the change stays in sight.
    #[test]
    fn below_the_lines_are_a_plot_and_what_was_found_so_far() {
        let (mut tally, mut watcher) = (Tally::default(), Watcher::new(Vec::new(), Duration::from_secs(1)));
        let mut sample = watcher.sample();
        let what = "the kernel's clocksource was tsc and is hpet".to_owned();
        sample.changes = vec![Change { at_s: 7.0, kind: "clocksource", what }];
        tally.add(&sample);
        let offsets_ns: VecDeque<_> = (0..8_u8).map(f64::from).chain([-0.5]).collect();
        let look = Look { colour: Colour::None, columns: 80 };
        let found = text(&sample, &offsets_ns, &tally.watch(), look).unwrap();
        for part in [
            "maximum drift ",
            "recalibrated every ",
            "newest   ▁▂▃▄▅▆▇█▁ -0.5 to +7.0 ns",
            "changed  after 7.0 s: the kernel's clocksource was tsc and is hpet",
            "events   ",
        ] {
            assert!(found.contains(part), "no {part} in:\n{found}");
        }
        assert!(plot(&[3.0].into()).starts_with('▁'), "one offset is no range");
    }
}
