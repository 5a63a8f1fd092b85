//! Lists of CPUs as Linux writes them: `0-3,8,10-11` (cpu-lists in
//! `Documentation/admin-guide/cputopology.rst`).

use core::ops::RangeInclusive;

/// The ranges of ids in a list. `None` for anything that is not such a list. A line break at the
/// end is allowed.
pub(crate) fn ranges(list: &[u8]) -> Option<Vec<RangeInclusive<usize>>> {
    let list = core::str::from_utf8(list).ok()?;
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

/// Parses decimal digits, at least one, and nothing else; `parse` would accept a sign, too.
fn number(digits: &str) -> Option<usize> {
    if digits.starts_with('+') {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_gives_its_ranges_in_their_order() {
        for (text, expected) in [
            ("0", &[0..=0][..]),
            ("0-3,8,10-11\n", &[0..=3, 8..=8, 10..=11]),
            ("8-11,0-3", &[8..=11, 0..=3]),
            ("0-0,4095", &[0..=0, 4_095..=4_095]),
        ] {
            let found = ranges(text.as_bytes());
            assert_eq!(found.as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn any_other_text_gives_no_ranges() {
        for text in [
            "", "\n", "-", "0-", "-3", "3-0", "0-1-2", "0,,2", "0,", "0 1", "+1", "0x3", "0\n\n",
            "x,7",
        ] {
            assert_eq!(ranges(text.as_bytes()), None, "{text:?}");
        }
        for text in [&b"99999999999999999999"[..], b"\xff"] {
            assert_eq!(ranges(text), None, "{text:?}");
        }
    }
}
