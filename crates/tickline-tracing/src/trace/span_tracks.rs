//! Tracks for spans. Any two spans on a track are either one inside the other or one after the
//! other, so a viewer can pair their beginnings and ends by order alone.
//!
//! A span ends before its parent does, because `tracing` keeps the parent. So a span may lie on its
//! parent's track, unless a sibling that overlaps it is there already. Then it gets a track below
//! that of its parent, which later siblings use again:
//!
//! ```text
//! track 1    |---------------- request ----------------|
//!               |--- parse ---|    |-- render --|
//! track 5           |--- parse ---|
//! ```
//!
//! The beginnings and ends should come in order of time. A beginning that comes late never shares a
//! track with a span that it may overlap. It only may need a track more.

use std::collections::HashMap;

/// Where a span lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the track: that of the first span on it.
    pub(crate) track: u64,
    /// The number of the request: that of its outermost span.
    pub(crate) request: u64,
}

/// The tracks of the open spans.
#[derive(Debug, Default)]
pub(crate) struct SpanTracks {
    open: HashMap<u64, OpenSpan>,
}

#[derive(Debug)]
struct OpenSpan {
    place: Place,
    parent: u64,
    /// Since when the span's own track has no child, ns; `None` while it has one.
    free_since_ns: Option<u64>,
    /// The tracks below that have no child now, and since when.
    free: Vec<(u64, u64)>,
}

impl OpenSpan {
    /// The track for a child that begins at `ns`, if one is free.
    fn track_for_child(&mut self, ns: u64) -> Option<u64> {
        if self.free_since_ns.is_some_and(|since_ns| since_ns <= ns) {
            self.free_since_ns = None;
            return Some(self.place.track);
        }
        let free = self.free.pop_if(|(_, since_ns)| *since_ns <= ns)?;
        Some(free.0)
    }
}

impl SpanTracks {
    /// Finds a place for a span that begins. If the track is new, also returns the number of the
    /// track above it: 0 for the track of a request.
    pub(crate) fn begin(&mut self, span: u64, parent: u64, ns: u64) -> (Place, Option<u64>) {
        let new = |request| Place {
            track: span,
            request,
        };
        let (place, above) = match self.open.get_mut(&parent) {
            // The parent is unknown if its record was lost.
            None => (new(span), Some(0)),
            Some(parent) => match parent.track_for_child(ns) {
                Some(track) => (
                    Place {
                        track,
                        ..parent.place
                    },
                    None,
                ),
                None => (new(parent.place.request), Some(parent.place.track)),
            },
        };
        let free_since_ns = Some(ns);
        self.open.insert(
            span,
            OpenSpan {
                place,
                parent,
                free_since_ns,
                free: Vec::new(),
            },
        );
        (place, above)
    }

    /// The place of a span that ends; `None` if its beginning has not come yet.
    pub(crate) fn end(&mut self, span: u64, ns: u64) -> Option<Place> {
        let OpenSpan { place, parent, .. } = self.open.remove(&span)?;
        if let Some(parent) = self.open.get_mut(&parent) {
            if parent.place.track == place.track {
                parent.free_since_ns = Some(ns);
            } else {
                parent.free.push((place.track, ns));
            }
        }
        Some(place)
    }

    /// The place of an open span.
    pub(crate) fn get(&self, span: u64) -> Option<Place> {
        self.open.get(&span).map(|open| open.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins spans, and returns their tracks.
    fn begun<const N: usize>(tracks: &mut SpanTracks, spans: [(u64, u64, u64); N]) -> [u64; N] {
        spans.map(|(span, parent, ns)| tracks.begin(span, parent, ns).0.track)
    }

    #[test]
    fn spans_inside_each_other_share_a_track() {
        let mut tracks = SpanTracks::default();
        assert_eq!(
            begun(&mut tracks, [(1, 0, 10), (2, 1, 20), (3, 2, 20)]),
            [1, 1, 1]
        );
    }

    #[test]
    fn spans_after_each_other_share_a_track() {
        let mut tracks = SpanTracks::default();
        begun(&mut tracks, [(1, 0, 10), (2, 1, 20)]);
        tracks.end(2, 30).unwrap();
        assert_eq!(begun(&mut tracks, [(3, 1, 30)]), [1]);
    }

    #[test]
    fn spans_that_overlap_do_not_share_a_track() {
        let mut tracks = SpanTracks::default();
        assert_eq!(
            begun(&mut tracks, [(1, 0, 10), (2, 1, 20), (3, 1, 20)]),
            [1, 1, 3]
        );
        assert_eq!(tracks.begin(4, 1, 25).1, Some(1));
    }

    #[test]
    fn a_track_below_is_used_again() {
        let mut tracks = SpanTracks::default();
        begun(&mut tracks, [(1, 0, 10), (2, 1, 20), (3, 1, 20)]);
        tracks.end(3, 40).unwrap();
        assert_eq!(begun(&mut tracks, [(4, 1, 40)]), [3]);
    }

    /// The threads' records may come in another order than their times.
    #[test]
    fn a_span_that_comes_late_gets_no_track_whose_last_span_it_may_overlap() {
        let mut tracks = SpanTracks::default();
        begun(&mut tracks, [(1, 0, 10), (2, 1, 20)]);
        tracks.end(2, 30).unwrap();
        assert_eq!(begun(&mut tracks, [(3, 1, 29), (4, 1, 30)]), [3, 1]);
    }

    #[test]
    fn a_span_whose_parent_was_lost_is_a_request() {
        let place = SpanTracks::default().begin(5, 4, 10);
        let expected = Place {
            track: 5,
            request: 5,
        };
        assert_eq!(place, (expected, Some(0)));
    }

    #[test]
    fn a_track_below_belongs_to_the_request() {
        let mut tracks = SpanTracks::default();
        begun(&mut tracks, [(1, 0, 10), (2, 1, 20), (3, 1, 20)]);
        let place = tracks.begin(4, 3, 30).0;
        assert_eq!((place.track, place.request), (3, 1));
    }
}
