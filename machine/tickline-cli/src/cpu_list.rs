//! Lists of CPUs as Linux writes them: `0-3,8`.

use std::collections::BTreeSet;
use std::io;
use std::ops::RangeInclusive;

use tickline::exchange;

/// The largest number of CPUs that Linux can be configured for (`NR_CPUS` with `MAXSMP`,
/// `arch/x86/Kconfig`).
const MAX_CPUS: usize = 8_192;

/// Parses a list that a user has written.
pub(crate) fn parse(value: &str) -> Result<BTreeSet<u32>, String> {
    let ranges = parse_ranges(value)
        .ok_or_else(|| format!("{value} is not a list of CPUs such as 0-3,8 (ascending)"))?;
    if let Some(last) = ranges
        .iter()
        .map(|range| *range.end())
        .find(|last| *last >= MAX_CPUS)
    {
        return Err(format!(
            "{value} names CPU {last}, but the last CPU of any kernel is {}",
            MAX_CPUS - 1
        ));
    }
    Ok(ranges
        .into_iter()
        .flatten()
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect())
}

/// The ranges of a list, which may end with a line break; `None` for any other text.
fn parse_ranges(list: &str) -> Option<Vec<RangeInclusive<usize>>> {
    let number = |digits: &str| {
        // `parse` would accept a sign, too.
        if digits.starts_with('+') {
            return None;
        }
        digits.parse().ok()
    };
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(number(first)?..=number(last)?).filter(|range| !range.is_empty())
    };
    list.strip_suffix('\n')
        .unwrap_or(list)
        .split(',')
        .map(range)
        .collect()
}

/// The CPUs of the list, if this process may run on each; by default, all on which it may run.
pub(crate) fn chosen(list: Option<&BTreeSet<u32>>) -> io::Result<Vec<u32>> {
    let Some(cpus) = list else {
        return Ok(exchange::cpus());
    };
    let Some(missing) = cpus
        .iter()
        .find(|cpu| exchange::on_cpu(**cpu, || ()).is_none())
    else {
        return Ok(cpus.iter().copied().collect());
    };
    let usable = exchange::cpus();
    let hint = if usable.contains(missing) {
        ", on which this process may run: is there a limit of its threads (ulimit -u, pids.max)?"
            .to_owned()
    } else if usable.is_empty() {
        String::new()
    } else {
        format!(": choose from {}", ranges(&usable))
    };
    Err(io::Error::other(format!(
        "--cpus: no thread could be started on CPU {missing}{hint}"
    )))
}

/// A list as Linux writes it: `0-3,8`.
pub(crate) fn ranges(cpus: &[u32]) -> String {
    let mut text = String::new();
    for run in cpus.chunk_by(|cpu, next| cpu + 1 == *next) {
        let first = run[0];
        let last = run[run.len() - 1];
        let comma = if text.is_empty() { "" } else { "," };
        text += &if first == last {
            format!("{comma}{first}")
        } else {
            format!("{comma}{first}-{last}")
        };
    }
    text
}

/// Names the CPUs of a list that Linux or [`ranges`] wrote, so that nobody takes it for a count:
/// `CPU 8`, `CPUs 0-3,8`.
pub(crate) fn named(list: &str) -> String {
    let is_one = list.bytes().all(|byte| byte.is_ascii_digit());
    format!("{} {list}", if is_one { "CPU" } else { "CPUs" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range() {
        for (cpus, text) in [
            (&[0, 1, 2, 3, 8][..], "0-3,8"),
            (&[1, 3, 4], "1,3-4"),
            (&[5], "5"),
            (&[], ""),
        ] {
            assert_eq!(ranges(cpus), text);
        }
    }

    #[test]
    fn one_cpu_is_not_named_as_several() {
        for (list, expected) in [("8", "CPU 8"), ("0-3", "CPUs 0-3"), ("0,8", "CPUs 0,8")] {
            assert_eq!(named(list), expected);
        }
    }

    #[test]
    fn a_list_that_was_written_is_read_back() {
        for text in ["0-3,8", "1,3-4", "5"] {
            let cpus: Vec<u32> = parse(text).unwrap().into_iter().collect();
            assert_eq!(ranges(&cpus), text);
        }
    }

    #[test]
    fn a_list_may_end_with_a_line_break() {
        assert_eq!(parse("0-3\n"), parse("0-3"));
    }

    #[test]
    fn any_other_text_is_no_list() {
        for text in [
            "",
            "\n",
            "-",
            "0-",
            "-3",
            "3-0",
            "0-1-2",
            "0,,2",
            "0,",
            "0 1",
            "+1",
            "0x3",
            "0\n\n",
            "x,7",
            "99999999999999999999",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("is not a list of CPUs"), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_largest_number_is_that_of_the_last_cpu_of_any_kernel() {
        assert_eq!(parse("8191").unwrap().len(), 1);
        let error = parse("0-8192").unwrap_err();
        assert!(error.contains("names CPU 8192"), "{error}");
    }
}
