//! Draws offset and bound as text: one line for each sample, with time running downwards.
//!
//! ```text
//! -50       0      50 ns
//!        ---|-*-----
//! ```

use crate::measure::track::OffsetSample;
use crate::words::time;

/// The least range, ns. A smaller one would show the resolution of the samples.
const MIN_RANGE_NS: f64 = 20.0;

/// The range of a plot: from `-range_ns` to `range_ns`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PlotScale {
    range_ns: f64,
    /// Characters from the left end to the right one.
    width: usize,
}

impl PlotScale {
    /// The scale on which samples with this extent fill half of the plot or more: 1, 2 or 5 times a
    /// power of ten.
    pub(super) fn for_extent(extent_ns: f64, width: usize) -> Self {
        let least = extent_ns.max(MIN_RANGE_NS);
        let power = 10_f64.powf(least.log10().floor());
        let factor = [1.0, 2.0, 5.0]
            .into_iter()
            .find(|factor| factor * power >= least)
            .unwrap_or(10.0);
        Self {
            range_ns: factor * power,
            width,
        }
    }

    /// Whether a sample has its place in the plot.
    pub(super) fn has_room_for(&self, sample: &OffsetSample) -> bool {
        sample.extent_ns() <= self.range_ns
    }

    /// The heading: both ends, and the zero between them.
    pub(super) fn heading(&self) -> String {
        let most = time(self.range_ns);
        let least = time(-self.range_ns);
        let least = least.split(' ').next().unwrap_or_default();
        let mut heading = vec![' '; self.width];
        put(&mut heading, 0, least);
        put(&mut heading, self.position(0.0), "0");
        put(&mut heading, self.width.saturating_sub(most.len()), &most);
        heading.into_iter().collect()
    }

    /// The plot of one sample: `|` is `CLOCK_MONOTONIC`, `-` the claimed bound, and `*` the offset.
    /// An offset outside of its bound is an `X`.
    pub(super) fn line(&self, sample: &OffsetSample) -> String {
        let [from, to] = sample.bound_ends_ns().map(|ns| self.position(ns));
        let mut line = vec![' '; self.width];
        line[from..=to].fill('-');
        line[self.position(0.0)] = '|';
        line[self.position(sample.offset_ns)] = if sample.bound_violated { 'X' } else { '*' };
        line.into_iter().collect()
    }

    /// The place of an offset. One beyond the range is at the end.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to the width"
    )]
    fn position(&self, ns: f64) -> usize {
        let share = ((ns + self.range_ns) / (2.0 * self.range_ns)).clamp(0.0, 1.0);
        let last = u32::try_from(self.width.saturating_sub(1)).unwrap_or(u32::MAX);
        (share * f64::from(last)).round() as usize
    }
}

/// Puts a text into a line, from the place `at`.
fn put(line: &mut [char], at: usize, text: &str) {
    for (place, character) in line.iter_mut().skip(at).zip(text.chars()) {
        *place = character;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::example::offset_sample;

    #[test]
    fn a_line_shows_offset_bound_and_the_followed_clock() {
        let scale = PlotScale::for_extent(50.0, 21);
        // The bound is 25 ns to either side.
        assert_eq!(
            scale.line(&offset_sample(0.0, 10.0)),
            "       ---|-*-----   "
        );
        assert_eq!(
            scale.line(&offset_sample(0.0, 0.0)),
            "     -----*-----     "
        );
        let violated = OffsetSample {
            bound_violated: true,
            ..offset_sample(0.0, -40.0)
        };
        assert_eq!(scale.line(&violated), "--X-----  |          ");
    }

    #[test]
    fn a_heading_names_the_ends_and_the_zero() {
        let heading = |extent_ns, width| PlotScale::for_extent(extent_ns, width).heading();
        assert_eq!(heading(50.0, 21), "-50       0     50 ns");
        assert_eq!(heading(900.0, 16), "-1      0   1 us");
        assert_eq!(heading(90.0, 16), "-100    0 100 ns");
    }

    #[test]
    fn a_scale_has_room_for_its_extent_and_no_more_than_twice_and_a_half_as_much() {
        for extent_ns in [1.0, 20.0, 21.0, 99.0, 100.0, 101.0, 4e6] {
            let scale = PlotScale::for_extent(extent_ns, 16);
            let range_ns = scale.range_ns;
            let extent_ns = extent_ns.max(MIN_RANGE_NS);
            assert!(
                (extent_ns..=2.5 * extent_ns).contains(&range_ns),
                "{extent_ns} {range_ns}"
            );
        }
        let far = offset_sample(0.0, 25.1);
        assert!(!PlotScale::for_extent(50.0, 16).has_room_for(&far));
        assert!(PlotScale::for_extent(51.0, 16).has_room_for(&far));
    }

    /// A sample that is far beyond the range does not break the line.
    #[test]
    fn an_offset_beyond_the_range_is_at_its_end() {
        let scale = PlotScale::for_extent(50.0, 21);
        assert_eq!(
            scale.line(&offset_sample(0.0, 1e9)),
            "          |         *"
        );
        assert_eq!(
            scale.line(&offset_sample(0.0, -1e9)),
            "*         |          "
        );
    }
}
