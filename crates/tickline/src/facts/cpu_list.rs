//! Lists of CPUs as the kernel writes them: `0-3,8,10-11` (`Documentation/admin-guide/cputopology.rst`).

/// Whether `list` names `cpu`. Text that is no such list names nothing.
pub(crate) fn names(list: &[u8], cpu: u32) -> bool {
    ranges(list).any(|(first, last)| (first..=last).contains(&cpu))
}

/// The ranges of a list, in its order.
fn ranges(list: &[u8]) -> impl Iterator<Item = (u32, u32)> + '_ {
    list.trim_ascii().split(|byte| *byte == b',').filter_map(|range| {
        let mut ends = range.splitn(2, |byte| *byte == b'-');
        let first = number(ends.next()?)?;
        let last = ends.next().map_or(Some(first), number)?;
        Some((first, last))
    })
}

fn number(text: &[u8]) -> Option<u32> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn lists_name_what_they_name() {
        let named = |list: &[u8]| (0..200).filter(|cpu| names(list, *cpu)).collect::<Vec<_>>();
        assert_eq!(named(b"0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(named(b"5"), [5]);
        for nothing in [&b"\n"[..], b"", b"x", b"-", b"3-", b"-3", b"3-1", b"99999999999", b"\xff"] {
            assert!(named(nothing).is_empty(), "{nothing:?}");
        }
        assert_eq!(named(b"x,7"), [7], "one bad entry does not spoil the rest");
    }
}
