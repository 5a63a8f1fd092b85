//! The size of traces in Perfetto's format, and their compression.

use tickline_tracing::trace_file::{TraceFile, Tracks};
use tracing::info_span;

use crate::perfetto::bytes_of;

/// The bytes of 100,000 spans.
fn bytes_of_spans(tracks: Tracks) -> usize {
    let builder = TraceFile::builder().wait_when_full().tracks(tracks);
    let (_, bytes) = bytes_of(builder, |hand| {
        for _ in 0..100_000 {
            info_span!("span").in_scope(|| hand.advance_ns(300));
            hand.advance_ns(200);
        }
    });
    bytes.len()
}

/// As many as the best other layer takes. It takes 30.
#[test]
fn a_busy_interval_takes_at_most_68_bytes() {
    let bytes = bytes_of_spans(Tracks::Threads);
    assert!(bytes <= 6_800_000, "{bytes}");
}

/// As many as the best other layer takes. It takes about 65; the numbers of spans grow.
#[test]
fn a_request_takes_at_most_75_bytes() {
    let bytes = bytes_of_spans(Tracks::Requests);
    assert!(bytes <= 7_500_000, "{bytes}");
}

#[cfg(feature = "compression")]
mod compression {
    use tickline_tracing::trace_file::{TraceFileBuilder, TraceFormat};

    use super::*;
    use crate::common::MockHand;
    use crate::perfetto_view::View;

    fn compressed() -> TraceFileBuilder {
        TraceFile::builder().format(TraceFormat::CompressedPerfetto)
    }

    /// The bytes of a trace of 20,000 spans.
    fn bytes_of_numbered_spans(builder: TraceFileBuilder) -> Vec<u8> {
        let work = |hand: &MockHand| {
            for number in 0..20_000 {
                info_span!("span", number).in_scope(|| hand.advance_ns(300));
            }
        };
        bytes_of(builder.with_fields().wait_when_full(), work).1
    }

    #[test]
    fn a_compressed_trace_is_smaller() {
        let plain = bytes_of_numbered_spans(TraceFile::builder());
        let compressed = bytes_of_numbered_spans(compressed());
        assert!(compressed.len() * 2 < plain.len());
    }

    #[test]
    fn a_compressed_trace_has_the_content_of_a_plain_one() {
        let plain = View::of(&bytes_of_numbered_spans(TraceFile::builder()));
        let view = View::of(&bytes_of_numbered_spans(compressed()));
        assert!(view.compressed_packets > 1 && view.packets == plain.packets);
        assert_eq!(view.named("span"), plain.named("span"));
    }

    /// As after a `SIGKILL`.
    #[test]
    fn a_compressed_trace_without_its_end_has_all_whole_blocks() {
        let builder = compressed().wait_when_full();
        let (_, bytes) = bytes_of(builder, |hand| {
            (0..50_000).for_each(|_| info_span!("span").in_scope(|| hand.advance_ns(300)));
        });
        let whole = View::of(&bytes).compressed_packets;
        let view = View::of_truncated(&bytes[..bytes.len() - 1]);
        assert!(whole > 2 && view.compressed_packets == whole - 1);
        assert!(view.slices.len() > 10_000);
    }

    #[test]
    fn the_name_of_a_json_file_leaves_a_chosen_compression() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let (_, guard) = compressed().create(&path).unwrap();
        guard.finish().unwrap();
        let view = View::of(&std::fs::read(path).unwrap());
        assert!(view.compressed_packets > 0);
    }
}
