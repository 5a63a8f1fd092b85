//! The published programs, and what is replaced in each.

/// Texts in a program's sources, each with its replacement. They are replaced in this order.
type Edits = &'static [(&'static str, &'static str)];

/// A published crate.
#[derive(Clone, Copy)]
pub(super) struct Port {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// The features with which the crate is tested, besides its default ones.
    pub(super) features: &'static str,
    /// Empty if the crate's dependency `quanta` is patched.
    pub(super) edits: Edits,
    /// Parts of the names of tests that fail with std's clock as well, always or often. A comment
    /// at the program says why.
    pub(super) left_out: &'static [&'static str],
}

/// The import of `Instant` alone.
const INSTANT: (&str, &str) = ("use std::time::Instant;", "use tickline::Instant;");

/// The import of `Duration` and `Instant`, in one line also here: examples in comments have it too.
const DURATION_AND_INSTANT: (&str, &str) = (
    "use std::time::{Duration, Instant};",
    "use std::time::Duration; use tickline::Instant;",
);

/// The same as a part of a longer import.
const NESTED_INSTANT: (&str, &str) = (
    "    time::{Duration, Instant},\n};",
    "    time::Duration,\n};\nuse tickline::Instant;",
);

/// For programs that compare instants of different threads.
const ORDERED: (&str, &str) = ("Instant::now()", "Instant::now_ordered()");

/// The programs, in the newest version at the time of choice.
pub(super) const PORTS: [Port; 19] = [
    Port {
        name: "governor",
        version: "0.10.4",
        features: "",
        edits: &[],
        left_out: &[],
    },
    Port {
        name: "metrics-util",
        version: "0.20.4",
        features: "",
        edits: &[],
        left_out: &[],
    },
    Port {
        name: "tracing-timing",
        version: "0.7.0",
        features: "",
        edits: &[],
        left_out: &[],
    },
    Port {
        name: "indicatif",
        version: "0.18.6",
        features: "",
        edits: &[INSTANT],
        left_out: &[],
    },
    Port {
        name: "timed-map",
        version: "1.7.0",
        features: "",
        edits: &[INSTANT],
        left_out: &[],
    },
    // It denies warnings that are newer than it. Its iterators keep references to elements that
    // they move, so two tests fail.
    Port {
        name: "lru_time_cache",
        version: "0.11.11",
        features: "",
        edits: &[
            INSTANT,
            ("    unused,\n", ""),
            (",\n    warnings\n)]", "\n)]"),
            ("    test(attr(forbid(warnings)))", ""),
        ],
        left_out: &["it_yields_the_most_recent_items_first"],
    },
    Port {
        name: "ttl_cache",
        version: "0.5.1",
        features: "stats",
        edits: &[
            DURATION_AND_INSTANT,
            (
                "extern crate linked_hash_map;",
                "extern crate linked_hash_map;\nextern crate tickline;",
            ),
        ],
        left_out: &[],
    },
    Port {
        name: "spin_sleep",
        version: "1.3.3",
        features: "",
        edits: &[DURATION_AND_INSTANT, NESTED_INSTANT],
        left_out: &[],
    },
    Port {
        name: "calloop",
        version: "0.14.5",
        features: "block_on,executor,signals,stream",
        edits: &[
            DURATION_AND_INSTANT,
            NESTED_INSTANT,
            ("std::time::Instant", "tickline::Instant"),
        ],
        left_out: &[],
    },
    Port {
        name: "async-io",
        version: "2.6.0",
        features: "",
        edits: &[
            DURATION_AND_INSTANT,
            NESTED_INSTANT,
            ("std::time::Instant", "tickline::Instant"),
            ORDERED,
        ],
        left_out: &[],
    },
    // `parking_lot` waits until an instant of std. One test expects the release of a connection
    // before another thread acquires the next one; r2d2 does not wait for that.
    Port {
        name: "r2d2",
        version: "0.8.10",
        features: "",
        edits: &[
            DURATION_AND_INSTANT,
            ORDERED,
            (
                "wait_until(&mut internals, end)",
                "wait_until(&mut internals, tickline::Anchor::std().to_std(end))",
            ),
        ],
        left_out: &["test::events"],
    },
    Port {
        name: "prometheus",
        version: "0.14.0",
        features: "",
        edits: &[(
            "use std::time::{Duration, Instant",
            "use std::time::Duration;\nuse tickline::{Instant",
        )],
        left_out: &[],
    },
    Port {
        name: "moka",
        version: "0.12.16",
        features: "sync",
        edits: &[
            (
                "Standard { origin: StdInstant }",
                "Standard { origin: tickline::Instant }",
            ),
            (
                " origin: StdInstant::now()",
                " origin: tickline::Instant::now_ordered()",
            ),
            (
                "start(origin.elapsed())",
                "start(tickline::Instant::now_ordered() - *origin)",
            ),
            (
                " *origin + duration",
                " tickline::Anchor::std().to_std(*origin + duration)",
            ),
        ],
        left_out: &[],
    },
    Port {
        name: "mini-moka",
        version: "0.10.3",
        features: "",
        edits: &[
            (
                "    time::Instant as StdInstant,\n};",
                "};\nuse tickline::Instant as StdInstant;",
            ),
            ("StdInstant::now()", "StdInstant::now_ordered()"),
            ("clock::Instant::now()", "clock::Instant::now_ordered()"),
        ],
        left_out: &[],
    },
    Port {
        name: "ratelimit",
        version: "2.0.0",
        features: "",
        edits: &[
            (
                "Self(std::time::Instant::now())",
                "Self(tickline::Instant::now_ordered())",
            ),
            (
                "self.0.elapsed()",
                "tickline::Instant::now_ordered() - self.0",
            ),
            ("std::time::Instant", "tickline::Instant"),
        ],
        left_out: &[],
    },
    // The crate `instant` exports std's type. Examples request pages by HTTP: without TLS they need
    // no library of the system. The one that is left out repeats its request for 15 minutes where
    // there is no network.
    Port {
        name: "backoff",
        version: "0.4.0",
        features: "tokio",
        edits: &[
            ("use instant::Instant;", "use tickline::Instant;"),
            (
                "[dev-dependencies.reqwest]\n",
                "[dev-dependencies.reqwest]\ndefault-features = false\n",
            ),
        ],
        left_out: &["src/lib.rs - (line 115)"],
    },
    // Its tests subtract an hour from the present.
    Port {
        name: "clock-bound",
        version: "3.0.0-rc.0",
        features: "daemon",
        edits: &[DURATION_AND_INSTANT],
        left_out: &[],
    },
    // Its tests need the crate as a dependency, which is not published.
    Port {
        name: "fastrace",
        version: "0.7.19",
        features: "enable",
        edits: &[
            ("use fastant::Instant;", "use tickline::Instant;"),
            ("use fastant::Anchor;", "use tickline::{Anchor, UnixTime};"),
            ("anchor: &Anchor,", "anchor: &Anchor<UnixTime>,"),
            (
                "let anchor: Anchor = Anchor::new()",
                "let anchor = Anchor::unix()",
            ),
            ("let anchor = Anchor::new()", "let anchor = Anchor::unix()"),
            (
                "span.begin_instant.as_unix_nanos(anchor)",
                "anchor.to_unix(span.begin_instant).as_nanos()",
            ),
            (
                "span.end_instant.as_unix_nanos(anchor)",
                "anchor.to_unix(span.end_instant).as_nanos()",
            ),
            (
                "local_spans.end_time.as_unix_nanos(anchor)",
                "anchor.to_unix(local_spans.end_time).as_nanos()",
            ),
            ORDERED,
            (
                "pub mod collector;",
                "extern crate self as fastrace;\npub mod collector;",
            ),
        ],
        left_out: &[],
    },
    Port {
        name: "ulid",
        version: "3.0.0",
        features: "",
        edits: &[
            (
                "use std::time::{Duration, SystemTime};",
                "use std::time::Duration; use tickline::UnixTime as SystemTime;",
            ),
            (
                "use std::time::{SystemTime, Duration};",
                "use std::time::Duration; use tickline::UnixTime as SystemTime;",
            ),
            (
                "use std::time::SystemTime;",
                "use tickline::UnixTime as SystemTime;",
            ),
            ("std::time::SystemTime", "tickline::UnixTime"),
        ],
        left_out: &[],
    },
];
