//! The judge: compares the intervals of a file with those that the witness has observed.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use crate::Interval;

/// An interval that the witness has observed. Its beginning and its end each lie between two
/// readings, ns.
#[derive(Debug, Clone, Copy)]
pub struct Bracketed {
    pub span: u64,
    pub begin_ns: [u64; 2],
    pub end_ns: [u64; 2],
}

impl Bracketed {
    /// Whether `interval` lies between the readings.
    fn holds(&self, interval: &Interval) -> bool {
        let [begin, end] = [self.begin_ns, self.end_ns];
        (begin[0]..=begin[1]).contains(&interval.begin_ns)
            && (end[0]..=end[1]).contains(&interval.end_ns)
    }
}

/// How a file differs from what the witness has observed.
#[derive(Debug, Default)]
pub struct Difference {
    right: u64,
    wrong: u64,
    missing: u64,
    surplus: u64,
    /// The first fault in words.
    first: Option<String>,
}

impl Difference {
    /// Whether every interval is right. A file without an interval proves nothing.
    pub fn agrees(&self) -> bool {
        self.right > 0 && self.wrong + self.missing + self.surplus == 0
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            right,
            wrong,
            missing,
            surplus,
            first,
        } = self;
        write!(
            f,
            "{right} right, {wrong} wrong, {missing} missing, {surplus} surplus"
        )?;
        match first {
            Some(first) => write!(f, "; {first}"),
            None => Ok(()),
        }
    }
}

/// Compares the intervals of each span, in the order of their beginnings.
pub fn compare(observed: &[Bracketed], found: &[Interval]) -> Difference {
    let mut by_span: HashMap<u64, Vec<Interval>> = HashMap::new();
    for interval in found {
        by_span.entry(interval.span).or_default().push(*interval);
    }
    // The earliest is the last, so that `pop` returns it.
    for intervals in by_span.values_mut() {
        intervals.sort_by_key(|interval| Reverse(interval.begin_ns));
    }
    let mut observed: Vec<_> = observed.iter().collect();
    observed.sort_by_key(|bracketed| bracketed.begin_ns[0]);
    let mut difference = Difference::default();
    let mut first = None;
    for bracketed in observed {
        match by_span.get_mut(&bracketed.span).and_then(Vec::pop) {
            Some(interval) if bracketed.holds(&interval) => difference.right += 1,
            Some(interval) => {
                difference.wrong += 1;
                first.get_or_insert_with(|| format!("{interval:?} is not in {bracketed:?}"));
            }
            None => {
                difference.missing += 1;
                first.get_or_insert_with(|| format!("{bracketed:?} is missing"));
            }
        }
    }
    for interval in by_span.values().flatten() {
        difference.surplus += 1;
        first.get_or_insert_with(|| format!("{interval:?} was not observed"));
    }
    Difference {
        first,
        ..difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An observed interval of span 1.
    const OBSERVED: Bracketed = Bracketed {
        span: 1,
        begin_ns: [10, 12],
        end_ns: [20, 22],
    };

    /// The next one of this span.
    const NEXT: Bracketed = Bracketed {
        span: 1,
        begin_ns: [30, 32],
        end_ns: [40, 42],
    };

    fn found(span: u64, begin_ns: u64, end_ns: u64) -> Interval {
        Interval {
            span,
            begin_ns,
            end_ns,
        }
    }

    /// The numbers of intervals that are right, wrong, missing and surplus.
    fn counts(observed: &[Bracketed], found: &[Interval]) -> [u64; 4] {
        let Difference {
            right,
            wrong,
            missing,
            surplus,
            ..
        } = compare(observed, found);
        [right, wrong, missing, surplus]
    }

    #[test]
    fn an_interval_between_the_readings_is_right() {
        for (begin_ns, end_ns) in [(10, 20), (11, 21), (12, 22)] {
            let counts = counts(&[OBSERVED], &[found(1, begin_ns, end_ns)]);
            assert_eq!(counts, [1, 0, 0, 0], "{begin_ns} {end_ns}");
        }
    }

    #[test]
    fn an_interval_that_begins_outside_of_its_readings_is_wrong() {
        for begin_ns in [9, 13] {
            let counts = counts(&[OBSERVED], &[found(1, begin_ns, 21)]);
            assert_eq!(counts, [0, 1, 0, 0], "{begin_ns}");
        }
    }

    #[test]
    fn an_interval_that_ends_outside_of_its_readings_is_wrong() {
        for end_ns in [19, 23] {
            let counts = counts(&[OBSERVED], &[found(1, 11, end_ns)]);
            assert_eq!(counts, [0, 1, 0, 0], "{end_ns}");
        }
    }

    #[test]
    fn an_interval_that_the_file_does_not_have_is_missing() {
        let file = [found(1, 11, 21)];
        assert_eq!(counts(&[OBSERVED, NEXT], &file), [1, 0, 1, 0]);
    }

    #[test]
    fn an_interval_that_was_not_observed_is_surplus() {
        let file = [found(1, 11, 21), found(1, 31, 41)];
        assert_eq!(counts(&[OBSERVED], &file), [1, 0, 0, 1]);
    }

    #[test]
    fn an_interval_of_another_span_does_not_stand_in() {
        assert_eq!(counts(&[OBSERVED], &[found(2, 11, 21)]), [0, 0, 1, 1]);
    }

    #[test]
    fn the_order_in_the_file_does_not_matter() {
        let file = [found(1, 31, 41), found(1, 11, 21)];
        assert_eq!(counts(&[OBSERVED, NEXT], &file), [2, 0, 0, 0]);
    }

    #[test]
    fn the_order_of_the_observations_does_not_matter() {
        let file = [found(1, 11, 21), found(1, 31, 41)];
        assert_eq!(counts(&[NEXT, OBSERVED], &file), [2, 0, 0, 0]);
    }

    #[test]
    fn a_file_agrees_if_every_interval_is_right() {
        assert!(compare(&[OBSERVED], &[found(1, 11, 21)]).agrees());
    }

    #[test]
    fn one_fault_among_right_intervals_is_enough_to_disagree() {
        let right = found(1, 11, 21);
        for (observed, file) in [
            (&[OBSERVED, NEXT][..], &[right, found(1, 31, 50)][..]),
            (&[OBSERVED, NEXT], &[right]),
            (&[OBSERVED], &[right, found(2, 11, 21)]),
        ] {
            let difference = compare(observed, file);
            assert!(!difference.agrees(), "{difference}");
        }
    }

    #[test]
    fn without_an_interval_nothing_agrees() {
        assert!(!compare(&[], &[]).agrees());
    }

    #[test]
    fn the_text_names_the_first_fault() {
        let difference = compare(&[OBSERVED, NEXT], &[found(1, 11, 50)]).to_string();
        let expected = "0 right, 1 wrong, 1 missing, 0 surplus; Interval { span: 1, begin_ns: 11, \
                        end_ns: 50 } is not in Bracketed { span: 1, ";
        assert!(difference.starts_with(expected), "{difference}");
    }
}
