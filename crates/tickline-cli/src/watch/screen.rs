//! The live view: the figures, a plot that scrolls, and the CPUs, on a screen of its own.

use std::collections::VecDeque;
use std::io::{self, Stdout};
use std::panic;
use std::thread;
use std::time::Duration;

use ratatui_core::layout::{Constraint, Layout, Rect};
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::symbols::Marker;
use ratatui_core::terminal::{Frame, Terminal};
use ratatui_core::text::Line;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{self, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui_widgets::chart::{Axis, Chart, Dataset, GraphType};
use ratatui_widgets::paragraph::Paragraph;

use super::lines::happened;
use crate::measure::as_f64;
use crate::measure::migration::Change;
use crate::measure::track::Point;
use crate::measure::watch::{CpuSample, SKEW_S, Sample};
use crate::report::chart::nice_above;
use crate::terminal::{Colour, plain};
use crate::wrap::at_spaces;

/// Samples that are kept for the plot: one for each column of the widest terminal.
const MOST_POINTS: usize = 1_024;

/// The screen. Its drop restores the terminal, also after a panic.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    view: View,
}

impl Screen {
    pub(crate) fn open(interval: Duration) -> io::Result<Self> {
        let terminal = taken().inspect_err(|_| restore())?;
        Ok(Self { terminal, view: View::new(interval, Colour::of_stdout()) })
    }

    pub(crate) fn show(&mut self, sample: &Sample) -> io::Result<()> {
        self.view.add(sample);
        self.draw()
    }

    fn draw(&mut self) -> io::Result<()> {
        self.terminal.draw(|frame| self.view.render(frame)).map(|_| ())
    }

    /// Waits for a key, for this time at most; draws again for a new size. Returns whether a key asks for
    /// the end. Ctrl-Z stops the process until the shell continues it.
    pub(crate) fn wait(&mut self, time: Duration) -> io::Result<bool> {
        match event::poll(time) {
            Ok(true) => match event::read()? {
                Event::Key(key) if key.is_press() => match request_of(key.code, key.modifiers) {
                    Some(Request::Stop) => return Ok(true),
                    Some(Request::Suspend) => self.suspend()?,
                    None => {}
                },
                Event::Resize(..) => self.draw()?,
                _ => {}
            },
            Ok(false) => {}
            // A signal can still end the watch if keys can't be read.
            Err(_) => thread::sleep(time),
        }
        Ok(false)
    }

    /// Gives the terminal back while the process is stopped.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        restore();
        #[cfg(unix)]
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        terminal::enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        self.terminal.clear()?;
        self.draw()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Switches to the alternate screen. A panic restores the terminal before it prints its message.
fn taken() -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        restore();
        report(info);
    }));
    terminal::enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)?;
    Terminal::new(CrosstermBackend::new(io::stdout()))
}

/// Restores the terminal. A failure here cannot be reported any more.
fn restore() {
    terminal::disable_raw_mode().ok();
    execute!(io::stdout(), LeaveAlternateScreen).ok();
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Stop,
    Suspend,
}

/// The terminal is in raw mode, so Ctrl-C and Ctrl-Z are keys, and no signals.
fn request_of(code: KeyCode, modifiers: KeyModifiers) -> Option<Request> {
    match code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Request::Stop),
        KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => Some(Request::Stop),
        KeyCode::Char('z') if cfg!(unix) && modifiers.contains(KeyModifiers::CONTROL) => {
            Some(Request::Suspend)
        }
        _ => None,
    }
}

/// The content of the screen.
struct View {
    sample: Option<Sample>,
    history: VecDeque<Point>,
    /// The last change of the machine's clocks.
    change: Option<Change>,
    interval: Duration,
    colour: Colour,
}

impl View {
    fn new(interval: Duration, colour: Colour) -> Self {
        Self { sample: None, history: VecDeque::new(), change: None, interval, colour }
    }

    fn add(&mut self, sample: &Sample) {
        if self.history.len() == MOST_POINTS {
            self.history.pop_front();
        }
        self.history.push_back(sample.point);
        if let Some(change) = sample.changes.last() {
            self.change = Some(change.clone());
        }
        self.sample = Some(sample.clone());
    }

    fn style(&self, colour: Color) -> Style {
        match self.colour {
            Colour::Ansi => Style::new().fg(colour),
            Colour::None => Style::new(),
        }
    }

    fn render(&self, frame: &mut Frame<'_>) {
        let Some(sample) = &self.sample else { return };
        let area = frame.area();
        let figures = self.figures(sample, area.width);
        let tall = u16::try_from(figures.len()).unwrap_or(u16::MAX);
        // The plot needs at least 6 lines; the CPUs take at most a third of the screen.
        let spare = area.height.saturating_sub(tall + 1);
        let cpus = cpu_lines(&self.cells(sample), area.width, if spare >= 9 { area.height / 3 } else { 0 });
        let cpus_tall = u16::try_from(cpus.len()).unwrap_or(u16::MAX);
        let plot =
            if spare.saturating_sub(cpus_tall) >= 6 { Constraint::Fill(1) } else { Constraint::Length(0) };
        let parts = [Constraint::Length(tall), plot, Constraint::Length(cpus_tall), Constraint::Length(1)];
        let [top, middle, low, last] = Layout::vertical(parts).areas(area);
        frame.render_widget(Paragraph::new(figures), top);
        self.plot(frame, middle);
        frame.render_widget(Paragraph::new(cpus), low);
        let help = Line::styled("q or Ctrl-C: stop", self.style(Color::DarkGray));
        if area.height > tall {
            frame.render_widget(help, last);
        }
    }

    /// The figures, in as many lines of `width` as they take.
    fn figures(&self, sample: &Sample, width: u16) -> Vec<Line<'static>> {
        let (point, status) = (&sample.point, &sample.status);
        let colour = if sample.state == tickline::State::Fast { Color::Green } else { Color::Yellow };
        let skew = sample.skew_ppb.map_or_else(|| "-".to_owned(), |ppb| format!("{ppb:+.1}"));
        let hz = status.frequency_hz.map_or_else(
            || "counter not measured".to_owned(),
            |hz| format!("counter {}.{:06} MHz", hz / 1_000_000, hz % 1_000_000),
        );
        let events = happened(&sample.events, &[]);
        let events = if events.is_empty() { "none".to_owned() } else { events.replace(" +", "\u{a0}+") };
        let figures = [
            format!("offset {:+.1} ns (+-{:.1})", point.offset_ns, point.bracket_ns),
            format!("bound -{}/+{} ns", point.before_ns, point.after_ns),
            format!("skew {skew} ppb over {SKEW_S:.0} s"),
            hz,
            format!("maximum drift {} ppb", status.max_drift_ppb),
            format!("recalibrated every {} ms", status.interval_ns / 1_000_000),
            format!("{:.0} s", point.at_s),
        ];
        // A figure stays in one line.
        let figures = figures.map(|figure| figure.replace(' ', "\u{a0}")).join("   ");
        let bold = self.style(colour).add_modifier(Modifier::BOLD);
        let mut lines = wrapped(&sample.state.to_string(), width, bold);
        if point.violated {
            lines.push(Line::styled("BOUND VIOLATED by this sample", self.style(Color::Red)));
        }
        if let Some(change) = &self.change {
            let text = format!("CHANGED after {:.0} s: {}", change.at_s, plain(&change.what));
            lines.extend(wrapped(&text, width, self.style(Color::Red)));
        }
        lines.extend(wrapped(&figures, width, Style::new()));
        lines.extend(wrapped(&format!("events {events}"), width, Style::new()));
        lines
    }

    /// The last sample of each CPU. A CPU without a recent sample is busy or offline.
    fn cells(&self, sample: &Sample) -> Vec<String> {
        const LATE_SAMPLES: f64 = 3.0;
        const LATE_S: f64 = 1.0;
        let late_s = sample.point.at_s - LATE_SAMPLES * self.interval.as_secs_f64() - LATE_S;
        let cell = |sample: &CpuSample| {
            let mark = match (sample.point.violated, sample.state) {
                (true, _) => '!',
                (false, tickline::State::Fast) => ' ',
                _ => '?',
            };
            let offset = format!("{:+.1}", sample.point.offset_ns);
            match sample.point.at_s < late_s {
                true => format!("CPU {:<4} no sample", sample.cpu),
                false => format!("CPU {:<4}{offset:>8} ns{mark}", sample.cpu),
            }
        };
        sample.cpus.iter().map(cell).collect()
    }

    /// Offset and bound of the newest samples, the newest at the right.
    fn plot(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(last) = self.history.back() else { return };
        if area.height == 0 {
            return;
        }
        let span_s = f64::from(area.width.saturating_sub(12).max(8)) * self.interval.as_secs_f64();
        let shown = || self.history.iter().filter(|point| point.at_s >= last.at_s - span_s);
        let series = |value: fn(&Point) -> f64| -> Vec<(f64, f64)> {
            shown().map(|point| (point.at_s - last.at_s, value(point))).collect()
        };
        let offset = series(|point| point.offset_ns);
        let above = series(|point| point.offset_ns + as_f64(point.after_ns));
        let below = series(|point| point.offset_ns - as_f64(point.before_ns));
        let largest = above.iter().chain(&below).map(|(_, ns)| ns.abs()).fold(1.0, f64::max);
        let limit = nice_above(largest);
        let dataset = |data, colour, marker, graph_type| {
            Dataset::default().data(data).style(self.style(colour)).marker(marker).graph_type(graph_type)
        };
        let datasets = vec![
            dataset(&above, Color::DarkGray, Marker::Braille, GraphType::Line),
            dataset(&below, Color::DarkGray, Marker::Braille, GraphType::Line),
            dataset(&offset, Color::Cyan, Marker::Dot, GraphType::Scatter),
        ];
        let label = |ns: f64| format!("{ns:+.0} ns");
        let y = Axis::default().bounds([-limit, limit]);
        let x = Axis::default().bounds([-span_s, 0.0]).labels([format!("-{span_s:.0} s"), "now".to_owned()]);
        let y = y.labels([label(-limit), "0 ns".to_owned(), label(limit)]);
        frame.render_widget(Chart::new(datasets).x_axis(x).y_axis(y), area);
    }
}

/// Lines of `width`, broken at spaces, but not at those that are no-break ones.
fn wrapped(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let lines = textwrap::wrap(text, at_spaces(width.into())).into_iter();
    lines.map(|line| Line::styled(line.replace('\u{a0}', " "), style)).collect()
}

/// The CPUs, packed into lines of `width`; at most `most` lines, and the last one says how many
/// are left out.
fn cpu_lines(cells: &[String], width: u16, most: u16) -> Vec<Line<'static>> {
    const CELL: usize = 20;
    if cells.is_empty() || most == 0 {
        return Vec::new();
    }
    let each = (usize::from(width) / CELL).max(1);
    let mut lines: Vec<Line<'static>> = cells
        .chunks(each)
        .map(|row| Line::raw(row.iter().map(|cell| format!("{cell:<CELL$}")).collect::<String>()))
        .collect();
    if lines.len() > usize::from(most) {
        lines.truncate(usize::from(most) - 1);
        lines.push(Line::raw(format!("and {} more CPUs", cells.len() - lines.len() * each)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use ratatui_core::backend::TestBackend;

    use super::*;
    use crate::measure::watch::Watcher;

    fn sample(samples: u32) -> Sample {
        let mut sample = Watcher::new(Vec::new(), Duration::from_secs(1)).sample();
        let point = sample.point;
        let on = |cpu| CpuSample { cpu, point, state: tickline::State::Fast };
        sample.cpus = (0..samples).map(on).collect();
        sample
    }

    fn drawn(view: &View, columns: u16, rows: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| view.render(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_view_has_figures_a_plot_and_cpus() {
        let mut view = View::new(Duration::from_secs(1), Colour::None);
        let mut sample = sample(2);
        for at in 0..30_i32 {
            // A guest that is moved to another host: the change stays on the screen.
            let what = "the kernel's clocksource was tsc and is hpet".to_owned();
            let change = Change { at_s: 7.0, kind: "clocksource", what };
            sample.changes = if at == 7 { vec![change] } else { Vec::new() };
            sample.point.at_s = f64::from(at);
            sample.point.offset_ns = f64::from(at % 7) - 3.0;
            (sample.point.before_ns, sample.point.after_ns) = (20, 20);
            // The other CPU is busy.
            sample.cpus[0].point.at_s = f64::from(at);
            view.add(&sample);
        }
        let text = drawn(&view, 100, 30);
        for part in [
            "CHANGED after 7 s: the kernel's clocksource was tsc and is hpet",
            "offset -2.0 ns",
            "bound -20/+20 ns",
            " ppb over 10 s",
            "maximum drift ",
            "recalibrated every ",
            "events ",
            "+50 ns",
            "-50 ns",
            "now",
            "CPU 1    no sample",
            "q or Ctrl-C",
        ] {
            assert!(text.contains(part), "no {part} in:\n{text}");
        }
        assert_eq!(text.matches("no sample").count(), 1, "{text}");
        (0..MOST_POINTS).for_each(|_| view.add(&sample));
        assert_eq!(view.history.len(), MOST_POINTS, "no more than can be shown");
    }

    #[test]
    fn any_size_will_do() {
        let mut view = View::new(Duration::from_millis(100), Colour::Ansi);
        view.add(&sample(512));
        for (columns, rows) in [(1, 1), (2, 3), (10, 5), (40, 8), (80, 11), (80, 24), (500, 200)] {
            let text = drawn(&view, columns, rows);
            assert!(columns < 10 || text.contains("offset"), "{columns} x {rows}:\n{text}");
        }
        assert!(drawn(&view, 80, 30).contains("more CPUs"));
        assert!(!drawn(&view, 500, 200).contains("more CPUs"));
    }

    #[test]
    fn keys_that_stop_and_suspend() {
        let suspend = cfg!(unix).then_some(Request::Suspend);
        for (key, plain, with_control) in [
            (KeyCode::Char('q'), Some(Request::Stop), Some(Request::Stop)),
            (KeyCode::Esc, Some(Request::Stop), Some(Request::Stop)),
            (KeyCode::Char('c'), None, Some(Request::Stop)),
            (KeyCode::Char('z'), None, suspend),
        ] {
            assert_eq!(request_of(key, KeyModifiers::NONE), plain, "{key}");
            assert_eq!(request_of(key, KeyModifiers::CONTROL), with_control, "{key}");
        }
    }
}
