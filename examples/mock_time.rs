//! Tests that wait for nothing: a cache whose entries end after a minute, and a clock that is
//! moved by hand.
//!
//! `cargo run --release --features mock --example mock_time`
//!
//! Its output has: "at 0 s: found", "at 59 s: found", "at 60 s: gone", "written at UnixTime".
//!
//! In a crate, the feature belongs to its tests: `[dev-dependencies] tickline = { version =
//! "0.1", features = ["mock"] }`.
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::collections::HashMap;
use std::time::Duration;

use tickline::mock::MockClock;
use tickline::{Instant, UnixTime};

/// The code under test: nothing in it knows of mocks.
struct Cache {
    entries: HashMap<&'static str, Entry>,
    lasts: Duration,
}

struct Entry {
    value: u32,
    written: UnixTime,
    until: Instant,
}

impl Cache {
    fn put(&mut self, key: &'static str, value: u32) {
        let until = Instant::now() + self.lasts;
        self.entries.insert(key, Entry { value, written: UnixTime::now(), until });
    }

    fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| Instant::now() < entry.until)
    }
}

/// In a test file this has `#[test]` above it.
fn an_entry_lasts_a_minute() {
    let clock = MockClock::new();
    let _active = clock.activate(); // for this thread, until dropped
    let mut cache = Cache { entries: HashMap::new(), lasts: Duration::from_secs(60) };

    cache.put("answer", 42);
    let entry = cache.get("answer").expect("just written");
    assert_eq!(entry.value, 42);
    println!("at 0 s: found, written at {:?}", entry.written);

    clock.advance(Duration::from_secs(59));
    assert!(cache.get("answer").is_some());
    println!("at 59 s: found");

    // Somebody sets the clock back: deadlines do not care.
    clock.step_unix_ns(-3_600_000_000_000);
    clock.advance(Duration::from_secs(1));
    assert!(cache.get("answer").is_none());
    println!("at 60 s: gone, though the clock on the wall shows {:?}", UnixTime::now());
}

fn main() {
    an_entry_lasts_a_minute();
}
