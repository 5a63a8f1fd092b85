//! Figures for readers, and tables in which the best is bold.

/// A figure in a table, and its rank: less is better.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    rank: f64,
    /// The text by which figures tie.
    digits: String,
    text: String,
}

impl Cell {
    /// Better the nearer to 0. Figures that read the same tie.
    pub(super) fn new(figure: f64, text: String) -> Self {
        Self { rank: figure.abs(), digits: text.clone(), text }
    }

    /// ns and the ratio in brackets. Figures with the same ratio tie.
    pub(super) fn cost(ns: f64, ratio: f64) -> Self {
        let digits = format!("{ratio:.2}");
        Self { rank: ratio, text: format!("{ns:.1} ({digits})"), digits }
    }
}

/// A row of a table: its name, and figures where there are some.
pub(super) type Row = (String, Vec<Option<Cell>>);

/// A table's head.
pub(super) fn head(titles: &[&str]) -> String {
    format!("| {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len()))
}

/// A row: what it says, and the figure in each of the columns.
pub(super) fn line<T>(
    title: &str,
    columns: &[T],
    figure: impl Fn(&T) -> Result<String, String>,
) -> Result<String, String> {
    let figures = columns.iter().map(figure).collect::<Result<Vec<String>, String>>()?;
    Ok(format!("| {title} | {} |\n", figures.join(" | ")))
}

/// Rows, in which the best of each column is bold if `is_best_bold`, ties included. A single figure is
/// not bold.
pub(super) fn rows(rows: &[Row], is_best_bold: bool) -> String {
    let columns = rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    let best: Vec<Option<&str>> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|(_, cells)| cells.get(column)?.as_ref());
            let best = cells.clone().min_by(|one, other| one.rank.total_cmp(&other.rank))?;
            (is_best_bold && cells.count() > 1).then_some(best.digits.as_str())
        })
        .collect();
    let text = |(cell, best): (&Option<Cell>, &Option<&str>)| match cell {
        None => String::new(),
        Some(cell) if Some(cell.digits.as_str()) == *best => format!("**{}**", cell.text),
        Some(cell) => cell.text.clone(),
    };
    let line = |(name, cells): &Row| {
        let cells: Vec<String> = cells.iter().zip(&best).map(text).collect();
        format!("| {name} | {} |\n", cells.join(" | "))
    };
    rows.iter().map(line).collect()
}

/// Commas between thousands.
#[expect(clippy::cast_possible_truncation, reason = "figures far below 2^63, and rounded")]
pub(super) fn whole(figure: f64) -> String {
    let rounded = figure.round() as i64;
    let digits = rounded.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if rounded < 0 { format!("-{text}") } else { text }
}

/// One decimal for small figures, none for others, none for 0.
pub(super) fn short(figure: f64) -> String {
    let tenths = (figure * 10.0).round() / 10.0;
    if tenths == 0.0 {
        "0".into()
    } else if tenths.abs() < 10.0 {
        format!("{tenths:.1}")
    } else {
        whole(figure)
    }
}

/// A time in the unit that suits it.
pub(super) fn time_ns(ns: f64) -> String {
    let (factor, unit) = match ns.abs() {
        size if size < 1e3 => (1.0, "ns"),
        size if size < 1e6 => (1e3, "us"),
        size if size < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", short(ns / factor))
}

/// A count in words, rounded.
pub(super) fn count(count: f64) -> String {
    match count {
        count if count < 1e4 => whole(count),
        count if count < 1e6 => format!("{} thousand", whole(count / 1e3)),
        count if count < 1e9 => format!("{} million", short(count / 1e6)),
        count => format!("{} billion", short(count / 1e9)),
    }
}
