//! Two tests that need not wait. A cache drops its entries after a minute, by a mock clock that is
//! active on the thread. A limiter gets a mock clock, which all threads then share.
//!
//! `cargo run --release --features mock --example mock_time`
//!
//! Its output has: "at 0 s: found", "at 59 s: found", "at 60 s: gone", "written at UnixTime",
//! "1 of 5 pass", "1 of 5 pass after 100ms".
//!
//! In your crate, enable the feature only for tests:
//! `[dev-dependencies] tickline = { version = "0.1", features = ["mock"] }`.
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tickline::mock::MockClock;
use tickline::{Clock, Instant, UnixTime};

/// The code under test. It does not know about mocks.
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

    // Somebody sets the Unix clock back, which moves no deadline.
    clock.step_unix_ns(-3_600_000_000_000);
    clock.advance(Duration::from_secs(1));
    assert!(cache.get("answer").is_none());
    println!("at 60 s: gone, though the clock on the wall shows {:?}", UnixTime::now());
}

/// Lets one call pass every 100 ms. A real program gives it `Clock::default()`.
struct Limiter {
    clock: Clock,
    /// The next call may pass from this time on, ns of the clock's timescale.
    free_from_ns: AtomicU64,
}

impl Limiter {
    const EVERY_NS: u64 = 100_000_000;

    fn passes(&self) -> bool {
        let now_ns = self.clock.now_ordered().as_nanos();
        let next = |free_from_ns| (free_from_ns <= now_ns).then_some(now_ns + Self::EVERY_NS);
        // ORDERING: Relaxed, a time on its own.
        self.free_from_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

/// In a test file this has `#[test]` above it, too.
fn the_limit_holds_on_any_thread() {
    let mock = MockClock::new();
    let limiter = Limiter { clock: mock.clock(), free_from_ns: AtomicU64::new(0) };
    let passes = || (0..5).filter(|_| limiter.passes()).count();
    println!("{} of 5 pass", passes());
    mock.advance(Duration::from_nanos(Limiter::EVERY_NS));
    println!("{} of 5 pass after 100ms", thread::scope(|scope| scope.spawn(passes).join().unwrap_or(0)));
}

fn main() {
    an_entry_lasts_a_minute();
    the_limit_holds_on_any_thread();
}
