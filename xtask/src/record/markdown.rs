//! Formats figures and tables.

/// A row: its title, and the figure for each of `columns`, or an empty cell.
pub(super) fn line<T>(title: &str, columns: &[T], figure: impl Fn(&T) -> Option<String>) -> String {
    let figures: Vec<String> = columns
        .iter()
        .map(|column| figure(column).unwrap_or_default())
        .collect();
    format!("| {title} | {} |\n", figures.join(" | "))
}

/// A figure with commas between thousands.
#[expect(
    clippy::cast_possible_truncation,
    reason = "figures far below 2^63, and rounded"
)]
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
    if rounded < 0 {
        format!("-{text}")
    } else {
        text
    }
}

/// A figure with one decimal if it is below 10. Larger figures and 0 have no decimals.
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
