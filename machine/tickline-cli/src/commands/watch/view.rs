//! The live view of `watch`.
//!
//! On a terminal it is a table that fits the width, and its last column is a plot. There is a new
//! heading after some lines, and wherever the columns or the scale must change. Columns for which
//! there is no room are shown in a line below the third row under each heading.
//!
//! Elsewhere, as in a pipe, it is one heading, and one row with all columns for each sample,
//! without a plot.

use std::collections::VecDeque;

use tickline::Event;

use super::plot::PlotScale;
use super::text::{by_cpu, nonzero, notes};
use crate::document::utc_width_ns;
use crate::float::as_f64;
use crate::measure::watch::{CountsByCode, CpuSummary, WatchSample};
use crate::screen::{Screen, TableColumns};
use crate::words::time;

/// The columns, in their order.
const HEADS: [&str; 8] = [
    "time s",
    "offset ns",
    "bracket ns",
    "bound ns",
    "skew ppb",
    "UTC width",
    "state",
    "CPUs, offset ns",
];

/// Cells that are as long as those of most samples; the CPUs' are in [`View::new`].
const USUAL: [&str; 7] = [
    "999.9",
    "-99.9",
    "99.9",
    "-99/+99",
    "+99.9",
    "999 us",
    "calibrating",
];

/// The columns by their importance: a narrow terminal has the first ones.
const BY_IMPORTANCE: [usize; 8] = [0, 1, 3, 6, 4, 7, 5, 2];

/// The narrowest and the widest plot, characters.
const MIN_PLOT: usize = 15;
const MAX_PLOT: usize = 61;

/// The number of rows on a terminal from one heading to the next.
const ROWS_PER_HEADING: usize = 20;

/// The row under each heading that is followed by the columns for which there is no room. The first
/// two samples have no skew.
const ROW_WITH_REST: usize = 3;

/// The columns and the plot that fit a terminal.
#[derive(Debug)]
struct Layout {
    /// Columns of the terminal.
    columns: usize,
    /// The indices of the shown columns, in their order.
    shown: Vec<usize>,
    table: TableColumns,
    scale: PlotScale,
}

impl Layout {
    /// The columns that fit, as wide as `cells`, and a plot for `extent_ns` in the rest.
    fn new(columns: usize, cells: &[String], extent_ns: f64) -> Self {
        let table = |shown: &[usize]| {
            let heads: Vec<&str> = shown.iter().map(|column| HEADS[*column]).collect();
            TableColumns::of(&heads, &[of_columns(cells, shown)])
        };
        let mut shown = Vec::new();
        for column in BY_IMPORTANCE {
            let mut more = shown.clone();
            more.push(column);
            more.sort_unstable();
            if table(&more).width() + 2 + MIN_PLOT > columns {
                break;
            }
            shown = more;
        }
        let table = table(&shown);
        let plot = columns.saturating_sub(table.width() + 2);
        Self {
            columns,
            shown,
            table,
            scale: PlotScale::for_extent(extent_ns, plot.clamp(MIN_PLOT, MAX_PLOT)),
        }
    }

    fn line(&self, cells: &[String], plot: &str) -> String {
        let cells = of_columns(cells, &self.shown);
        format!("{}  {plot}", self.table.row(&cells))
    }
}

/// The cells of these columns.
fn of_columns(cells: &[String], columns: &[usize]) -> Vec<String> {
    columns
        .iter()
        .map(|column| cells[*column].clone())
        .collect()
}

/// The view, which gives the lines of each further sample.
#[derive(Debug)]
pub(super) struct View {
    /// For each column, the longest cell.
    longest: Vec<String>,
    /// The table of all columns, for output that is no terminal. `None` before the first row.
    all_columns: Option<TableColumns>,
    /// `None` before the first row on a terminal.
    layout: Option<Layout>,
    rows_since_heading: usize,
    /// The extents of the newest samples, ns.
    extents: VecDeque<f64>,
    /// The replacements since they were last shown. They happen all the time, and have no line.
    replacements: u64,
}

impl View {
    /// A view of samples that are also taken on each of these CPUs.
    pub(super) fn new(cpus: &[u32]) -> Self {
        let usual_cpu = |cpu: &u32| CpuSummary {
            cpu: *cpu,
            last_offset_ns: -99.0,
            ..CpuSummary::default()
        };
        let usual_cpus: Vec<_> = cpus.iter().map(usual_cpu).collect();
        let usual = USUAL.map(str::to_owned).into_iter();
        Self {
            longest: usual.chain([by_cpu(&usual_cpus)]).collect(),
            all_columns: None,
            layout: None,
            rows_since_heading: 0,
            extents: VecDeque::new(),
            replacements: 0,
        }
    }

    /// The lines of a further sample. `columns` is the width of the terminal; `None` without one.
    pub(super) fn lines(
        &mut self,
        sample: &WatchSample,
        cpus: &[CpuSummary],
        columns: Option<usize>,
    ) -> String {
        match columns {
            Some(columns) => self.on_terminal(sample, cpus, columns),
            None => self.elsewhere(sample, cpus),
        }
    }

    fn elsewhere(&mut self, sample: &WatchSample, cpus: &[CpuSummary]) -> String {
        let mut text = String::new();
        let longest = &self.longest;
        let table = self.all_columns.get_or_insert_with(|| {
            let table = TableColumns::of(&HEADS, std::slice::from_ref(longest));
            text = table.row(&HEADS.map(str::to_owned)) + "  events\n";
            table
        });
        let row = table.row(&cells(sample, cpus));
        let notes = notes(sample, &sample.new_events).join("; ");
        text + format!("{row}  {notes}").trim_end() + "\n"
    }

    fn on_terminal(&mut self, sample: &WatchSample, cpus: &[CpuSummary], columns: usize) -> String {
        let offset = &sample.offset;
        let cells = cells(sample, cpus);
        self.extents.push_back(offset.extent_ns());
        if self.extents.len() > ROWS_PER_HEADING {
            self.extents.pop_front();
        }
        let mut events = sample.new_events.clone();
        self.replacements += events.remove(Event::Replacement.code()).unwrap_or(0);

        let mut screen = Screen::of(columns);
        let is_wider = self.widen(&cells);
        let is_kept = self.rows_since_heading < ROWS_PER_HEADING
            && self.layout.as_ref().is_some_and(|layout| {
                layout.columns == columns && layout.scale.has_room_for(offset) && !is_wider
            });
        if self.layout.is_none() {
            screen.say("", "*: offset, -: bound, |: CLOCK_MONOTONIC");
        }
        if !is_kept {
            let extent_ns = self.extents.iter().copied().fold(0.0, f64::max);
            let layout = Layout::new(columns, &self.longest, extent_ns);
            let heads = HEADS.map(str::to_owned);
            screen.line(layout.line(&heads, &layout.scale.heading()).trim_end());
            self.layout = Some(layout);
            self.rows_since_heading = 0;
        }
        self.rows_since_heading += 1;
        if let Some(layout) = &self.layout {
            screen.line(layout.line(&cells, &layout.scale.line(offset)).trim_end());
            if self.rows_since_heading == ROW_WITH_REST {
                let rest = rest(&cells, &layout.shown, &mut self.replacements);
                if !rest.is_empty() {
                    screen.say("    ", &rest);
                }
            }
        }
        for note in notes(sample, &events) {
            screen.say("    ", &note);
        }
        screen.text
    }

    /// Keeps the longest cells. Returns whether one of these is longer than all before.
    fn widen(&mut self, cells: &[String]) -> bool {
        let mut is_wider = false;
        for (longest, cell) in self.longest.iter_mut().zip(cells) {
            if cell.chars().count() > longest.chars().count() {
                longest.clone_from(cell);
                is_wider = true;
            }
        }
        is_wider
    }
}

/// The cells of a sample, with the newest offset on each CPU.
fn cells(sample: &WatchSample, cpus: &[CpuSummary]) -> Vec<String> {
    let offset = &sample.offset;
    let dash = || "-".to_owned();
    let width_ns = sample.utc.as_ref().ok().map(utc_width_ns);
    vec![
        format!("{:.1}", offset.at_s),
        format!("{:+.1}", offset.offset_ns),
        format!("{:.1}", offset.bracket_ns),
        format!("-{}/+{}", offset.bound_before_ns, offset.bound_after_ns),
        sample
            .skew_ppb
            .map_or_else(dash, |ppb| format!("{ppb:+.1}")),
        width_ns.map_or_else(dash, |ns| time(as_f64(ns))),
        offset.state.code().to_owned(),
        by_cpu(cpus),
    ]
}

/// The known figures of the columns that are not shown, and the replacements, whose count begins
/// anew.
fn rest(cells: &[String], shown: &[usize], replacements: &mut u64) -> String {
    let hidden = (0..HEADS.len()).filter(|column| !shown.contains(column));
    let known = hidden.filter(|column| !["", "-"].contains(&cells[*column].as_str()));
    let mut parts: Vec<String> = known
        .map(|column| format!("{} {}", HEADS[column], cells[column]))
        .collect();
    let count = std::mem::take(replacements);
    let events = nonzero(&CountsByCode::from([(Event::Replacement.code(), count)]));
    if !events.is_empty() {
        parts.push(events);
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use tickline::{Clock, UnixTime};
    use tickline_utc::{UtcReading, UtcUnknown};

    use super::*;
    use crate::commands::report::example::offset_sample;

    fn sample(at_s: f64, offset_ns: f64) -> WatchSample {
        WatchSample {
            unix_s: 0.0,
            offset: offset_sample(at_s, offset_ns),
            skew_ppb: Some(-1.5),
            status: Clock::global().status(),
            utc: Err(UtcUnknown::NoSource),
            events: CountsByCode::new(),
            new_events: CountsByCode::from([(Event::Replacement.code(), 2)]),
            changes: Vec::new(),
            cpus: Vec::new(),
        }
    }

    const CPUS: [u32; 2] = [0, 1];

    fn cpus() -> Vec<CpuSummary> {
        let summary = |cpu| CpuSummary {
            cpu,
            last_offset_ns: 7.0,
            ..CpuSummary::default()
        };
        CPUS.map(summary).into()
    }

    /// What a terminal of this width shows of samples with these offsets.
    fn shown(columns: usize, offsets_ns: &[f64]) -> Vec<String> {
        let mut view = View::new(&CPUS);
        let mut text = String::new();
        for (index, offset_ns) in (0..).zip(offsets_ns) {
            let sample = sample(f64::from(index), *offset_ns);
            text += &view.lines(&sample, &cpus(), Some(columns));
        }
        text.lines().map(str::to_owned).collect()
    }

    /// Symptom: a heading of 104 columns, and rows that were wrapped as prose, on a terminal of 80.
    #[test]
    fn every_line_fits_the_terminal_and_ends_with_the_plot() {
        for columns in [40, 60, 80, 120] {
            let lines = shown(columns, &[5.0; 4]);
            for line in &lines {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
            let rows = lines.iter().filter(|line| line.contains("*---"));
            assert_eq!(rows.count(), 4, "{columns}: {lines:?}");
        }
    }

    #[test]
    fn a_figure_without_a_column_is_below_the_third_row() {
        for columns in [40, 60, 80, 120] {
            let text = shown(columns, &[5.0; 3]).join(" ");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for figure in ["+5.0", "15.0", "-25/+25", "-1.5", "fast", "0:+7 1:+7"] {
                assert!(text.contains(figure), "{columns}: no {figure} in {text}");
            }
            assert!(text.contains("replacement +6"), "{columns}: {text}");
        }
    }

    #[test]
    fn a_new_heading_follows_when_the_scale_the_width_or_the_number_of_rows_asks_for_it() {
        let headings = |lines: &[String]| {
            let is_heading = |line: &&String| line.contains("time s");
            lines.iter().filter(is_heading).cloned().collect::<Vec<_>>()
        };
        assert_eq!(headings(&shown(80, &[5.0; ROWS_PER_HEADING])).len(), 1);
        assert_eq!(headings(&shown(80, &[5.0; ROWS_PER_HEADING + 1])).len(), 2);
        let scales = headings(&shown(80, &[5.0, 300.0]));
        assert!(
            scales[0].contains("50 ns") && scales[1].contains("500 ns"),
            "{scales:?}"
        );

        let mut view = View::new(&CPUS);
        let mut at = |columns| view.lines(&sample(0.0, 5.0), &cpus(), Some(columns));
        at(80);
        assert!(!at(80).contains("time s") && at(60).contains("time s"));
    }

    /// The scale of an outlier is left once it is no longer among the newest samples.
    #[test]
    fn the_scale_follows_the_newest_samples() {
        let mut offsets_ns = [5.0; ROWS_PER_HEADING + 1];
        offsets_ns[0] = 900.0;
        let lines = shown(80, &offsets_ns);
        let last = lines.iter().rfind(|line| line.contains("time s"));
        assert!(
            last.is_some_and(|line| line.ends_with("50 ns")),
            "{lines:?}"
        );
    }

    #[test]
    fn a_pipe_gets_one_row_with_all_columns_for_each_sample() {
        let mut view = View::new(&CPUS);
        let mut next = |at_s| view.lines(&sample(at_s, 5.0), &cpus(), None);
        let (first, second) = (next(0.0), next(1.0));
        let lines: Vec<_> = first.lines().chain(second.lines()).collect();
        let [heading, row, next_row] = &lines[..] else {
            panic!("{lines:?}");
        };
        for head in HEADS.into_iter().chain(["events"]) {
            assert!(heading.contains(head), "{heading}");
        }
        let figures = "+5.0        15.0   -25/+25      -1.5  -          fast";
        for row in [row, next_row] {
            assert!(
                row.contains(figures) && row.ends_with("0:+7 1:+7  replacement +2"),
                "{row}"
            );
        }
    }

    #[test]
    fn a_row_has_the_width_of_utc_if_it_is_known() {
        let mut sample = sample(0.0, 5.0);
        let utc = |sample: &WatchSample| cells(sample, &[])[5].clone();
        assert_eq!((HEADS[5], utc(&sample).as_str()), ("UTC width", "-"));
        sample.utc = Ok(UtcReading::from_bounds(
            UnixTime::from_nanos(1_000),
            UnixTime::from_nanos(3_000),
        ));
        assert_eq!(utc(&sample), "2 us");
    }

    #[test]
    fn what_happens_has_a_line_of_its_own() {
        let mut view = View::new(&[]);
        let mut sample = sample(0.0, 5.0);
        sample.offset.bound_violated = true;
        sample.new_events.insert("disruption", 1);
        let text = view.lines(&sample, &[], Some(60));
        assert!(
            text.contains("\n    disruption +1\n    BOUND VIOLATED\n"),
            "{text}"
        );
    }

    #[test]
    fn the_longest_cells_are_kept() {
        let mut view = View::new(&[]);
        let mut cells = view.longest.clone();
        assert!(!view.widen(&cells));
        cells[0].push('0');
        assert!(view.widen(&cells));
        assert_eq!(view.longest, cells);
    }
}
