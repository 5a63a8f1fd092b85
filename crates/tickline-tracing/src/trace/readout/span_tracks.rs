//! Tracks for spans. Any two spans on a track are either one inside the other or one after the
//! other, so a viewer can pair their beginnings and ends by order alone.
//!
//! A span ends before its parent does, because `tracing` keeps the parent. So a span may lie on its
//! parent's track, unless a sibling that overlaps it is there already. Then it gets a track below
//! its parent's track, which later siblings use again:
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
use std::collections::hash_map::Entry;

use crate::trace::keyed_hash::KeyedState;
use crate::trace::rings::record::Record;

/// Where a span lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpanPlace {
    /// The number of the track: the number of the first span on it.
    pub(crate) track: u64,
    /// The number of the request: the number of its outermost span.
    pub(crate) request: u64,
}

/// The place of a span that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BegunSpan {
    pub(crate) place: SpanPlace,
    /// What is above the span's track, if the track is new.
    pub(crate) above_new_track: Option<AboveTrack>,
}

/// What is above a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AboveTrack {
    /// The process: the track is that of a request.
    Process,
    /// The track of this number.
    Track(u64),
}

/// A span that ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedSpan {
    pub(crate) place: SpanPlace,
    /// The callsites of the spans inside it on its track whose ends were lost, the innermost first.
    pub(crate) lost: Vec<usize>,
}

/// Whether a refused record will be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    First,
    Last,
}

/// The tracks of the open spans.
#[derive(Debug, Default)]
pub(crate) struct SpanTracks {
    open: HashMap<u64, PlacedSpan, KeyedState>,
}

#[derive(Debug)]
struct PlacedSpan {
    place: SpanPlace,
    callsite: usize,
    parent: u64,
    /// The child on the span's own track; 0 without one.
    child: u64,
    /// Since when that track has no child, ns.
    free_since_ns: u64,
    /// The tracks below that have no child now.
    free: Vec<FreeTrack>,
}

#[derive(Debug)]
struct FreeTrack {
    track: u64,
    since_ns: u64,
}

impl PlacedSpan {
    /// The track for a child that begins at `ns`, if one is free.
    fn track_for_child(&mut self, child: u64, ns: u64) -> Option<u64> {
        if self.child == 0 && self.free_since_ns <= ns {
            self.child = child;
            return Some(self.place.track);
        }
        let free = self.free.pop_if(|free| free.since_ns <= ns)?;
        Some(free.track)
    }
}

impl SpanTracks {
    /// Finds a place for a span that begins.
    pub(crate) fn begin(&mut self, begin: &Record<'_>) -> BegunSpan {
        let &Record {
            id: span,
            parent,
            callsite,
            ns,
            ..
        } = begin;
        let new = |request| SpanPlace {
            track: span,
            request,
        };
        let known = if parent == 0 {
            None
        } else {
            self.open.get_mut(&parent)
        };
        let (place, above_new_track) = match known {
            // The parent is unknown if its record was lost.
            None => (new(span), Some(AboveTrack::Process)),
            Some(parent) => match parent.track_for_child(span, ns) {
                Some(track) => (
                    SpanPlace {
                        track,
                        ..parent.place
                    },
                    None,
                ),
                None => (
                    new(parent.place.request),
                    Some(AboveTrack::Track(parent.place.track)),
                ),
            },
        };
        self.open.insert(
            span,
            PlacedSpan {
                place,
                callsite,
                parent,
                child: 0,
                free_since_ns: ns,
                free: Vec::new(),
            },
        );
        BegunSpan {
            place,
            above_new_track,
        }
    }

    /// Ends a span. `None` if the span's beginning has not come yet. At the first attempt also
    /// `None` if the end of its child has not come yet: two ends on two threads may have the same
    /// time.
    pub(crate) fn end(&mut self, span: u64, ns: u64, attempt: Attempt) -> Option<EndedSpan> {
        // One search, in place of one for the child and one to remove the span.
        let Entry::Occupied(open) = self.open.entry(span) else {
            return None;
        };
        let mut child = open.get().child;
        if attempt == Attempt::First && child != 0 {
            return None;
        }
        let PlacedSpan { place, parent, .. } = open.remove();
        let mut lost = Vec::new();
        while child != 0
            && let Some(inside) = self.open.remove(&child)
        {
            child = inside.child;
            lost.push(inside.callsite);
        }
        lost.reverse();
        if parent != 0
            && let Some(parent) = self.open.get_mut(&parent)
        {
            if parent.child == span {
                parent.child = 0;
                parent.free_since_ns = ns;
            } else {
                parent.free.push(FreeTrack {
                    track: place.track,
                    since_ns: ns,
                });
            }
        }
        Some(EndedSpan { place, lost })
    }

    /// The place of an open span.
    pub(crate) fn get(&self, span: u64) -> Option<SpanPlace> {
        self.open.get(&span).map(|open| open.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::rings::record::Kind;

    /// The beginning of a span, whose callsite has the same number.
    fn begin(id: u64, parent: u64, ns: u64) -> Record<'static> {
        Record {
            id,
            parent,
            callsite: usize::try_from(id).unwrap(),
            ..Record::new(Kind::AsyncBegin, ns)
        }
    }

    /// Begins spans, and returns their tracks.
    fn begun<const N: usize>(tracks: &mut SpanTracks, spans: [(u64, u64, u64); N]) -> [u64; N] {
        spans.map(|(span, parent, ns)| tracks.begin(&begin(span, parent, ns)).place.track)
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
        tracks.end(2, 30, Attempt::First).unwrap();
        assert_eq!(begun(&mut tracks, [(3, 1, 30)]), [1]);
    }

    #[test]
    fn spans_that_overlap_do_not_share_a_track() {
        let mut tracks = SpanTracks::default();
        assert_eq!(
            begun(&mut tracks, [(1, 0, 10), (2, 1, 20), (3, 1, 20)]),
            [1, 1, 3]
        );
        let begun = tracks.begin(&begin(4, 1, 25));
        assert_eq!(begun.above_new_track, Some(AboveTrack::Track(1)));
    }

    #[test]
    fn a_track_below_is_used_again() {
        let mut tracks = SpanTracks::default();
        begun(&mut tracks, [(1, 0, 10), (2, 1, 20), (3, 1, 20)]);
        tracks.end(3, 40, Attempt::First).unwrap();
        assert_eq!(begun(&mut tracks, [(4, 1, 40)]), [3]);
    }

    /// The threads' records may come in another order than their times.
    #[test]
    fn a_span_that_comes_late_gets_no_track_whose_last_span_it_may_overlap() {
        let mut tracks = SpanTracks::default();
        begun(&mut tracks, [(1, 0, 10), (2, 1, 20)]);
        tracks.end(2, 30, Attempt::First).unwrap();
        assert_eq!(begun(&mut tracks, [(3, 1, 29), (4, 1, 30)]), [3, 1]);
    }

    #[test]
    fn a_span_whose_parent_was_lost_is_a_request() {
        let begun = SpanTracks::default().begin(&begin(5, 4, 10));
        let expected = BegunSpan {
            place: SpanPlace {
                track: 5,
                request: 5,
            },
            above_new_track: Some(AboveTrack::Process),
        };
        assert_eq!(begun, expected);
    }

    #[test]
    fn a_track_below_belongs_to_the_request() {
        let mut tracks = SpanTracks::default();
        begun(&mut tracks, [(1, 0, 10), (2, 1, 20), (3, 1, 20)]);
        let place = tracks.begin(&begin(4, 3, 30)).place;
        assert_eq!((place.track, place.request), (3, 1));
    }

    #[test]
    fn an_end_waits_for_the_end_of_the_child() {
        let mut tracks = SpanTracks::default();
        begun(&mut tracks, [(1, 0, 10), (2, 1, 20)]);
        assert_eq!(tracks.end(1, 30, Attempt::First), None);
        tracks.end(2, 30, Attempt::First).unwrap();
        assert!(tracks.end(1, 30, Attempt::First).unwrap().lost.is_empty());
    }

    /// The file of a process that was killed may lack an end.
    #[test]
    fn at_its_end_a_span_ends_those_inside_whose_ends_were_lost() {
        let mut tracks = SpanTracks::default();
        begun(&mut tracks, [(1, 0, 10), (2, 1, 20), (3, 2, 20)]);
        assert_eq!(tracks.end(1, 30, Attempt::Last).unwrap().lost, [3, 2]);
        assert!(tracks.open.is_empty());
    }
}
