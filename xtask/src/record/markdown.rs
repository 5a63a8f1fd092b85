//! Formats figures and tables.

/// A row: its title, and the figure for each of `columns`, or an empty cell.
pub(super) fn line<T>(title: &str, columns: &[T], figure: impl Fn(&T) -> Option<String>) -> String {
    let figures: Vec<String> = columns
        .iter()
        .map(|column| figure(column).unwrap_or_default())
        .collect();
    format!("| {title} | {} |\n", figures.join(" | "))
}

/// A figure, rounded, with commas between thousands.
#[expect(
    clippy::cast_possible_truncation,
    reason = "figures far below 2^63, and rounded"
)]
pub(super) fn whole(figure: f64) -> String {
    let rounded = figure.round() as i64;
    let sign = if rounded < 0 { "-" } else { "" };
    format!("{sign}{}", whole_count(rounded.unsigned_abs()))
}

/// A count with commas between thousands.
pub(super) fn whole_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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

/// As [`time_ns`].
pub(super) fn time_us(us: f64) -> String {
    time_ns(us * 1e3)
}

/// A count in words, rounded.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn count(count: u64) -> String {
    let figure = count as f64;
    match count {
        ..10_000 => whole_count(count),
        10_000..1_000_000 => format!("{} thousand", whole(figure / 1e3)),
        1_000_000..1_000_000_000 => format!("{} million", short(figure / 1e6)),
        1_000_000_000.. => format!("{} billion", short(figure / 1e9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_figures_are_rounded_and_have_commas_between_thousands() {
        for (figure, text) in [
            (0.4, "0"),
            (-0.4, "0"),
            (999.5, "1,000"),
            (-1_234_567.0, "-1,234,567"),
            (100_000.0, "100,000"),
        ] {
            assert_eq!(whole(figure), text);
        }
    }

    #[test]
    fn small_figures_have_one_decimal() {
        for (figure, text) in [
            (0.04, "0"),
            (-0.04, "0"),
            (0.06, "0.1"),
            (-9.94, "-9.9"),
            (9.96, "10"),
            (1_370.9, "1,371"),
        ] {
            assert_eq!(short(figure), text);
        }
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (999.0, "999 ns"),
            (1_500.0, "1.5 us"),
            (-92_905.0, "-93 us"),
            (2_600_000.0, "2.6 ms"),
            (4e9, "4.0 s"),
        ] {
            assert_eq!(time_ns(ns), text);
        }
        assert_eq!(time_us(1.5), "1.5 us");
    }

    #[test]
    fn counts_from_ten_thousand_have_a_word_for_the_zeros() {
        for (found, text) in [
            (9_999, "9,999"),
            (10_000, "10 thousand"),
            (999_600, "1,000 thousand"),
            (1_500_000, "1.5 million"),
            (411_252_000, "411 million"),
            (2_000_000_000, "2.0 billion"),
        ] {
            assert_eq!(count(found), text);
        }
    }

    #[test]
    fn a_column_without_a_figure_has_an_empty_cell() {
        let figure = |figure: &u32| (*figure > 0).then(|| figure.to_string());
        assert_eq!(line("x", &[1, 0, 2], figure), "| x | 1 |  | 2 |\n");
    }
}
