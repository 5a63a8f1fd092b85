//! Lists of CPUs as Linux writes them: `0-3,8,10-11` (cpu-lists in
//! `Documentation/admin-guide/cputopology.rst`).

/// The ranges of a list, first and last id; `None` for a malformed entry. A line break at the end
/// is allowed.
fn ranges(list: &[u8]) -> impl Iterator<Item = Option<(usize, usize)>> + '_ {
    // Bytes that are not UTF-8 count as one malformed entry.
    let list = core::str::from_utf8(list).unwrap_or_default();
    list.strip_suffix('\n').unwrap_or(list).split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(first)?, number(last)?);
        (first <= last).then_some((first, last))
    })
}

/// Decimal digits, at least one, and nothing else: `parse` takes a sign, too.
fn number(digits: &str) -> Option<usize> {
    digits.parse().ok().filter(|_| !digits.starts_with('+'))
}

/// How many ids a list takes: its largest plus one. `None` for anything that is not such a list.
#[must_use]
pub fn ids_in_list(list: &[u8]) -> Option<usize> {
    ranges(list).try_fold(0, |count: usize, range| Some(count.max(range?.1.checked_add(1)?)))
}

/// Whether a list names `cpu`. A malformed entry names nothing.
#[must_use]
pub fn contains(list: &[u8], cpu: usize) -> bool {
    ranges(list).flatten().any(|(first, last)| (first..=last).contains(&cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        for (text, ids) in
            [("0", 1), ("0\n", 1), ("0-3,8-11\n", 12), ("8-11,0-3", 12), ("0-0", 1), ("4095", 4096)]
        {
            assert_eq!(ids_in_list(text.as_bytes()), Some(ids), "{text:?}");
        }
        for text in ["", "\n", "0-", "-3", "3-0", "0-1-2", "0,,2", "0,", "0 1", "+1", "0x3", "0\n\n"] {
            assert_eq!(ids_in_list(text.as_bytes()), None, "{text:?}");
        }
        for beyond in ["99999999999999999999", "18446744073709551615"] {
            assert_eq!(ids_in_list(beyond.as_bytes()), None, "{beyond}");
        }
    }

    #[test]
    fn lists_name_what_they_name() {
        let named = |list: &[u8]| {
            (0..if cfg!(miri) { 12 } else { 200_usize })
                .filter(|cpu| contains(list, *cpu))
                .collect::<Vec<_>>()
        };
        assert_eq!(named(b"0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(named(b"5"), [5]);
        for nothing in [&b"\n"[..], b"", b"x", b"-", b"3-", b"-3", b"3-1", b"99999999999999999999", b"\xff"] {
            assert!(named(nothing).is_empty(), "{nothing:?}");
        }
        assert_eq!(named(b"x,7"), [7], "one bad entry does not spoil the rest");
    }
}
