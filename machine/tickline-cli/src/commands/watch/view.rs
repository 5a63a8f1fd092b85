//! The live view of `watch`.
//!
//! On a terminal it is a table that fits the width, and its last column is a plot. There is a new
//! heading after some lines, and wherever the columns or the scale must change. Columns for which
//! there is no room are shown in a line below the third row under each heading.
//!
//! Elsewhere, as in a pipe, it is one heading, and one row with all columns for each sample,
//! without a plot.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tickline::Event;

use super::plot::PlotScale;
use super::text::{by_cpu, notes};
use crate::document::utc_width_ns;
use crate::float::as_f64;
use crate::measure::watch::{CpuSummary, WatchSample};
use crate::screen::{Screen, TableColumns};
use crate::words::{or_dash, time};

/// A column, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    Time,
    Offset,
    Bracket,
    Bound,
    Skew,
    UtcWidth,
    State,
    Cpus,
}

impl Column {
    /// All columns by their importance: a narrow terminal has the first ones.
    const BY_IMPORTANCE: [Self; 8] = [
        Self::Time,
        Self::Offset,
        Self::Bound,
        Self::State,
        Self::Skew,
        Self::Cpus,
        Self::UtcWidth,
        Self::Bracket,
    ];

    const fn head(self) -> &'static str {
        match self {
            Self::Time => "time s",
            Self::Offset => "offset ns",
            Self::Bracket => "bracket ns",
            Self::Bound => "bound ns",
            Self::Skew => "skew ppb",
            Self::UtcWidth => "UTC width",
            Self::State => "state",
            Self::Cpus => "CPUs, offset ns",
        }
    }

    /// The cell of a sample, with the newest offset on each CPU.
    fn cell(self, sample: &WatchSample, cpus: &[CpuSummary]) -> String {
        let offset = &sample.offset;
        match self {
            Self::Time => format!("{:.1}", offset.at_s),
            Self::Offset => format!("{:+.1}", offset.offset_ns),
            Self::Bracket => format!("{:.1}", offset.bracket_ns),
            Self::Bound => format!("-{}/+{}", offset.bound_before_ns, offset.bound_after_ns),
            Self::Skew => or_dash(sample.skew_ppb.map(|ppb| format!("{ppb:+.1}"))),
            Self::UtcWidth => {
                let width_ns = sample.utc.as_ref().ok().map(utc_width_ns);
                or_dash(width_ns.map(|ns| time(as_f64(ns))))
            }
            Self::State => offset.state.code().to_owned(),
            Self::Cpus => by_cpu(cpus),
        }
    }

    /// A cell that is as long as those of most samples on these CPUs.
    fn usual_cell(self, cpus: &[u32]) -> String {
        let fixed = match self {
            Self::Time => "999.9",
            Self::Offset => "-99.9",
            Self::Bracket => "99.9",
            Self::Bound => "-99/+99",
            Self::Skew => "+99.9",
            Self::UtcWidth => "999 us",
            Self::State => "calibrating",
            Self::Cpus => {
                let usual = |cpu: &u32| CpuSummary {
                    cpu: *cpu,
                    last_offset_ns: -99.0,
                    ..CpuSummary::default()
                };
                return by_cpu(&cpus.iter().map(usual).collect::<Vec<_>>());
            }
        };
        fixed.to_owned()
    }
}

/// A text for each column.
type Row = BTreeMap<Column, String>;

/// A row with this text in each column.
fn row_of(text: impl Fn(Column) -> String) -> Row {
    let columns = Column::BY_IMPORTANCE.into_iter();
    columns.map(|column| (column, text(column))).collect()
}

fn heads() -> Row {
    row_of(|column| column.head().to_owned())
}

/// The texts of these columns.
fn texts(row: &Row, columns: &BTreeSet<Column>) -> Vec<String> {
    columns.iter().map(|column| row[column].clone()).collect()
}

/// The table of these columns, as wide as the cells of `row`.
fn table(columns: &BTreeSet<Column>, row: &Row) -> TableColumns {
    let heads: Vec<&str> = columns.iter().map(|column| column.head()).collect();
    TableColumns::of(&heads, &[texts(row, columns)])
}

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
    shown: BTreeSet<Column>,
    table: TableColumns,
    scale: PlotScale,
}

impl Layout {
    /// The columns that fit, as wide as the cells of `row`, and a plot for `extent_ns` in the rest.
    fn new(columns: usize, row: &Row, extent_ns: f64) -> Self {
        let mut shown = BTreeSet::new();
        for column in Column::BY_IMPORTANCE {
            let mut more = shown.clone();
            more.insert(column);
            if table(&more, row).width() + 2 + MIN_PLOT > columns {
                break;
            }
            shown = more;
        }
        let table = table(&shown, row);
        let plot = columns.saturating_sub(table.width() + 2);
        Self {
            columns,
            shown,
            table,
            scale: PlotScale::for_extent(extent_ns, plot.clamp(MIN_PLOT, MAX_PLOT)),
        }
    }

    fn line(&self, row: &Row, plot: &str) -> String {
        format!("{}  {plot}", self.table.row(&texts(row, &self.shown)))
    }
}

/// The view, which gives the lines of each further sample.
#[derive(Debug)]
pub(super) struct View {
    /// The longest cells.
    longest: Row,
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
        Self {
            longest: row_of(|column| column.usual_cell(cpus)),
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
        let all = BTreeSet::from(Column::BY_IMPORTANCE);
        let longest = &self.longest;
        let table = self.all_columns.get_or_insert_with(|| {
            let table = table(&all, longest);
            text = table.row(&texts(&heads(), &all)) + "  events\n";
            table
        });
        let row = row_of(|column| column.cell(sample, cpus));
        let row = table.row(&texts(&row, &all));
        let notes = notes(sample, &sample.new_events).join("; ");
        text + format!("{row}  {notes}").trim_end() + "\n"
    }

    fn on_terminal(&mut self, sample: &WatchSample, cpus: &[CpuSummary], columns: usize) -> String {
        let offset = &sample.offset;
        let row = row_of(|column| column.cell(sample, cpus));
        self.extents.push_back(offset.extent_ns());
        if self.extents.len() > ROWS_PER_HEADING {
            self.extents.pop_front();
        }
        let mut events = sample.new_events.clone();
        self.replacements += events.remove(Event::Replacement.code()).unwrap_or(0);

        let mut screen = Screen::of(columns);
        let is_wider = self.widen(&row);
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
            screen.line(layout.line(&heads(), &layout.scale.heading()).trim_end());
            self.layout = Some(layout);
            self.rows_since_heading = 0;
        }
        self.rows_since_heading += 1;
        if let Some(layout) = &self.layout {
            screen.line(layout.line(&row, &layout.scale.line(offset)).trim_end());
            if self.rows_since_heading == ROW_WITH_REST {
                let rest = rest(&row, &layout.shown, &mut self.replacements);
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

    /// Keeps the longest cells. Returns whether one of this row is longer than all before.
    fn widen(&mut self, row: &Row) -> bool {
        let mut is_wider = false;
        for (longest, cell) in self.longest.values_mut().zip(row.values()) {
            if cell.chars().count() > longest.chars().count() {
                longest.clone_from(cell);
                is_wider = true;
            }
        }
        is_wider
    }
}

/// The known figures of the columns that are not shown, and the replacements, whose count begins
/// anew.
fn rest(row: &Row, shown: &BTreeSet<Column>, replacements: &mut u64) -> String {
    let hidden = row.iter().filter(|(column, _)| !shown.contains(column));
    let known = hidden.filter(|(_, cell)| !["", "-"].contains(&cell.as_str()));
    let mut parts: Vec<String> = known
        .map(|(column, cell)| format!("{} {cell}", column.head()))
        .collect();
    let count = std::mem::take(replacements);
    if count > 0 {
        parts.push(format!("{} +{count}", Event::Replacement.code()));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use tickline::{Clock, UnixTime};
    use tickline_utc::{UtcReading, UtcUnknown};

    use super::*;
    use crate::document::example::offset_sample;
    use crate::measure::watch::CountsByCode;

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
        for head in heads().into_values() {
            assert!(heading.contains(&head), "{heading}");
        }
        assert!(heading.ends_with("  events"), "{heading}");
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
        let utc = |sample: &WatchSample| Column::UtcWidth.cell(sample, &[]);
        assert_eq!(utc(&sample), "-");
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
        let mut row = view.longest.clone();
        assert!(!view.widen(&row));
        row.get_mut(&Column::Time).expect("a cell").push('0');
        assert!(view.widen(&row));
        assert_eq!(view.longest, row);
    }
}
