//! A hybrid logical clock (Kulkarni, Demirbas and others, "Logical Physical Clocks", 2014) over
//! `Clock::utc`, on three machines.
//!
//! `cargo run --release --features mock,utc --example hybrid_clock`
//!
//! Its output has: "300 messages", "30 messages", "the hybrid clock: never", "in the wrong order:
//! 0".
//!
//! A message goes round between the machines. An observer learns of each sending and each receipt,
//! and compares. The machines' clocks are mocks, so the observer knows the truth: each clock has an
//! offset from UTC within the error that it claims, and time passes when the program says so. A
//! program other than a test uses `Clock::global()`, and waits by its method `wait_until_past`.
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::time::Duration;

use tickline::mock::MockClock;
use tickline::utc::{UtcOrder, UtcReading, UtcUnknown};
use tickline::{Clock, UnixTime};

/// The offset of each machine's clock from UTC, ns, the error that all of them claim, and the width
/// of their readings.
const OFFSETS_NS: [i64; 3] = [0, 4_000_000, -4_000_000];
const ERROR_NS: u64 = 5_000_000;
const WIDTH_NS: u64 = 2 * ERROR_NS;

/// The message is sent so often at once, and then so often after a wait.
const AT_ONCE: usize = 300;
const AFTER_WAIT: usize = 30;

/// How long a message is on its way, and how long a machine keeps it.
const WAY: Duration = Duration::from_micros(50);
const STAY: Duration = Duration::from_micros(5);

/// A time of the hybrid clock: a physical time, and a count of events that have the same one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    ns: u64,
    count: u64,
}

/// The hybrid clock of one machine.
#[derive(Debug)]
struct HybridClock {
    clock: Clock,
    last: Stamp,
}

impl HybridClock {
    /// The stamp of an event. It is greater than the last one, than that of the message that the
    /// event received, and than UTC. No stamp is ahead of UTC by more than the width of a reading.
    fn stamp(&mut self, received: Stamp) -> Result<(Stamp, UtcReading), UtcUnknown> {
        let utc = self.clock.utc()?;
        let known = self.last.max(received);
        let physical = Stamp { ns: utc.latest().as_nanos(), count: 0 };
        self.last = physical.max(Stamp { count: known.count + 1, ..known });
        Ok((self.last, utc))
    }
}

/// What happened on a machine.
#[derive(Debug, Clone, Copy)]
struct Event {
    stamp: Stamp,
    utc: UtcReading,
    /// What no real machine knows: UTC, ns.
    true_ns: u64,
}

struct Machine {
    mock: MockClock,
    hybrid: HybridClock,
    offset_ns: i64,
}

impl Machine {
    fn new(offset_ns: i64) -> Self {
        let mock = MockClock::new();
        mock.step_unix_ns(offset_ns);
        mock.set_utc_error(Ok(Duration::from_nanos(ERROR_NS)));
        Self { hybrid: HybridClock { clock: mock.clock(), last: Stamp::default() }, mock, offset_ns }
    }

    fn event(&mut self, received: Stamp) -> Result<Event, UtcUnknown> {
        let (stamp, utc) = self.hybrid.stamp(received)?;
        let unix_ns = self.hybrid.clock.unix_now().as_nanos();
        Ok(Event { stamp, utc, true_ns: unix_ns.wrapping_sub(self.offset_ns.cast_unsigned()) })
    }
}

/// Time passes for all machines.
fn pass(machines: &[Machine], time: Duration) {
    machines.iter().for_each(|machine| machine.mock.advance(time));
}

/// What the observer has learnt of the messages that were sent in one way.
fn judge(way: &str, hops: &[[Event; 2]]) {
    let count = |is_so: fn(&[Event; 2]) -> bool| hops.iter().filter(|hop| is_so(hop)).count();
    let backward = count(|[sent, received]| received.utc.latest() <= sent.utc.latest());
    let unordered = count(|[sent, received]| sent.utc.order(&received.utc) == UtcOrder::Unknown);
    println!("{} messages, sent {way}:", hops.len());
    println!("  received before the event, by the latest times of both machines: {backward}");
    println!("  readings that overlap, so that they do not tell which was first: {unordered}");
    for [sent, received] in hops {
        assert!(sent.stamp < received.stamp, "causality: {sent:?} {received:?}");
        assert!(!received.utc.definitely_before(&sent.utc), "{sent:?} {received:?}");
    }
    println!("  received before the event, by the hybrid clock: never");
}

fn main() -> Result<(), UtcUnknown> {
    let mut machines = OFFSETS_NS.map(Machine::new);
    let mut hops = Vec::new();
    for hop in 0..AT_ONCE + AFTER_WAIT {
        let [from, to] = [hop, hop + 1].map(|number| number % machines.len());
        let sent = machines[from].event(Stamp::default())?;
        if hop >= AT_ONCE {
            // Commit wait: what was done at `sent.utc` has a smaller `latest` than all that any
            // machine does from now on.
            let left = machines[from].hybrid.clock.time_until_past(&sent.utc)?;
            pass(&machines, left);
        }
        pass(&machines, WAY);
        hops.push([sent, machines[to].event(sent.stamp)?]);
        pass(&machines, STAY);
    }

    let (at_once, after_wait) = hops.split_at(AT_ONCE);
    judge("at once", at_once);
    judge("after a wait until the event was past", after_wait);
    for [sent, received] in after_wait {
        assert!(received.true_ns > sent.true_ns + WIDTH_NS, "the wait lasts for the width of a reading");
        assert!(
            received.utc.latest() > sent.utc.latest(),
            "a wait orders even machines that exchange no stamps"
        );
    }

    // Whether readings of different machines order events, and never wrongly.
    let events = hops.concat();
    for event in &events {
        let [earliest_ns, latest_ns] = [event.utc.earliest(), event.utc.latest()].map(UnixTime::as_nanos);
        assert!((earliest_ns..=latest_ns).contains(&event.true_ns), "a machine keeps its claim: {event:?}");
        assert!((event.true_ns..=event.true_ns + WIDTH_NS).contains(&event.stamp.ns), "{event:?}");
    }
    let pairs = events.iter().flat_map(|one| events.iter().map(move |other| [one, other]));
    let ordered: Vec<_> = pairs.filter(|[one, other]| one.utc.definitely_before(&other.utc)).collect();
    let wrong = ordered.iter().filter(|[one, other]| one.true_ns > other.true_ns).count();
    println!("pairs of events that their readings order: {}, in the wrong order: {wrong}", ordered.len());
    assert!(wrong == 0 && !ordered.is_empty());
    Ok(())
}
